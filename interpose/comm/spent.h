/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_BUDGET: what the calls of a communicator have taken since its codecs were chosen, and when they are chosen again (vote/retune.h).
 *
 * Threads     As the calls of a communicator: one at a time.
 */
#ifndef INTERPOSE_COMM_SPENT_H
#define INTERPOSE_COMM_SPENT_H

#include "interpose/comm/comm.h"

/* Is the call of a slot in the cycle before the next selection, or later? Equal on all ranks. */
bool tagc_selection_is_near(const struct tagc_comm *comm, const struct tagc_call *call);

/* A slot has become plain, on all ranks, by a call in this cycle: the next selection comes as soon as it can. */
void tagc_selection_hasten(struct tagc_comm *comm, uint64_t cycle);

/* On memory of the host: the clock before a plain call (0: nobody wants to know), and how long a call has kept the program since then.
 * Calls that were disturbed by a look or a vote do not count. */
uint64_t tagc_selection_begin(const struct tagc_call *call);
void tagc_selection_since(const struct tagc_call *call, uint64_t began);

/* The same for a compressed call of a slot, of which a device tells later. */
void tagc_selection_add(struct tagc_comm *comm, int slot, double ns);

#endif
