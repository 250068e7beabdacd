/* SPDX-License-Identifier: BSD-3-Clause
 * The purpose of a communicator, and whether it sends as much as the formulas of its kind of parallelism predict.
 *
 * With P parameters over W ranks, e bytes an element, a ring sends (W-1)/W of what it gathers or scatters, and twice
 * that for an all-reduce (Patarasuk, Yuan 2009). A rank sends in a step:
 *   data parallel       2 (W-1)/W P e              all-reduce of gradients (Li et al. 2020)
 *   ZeRO-1, ZeRO-2        (W-1)/W P (e_g + e_p)    reduce-scatter of gradients, all-gather of parameters
 *                                                  (Rajbhandari et al. 2020); DeepSpeed all-reduces the gradients
 *                                                  instead, which sends twice as much
 *   ZeRO-3, FSDP          (W-1)/W P (e_g + 2 e_p)  a second gather before the backward pass, unless parameters are kept
 *   tensor parallel     2 (W-1)/W b s h e x 4 L m  four all-reduces a layer and microbatch (Shoeybi et al. 2019); with
 *                                                  sequence parallel as many gathers and scatters instead (Korthikanti
 *                                                  et al. 2022), and two gathers more if the input is not kept for the
 *                                                  backward pass (section 4.2.2)
 *   pipeline parallel   b s h e m                  to each neighbour in either direction (Narayanan et al. 2021)
 * The measured value is the mean over the ranks of the bytes as if plain, so that compression blurs nothing, in whole
 * steps. Pure functions, except that tagc_sum_roles() stores the roles.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_VOLUME_H
#define INTERPOSE_TAGC_REPORT_JUDGE_VOLUME_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

/* Sets each communicator's role by the pattern of its calls, and the grounds. These point into the communicators: call
 * this when they do not move any more. */
void tagc_sum_roles(struct tagc_summary *summary);
/* "FSDP or ZeRO-3 (shards of parameters)" */
const char *tagc_role_words(enum tagc_sum_role role);

/* The user's facts about the whole model, which the sizes of tensor and pipeline parallelism divide; 0: taken from the
 * trace. */
struct tagc_volume_facts {
  uint64_t parameters;                           /* without padding */
  uint64_t layers, hidden, tokens, microbatches; /* tokens: of a microbatch, before sequence parallelism divides them */
};

struct tagc_volume_check {
  size_t comm;               /* index into comms */
  char what[80];             /* "reduce-scatter of gradients" */
  char formula[160];         /* "(W-1)/W P e = 3/4 x 124,439,808 x 4 B" */
  double expected, measured; /* bytes that a rank sends per step; NaN: unknown */
  double deviation;          /* measured / expected - 1; NaN: unknown */
  char words[320];           /* possible reasons for a deviation or a missing check; else "" */
  double sent;               /* bytes really sent, with compressed calls as they were; NaN: unknown */
};

/* Fills at most `most` checks; returns their full number. */
size_t tagc_volume_checks(const struct tagc_summary *summary, const struct tagc_volume_facts *facts,
                          struct tagc_volume_check *out, size_t most);

/* Prints communicators with their roles, and the checks; lines of at most 120 columns. */
void tagc_volume_print(FILE *to, const struct tagc_summary *summary, const struct tagc_volume_check *checks,
                       size_t count);

#endif
