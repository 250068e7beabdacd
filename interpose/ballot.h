/* SPDX-License-Identifier: BSD-3-Clause
 * The ballot of a communicator: what this rank would do with every slot, and what all ranks do with it then.
 *
 * Planning it gives each slot its codec (that of TAGC_CODEC, or the choice of auto) and asks the plan about it; then residuals and
 * workspace are reserved. Counting it keeps what all ranks can do and have planned alike; then the rest is given back.
 * What asks a device may wait for it: call it without the communicator's lock, and the rest with it.
 */
#ifndef INTERPOSE_BALLOT_H
#define INTERPOSE_BALLOT_H

#include "interpose/comm.h"

/* What of the workspace of a call, at its beginning, is for gathering the sums of an all-reduce. */
size_t tagc_ballot_spread_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot);

/* Is the slot taken for a gradient: by its cycle, by TAGC_LAYERMAP, or because a model explains all slots? */
bool tagc_ballot_gradient(const struct tagc_comm *comm, size_t i);

/* What is asked of the plan about slot i; how much room there is for its residual is the caller's to say. */
struct tagc_slot_question tagc_ballot_question(const struct tagc_comm *comm, size_t i);

/* So many int64, for a min all-reduce. */
size_t tagc_ballot_words(const struct tagc_comm *comm);

/* Could slot i be compressed, if its gradient were known? Equal on all ranks. */
bool tagc_ballot_eligible(const struct tagc_comm *comm, size_t i);

/* Is anything about a call that no codec can do with, and that other ranks may not know? TAGC_REASON_compressed: nothing. */
enum tagc_reason tagc_ballot_bar(const struct tagc_call *call);

/* Would tagc_ballot_look() set a device up, which takes as long as it takes? Takes and drops the lock. */
bool tagc_ballot_waits(const struct tagc_call *call);

/* A call is about to be forwarded as it came: before the vote its slot is barred for such a reason. Takes and drops the
 * lock. */
void tagc_ballot_look(const struct tagc_call *call);

/* Plans all slots, and the all-gathers of parameters. `decided`: everything stays plain, and no rank is asked any more. `wire`: what
 * the probe has found; NULL: there was none, and with TAGC_CODEC=auto every slot stays plain. Without the lock: the device has its
 * say. */
void tagc_ballot_plan(struct tagc_comm *comm, bool decided, const struct tagc_wire *wire);

/* Enters what devices have counted of their calls into the accounts. Without the lock. */
void tagc_ballot_read(struct tagc_comm *comm);

/* Gives up what slot i has not sent, and counts it where there is something. */
void tagc_ballot_drop(struct tagc_comm *comm, size_t i);

/* Reserves their memory, on the stream of the call before which the vote is held. False where it lacks. Without the lock. */
bool tagc_ballot_reserve(struct tagc_comm *comm, void *stream);

void tagc_ballot_fill(const struct tagc_comm *comm, bool reserved, int64_t *ballot);

/* Turns the outcome into verdicts; comm->voted is set. */
void tagc_ballot_count(struct tagc_comm *comm, const int64_t *ballot);

/* Gives back what was reserved for slots that stay plain. Without the lock. */
void tagc_ballot_trim(struct tagc_comm *comm);

/* The slots of a communicator and the memory that is held for them. */
struct tagc_ballot_estate {
  struct tagc_slot *slots;
  size_t slot_count;
  struct tagc_allgather *allgathers;
  size_t allgather_count;
  uint8_t *workspace;
  void *health;
};

/* Takes them off the communicator. */
struct tagc_ballot_estate tagc_ballot_detach(struct tagc_comm *comm);
/* Enters what their device has counted, and gives all of it back, after the last work on it. Without the lock. */
void tagc_ballot_release(struct tagc_comm *comm, struct tagc_ballot_estate *estate);

#endif
