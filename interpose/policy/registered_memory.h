/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that the program has registered: with a communicator (ncclCommRegister, ncclCommWindowRegister), or in the
 * process (ncclMemAlloc). The place of a buffer in it identifies a gradient, in programs whose gradients stay in place.
 *
 * For names and reports: ranks may place memory differently, so no decision of all ranks may depend on it. Symmetric
 * windows enter decisions by the vote. A range that cannot be noted for lack of memory stays unknown.
 *
 * Ranges      Any may overlap, and one may be registered several times. Each registration has its own number, from 1
 *             on, in its communicator or in the process: memory that is given back and registered anew counts as new.
 *             If several hold a buffer, the oldest counts, and those of the communicator before those of the process.
 * Threads     Any. One lock, never held across a call of NCCL. Without any range a query is one load.
 * Cost        A search O(log n) for n ranges, plus the overlapping ones; a registration O(n).
 */
#ifndef INTERPOSE_POLICY_REGISTERED_MEMORY_H
#define INTERPOSE_POLICY_REGISTERED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/nccl/real.h"

struct tagc_range {
  uint64_t number;
  uint64_t offset; /* of the buffer, in bytes */
  bool of_process; /* ncclMemAlloc */
};

/* Adds a range after the real library has registered it. `comm` NULL: ncclMemAlloc, whose handle is the memory. */
void tagc_ranges_add(ncclComm_t comm, const void *memory, size_t size, const void *handle);
/* Removes a range before the real library ends it, as the handle may then be another's. Of several the newest. */
void tagc_ranges_remove(ncclComm_t comm, const void *handle);
/* Forgets the ranges of a communicator at its end. */
void tagc_ranges_forget(ncclComm_t comm);

/* Finds the range of a buffer. False: no range holds all of it. */
bool tagc_ranges_find(ncclComm_t comm, const void *buffer, size_t size, struct tagc_range *found);

/* A range is a symmetric window (NCCL_WIN_COLL_SYMMETRIC), on which NCCL has kernels of its own. */
void tagc_ranges_are_symmetric(ncclComm_t comm, const void *handle);
/* Does a symmetric window hold all of a buffer? */
bool tagc_ranges_hold_symmetric(ncclComm_t comm, const void *buffer, size_t size);

/* "registered 1 + 12.0 MiB", "allocated 3 + 0 B". Returns `text`. */
const char *tagc_range_text(const struct tagc_range *range, char text[48]);

/* The place of a slot's buffers. All zero: unknown. Under the lock of its communicator. */
struct tagc_home {
  const void *buffer; /* the last one ... */
  uint64_t changes;   /* ... when so many registrations had been made or ended */
  unsigned calls;     /* calls in a row at that place, as far as counted */
  struct tagc_range place;
};

/* Notes a call of the slot. True if its last calls were all at one place: its home. */
bool tagc_home_see(struct tagc_home *home, ncclComm_t comm, const void *buffer, size_t size);

#endif
