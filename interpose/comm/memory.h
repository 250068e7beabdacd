/* SPDX-License-Identifier: BSD-3-Clause
 * The device memory of a communicator: residuals and tallies of its slots, and the workspace that all calls share.
 *
 * Before its proposal a rank reserves memory for all that it would compress. After the vote it gives the rest back.
 * Later votes keep the memory of slots with the same codec; all-gathers keep that of the first vote. A new lock
 * detaches all of it.
 * Order      Memory is given back behind the fence (its last use), or never if an abort has left the fence unset.
 * Threads    Functions may wait for the device: without the communicator's lock, except tagc_memory_detach().
 */
#ifndef INTERPOSE_COMM_MEMORY_H
#define INTERPOSE_COMM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/comm/votes.h"

struct tagc_allgather_phase;
struct tagc_codec;
struct tagc_comm;
struct tagc_slot;

/* Shared by the calls of all slots. */
struct tagc_comm_memory {
  uint8_t *workspace; /* for the payloads of a call */
  size_t workspace_bytes;
  _Atomic(void *) side_stream; /* encodes and decodes calls in chunks; NULL: none */
  void *health;                /* of the device (device.h); NULL: not needed */
};

/* The memory of a slot. */
struct tagc_slot_memory {
  const struct tagc_codec *codec; /* it was reserved for this codec; NULL: nothing is reserved */
  void *residual;                 /* NULL: none */
  uint64_t residual_bytes;
  void *tally; /* only for a device that counts by itself; NULL: none */
};

/* Where nonzero values of the sums of an all-reduce may be gathered. */
struct tagc_support_buffers {
  uint64_t *needed;  /* by rank: bytes of its payload */
  uint8_t *encoded;  /* this rank's payload */
  uint8_t *payloads; /* of all ranks */
  void *state;       /* of the codec */
};

/* Points them into the memory at `base`. Returns the bytes that they take (`base` may be NULL for that). */
size_t tagc_memory_assign_support(struct tagc_support_buffers *out, const struct tagc_allgather_phase *phase,
                                  uint8_t *base);

/* Bytes at the start of a call's workspace, for the all-gather phase of an all-reduce. */
size_t tagc_memory_allgather_phase_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot);

/* Reserves memory for slots and all-gathers, on the stream of the call behind the vote. False without memory. */
bool tagc_memory_reserve(struct tagc_comm *comm, void *stream);
/* Gives back the memory of slots that stay plain. */
void tagc_memory_trim(struct tagc_comm *comm);

/* Enters the devices' counts for calls of slots into the accounts. */
void tagc_memory_read_tallies(struct tagc_comm *comm);

/* The slots of a communicator and the memory that is held for them. */
struct tagc_former_lock {
  struct tagc_slot *slots;
  size_t slot_count;
  struct tagc_allgather *allgathers;
  size_t allgather_count;
  uint8_t *workspace;
  void *health;
  struct tagc_comm_changes changes;
};

/* Takes them off the communicator. */
struct tagc_former_lock tagc_memory_detach(struct tagc_comm *comm);
/* Enters the counts of their device, and gives all memory back. */
void tagc_memory_release(struct tagc_comm *comm, struct tagc_former_lock *former);

#endif
