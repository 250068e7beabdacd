/* SPDX-License-Identifier: BSD-3-Clause
 * The device memory of a communicator: what its slots hold (residuals and tallies), and what the calls of all of them
 * share (the workspace).
 *
 * Before the proposals are sent it is reserved for what this rank would compress, and behind it what the outcome has no use for is
 * given back. Later votes keep what slots with the same codec hold; all-gathers keep what the first vote gave them. A new
 * lock detaches all of it.
 * Order      It is given back behind `fence`, the last work on it; where an abort has left that unknown (`unfenced`),
 *            never.
 * Threads    The device may have to be waited for: but for tagc_memory_detach(), call these without the communicator's
 *            lock.
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
  uint8_t *workspace;               /* for the payloads of a call */
  size_t workspace_bytes;
  _Atomic(void *) side_stream;             /* where calls in chunks are encoded and decoded; NULL: none is */
  void *health;                     /* of the device (device.h); NULL: not needed */
};

/* What is held for a slot. */
struct tagc_slot_memory {
  const struct tagc_codec *codec;   /* for which; NULL: nothing is */
  void *residual;                   /* NULL: none */
  uint64_t residual_bytes;
  void *tally;                      /* of a device that counts by itself; NULL: none */
};

/* What of the workspace of a call, at its beginning, is for gathering the sums of an all-reduce. */
size_t tagc_memory_allgather_phase_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot);

/* Reserves what slots and all-gathers need by the vote, on the stream of the call before which the vote is held.
 * False where it lacks. */
bool tagc_memory_reserve(struct tagc_comm *comm, void *stream);
/* Gives back what was reserved for slots that stay plain. */
void tagc_memory_trim(struct tagc_comm *comm);

/* Enters what devices have counted of the calls of slots into the accounts. */
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
/* Enters what their device has counted, and gives all of it back. */
void tagc_memory_release(struct tagc_comm *comm, struct tagc_former_lock *estate);

#endif
