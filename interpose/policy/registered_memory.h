/* SPDX-License-Identifier: BSD-3-Clause
 * Memory that the program has registered: with a communicator (ncclCommRegister, ncclCommWindowRegister), or in the
 * process (ncclMemAlloc). Where a buffer lies in it says which gradient it is, in programs that keep their gradients
 * where they are.
 *
 * Only for names and reports: ranks may have their memory elsewhere, and nothing that they must do alike may follow
 * from it. What cannot be noted for lack of memory is not known here, no more.
 *
 * Ranges      Any may overlap, and one may be registered several times. Each registration has a number of its own, from
 *             1 on, in its communicator, or in the process: memory that is given back and registered anew is not what
 *             it was. Of several that hold a buffer the oldest counts, those of the communicator before those of the
 *             process.
 * Threads     Any. One lock, never held across a call of NCCL. Without any range a question is a load.
 * Cost        A search O(log n) for n ranges, and what overlaps there; a registration O(n).
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

/* After the real library has registered it. `comm` NULL: ncclMemAlloc, the handle being the memory. */
void tagc_ranges_add(ncclComm_t comm, const void *memory, size_t size, const void *handle);
/* Before the real library ends it, for then the handle may be another's. Of several under one handle the newest. */
void tagc_ranges_remove(ncclComm_t comm, const void *handle);
/* The communicator ends. */
void tagc_ranges_forget(ncclComm_t comm);

/* Where is the buffer? False: in none of them as a whole. */
bool tagc_ranges_find(ncclComm_t comm, const void *buffer, size_t size, struct tagc_range *found);

/* "registered 1 + 12.0 MiB", "allocated 3 + 0 B". Returns `text`. */
const char *tagc_range_text(const struct tagc_range *range, char text[48]);

/* Where the buffers of a slot lie. All zero: not known. Under the lock of its communicator. */
struct tagc_home {
  const void *buffer; /* the last one ... */
  uint64_t changes;   /* ... when so many registrations had been made and ended */
  unsigned calls;     /* so many in a row have been at that place, as far as this is counted */
  struct tagc_range place;
};

/* A call of the slot. Gives whether it has a home now, in which its last calls have all been. */
bool tagc_home_see(struct tagc_home *home, ncclComm_t comm, const void *buffer, size_t size);

#endif
