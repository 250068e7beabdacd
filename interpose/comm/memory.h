/* SPDX-License-Identifier: BSD-3-Clause
 * The device memory of a communicator: residuals and tallies of its slots, and the workspace that all calls share.
 *
 * Before its proposal a rank reserves memory for all that it would compress. Behind the vote it gives the rest back.
 * Later votes keep the memory of slots with the same codec; all-gathers keep what the first vote gave them. A new lock
 * detaches all of it.
 * Order      Memory is given back behind the fence, the last work on it; never if an abort has left that unknown.
 * Threads    The device may have to be waited for: without the communicator's lock, but for tagc_memory_detach().
 */
#ifndef INTERPOSE_COMM_MEMORY_H
#define INTERPOSE_COMM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tagc_codec;
struct tagc_comm;
struct tagc_slot;

/* What the calls of all slots share. */
struct tagc_comm_memory {
  uint8_t *workspace; /* for the payloads of a call */
  size_t workspace_bytes;
  _Atomic(void *) side_stream; /* where calls in chunks are encoded and decoded; NULL: none is */
  void *health;                /* of the device (device.h); NULL: not needed */
};

/* What is held for a slot. */
struct tagc_slot_memory {
  const struct tagc_codec *codec; /* for which; NULL: nothing is */
  void *residual;                 /* NULL: none */
  uint64_t residual_bytes;
  void *tally; /* of a device that counts by itself; NULL: none */
};

/* The first bytes of a call's workspace, which are for the all-gather phase of an all-reduce. */
size_t tagc_memory_allgather_phase_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot);

/* Reserves what slots and all-gathers need, on the stream of the call before which the vote is held. False where it
 * lacks. */
bool tagc_memory_reserve(struct tagc_comm *comm, void *stream);
/* Gives back what was reserved for slots that stay plain. */
void tagc_memory_trim(struct tagc_comm *comm);

/* Enters the counts of devices for calls of slots into the accounts. */
void tagc_memory_read_tallies(struct tagc_comm *comm);

/* The slots of a communicator and the memory that is held for them. */
struct tagc_former_lock {
  struct tagc_slot *slots;
  size_t slot_count;
  struct tagc_allgather *allgathers;
  size_t allgather_count;
  uint8_t *workspace;
  void *health;
};

/* Takes them off the communicator. */
struct tagc_former_lock tagc_memory_detach(struct tagc_comm *comm);
/* Enters the counts of their device, and gives all of it back. */
void tagc_memory_release(struct tagc_comm *comm, struct tagc_former_lock *former);

#endif
