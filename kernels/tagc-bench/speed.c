/* SPDX-License-Identifier: BSD-3-Clause
 * The speed of a codec against memcpy of the foreign elements as fp32. Times are medians over repetitions, which run
 * memcpy and the phases in turn: each finds the caches as the others leave them.
 */
#include <stdlib.h>
#include <string.h>

#include "env/clock.h"
#include "kernels/tagc-bench/bench.h"

enum { COPY = BENCH_PHASES, TIMES };

/* The data of memcpy: the codec's own input, if that is fp32. */
struct copy {
  const void *from;
  void *to;
  size_t bytes;
};

/* The all-reduce with max: with those that the other ranks had when their messages were made. The residual of this rank
 * has grown since, and its own exponents with it. */
static void join_exponents(struct tagc_job *job, const uint8_t *others) {
  const size_t bytes = (size_t)job->shape.nranks * job->layout.exponent_bytes;
  for (size_t i = 0; i < bytes; i++)
    job->exponents[i] = others[i] > job->exponents[i] ? others[i] : job->exponents[i];
}

static void run_once(const struct tagc_codec *codec, struct tagc_job *job, const struct copy *copy,
                     const uint8_t *exponents, double times[TIMES]) {
  double began = (double)tagc_clock_ns();
  memcpy(copy->to, copy->from, copy->bytes);
  __asm__ volatile("" : : "r"(copy->to) : "memory");
  double copied = (double)tagc_clock_ns();
  if (codec->prepare)
    codec->prepare(job);
  double prepared = (double)tagc_clock_ns();
  join_exponents(job, exponents);
  double resumed = (double)tagc_clock_ns();
  codec->encode(job);
  double encoded = (double)tagc_clock_ns();
  codec->decode(job);
  times[BENCH_DECODE] = (double)tagc_clock_ns() - encoded;
  times[BENCH_ENCODE] = encoded - resumed;
  times[BENCH_PREPARE] = prepared - copied;
  times[COPY] = copied - began;
}

struct bench_speed bench_measure(const struct tagc_codec *codec, struct tagc_job *job, int repeat) {
  static double times[TIMES][BENCH_MOST_REPEAT];
  const size_t part = (size_t)job->shape.nranks * job->layout.exponent_bytes;
  const size_t bytes = (size_t)(job->shape.nranks - 1) * job->shape.n * sizeof(float);
  struct bench_speed speed = {.has_prepare = codec->prepare != NULL, .bytes = (double)bytes};
  void *other = job->shape.dtype == TAGC_FLOAT32 ? NULL : bench_need(bytes);
  struct copy copy = {other ? other : (const float *)job->send + job->shape.n, bench_need(bytes), bytes};
  uint8_t *exponents = bench_need(part);
  if (part)
    memcpy(exponents, job->exponents, part);
  for (int i = -2; i < repeat; i++) { /* two to warm up */
    double once[TIMES];
    run_once(codec, job, &copy, exponents, once);
    for (int t = 0; t < TIMES && i >= 0; t++)
      times[t][i] = once[t];
  }
  speed.copy_ns = bench_median(times[COPY], repeat);
  for (int phase = 0; phase < BENCH_PHASES; phase++)
    speed.phase_ns[phase] = phase == BENCH_PREPARE && !codec->prepare ? 0 : bench_median(times[phase], repeat);
  bench_release(other);
  bench_release(copy.to);
  bench_release(exponents);
  return speed;
}

static double sum_ns(const struct bench_speed *speed, int from, int to) {
  double ns = 0;
  for (int phase = from; phase <= to; phase++)
    ns += speed->phase_ns[phase];
  return ns;
}

double bench_gbs(const struct bench_speed *speed, int from, int to) {
  double ns = sum_ns(speed, from, to);
  return ns > 0 ? speed->bytes / ns : 0;
}

double bench_ratio(const struct bench_speed *speed, int from, int to) {
  double ns = sum_ns(speed, from, to);
  return ns > 0 ? speed->copy_ns / ns : 0;
}
