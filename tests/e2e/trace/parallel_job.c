/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a training with three kinds of parallelism, for characterise.test: eight ranks, two for each kind.
 *
 *   parallel_job STEPS          a group has nothing but the two messages; every second one has a group in it
 *   parallel_job STEPS mixed    a small all-reduce, too
 *
 * A step, twice (two microbatches): activations come from the previous stage and go to the next one, each in a call of
 * its own; units of two sizes are gathered (FSDP), and activations are all-reduced (tensor parallel). Backwards the
 * same, but the gradient of the activations and the next microbatch's activations go in one group of NCCL, as
 * pipelines batch them. In the last pass gradients are reduce-scattered. A norm is all-reduced by all ranks at the end.
 */
#include "tests/e2e/harness.h"

enum { RANKS = 8, MICROBATCHES = 2, UNITS = 3, REDUCED = 8, ACTIVATIONS = 2048, MOST = 9000 };

static const size_t units[UNITS] = {3000, 4500, 4500}; /* elements of a shard */
static ncclComm_t data, tensor, pipeline;
static float from[MOST], to[MOST];

/* Ranks that differ in one bit of their number are a group. */
static ncclComm_t split(int bit) {
  CHECK(ncclCommSplit(world, rank & ~bit, rank, &other, NULL));
  return other;
}

static void reduce_activations(void) {
  for (int i = 0; i < REDUCED; i++)
    CHECK(ncclAllReduce(from, to, ACTIVATIONS, ncclFloat32, ncclSum, tensor, NULL));
}

static void gather_units(bool backward) {
  for (int i = 0; i < UNITS; i++)
    CHECK(ncclAllGather(from, to, units[backward ? UNITS - 1 - i : i], ncclFloat32, data, NULL));
}

static void exchange(int peer, bool nested, bool mixed) {
  CHECK(ncclGroupStart());
  if (nested)
    CHECK(ncclGroupStart());
  CHECK(ncclSend(from, ACTIVATIONS, ncclFloat16, peer, pipeline, NULL));
  if (nested)
    CHECK(ncclGroupEnd());
  CHECK(ncclRecv(to, ACTIVATIONS, ncclFloat16, peer, pipeline, NULL));
  if (mixed)
    CHECK(ncclAllReduce(from, to, 1, ncclFloat32, ncclSum, pipeline, NULL));
  CHECK(ncclGroupEnd());
}

static void step(bool last_stage, bool mixed) {
  for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
    if (last_stage)
      CHECK(ncclRecv(to, ACTIVATIONS, ncclFloat16, 0, pipeline, NULL));
    gather_units(false);
    reduce_activations();
    if (!last_stage)
      CHECK(ncclSend(from, ACTIVATIONS, ncclFloat16, 1, pipeline, NULL));
    gather_units(true);
    reduce_activations();
    exchange(!last_stage, microbatch == 1, mixed);
  }
  for (int i = UNITS; i-- > 0;)
    CHECK(ncclReduceScatter(from, to, units[i], ncclFloat32, ncclAvg, data, NULL));
  CHECK(ncclAllReduce(from, to, 1, ncclFloat32, ncclSum, world, NULL));
}

int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  meet();
  if (nranks != RANKS)
    return 2;
  data = split(1);
  tensor = split(2);
  pipeline = split(4);
  for (int i = 0; i < atoi(argv[1]); i++)
    step(rank & 4, argc > 2);
  CHECK(ncclCommDestroy(data));
  CHECK(ncclCommDestroy(tensor));
  CHECK(ncclCommDestroy(pipeline));
  other = NULL;
  CHECK(ncclCommDestroy(world));
  return 0;
}
