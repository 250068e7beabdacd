/* SPDX-License-Identifier: BSD-3-Clause
 * A sharded model whose steps differ, under tests/standin/launch with the library preloaded and TAGC_MIN_BYTES=4K.
 *
 *   rounds STEPS LIMIT
 *
 * Gradients are accumulated over 2, 3, 2 and 4 rounds in turns, of which the last one reduces. Ten batches are
 * evaluated behind every tenth step. As in FSDP2 the root stays gathered behind the first of them. The relative error
 * of each sum is at most LIMIT.
 */
#include "tests/e2e/harness.h"

enum { BLOCKS = 6, ROOT = 2048, BLOCK = 4096, MOST_RANKS = 4 };

static double worst;
static uint64_t reductions;

static size_t count_of(int unit) { return unit ? BLOCK : ROOT; }

static void gather(int unit) {
  static float own[BLOCK], all[BLOCK * MOST_RANKS];
  for (size_t i = 0; i < count_of(unit); i++)
    own[i] = (float)unit;
  CHECK(ncclAllGather(own, all, count_of(unit), ncclFloat32, other, NULL));
}

/* Small integers, so the order of the sum does not matter. */
static float term(int r, size_t i) {
  return (float)(int)(mix(reductions << 8 ^ (uint64_t)r ^ (uint64_t)i << 40) % 200) - 100;
}

static void reduce(int unit) {
  static float all[BLOCK * MOST_RANKS], own[BLOCK];
  double errors = 0, squares = 0;
  reductions++;
  for (size_t i = 0; i < count_of(unit) * (size_t)nranks; i++)
    all[i] = term(rank, i);
  CHECK(ncclReduceScatter(all, own, count_of(unit), ncclFloat32, ncclSum, other, NULL));
  for (size_t i = 0; i < count_of(unit); i++) {
    float sum = 0;
    for (int r = 0; r < nranks; r++)
      sum += term(r, i + (size_t)rank * count_of(unit));
    errors += (own[i] - sum) * (double)(own[i] - sum);
    squares += sum * (double)sum;
  }
  worst = errors > worst * worst * squares ? sqrt(errors / squares) : worst;
}

static void forward(bool root) {
  for (int unit = !root; unit <= BLOCKS; unit++)
    gather(unit);
}

static void backward(bool reduces) {
  gather(BLOCKS);
  for (int unit = BLOCKS; unit >= 0; unit--) {
    if (unit > 1)
      gather(unit - 1);
    if (reduces)
      reduce(unit);
  }
}

static void step(int number) {
  static const int turns[] = {2, 3, 2, 4};
  const int rounds = turns[number % 4];
  float norm = 1;
  for (int round = 1; round <= rounds; round++) {
    forward(number % 10 != 0 || number == 0 || round > 1);
    backward(round == rounds);
  }
  CHECK(ncclAllReduce(&norm, &norm, 1, ncclFloat32, ncclSum, other, NULL));
}

int main(int argc, char **argv) {
  const int steps = argc == 3 ? atoi(argv[1]) : 0;
  if (!steps) {
    fprintf(stderr, "usage: rounds STEPS LIMIT\n");
    return 2;
  }
  meet();
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (int number = 0; number < steps; number++) {
    step(number);
    for (int batch = 0; number % 10 == 9 && batch < 10; batch++)
      forward(batch == 0);
  }
  CHECK(ncclCommDestroy(other));
  other = NULL;
  all_ok(worst <= atof(argv[2]), "the largest relative error of a sum is %.2g", worst);
  return finish();
}
