/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by exit_report*.c, which print the report at exit, by the live line (progress.c) and by interpose/metrics.
 */
#ifndef INTERPOSE_STATS_EXIT_REPORT_H
#define INTERPOSE_STATS_EXIT_REPORT_H

#include <stdbool.h>

#include "interpose/stats/ledger.h"

static inline double tagc_report_ratio(uint64_t part, uint64_t whole) {
  return whole ? (double)part / (double)whole : 1;
}

/* The bytes of a rank that count: those to other hosts, if any exist. */
static inline uint64_t tagc_report_wire(const struct tagc_ledger *ledger, const struct tagc_traffic *traffic) {
  return ledger->hosts.hosts > 1 ? traffic->between : traffic->inside + traffic->between;
}

/* Do several ranks share this host, with other hosts beside it? */
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

/* Makes the lines by the kinds of layers, in forward order. False without memory; free them in any case. */
bool tagc_report_make_lines(const struct tagc_ledger_row *rows, size_t count, struct tagc_report_lines *lines);
void tagc_report_free_lines(struct tagc_report_lines *lines);

/* Prints the all-gathers of parameters and their fates, unless TAGC_ALLGATHER=off; and their sum. */
void tagc_report_allgathers(const struct tagc_ledger *ledger);
struct tagc_ledger_row tagc_report_allgathers_total(const struct tagc_ledger *ledger);
/* Writes the all-gathers' part of a line for programs; nothing with TAGC_ALLGATHER=off. Returns `text`. */
const char *tagc_report_allgathers_words(const struct tagc_ledger *ledger, char text[512]);

/* The same for broadcasts and TAGC_BROADCAST. */
void tagc_report_broadcasts(const struct tagc_ledger *ledger);
const char *tagc_report_broadcasts_words(const struct tagc_ledger *ledger, char text[256]);

/* A communicator of which nothing was compressed, in a line: what its calls are taken for, and why they passed. Nothing
 * if it had no large collective. */
void tagc_report_passed(const struct tagc_ledger *ledger);
/* The same of all communicators whose ledgers are gone. */
void tagc_report_gone(const struct tagc_ledgers_gone *gone);
/* In a sentence: why nothing at all was compressed, and what to do. Nothing if anything was, or if another process is
 * the first of a communicator. */
void tagc_report_nothing(const struct tagc_ledgers *ledgers);
/* Was any call compressed? */
bool tagc_report_any(const struct tagc_ledger *ledger);

/* ", hidden 83%": the part of encoding and decoding beside the exchange; "" if none. Returns `text`. */
const char *tagc_report_hidden(const struct tagc_ledger_times *times, char text[24]);

/* Adds a row with its present state: for sums of the rows of one lock. */
void tagc_report_sum(struct tagc_ledger_row *sum, const struct tagc_ledger_row *row);

/* The sum of all rows. Residuals are only those of the present slots. */
struct tagc_ledger_row tagc_report_total(const struct tagc_ledger *ledger);

/* Prints the slots, those that are compressed in part, and the numbers behind the choices of auto. */
void tagc_report_tables(const struct tagc_ledger *ledger, const struct tagc_ledger_row *total);
/* The second of these tables. */
void tagc_report_parts(const struct tagc_ledger *ledger);

#endif
