/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --tensorboard: the steps and the losses of a job as scalars, which TensorBoard shows.
 *
 * TensorBoard lays the curves of several runs over one another if their tags are equal. A run is a folder:
 *   rank0, rank1, ...    step/seconds, step/exposed_seconds, step/exposed_share, bytes/sent, bytes/plain, bytes/ratio
 *   plain, compressed    step/seconds and bytes/sent of the sides of TAGC_MODE=ab, means over the ranks
 *   layers               error/LAYER, residual/LAYER, gather_error/LAYER
 * Steps are numbered as everywhere in the report. Only whole ones are measurements.
 * Threads   One at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_EVENTS_TENSORBOARD_H
#define INTERPOSE_TAGC_REPORT_EVENTS_TENSORBOARD_H

#include <stdbool.h>
#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

/* The file of a run, in its folder: TensorBoard takes files with "tfevents" in their names. */
#define TAGC_TENSORBOARD_FILE "events.out.tfevents.tagc"

/* The number of runs, and the name of one. Returns `text`. */
size_t tagc_tensorboard_runs(const struct tagc_summary *summary);
const char *tagc_tensorboard_run(const struct tagc_summary *summary, size_t run, char text[32]);
/* Writes a run. False: no memory. The caller checks the file for errors (ferror()). */
bool tagc_tensorboard_write(const struct tagc_summary *summary, size_t run, FILE *file);

#endif
