/* SPDX-License-Identifier: BSD-3-Clause
 * What a communicator is for, and whether it sends what the formulas of its kind of parallelism say.
 *
 * With P parameters over W ranks, e bytes an element, a ring sends (W-1)/W of what it gathers or scatters, and twice
 * that for an all-reduce (Patarasuk, Yuan 2009). A rank sends in a step:
 *   data parallel       2 (W-1)/W P e              all-reduce of gradients (Li et al. 2020)
 *   ZeRO-1, ZeRO-2        (W-1)/W P (e_g + e_p)    reduce-scatter of gradients, all-gather of parameters (Rajbhandari
 *                         et
 *                                                  al. 2020); DeepSpeed all-reduces the gradients instead, which sends
 *                                                  twice as much
 *   ZeRO-3, FSDP          (W-1)/W P (e_g + 2 e_p)  the gather once more before the backward pass, unless parameters are
 *                                                  kept
 *   tensor parallel     2 (W-1)/W b s h e x 4 L m  four all-reduces a layer and microbatch (Shoeybi et al. 2019); with
 *                                                  sequence parallel as many gathers and scatters instead (Korthikanti
 *                                                  et al. 2022), and two gathers more where the input is not kept for
 *                                                  the backward pass (section 4.2.2)
 *   pipeline parallel   b s h e m                  to each neighbour in either direction (Narayanan et al. 2021)
 * Measured is what plain calls send, so that compression blurs nothing, in whole steps alone, as a mean over the ranks.
 * Pure functions but for the role that tagc_sum_roles() writes down.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_VOLUME_H
#define INTERPOSE_TAGC_REPORT_JUDGE_VOLUME_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

/* Says of each communicator what it is for, by the pattern of its calls, and why. The grounds lie in the communicators:
 * to be called when these do not move any more. */
void tagc_sum_roles(struct tagc_summary *summary);
/* "FSDP or ZeRO-3 (shards of parameters)" */
const char *tagc_role_words(enum tagc_sum_role role);

/* What the user knows of the model; 0: taken from the trace. */
struct tagc_volume_facts {
  uint64_t parameters;                           /* without padding: those that the ranks of a communicator share */
  uint64_t layers, hidden, tokens, microbatches; /* tokens: of one microbatch of a rank */
};

struct tagc_volume_check {
  size_t comm;               /* index into comms */
  char what[80];             /* "reduce-scatter of gradients" */
  char formula[160];         /* "(W-1)/W P e = 3/4 x 124,439,808 x 4 B" */
  double expected, measured; /* bytes that a rank sends in a step; NaN: not known */
  double deviation;          /* measured / expected - 1; NaN: not known */
  char words[200];           /* where it deviates, or cannot be checked: what that may mean; else "" */
  double sent;               /* what was sent really, compressed calls as they were; NaN: not known */
};

/* Fills at most `most` checks; gives how many there are. */
size_t tagc_volume_checks(const struct tagc_summary *summary, const struct tagc_volume_facts *facts,
                          struct tagc_volume_check *out, size_t most);

/* Communicators with their roles, and the checks; lines of at most 120 columns. */
void tagc_volume_print(FILE *to, const struct tagc_summary *summary, const struct tagc_volume_check *checks,
                       size_t count);

#endif
