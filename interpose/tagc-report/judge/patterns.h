/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a communicator by what they do, as a rank makes them in a step: what its role and its formulas are
 * judged by.
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

/* Of a rank in a whole step; where nothing is called in these, of a rank in the whole trace. */
struct tagc_pattern {
  double calls, raw_bytes;
  double elements; /* of the buffers that raw bytes tell of: a reduce-scatter\'s: all shards */
  double plain_bytes, sent_bytes;
  uint64_t least_count, most_count; /* as the functions take it */
  const struct tagc_sum_line *main; /* the line with most bytes */
  double main_calls, main_bytes;
  unsigned lines;
};

struct tagc_patterns {
  struct tagc_pattern of[TAGC_PATTERNS]; /* floating-point calls (gathers: of any type) that are not small */
  bool steps;                            /* they are of whole steps */
  bool beside_steps;                     /* there are whole steps, and none of the calls is in them */
  double calls, small_calls;             /* of all kinds; small: less than TAGC_SMALL_CALL */
  bool maxima;                           /* all-reduces for many a maximum: the logits of a divided vocabulary */
  uint64_t maxima_count;
};

/* Bytes: norms, losses, barriers and lengths are smaller. */
enum { TAGC_SMALL_CALL = 4096 };

struct tagc_patterns tagc_patterns_of(const struct tagc_summary *summary, const struct tagc_sum_comm *comm);
/* Bytes of an element of the line's type; 0: not known. */
double tagc_line_element(const struct tagc_summary *summary, const struct tagc_sum_line *line);
/* Parameters that the slots of the last lock reduce, with padding, each once; 0: no slots. */
double tagc_slots_parameters(const struct tagc_sum_comm *comm);

/* Communicators on which parameters are gathered and nothing else is done: FSDP may gather on another communicator than
 * it reduces on, and again among fewer ranks. There may be tens of thousands, mostly of the same ranks. */
struct tagc_allgathers {
  size_t *list, count;     /* all of them */
  size_t of;               /* the rest is of those beside this one; SIZE_MAX: of none yet */
  size_t beside;           /* how many */
  struct tagc_pattern all; /* what they gather together (calls, elements, bytes; some main line) */
  double gathered;         /* elements, of all ranks */
  int least_ranks;         /* of one of them */
};

/* Without memory none are found; free(list). */
struct tagc_allgathers tagc_allgathers_find(const struct tagc_summary *summary);
/* Makes `gathers` tell of those of the ranks of this communicator, or of some of these. False where it told of them
 * already. */
bool tagc_allgathers_beside(const struct tagc_summary *summary, size_t comm, struct tagc_allgathers *allgathers);
bool tagc_comm_is_within(const struct tagc_sum_comm *inner, const struct tagc_sum_comm *outer);
void tagc_pattern_add(struct tagc_pattern *sum, const struct tagc_pattern *more);

#endif
