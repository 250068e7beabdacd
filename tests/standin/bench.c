/* SPDX-License-Identifier: BSD-3-Clause
 * How fast the stand-in is: collectives of SIZE MiB (default 64) of fp32 for each rank's whole buffer, best and median of
 * a few runs, next to a memcpy of the same bytes in the same process. Run it under launch:
 *
 *     tests/standin/launch -n 2 -- tests/standin/bench [SIZE]
 *
 * Rank 0 prints. Ratios are what counts: absolute times follow the machine's load.
 */
#include "tests/e2e/standin_rendezvous.h"

#include "interpose/nccl_newer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 9

static float *input, *output;
static size_t count; /* elements of the whole buffer */
static int rank, nranks;
static ncclComm_t comm;

static double now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void run_memcpy(void)
{
  memcpy(output, input, count * sizeof *input);
}

static void check(ncclResult_t result)
{
  if (result == ncclSuccess)
    return;
  fprintf(stderr, "bench: %s: %s\n", ncclGetErrorString(result), ncclGetLastError(comm));
  exit(1);
}

static void run_reduce_scatter(void)
{
  check(ncclReduceScatter(input, output, count / (size_t)nranks, ncclFloat32, ncclSum, comm, NULL));
}

static void run_reduce_scatter_avg(void)
{
  check(ncclReduceScatter(input, output, count / (size_t)nranks, ncclFloat32, ncclAvg, comm, NULL));
}

static void run_reduce_scatter_half(void)
{
  check(ncclReduceScatter(input, output, 2 * count / (size_t)nranks, ncclFloat16, ncclSum, comm, NULL));
}

static void run_all_gather(void)
{
  check(ncclAllGather(input, output, count / (size_t)nranks, ncclFloat32, comm, NULL));
}

static void run_all_reduce(void)
{
  check(ncclAllReduce(input, output, count, ncclFloat32, ncclSum, comm, NULL));
}

static void run_all_to_all(void)
{
  check(ncclAlltoAll(input, output, count / (size_t)nranks, ncclFloat32, comm, NULL));
}

/* Best and median in milliseconds; all ranks start together. */
static void measure(void (*run)(void), double *best, double *median)
{
  double times[RUNS];
  for (int i = 0; i < RUNS; i++) {
    float token = 0;
    check(ncclAllReduce(&token, &token, 1, ncclFloat32, ncclSum, comm, NULL));
    double begin = now_ms();
    run();
    times[i] = now_ms() - begin;
  }
  qsort(times, RUNS, sizeof *times, compare);
  *best = times[0];
  *median = times[RUNS / 2];
}

int main(int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"memcpy", run_memcpy}, {"ReduceScatter", run_reduce_scatter}, {"ReduceScatter avg", run_reduce_scatter_avg},
               {"ReduceScatter fp16", run_reduce_scatter_half}, {"AllGather", run_all_gather},
               {"AllReduce", run_all_reduce}, {"AlltoAll", run_all_to_all}};
  size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
  ncclUniqueId id;
  count = (mib << 20) / sizeof *input;
  input = calloc(count, sizeof *input);
  output = calloc(count, sizeof *output);
  if (!mib || !input || !output || rendezvous_world(&rank, &nranks) != 0)
    return 2;
  memset(output, 1, count * sizeof *output);
  memset(input, 1, count * sizeof *input);
  if (rank == 0)
    check(ncclGetUniqueId(&id));
  if (rendezvous_share(&id, sizeof id) != 0)
    return 2;
  check(ncclCommInitRank(&comm, nranks, id, rank));
  double unit = 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double best, median;
    measure(cases[i].run, &best, &median);
    unit = i == 0 ? best : unit;
    if (rank == 0)
      printf("%-20s %zu MiB, %d ranks: best %7.2f ms (%.2f of memcpy), median %7.2f ms\n", cases[i].name, mib, nranks,
             best, best / unit, median);
  }
  check(ncclCommDestroy(comm));
  free(input);
  free(output);
  return 0;
}
