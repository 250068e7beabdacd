/* SPDX-License-Identifier: BSD-3-Clause
 * See steps.h.
 */
#include "examples/gpt/steps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/fail.h"

void steps_print_progress(const struct step *steps, size_t from, size_t to, size_t all) {
  double seconds = 0.0;
  for (size_t i = from; i < to; i++)
    seconds += steps[i].total_s;
  double mean_ms = 1e3 * seconds / (double)(to - from);
  printf("step %zu/%zu  loss %.3f  step time %.0f ms\n", to, all, steps[to - 1].loss, mean_ms);
  fflush(stdout);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_total(const struct step *steps, size_t count) {
  double *sorted = malloc(count * sizeof *sorted);
  if (!sorted)
    fail(1, "no memory");
  for (size_t i = 0; i < count; i++)
    sorted[i] = steps[i].total_s;
  qsort(sorted, count, sizeof *sorted, by_value);
  double median = 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]);
  free(sorted);
  return median;
}

static struct step mean_step(const struct step *steps, size_t count) {
  struct step mean = {0};
  for (size_t i = 0; i < count; i++) {
    mean.total_s += steps[i].total_s / (double)count;
    mean.all_gather_s += steps[i].all_gather_s / (double)count;
    mean.reduce_scatter_s += steps[i].reduce_scatter_s / (double)count;
    mean.all_reduce_s += steps[i].all_reduce_s / (double)count;
    mean.other_s += steps[i].other_s / (double)count;
    mean.loss += steps[i].loss / (double)count;
  }
  return mean;
}

static double deviation_total(const struct step *steps, size_t count, double mean) {
  double squares = 0.0;
  for (size_t i = 0; i < count; i++)
    squares += (steps[i].total_s - mean) * (steps[i].total_s - mean);
  return count > 1 ? sqrt(squares / (double)(count - 1)) : 0.0;
}

static void print_share(const char *what, double seconds, double total_s) {
  printf("  %-16s %8.1f ms  %5.1f %%\n", what, 1e3 * seconds, 100.0 * seconds / total_s);
}

void steps_print_summary(const struct step *steps, const struct summary *s) {
  const struct step *timed = steps + s->skip_timing;
  size_t count = s->steps - s->skip_timing, tail = (s->steps + 9) / 10;
  struct step mean = mean_step(timed, count);
  double deviation = deviation_total(timed, count, mean.total_s);
  double loss_train = mean_step(steps + s->steps - tail, tail).loss;

  printf("\n%zu steps of %zu parameters on %zu rank%s, %zu skipped (gradient not finite)\n", s->steps, s->params,
         s->ranks, s->ranks == 1 ? "" : "s", s->skipped);
  printf("  training loss    %8.3f     (mean of the last %zu steps)\n", loss_train, tail);
  printf("  validation loss  %8.3f\n", s->loss_val);
  printf("  step time        %8.1f ms  (spread %.1f, mean of %zu steps)\n", 1e3 * mean.total_s, 1e3 * deviation, count);
  print_share("  compute", step_compute_s(&mean), mean.total_s);
  print_share("  all-gather", mean.all_gather_s, mean.total_s);
  print_share("  reduce-scatter", mean.reduce_scatter_s, mean.total_s);
  if (mean.all_reduce_s > 0.0)
    print_share("  all-reduce", mean.all_reduce_s, mean.total_s);
  print_share("  other calls", mean.other_s, mean.total_s);
  printf("train: steps=%zu ranks=%zu params=%zu skipped=%zu loss_train=%.4f loss_val=%.6f step_ms_mean=%.2f "
         "step_ms_sd=%.2f step_ms_median=%.2f compute_ms=%.2f all_gather_ms=%.2f "
         "reduce_scatter_ms=%.2f all_reduce_ms=%.2f other_comm_ms=%.2f\n",
         s->steps, s->ranks, s->params, s->skipped, loss_train, s->loss_val, 1e3 * mean.total_s, 1e3 * deviation,
         1e3 * median_total(timed, count), 1e3 * step_compute_s(&mean), 1e3 * mean.all_gather_s,
         1e3 * mean.reduce_scatter_s, 1e3 * mean.all_reduce_s, 1e3 * mean.other_s);
  fflush(stdout);
}

void steps_write(const struct step *steps, size_t count, const char *path) {
  FILE *file = fopen(path, "w");
  if (!file)
    fail(1, "cannot write %s: %s", path, strerror(errno));
  fprintf(
    file,
    "step\ttotal_ms\tcompute_ms\tall_gather_ms\treduce_scatter_ms\tall_reduce_ms\tother_ms\tloss\tgradient_norm\n");
  for (size_t i = 0; i < count; i++)
    fprintf(file, "%zu\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.6f\t%.6g\n", i + 1, 1e3 * steps[i].total_s,
            1e3 * step_compute_s(&steps[i]), 1e3 * steps[i].all_gather_s, 1e3 * steps[i].reduce_scatter_s,
            1e3 * steps[i].all_reduce_s, 1e3 * steps[i].other_s, steps[i].loss, steps[i].gradient_norm);
  if (!close_written(file))
    fail(1, "cannot write %s: %s", path, strerror(errno));
}
