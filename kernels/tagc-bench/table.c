/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench for people: at most 100 columns.
 */
#include <string.h>

#include "env/program/terminal.h"
#include "kernels/tagc-bench/bench.h"

/* Milliseconds in six columns. */
static void print_ms(double ns) { printf(" %6.*f", ns < 1e7 ? 3 : ns < 1e9 ? 1 : 0, 1e-6 * ns); }

/* Prints a number with three significant digits in nine columns. */
static void print_cell(double value) {
  if (value == 0)
    printf(" %8s", "0");
  else if (value < 1e-3 || value >= 1e5)
    printf(" %8.2e", value);
  else
    printf(" %8.*f", value < 0.01 ? 6 : value < 0.1 ? 5 : value < 10 ? 4 : 1, value);
}

static void print_speed(const struct bench_speed *speed, int from, int to) {
  double gbs = bench_gbs(speed, from, to);
  if (gbs > 0)
    printf("  %6.2f %5.2f", gbs, bench_ratio(speed, from, to));
  else
    printf("  %6s %5s", "-", "-");
}

static void print_codec_head(const struct bench_options *o, const struct bench_world *w) {
  tagc_put_tamed(stdout, basename(w->name));
  printf("\n%s, %d ranks, %llu elements a shard, sparsity %.4g, residual %s, %s, seed %llu\n",
         bench_dtype_name(w->dtype), w->ranks, (unsigned long long)w->n, 1 - 1e-6 * o->keep_ppm, bench_residual_name(o),
         bench_rounding_name(o), (unsigned long long)o->seed);
  if (o->repeat > 0)
    printf("GB/s of the elements as fp32 on one core (%s), and the ratio to memcpy of them in the same run\n",
           tagc_variant_name(tagc_variant()));
}

static void print_errors(const struct bench_options *o, const struct bench_result *results, size_t count) {
  char last[24];
  snprintf(last, sizeof last, "%d steps", o->steps);
  printf("\n%-8s %7s %8s%s %8s %8s", "", "bits an", "error", o->steps > 1 ? "    error" : "", "worst", "");
  printf("%s\n", o->repeat > 0 ? "    encode         decode     unrecovered" : "  unrecovered");
  printf("%-8s %7s %8s", "codec", "element", o->steps > 1 ? "1 step" : "of sum");
  if (o->steps > 1)
    printf(" %8s", last);
  printf(" %8s %8s%s\n", "element", "cosine",
         o->repeat > 0 ? "    GB/s ratio    GB/s ratio           %" : "            %");
  for (size_t i = 0; i < count; i++) {
    const struct bench_result *r = &results[i];
    printf("%-8s", r->codec->name);
    if (!r->carried) {
      printf(" cannot carry this shape%s\n", r->codec->needs_residual && o->residual ? " with this residual" : "");
      continue;
    }
    printf(" %7.3f", r->bits);
    print_cell(r->error_first);
    if (o->steps > 1)
      print_cell(r->error);
    print_cell(r->worst);
    printf(" %8.6f", r->cosine);
    if (o->repeat > 0) {
      print_speed(&r->speed[0], BENCH_PREPARE, BENCH_ENCODE);
      print_speed(&r->speed[0], BENCH_DECODE, BENCH_DECODE);
    }
    if (r->sketch)
      printf("  %10.3f\n", 100 * r->unrecovered);
    else
      printf("  %10s\n", "-");
  }
}

static void print_phases(const struct bench_result *results, size_t count) {
  printf("\n%-8s %-7s |     memcpy    |       prepare       |        encode       |        decode\n", "", "");
  printf("%-8s %-7s |     ms   GB/s |     ms   GB/s ratio |     ms   GB/s ratio |     ms   GB/s ratio\n", "codec",
         "variant");
  for (size_t i = 0; i < count; i++)
    for (size_t v = 0; v < results[i].speeds; v++) {
      const struct bench_speed *s = &results[i].speed[v];
      printf("%-8s %-7s |", results[i].codec->name, tagc_variant_name(s->variant));
      print_ms(s->copy_ns);
      printf(" %6.1f", s->bytes / s->copy_ns);
      for (int phase = 0; phase < BENCH_PHASES; phase++) {
        printf(" |");
        if (s->phase_ns[phase] > 0) {
          print_ms(s->phase_ns[phase]);
          printf(" %6.1f %5.2f", bench_gbs(s, phase, phase), bench_ratio(s, phase, phase));
        } else
          printf(" %6s %6s %5s", "-", "-", "-");
      }
      putchar('\n');
    }
}

void bench_print_table(const struct bench_options *o, const struct bench_world *w, const struct bench_result *results,
                       size_t count) {
  uint64_t nonfinite = 0;
  print_codec_head(o, w);
  print_errors(o, results, count);
  if (o->phases && o->repeat > 0)
    print_phases(results, count);
  for (size_t i = 0; i < count; i++)
    nonfinite = results[i].nonfinite > nonfinite ? results[i].nonfinite : nonfinite;
  if (nonfinite)
    printf("\n%llu sums are not finite, and no part of the errors.\n", (unsigned long long)nonfinite);
}
