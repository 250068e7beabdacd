/* SPDX-License-Identifier: BSD-3-Clause
 * Communicators made in one of many ways, then a few reduce-scatters on each, whose sums are checked. Whether they were
 * compressed is in the library's report.
 *
 * usage: agreement WAY, with the rank in the environment.
 */
#include <stdio.h>
#include <unistd.h>

#include "tests/e2e/harness.h"

enum { STEPS = 8, N = 4096, MOST = 8 };

/* `steps` reduce-scatters on communicators that this process drives together. */
static void drive(ncclComm_t *comms, int count)
{
  float *send[MOST], *recv[MOST];
  int ranks[MOST], sizes[MOST], good = 1;
  for (int c = 0; c < count; c++) {
    CHECK(ncclCommUserRank(comms[c], &ranks[c]));
    CHECK(ncclCommCount(comms[c], &sizes[c]));
    send[c] = calloc((size_t)N * (size_t)sizes[c], sizeof(float));
    recv[c] = calloc(N, sizeof(float));
  }
  for (int step = 0; step < STEPS; step++) {
    if (count > 1)
      CHECK(ncclGroupStart());
    for (int c = 0; c < count; c++) {
      for (int i = 0; i < N * sizes[c]; i += 64)
        send[c][i] = (float)(step + i / 64 % 7 + 1);
      CHECK(ncclReduceScatter(send[c], recv[c], N, ncclFloat, ncclSum, comms[c], NULL));
    }
    if (count > 1)
      CHECK(ncclGroupEnd());
    for (int c = 0; c < count; c++)
      for (int i = 0; i < N; i++)
        good &= recv[c][i] == (i % 64 ? 0 : (float)(sizes[c] * (step + (ranks[c] * N + i) / 64 % 7 + 1)));
  }
  for (int c = 0; c < count; c++) {
    free(send[c]);
    free(recv[c]);
  }
  ok(good, "rank %d: the sums of %d reduce-scatters are right", rank, STEPS * count);
}

static struct rendezvous meeting;

static void share(ncclUniqueId *ids, size_t count)
{
  char why[200];
  if (!rendezvous_share(&meeting, ids, count * sizeof *ids, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
}

/* A communicator of ids that rank 0 makes. */
static ncclComm_t by_ids(size_t count)
{
  static ncclUniqueId ids[4];        /* used again, with what the last time has left there */
  ncclComm_t comm;
  for (size_t i = 0; i < count && rank == 0; i++)
    CHECK(ncclGetUniqueId(&ids[i]));
  share(ids, count);
  if (count == 1)
    CHECK(ncclCommInitRank(&comm, nranks, ids[0], rank));
  else
    CHECK(ncclCommInitRankScalable(&comm, nranks, rank, (int)count, ids, NULL));
  return comm;
}

static ncclComm_t split(ncclComm_t parent, int in_group, int wait)
{
  ncclComm_t child = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclResult_t status = ncclSuccess;
  config.blocking = !wait;
  if (in_group)
    CHECK(ncclGroupStart());
  status = ncclCommSplit(parent, 0, -rank, &child, wait ? &config : NULL);
  if (in_group)
    status = ncclGroupEnd();
  while (wait && (status == ncclInProgress || !child)) {
    CHECK(ncclCommGetAsyncError(parent, &status));
    usleep(1000);
  }
  if (status != ncclSuccess || !child)
    exit(1);
  return child;
}

static void all_in_this_process(void)
{
  ncclComm_t comms[3];
  CHECK(ncclCommInitAll(comms, 3, NULL));
  drive(comms, 3);
  for (int i = 0; i < 3; i++)
    CHECK(ncclCommDestroy(comms[i]));
}

/* Two ranks a process, both made in one group. */
static void in_a_group(void)
{
  ncclUniqueId id;
  ncclComm_t comms[2];
  if (rank == 0)
    CHECK(ncclGetUniqueId(&id));
  share(&id, 1);
  CHECK(ncclGroupStart());
  for (int i = 0; i < 2; i++)
    CHECK(ncclCommInitRank(&comms[i], 2 * nranks, id, 2 * rank + i));
  CHECK(ncclGroupEnd());
  drive(comms, 2);
  CHECK(ncclCommDestroy(comms[0]));
  CHECK(ncclCommDestroy(comms[1]));
}

static void made_from_another(const char *way)
{
  ncclComm_t parent = by_ids(1), child = NULL;
  int last = nranks - 1;
  if (!strcmp(way, "split"))
    child = split(parent, 0, 0);
  else if (!strcmp(way, "split-in-group"))
    child = split(parent, 1, 0);
  else if (!strcmp(way, "split-differently"))
    child = split(parent, rank % 2, 0);
  else if (!strcmp(way, "split-of-split"))
    child = split(split(parent, 0, 0), 1, 0);
  else if (rank != last)
    CHECK(ncclCommShrink(parent, &last, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  if (child)
    drive(&child, 1);
  if (child)
    CHECK(ncclCommDestroy(child));
  CHECK(ncclCommDestroy(parent));
}

/* Several communicators of the same ranks, alive together; ids that nobody uses between. */
static void several(void)
{
  ncclUniqueId unused;
  ncclComm_t comms[3];
  for (int i = 0; i < 3; i++) {
    CHECK(ncclGetUniqueId(&unused));
    comms[i] = by_ids(1);
  }
  for (int i = 3; i-- > 0;)
    drive(&comms[i], 1);
  for (int i = 0; i < 3; i++)
    CHECK(ncclCommDestroy(comms[i]));
}

int main(int argc, char **argv)
{
  char why[200];
  const char *way = argc == 2 ? argv[1] : "";
  if (!rendezvous_from_env(&meeting, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  rank = meeting.rank;
  nranks = meeting.nranks;
  if (!strcmp(way, "init") || !strcmp(way, "three-ids")) {
    ncclComm_t comm = by_ids(way[0] == 'i' ? 1 : 3);
    drive(&comm, 1);
    CHECK(ncclCommDestroy(comm));
  } else if (!strcmp(way, "all")) {
    all_in_this_process();
  } else if (!strcmp(way, "group")) {
    in_a_group();
  } else if (!strcmp(way, "several")) {
    several();
  } else if (!strncmp(way, "split", 5) || !strcmp(way, "shrink")) {
    made_from_another(way);
  } else {
    fprintf(stderr, "usage: agreement init|three-ids|all|group|several|split...|shrink\n");
    return 2;
  }
  return tap_done();
}
