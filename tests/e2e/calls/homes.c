/* SPDX-License-Identifier: BSD-3-Clause
 * Gradients in registered memory. They lie in one buffer, each at its own place, as in Megatron. The last one moves
 * from step to step.
 *
 *   homes STEPS
 */
#include "tests/e2e/harness.h"

enum { UNITS = 3, N = 20000 };

int main(int argc, char **argv) {
  float *buffer = NULL, *pool = NULL, result[N / 2];
  const size_t shard[UNITS] = {5000, 6000, 7000};
  void *registration = NULL;
  size_t room;
  if (argc != 2)
    return 2;
  meet();
  room = sizeof(float) * N * (size_t)nranks;
  CHECK(ncclMemAlloc((void **)&buffer, room));
  CHECK(ncclMemAlloc((void **)&pool, room));
  memset(buffer, 0, room);
  memset(pool, 0, room);
  CHECK(ncclCommRegister(world, buffer, room, &registration));
  for (unsigned long step = 0, steps = strtoul(argv[1], NULL, 10); step < steps; step++) {
    float *at = buffer, x = 1, sum = 0;
    for (int u = 0; u < UNITS; u++) {
      CHECK(
        ncclReduceScatter(u == 2 ? pool + 64 * (step % 4) : at, result, shard[u], ncclFloat32, ncclSum, world, NULL));
      at += shard[u] * (size_t)nranks;
    }
    CHECK(ncclAllReduce(&x, &sum, 1, ncclFloat32, ncclSum, world, NULL));
    if (step == steps / 2) { /* the buffer is deregistered, and registered again */
      CHECK(ncclCommDeregister(world, registration));
      CHECK(ncclCommRegister(world, buffer, room, &registration));
    }
  }
  CHECK(ncclCommDeregister(world, registration));
  CHECK(ncclCommDestroy(world));
  CHECK(ncclMemFree(pool));
  CHECK(ncclMemFree(buffer));
  return 0;
}
