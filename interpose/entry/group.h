/* SPDX-License-Identifier: BSD-3-Clause
 * What a thread has open: the nesting of groups, and the calls that are held back in it.
 *
 * The program's ncclGroupStart is forwarded at once. Collectives, sends and receives are held back until the outermost
 * end: launch.h says what happens then. Forwarded at once is what makes or ends communicators or windows, one-sided
 * calls, what is captured into a graph, calls on one rank, and what the real library refuses.
 * Threads: all state is the calling thread's own. Every copy of NCCL (real.h) has groups of its own.
 */
#ifndef INTERPOSE_ENTRY_GROUP_H
#define INTERPOSE_ENTRY_GROUP_H

#include "interpose/comm/call.h"

/* Is a group open in this thread? */
bool tagc_group_is_open(const struct tagc_nccl *nccl);

/* Its number, from 1 on in this process; 0: none is open. */
uint32_t tagc_group_number(const struct tagc_nccl *nccl);

/* Keeps a copy of an observed call, with a reference to its communicator, until the end of the open group. False
 * without memory. */
bool tagc_group_hold(struct tagc_call *call);

/* A call in the group has failed for a reason of ours: what is held is dropped, and the outermost end returns this
 * error, as NCCL does with its own. Outside a group nothing happens. */
void tagc_group_fail(const struct tagc_nccl *nccl, ncclResult_t error);

/* Hands a call of a communicator to the real function as it came. */
ncclResult_t tagc_group_forward(const struct tagc_call *call);

/* A call on a communicator went on as it came: that is noted (hierarchy.h), now or when the group that is open has
 * ended. False without memory. */
bool tagc_group_passed(const struct tagc_nccl *nccl, struct tagc_comm *comm, cudaStream_t stream);

/* ncclRedOpDestroy in a group that holds a call with this op: true, and the op is destroyed after the group's end. */
bool tagc_group_defer_destroy(const struct tagc_nccl *nccl, ncclRedOp_t op, ncclComm_t comm);

/* The three entries of a group. *real_errno becomes what the real function leaves in errno, but where a launch takes
 * its place. */
ncclResult_t tagc_group_start(const struct tagc_nccl *nccl, int *real_errno);
ncclResult_t tagc_group_end(const struct tagc_nccl *nccl, int *real_errno);
ncclResult_t tagc_group_simulate_end(const struct tagc_nccl *nccl, ncclSimInfo_t *info, int *real_errno);

#endif
