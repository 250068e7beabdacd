/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_MODE=ab: the steps of both sides against each other, in pairs.
 *
 * Windows of plain and compressed steps alternate in one run. What slows the machine down for a while slows down
 * windows that lie side by side; so each compressed window is held against the mean of the plain ones on both of its
 * sides: a drift, however steep, cancels as long as it is straight over three windows. Of these differences d_1..d_n
 * the mean is told with Student's interval, mean(d) +- t(0.975, n - 1) se, with one correction: neighbouring
 * differences share a plain window, so that in windows of equal noise they correlate by 1/6, and se^2 = var(d)/n would
 * be too small by a quarter; where s of them share one, c = 1 + s/(3n), and
 *     se^2 = var(d) c (n - 1) / (n (n - c)),
 * for var(d), of correlated values, is itself n/(n-1) (1 - c/n) of the true one.
 *
 * Unit       Windows, not steps: steps of a window resemble one another (the data loader, the clock of the GPU), and an
 *            interval from them would be too narrow.
 * A window   is told by the mean of the middle half of its steps. A step of 30 s for a checkpoint or an evaluation is
 *            no work of the network, and falls on either side by chance; with the mean of all steps one such would hide
 *            any effect. The median would do the same, but needs half as many steps again for as much certainty (of
 *            normal noise it uses 64%, the middle half 83%).
 * Left out   The first step of a window (it sends what was left, and works still overlap from the side before), steps
 *            that were disturbed on a rank, windows that have no whole neighbour on both sides: where steps are
 *            missing, or a new lock begins.
 * Pure functions.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_AB_COMPARE_H
#define INTERPOSE_TAGC_REPORT_JUDGE_AB_COMPARE_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

enum tagc_ab_outcome {
  TAGC_AB_NONE,    /* the run has not both sides */
  TAGC_AB_TOO_FEW, /* fewer than three pairs */
  TAGC_AB_FASTER,
  TAGC_AB_SLOWER, /* the interval leaves out zero */
  TAGC_AB_EQUAL   /* it does not */
};

struct tagc_ab_result {
  enum tagc_ab_outcome outcome;
  size_t pairs, steps[TAGC_SUM_SIDES]; /* steps that count, of all ranks' mean */
  double mean_ms[TAGC_SUM_SIDES];      /* of a step: of the windows in pairs, where there are any; NaN: none */
  double deviation_ms[TAGC_SUM_SIDES]; /* of single steps inside their windows, by the width of the middle half; NaN: of
                                        * no window two steps count */
  double difference_ms;                /* compressed less plain; NaN without pairs */
  double low_ms, high_ms;              /* its interval of 95%; NaN with fewer than two pairs */
  double speed, low_speed, high_speed; /* times as fast: plain / compressed; high_speed may be infinite */
  struct tagc_sum_sent sent[TAGC_SUM_SIDES]; /* by a rank in a step */
  double coding_ms, saved_ms; /* of a compressed call: encoding and decoding; how much shorter it is on the wire than
                               * the plain calls of its slot. NaN: no slot has times of both */
  char words[400];            /* the outcome for people: a sentence or two */
};

/* Of step i the time is the mean over the ranks that have it. */
void tagc_ab_compare(const struct tagc_summary *summary, struct tagc_ab_result *out);
/* Lines of at most 120 columns; nothing where the run has no sides. */
void tagc_ab_print(FILE *to, const struct tagc_ab_result *ab);
/* Is the difference seen, and large enough to matter to anybody? In either direction. */
bool tagc_ab_matters(const struct tagc_ab_result *ab);
/* "faster", for JSON. */
const char *tagc_ab_outcome_name(enum tagc_ab_outcome outcome);

/* The 97.5th percentile of Student's distribution with so many degrees of freedom, at least 1. */
double tagc_student(size_t degrees);

#endif
