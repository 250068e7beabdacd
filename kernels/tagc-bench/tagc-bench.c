/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench: measures the codecs. See bench.h for the parts, and tagc-bench(1).
 *
 * Output: stdout, and the file of --plot. Exit status: 0; 1: no memory, or a file's error; 2: bad options.
 */
#include <math.h>
#include <string.h>

#include "env/program/output.h"
#include "kernels/tagc-bench/bench.h"

static void run_codecs(const struct bench_options *o, const struct bench_world *world, struct bench_result *results) {
  for (size_t i = 0; i < o->codec_count; i++)
    results[i] = bench_run(o, world, o->codec[i], o->keep_ppm, o->repeat);
}

/* Makes the picture's points. Codecs with a curve get one per sparsity, at rates between the others'. */
static void plot(const struct bench_options *o, const struct bench_world *world, const struct bench_result *results) {
  static const uint32_t keep[] = {3000, 10000, 50000, 100000, 200000, 400000};
  enum { KEEPS = sizeof keep / sizeof *keep };
  static struct bench_result points[BENCH_MOST_CODECS * KEEPS];
  size_t count = 0;
  for (size_t i = 0; i < o->codec_count; i++)
    if (!results[i].carried || !results[i].varies)
      points[count++] = results[i];
    else
      for (size_t k = 0; k < KEEPS; k++)
        points[count++] = bench_run(o, world, o->codec[i], keep[k], 0);
  for (size_t i = 0; i < count; i++)
    points[i].carried &= isfinite(points[i].error) != 0; /* NaN does not fit the picture */
  bench_plot(o, world, points, count);
}

/* Measures the facts about this processor that the model needs; the options may say all of them. */
static void simulate(const struct bench_options *o, struct bench_result *results) {
  const struct bench_simulation *s = &o->simulation;
  if (s->gpu != BENCH_NO_GPU || (s->encode_gbs > 0 && s->decode_gbs > 0)) {
    for (size_t i = 0; i < o->codec_count; i++)
      results[i] = (struct bench_result){.codec = o->codec[i]};
  } else {
    struct bench_world world = bench_world_new(o);
    run_codecs(o, &world, results);
    bench_world_free(&world);
  }
  bench_simulate(o, results);
}

static void show_codecs(const struct bench_options *o, struct bench_result *results) {
  struct bench_world world = bench_world_new(o);
  run_codecs(o, &world, results);
  if (o->plot)
    plot(o, &world, results);
  if (o->json)
    bench_print_json(o, &world, results, o->codec_count);
  else
    bench_print_table(o, &world, results, o->codec_count);
  bench_world_free(&world);
}

static void run(const struct bench_options *o) {
  static struct bench_result results[BENCH_MOST_CODECS];
  if (o->allgather)
    bench_allgather(o);
  else if (o->simulation.wanted)
    simulate(o, results);
  else
    show_codecs(o, results);
}

int main(int argc, char **argv) {
  (void)argc;
  static struct bench_options o;
  const int status = bench_parse(argv, &o);
  if (status < 0)
    run(&o);
  const int error = tagc_output_flush(stdout);
  if (error)
    bench_stop(BENCH_FAILED, "cannot write: %s", strerror(error));
  return status < 0 ? 0 : status;
}
