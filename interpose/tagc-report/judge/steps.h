/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of all ranks of a summary in one order: the same step of all ranks is contiguous.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_STEPS_H
#define INTERPOSE_TAGC_REPORT_JUDGE_STEPS_H

#include "interpose/tagc-report/read/summary.h"

struct tagc_rank_step {
  size_t rank; /* index into ranks */
  const struct tagc_sum_step *step;
};

/* Sorted by lock, cycle and rank; the caller frees it. NULL: no steps, or no memory. */
struct tagc_rank_step *tagc_steps_sorted(const struct tagc_summary *summary, size_t *count);
/* How many entries from `first` on are the same step. */
size_t tagc_steps_same(const struct tagc_rank_step *first, size_t count);

/* The rank's step of that lock and cycle, or NULL. */
const struct tagc_sum_step *tagc_step_find(const struct tagc_sum_rank *rank, uint32_t lock, uint64_t cycle);
/* The first rank that has steps, which numbers them; NULL: none. */
const struct tagc_sum_rank *tagc_steps_leader(const struct tagc_summary *summary);
/* The number of a step for people, as --steps takes it: counted on the leader, from 1; 0: the leader lacks it. Numbers
 * of cycles restart with each lock. */
size_t tagc_step_number(const struct tagc_summary *summary, uint32_t lock, uint64_t cycle);

static inline double tagc_ms(double ns) { return ns / 1e6; }

#endif
