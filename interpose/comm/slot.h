/* SPDX-License-Identifier: BSD-3-Clause
 * Questions about a slot of a communicator, which its calls, its all-gathers and the vote ask.
 *
 * Threads     With the communicator's lock; but tagc_slot_reject_reason() asks the device, which may wait: without it.
 */
#ifndef INTERPOSE_COMM_SLOT_H
#define INTERPOSE_COMM_SLOT_H

#include "interpose/comm/comm.h"
#include "interpose/policy/plan.h"

/* Is the slot taken for a gradient: by its cycle, by TAGC_LAYERMAP, or because a model explains all slots? */
bool tagc_slot_is_gradient(const struct tagc_comm *comm, size_t i);

/* What is asked of the plan about slot i; how much room there is for its residual is the caller's to say. */
struct tagc_slot_question tagc_slot_question(const struct tagc_comm *comm, size_t i);

/* What slot i has not sent yet is given up, and counted. */
void tagc_slot_drop_residual(struct tagc_comm *comm, size_t i);

/* Is anything about a call that no codec can do with, and that other ranks may not know? TAGC_REASON_NONE: nothing. */
enum tagc_reason tagc_slot_reject_reason(const struct tagc_call *call);

#endif
