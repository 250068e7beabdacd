/* SPDX-License-Identifier: BSD-3-Clause
 * The ballot of a communicator: what this rank would do with every slot, and what all ranks do with it then.
 *
 * Planning it gives each slot its codec (that of TAGC_CODEC, or the choice of auto) and asks the plan about it; then residuals and
 * workspace are reserved (memory.h). Counting it keeps what all ranks can do and have planned alike; then the rest is given back.
 * What asks a device may wait for it: call it without the communicator's lock, and the rest with it.
 */
#ifndef INTERPOSE_VOTE_PROPOSAL_H
#define INTERPOSE_VOTE_PROPOSAL_H

#include "interpose/comm/comm.h"

/* So many int64, for a min all-reduce. */
size_t tagc_ballot_words(const struct tagc_comm *comm);

/* Could slot i be compressed, if its gradient were known? Equal on all ranks. */
bool tagc_ballot_eligible(const struct tagc_comm *comm, size_t i);

/* Would tagc_ballot_look() set a device up, which takes as long as it takes? Takes and drops the lock. */
bool tagc_ballot_waits(const struct tagc_call *call);

/* A call is about to be forwarded as it came: before the vote its slot is barred for such a reason. Takes and drops the
 * lock. */
void tagc_ballot_look(const struct tagc_call *call);

/* Plans all slots, and the all-gathers of parameters. `decided`: everything stays plain, and no rank is asked any more. `wire`: what
 * the probe has found; NULL: there was none, and with TAGC_CODEC=auto every slot stays plain. Without the lock: the device has its
 * say. */
void tagc_ballot_plan(struct tagc_comm *comm, bool decided, const struct tagc_wire *wire);

/* Makes the lane where calls are cut, without which none is, and reserves memory (memory.h), on the stream of the call
 * before which the vote is held. False where memory lacks. Without the lock. */
bool tagc_ballot_reserve(struct tagc_comm *comm, void *stream);

void tagc_ballot_fill(const struct tagc_comm *comm, bool reserved, int64_t *ballot);

/* Turns the outcome into verdicts; comm->voted is set. */
void tagc_ballot_count(struct tagc_comm *comm, const int64_t *ballot);

#endif
