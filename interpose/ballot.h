/* SPDX-License-Identifier: BSD-3-Clause
 * The ballot of a communicator: what this rank would do with every slot, and what all ranks do with it then.
 *
 * Filling it gives each slot its codec (that of TAGC_CODEC, or the choice of auto), asks the plan about it, and reserves
 * residuals and workspace. Counting it keeps what all ranks can do and have planned alike, and gives back the rest.
 * Call all of it with the communicator's lock held.
 */
#ifndef INTERPOSE_BALLOT_H
#define INTERPOSE_BALLOT_H

#include "interpose/comm.h"

/* What is asked of the plan about slot i; how much room there is for its residual is the caller's to say. */
struct tagc_slot_question tagc_ballot_question(const struct tagc_comm *comm, size_t i);

/* So many int64, for a min all-reduce. */
size_t tagc_ballot_words(const struct tagc_comm *comm);

/* Plans all slots and reserves their memory. `wire`: what the probe has found; NULL: there was none, and with TAGC_CODEC=auto
 * every slot stays plain. */
void tagc_ballot_fill(struct tagc_comm *comm, const struct tagc_wire *wire, int64_t *ballot);

/* Turns the outcome into verdicts; comm->voted is set. */
void tagc_ballot_count(struct tagc_comm *comm, const int64_t *ballot);

/* Frees the slots of a communicator, their residuals and the workspace. */
void tagc_ballot_release_slots(struct tagc_comm *comm);

#endif
