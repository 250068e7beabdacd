/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_MODE=ab: the steps of all ranks, compared by interpose/ab/windows.h, with what they sent and what that means. A
 * step has the mean of its ranks' times, and counts if it was disturbed on none. Pure functions.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_AB_COMPARE_H
#define INTERPOSE_TAGC_REPORT_JUDGE_AB_COMPARE_H

#include <stdio.h>

#include "interpose/ab/windows.h"
#include "interpose/tagc-report/read/summary.h"

struct tagc_ab_result {
  struct tagc_ab_figures figures;
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

#endif
