/* SPDX-License-Identifier: BSD-3-Clause
 * The proposals of a communicator: this rank's plan for every slot and all-gather, and the outcome for all ranks.
 *
 * Planning gives each slot its codec (that of TAGC_CODEC, or the choice of auto) and asks the plan about it; then it
 * reserves residuals and workspace (memory.h). Resolving keeps what all ranks can do and have planned alike; then the
 * rest is given back. Functions that ask a device may wait: without the communicator's lock. All others: with it.
 */
#ifndef INTERPOSE_VOTE_PROPOSAL_H
#define INTERPOSE_VOTE_PROPOSAL_H

#include "interpose/comm/comm.h"
#include "interpose/vote/message.h"

/* The number of int64 of all proposals. */
size_t tagc_proposal_words(const struct tagc_comm *comm);

/* Could slot i be compressed, if its gradient were known? Equal on all ranks. */
bool tagc_proposal_is_eligible(const struct tagc_comm *comm, size_t i);

/* Would tagc_proposal_check() set up a device, which may take long? Takes and drops the lock. */
bool tagc_proposal_waits(const struct tagc_call *call);

/* Checks a plain call before the vote: can codecs handle its buffers and its scalar? If not, notes the reason in its
 * slot. Takes and drops the lock. */
void tagc_proposal_check(const struct tagc_call *call);

/* Plans all slots, and the all-gathers of parameters. `decided`: everything stays plain, without asking any rank.
 * `wire`: the probe's result; NULL: none, and with TAGC_CODEC=auto every slot stays plain. Asks the device: without the
 * lock. */
void tagc_proposal_plan(struct tagc_comm *comm, bool decided, const struct tagc_wire *wire);

/* Makes the side stream if calls go in chunks (without it none does), and reserves memory (memory.h) on the stream of
 * the call before which the vote is held. False if memory is lacking. Without the lock. */
bool tagc_proposal_reserve(struct tagc_comm *comm, void *stream);

void tagc_proposal_pack(const struct tagc_comm *comm, bool reserved, struct tagc_message *message);

/* Turns the proposals of all ranks into the reasons of slots and all-gathers; sets comm->vote.held. */
void tagc_proposal_resolve(struct tagc_comm *comm, struct tagc_message *message);

#endif
