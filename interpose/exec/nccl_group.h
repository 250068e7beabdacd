/* SPDX-License-Identifier: BSD-3-Clause
 * One group of the real NCCL, made by us, over several communicators. The vote, the rounds and the codecs use it.
 *
 * A group of blocking communicators is launched when its end returns. Non-blocking ones may still be in progress then
 * (ncclInProgress), and nothing may follow before each of them reports success: this code asks them until they do. An
 * abort from another thread ends the wait.
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
  __typeof__(&ncclBroadcast) broadcast;
  __typeof__(&ncclSend) send;
  __typeof__(&ncclRecv) receive;
  __typeof__(&ncclCommGetAsyncError) async_error;
  /* NULL if this NCCL lacks it. Two levels need all but the first. */
  __typeof__(&ncclAlltoAll) all_to_all; /* from 2.28 on */
  __typeof__(&ncclCommSplit) split;     /* from 2.18 on */
  __typeof__(&ncclReduce) reduce;
  __typeof__(&ncclRedOpCreatePreMulSum) create_op;
  __typeof__(&ncclRedOpDestroy) destroy_op;
};

/* Finds them. False if this NCCL lacks a necessary one: then every call passes, as all ranks have the same NCCL. */
bool tagc_nccl_group_find(struct tagc_nccl_group *real, const struct tagc_nccl *nccl);

/* Adds the calls of the i-th communicator to a group. */
typedef ncclResult_t tagc_enqueue_function(const struct tagc_nccl_group *real, void *context, size_t i);

/* Runs a group over communicators in TAGC_OWNER_LIBRARY. They are in it again on return, except aborted ones. An abort
 * waits while calls are added, which does not block, so that no call meets a freed communicator; it does not wait for
 * the end of the group. Returns the real library's first error; ncclInternalError, like NCCL, if a communicator was
 * aborted. */
ncclResult_t tagc_nccl_group_run(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count,
                                 tagc_enqueue_function *enqueue, void *context);

/* Waits until the real library has finished its calls on an idle communicator. Returns the error that it then has. */
ncclResult_t tagc_nccl_group_await(const struct tagc_nccl_group *real, struct tagc_comm *comm);

/* The same as tagc_nccl_group_run() for calls that may block before the end of the group, as ncclCommSplit() may: an
 * abort waits for none of them. Returns the group's result, whether or not a communicator was aborted meanwhile. *late:
 * the group was over only after its end had returned, so some communicator is non-blocking. */
ncclResult_t tagc_nccl_group_run_blocking(const struct tagc_nccl_group *real, struct tagc_comm *const *comms,
                                          size_t count, tagc_enqueue_function *enqueue, void *context, bool *late);

/* Adds to a group the exchange of messages of `bytes` bytes between all ranks. nranks of them lie at `out` and at `in`;
 * those of this rank itself mean nothing. Uses ncclAlltoAll if `all_to_all`, else sends and receives peer by peer. */
ncclResult_t tagc_nccl_group_exchange(const struct tagc_nccl_group *real, const struct tagc_exchange_comm *peers,
                                      cudaStream_t stream, const uint8_t *out, uint8_t *in, size_t bytes,
                                      bool all_to_all);

/* Makes up for a postponed ncclRedOpDestroy, on an idle communicator. An aborted one has already freed its ops. */
void tagc_nccl_group_destroy_op(struct tagc_comm *comm, ncclRedOp_t op);

#endif
