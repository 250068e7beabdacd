/* SPDX-License-Identifier: BSD-3-Clause
 * HSDP among two replicas of two shards: units are gathered and reduce-scattered inside a replica, and the sums of the
 * shards are all-reduced between the replicas, on another communicator.
 *
 * Run under tests/standin/launch -n 4 --hosts 0,0,1,1 with the library preloaded, TAGC_WARMUP=0 and TAGC_MIN_BYTES=0.
 *
 *   shards [odd|alone]
 *     odd      the second replica has shards of other sizes: its ranks know none of these sums, the others do
 *     alone    nothing is sharded
 */
#include "tests/e2e/harness.h"

enum { UNITS = 4, STEPS = 60, ODD = 16 };

static const size_t counts[UNITS] = {70001, 50003, 50003, 40000};
static bool odd, alone;

static float value(int of, int step, int unit) { return (float)((of + 1) * (unit + 1) + step % 7); }

/* The gradient of a unit, as large as the largest one with both shards. */
static void shard(float *gradient, float *mine, ncclComm_t shards, int step, int unit) {
  const size_t count = counts[unit] + (odd && rank > 1 ? ODD : 0);
  for (size_t i = 0; i < 2 * count; i++)
    gradient[i] = value(rank, step, unit);
  CHECK(ncclReduceScatter(gradient, mine, count, ncclFloat, ncclAvg, shards, NULL));
}

static bool run_step(ncclComm_t shards, ncclComm_t replicas, int step) {
  static float gradient[2 * (70001 + ODD)], mine[70001 + ODD];
  bool good = true;
  for (int unit = 0; unit < UNITS && !alone; unit++)
    CHECK(ncclAllGather(mine, gradient, counts[unit] + (odd && rank > 1 ? ODD : 0), ncclFloat, shards, NULL));
  for (int unit = UNITS; unit-- > 0;) {
    float want = 0;
    for (int of = 0; of < 4; of++)
      want += alone && of % 2 != rank % 2 ? 0 : value(of, step, unit) * (alone ? 1 : 0.5f);
    for (size_t i = 0; i < counts[unit] && alone; i++)
      mine[i] = value(rank, step, unit);
    if (!alone)
      shard(gradient, mine, shards, step, unit);
    CHECK(ncclAllReduce(mine, mine, counts[unit], ncclFloat, ncclSum, replicas, NULL));
    for (size_t i = 0; i < counts[unit]; i++)
      good &= fabsf(mine[i] - want) < 0.01f * want;
  }
  return good;
}

int main(int argc, char **argv) {
  ncclComm_t shards, replicas;
  bool good = true;
  odd = argc > 1 && strcmp(argv[1], "odd") == 0;
  alone = argc > 1 && strcmp(argv[1], "alone") == 0;
  meet();
  CHECK(ncclCommSplit(world, rank / 2, rank, &shards, NULL));
  CHECK(ncclCommSplit(world, rank % 2, rank, &replicas, NULL));
  for (int step = 0; step < STEPS; step++)
    good &= run_step(shards, replicas, step);
  all_ok(good, "the sums are what they must be");
  CHECK(ncclCommDestroy(replicas));
  CHECK(ncclCommDestroy(shards));
  return finish();
}
