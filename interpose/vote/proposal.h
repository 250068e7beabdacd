/* SPDX-License-Identifier: BSD-3-Clause
 * The proposals of a communicator: what this rank would do with every slot and all-gather, and what all ranks do with
 * it then.
 *
 * Planning gives each slot its codec (that of TAGC_CODEC, or the choice of auto) and asks the plan about it; then it
 * reserves residuals and workspace (memory.h). Resolving keeps what all ranks can do and have planned alike; then the
 * rest is given back. A device may make its caller wait: call what asks one without the communicator's lock, and the
 * rest with it.
 */
#ifndef INTERPOSE_VOTE_PROPOSAL_H
#define INTERPOSE_VOTE_PROPOSAL_H

#include "interpose/comm/comm.h"
#include "interpose/vote/message.h"

/* So many int64. */
size_t tagc_proposal_words(const struct tagc_comm *comm);

/* Could slot i be compressed, if its gradient were known? Equal on all ranks. */
bool tagc_proposal_is_eligible(const struct tagc_comm *comm, size_t i);

/* Would tagc_proposal_check() set a device up, which takes as long as it takes? Takes and drops the lock. */
bool tagc_proposal_waits(const struct tagc_call *call);

/* A call is about to be forwarded as it came: before the vote, can codecs do with its buffers and its scalar? Else its
 * slot hears why. Takes and drops the lock. */
void tagc_proposal_check(const struct tagc_call *call);

/* Plans all slots, and the all-gathers of parameters. `decided`: everything stays plain, and no rank is asked any more.
 * `wire`: what the probe has found; NULL: there was none, and with TAGC_CODEC=auto every slot stays plain. Without the
 * lock: it asks the device. */
void tagc_proposal_plan(struct tagc_comm *comm, bool decided, const struct tagc_wire *wire);

/* Makes the side stream where calls go in chunks, without which none does, and reserves memory (memory.h), on the
 * stream of the call before which the vote is held. False where memory lacks. Without the lock. */
bool tagc_proposal_reserve(struct tagc_comm *comm, void *stream);

void tagc_proposal_pack(const struct tagc_comm *comm, bool reserved, struct tagc_message *message);

/* Turns the proposals of all ranks into the reasons of slots and all-gathers; comm->vote.held is set. */
void tagc_proposal_resolve(struct tagc_comm *comm, struct tagc_message *message);

#endif
