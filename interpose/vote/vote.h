/* SPDX-License-Identifier: BSD-3-Clause
 * The vote: the one place where the ranks of a communicator meet.
 *
 * When its cycle is known, each rank reserves the memory of its slots, connects to its peers and joins one small min
 * all-reduce of its proposal (proposal.h). The outcome is equal on all ranks: for every slot, whether all of them can
 * compress it, in the same context. The host waits for it.
 *
 * With TAGC_CODEC=auto two more all-reduces come before it: one of the ranks' samples of their gradients (tune.h),
 * after which the wire is probed (probe.h), and one of the probe's times. The choice of codecs (choose.h) is a function
 * of the outcome. If any rank lacks something for that, the first one decides that all slots stay plain. If a gradient
 * was not sampled in its usual state, the vote is held again in a later cycle.
 *
 * With TAGC_BUDGET votes are repeated now and then (budget/retune.h), with the wire of the first one.
 */
#ifndef INTERPOSE_VOTE_VOTE_H
#define INTERPOSE_VOTE_VOTE_H

#include "interpose/comm/comm.h"
#include "interpose/exec/execute.h"

/* Is the vote due before this call? A function of replicated facts. Takes and drops the communicator's lock. */
bool tagc_vote_is_due(const struct tagc_call *call);

/* Holds the vote that is due before `calls`, which are of different ranks of one communicator, in this thread; not
 * inside a group. Returns ncclSuccess (also if none was due), the real library's error, ncclInternalError if a
 * communicator was aborted meanwhile, or ncclSystemError without memory for its messages. Afterwards comm->vote.held,
 * slot->reason and the memory of compressed slots are set, unless the vote was postponed. */
ncclResult_t tagc_vote_hold(const struct tagc_nccl_group *real, struct tagc_call *const *calls, size_t count);

#endif
