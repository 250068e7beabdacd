/* SPDX-License-Identifier: BSD-3-Clause
 * HSDP among two replicas of two shards: units are gathered and reduce-scattered inside a replica, and the sums of the
 * shards are all-reduced between the replicas, on another communicator.
 *
 * Run under tests/standin/launch -n 4 --hosts 0,0,1,1 with the library preloaded, TAGC_WARMUP=0 and TAGC_MIN_BYTES=0.
 *
 *   shards [odd|alone|alike|aside]
 *     odd      the second replica has shards of other sizes: its ranks know none of these sums, the others do
 *     alone    nothing is sharded
 *     alike    all units but a small last one have one size
 *     aside    likewise, and the sums are of copies: only their count is that of the shards. For both the contents of
 *              calls must tell what is a gradient (TAGC_WARMUP)
 */
#include "tests/e2e/harness.h"

enum { UNITS = 4, STEPS = 60, ALIKE_STEPS = 110, LARGEST = 70001, ODD = 16 };

static size_t counts[UNITS] = {LARGEST, 50003, 50003, 40000};
static bool odd, alone, alike, aside;

/* Each step's gradients differ wholly from the last one's. */
static float value(int of, int step, int unit) {
  return (float)((of + 1) * (unit + 1) + step % 7) * (alike && step % 2 ? -1 : 1);
}

/* The gradient of a unit, as large as the largest one with both shards. */
static void shard(float *gradient, float *mine, ncclComm_t shards, int step, int unit) {
  const size_t count = counts[unit] + (odd && rank > 1 ? ODD : 0);
  for (size_t i = 0; i < 2 * count; i++)
    gradient[i] = value(rank, step, unit);
  CHECK(ncclReduceScatter(gradient, mine, count, ncclFloat, ncclAvg, shards, NULL));
}

/* Parameters change a little. */
static void gather(float *parameters, ncclComm_t shards, int step, int unit) {
  static float own[LARGEST + ODD];
  const size_t count = counts[unit] + (odd && rank > 1 ? ODD : 0);
  for (size_t i = 0; i < count; i++)
    own[i] = (float)(unit + 1) + 1e-3f * (float)step;
  CHECK(ncclAllGather(own, parameters, count, ncclFloat, shards, NULL));
}

static bool run_step(ncclComm_t shards, ncclComm_t replicas, int step) {
  static float gradient[2 * (LARGEST + ODD)], mine[LARGEST + ODD], copy[LARGEST + ODD];
  bool good = true;
  for (int unit = 0; unit < UNITS && !alone; unit++)
    gather(gradient, shards, step, unit);
  for (int unit = UNITS; unit-- > 0;) {
    float want = 0, *sum = aside ? copy : mine;
    for (int of = 0; of < 4; of++)
      want += alone && of % 2 != rank % 2 ? 0 : value(of, step, unit) * (alone ? 1 : 0.5f);
    for (size_t i = 0; i < counts[unit] && alone; i++)
      mine[i] = value(rank, step, unit);
    if (!alone)
      shard(gradient, mine, shards, step, unit);
    for (size_t i = 0; i < counts[unit] && aside; i++)
      copy[i] = mine[i];
    CHECK(ncclAllReduce(sum, sum, counts[unit], ncclFloat, ncclSum, replicas, NULL));
    for (size_t i = 0; i < counts[unit]; i++)
      good &= fabsf(sum[i] - want) < 0.01f * fabsf(want);
  }
  return good;
}

int main(int argc, char **argv) {
  ncclComm_t shards, replicas;
  bool good = true;
  odd = argc > 1 && strcmp(argv[1], "odd") == 0;
  alone = argc > 1 && strcmp(argv[1], "alone") == 0;
  aside = argc > 1 && strcmp(argv[1], "aside") == 0;
  alike = aside || (argc > 1 && strcmp(argv[1], "alike") == 0);
  for (int unit = 0; unit < UNITS && alike; unit++)
    counts[unit] = unit + 1 < UNITS ? 40000 : 1000;
  meet();
  CHECK(ncclCommSplit(world, rank / 2, rank, &shards, NULL));
  CHECK(ncclCommSplit(world, rank % 2, rank, &replicas, NULL));
  for (int step = 0; step < (alike ? ALIKE_STEPS : STEPS); step++)
    good &= run_step(shards, replicas, step);
  all_ok(good, "the sums are what they must be");
  CHECK(ncclCommDestroy(replicas));
  CHECK(ncclCommDestroy(shards));
  return finish();
}
