/* SPDX-License-Identifier: BSD-3-Clause
 * Training steps with gradients of different kinds, for TAGC_CODEC=auto: two dense units, and one with only some
 * nonzero rows. Ranks have different gradients, so they see different numbers.
 *
 *   auto alone STEPS      one call after the other
 *   auto grouped STEPS    all units in a group, on two communicators at once
 *   auto nan STEPS        step 2, which is sampled before the vote, has NaN and Inf all over rank 1's gradients
 *   auto zero STEPS       in step 2 rank 1 has only zeros
 *   auto denser STEPS     from step 7 on the sparse unit has 20 times as many rows
 *   auto lopsided STEPS   the same, but only in the shards of ranks with even numbers
 *   auto extra STEPS      in step 3 a broadcast comes before unit 0, which is as large as unit 2
 *
 * Checks every result against the exact mean: dense units within the error of 4 bits, the sparse one within that of
 * rounding to bf16. Prints a hash of all results, and their errors.
 */
#include "tests/e2e/harness.h"

#include <stdbool.h>

enum { UNITS = 3, SPARSE = 1, MOST = 60000, LOOKED_AT = 2, DENSER = 7, PLAIN_AGAIN = DENSER + 9 };

static size_t sizes[UNITS] = {30000, 60000, 45001};
static float *gradient[UNITS], *result[2][UNITS];
static double worst[UNITS];
static uint64_t hash;
static enum { ALONE, GROUPED, NOT_A_NUMBER, ZERO, EXTRA, DENSE_LATER, LOPSIDED, MODES } mode;

static const char *const modes[MODES] = {"alone", "grouped", "nan", "zero", "extra", "denser", "lopsided"};

/* With equal units (extra) the cycle is known a step later. */
static bool is_odd(int kind, uint64_t step) { return step == LOOKED_AT + (mode == EXTRA) && (int)mode == kind; }

static bool gets_denser(void) { return mode == DENSE_LATER || mode == LOPSIDED; }

static float gradient_at(int r, uint64_t step, int unit, size_t i) {
  if (is_odd(ZERO, step) && r == 1)
    return 0;
  if (is_odd(NOT_A_NUMBER, step) && r == 1 && i % 3 == 0)
    return i % 2 ? NAN : INFINITY;
  uint64_t h = mix(mix((uint64_t)r << 40 ^ step << 8 ^ (uint64_t)unit) ^ i);
  float x = (float)(int64_t)(h & 0xffffff) / 8388608 - 1;
  bool here = mode != LOPSIDED || i / sizes[unit] % 2 == 0;
  uint64_t rows = gets_denser() && here && step >= DENSER ? 20 : 1;
  if (unit == SPARSE && mix(step ^ i / 64) % (uint64_t)(300 + 100 * r) >= rows)
    return 0;
  return x * x * x * (float)(r + 1);
}

static void check(int comm, uint64_t step) {
  for (int u = 0; u < UNITS; u++) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < sizes[u]; i++) {
      double mean = 0;
      for (int r = 0; r < nranks; r++)
        mean += gradient_at(r, step, u, (size_t)rank * sizes[u] + i) / nranks;
      double d = result[comm][u][i] - mean;
      difference += d * d;
      norm += mean * mean;
      hash = mix(hash ^ float_to_bits(result[comm][u][i]));
    }
    double off = sqrt(difference / norm); /* NaN if a result is */
    if (gets_denser() && u == SPARSE && step >= DENSER && step < PLAIN_AGAIN)
      continue; /* values come late, but are not lost: later steps must be right */
    worst[u] = off > worst[u] ? off : worst[u];
  }
}

static void reduce(int comm, bool disturb) {
  float x = 0;
  for (int u = UNITS; u-- > 0;) {
    if (disturb && u == 0)
      CHECK(ncclBroadcast(&x, &x, 1, ncclFloat32, 0, world, NULL));
    CHECK(ncclReduceScatter(gradient[u], result[comm][u], sizes[u], ncclFloat32, ncclAvg, comm ? other : world, NULL));
  }
}

static void make_step(uint64_t step, bool grouped) {
  float x = 1, sum;
  for (int u = 0; u < UNITS; u++)
    for (size_t i = 0; i < sizes[u] * (size_t)nranks; i++)
      gradient[u][i] = gradient_at(rank, step, u, i);
  if (grouped)
    CHECK(ncclGroupStart());
  reduce(0, is_odd(EXTRA, step));
  if (grouped) {
    reduce(1, false);
    CHECK(ncclGroupEnd());
    CHECK(ncclAllReduce(&x, &sum, 1, ncclFloat32, ncclSum, other, NULL));
    check(1, step);
  }
  CHECK(ncclAllReduce(&x, &sum, 1, ncclFloat32, ncclSum, world, NULL));
  check(0, step);
}

int main(int argc, char **argv) {
  while (argc == 3 && mode < MODES && strcmp(argv[1], modes[mode]) != 0)
    mode++;
  if (argc != 3 || mode == MODES) {
    fprintf(stderr, "usage: auto alone|grouped|nan|zero|extra|denser|lopsided STEPS\n");
    return 2;
  }
  bool grouped = mode == GROUPED;
  meet();
  if (mode == EXTRA)
    sizes[2] = sizes[0];
  for (int u = 0; u < UNITS; u++) {
    gradient[u] = malloc(sizes[u] * (size_t)nranks * sizeof(float));
    for (int c = 0; c < 2; c++)
      result[c][u] = malloc(sizes[u] * sizeof(float));
  }
  if (grouped)
    CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (uint64_t step = 0; step < strtoull(argv[2], NULL, 10); step++)
    make_step(step, grouped);
  for (int u = 0; u < UNITS; u++)
    all_ok(worst[u] < (u == SPARSE ? 0.01 : 0.15), "unit %d is off by %.2g at most", u, worst[u]);
  uint64_t all = 0;
  CHECK(ncclAllReduce(&hash, &all, 1, ncclUint64, ncclSum, world, NULL));
  if (rank == 0)
    printf("hash %016llx\n", (unsigned long long)all);
  if (grouped)
    CHECK(ncclCommDestroy(other));
  other = NULL;
  for (int u = 0; u < UNITS; u++) {
    free(gradient[u]);
    free(result[0][u]);
    free(result[1][u]);
  }
  return finish();
}
