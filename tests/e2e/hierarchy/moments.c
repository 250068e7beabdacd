/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/e2e/hierarchy/moments.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/nccl/nccl_newer.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- this thread ------------------------------------------------------------------------------------------------- */

enum { MOST_SPLITS = 16 };

struct count {
  atomic_int seen, at;
  void (*_Atomic happens)(const char *function);
  _Atomic(ncclResult_t) error;
};

static struct count of_strangers;
static atomic_bool strangers_count;

static _Thread_local struct {
  struct count count;
  int depth;
  ncclComm_t last; /* the last communicator used in the group */
  int rank, splits;
  ncclComm_t *asked[MOST_SPLITS]; /* where NCCL stores the children of the open group */
  int asked_count;
  ncclComm_t *shrunk[MOST_SPLITS]; /* and those of shrinks */
  int shrunk_count;
  ncclResult_t failure; /* of that group */
} here = {.rank = -1};

static void begin(struct count *count, int number, void (*happens)(const char *function), ncclResult_t error) {
  count->seen = 0;
  count->happens = happens;
  count->error = error;
  count->at = number;
}

EXPORT void moments_at(int number, void (*happens)(const char *function)) {
  begin(&here.count, number, happens, ncclSuccess);
}

EXPORT void moments_fail_at(int number, ncclResult_t error) { begin(&here.count, number, NULL, error); }

EXPORT int moments_seen(void) { return here.count.seen; }

EXPORT void moments_of_strangers(int number, void (*happens)(const char *function), ncclResult_t error) {
  begin(&of_strangers, number, happens, error);
  strangers_count = number >= 0;
}

EXPORT int moments_strangers_seen(void) { return of_strangers.seen; }

EXPORT void moments_rank(int rank) {
  here.rank = rank;
  here.splits = 0;
}

/* Counts a call. Returns the error that it must fail with. */
static ncclResult_t moment(const char *function) {
  struct count *count = here.rank < 0 && strangers_count ? &of_strangers : &here.count;
  void (*happens)(const char *) = count->happens;
  if (atomic_fetch_add(&count->seen, 1) + 1 != count->at)
    return ncclSuccess;
  if (happens)
    happens(function);
  return count->error;
}

/* ---- all threads ------------------------------------------------------------------------------------------------- */

enum { MOST_CHILDREN = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  ncclComm_t handle;
  bool over;
} children[MOST_CHILDREN];
static int child_count;
static struct moments_account account;
static int failing_split, failing_rank;
static enum moments_failure failing_how;
static ncclResult_t failing_error, children_say, refuse_destroy;

EXPORT void moments_fail_split(int which, enum moments_failure how, int rank, ncclResult_t error) {
  pthread_mutex_lock(&lock);
  failing_split = which;
  failing_how = how;
  failing_rank = rank;
  failing_error = error;
  pthread_mutex_unlock(&lock);
}

EXPORT void moments_refuse_destroy(ncclResult_t error) {
  pthread_mutex_lock(&lock);
  refuse_destroy = error;
  pthread_mutex_unlock(&lock);
}

EXPORT void moments_say_of_children(ncclResult_t error) {
  pthread_mutex_lock(&lock);
  children_say = error;
  pthread_mutex_unlock(&lock);
}

EXPORT struct moments_account moments_take_account(void) {
  pthread_mutex_lock(&lock);
  struct moments_account taken = account;
  for (int i = 0; i < child_count; i++)
    taken.left += !children[i].over;
  account = (struct moments_account){0};
  pthread_mutex_unlock(&lock);
  return taken;
}

/* The lock must be held. Searches backwards, because NCCL reuses addresses. */
static int find(ncclComm_t handle) {
  for (int i = child_count; i-- > 0;)
    if (children[i].handle == handle)
      return i;
  return -1;
}

static void add_child(ncclComm_t handle) {
  pthread_mutex_lock(&lock);
  int i = find(handle);
  if (i < 0 && child_count == MOST_CHILDREN) {
    fprintf(stderr, "moments: too many communicators\n");
    abort();
  }
  i = i < 0 ? child_count++ : i;
  children[i].handle = handle;
  children[i].over = false;
  account.made++;
  pthread_mutex_unlock(&lock);
}

/* Notes a use of a communicator. True if it comes from a split. */
static bool use(ncclComm_t handle) {
  pthread_mutex_lock(&lock);
  int i = find(handle);
  account.wrong += i >= 0 && children[i].over;
  pthread_mutex_unlock(&lock);
  return i >= 0;
}

static void end_child(ncclComm_t handle, int *counted) {
  pthread_mutex_lock(&lock);
  int i = find(handle);
  if (i >= 0) {
    account.wrong += children[i].over;
    children[i].over = true;
    ++*counted;
  }
  pthread_mutex_unlock(&lock);
}

/* Forgets a child: a communicator that is none has got its address. */
static void forget(ncclComm_t handle) {
  pthread_mutex_lock(&lock);
  int i = find(handle);
  if (i >= 0)
    children[i] = children[--child_count];
  pthread_mutex_unlock(&lock);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static void *next(const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  if (!function) {
    fprintf(stderr, "moments: there is no %s\n", name);
    abort();
  }
  return function;
}

/* Calls instead of jumping: the caller must be the library that asked for RTLD_NEXT. */
#define GO(name, ...) \
  ({ \
    static void *_Atomic go_next; \
    if (!go_next) \
      go_next = next(#name); \
    volatile ncclResult_t go_status = ((__typeof__(&name))go_next)(__VA_ARGS__); \
    go_status; \
  })

/* Makes a call fail. Spoils its group by a type that does not exist, so NCCL launches nothing of the group. */
static ncclResult_t fail(ncclComm_t comm, ncclResult_t error) {
  if (here.depth == 0)
    return error;
  if (here.failure == ncclSuccess)
    here.failure = error;
  GO(ncclAllReduce, NULL, NULL, 1, (ncclDataType_t)99, ncclSum, comm, NULL);
  return error;
}

/* Waits for the end of a failed call on a non-blocking communicator: its buffers are the caller's again then. */
static void let_end(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (GO(ncclCommGetAsyncError, comm, &state) == ncclSuccess && state == ncclInProgress)
    sched_yield();
}

/* Counts a call on a communicator, and may make it fail. */
#define MOMENT(comm) \
  do { \
    const ncclResult_t moment_error = moment(__func__); \
    here.last = comm; \
    if (moment_error != ncclSuccess) \
      return fail(comm, moment_error); \
  } while (0)

/* NCCL's header has no prototypes of these. */
EXPORT ncclResult_t ncclGroupStart(void);
EXPORT ncclResult_t ncclGroupEnd(void);

EXPORT ncclResult_t ncclGroupStart(void) {
  const ncclResult_t error = moment(__func__);
  if (error != ncclSuccess)
    return error;
  here.depth++;
  return GO(ncclGroupStart);
}

EXPORT ncclResult_t ncclGroupEnd(void) {
  const ncclResult_t error = moment(__func__);
  if (error != ncclSuccess)
    (void)fail(here.last, error);
  ncclResult_t status = GO(ncclGroupEnd);
  if (--here.depth > 0)
    return status;
  for (int i = 0; i < here.asked_count; i++)
    if (*here.asked[i])
      add_child(*here.asked[i]);
  for (int i = 0; i < here.shrunk_count; i++)
    forget(*here.shrunk[i]);
  here.asked_count = here.shrunk_count = 0;
  status = here.failure != ncclSuccess ? here.failure : status;
  here.failure = ncclSuccess;
  const ncclResult_t late = moment("ncclGroupEnd, done");
  if (late != ncclSuccess && status == ncclInProgress)
    let_end(here.last);
  return late != ncclSuccess ? late : status;
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config) {
  MOMENT(comm);
  use(comm);
  pthread_mutex_lock(&lock);
  bool fails = ++here.splits == failing_split && (failing_rank < 0 || failing_rank == here.rank);
  enum moments_failure how = fails ? failing_how : MOMENTS_WELL;
  ncclResult_t error = failing_error;
  pthread_mutex_unlock(&lock);
  if (how != MOMENTS_WELL)
    here.failure = error;
  if (how == MOMENTS_REFUSED || how == MOMENTS_FAILED)
    return how == MOMENTS_REFUSED ? error : ncclSuccess;
  ncclResult_t status = GO(ncclCommSplit, comm, color, key, child, config);
  if (here.depth > 0 && here.asked_count < MOST_SPLITS)
    here.asked[here.asked_count++] = child;
  return status;
}

EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *child, ncclConfig_t *config,
                                   int flags) {
  if (here.depth > 0 && here.shrunk_count < MOST_SPLITS)
    here.shrunk[here.shrunk_count++] = child;
  return GO(ncclCommShrink, comm, excluded, count, child, config, flags);
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
  ncclResult_t status = GO(ncclCommInitRank, comm, nranks, id, rank);
  if (status == ncclSuccess)
    forget(*comm);
  return status;
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  end_child(comm, &account.aborted);
  return GO(ncclCommAbort, comm);
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  pthread_mutex_lock(&lock);
  const ncclResult_t refused = refuse_destroy != ncclSuccess ? refuse_destroy
                               : find(comm) >= 0             ? children_say
                                                             : ncclSuccess;
  refuse_destroy = ncclSuccess;
  pthread_mutex_unlock(&lock);
  if (refused != ncclSuccess)
    return refused;
  end_child(comm, &account.destroyed);
  return GO(ncclCommDestroy, comm);
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  bool is_child = use(comm);
  const ncclResult_t its = here.rank < 0 && strangers_count ? moment(__func__) : ncclSuccess;
  if (its != ncclSuccess)
    let_end(comm);
  ncclResult_t status = GO(ncclCommGetAsyncError, comm, error);
  if (its != ncclSuccess)
    *error = its;
  pthread_mutex_lock(&lock);
  if (is_child && status == ncclSuccess && children_say != ncclSuccess)
    *error = children_say;
  pthread_mutex_unlock(&lock);
  return status;
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, cudaStream_t stream) {
  MOMENT(comm);
  use(comm);
  return GO(ncclReduceScatter, send, recv, count, type, op, comm, stream);
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                  cudaStream_t stream) {
  MOMENT(comm);
  use(comm);
  return GO(ncclAllGather, send, recv, count, type, comm, stream);
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, cudaStream_t stream) {
  MOMENT(comm);
  use(comm);
  return GO(ncclAllReduce, send, recv, count, type, op, comm, stream);
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  MOMENT(comm);
  use(comm);
  return GO(ncclBroadcast, send, recv, count, type, root, comm, stream);
}

EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               int root, ncclComm_t comm, cudaStream_t stream) {
  MOMENT(comm);
  use(comm);
  return GO(ncclReduce, send, recv, count, type, op, root, comm, stream);
}

EXPORT ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  MOMENT(comm);
  use(comm);
  return GO(ncclSend, send, count, type, peer, comm, stream);
}

EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  MOMENT(comm);
  use(comm);
  return GO(ncclRecv, recv, count, type, peer, comm, stream);
}

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                             ncclScalarResidence_t where, ncclComm_t comm) {
  MOMENT(comm);
  use(comm);
  return GO(ncclRedOpCreatePreMulSum, op, scalar, type, where, comm);
}

EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  MOMENT(comm);
  use(comm);
  return GO(ncclRedOpDestroy, op, comm);
}
