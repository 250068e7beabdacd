/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_LOG=info: a line every TAGC_LOG_CYCLES cycles, on rank 0 of a communicator with gradients: how long steps take,
 * and what their reduce-scatters have sent, since the last one.
 *
 * Without that level, or on other ranks, a branch a cycle.
 * Threads    Called with the communicator's lock held.
 */
#ifndef INTERPOSE_COMM_PROGRESS_H
#define INTERPOSE_COMM_PROGRESS_H

#include <stdint.h>

#include "kernels/codec/cost.h"

struct tagc_comm;

/* Since the last line. */
struct tagc_progress {
  uint64_t cycles, steps;          /* steps: those whose time is known */
  double ms;                       /* of these */
  struct tagc_traffic sent, plain; /* the ledger's then */
  struct tagc_traffic allgather_sent, allgather_plain;
};

/* Another cycle was found: what was counted belongs to no line. */
void tagc_progress_reset(struct tagc_comm *comm);
/* A cycle has ended. step_ms < 0: no measurement of a step. */
void tagc_progress_cycle(struct tagc_comm *comm, double step_ms);

#endif
