/* SPDX-License-Identifier: BSD-3-Clause
 * Nanoseconds of one NCCL call that does nothing: an all-reduce of no elements on one rank. Run it plain and preloaded
 * (tests/bench/overhead.sh does); the difference is what the library costs a call. overhead [CALLS of a round]
 */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 1000000, ROUNDS = 9 };

static double now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
  const int calls = argc > 1 ? atoi(argv[1]) : CALLS;
  ncclUniqueId id;
  ncclComm_t comm;
  float x = 0;
  double best = 1e30;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess)
    return 1;
  for (int round = 0; round < ROUNDS; round++) {
    double began = now_ns();
    for (int i = 0; i < calls; i++)
      if (ncclAllReduce(&x, &x, 0, ncclFloat, ncclSum, comm, NULL) != ncclSuccess)
        return 1;
    double each = (now_ns() - began) / calls;
    best = each < best ? each : best;
  }
  printf("%.1f\n", best);
  ncclCommDestroy(comm);
  return 0;
}
