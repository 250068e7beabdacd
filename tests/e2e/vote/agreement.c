/* SPDX-License-Identifier: BSD-3-Clause
 * Makes communicators in one of many ways, then a few reduce-scatters on each, and checks their sums. The library's
 * report tells whether they were compressed.
 *
 * usage: agreement WAY, with the rank in the environment. maker-WAY: separate processes make the ids, and have ended
 * before the first reduce-scatter.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/harness.h"

enum { STEPS = 8, N = 4096, MOST = 8 };

/* Makes STEPS reduce-scatters on communicators that this process drives together. */
static void drive(ncclComm_t *comms, int count) {
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

/* A rank that is one exchange ahead of the others is told apart by the size. */
static void share(void *data, size_t size) {
  char why[200];
  if (!rendezvous_share(&meeting, data, size, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
}

static int with_makers;

static struct maker {
  pid_t process;
  int life; /* closing this ends the process */
} makers[MOST];
static size_t makers_count;

/* Starts a process that makes an id, before this one has called NCCL. */
static void start_maker(ncclUniqueId *id) {
  struct maker *m = &makers[makers_count++];
  int life[2], made[2];
  if (pipe(life) || pipe(made) || (m->process = fork()) < 0)
    exit(1);
  close(life[m->process ? 0 : 1]);
  close(made[m->process ? 1 : 0]);
  if (m->process == 0) {
    ssize_t n = ncclGetUniqueId(id) == ncclSuccess ? write(made[1], id, sizeof *id) : 0;
    _exit(n != sizeof *id || read(life[0], &n, 1) != 0);
  }
  m->life = life[1];
  if (read(made[0], id, sizeof *id) != sizeof *id)
    exit(1);
  close(made[0]);
}

/* Ends the makers: all ranks know that their communicators are ready. */
static void end_makers(void) {
  char nothing[2] = {0};
  int status;
  if (!with_makers)
    return;
  share(nothing, 1); /* rank 0 has met all others */
  while (rank == 0 && makers_count > 0) {
    const struct maker *m = &makers[--makers_count];
    close(m->life);
    if (waitpid(m->process, &status, 0) != m->process || status)
      exit(1);
  }
  share(nothing, 2);
}

/* Shares ids that rank 0 makes, or that processes make which it starts. */
static void make_ids(ncclUniqueId *ids, size_t count) {
  for (size_t i = 0; i < count && rank == 0; i++) {
    if (with_makers)
      start_maker(&ids[i]);
    else
      CHECK(ncclGetUniqueId(&ids[i]));
  }
  share(ids, count * sizeof *ids);
}

static ncclComm_t by_ids(size_t count) {
  static ncclUniqueId ids[MOST]; /* reused, with the bytes of the last time */
  ncclComm_t comm;
  make_ids(ids, count);
  if (count == 1)
    CHECK(ncclCommInitRank(&comm, nranks, ids[0], rank));
  else
    CHECK(ncclCommInitRankScalable(&comm, nranks, rank, (int)count, ids, NULL));
  end_makers();
  return comm;
}

static ncclComm_t split(ncclComm_t parent, int in_group, int wait) {
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

static void all_in_this_process(void) {
  ncclComm_t comms[3];
  CHECK(ncclCommInitAll(comms, 3, NULL));
  drive(comms, 3);
  for (int i = 0; i < 3; i++)
    CHECK(ncclCommDestroy(comms[i]));
}

/* Two ranks per process, both made in one group, inside another one. */
static void in_a_group(const ncclConfig_t *config) {
  ncclUniqueId id;
  ncclConfig_t own[2] = {*config, *config};
  ncclResult_t state;
  make_ids(&id, 1);
  CHECK(ncclGroupStart());
  CHECK(ncclGroupStart());
  CHECK(ncclCommInitRankConfig(&world, 2 * nranks, id, 2 * rank, &own[0]));
  CHECK(ncclCommGetAsyncError(world, &state)); /* success here does not mean that it is ready */
  CHECK(ncclCommInitRankConfig(&other, 2 * nranks, id, 2 * rank + 1, &own[1]));
  CHECK(ncclGroupEnd());
  CHECK(ncclGroupEnd());
  end_makers();
  drive((ncclComm_t[]){world, other}, 2);
  CHECK(ncclCommDestroy(world));
  CHECK(ncclCommDestroy(other));
}

static void *watch(void *unused) {
  CHECK(ncclInProgress);
  return unused;
}

/* Several threads may learn at once that it is ready. */
static void by_config(ncclConfig_t *config, int watchers) {
  pthread_t threads[MOST];
  ncclUniqueId id;
  make_ids(&id, 1);
  const ncclResult_t status = ncclCommInitRankConfig(&world, nranks, id, rank, config);
  for (int i = 0; i < watchers; i++)
    pthread_create(&threads[i], NULL, watch, NULL);
  CHECK(status);
  for (int i = 0; i < watchers; i++)
    pthread_join(threads[i], NULL);
  end_makers();
  drive(&world, 1);
  CHECK(ncclCommDestroy(world));
}

static void made_from_another(const char *way) {
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
  if (!strcmp(way, "shrink-again") && child) { /* the excluded rank has not counted the first one */
    CHECK(ncclCommDestroy(child));
    CHECK(ncclCommShrink(parent, &last, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  }
  if (child)
    drive(&child, 1);
  if (child)
    CHECK(ncclCommDestroy(child));
  CHECK(ncclCommDestroy(parent));
}

static ncclComm_t split_with(ncclComm_t parent, int share) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t child;
  config.splitShare = share;
  CHECK(ncclCommSplit(parent, 0, rank, &child, &config));
  return child;
}

/* Two children by ncclCommSplit and one by ncclCommShrink: the configuration of their parent decides what they share,
 * and the first one's that of its own child. All are used, in this order. */
static void sharing(int split_shares, int shrink_shares) {
  enum { CHILDREN = 5 };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  ncclComm_t comms[CHILDREN] = {NULL}, parent;
  int last = nranks - 1;
  config.splitShare = split_shares;
  config.shrinkShare = shrink_shares;
  make_ids(&id, 1);
  CHECK(ncclCommInitRankConfig(&parent, nranks, id, rank, &config));
  comms[0] = split_with(parent, !split_shares);
  CHECK(ncclCommSplit(parent, 0, rank, &comms[1], NULL));
  CHECK(ncclCommSplit(comms[0], 0, rank, &comms[2], NULL));
  CHECK(ncclCommSplit(comms[1], 0, rank, &comms[3], NULL));
  if (rank != last)
    CHECK(ncclCommShrink(parent, &last, 1, &comms[4], NULL, NCCL_SHRINK_DEFAULT));
  for (int i = 0; i < CHILDREN; i++)
    if (comms[i])
      drive(&comms[i], 1);
  for (int i = CHILDREN; i-- > 0;)
    if (comms[i])
      CHECK(ncclCommDestroy(comms[i]));
  CHECK(ncclCommDestroy(parent));
}

/* A group over children that share the connections of their parents: their ranks take one after the other, in the order
 * of their identities. Each rank lists the two that are excluded in its own order, as NCCL allows. The parents may come
 * from splits: nobody has told their ranks before. */
static void shrinks(bool of_splits) {
  enum { CHILDREN = 6 };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t first = of_splits ? by_ids(1) : NULL, parents[CHILDREN], comms[CHILDREN];
  int excluded[] = {nranks - 1 - rank % 2, nranks - 2 + rank % 2};
  config.shrinkShare = 1;
  for (int i = 0; i < CHILDREN; i++) {
    ncclUniqueId id;
    if (of_splits) {
      CHECK(ncclCommSplit(first, 0, rank, &parents[i], &config));
    } else {
      make_ids(&id, 1);
      CHECK(ncclCommInitRankConfig(&parents[i], nranks, id, rank, &config));
    }
    if (rank < nranks - 2)
      CHECK(ncclCommShrink(parents[i], excluded, 2, &comms[i], NULL, NCCL_SHRINK_DEFAULT));
  }
  alarm(120); /* ranks that take different ones first wait for ever */
  if (rank < nranks - 2)
    drive(comms, CHILDREN);
  share(&(char){0}, 1); /* so that the excluded ranks end after that */
  for (int i = 0; i < CHILDREN; i++) {
    if (rank < nranks - 2)
      CHECK(ncclCommDestroy(comms[i]));
    CHECK(ncclCommDestroy(parents[i]));
  }
  if (first)
    CHECK(ncclCommDestroy(first));
}

/* Several communicators of the same ranks, alive together; unused ids in between. */
static void several(void) {
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

int main(int argc, char **argv) {
  char why[200];
  const char *way = argc == 2 ? argv[1] : "";
  if (!rendezvous_from_env(&meeting, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  rank = meeting.rank;
  nranks = meeting.nranks;
  with_makers = !strncmp(way, "maker-", 6);
  way += with_makers ? 6 : 0;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = strncmp(way, "nonblocking", 11) != 0;
  if (!strcmp(way, "init") || !strcmp(way, "an-id-a-rank")) {
    ncclComm_t comm = by_ids(way[0] == 'i' ? 1 : (size_t)nranks);
    drive(&comm, 1);
    CHECK(ncclCommDestroy(comm));
  } else if (!strcmp(way, "all")) {
    all_in_this_process();
  } else if (!strcmp(way, "group") || !strcmp(way, "nonblocking-group")) {
    in_a_group(&config);
  } else if (!strcmp(way, "config") || !strcmp(way, "nonblocking") || !strcmp(way, "nonblocking-watched")) {
    by_config(&config, strcmp(way, "nonblocking-watched") == 0 ? MOST : 0);
  } else if (!strcmp(way, "several")) {
    several();
  } else if (!strncmp(way, "sharing-", 8)) {
    sharing(way[8] == '1', way[8] && way[9] == '1');
  } else if (!strcmp(way, "shrinks") || !strcmp(way, "shrinks-of-splits")) {
    shrinks(way[7]);
  } else if (!strncmp(way, "split", 5) || !strcmp(way, "shrink") || !strcmp(way, "shrink-again")) {
    made_from_another(way);
  } else {
    fprintf(stderr, "usage: agreement "
                    "[maker-]init|an-id-a-rank|config|nonblocking|nonblocking-watched|group|"
                    "nonblocking-group|all|several|split...|shrink|shrink-again|shrinks|shrinks-of-splits|sharing-00|.."
                    ".|sharing-11\n");
    return 2;
  }
  return tap_done();
}
