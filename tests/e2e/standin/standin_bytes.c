/* SPDX-License-Identifier: BSD-3-Clause
 * Makes one call of each kind, with counts that do not divide well; the tests compare the statistics with the formulas.
 * With an argument, sends that many bytes by a reduce-scatter, an all-gather and an all-to-all instead. Notes their
 * times from the first rank's begin to the last one's end, which show the effect of launch's limits.
 */
#include "tests/e2e/standin/standin_check.h"

static ncclComm_t comm;
static char *input, *output;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void call_each(size_t count) {
  int next = (check_rank + 1) % check_nranks, prev = (check_rank + check_nranks - 1) % check_nranks;
  NEED(ncclReduceScatter(input, output, count, ncclFloat32, ncclAvg, comm, NULL));
  NEED(ncclAllGather(input, output, count, ncclFloat16, comm, NULL));
  NEED(ncclAllReduce(input, output, count, ncclInt64, ncclMax, comm, NULL));
  NEED(ncclBroadcast(input, output, count, ncclUint8, check_nranks - 1, comm, NULL));
  NEED(ncclReduce(input, output, count, ncclInt32, ncclSum, 0, comm, NULL));
  NEED(ncclAlltoAll(input, output, count, ncclBfloat16, comm, NULL));
  NEED(ncclGather(input, output, count, ncclFloat32, 0, comm, NULL));
  NEED(ncclScatter(input, output, count, ncclFloat32, check_nranks - 1, comm, NULL));
  NEED(ncclGroupStart());
  NEED(ncclSend(input, count, ncclFloat64, next, comm, NULL));
  NEED(ncclRecv(output, count, ncclFloat64, prev, comm, NULL));
  NEED(ncclReduceScatter(input, output, count, ncclBfloat16, ncclSum, comm, NULL));
  NEED(ncclGroupEnd());
}

/* The time from the first rank's begin to the last one's end. */
static double span(double begin, double end) {
  double times[2] = {-begin, end};
  NEED(ncclAllReduce(times, times, 2, ncclFloat64, ncclMax, comm, NULL));
  return times[0] + times[1];
}

static void note_rates(size_t bytes) {
  static const char *const names[] = {"ReduceScatter", "AllGather", "AlltoAll"};
  size_t count = bytes / 4 / (size_t)(check_nranks - 1);
  int token = 0;
  for (int i = 0; i < 3; i++) {
    NEED(ncclAllReduce(&token, &token, 1, ncclInt32, ncclSum, comm, NULL));
    double begin = now();
    if (i == 0)
      NEED(ncclReduceScatter(input, output, count, ncclFloat32, ncclSum, comm, NULL));
    else if (i == 1)
      NEED(ncclAllGather(input, output, count, ncclFloat32, comm, NULL));
    else
      NEED(ncclAlltoAll(input, output, count, ncclFloat32, comm, NULL));
    double seconds = span(begin, now());
    if (check_rank == 0)
      printf("# nccl%s took %.6f s: each rank sent %.1f Mbit/s\n", names[i], seconds,
             (double)(count * 4 * (size_t)(check_nranks - 1)) * 8 / seconds / 1e6);
  }
}

int main(int argc, char **argv) {
  size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
  comm = check_world();
  input = calloc(4, 1 << 20 > bytes ? 1 << 20 : bytes);
  output = calloc(4, 1 << 20 > bytes ? 1 << 20 : bytes);
  if (!input || !output)
    return 1;
  if (bytes) {
    memset(output, 1, 4 * bytes); /* else the first use of the pages would be measured */
    note_rates(bytes);
  } else {
    call_each(10007);
    call_each(1);
    call_each(0);
  }
  NEED(ncclCommDestroy(comm));
  free(input);
  free(output);
  return check_done();
}
