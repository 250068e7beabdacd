/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of one communicator in a launch, by one rank or by several of this thread.
 *
 * Collectives that are never compressed go first, in one group, as NCCL fuses them. The others run in rounds: the first
 * one of each rank, then the second one, and so on, whether a rank makes them in a group or one by one. A round first
 * holds the vote, if it is due, and then runs the calls. Sends and receives go last, in one group. NCCL, too, runs them
 * after the collectives of a group; payloads may be messages between the same two ranks, which NCCL matches in order.
 *
 * Must be outside a group. Errors: the real library's first one; ncclInternalError after an abort meanwhile;
 * ncclSystemError without memory.
 */
#ifndef INTERPOSE_ENTRY_ROUNDS_H
#define INTERPOSE_ENTRY_ROUNDS_H

#include "interpose/exec/nccl_group.h"

/* Can the call take a round? It is a collective that may be compressed, as far as its communicator knows. */
bool tagc_rounds_takes(const struct tagc_call *call);

/* Before the call's turn: decides it from what is known now, and sets call->rounds and call->meets, the needs of its
 * launch. If it needs no round, and no call before it does, the decision is final. Otherwise it is decided again when
 * its turn comes: a vote may have changed the facts. */
void tagc_rounds_foresee(struct tagc_call *call);

/* Runs the calls of one communicator. */
ncclResult_t tagc_rounds_run(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count);

/* Passes calls of any communicators, in one group. Returns when NCCL has launched them. */
ncclResult_t tagc_rounds_pass(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count);

/* TAGC_DUMP: writes the gradients of calls that are about to be forwarded. The two functions above do it themselves. */
void tagc_rounds_dump(const struct tagc_call *calls, size_t count);

/* Before and after a plain call. */
void tagc_rounds_before_plain(struct tagc_call *call);
void tagc_rounds_after_plain(const struct tagc_call *call);

#endif
