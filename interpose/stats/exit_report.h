/* SPDX-License-Identifier: BSD-3-Clause
 * What the files that print the report at exit share (exit_report.c, exit_report_table.c), and the live line
 * (progress.c) with them.
 */
#ifndef INTERPOSE_STATS_EXIT_REPORT_H
#define INTERPOSE_STATS_EXIT_REPORT_H

#include <stdbool.h>

#include "interpose/stats/ledger.h"

static inline double tagc_report_ratio(uint64_t part, uint64_t whole) {
  return whole ? (double)part / (double)whole : 1;
}

/* What counts of the bytes that a rank sends: those for other hosts, where there are any. */
static inline uint64_t tagc_report_wire(const struct tagc_ledger *ledger, const struct tagc_traffic *traffic) {
  return ledger->hosts.hosts > 1 ? traffic->between : traffic->inside + traffic->between;
}

/* Are there ranks on this host, too, with others? */
static inline bool tagc_report_has_inside(const struct tagc_ledger *ledger) {
  return ledger->hosts.hosts > 1 && ledger->hosts.local > 1;
}

/* Slots that share a line. */
struct tagc_report_line {
  const struct tagc_ledger_row *const *rows;
  size_t count;
  char name[2 * TAGC_LAYER_NAME];
};

struct tagc_report_lines {
  const struct tagc_ledger_row **rows; /* in the order of the table */
  struct tagc_report_line *lines;
  size_t count;
  int width; /* of the names */
};

/* By the kinds of layers, in forward order. False without memory; to be freed in any case. */
bool tagc_report_make_lines(const struct tagc_ledger_row *rows, size_t count, struct tagc_report_lines *lines);
void tagc_report_free_lines(struct tagc_report_lines *lines);

/* Prints the all-gathers of parameters and what became of them, where TAGC_ALLGATHER asks for something; their sum is
 * filled in any case. */
void tagc_report_allgathers(const struct tagc_ledger *ledger);
struct tagc_ledger_row tagc_report_allgathers_total(const struct tagc_ledger *ledger);
/* Adds what a line for programs says of them, and of one side of TAGC_MODE=ab; nothing with TAGC_ALLGATHER=off. Returns
 * `text`. */
const char *tagc_report_allgathers_words(const struct tagc_ledger *ledger, char text[512]);

/* ", hidden 83%": what was done beside the exchange, of encoding and decoding; "" where that is nothing. Returns
 * `text`. */
const char *tagc_report_hidden(const struct tagc_ledger_times *times, char text[24]);

/* Adds a row, and what it holds now: for sums of the rows of one lock. */
void tagc_report_sum(struct tagc_ledger_row *sum, const struct tagc_ledger_row *row);

/* Prints the slots, which of them are compressed in part, and the numbers behind the choices of auto. */
void tagc_report_tables(const struct tagc_ledger *ledger, const struct tagc_ledger_row *total);
/* The middle one of these. */
void tagc_report_parts(const struct tagc_ledger *ledger);

#endif
