/* SPDX-License-Identifier: BSD-3-Clause
 * The figures of metrics.def with their labels, in a row. Pure: the same for every format. Threads: any.
 */
#ifndef INTERPOSE_METRICS_FAMILIES_H
#define INTERPOSE_METRICS_FAMILIES_H

#include "interpose/metrics/format.h"
#include "interpose/stats/ledger.h"

/* The accounts of a communicator at one moment. Of the ledger's pointers only rows, allgathers and broadcasts lead to
 * memory that is its own; the texts behind others live as long as the process, if they are followed here at all. */
struct tagc_figures {
  struct tagc_ledger ledger;
  struct tagc_ledger_broadcasts broadcasts;
  struct tagc_ab_figures ab; /* TAGC_MODE=ab; else without pairs */
};

/* Those of a process. */
struct tagc_figures_view {
  const char *run; /* the name of the run, and the rank: labels of all */
  int rank;
  double now; /* seconds since 1970 */
  const struct tagc_figures *const *figures;
  size_t count;
};

/* Writes all of them in the text's format. */
void tagc_families_write(struct tagc_metrics_text *text, const struct tagc_figures_view *view);

#endif
