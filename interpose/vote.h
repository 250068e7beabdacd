/* SPDX-License-Identifier: BSD-3-Clause
 * The vote: the one place where the ranks of a communicator meet.
 *
 * When its cycle is known, each rank reserves the memory of its slots, connects to its peers and joins one small min
 * all-reduce. What comes out is equal on all ranks: for every slot, whether all of them can compress it, in the same
 * context, with the same options. It is also the only time the host waits.
 */
#ifndef INTERPOSE_VOTE_H
#define INTERPOSE_VOTE_H

#include "interpose/comm.h"

/* Is the vote due before this call, the first one on its communicator in its launch (alone, or in a group of
 * reduce-scatters alone)? A function of replicated facts. */
bool tagc_vote_due(const struct tagc_comm *comm, const struct tagc_call *call);

/* Holds the vote on the communicators of `calls` (one call a communicator), all together in one group, in order; must be
 * outside a group. ncclSuccess, or the real library's error. Afterwards comm->voted, slot->verdict and the memory of the
 * slots that won are set. */
ncclResult_t tagc_vote_hold(struct tagc_call *const *calls, size_t count);

/* Frees the slots of a communicator, their residuals and the workspace. */
void tagc_vote_release_slots(struct tagc_comm *comm);

/* Bytes of workspace that one call of a slot takes, to compress or to flush. */
size_t tagc_vote_call_bytes(const struct tagc_slot *slot);

#endif
