/* SPDX-License-Identifier: BSD-3-Clause
 * One group of the real NCCL, made by us, over several communicators: what the vote, the rounds and the codecs have in
 * common.
 *
 * A group of blocking communicators is launched when its end returns. Non-blocking ones may still be at it then
 * (ncclInProgress), and nothing may come after it before each of them reports success: that is waited for here, by
 * asking them. An abort from another thread ends the wait.
 */
#ifndef INTERPOSE_EXEC_NCCL_GROUP_H
#define INTERPOSE_EXEC_NCCL_GROUP_H

#include "interpose/comm/comm.h"
#include "interpose/comm/placement.h"

/* The real functions that an exchange needs. */
struct tagc_nccl_group {
  __typeof__(&ncclGroupStart) start;
  __typeof__(&ncclGroupEnd) end;
  __typeof__(&ncclReduceScatter) reduce_scatter;
  __typeof__(&ncclAllGather) all_gather;
  __typeof__(&ncclAllReduce) all_reduce;
  __typeof__(&ncclSend) send;
  __typeof__(&ncclRecv) receive;
  __typeof__(&ncclCommGetAsyncError) async_error;
  /* NULL where this NCCL does not have it. Two levels need all but the first. */
  __typeof__(&ncclAlltoAll) all_to_all; /* from 2.28 on */
  __typeof__(&ncclCommSplit) split;     /* from 2.18 on */
  __typeof__(&ncclReduce) reduce;
  __typeof__(&ncclRedOpCreatePreMulSum) create_op;
  __typeof__(&ncclRedOpDestroy) destroy_op;
};

/* Finds them. False where this NCCL lacks one that is needed: it gets every call as it came. All ranks have the same
 * version of NCCL. */
bool tagc_nccl_group_find(struct tagc_nccl_group *real, const struct tagc_nccl *nccl);

/* Adds the calls of the i-th communicator to a group. */
typedef ncclResult_t tagc_enqueue_function(const struct tagc_nccl_group *real, void *context, size_t i);

/* Runs a group over communicators in TAGC_OWNER_LIBRARY, which they are in again when it returns, but for those that
 * were aborted: an abort waits while calls are added, which does not block, so that none of them meets a communicator
 * that is gone, but not for the end of the group. The first error of the real library; ncclInternalError, which NCCL
 * itself gives then, when a communicator was aborted meanwhile. */
ncclResult_t tagc_nccl_group_run(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count,
                                 tagc_enqueue_function *enqueue, void *context);

/* Waits until the real library is done with what an idle communicator was called with. The error that it has then. */
ncclResult_t tagc_nccl_group_await(const struct tagc_nccl_group *real, struct tagc_comm *comm);

/* The same as tagc_nccl_group_run() for calls that may block before the end of the group, as ncclCommSplit() may: an
 * abort waits for none of them. What comes back is what became of the group, whether a communicator was aborted
 * meanwhile or not. *late: it was over only after the end had returned, so that some communicator is a non-blocking
 * one. */
ncclResult_t tagc_nccl_group_run_blocking(const struct tagc_nccl_group *real, struct tagc_comm *const *comms,
                                          size_t count, tagc_enqueue_function *enqueue, void *context, bool *late);

/* Adds to a group what sends a message of `bytes` bytes to every other rank and receives one from each: nranks of them
 * lie at `out` and at `in`, and those of this rank itself mean nothing. By ncclAlltoAll, where this NCCL has it, or
 * peer by peer. */
ncclResult_t tagc_nccl_group_exchange(const struct tagc_nccl_group *real, const struct tagc_exchange_comm *peers,
                                      cudaStream_t stream, const uint8_t *out, uint8_t *in, size_t bytes,
                                      bool all_to_all);

/* Makes up for an ncclRedOpDestroy that was put off. An idle communicator is what it needs; one that was aborted has
 * taken its ops with it. */
void tagc_nccl_group_destroy_op(struct tagc_comm *comm, ncclRedOp_t op);

#endif
