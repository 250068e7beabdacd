/* SPDX-License-Identifier: BSD-3-Clause
 * Programs that gather and reduce-scatter activations, which must come out bit for bit with every codec.
 *
 * Run under tests/standin/launch with the library preloaded and TAGC_MIN_BYTES=4K.
 *
 *   activations tokens|features STEPS
 *
 * tokens: experts get the tokens of all ranks (Megatron-core, MoEAllGatherTokenDispatcher:
 * megatron/core/transformer/moe/token_dispatcher.py). Probabilities and tokens are gathered, outputs and gradients
 * reduce-scattered. features: a contrastive loss over the features of all ranks. They and their gradients are gathered
 * on the communicator of a sharded model whose gradients are averages (FSDP2).
 */
#include "tests/e2e/harness.h"

enum { LAYERS = 4, TOKENS = 5003, PROBABILITIES = 1201, ROOT = 2048, BLOCK = 4099, MOST = 5003, MOST_RANKS = 4 };

static bool gathered_exact = true, reduced_exact = true;
static uint64_t calls;

static float value(int r, uint64_t call, size_t i) {
  const uint64_t h = mix(mix(call << 8 ^ (uint64_t)r) ^ i);
  return ((float)(h & 0xffffff) / 8388608 - 1) * ((float)(h >> 24 & 0xffffff) / 8388608 - 1);
}

static void gather(size_t count) {
  static float own[MOST], all[MOST * MOST_RANKS];
  calls++;
  for (size_t i = 0; i < count; i++)
    own[i] = value(rank, calls, i);
  CHECK(ncclAllGather(own, all, count, ncclFloat32, other, NULL));
  for (size_t i = 0; i < count * (size_t)nranks; i++)
    gathered_exact &= all[i] == value((int)(i / count), calls, i % count);
}

/* Small integers, so the order of the sum does not matter. */
static float term(int r, size_t i) {
  return (float)(int)(mix(calls << 8 ^ (uint64_t)r ^ (uint64_t)i << 40) % 200) - 100;
}

static void reduce(size_t count) {
  static float all[MOST * MOST_RANKS], own[MOST];
  calls++;
  for (size_t i = 0; i < count * (size_t)nranks; i++)
    all[i] = term(rank, i);
  CHECK(ncclReduceScatter(all, own, count, ncclFloat32, ncclSum, other, NULL));
  for (size_t i = 0; i < count; i++) {
    float sum = 0;
    for (int r = 0; r < nranks; r++)
      sum += term(r, i + (size_t)rank * count);
    reduced_exact &= own[i] == sum;
  }
}

static void dispatch_tokens(void) {
  static unsigned char map[PROBABILITIES], all_maps[PROBABILITIES * MOST_RANKS];
  for (int i = 0; i < LAYERS; i++) {
    CHECK(ncclAllGather(map, all_maps, PROBABILITIES, ncclUint8, other, NULL));
    gather(PROBABILITIES);
    gather(TOKENS);
    reduce(TOKENS);
  }
  for (int i = 0; i < LAYERS; i++) {
    gather(TOKENS);
    reduce(TOKENS);
    reduce(PROBABILITIES);
  }
}

static size_t unit(int i) { return i ? BLOCK : ROOT; }

/* Other tests check the parameters (gathers.c) and their gradients (reduce_scatter.c). */
static void compare_features(void) {
  static float own[MOST], all[MOST * MOST_RANKS];
  for (size_t i = 0; i < MOST * (size_t)nranks; i++)
    all[i] = value(rank, 0, i);
  memcpy(own, all, sizeof own);
  for (int i = 0; i <= LAYERS; i++)
    CHECK(ncclAllGather(own, all, unit(i), ncclFloat32, other, NULL));
  gather(TOKENS);
  gather(TOKENS);
  reduce(TOKENS);
  reduce(TOKENS);
  for (int i = LAYERS; i >= 0; i--) {
    if (i)
      CHECK(ncclAllGather(own, all, unit(i), ncclFloat32, other, NULL));
    CHECK(ncclReduceScatter(all, own, unit(i), ncclFloat32, ncclAvg, other, NULL));
  }
}

int main(int argc, char **argv) {
  const long steps = argc == 3 ? atol(argv[2]) : 0;
  const bool tokens = argc == 3 && strcmp(argv[1], "tokens") == 0;
  if (!steps || (!tokens && strcmp(argv[1], "features") != 0)) {
    fprintf(stderr, "usage: activations tokens|features STEPS\n");
    return 2;
  }
  meet();
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (long step = 0; step < steps; step++) {
    float norm = 1;
    (tokens ? dispatch_tokens : compare_features)();
    CHECK(ncclAllReduce(&norm, &norm, 1, ncclFloat32, ncclSum, other, NULL));
  }
  CHECK(ncclCommDestroy(other));
  other = NULL;
  all_ok(gathered_exact, "%s: what is gathered comes out bit for bit", argv[1]);
  all_ok(reduced_exact, "%s: sums are exact", argv[1]);
  return finish();
}
