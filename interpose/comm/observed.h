/* SPDX-License-Identifier: BSD-3-Clause
 * The observations of calls/ on a communicator's calls.
 *
 * Threads    With the communicator's lock; between its calls, without.
 */
#ifndef INTERPOSE_COMM_OBSERVED_H
#define INTERPOSE_COMM_OBSERVED_H

#include "kernels/codec/cost.h"
#include "layermap/cycle/cycle.h"

struct tagc_observed {
  struct tagc_cycle *cycle;
  uint64_t calls;          /* observed so far */
  uint64_t lock_number;    /* number of locks so far */
  uint64_t cycle_number;   /* cycles started since the lock */
  uint64_t cycles_before;  /* of earlier locks: TAGC_SPARSITY goes on counting */
  bool in_sync;            /* the last call was */
  bool resync_pending;     /* some call was not, and since then no cycle has begun behind one that was */
  uint64_t nonfinite;      /* 1 + the last cycle in which some rank's gradient, or a result, was not finite; 0: none */
  bool cycle_disturbed;    /* its time is no measurement of a step */
  uint64_t reduced_cycle;  /* of the last compressed reduction; 0: of none since the lock */
  uint64_t gathered_cycle; /* likewise of all-gathers */
  uint64_t cycle_began_ns; /* monotonic clock; 0: none has begun */
  struct tagc_traffic cycle_began, cycle_began_allgathers; /* ledger->sent and ->allgather_sent then */
};

#endif
