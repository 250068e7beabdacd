/* SPDX-License-Identifier: BSD-3-Clause
 * Steps, some of them irregular, with gradients that identify their unit: each unit has nonzeros only in its own
 * places. The library keeps the unsent part of a gradient for later calls of its slot. If it added that to another
 * unit's gradient, the result would have values in wrong places.
 *
 *   signatures apart STEPS   units of different sizes: a unit is skipped, reduced twice, or followed by an unknown
 *                            reduction; a second communicator does the same; no value is ever in a wrong place, and
 *                            nothing is dropped
 *   signatures alike STEPS   all blocks have one size: after a skip the calls up to the root cannot be told apart, and
 *                            may get another block's values; from the next step on no value is in a wrong place
 *
 * Prints "strayed N", the number of calls with values in a wrong place, and "skipped N", the number of steps with a
 * skipped block.
 */
#include "tests/e2e/harness.h"

enum { BLOCKS = 5, UNITS = BLOCKS + 1, LARGEST = 12000 };

static size_t sizes[UNITS] = {9001, 6000, 7000, 8000, 10000, 12000}; /* the root is the first one */
static float *gradient, *result, *gathered, parameters[LARGEST];
static unsigned strayed, skipped;

/* Dense in its places, a few values much larger than most: each call sends some of the residual, and most stays. Larger
 * in irregular steps, so the same holds for strayed values. */
static float value(int r, uint64_t step, int unit, size_t i) {
  const uint64_t h = mix(mix((uint64_t)r << 40 ^ step << 8 ^ (uint64_t)unit) ^ i);
  return i % UNITS == (size_t)unit ? (step % 6 == 5 || step % 12 == 7 ? 2 : 1) / (0.001f + (float)(h & 0xffff) / 65536)
                                   : 0;
}

static void gather(int unit, ncclComm_t comm) {
  CHECK(ncclAllGather(parameters, gathered, sizes[unit], ncclFloat32, comm, NULL));
}

/* Reduces a unit's gradient. True if all values of the result are in its places. */
static bool reduce(int unit, uint64_t step, ncclComm_t comm) {
  bool good = true, any = false;
  for (int shard = 0; shard < nranks; shard++)
    for (size_t i = 0; i < sizes[unit]; i++)
      gradient[(size_t)shard * sizes[unit] + i] = value(rank, step, unit, i);
  CHECK(ncclReduceScatter(gradient, result, sizes[unit], ncclFloat32, ncclSum, comm, NULL));
  for (size_t i = 0; i < sizes[unit]; i++) {
    good &= result[i] == 0 || i % UNITS == (size_t)unit;
    any |= result[i] != 0;
  }
  strayed += !good;
  return good && any;
}

static void norm(ncclComm_t comm) {
  float x = 1, sum;
  CHECK(ncclAllReduce(&x, &sum, 1, ncclFloat32, ncclSum, comm, NULL));
}

static void forward(ncclComm_t comm) {
  for (int u = 0; u < UNITS; u++)
    gather(u, comm);
}

/* An irregular step: the unit that is skipped, reduced again, or followed by an unknown reduction; -1: none. */
struct change {
  int skipped, again, stranger;
};

static bool run_step(uint64_t step, const struct change *c, ncclComm_t comm) {
  bool good = true;
  forward(comm);
  for (int u = UNITS; u-- > 0;) {
    if (u != c->skipped)
      good &= reduce(u, step, comm);
    if (u == c->again)
      good &= reduce(u, step, comm);
    if (u == c->stranger && step == 11) /* more of these would cast doubt on the cycle */
      CHECK(ncclReduceScatter(gradient, result, 77, ncclFloat32, ncclSum, comm, NULL));
    else if (u == c->stranger)
      CHECK(ncclAllReduce(gradient, result, 77, ncclFloat32, ncclSum, comm, NULL));
  }
  norm(comm);
  return good;
}

static void apart(uint64_t steps) {
  bool good = true;
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (uint64_t step = 0; step < steps; step++) {
    struct change c = {-1, -1, -1};
    const int unit = (int)(step / 4) % UNITS;
    if (step % 12 == 7)
      c.skipped = unit;
    if (step % 12 == 9)
      c.again = unit;
    if (step % 12 == 11)
      c.stranger = unit;
    skipped += c.skipped >= 0;
    if (step % 10 == 5) { /* an evaluation pass */
      forward(world);
      norm(world);
    }
    good &= run_step(step, &c, world);
    if (step > steps / 2) /* a communicator that starts late */
      good &= run_step(step, &(struct change){-1, -1, -1}, other);
  }
  CHECK(ncclCommDestroy(other));
  other = NULL;
  all_ok(good && strayed == 0,
         "units of different sizes, skipped, repeated, with strangers: every value is in a place of its unit");
}

static void alike(uint64_t steps) {
  bool good = true, root = true;
  unsigned after = 0;
  for (int u = 1; u < UNITS; u++)
    sizes[u] = LARGEST;
  for (uint64_t step = 0; step < steps; step++) {
    struct change c = {-1, -1, -1};
    if (step % 6 == 5)
      c.skipped = 1 + (int)(step / 6) % (BLOCKS - 1); /* not the last block: its skip does no harm */
    skipped += c.skipped >= 0;
    const unsigned before = strayed;
    forward(world);
    for (int u = UNITS; u-- > 0;)
      if (u != c.skipped) {
        const unsigned until = strayed;
        bool fine = reduce(u, step, world);
        if (strayed > until && u < c.skipped)
          after++;
        root &= fine || u != 0;
      }
    norm(world);
    good &= c.skipped >= 0 || strayed == before;
  }
  all_ok(good, "blocks of one size: in steps that are whole every value is in a place of its unit");
  all_ok(root, "and in the root, which nothing looks like, always");
  all_ok(after == strayed, "values stray in the calls between a skipped block and the root alone: in %u calls",
         strayed);
}

int main(int argc, char **argv) {
  const bool is_alike = argc == 3 && strcmp(argv[1], "alike") == 0;
  if (argc != 3 || (!is_alike && strcmp(argv[1], "apart") != 0)) {
    fprintf(stderr, "usage: signatures apart|alike STEPS\n");
    return 2;
  }
  meet();
  gradient = malloc(LARGEST * (size_t)nranks * sizeof *gradient);
  gathered = calloc(LARGEST * (size_t)nranks, sizeof *gathered);
  result = malloc(LARGEST * sizeof *result);
  (is_alike ? alike : apart)(strtoull(argv[2], NULL, 10));
  if (rank == 0)
    printf("strayed %u\nskipped %u\n", strayed, skipped);
  free(gradient);
  free(gathered);
  free(result);
  return finish();
}
