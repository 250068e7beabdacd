/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_LOG=info: every TAGC_LOG_CYCLES cycles, rank 0 of a communicator with gradients logs a line: the time of steps
 * and the bytes that their collectives sent since the last line. TAGC_METRICS: every TAGC_METRICS_CYCLES cycles each
 * rank hands out its figures (interpose/metrics). While no cycle is known, the first call and every 1024 are worth
 * that.
 *
 * Without that level and metrics this costs two branches a cycle.
 * Threads    Called with the communicator's lock held.
 */
#ifndef INTERPOSE_COMM_PROGRESS_H
#define INTERPOSE_COMM_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/codec/cost.h"

struct tagc_comm;

/* Since the last line. */
struct tagc_progress {
  uint64_t cycles, steps;          /* steps: cycles with a known time */
  double ms;                       /* total time of the steps */
  struct tagc_traffic sent, plain; /* the ledger's values then */
  struct tagc_traffic allgather_sent, allgather_plain;
  uint64_t metrics_cycles; /* since the figures were handed out */
  uint64_t calls;          /* without a cycle, since then */
  bool handed_out;         /* once: from then on the exit knows the communicator */
};

/* Another cycle was found: discards the counts since the last line. */
void tagc_progress_reset(struct tagc_comm *comm);
/* A cycle has ended. side: enum tagc_ab_side. step_ms < 0: no measurement of a step. */
void tagc_progress_cycle(struct tagc_comm *comm, int side, double step_ms);
/* A call was made while no cycle is known. */
void tagc_progress_call(struct tagc_comm *comm);

#endif
