/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_METRICS=PREFIX: the figures of the training so far, while it runs, from the accounts (stats/ledger.h).
 *
 * Which    metrics.def has all of them. Those of layers are written by rank 0 of a communicator alone, as in the table
 * at exit: a model has hundreds of slots, and a job thousands of ranks. Names    PREFIX-rank3.prom for Prometheus, and
 * PREFIX-rank3.jsonl; files.h says which rank, and which of them. When     Every TAGC_METRICS_CYCLES cycles of a
 * communicator, and at exit. The caller copies its accounts under a lock, and a thread writes the files, ten times a
 * second at most. A killed process loses what it has not written. Harm     None. A reader of the .prom file sees one
 * state or the next, never a part. If a file cannot be written, one warning says why; the next figures try again.
 * Calls, errno and signals stay as they are. Fork     A child writes nothing: its file would have its parent's name.
 * Ranks    Need not agree on it. Off, it costs a load and a branch a cycle, and two a call.
 * Threads  Any; a lock of its own, held for copies alone.
 */
#ifndef INTERPOSE_METRICS_METRICS_H
#define INTERPOSE_METRICS_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "interpose/stats/ledger.h"

extern atomic_bool tagc_metrics_is_on;

static inline bool tagc_metrics_on(void) { return atomic_load_explicit(&tagc_metrics_is_on, memory_order_relaxed); }

/* Switches the figures on, after the options were read. Called once. */
void tagc_metrics_start(const struct tagc_options *options);

/* Hands out the figures of a communicator as they are now. Its lock is held. */
void tagc_metrics_take(const struct tagc_ledger *ledger);

/* The ledger goes: its figures are left out from now on. Any thread, without locks. */
void tagc_metrics_forget(const struct tagc_ledger *ledger);

#endif
