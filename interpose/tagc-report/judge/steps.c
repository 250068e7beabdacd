/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/judge/steps.h"

#include <math.h>
#include <stdlib.h>

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_steps(const void *left, const void *right) {
  const struct tagc_rank_step *a = left, *b = right;
  if (a->step->lock != b->step->lock)
    return ORDER(a->step->lock, b->step->lock);
  if (a->step->cycle != b->step->cycle)
    return ORDER(a->step->cycle, b->step->cycle);
  return ORDER(a->rank, b->rank);
}

struct tagc_rank_step *tagc_steps_sorted(const struct tagc_summary *summary, size_t *count) {
  size_t all = 0;
  *count = 0;
  for (size_t r = 0; r < summary->rank_count; r++)
    all += summary->ranks[r].step_count;
  struct tagc_rank_step *sorted = all ? malloc(all * sizeof *sorted) : NULL;
  if (!sorted)
    return NULL;
  for (size_t r = 0; r < summary->rank_count; r++)
    for (size_t i = 0; i < summary->ranks[r].step_count; i++)
      sorted[(*count)++] = (struct tagc_rank_step){r, &summary->ranks[r].steps[i]};
  qsort(sorted, all, sizeof *sorted, compare_steps);
  return sorted;
}

size_t tagc_steps_same(const struct tagc_rank_step *first, size_t count) {
  size_t same = 0;
  while (same < count && first[same].step->lock == first->step->lock && first[same].step->cycle == first->step->cycle)
    same++;
  return same;
}

const struct tagc_sum_step *tagc_step_find(const struct tagc_sum_rank *rank, uint32_t lock, uint64_t cycle) {
  const struct tagc_sum_step wanted = {.lock = lock, .cycle = cycle};
  const struct tagc_rank_step key = {0, &wanted};
  for (size_t low = 0, high = rank->step_count; low < high;) {
    const size_t middle = low + (high - low) / 2;
    const int order = compare_steps(&(const struct tagc_rank_step){0, &rank->steps[middle]}, &key);
    if (order == 0)
      return &rank->steps[middle];
    *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
  }
  return NULL;
}

const struct tagc_sum_rank *tagc_steps_leader(const struct tagc_summary *summary) {
  for (size_t i = 0; i < summary->rank_count; i++)
    if (summary->ranks[i].step_count)
      return &summary->ranks[i];
  return NULL;
}

size_t tagc_step_number(const struct tagc_summary *summary, uint32_t lock, uint64_t cycle) {
  const struct tagc_sum_rank *leader = tagc_steps_leader(summary);
  const struct tagc_sum_step *step = leader ? tagc_step_find(leader, lock, cycle) : NULL;
  return step ? (size_t)(step - leader->steps) + 1 : 0;
}
