/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of all ranks of a summary in one order, so that those of the same step stand together.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_STEPS_H
#define INTERPOSE_TAGC_REPORT_JUDGE_STEPS_H

#include "interpose/tagc-report/read/summary.h"

struct tagc_rank_step {
  size_t rank; /* index into ranks */
  const struct tagc_sum_step *step;
};

/* By lock, cycle and rank. NULL without steps or without memory; for free(). */
struct tagc_rank_step *tagc_steps_sorted(const struct tagc_summary *summary, size_t *count);
/* How many of those from `first` on are the same step as it. */
size_t tagc_steps_same(const struct tagc_rank_step *first, size_t count);

/* The rank's step of that lock and cycle; NULL: it has none. */
const struct tagc_sum_step *tagc_step_find(const struct tagc_sum_rank *rank, uint32_t lock, uint64_t cycle);
/* The first rank that has steps, by which they are numbered; NULL: none has. */
const struct tagc_sum_rank *tagc_steps_leader(const struct tagc_summary *summary);
/* The number of a step for people, as --steps takes it: among those of the leader, from 1; 0: that rank does not have
 * it. Numbers of cycles begin anew with each lock. */
size_t tagc_step_number(const struct tagc_summary *summary, uint32_t lock, uint64_t cycle);

/* Nanoseconds as milliseconds. */
static inline double tagc_ms(double ns) { return ns / 1e6; }
/* The value below which a share of the n values lies, between its neighbours in proportion; the values are put in
 * order. NaN for none. */
double tagc_quantile(double *values, size_t n, double share);

#endif
