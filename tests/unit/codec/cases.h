/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients that are hard for codecs, and helpers for tests of every codec.
 *
 * Threads  Single-threaded (sim.h). Failure: ends the test program.
 */
#ifndef TESTS_UNIT_CODEC_CASES_H
#define TESTS_UNIT_CODEC_CASES_H

#include "kernels/codec/exceptions.h"
#include "tests/unit/codec/sim.h"

enum pattern {
  GAUSS,
  ZERO, /* of both signs */
  EQUAL,
  ALTERNATING,
  SPIKE_FIRST, /* a huge value at the start of a block, then tiny ones */
  SPIKE_LAST,  /* at the end of a block, and of the shard */
  DENORMAL,    /* around 2^-120, below which values count as zero, and 2^-110, the limit for blocks */
  WIDE,        /* all exponents side by side */
  TIES,        /* halfway between two codes, where the scale is 1 */
  LARGE,       /* next to 2^120 */
  FEW_EXCEPTIONS,
  MANY_EXCEPTIONS, /* more than fit, in one shard */
  PATTERNS,
};

/* Block edges and primes. */
static const uint64_t case_sizes[] = {1, 2, 31, 32, 33, 127, 129, 255, 256, 257, 509, 511, 512, 513, 1009, 2053};
enum { CASE_SIZES = sizeof case_sizes / sizeof *case_sizes };

static inline float case_exception(uint64_t roll) {
  static const float values[] = {NAN, INFINITY, -INFINITY, 0x1p120f, -0x1.fffffep127f};
  return values[roll % 5];
}

static inline float case_value(enum pattern pattern, int shard, uint64_t i, uint64_t n) {
  const uint64_t roll = sim_random();
  const float sign = roll & 1 ? -1 : 1;
  switch (pattern) {
  case ZERO: return 0 * sign;
  case EQUAL: return 0.37f;
  case ALTERNATING: return i % 2 ? -1.5f : 1.5f;
  case SPIKE_FIRST: return i % 256 == 0 ? 1000 : 1e-3f * sim_normal();
  case SPIKE_LAST: return i % 256 == 255 || i == n - 1 ? -1000 : 1e-3f * sim_normal();
  case DENORMAL: return tagc_float_of((uint32_t)(roll >> 32 & 0x807fffffu) | (uint32_t)(roll % 20) << 23);
  case WIDE: return tagc_float_of((uint32_t)(roll >> 32 & 0x807fffffu) | (uint32_t)(roll % 247) << 23);
  case TIES: return i % 128 == 0 ? 127 : sign * ((float)(roll % 126) + 0.5f);
  case LARGE: return sign * 0x1.fffffep119f;
  case FEW_EXCEPTIONS: return i % 97 == 5 ? case_exception(roll >> 8) : sim_normal();
  case MANY_EXCEPTIONS: return shard == 0 && i % 5 == 0 ? case_exception(roll >> 8) : sim_normal();
  default: return sim_normal();
  }
}

static inline void case_fill(struct sim *sim, enum pattern pattern) {
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      for (uint64_t i = 0; i < sim->shape.n; i++)
        sim_put(sim, rank, shard, i, case_value(pattern, shard, i, sim->shape.n));
}

/* The residual of a foreign shard in any storage; zeros without a residual. */
static inline void case_residual(const struct sim *sim, int rank, int shard, float *out) {
  const struct tagc_job *job = &sim->job[rank];
  const uint64_t n = sim->shape.n;
  memset(out, 0, n * sizeof *out);
  for (uint64_t at = 0; at < n && job->residual && !job->residual_empty && shard != rank; at += TAGC_RESIDUAL_BLOCK)
    tagc_residual_load(job, shard, at, n - at < TAGC_RESIDUAL_BLOCK ? (uint32_t)(n - at) : TAGC_RESIDUAL_BLOCK,
                       out + at);
}

/* The input of `rank` for a shard: scale * g + e, if there is an e. */
static inline void case_given(const struct sim *sim, int rank, int shard, float *out) {
  const struct tagc_job *job = &sim->job[rank];
  const bool more = job->residual && !job->residual_empty && shard != rank;
  case_residual(sim, rank, shard, out);
  for (uint64_t i = 0; i < sim->shape.n; i++) {
    const float x = job->scale * sim_sent(sim, rank, shard, i);
    out[i] = more ? x + out[i] : x;
  }
}

/* The larger value, or NaN if one of them is. */
static inline double case_worse(double a, double b) { return isnan(a) || a > b ? a : b; }

/* The result of a rank, in its place, and its bytes. */
static inline const void *case_result(const struct sim *sim, int rank) {
  return sim->in_place ? tagc_job_shard(&sim->job[rank], rank) : sim->job[rank].recv;
}

static inline size_t case_result_bytes(const struct sim *sim) {
  return sim->shape.n * tagc_dtype_size(sim->shape.dtype);
}

#endif
