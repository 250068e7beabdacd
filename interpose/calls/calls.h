/* SPDX-License-Identifier: BSD-3-Clause
 * A call on its communicator: it is observed, it is decided once, when its turn comes, and it is entered into the
 * accounts.
 *
 * Threads    As the calls of a communicator: one at a time. Functions take and drop the communicator's lock, but for
 *            those that want it held.
 */
#ifndef INTERPOSE_CALLS_CALLS_H
#define INTERPOSE_CALLS_CALLS_H

#include "interpose/comm/comm.h"

/* ---- the call itself --------------------------------------------------------------------------------------------- */

/* Is the call one that may be compressed, and therefore held back in a group? A reduce-scatter; an all-reduce of many
 * floating-point numbers, if the cycle has a slot for it, which is known when it has been observed; unless
 * TAGC_ALLGATHER=off an all-gather of floating-point numbers. */
bool tagc_call_may_compress(const struct tagc_call *call);

/* Bytes of an element, and of what a reduction adds up: of all shards. */
size_t tagc_call_type_size(ncclDataType_t type);
uint64_t tagc_call_bytes(const struct tagc_call *call);

/* What the cycle takes it for. */
enum tagc_collective tagc_call_collective(const struct tagc_call *call);

/* ---- on its way -------------------------------------------------------------------------------------------------- */

/* Tells the communicator of its next collective; fills the call's part of it. ncclSystemError without memory. */
ncclResult_t tagc_call_observe(struct tagc_call *call);

/* What would become of the call if its turn had come? The lock of its cycle may be another one by now. With the
 * lock. */
struct tagc_decision tagc_call_plan(struct tagc_call *call);

/* Its turn has come: fills call->decision. */
void tagc_call_decide(struct tagc_call *call);

/* Enters a call that was decided into the accounts: that it was made, why it goes the way it goes, and, where it
 * passes, its bytes. */
void tagc_call_account(struct tagc_call *call);

/* A call goes on as it came, whatever the plan says: decides that, and enters it into the accounts. */
void tagc_call_pass(struct tagc_call *call, enum tagc_reason reason);

/* ---- a new lock (lock.c) ----------------------------------------------------------------------------------------- */

/* A cycle was locked, or is not any more. All that was kept by slot is void, and *old is to be given back. With the
 * lock. */
ncclResult_t tagc_lock_start(struct tagc_comm *comm, struct tagc_former_lock *old);

#endif
