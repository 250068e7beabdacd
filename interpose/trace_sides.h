/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_MODE=ab: the steps of both sides against each other, in pairs.
 *
 * Windows of plain and compressed steps alternate in one run. What slows the machine down for a while slows down windows that lie side
 * by side; so each compressed window is held against the mean of the plain ones next to it, and of these differences d_1..d_n the
 * mean is told with Student's interval, mean(d) +- t(0.975, n - 1) sd(d) / sqrt(n) (Student 1908). The first step of a window and steps
 * that were disturbed do not count.
 * Pure functions.
 */
#ifndef INTERPOSE_TRACE_SIDES_H
#define INTERPOSE_TRACE_SIDES_H

#include "interpose/trace_summary.h"

enum tagc_verdict {
  TAGC_VERDICT_NONE,                /* the run has not both sides */
  TAGC_VERDICT_TOO_FEW,             /* fewer than three pairs */
  TAGC_VERDICT_FASTER, TAGC_VERDICT_SLOWER,   /* the interval leaves out zero */
  TAGC_VERDICT_EQUAL                /* it does not */
};

struct tagc_sides {
  enum tagc_verdict verdict;
  size_t pairs, steps[TAGC_SUM_SIDES];   /* steps that count, of all ranks' mean */
  double mean_ms[TAGC_SUM_SIDES], deviation_ms[TAGC_SUM_SIDES];   /* of a step */
  double difference_ms, low_ms, high_ms; /* compressed less plain, and its interval of 95% */
  double speed, low_speed, high_speed;   /* times as fast: plain / compressed */
  struct tagc_sum_sent sent[TAGC_SUM_SIDES];   /* by a rank in a step */
  char words[400];                  /* the verdict for people: a sentence or two */
};

/* Of step i the time is the mean over the ranks that have it. */
void tagc_sides_compare(const struct tagc_summary *summary, struct tagc_sides *out);

#endif
