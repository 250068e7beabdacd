/* SPDX-License-Identifier: BSD-3-Clause
 * Milliseconds of one reduce-scatter of ELEMENTS fp32 over all ranks, as the slowest of them sees it (ranks that share a
 * network card end one after the other): the median over the last CALLS calls, after as many as it takes to learn the
 * cycle. An all-reduce of one float stands before each call and behind it. Run it under tests/standin/launch, plain or
 * preloaded with TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 (tests/bench/simulate.sh does); rank 0 prints.
 *
 *   exchange ELEMENTS [CALLS]
 */
#include <time.h>

#include "tests/e2e/harness.h"

enum { LEARNING = 5, MOST_CALLS = 1000 };

static double now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  static double times[MOST_CALLS];
  const size_t elements = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  const int calls = argc > 2 ? atoi(argv[2]) : 5;
  if (!elements || calls < 1 || calls > MOST_CALLS) {
    fprintf(stderr, "usage: exchange ELEMENTS [CALLS]\n");
    return 2;
  }
  meet();
  const size_t n = (elements + (size_t)nranks - 1) / (size_t)nranks;
  float *send = malloc((size_t)nranks * n * sizeof *send), *recv = malloc(n * sizeof *recv), slowest = 0;
  for (size_t i = 0; send && i < (size_t)nranks * n; i++) {
    uint64_t h = mix(mix((uint64_t)rank) ^ i);
    send[i] = (float)((int)(h & 0xffff) + (int)(h >> 16 & 0xffff) + (int)(h >> 32 & 0xffff) - 98302) / 65536;
  }
  if (!send || !recv)
    return 1;
  for (int i = -LEARNING - 1; i < calls; i++) {
    double began = now_ms();
    if (i >= -LEARNING)
      CHECK(ncclReduceScatter(send, recv, n, ncclFloat32, ncclSum, world, NULL));
    slowest = (float)(now_ms() - began);
    CHECK(ncclAllReduce(&slowest, &slowest, 1, ncclFloat32, ncclMax, world, NULL));    /* all start the next one together */
    if (i >= 0)
      times[i] = slowest;
  }
  qsort(times, (size_t)calls, sizeof *times, compare);
  if (rank == 0)
    printf("%.4f\n", times[calls / 2]);
  free(send);
  free(recv);
  CHECK(ncclCommDestroy(world));
  return 0;
}
