/* SPDX-License-Identifier: BSD-3-Clause
 * The counters of the codec `lhc` at 64 ranks, and with values that are hard in fixed point: all ranks' largest ones in
 * one place, sums that cancel, twelve decades in a line.
 */
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

enum { RANKS = 64, N = 4608, KEEP_PPM = 25000 };

/* One call in which all ranks send values, given by `value`, to shard 0 only. Compares results and residuals with exact
 * sums: each result by itself (`one_by_one`), or by the norm of all. */
static void check(float (*value)(int rank, uint64_t i), enum tagc_storage storage, double bound, bool one_by_one,
                  const char *what) {
  struct sim sim = sim_new_stored("lhc", N, RANKS, TAGC_FLOAT32, KEEP_PPM, storage);
  double error = 0, norm = 0, worst = 0;
  float left[256];
  for (int rank = 0; rank < RANKS; rank++)
    for (uint64_t i = 0; i < N; i++)
      sim_put(&sim, rank, 0, i, value(rank, i));
  sim_step(&sim, 42);
  for (uint64_t i = 0; i < N; i++) {
    double want = 0, got = (double)sim_got(&sim, 0, i), all = 0;
    for (int rank = 0; rank < RANKS; rank++) {
      const double x = (double)value(rank, i);
      want += x;
      all += fabs(x);
      if (rank == 0)
        continue;
      tagc_residual_load(&sim.job[rank], 0, i / 256 * 256, 256, left);
      got += (double)left[i % 256];
    }
    error += (got - want) * (got - want) / 0x1p200;
    norm += all * all / 0x1p200;
    worst = fmax(worst, fabs(got - want) - bound * all);
  }
  ok(sim.layout.sketch_count > 0 && sim.stats.unrecovered == 0 && sim.stats.overflowed == 0 &&
       !sim.job[0].nonfinite_seen,
     "%s: peeled, and finite", what);
  ok(one_by_one ? worst <= 0 : sqrt(error) <= bound * sqrt(norm), "results and residuals are the sum");
  note("relative error %.2g", sqrt(error / norm));
  sim_free(&sim);
}

/* Sums reach 64 * 2^120, and 63 of the largest numbers meet in every counter: the most that 32 bits can hold. */
static float largest(int rank, uint64_t i) {
  (void)rank;
  return i % 41 == 0 ? 0x1.fffffep119f : 0;
}

static float cancelling(int rank, uint64_t i) {
  return i % 41 ? 0 : rank == 0 ? 1.0f : rank % 2 ? 0x1.fffffep119f : rank == 62 ? 0 : -0x1.fffffep119f;
}

/* 24 values in each line of 32 are zero; the others are from 10^-6 to 10^6: most are below the unit of the counters. */
static float decades(int rank, uint64_t i) {
  if (i % 4 || i % 256 > 31)
    return 0;
  return (float)pow(10, -6 + (double)(i / 4 % 8) * 12 / 7) * (rank % 3 ? 1.0f : -0.7f);
}

static void check_all(void) {
  sim_random_restart();
  check(largest, TAGC_STORAGE_FP32, 0x1p-23, true, "the largest numbers of 64 ranks in one place");
  check(cancelling, TAGC_STORAGE_FP32, 0, true, "63 numbers that cancel, but for one");
  check(decades, TAGC_STORAGE_FP32, 0x1p-22, true, "twelve decades in a line");
  check(decades, TAGC_STORAGE_BF16, 3e-7, false, "the same with a residual of two bytes");
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
