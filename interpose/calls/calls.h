/* SPDX-License-Identifier: BSD-3-Clause
 * A call on its communicator: it is observed, decided once, when its turn comes, and entered into the accounts.
 *
 * Threads    As the calls of a communicator: one at a time. Functions take the communicator's lock, unless noted.
 */
#ifndef INTERPOSE_CALLS_CALLS_H
#define INTERPOSE_CALLS_CALLS_H

#include "interpose/comm/comm.h"

/* ---- the call itself --------------------------------------------------------------------------------------------- */

/* May the call be compressed, so that a group holds it back? A reduce-scatter; an all-reduce of many floats, if the
 * cycle has a slot for it (known once it is observed); an all-gather of floats, unless TAGC_ALLGATHER=off; a broadcast
 * of TAGC_MIN_BYTES or more with TAGC_BROADCAST=exact. Smaller ones stay together in a group of NCCL. */
bool tagc_call_may_compress(const struct tagc_call *call);

/* Is the call a broadcast, of either name? */
static inline bool tagc_call_is_broadcast(const struct tagc_call *call) {
  return call->entry == TAGC_ENTRY_ncclBroadcast || call->entry == TAGC_ENTRY_ncclBcast;
}

/* The shape of a broadcast for the codec. Returns why it has none; TAGC_REASON_NONE: *out is filled. Pure. */
enum tagc_reason tagc_call_broadcast_shape(const struct tagc_call *call, struct tagc_broadcast_shape *out);

/* Bytes of an element, and of the larger buffer: all shards. */
size_t tagc_call_type_size(ncclDataType_t type);
uint64_t tagc_call_bytes(const struct tagc_call *call);

/* The collective as which the cycle counts it. */
enum tagc_collective tagc_call_collective(const struct tagc_call *call);

/* ---- on its way -------------------------------------------------------------------------------------------------- */

/* Reports the next collective to its communicator, and fills that part of the call. ncclSystemError without memory. */
ncclResult_t tagc_call_observe(struct tagc_call *call);

/* A CUDA graph captures a call of the communicator, which is not observed. */
void tagc_call_note_capture(struct tagc_comm *comm);

/* The call's turn has come: fills call->decision. */
void tagc_call_decide(struct tagc_call *call);

/* Enters a decided call into the accounts: that it was made, its reason and, if it passes, its bytes. */
void tagc_call_account(struct tagc_call *call);

/* Makes a call pass, whatever the plan says, and enters it into the accounts. */
void tagc_call_pass(struct tagc_call *call, enum tagc_reason reason);

/* ---- a new lock (lock.c) ----------------------------------------------------------------------------------------- */

/* A cycle was locked, or is locked no more. All data kept by slot is void: the caller frees *old. With the lock. */
ncclResult_t tagc_lock_start(struct tagc_comm *comm, struct tagc_former_lock *old);

/* TAGC_LAYERMAP=torch: the ranks have compared what PyTorch says. All of them have this model, which the communicator
 * takes over, or none use any (NULL): then the layers are inferred. Before the first slot's first call. With the lock.
 */
ncclResult_t tagc_lock_use_map(struct tagc_comm *comm, struct tagc_model *model);

#endif
