/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the stand-in: collectives with SIZE MiB (default 64) in each rank's whole buffer, best and median of a few
 * runs. A memcpy of the same bytes takes turns with them in the same process. Run it under launch:
 *
 *     tests/standin/launch -n 2 -- tests/standin/bench [SIZE]
 *
 * Rank 0 prints. Compare the ratios: absolute times vary with the machine's load.
 */
#include "tests/e2e/standin/standin_rendezvous.h"

#include "interpose/nccl/nccl_newer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS 9

static float *input, *output;
static size_t count; /* elements of the whole buffer */
static int rank, nranks;
static ncclComm_t comm;

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void run_memcpy(void) { memcpy(output, input, count * sizeof *input); }

static void check(ncclResult_t result) {
  if (result == ncclSuccess)
    return;
  fprintf(stderr, "bench: %s: %s\n", ncclGetErrorString(result), ncclGetLastError(comm));
  exit(1);
}

static void run_reduce_scatter(void) {
  check(ncclReduceScatter(input, output, count / (size_t)nranks, ncclFloat32, ncclSum, comm, NULL));
}

static void run_reduce_scatter_avg(void) {
  check(ncclReduceScatter(input, output, count / (size_t)nranks, ncclFloat32, ncclAvg, comm, NULL));
}

static void run_reduce_scatter_half(void) {
  check(ncclReduceScatter(input, output, 2 * count / (size_t)nranks, ncclFloat16, ncclSum, comm, NULL));
}

static void run_all_gather(void) {
  check(ncclAllGather(input, output, count / (size_t)nranks, ncclFloat32, comm, NULL));
}

static void run_all_reduce(void) { check(ncclAllReduce(input, output, count, ncclFloat32, ncclSum, comm, NULL)); }

static void run_all_to_all(void) {
  check(ncclAlltoAll(input, output, count / (size_t)nranks, ncclFloat32, comm, NULL));
}

static double time_of(void (*run)(void)) {
  float token = 0;
  check(ncclAllReduce(&token, &token, 1, ncclFloat32, ncclSum, comm, NULL)); /* all ranks start together */
  double begin = now_ms();
  run();
  return now_ms() - begin;
}

static void measure(const char *name, void (*run)(void)) {
  double copies[RUNS], times[RUNS];
  for (int i = 0; i < RUNS; i++) {
    copies[i] = time_of(run_memcpy);
    times[i] = time_of(run);
  }
  qsort(copies, RUNS, sizeof *copies, compare);
  qsort(times, RUNS, sizeof *times, compare);
  if (rank == 0)
    printf("%-18s best %7.2f ms, median %7.2f ms; memcpy %6.2f, %6.2f; ratio of best %5.2f, of medians %5.2f\n", name,
           times[0], times[RUNS / 2], copies[0], copies[RUNS / 2], times[0] / copies[0],
           times[RUNS / 2] / copies[RUNS / 2]);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } cases[] = {{"ReduceScatter", run_reduce_scatter},
               {"ReduceScatter avg", run_reduce_scatter_avg},
               {"ReduceScatter fp16", run_reduce_scatter_half},
               {"AllGather", run_all_gather},
               {"AllReduce", run_all_reduce},
               {"AlltoAll", run_all_to_all}};
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
  if (rank == 0)
    printf("%zu MiB, %d ranks\n", mib, nranks);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    measure(cases[i].name, cases[i].run);
  check(ncclCommDestroy(comm));
  free(input);
  free(output);
  return 0;
}
