/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` with a support that fits: integers are exact to the bit, real values to 1e-6, nothing stays behind.
 */
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

enum pattern { RANDOM, ROWS, COLUMN };

static const char *const pattern_name[] = {"random", "rows", "column"};

/* A sparsity with a payload smaller than the plain call, as the plan would require. */
static uint32_t keep_for(int nranks) { return 160000 / (uint32_t)(nranks - 1); }

/* A value of a rank: small integers that every type holds, or anything. */
static float some_value(enum tagc_dtype dtype, bool integers) {
  if (integers)
    return (float)((int)(sim_random() % 61) - 30);
  float x = sim_normal() * (float)exp2((double)(sim_random() % 8));
  return dtype == TAGC_FLOAT16 ? x : x * 1e-3f;
}

/* Fills one shard of `rank` so that each stripe stays within its capacity; the supports of ranks differ. */
static void fill_shard(struct sim *sim, int rank, int shard, enum pattern pattern, bool integers) {
  const uint64_t n = sim->shape.n, width = 768;
  uint64_t room = sim->layout.capacity - sim->layout.capacity / 16;
  if (pattern == RANDOM)
    for (uint64_t i = 0; i < room; i++)
      sim_put(sim, rank, shard, sim_random() % n, some_value(sim->shape.dtype, integers));
  else if (pattern == ROWS)
    for (; room >= width; room -= width)
      for (uint64_t row = sim_random() % (n / width + 1), i = row * width; i < n && i < (row + 1) * width; i++)
        sim_put(sim, rank, shard, i, some_value(sim->shape.dtype, integers));
  else
    for (uint64_t i = sim_random() % (width < n ? width : n); i < n; i += width)
      sim_put(sim, rank, shard, i, some_value(sim->shape.dtype, integers));
}

/* The first step has no residual; the second one must add only its own values. */
static void check(uint64_t n, int nranks, enum tagc_dtype dtype, enum pattern pattern, bool integers, bool in_place) {
  struct sim sim = sim_new("lhc", n, nranks, dtype, keep_for(nranks));
  sim.in_place = in_place;
  double error = 0, norm = 0;
  uint64_t wrong = 0;
  double *want = sim_memory((size_t)nranks * n * sizeof *want);
  for (uint64_t step = 0; step < 2; step++) {
    sim_clear(&sim);
    for (int rank = 0; rank < nranks; rank++) {
      sim.job[rank].scale = (float)(1 << rank % 3);
      sim.job[rank].divisor = (float)nranks;
      for (int shard = 0; shard < nranks; shard++)
        fill_shard(&sim, rank, shard, pattern, integers);
    }
    for (int shard = 0; shard < nranks; shard++)
      for (uint64_t i = 0; i < n; i++) {
        double sum = 0, size = 0;
        for (int rank = 0; rank < nranks; rank++) {
          double x = (double)sim.job[rank].scale * (double)sim_sent(&sim, rank, shard, i);
          sum += x;
          size += fabs(x);
        }
        want[(uint64_t)shard * n + i] = sum / nranks;
        norm += size * size / nranks / nranks;
      }
    sim_step(&sim, 100 + step);
    for (int shard = 0; shard < nranks; shard++)
      for (uint64_t i = 0; i < n; i++) {
        double d = (double)sim_got(&sim, shard, i) - want[(uint64_t)shard * n + i];
        /* In 16 bits only the rounding of the result remains: compare with it. */
        uint16_t rounded[2];
        tagc_store(rounded, 0, dtype, (float)want[(uint64_t)shard * n + i]);
        float expected = tagc_load(rounded, 0, dtype);
        wrong += sim_got(&sim, shard, i) != expected;
        error += dtype == TAGC_FLOAT32 ? d * d : 0;
      }
  }
  bool exact = wrong == 0 && sim.stats.residual_norm2 == 0;
  bool close = sqrt(error) <= 1e-6 * sqrt(norm);
  bool rounded_once = dtype == TAGC_FLOAT32 || wrong <= (uint64_t)nranks * n / 500;
  ok(sim.stats.unrecovered == 0 && (integers ? exact : close && rounded_once), "n=%llu W=%d type %d, %s %s%s%s",
     (unsigned long long)n, nranks, dtype, pattern_name[pattern], integers ? "integers" : "reals",
     in_place ? ", in place" : "", sim.layout.sketch_count ? "" : ", no sketch");
  if (!integers && dtype == TAGC_FLOAT32)
    note("relative L2 error %.2g", norm > 0 ? sqrt(error / norm) : 0);
  free(want);
  sim_free(&sim);
}

static void check_all(void) {
  static const uint64_t sizes[] = {1, 5, 31, 32, 33, 1023, 1024, 1025, 7919, 65536};
  static const int ranks[] = {2, 3, 4, 8};
  sim_random_restart();
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int w = 0; w < 4; w++)
      for (int dtype = 0; dtype < 3; dtype++)
        check(sizes[s], ranks[w], (enum tagc_dtype)dtype, RANDOM, (dtype + w) % 2 == 0, (s + (size_t)w) % 2 == 1);
  for (int w = 0; w < 4; w++)
    for (int pattern = ROWS; pattern <= COLUMN; pattern++)
      for (int integers = 0; integers < 2; integers++)
        check(131071, ranks[w], (enum tagc_dtype)((w + pattern) % 3), (enum pattern)pattern, integers, false);
  check(1000003, 2, TAGC_FLOAT32, RANDOM, true, false);
  check(1000003, 2, TAGC_FLOAT32, RANDOM, false, true);
  check(1 << 20, 2, TAGC_BFLOAT16, ROWS, true, false);
  check(1 << 20, 3, TAGC_FLOAT32, COLUMN, false, false);
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
