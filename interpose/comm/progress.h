/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_LOG=info: every TAGC_LOG_CYCLES cycles, rank 0 of a communicator with gradients logs a line: the time of steps
 * and the bytes that their collectives sent since the last line.
 *
 * Without that level, or on other ranks, this costs a branch a cycle.
 * Threads    Called with the communicator's lock held.
 */
#ifndef INTERPOSE_COMM_PROGRESS_H
#define INTERPOSE_COMM_PROGRESS_H

#include <stdint.h>

#include "kernels/codec/cost.h"

struct tagc_comm;

/* Since the last line. */
struct tagc_progress {
  uint64_t cycles, steps;          /* steps: cycles with a known time */
  double ms;                       /* total time of the steps */
  struct tagc_traffic sent, plain; /* the ledger's values then */
  struct tagc_traffic allgather_sent, allgather_plain;
};

/* Another cycle was found: discards the counts since the last line. */
void tagc_progress_reset(struct tagc_comm *comm);
/* A cycle has ended. step_ms < 0: no measurement of a step. */
void tagc_progress_cycle(struct tagc_comm *comm, double step_ms);

#endif
