/* SPDX-License-Identifier: BSD-3-Clause
 * Communicators of the stand-in: every way to make one, splits and shrinks, all ranks in one process, errors of bad
 * arguments, ids that differ in any byte, and ends: abort from another thread, revoke, a second destroy. With the
 * argument "split" it makes only one split.
 */
#include "tests/e2e/standin/standin_check.h"
#include "tests/unit/self.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

static ncclComm_t comm;

/* True if an all-reduce on it counts `nranks` ranks. */
static bool works(ncclComm_t on, int nranks) {
  int one = 1, sum = 0, count = 0;
  return ncclCommCount(on, &count) == ncclSuccess && count == nranks &&
         ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, on, NULL) == ncclSuccess && sum == nranks;
}

/* Returns rank 0's new id, on all ranks. */
static ncclUniqueId new_id(void) {
  ncclUniqueId id = {{0}};
  if (check_rank == 0)
    NEED(ncclGetUniqueId(&id));
  NEED(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, comm, NULL));
  return id;
}

static void test_questions(void) {
  int version = 0, rank = -1, count = -1, device = -1;
  ncclResult_t error = ncclInternalError;
  NEED(ncclGetVersion(&version));
  NEED(ncclCommUserRank(comm, &rank));
  NEED(ncclCommCount(comm, &count));
  NEED(ncclCommCuDevice(comm, &device));
  NEED(ncclCommGetAsyncError(comm, &error));
  check(version == 23203 && rank == check_rank && count == check_nranks && device == 0 && error == ncclSuccess,
        "version, rank, count, device and error of a communicator");
}

static void test_id_layout(void) {
  ncclUniqueId id, another;
  uint64_t magic, other_magic;
  bool zeros = true;
  NEED(ncclGetUniqueId(&id));
  NEED(ncclGetUniqueId(&another));
  memcpy(&magic, id.internal, sizeof magic);
  memcpy(&other_magic, another.internal, sizeof other_magic);
  for (int i = 40; i < 64; i++) /* the rest belongs to the callers */
    zeros &= id.internal[i] == 0;
  check(magic && magic != other_magic && zeros, "an id has a magic number of its own, and zeros from byte 40 on");
}

/* Bytes 40 to 127 belong to the callers, but all ranks must bring the same. */
static void test_opaque_bytes(void) {
  ncclComm_t made = NULL;
  ncclUniqueId id = new_id();
  memset(id.internal + 64, 0xa5, 64);
  NEED(ncclCommInitRank(&made, check_nranks, id, check_rank));
  check(works(made, check_nranks), "an id with foreign bytes in its unused part");
  NEED(ncclCommDestroy(made));
  if (check_nranks == 1)
    return;
  id = new_id();
  id.internal[127] = (char)(check_rank == check_nranks - 1);
  ncclResult_t result = ncclCommInitRank(&made, check_nranks, id, check_rank);
  check(result != ncclSuccess && made == NULL, "ids that differ in the last byte do not meet (%d)", (int)result);
  id = new_id();
  result = ncclCommInitRank(&made, check_nranks + (check_rank == 0), id, check_rank);
  check(result != ncclSuccess && made == NULL, "nor do ranks that disagree on their number (%d)", (int)result);
  id = new_id();
  result = ncclCommInitRank(&made, check_nranks, id, 0);
  check(result != ncclSuccess && made == NULL, "nor two ranks 0 (%d)", (int)result);
}

/* Waits for a non-blocking communicator. Returns its state. */
static ncclResult_t wait_for(ncclComm_t which) {
  ncclResult_t error = ncclInProgress;
  while (error == ncclInProgress) {
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    NEED(ncclCommGetAsyncError(which, &error));
  }
  return error;
}

static void test_configurations(void) {
  ncclComm_t made;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER, bad = NCCL_CONFIG_INITIALIZER;
  ncclResult_t error = ncclInternalError;
  config.blocking = 0;
  int sum = 0, one = 1, count = 0;
  check_result(ncclCommInitRankConfig(&made, check_nranks, new_id(), check_rank, &config), ncclInProgress,
               "a non-blocking communicator is announced");
  error = wait_for(made);
  check(error == ncclSuccess && ncclCommCount(made, &count) == ncclSuccess && count == check_nranks, "and gets ready");
  check_result(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, made, NULL),
               check_nranks > 1 ? ncclInProgress : ncclSuccess, "a call on it");
  check(wait_for(made) == ncclSuccess && sum == check_nranks, "is done in the background");
  if (check_nranks > 1) { /* the last rank comes when the others have tried everything */
    bool last = check_rank == check_nranks - 1;
    if (!last) {
      ncclResult_t first = ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, made, NULL),
                   second = ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, made, NULL);
      check(first == ncclInProgress && second == ncclInvalidArgument, "a second one before it succeeds is refused");
      check_result(ncclCommDestroy(made), ncclInvalidArgument, "and so is the end of the communicator");
    }
    NEED(ncclAllReduce(&one, &count, 1, ncclInt32, ncclMax, comm, NULL));
    if (last)
      ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, made, NULL);
    check(wait_for(made) == ncclSuccess, "neither does harm");
  }
  NEED(ncclCommDestroy(made));
  bad.magic = 0;
  check_result(ncclCommInitRankConfig(&made, 1, new_id(), 0, &bad), ncclInvalidArgument, "a config without its magic");
  bad = config;
  bad.blocking = 7;
  check_result(ncclCommInitRankConfig(&made, 1, new_id(), 0, &bad), ncclInvalidArgument, "blocking = 7");

  int nids = check_nranks < 2 ? 1 : 2;
  ncclUniqueId ids[2] = {new_id(), new_id()};
  NEED(ncclCommInitRankScalable(&made, check_nranks, check_rank, nids, ids, NULL));
  check(works(made, check_nranks), "several ids for one communicator");
  NEED(ncclCommDestroy(made));
  check_result(ncclCommInitRankScalable(&made, 1, 0, 2, ids, NULL), ncclInvalidArgument, "more ids than ranks");
}

static void test_splits(void) {
  ncclComm_t part, child;
  int rank = -1;
  bool lonely = check_rank == check_nranks - 1;
  NEED(ncclCommSplit(comm, lonely ? NCCL_SPLIT_NOCOLOR : 5, check_rank, &part, NULL));
  check(lonely ? part == NULL : works(part, check_nranks - 1), "a split without the last rank");
  if (part) {
    NEED(ncclCommSplit(part, check_rank & 1, -check_rank, &child, NULL));
    NEED(ncclCommUserRank(child, &rank));
    int same = 0, after = 0;
    for (int r = check_rank & 1; r < check_nranks - 1; r += 2) {
      same++;
      after += r > check_rank;
    }
    check(works(child, same) && rank == after, "a split of a split, in the order of the keys");
    NEED(ncclCommDestroy(part));
    check(works(child, same), "which outlives its parent");
    NEED(ncclCommDestroy(child));
  }
}

/* Two splits of each of two communicators: in a group of both, in another order on every other rank, then once more. */
static void test_many_splits(void) {
  ncclComm_t parents[2] = {comm}, children[2], again[2];
  bool good = true;
  int halves[2] = {check_nranks / 2, check_nranks - check_nranks / 2};
  NEED(ncclCommSplit(comm, 0, -check_rank, &parents[1], NULL));
  NEED(ncclGroupStart());
  for (int i = 0; i < 2; i++) {
    int which = (i + check_rank) % 2;
    NEED(ncclCommSplit(parents[which], which ? 0 : check_rank % 2, check_rank, &children[which], NULL));
  }
  NEED(ncclGroupEnd());
  for (int i = 0; i < 2; i++)
    NEED(ncclCommSplit(parents[i], check_rank < halves[0], check_rank, &again[i], NULL));
  good &= works(children[0], halves[!(check_rank % 2)]) && works(children[1], check_nranks);
  for (int i = 0; i < 2; i++) {
    good &= works(again[i], halves[check_rank >= halves[0]]);
    NEED(ncclCommDestroy(again[i]));
    NEED(ncclCommDestroy(children[i]));
  }
  check(good, "splits of two communicators in a group, and one after the other");
  NEED(ncclCommDestroy(parents[1]));
}

static void test_shrink(void) {
  ncclComm_t rest = NULL;
  int excluded[] = {0}, everybody_but = check_nranks - 1;
  check_result(ncclCommShrink(comm, NULL, 1, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument,
               "a shrink without a list");
  check_result(ncclCommShrink(comm, &check_rank, 1, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclInvalidArgument,
               "a shrink that excludes the caller");
  if (check_rank > 0) {
    int rank = -1;
    NEED(ncclCommShrink(comm, excluded, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
    NEED(ncclCommUserRank(rest, &rank));
    check(works(rest, everybody_but) && rank == check_rank - 1, "a shrink without rank 0");
    NEED(ncclCommDestroy(rest));
  }
  check(works(comm, check_nranks), "the parent of splits and shrinks still works");
}

/* The communicator of all other ranks grows by the last one. */
static void test_grow(void) {
  ncclComm_t part, grown;
  bool fresh = check_rank == check_nranks - 1;
  ncclUniqueId id = {{0}};
  int rank = -1;
  if (check_nranks == 1)
    return;
  NEED(ncclCommSplit(comm, fresh ? NCCL_SPLIT_NOCOLOR : 0, check_rank, &part, NULL));
  if (check_rank == 0)
    NEED(ncclCommGetUniqueId(part, &id));
  NEED(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, comm, NULL));
  memcpy(&rank, id.internal + 36, sizeof rank);
  check(rank == check_nranks - 1, "the id says how many ranks there are");
  check_result(ncclCommGrow(part, check_nranks - 1, &id, fresh ? check_nranks - 1 : -1, &grown, NULL),
               ncclInvalidArgument, "a grow without a place for the new rank");
  if (!fresh)
    check_result(ncclCommGrow(part, check_nranks, NULL, check_rank, &grown, NULL), ncclInvalidArgument,
                 "a grow of a rank that has its place");
  NEED(ncclCommGrow(part, check_nranks, fresh || check_rank == 0 ? &id : NULL, fresh ? check_rank : -1, &grown, NULL));
  NEED(ncclCommUserRank(grown, &rank));
  check(works(grown, check_nranks) && rank == check_rank, "a communicator that has grown by a rank");
  if (part)
    NEED(ncclCommDestroy(part));
  NEED(ncclCommSuspend(grown, NCCL_SUSPEND_MEM));
  check_result(ncclAllReduce(&rank, &rank, 1, ncclInt32, ncclSum, grown, NULL), ncclInvalidUsage,
               "a call while it sleeps");
  NEED(ncclCommResume(grown));
  check(works(grown, check_nranks), "after its sleep it works");
  NEED(ncclCommDestroy(grown));
}

/* One thread for all ranks: a group must drive all its communicators at once. */
static void test_init_all(void) {
  enum { N = 5, COUNT = 200000 };
  ncclComm_t comms[N], halves[N];
  static int32_t values[N][COUNT], shards[N][COUNT / N];
  const int same[] = {0, 0}, devices[] = {3, 1, 0, 2, 4};
  int device = -1;
  bool good = true;
  NEED(ncclCommInitAll(comms, N, devices));
  NEED(ncclCommCuDevice(comms[1], &device));
  check(device == 1, "the list of devices is kept");
  for (int r = 0; r < N; r++)
    for (int i = 0; i < COUNT; i++)
      values[r][i] = (int32_t)(mix(11, r, (size_t)i) & 0xffff);
  NEED(ncclGroupStart());
  for (int r = 0; r < N; r++)
    NEED(ncclReduceScatter(values[r], shards[r], COUNT / N, ncclInt32, ncclSum, comms[r], NULL));
  for (int r = 0; r < N; r++) {
    NEED(ncclSend(values[r], COUNT, ncclInt32, (r + 1) % N, comms[r], NULL));
    NEED(ncclRecv(values[(r + 2) % N], 0, ncclInt32, r, comms[r], NULL));
  }
  static int32_t received[N][COUNT];
  for (int r = 0; r < N; r++)
    NEED(ncclRecv(received[r], COUNT, ncclInt32, (r + N - 1) % N, comms[r], NULL));
  NEED(ncclGroupEnd());
  for (int r = 0; r < N; r++) {
    for (int i = 0; i < COUNT / N; i++) {
      int32_t sum = 0;
      for (int k = 0; k < N; k++)
        sum += values[k][r * (COUNT / N) + i];
      good &= shards[r][i] == sum;
    }
    good &= memcmp(received[r], values[(r + N - 1) % N], sizeof received[r]) == 0;
  }
  check(good, "%d ranks in one thread: a reduce-scatter and messages around the ring", N);
  NEED(ncclGroupStart());
  for (int r = 0; r < N; r++)
    NEED(ncclCommSplit(comms[r], r % 2, 0, &halves[r], NULL));
  NEED(ncclGroupEnd());
  int32_t sums[N];
  NEED(ncclGroupStart());
  for (int r = 0; r < N; r++) {
    sums[r] = r;
    NEED(ncclAllReduce(&sums[r], &sums[r], 1, ncclInt32, ncclSum, halves[r], NULL));
  }
  NEED(ncclGroupEnd());
  check(sums[0] == 6 && sums[1] == 4 && sums[4] == 6, "they split in a group, too");
  for (int r = 0; r < N; r++) {
    NEED(ncclCommDestroy(halves[r]));
    NEED(ncclCommDestroy(comms[r]));
  }
  check_result(ncclCommInitAll(comms, 2, same), ncclInvalidUsage, "one device twice");
  check_result(ncclCommInitAll(NULL, 2, NULL), ncclInvalidArgument, "InitAll without a place for the handles");
}

static void test_bad_arguments(void) {
  char buffer[8] = {0};
  void *handle;
  ncclComm_t made, stranger = (ncclComm_t)(void *)buffer;
  ncclUniqueId id = {{0}};
  ncclRedOp_t op;
  float scalar = 1;
#define REFUSED(call) check_result(call, ncclInvalidArgument, #call)
  REFUSED(ncclAllReduce(buffer, buffer, 1, ncclInt8, ncclSum, NULL, NULL));
  REFUSED(ncclAllReduce(buffer, buffer, 1, ncclInt8, ncclSum, stranger, NULL));
  REFUSED(ncclAllReduce(NULL, buffer, 1, ncclInt8, ncclSum, comm, NULL));
  REFUSED(ncclAllReduce(buffer, NULL, 1, ncclInt8, ncclSum, comm, NULL));
  REFUSED(ncclAllReduce(buffer, buffer, 1, (ncclDataType_t)12, ncclSum, comm, NULL));
  REFUSED(ncclAllReduce(buffer, buffer, 1, (ncclDataType_t)-1, ncclSum, comm, NULL));
  REFUSED(ncclAllReduce(buffer, buffer, 1, ncclFloat8e4m3, ncclSum, comm, NULL));
  REFUSED(ncclAllReduce(buffer, buffer, 1, ncclInt8, (ncclRedOp_t)-1, comm, NULL));
  REFUSED(ncclAllReduce(buffer, buffer, 1, ncclInt8, ncclNumOps, comm, NULL));
  REFUSED(ncclReduceScatter(NULL, buffer, 1, ncclInt8, ncclSum, comm, NULL));
  REFUSED(ncclAllGather(buffer, NULL, 1, ncclInt8, comm, NULL));
  REFUSED(ncclReduce(buffer, buffer, 1, ncclInt8, ncclSum, check_nranks, comm, NULL));
  REFUSED(ncclReduce(buffer, NULL, 1, ncclInt8, ncclSum, check_rank, comm, NULL));
  REFUSED(ncclBroadcast(buffer, buffer, 1, ncclInt8, -1, comm, NULL));
  REFUSED(ncclSend(buffer, 1, ncclInt8, check_nranks, comm, NULL));
  REFUSED(ncclRecv(NULL, 1, ncclInt8, 0, comm, NULL));
  REFUSED(ncclScatter(buffer, NULL, 1, ncclInt8, 0, comm, NULL));
  REFUSED(ncclGather(NULL, buffer, 1, ncclInt8, 0, comm, NULL));
  REFUSED(ncclAlltoAll(NULL, buffer, 1, ncclInt8, comm, NULL));
  REFUSED(ncclGetUniqueId(NULL));
  REFUSED(ncclGetVersion(NULL));
  REFUSED(ncclCommInitRank(NULL, 1, id, 0));
  REFUSED(ncclCommInitRank(&made, 0, id, 0));
  REFUSED(ncclCommInitRank(&made, 2, id, 2));
  REFUSED(ncclCommInitRank(&made, 1, id, 0));
  REFUSED(ncclCommSplit(comm, 0, 0, NULL, NULL));
  REFUSED(ncclCommSplit(NULL, 0, 0, &made, NULL));
  REFUSED(ncclCommCount(comm, NULL));
  REFUSED(ncclCommUserRank(NULL, &check_rank));
  REFUSED(ncclCommGetAsyncError(comm, NULL));
  REFUSED(ncclCommRegister(comm, NULL, 8, &handle));
  REFUSED(ncclCommRevoke(comm, 1));
  REFUSED(ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat32, ncclScalarDevice, comm));
  REFUSED(ncclRedOpCreatePreMulSum(&op, &scalar, (ncclDataType_t)12, ncclScalarDevice, comm));
  REFUSED(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarDevice, NULL));
  REFUSED(ncclCommAbort(stranger));
  REFUSED(ncclCommDestroy(stranger));
#undef REFUSED
  check_result(ncclAllReduce(NULL, NULL, 0, ncclInt8, ncclSum, comm, NULL), ncclSuccess, "an empty call, no buffers");
  check_result(ncclCommDestroy(NULL), ncclSuccess, "destroying no communicator");
  check(works(comm, check_nranks), "no bad argument did any harm");
}

static void test_memory(void) {
  void *memory, *handle;
  ncclWindow_t window;
  NEED(ncclMemAlloc(&memory, 12345));
  memset(memory, 1, 12345);
  NEED(ncclCommRegister(comm, memory, 12345, &handle));
  NEED(ncclCommWindowRegister(comm, memory, 12345, &window, NCCL_WIN_COLL_SYMMETRIC));
  NEED(ncclCommWindowDeregister(comm, window));
  NEED(ncclCommDeregister(comm, handle));
  check((uintptr_t)memory % 4096 == 0, "memory is aligned to pages, and can be registered");
  NEED(ncclMemFree(memory));
}

struct blocked {
  ncclComm_t comm;
  bool sends;
  ncclResult_t result;
  atomic_int thread; /* the thread that is about to make the call */
};

/* Waits until the thread sleeps in its call, or has ended because another rank was faster. The communicator must not
 * end before the call. */
static void wait_until_blocked(const struct blocked *blocked) {
  while (!blocked->thread)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  wait_until_asleep(blocked->thread);
}

/* Blocks for ever: no rank answers. */
static void *block(void *argument) {
  struct blocked *blocked = argument;
  static char buffer[8 << 20];
  blocked->thread = (int)syscall(SYS_gettid);
  blocked->result = blocked->sends
                      ? ncclSend(buffer, sizeof buffer, ncclInt8, (check_rank + 1) % check_nranks, blocked->comm, NULL)
                      : ncclRecv(buffer, sizeof buffer, ncclInt8, (check_rank + 1) % check_nranks, blocked->comm, NULL);
  return NULL;
}

/* Waits for ever: the last rank does not come. */
static void *split(void *argument) {
  struct blocked *blocked = argument;
  ncclComm_t child = comm;
  blocked->thread = (int)syscall(SYS_gettid);
  blocked->result = ncclCommSplit(blocked->comm, 0, 0, &child, NULL);
  if (child != NULL)
    blocked->result = ncclSuccess;
  return NULL;
}

/* Waits for longer than the root of a rendezvous waits between its checks for missing ranks that have left. */
static void come_late(void) { nanosleep(&(struct timespec){.tv_nsec = 250000000}, NULL); }

static void test_abort_of_split(bool revoke) {
  ncclComm_t twin;
  pthread_t thread;
  bool last = check_rank == check_nranks - 1;
  int one = 1;
  if (check_nranks == 1)
    return;
  NEED(ncclCommSplit(comm, 0, 0, &twin, NULL));
  struct blocked blocked = {.comm = twin, .result = ncclInternalError};
  if (!last) {
    pthread_create(&thread, NULL, split, &blocked);
    wait_until_blocked(&blocked);
    NEED(revoke ? ncclCommRevoke(twin, NCCL_REVOKE_DEFAULT) : ncclCommAbort(twin));
    pthread_join(thread, NULL);
  }
  check(blocked.result != ncclSuccess, "%s from another thread ends a split", revoke ? "a revoke" : "an abort");
  NEED(ncclAllReduce(&one, &one, 1, ncclInt32, ncclSum, comm, NULL)); /* the last rank's twin lives until then */
  if (last || revoke)
    NEED(ncclCommDestroy(twin));
}

static void test_abort(bool sends, bool revoke) {
  ncclComm_t twin;
  pthread_t thread;
  if (check_nranks == 1)
    return;
  NEED(ncclCommSplit(comm, 0, 0, &twin, NULL));
  struct blocked blocked = {.comm = twin, .sends = sends};
  pthread_create(&thread, NULL, block, &blocked);
  wait_until_blocked(&blocked);
  NEED(revoke ? ncclCommRevoke(twin, NCCL_REVOKE_DEFAULT) : ncclCommAbort(twin));
  pthread_join(thread, NULL);
  check(blocked.result != ncclSuccess, "%s from another thread ends a blocked %s", revoke ? "a revoke" : "an abort",
        sends ? "send" : "receive");
  if (!revoke)
    return;
  char byte = 0;
  ncclComm_t child;
  check_result(ncclAllReduce(&byte, &byte, 1, ncclInt8, ncclSum, twin, NULL), ncclInvalidUsage, "a call after that");
  check_result(ncclCommRevoke(twin, NCCL_REVOKE_DEFAULT), ncclInvalidArgument, "a second revoke");
  if (check_rank == check_nranks - 1)
    come_late();
  NEED(ncclCommSplit(twin, 0, 0, &child, NULL));
  check(works(child, check_nranks), "a revoked communicator can be split");
  NEED(ncclCommDestroy(child));
  NEED(ncclCommDestroy(twin));
}

static void test_ends(void) {
  ncclComm_t twin;
  char byte = 0;
  NEED(ncclCommSplit(comm, 0, 0, &twin, NULL));
  NEED(ncclCommFinalize(twin));
  check_result(ncclCommFinalize(twin), ncclInvalidArgument, "a second finalize");
  check_result(ncclAllReduce(&byte, &byte, 1, ncclInt8, ncclSum, twin, NULL), ncclInvalidUsage, "a call then");
  NEED(ncclCommDestroy(twin));
  check_result(ncclCommDestroy(twin), ncclInvalidArgument, "a second destroy");
  check_result(ncclAllReduce(&byte, &byte, 1, ncclInt8, ncclSum, twin, NULL), ncclInvalidArgument, "a call then");
}

/* A rank leaves in the middle, by an abort or (with an even number of ranks) by its death: all ranks of the ring
 * notice. The last test, because it breaks the communicator. */
static void test_lost_rank(void) {
  static char buffer[1 << 20];
  ncclComm_t rest;
  int lost[] = {check_nranks - 1};
  if (check_nranks == 1)
    return;
  if (check_rank == check_nranks - 1) {
    if (check_nranks % 2 == 0 && getenv("STANDIN_COMMS_EXITS"))
      exit(check_done()); /* runs the exit handlers of libraries */
    if (check_nranks % 2 == 0)
      _exit(check_done());
    NEED(ncclCommAbort(comm));
    comm = NULL;
    return;
  }
  ncclResult_t result = ncclAllReduce(buffer, buffer, sizeof buffer, ncclInt8, ncclSum, comm, NULL), error;
  NEED(ncclCommGetAsyncError(comm, &error));
  check(result == ncclRemoteError && error == ncclRemoteError, "the others get ncclRemoteError when a rank has left");
  if (check_rank == check_nranks - 2)
    come_late();
  NEED(ncclCommShrink(comm, lost, 1, &rest, NULL, NCCL_SHRINK_ABORT));
  check(works(rest, check_nranks - 1), "and can go on without it");
  NEED(ncclCommDestroy(rest));
  check_result(ncclCommDestroy(comm), ncclRemoteError, "what has failed is not destroyed");
  NEED(ncclCommAbort(comm));
  comm = NULL;
}

/* Makes one split. With `aborted` it aborts the parent when rank 0 has died in it, which standin.test causes. */
static int run_split(bool aborted) {
  pthread_t thread;
  struct blocked blocked = {.comm = comm, .result = ncclInternalError};
  int32_t first = getpid();
  NEED(ncclBroadcast(&first, &first, 1, ncclInt32, 0, comm, NULL));
  pthread_create(&thread, NULL, split, &blocked);
  while (aborted && kill(first, 0) == 0)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  if (aborted)
    NEED(ncclCommAbort(comm));
  pthread_join(thread, NULL);
  printf("# rank %d: the split ends with %d\n", check_rank, (int)blocked.result);
  return 0;
}

int main(int argc, char **argv) {
  comm = check_world();
  if (argc > 1 && strcmp(argv[1], "split") == 0)
    return run_split(argc > 2);
  test_questions();
  test_id_layout();
  test_opaque_bytes();
  test_configurations();
  test_splits();
  test_many_splits();
  test_shrink();
  test_grow();
  test_init_all();
  test_bad_arguments();
  test_memory();
  test_abort(true, false);
  test_abort(false, false);
  test_abort(false, true);
  test_abort_of_split(false);
  test_abort_of_split(true);
  test_ends();
  test_lost_rank();
  if (comm)
    NEED(ncclCommDestroy(comm));
  return check_done();
}
