/* SPDX-License-Identifier: BSD-3-Clause
 * All-reduces with the sizes and the beginning of gradients, whose contents may be parameters that are averaged.
 *
 * Run under tests/standin/launch with the library preloaded and TAGC_CODEC=q4. The codec's errors tell which calls are
 * compressed.
 *
 *   averages CONTENT   what each rank sums in every step, behind a broadcast of so many parameters
 *     parameters       its parameters, which are nearly those of the others: all sums must be exact
 *     assumed          the same with TAGC_ASSUME=gradients: those of the last steps must be compressed
 *     unmoved          the same, but zeros in the first half of the steps: all sums must be exact
 *     buckets          the same behind DDP's broadcast of new buckets, which only gradients follow: like "assumed"
 *     gradients        gradients of its own batch: those of the last steps must be compressed
 *     same             gradients of one batch for all ranks: likewise
 *     later            gradients of its own batch in such buckets, then all parameters at once: sums of these must be
 * exact
 */
#include "tests/e2e/harness.h"

enum { SLOTS = 3, MOST = 100000, STEPS = 28, LAST = 4, FLAT_STEPS = 560 };

enum content { ZEROS, PARAMETERS, GRADIENTS, SAME };

static const size_t counts[SLOTS] = {32801, 33001, 33503};

/* An approximation of the normal distribution. */
static float normal(uint64_t seed, size_t i) {
  const uint64_t h = mix(seed ^ i);
  return (float)((h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48)) / 65536 - 2;
}

static float value(enum content content, int r, uint64_t step, int slot, size_t i) {
  const uint64_t where = mix((uint64_t)slot + 1), when = mix(where ^ step << 8);
  const float own = content == SAME ? 0 : normal(mix(when ^ (uint64_t)(r + 1) << 40), i);
  switch (content) {
  case ZEROS: return 0;
  case PARAMETERS: return 0.02f * normal(where, i) + 2e-4f * own;
  case GRADIENTS: return own;
  default: return normal(when, i);
  }
}

/* Sums a call of the step, in place, as DDP does. True if the sums are those of all ranks but for their rounding. */
static bool sum_is_exact(enum content content, uint64_t step, int slot, size_t count) {
  static float values[MOST];
  bool exact = true;
  for (size_t i = 0; i < count; i++)
    values[i] = value(content, rank, step, slot, i);
  CHECK(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, other, NULL));
  for (size_t i = 0; i < count && exact; i++) {
    double sum = 0, size = 0;
    for (int r = 0; r < nranks; r++) {
      const double x = value(content, r, step, slot, i);
      sum += x, size += fabs(x);
    }
    exact = fabs(values[i] - sum) <= 1e-6 * size;
  }
  return exact;
}

/* What DDP's constructor does: ranks compare their parameters, and get those of rank 0. */
static void construct(size_t total) {
  static float parameters[MOST];
  int64_t shapes[2 * SLOTS] = {SLOTS}, numbers[16];
  CHECK(ncclAllGather(shapes, numbers, 1, ncclInt64, other, NULL));
  CHECK(ncclBroadcast(shapes, shapes, 2 * SLOTS, ncclInt64, 0, other, NULL));
  CHECK(ncclBroadcast(parameters, parameters, total, ncclFloat32, 0, other, NULL));
}

/* What DDP does when it has cut its buckets anew. */
static void tell_buckets(void) {
  int32_t parameters[3 * SLOTS + 1] = {0}, buckets[SLOTS] = {0};
  CHECK(ncclBroadcast(parameters, parameters, 3 * SLOTS + 1, ncclInt32, 0, other, NULL));
  CHECK(ncclBroadcast(buckets, buckets, SLOTS, ncclInt32, 0, other, NULL));
}

static const struct program {
  const char *name;
  enum content content;
  uint64_t zeros; /* steps that sum zeros, at first */
  bool rebuilds, then_flat, plain;
} programs[] = {
  {"parameters", PARAMETERS, .plain = true},
  {"unmoved", PARAMETERS, .zeros = STEPS / 2, .plain = true},
  {"assumed", PARAMETERS, .zeros = 0},
  {"buckets", PARAMETERS, .rebuilds = true},
  {"gradients", GRADIENTS, .zeros = 0},
  {"same", SAME, .zeros = 0},
  {"later", GRADIENTS, .rebuilds = true, .then_flat = true},
};

static void run(const struct program *p) {
  size_t total = 0;
  long exact = 0, last_exact = 0, flat_exact = 0;
  for (int s = 0; s < SLOTS; s++)
    total += counts[s];
  construct(total);
  for (uint64_t step = 0; step < STEPS; step++) {
    for (int s = 0; s < SLOTS; s++) {
      const bool is = sum_is_exact(step < p->zeros ? ZEROS : p->content, step, s, counts[s]);
      exact += is;
      last_exact += is && step >= STEPS - LAST;
    }
    if (p->rebuilds && step == 0)
      tell_buckets();
  }
  for (uint64_t step = STEPS; step < STEPS + FLAT_STEPS && p->then_flat; step++)
    flat_exact += sum_is_exact(PARAMETERS, step, SLOTS, total);
  if (p->plain)
    all_ok(exact == STEPS * SLOTS, "%s: all sums are exact (%ld of %d)", p->name, exact, STEPS * SLOTS);
  else
    all_ok(last_exact == 0, "%s: all sums of the last steps are compressed (%ld of %d are exact)", p->name, last_exact,
           LAST * SLOTS);
  if (p->then_flat)
    all_ok(flat_exact == FLAT_STEPS, "%s: all sums of parameters are exact (%ld of %d)", p->name, flat_exact,
           FLAT_STEPS);
}

int main(int argc, char **argv) {
  meet();
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    if (argc == 2 && strcmp(argv[1], programs[i].name) == 0)
      run(&programs[i]);
  CHECK(ncclCommDestroy(other));
  other = NULL;
  return finish();
}
