/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` with values that are not finite: they arrive at their places, touch nothing else, and leave no trace
 * in the next step. Too many make the shard NaN; every rank knows.
 */
#include "kernels/codec/exceptions.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

static void fill(struct sim *sim) {
  const uint64_t n = sim->shape.n;
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      for (uint64_t i = 0; i < n; i += 23)
        sim_put(sim, rank, shard, i, (float)((int)(i % 41) - 20));
}

static uint64_t count_wrong(const struct sim *sim, int shard) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < sim->shape.n; i++) {
    float want = 0;
    for (int rank = 0; rank < sim->shape.nranks; rank++)
      want += sim_sent(sim, rank, shard, i);
    float got = sim_got(sim, shard, i);
    wrong += isnan(want) ? !isnan(got) : got != want;
  }
  return wrong;
}

static void check(uint64_t n, int nranks, enum tagc_dtype dtype, float bad, const char *what) {
  struct sim sim = sim_new("lhc", n, nranks, dtype, 150000);
  const int shard = 1, other = nranks - 1;
  fill(&sim);
  sim_put(&sim, 0, shard, 0, bad);
  sim_put(&sim, 0, shard, n - 1, -bad);
  sim_put(&sim, other == shard ? 0 : other, shard, n / 2, bad);
  sim_step(&sim, 1);
  uint64_t wrong = 0;
  for (int rank = 0; rank < nranks; rank++)
    wrong += count_wrong(&sim, rank);
  bool seen = true;
  for (int rank = 0; rank < nranks; rank++)
    seen &= sim.job[rank].nonfinite_seen;
  uint64_t travelled = sim.stats.nonfinite;
  fill(&sim);
  sim_put(&sim, 0, shard, n - 1, 0);
  sim_put(&sim, other == shard ? 0 : other, shard, n / 2, 0);
  sim_put(&sim, 0, shard, 0, 5);
  sim_step(&sim, 2);
  for (int rank = 0; rank < nranks; rank++)
    wrong += count_wrong(&sim, rank) + sim.job[rank].nonfinite_seen;
  ok(wrong == 0 && seen && travelled == 3 && sim.stats.overflowed == 0, "%s, n=%llu W=%d type %d", what,
     (unsigned long long)n, nranks, dtype);
  sim_free(&sim);
}

static void check_own(uint64_t n) {
  struct sim sim = sim_new("lhc", n, 3, TAGC_FLOAT32, 100000);
  fill(&sim);
  sim_put(&sim, 2, 2, 77, INFINITY);
  sim_step(&sim, 1);
  ok(sim.job[2].nonfinite_seen && sim.job[0].nonfinite_seen && sim.job[1].nonfinite_seen &&
       isinf(sim_got(&sim, 2, 77)) && count_wrong(&sim, 2) == 0,
     "a rank's own infinity, n=%llu", (unsigned long long)n);
  sim_free(&sim);
}

static void check_overflow(uint64_t n, uint64_t bad) {
  struct sim sim = sim_new("lhc", n, 2, TAGC_FLOAT32, 200000);
  fill(&sim);
  for (uint64_t i = 0; i < bad; i++)
    sim_put(&sim, 0, 1, i * (n / bad), INFINITY);
  sim_step(&sim, 1);
  bool fits = bad <= tagc_exceptions_capacity(n);
  uint64_t nans = 0;
  for (uint64_t i = 0; i < n; i++)
    nans += isnan(sim_got(&sim, 1, i));
  ok(nans == (fits ? 0 : n) && sim.stats.overflowed == !fits && count_wrong(&sim, 0) == 0 &&
       (!fits || count_wrong(&sim, 1) == 0),
     "%llu exceptions in %llu values: %s", (unsigned long long)bad, (unsigned long long)n, fits ? "fit" : "NaN");
  for (uint64_t i = 0; i < bad; i++)
    sim_put(&sim, 0, 1, i * (n / bad), 3);
  sim_step(&sim, 2);
  ok(count_wrong(&sim, 1) == 0 && !sim.job[1].nonfinite_seen, "and no trace of them in the next step");
  sim_free(&sim);
}

static void check_all(void) {
  static const uint64_t sizes[] = {600, 100003};
  sim_random_restart();
  for (int s = 0; s < 2; s++)
    for (int nranks = 2; nranks <= 4; nranks++)
      for (int dtype = 0; dtype < 3; dtype++) {
        check(sizes[s], nranks, (enum tagc_dtype)dtype, NAN, "NaN");
        check(sizes[s], nranks, (enum tagc_dtype)dtype, INFINITY, "infinity");
        if (dtype != TAGC_FLOAT16)
          check(sizes[s], nranks, (enum tagc_dtype)dtype, 0x1p121f, "2^121");
      }
  check(600, 2, TAGC_FLOAT32, 3.4028235e38f, "the largest number");
  check(400000, 2, TAGC_FLOAT32, INFINITY, "infinity, several stripes");
  check_own(500);
  check_own(60000);
  check_overflow(1000, 16);
  check_overflow(1000, 17);
  check_overflow(200000, 49);
  check_overflow(200000, 50);
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
