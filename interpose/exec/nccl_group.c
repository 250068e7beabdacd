/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/nccl_group.h"

#include <sched.h>
#include <time.h>

bool tagc_nccl_group_find(struct tagc_nccl_group *real, const struct tagc_nccl *nccl) {
  real->start = TAGC_REAL(ncclGroupStart, nccl);
  real->end = TAGC_REAL(ncclGroupEnd, nccl);
  real->reduce_scatter = TAGC_REAL(ncclReduceScatter, nccl);
  real->all_gather = TAGC_REAL(ncclAllGather, nccl);
  real->all_reduce = TAGC_REAL(ncclAllReduce, nccl);
  real->broadcast = TAGC_REAL(ncclBroadcast, nccl);
  real->send = TAGC_REAL(ncclSend, nccl);
  real->receive = TAGC_REAL(ncclRecv, nccl);
  real->async_error = TAGC_REAL(ncclCommGetAsyncError, nccl);
  /* NCCL may lack these. */
  real->all_to_all = (__typeof__(&ncclAlltoAll))nccl->functions[TAGC_ENTRY_ncclAlltoAll];
  real->split = (__typeof__(&ncclCommSplit))nccl->functions[TAGC_ENTRY_ncclCommSplit];
  real->reduce = (__typeof__(&ncclReduce))nccl->functions[TAGC_ENTRY_ncclReduce];
  real->create_op = (__typeof__(&ncclRedOpCreatePreMulSum))nccl->functions[TAGC_ENTRY_ncclRedOpCreatePreMulSum];
  real->destroy_op = (__typeof__(&ncclRedOpDestroy))nccl->functions[TAGC_ENTRY_ncclRedOpDestroy];
  return real->start && real->end && real->reduce_scatter && real->all_gather && real->all_reduce && real->broadcast &&
         real->send && real->receive && real->async_error;
}

/* Asks every communicator once, except aborted ones; the library must own them. ncclInProgress while any still works,
 * even if another one has failed: it uses memory that is freed afterwards. Then the first error, which NCCL keeps
 * reporting. */
static ncclResult_t ask_progress(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count) {
  ncclResult_t failed = ncclSuccess;
  bool in_progress = false;
  for (size_t i = 0; i < count; i++) {
    if (tagc_comm_is_aborted(comms[i])) {
      /* A thread of NCCL may still enqueue work on a device, which must come before the release of memory there. */
      in_progress |= comms[i]->device && !comms[i]->device->host_reads && !atomic_load(&comms[i]->ownership.abort_over);
      continue;
    }
    ncclResult_t state = ncclSuccess, status = TAGC_IN_REAL(real->async_error(comms[i]->handle, &state));
    if (status == ncclSuccess)
      status = state;
    if (status == ncclInProgress) {
      tagc_comm_is_in_progress(comms[i], count == 1);
      in_progress = true;
    } else if (failed == ncclSuccess)
      failed = status;
  }
  return in_progress ? ncclInProgress : failed;
}

/* Waits between two questions: yields first, then takes naps that grow: a launch takes microseconds, a first contact
 * milliseconds. */
static void wait_between(unsigned asked) {
  enum { YIELDS = 20, STEP_NS = 20000, LONGEST_NS = 500000 };
  if (asked < YIELDS) {
    sched_yield();
    return;
  }
  const long ns = (asked - YIELDS + 1L) * STEP_NS;
  nanosleep(&(struct timespec){.tv_nsec = ns < LONGEST_NS ? ns : LONGEST_NS}, NULL);
}

/* Waits until communicators that the library owns have launched their work. It lends them to NCCL while it naps, so
 * that an abort waits for one question at most, and never frees a communicator that is being asked. An abort of one
 * does not end the wait for the others: NCCL uses their memory. */
static ncclResult_t wait_launched(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count) {
  ncclResult_t status;
  for (unsigned asked = 0; (status = ask_progress(real, comms, count)) == ncclInProgress; asked++) {
    tagc_comms_lend(comms, count);
    wait_between(asked);
    tagc_comms_take_back(comms, count);
  }
  return status;
}

static bool all_return_at_once(struct tagc_comm *const *comms, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!comms[i]->returns_at_once)
      return false;
  return true;
}

/* An abort does not wait for: nothing, the end of the group, all of it. */
enum abortable { NOT_ABORTABLE, ABORTABLE_END, ABORTABLE_CALLS };

/* A group that was started must be ended, even if its communicators fail. */
static ncclResult_t make_group(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count,
                               tagc_enqueue_function *enqueue, void *context, enum abortable abortable) {
  tagc_real_depth++;
  ncclResult_t status = real->start();
  if (status == ncclSuccess) {
    if (abortable == ABORTABLE_CALLS)
      tagc_comms_lend(comms, count);
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
      status = enqueue(real, context, i);
    if (abortable == ABORTABLE_END)
      tagc_comms_lend(comms, count);
    ncclResult_t ended = real->end();
    if (abortable != NOT_ABORTABLE)
      tagc_comms_take_back(comms, count);
    status = status == ncclSuccess ? ended : status;
  }
  tagc_real_depth--;
  return status;
}

static bool any_aborted(struct tagc_comm *const *comms, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tagc_comm_is_aborted(comms[i]))
      return true;
  return false;
}

ncclResult_t tagc_nccl_group_run(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count,
                                 tagc_enqueue_function *enqueue, void *context) {
  /* The group of non-blocking communicators ends at once: an abort should wait for that rather than free a communicator
   * under it. A group of blocking ones may last until it is aborted. So may one of those that were only announced as
   * non-blocking, because NCCL also reads files of its own. */
  const enum abortable abortable = all_return_at_once(comms, count) ? NOT_ABORTABLE : ABORTABLE_END;
  if (any_aborted(comms, count))
    return ncclInternalError;
  ncclResult_t status = make_group(real, comms, count, enqueue, context, abortable);
  if (status == ncclInProgress)
    status = wait_launched(real, comms, count);
  return status == ncclSuccess && any_aborted(comms, count) ? ncclInternalError : status;
}

ncclResult_t tagc_nccl_group_await(const struct tagc_nccl_group *real, struct tagc_comm *comm) {
  if (!tagc_comms_enter(&comm, 1))
    return ncclInternalError;
  const ncclResult_t status = wait_launched(real, &comm, 1);
  tagc_comms_leave(&comm, 1);
  return status == ncclSuccess && tagc_comm_is_aborted(comm) ? ncclInternalError : status;
}

ncclResult_t tagc_nccl_group_run_blocking(const struct tagc_nccl_group *real, struct tagc_comm *const *comms,
                                          size_t count, tagc_enqueue_function *enqueue, void *context, bool *late) {
  if (any_aborted(comms, count))
    return ncclInternalError;
  ncclResult_t status = make_group(real, comms, count, enqueue, context, ABORTABLE_CALLS);
  *late = status == ncclInProgress;
  return *late ? wait_launched(real, comms, count) : status;
}

ncclResult_t tagc_nccl_group_exchange(const struct tagc_nccl_group *real, const struct tagc_exchange_comm *peers,
                                      cudaStream_t stream, const uint8_t *out, uint8_t *in, size_t bytes,
                                      bool all_to_all) {
  ncclResult_t status = ncclSuccess;
  if (all_to_all)
    return real->all_to_all(out, in, bytes, ncclUint8, peers->handle, stream);
  /* Each rank begins with its successor, so that not all send to the same rank first. */
  for (int step = 1; step < peers->nranks && status == ncclSuccess; step++) {
    const int to = (peers->rank + step) % peers->nranks, from = (peers->rank + peers->nranks - step) % peers->nranks;
    status = real->send(out + (size_t)to * bytes, bytes, ncclUint8, to, peers->handle, stream);
    if (status == ncclSuccess)
      status = real->receive(in + (size_t)from * bytes, bytes, ncclUint8, from, peers->handle, stream);
  }
  return status;
}

void tagc_nccl_group_destroy_op(struct tagc_comm *comm, ncclRedOp_t op) {
  __typeof__(&ncclRedOpDestroy) destroy = TAGC_REAL(ncclRedOpDestroy, comm->nccl);
  if (!destroy || !tagc_comms_enter(&comm, 1))
    return;
  tagc_op_destroyed(op, comm->handle);
  (void)TAGC_IN_REAL(destroy(op, comm->handle));
  tagc_comms_leave(&comm, 1);
}
