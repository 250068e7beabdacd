/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --perfetto: a job's traces as Chrome trace events, one JSON document that ui.perfetto.dev and
 * chrome://tracing open.
 *
 * Format      "Trace Event Format", the object form. pid: rank + 1 (perfetto takes 0 for the kernel's idle process), so
 *             that ranks of hosts with equal process numbers stay apart; the real one is in the name.
 * Lanes       Of a rank: its steps, the calls of each of its threads, what NCCL did on each stream (placed as in
 *             window.h, but for what threads have measured: that lies under its call); counters of bytes and of losses.
 * Collectives The k-th on a communicator has one id on all ranks, "1.42": the place of the communicator in the summary,
 * and k; arrows
 *             join its calls, where there are not too many. Neither is there where a rank lost records.
 * Times       Microseconds since the first call of the job, by the realtime clocks of the hosts.
 * Memory      Bounded, however long the traces are: they are read once more.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_PERFETTO_H
#define INTERPOSE_TAGC_REPORT_SHOW_PERFETTO_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

/* Steps of the first rank that has some, counted from 1; 0: no bound. */
struct tagc_step_range {
  uint64_t first, last;
};

/* Writes calls of these steps alone (both 0: all there is). False without memory, or where the range holds no step of
 * the traces (`why` says which there are); whether the file took everything is the caller's to ask (ferror()). */
bool tagc_perfetto_write(const struct tagc_summary *summary, struct tagc_step_range range, FILE *file,
                         char why[TAGC_TRACE_WHY]);

#endif
