/* SPDX-License-Identifier: BSD-3-Clause
 * A thread's open groups: their nesting, and the calls that they hold back.
 *
 * The program's ncclGroupStart is forwarded at once. Collectives, sends and receives are held back until the outermost
 * end: then see launch.h. Forwarded at once are functions that make or end communicators or windows, one-sided calls,
 * captured calls, calls on one rank, and calls that the real library refuses.
 * Threads: all state is the calling thread's own. Every copy of NCCL (real.h) has groups of its own.
 */
#ifndef INTERPOSE_ENTRY_GROUP_H
#define INTERPOSE_ENTRY_GROUP_H

#include "interpose/comm/call.h"

/* Is a group open in this thread? */
bool tagc_group_is_open(const struct tagc_nccl *nccl);

/* Its number, from 1 on in this process; 0: none is open. */
uint32_t tagc_group_number(const struct tagc_nccl *nccl);

/* Keeps a copy of an observed call, with a reference to its communicator, until the group ends. False without
 * memory. */
bool tagc_group_hold(struct tagc_call *call);

/* A call in the group has failed in this library: the held calls are dropped, and the outermost end returns this error,
 * as NCCL does with its own. Does nothing outside a group. */
void tagc_group_fail(const struct tagc_nccl *nccl, ncclResult_t error);

/* Calls the real function for a call, and keeps its order (exec/order.h). */
ncclResult_t tagc_group_forward(const struct tagc_call *call);

/* Notes a plain call on a communicator (exec/order.h), now or after the end of the open group. False without memory. */
bool tagc_group_passed(const struct tagc_nccl *nccl, struct tagc_comm *comm, cudaStream_t stream);

/* The real library has ended or aborted a communicator, or will when the open group ends: waits for our work on it then
 * (tagc_comm_await_rest()). NULL: nothing to do. */
void tagc_group_ended(const struct tagc_nccl *nccl, struct tagc_comm *comm);

/* ncclRedOpDestroy in a group that holds a call with this op: true, and the op is destroyed after the group's end. */
bool tagc_group_defer_destroy(const struct tagc_nccl *nccl, ncclRedOp_t op, ncclComm_t comm);

/* The three entries of a group. Set *real_errno to the real function's errno, unless a launch replaces it. */
ncclResult_t tagc_group_start(const struct tagc_nccl *nccl, int *real_errno);
ncclResult_t tagc_group_end(const struct tagc_nccl *nccl, int *real_errno);
ncclResult_t tagc_group_simulate_end(const struct tagc_nccl *nccl, ncclSimInfo_t *info, int *real_errno);

#endif
