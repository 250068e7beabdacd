/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --perfetto: a job's traces as Chrome trace events, one JSON document that ui.perfetto.dev and
 * chrome://tracing open.
 *
 * Format      "Trace Event Format", the object form. pid: rank + 1 (perfetto takes 0 for the kernel's idle process), so
 *             that equal process numbers of several hosts stay apart; the name has the real one.
 * Tracks       Per rank: its steps, the calls of each thread, NCCL's work on each stream (placed as in window.h; work
 *             that threads have measured lies under its call), NCCL's kernels, if its profiler saw them; counters of
 * bytes and of losses. Collectives The k-th on a communicator has one id on all ranks, "1.42": the communicator's place
 * in the summary, and k. Arrows join its calls, unless there are too many. A rank that lost records turns off both.
 * Times       Microseconds since the first call of the job, by the realtime clocks of the hosts.
 * Memory      Bounded for traces of any length: they are read once more.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_PERFETTO_H
#define INTERPOSE_TAGC_REPORT_SHOW_PERFETTO_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

/* Steps of the first rank that has some, from 1; 0: no bound. */
struct tagc_step_range {
  uint64_t first, last;
};

/* Writes the calls of these steps (both 0: all). False: no memory, or no step of the traces is in the range (`why`
 * lists them). The caller checks the file for errors (ferror()). */
bool tagc_perfetto_write(const struct tagc_summary *summary, struct tagc_step_range range, FILE *file,
                         char why[TAGC_TRACE_WHY]);

#endif
