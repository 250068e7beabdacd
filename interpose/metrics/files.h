/* SPDX-License-Identifier: BSD-3-Clause
 * The files of TAGC_METRICS, and their names. One thread at a time.
 *
 *   PREFIX or NAME.prom    PREFIX-rank3.prom: replaced each time (env/files.h), never in part, readable by others
 *   PREFIX or NAME.jsonl   PREFIX-rank3.jsonl: a line more each time; if it is there, PREFIX-rank3-2.jsonl and so on
 *
 * The run is the last part of PREFIX. Two jobs of a host that write into one folder have different files if their
 * series in Prometheus differ, and only then. The rank is that in the job, as the launcher tells it, else that in the
 * first communicator of the process.
 */
#ifndef INTERPOSE_METRICS_FILES_H
#define INTERPOSE_METRICS_FILES_H

#include "interpose/metrics/families.h"

/* Names the files of this process. `run` and `rank` of a view are set. */
void tagc_metrics_name(const char *prefix, struct tagc_figures_view *view);
/* Logs, once in a process, a lack of `what`. Any thread. */
void tagc_metrics_lack(const char *what);
/* Writes the figures to the files. A first failure is logged. */
void tagc_metrics_write(const struct tagc_figures_view *view);

#endif
