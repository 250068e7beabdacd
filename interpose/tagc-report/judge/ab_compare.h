/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_MODE=ab: compares the steps of both sides in pairs.
 *
 * Windows of plain and compressed steps alternate in one run. A slowdown of the machine hits neighbouring windows
 * alike. So each compressed window is compared with the mean of the plain ones on both sides: a drift, however steep,
 * cancels if it is straight over three windows. The result is the mean of these differences d_1..d_n with Student's
 * interval, mean(d) +- t(0.975, n - 1) se, with one correction. Neighbouring differences share a plain window, so with
 * equal noise they correlate by 1/6, and se^2 = var(d)/n would be too small by a quarter. If s of them share one,
 *     c = 1 + s/(3n), and se^2 = var(d) c (n - 1) / (n (n - c)),
 * for var(d), of correlated values, is itself n/(n-1) (1 - c/n) of the true one.
 *
 * Unit       Windows, not steps: the steps of a window resemble one another (data loader, GPU clock), and would make
 *            the interval too narrow.
 * A window   has the mean of the middle half of its steps. A step of 30 s for a checkpoint or an evaluation is no
 *            network time, and falls on either side by chance: in a mean of all steps it would hide any effect. The
 *            median would do, too, but needs half as many steps again for equal certainty (of normal noise it uses 64%,
 *            the middle half 83%).
 * Left out   The first step of a window (it sends leftovers, and overlaps with the other side), steps disturbed on a
 *            rank, windows without a whole neighbour on both sides: where steps are missing, or a new lock begins.
 * Pure functions.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_AB_COMPARE_H
#define INTERPOSE_TAGC_REPORT_JUDGE_AB_COMPARE_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

enum tagc_ab_outcome {
  TAGC_AB_NONE,    /* the run lacks a side */
  TAGC_AB_TOO_FEW, /* fewer than three pairs */
  TAGC_AB_FASTER,
  TAGC_AB_SLOWER, /* the interval excludes zero */
  TAGC_AB_EQUAL   /* it includes zero */
};

struct tagc_ab_result {
  enum tagc_ab_outcome outcome;
  size_t pairs, steps[TAGC_SUM_SIDES]; /* counted steps, of all ranks' mean */
  double mean_ms[TAGC_SUM_SIDES];      /* of a step: of the paired windows, if any; NaN: none */
  double deviation_ms[TAGC_SUM_SIDES]; /* of single steps around their windows, by the width of the middle half; NaN: no
                                          window has two counted steps */
  double difference_ms;                /* compressed minus plain; NaN: no pairs */
  double low_ms, high_ms;              /* its interval of 95%; NaN: fewer than two pairs */
  double speed, low_speed, high_speed; /* speed factor: plain / compressed; high_speed may be infinite */
  struct tagc_sum_sent sent[TAGC_SUM_SIDES]; /* by a rank per step */
  double coding_ms, saved_ms; /* of a compressed call: encoding and decoding; its wire time saved against plain calls of
                                 its slot. NaN: no slot has times of both */
  char words[400];            /* the outcome for people, in a sentence or two */
};

/* The time of step i is the mean over the ranks that have it. */
void tagc_ab_compare(const struct tagc_summary *summary, struct tagc_ab_result *out);
/* Prints lines of at most 120 columns; nothing if the run lacks a side. */
void tagc_ab_print(FILE *to, const struct tagc_ab_result *ab);
/* True if a difference in either direction is certain, and large enough to matter. */
bool tagc_ab_matters(const struct tagc_ab_result *ab);
/* "faster", for JSON. */
const char *tagc_ab_outcome_name(enum tagc_ab_outcome outcome);

/* The 97.5th percentile of Student's distribution with `degrees` >= 1 degrees of freedom. */
double tagc_student(size_t degrees);

#endif
