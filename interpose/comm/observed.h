/* SPDX-License-Identifier: BSD-3-Clause
 * What is observed of the calls of a communicator: written by calls/.
 *
 * Threads    With the communicator's lock; between its calls, without.
 */
#ifndef INTERPOSE_COMM_OBSERVED_H
#define INTERPOSE_COMM_OBSERVED_H

#include "kernels/codec/cost.h"
#include "layermap/cycle/cycle.h"

struct tagc_observed {
  struct tagc_cycle *cycle;
  uint64_t lock_number;    /* how often a cycle was locked */
  uint64_t cycle_number;   /* cycles started since the lock */
  bool in_sync;            /* the last call was */
  bool resync_pending;     /* since some call was not, no cycle has begun behind one that was */
  bool nonfinite;          /* some rank's gradient of this cycle was not finite */
  bool cycle_disturbed;    /* it is no measurement of a step */
  uint64_t cycle_began_ns; /* monotonic clock; 0: none has begun */
  struct tagc_traffic cycle_began, cycle_began_allgathers; /* ledger->sent then, and ledger->gather_sent */
};

#endif
