/* SPDX-License-Identifier: BSD-3-Clause
 * Sorts a communicator's calls by kind, per rank and step: the basis for its role and its formulas.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_PATTERNS_H
#define INTERPOSE_TAGC_REPORT_JUDGE_PATTERNS_H

#include "interpose/tagc-report/read/summary.h"

enum tagc_pattern_kind {
  TAGC_PATTERN_REDUCE_SCATTER,
  TAGC_PATTERN_ALL_GATHER,
  TAGC_PATTERN_ALL_REDUCE,
  TAGC_PATTERN_REDUCE,
  TAGC_PATTERN_BROADCAST,
  TAGC_PATTERN_ALL_TO_ALL,
  TAGC_PATTERN_SEND,
  TAGC_PATTERN_RECV,
  TAGC_PATTERN_OTHER,
  TAGC_PATTERNS
};

/* Per rank and whole step; if the calls are in no whole step, per rank and whole trace. */
struct tagc_pattern {
  double calls, raw_bytes;
  double elements; /* of the buffers that raw bytes count: for a reduce-scatter all shards */
  double plain_bytes, sent_bytes;
  uint64_t least_count, most_count; /* as passed to the functions */
  const struct tagc_sum_line *main; /* the line with most bytes */
  double main_calls, main_bytes;
  unsigned lines;
};

struct tagc_patterns {
  struct tagc_pattern of[TAGC_PATTERNS]; /* floating-point calls (gathers: any type), small ones excluded */
  bool steps;                            /* per whole step */
  bool beside_steps;                     /* whole steps exist, but without these calls */
  double calls, small_calls;             /* of all kinds; small: below TAGC_SMALL_CALL */
  bool maxima;                           /* many all-reduces compute a maximum: logits of a divided vocabulary */
  uint64_t maxima_count;
};

/* In bytes: norms, losses, barriers and lengths are smaller. */
enum { TAGC_SMALL_CALL = 4096 };

struct tagc_patterns tagc_patterns_of(const struct tagc_summary *summary, const struct tagc_sum_comm *comm);
/* Bytes of an element of the line's type; 0: unknown. */
double tagc_line_element(const struct tagc_summary *summary, const struct tagc_sum_line *line);
/* The parameters that the last lock's slots reduce, with padding, each counted once; 0: no slots. */
double tagc_slots_parameters(const struct tagc_sum_comm *comm);

/* Communicators that only gather parameters. FSDP may gather on another communicator than it reduces on, and again
 * among fewer ranks. There may be tens of thousands, mostly of the same ranks. */
struct tagc_allgathers {
  size_t *list, count;     /* all of them */
  size_t of;               /* the fields below are about those beside this one; SIZE_MAX: none yet */
  size_t beside;           /* their number */
  struct tagc_pattern all; /* their gathers together (calls, elements, bytes; some main line) */
  double gathered;         /* elements, of all ranks */
  int least_ranks;         /* of the smallest one */
};

/* Without memory the list is empty. The caller frees list. */
struct tagc_allgathers tagc_allgathers_find(const struct tagc_summary *summary);
/* Sets the fields of `allgathers` for the communicators whose ranks are all in `comm`. False: already set for these. */
bool tagc_allgathers_beside(const struct tagc_summary *summary, size_t comm, struct tagc_allgathers *allgathers);
bool tagc_comm_is_within(const struct tagc_sum_comm *inner, const struct tagc_sum_comm *outer);
void tagc_pattern_add(struct tagc_pattern *sum, const struct tagc_pattern *more);

#endif
