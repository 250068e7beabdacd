/* SPDX-License-Identifier: BSD-3-Clause
 * Non-blocking communicators: a call returns at once, and the communicator tells when it is done. In every shape that
 * NCCL allows, compressed or not, no call waits for a rank that the same thread has not called yet.
 */
#include "tests/e2e/api/inprocess.h"

/* Communicators for the ranks. Bit i of `nonblocking` is for rank i. Each thread makes its own: NCCL requires one kind
 * of communicators in a group. */
static ncclUniqueId id;
static unsigned which;

static void *make(void *argument) {
  struct rank *r = argument;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = !(which >> r->rank & 1);
  r->last = settled(r, ncclCommInitRankConfig(&r->comm, RANKS, id, r->rank, &config));
  return NULL;
}

static bool start_nonblocking(int steps, unsigned nonblocking) {
  pthread_t threads[RANKS];
  ncclComm_t none[RANKS] = {NULL};
  adopt(none, steps);
  which = nonblocking;
  if (ncclGetUniqueId(&id) != ncclSuccess)
    return false;
  for (int i = 0; i < RANKS; i++)
    pthread_create(&threads[i], NULL, make, &ranks[i]);
  for (int i = 0; i < RANKS; i++)
    pthread_join(threads[i], NULL);
  return ranks[0].last == ncclSuccess && ranks[1].last == ncclSuccess;
}

static void a_thread_a_rank(void) {
  bool good = start_nonblocking(STEPS, 3) && run_threads();
  finish();
  ok(good, "a thread a rank, each asks until it is done: %d steps are exact", STEPS);
}

static void ranks_differ(void) {
  bool good = start_nonblocking(STEPS, 2) && run_threads();
  finish();
  ok(good, "a blocking and a non-blocking rank: %d steps are exact", STEPS);
}

static void one_thread(void) {
  bool good = start_nonblocking(0, 3) && run_groups(0, STEPS);
  finish();
  ok(good, "one thread, a group over the communicators: %d steps are exact", STEPS);
}

/* Blocking communicators do not allow this shape: the first call returns before the second rank's call is made. */
static bool run_one_after_the_other(void) {
  bool good = true;
  for (int step = 0; step < STEPS; step++) {
    ncclResult_t status[RANKS];
    for (int i = 0; i < RANKS; i++) {
      fill(&ranks[i], step);
      status[i] = reduce_scatter(&ranks[i]);
    }
    for (int i = 0; i < RANKS; i++)
      good &= settled(&ranks[i], status[i]) == ncclSuccess && is_sum(&ranks[i], step);
  }
  return good;
}

/* NCCL refuses to end a communicator that is in progress. The library must not forget it then. */
static void refused_ends(void) {
  bool good = start_nonblocking(0, 3);
  for (int step = 0; step < RANKS; step++) {
    struct rank *first = &ranks[step], *second = &ranks[1 - step];
    fill(first, step);
    fill(second, step);
    ncclResult_t status = reduce_scatter(first);
    good &= status == ncclInProgress;
    good &= ncclCommFinalize(first->comm) == ncclInvalidArgument && ncclCommDestroy(first->comm) == ncclInvalidArgument;
    good &= ncclCommRevoke(first->comm, 1) == ncclInvalidArgument;
    good &= settled(second, reduce_scatter(second)) == ncclSuccess && settled(first, status) == ncclSuccess;
    good &= is_sum(first, step) && is_sum(second, step);
  }
  good &= run_groups(RANKS, STEPS);
  finish();
  ok(good, "ends that are refused while a call is under way: %d steps are exact", STEPS);
}

static void one_after_the_other(void) {
  bool good = start_nonblocking(0, 3) && run_one_after_the_other();
  finish();
  ok(good, "one thread calls rank after rank and asks both then: %d steps are exact", STEPS);
}

/* A watchdog asks all the time. It must not take the answer from the threads that wait for it. */
static atomic_bool over;

static void *watch(void *argument) {
  bool *good = argument;
  while (!over)
    for (int i = 0; i < RANKS; i++) {
      ncclResult_t state = ncclInternalError;
      *good &= ncclCommGetAsyncError(ranks[i].comm, &state) == ncclSuccess &&
               (state == ncclSuccess || state == ncclInProgress);
      pause_briefly();
    }
  return NULL;
}

static void watched(void) {
  pthread_t thread;
  bool watch_good = true, good = start_nonblocking(8 * STEPS, 3);
  over = false;
  pthread_create(&thread, NULL, watch, &watch_good);
  good &= run_threads();
  over = true;
  pthread_join(thread, NULL);
  finish();
  ok(good && watch_good, "a watchdog that asks all the time: %d steps are exact", 8 * STEPS);
}

/* A group with several calls of each communicator runs in rounds. */
static void several_calls(void) {
  static float again[RANKS][N * RANKS];
  bool good = start_nonblocking(0, 3);
  for (int step = 0; step < STEPS; step++) {
    good &= ncclGroupStart() == ncclSuccess;
    for (int i = 0; i < RANKS; i++) {
      fill(&ranks[i], step);
      good &= reduce_scatter(&ranks[i]) == ncclSuccess;
      good &= reduce_into(&ranks[i], again[i], ncclSum) == ncclSuccess;
    }
    ncclResult_t status = ncclGroupEnd();
    for (int i = 0; i < RANKS; i++) {
      good &= settled(&ranks[i], status) == ncclSuccess && is_sum(&ranks[i], step);
      memcpy(ranks[i].out, again[i], count_out() * sizeof(float));
      good &= is_sum(&ranks[i], step);
    }
  }
  finish();
  ok(good, "two calls of each rank in a group: %d steps are exact", STEPS);
}

/* The group also holds a longer operation of NCCL: its end returns ncclInProgress, and the calls still run. */
static void beside_a_finalize(void) {
  bool good = true;
  for (int round = 0; round < 2; round++) {
    ncclComm_t old[RANKS];
    good &= start_nonblocking(0, 3);
    for (int i = 0; i < RANKS; i++)
      old[i] = ranks[i].comm;
    good &= start_nonblocking(0, 3) && run_groups(0, round ? STEPS : UNCOMPRESSED);
    int step = round ? STEPS : UNCOMPRESSED;
    good &= ncclGroupStart() == ncclSuccess;
    for (int i = 0; i < RANKS; i++) {
      fill(&ranks[i], step);
      good &= ncclCommFinalize(old[i]) == ncclSuccess && reduce_scatter(&ranks[i]) == ncclSuccess;
    }
    ncclResult_t status = ncclGroupEnd();
    good &= status == ncclInProgress;
    for (int i = 0; i < RANKS; i++) {
      struct rank finalized = {.comm = old[i]};
      good &= settled(&ranks[i], status) == ncclSuccess && is_sum(&ranks[i], step);
      good &= settled(&finalized, status) == ncclSuccess && ncclCommDestroy(old[i]) == ncclSuccess;
    }
    good &= run_groups(step + 1, step + 3);
    finish();
  }
  ok(good, "a group that also finalizes other communicators: a vote and a compressed call are exact");
}

/* PyTorch makes an op for every call and destroys it as soon as the call has returned. */
static void short_lived_ops(void) {
  bool good = start_nonblocking(0, 3);
  for (int step = 0; step < STEPS; step++) {
    ncclResult_t status[RANKS];
    for (int i = 0; i < RANKS; i++) {
      float two = 2;
      ncclRedOp_t op, other;
      fill(&ranks[i], step);
      good &= ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, ranks[i].comm) == ncclSuccess;
      status[i] = reduce_into(&ranks[i], ranks[i].out, op);
      good &= ncclRedOpDestroy(op, ranks[i].comm) == ncclSuccess;
      two = 100;
      if (i == 0) /* rank 1 has not called, so this call is in progress */
        good &= ncclRedOpCreatePreMulSum(&other, &two, ncclFloat, ncclScalarHostImmediate, ranks[i].comm) ==
                ncclInvalidArgument;
    }
    for (int i = 0; i < RANKS; i++) {
      good &= settled(&ranks[i], status[i]) == ncclSuccess;
      for (size_t k = 0; k < count_out(); k++)
        ranks[i].out[k] /= 2;
      good &= is_sum(&ranks[i], step);
    }
  }
  finish();
  ok(good, "ops that are destroyed while their call is under way: %d steps are exact", STEPS);
}

/* A child's handle appears when its parents are ready. No configuration says that it is non-blocking. */
static void children(void) {
  ncclComm_t parents[RANKS], made[RANKS];
  bool good = start_nonblocking(0, 3);
  ncclGroupStart();
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommSplit(ranks[i].comm, 0, i, &made[i], NULL) == ncclSuccess;
  ncclResult_t status = ncclGroupEnd();
  for (int i = 0; i < RANKS; i++) {
    good &= settled(&ranks[i], status) == ncclSuccess;
    parents[i] = ranks[i].comm;
  }
  adopt(made, 0);
  good &= run_one_after_the_other();
  for (int i = 0; i < RANKS; i++) {
    ncclCommDestroy(made[i]);
    ncclCommDestroy(parents[i]);
  }
  ok(good, "children of a split: %d steps are exact", STEPS);
}

/* Rank 0 calls, rank 1 does not. Meanwhile other calls are refused as NCCL does, and an abort ends the call. */
static void alone(int steps, const char *what) {
  ncclComm_t child;
  ncclRedOp_t op;
  void *handle;
  float one = 1;
  bool good = start_nonblocking(steps, 3) && run_threads();
  struct rank *r = &ranks[0];
  ncclResult_t state = ncclSuccess;
  fill(r, steps);
  good &= reduce_scatter(r) == ncclInProgress;
  good &= ncclCommGetAsyncError(r->comm, &state) == ncclSuccess && state == ncclInProgress;
  ok(good, "%s that rank 1 does not join returns at once and stays in progress", what);
  good = reduce_scatter(r) == ncclInvalidArgument;
  good &= ncclSend(r->send, 1, ncclFloat, 1, r->comm, NULL) == ncclInvalidArgument;
  good &= ncclCommSplit(r->comm, 0, 0, &child, NULL) == ncclInvalidArgument;
  good &= ncclCommFinalize(r->comm) == ncclInvalidArgument && ncclCommDestroy(r->comm) == ncclInvalidArgument;
  good &= ncclRedOpCreatePreMulSum(&op, &one, ncclFloat, ncclScalarHostImmediate, r->comm) == ncclInvalidArgument;
  good &= ncclCommRegister(r->comm, r->send, N, &handle) == ncclInvalidArgument;
  ok(good, "other calls on the communicator are refused as NCCL refuses them");
  good = ncclCommAbort(r->comm) == ncclSuccess && ncclCommAbort(ranks[1].comm) == ncclSuccess;
  ok(good && (untouched(r) || steps == 0), "who gives up waiting can abort it, and nothing was decoded");
}

/* Rank 1 leaves, and rank 0 gets ncclRemoteError. */
static void peer_leaves(void) {
  bool good = start_nonblocking(STEPS, 3) && run_threads();
  fill(&ranks[0], STEPS);
  ncclResult_t status = reduce_scatter(&ranks[0]);
  good &= status == ncclInProgress && ncclCommAbort(ranks[1].comm) == ncclSuccess;
  status = settled(&ranks[0], status);
  good &= status == ncclRemoteError && settled(&ranks[0], ncclInProgress) == ncclRemoteError;
  good &= settled(&ranks[0], reduce_scatter(&ranks[0])) == ncclRemoteError;
  good &= ncclCommAbort(ranks[0].comm) == ncclSuccess;
  ok(good, "a peer that leaves a compressed call: the communicator says ncclRemoteError, and so does the next call");
}

/* NCCL_COMM_BLOCKING=1 beats the configuration: the call blocks, and can still be aborted. The variable may come from
 * the environment. NCCL's configuration file sets it only when NCCL starts: too late for code that has read it already.
 */
static void *call_once(void *argument) {
  struct rank *r = argument;
  r->begun++;
  r->last = reduce_scatter(r);
  return NULL;
}

static void forced_to_block(const char *by) {
  pthread_t thread;
  struct rank *r = &ranks[0];
  bool good = start_nonblocking(STEPS, 3) && run_threads();
  fill(r, STEPS);
  r->begun = 0;
  pthread_create(&thread, NULL, call_once, r);
  while (!r->begun)
    pause_briefly();
  nanosleep(&(struct timespec){0, 50000000}, NULL); /* most of the time the call is inside NCCL then */
  good &= ncclCommAbort(r->comm) == ncclSuccess && ncclCommAbort(ranks[1].comm) == ncclSuccess;
  pthread_join(thread, NULL);
  ok(good && r->last != ncclSuccess, "made blocking by %s: a compressed call that rank 1 does not join can be aborted",
     by);
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "forced") == 0) {
    forced_to_block("the environment");
    return done();
  }
  a_thread_a_rank();
  ranks_differ();
  one_thread();
  one_after_the_other();
  refused_ends();
  watched();
  several_calls();
  beside_a_finalize();
  short_lived_ops();
  children();
  alone(0, "a plain call");
  alone(UNCOMPRESSED, "a vote");
  alone(STEPS, "a compressed call");
  peer_leaves();
  setenv("NCCL_COMM_BLOCKING", "1", 1);
  forced_to_block("a file");
  return done();
}
