/* SPDX-License-Identifier: BSD-3-Clause
 * Synthetic runs: summaries of ranks with steps, also with TAGC_MODE=ab. Tests modify them as needed.
 */
#ifndef TESTS_UNIT_TAGC_REPORT_RUNS_H
#define TESTS_UNIT_TAGC_REPORT_RUNS_H

#include <math.h>
#include <stdlib.h>

#include "interpose/tagc-report/read/summary.h"

static uint64_t run_state = 1;

/* splitmix64 (Steele, Lea, Flood 2014): 0 <= x < 1. */
static inline double run_random(void) {
  uint64_t z = run_state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Normal: mean 0, deviation 1 (Box, Muller 1958). */
static inline double run_normal(void) {
  const double radius = sqrt(-2 * log(1 - run_random()));
  return radius * cos(2 * M_PI * run_random());
}

/* `ranks` ranks with `steps` whole steps of 100 ms each, on no side; run_free() ends it. */
static inline struct tagc_summary *run_make(size_t ranks, size_t steps) {
  struct tagc_summary *run = calloc(1, sizeof *run);
  run->ranks = calloc(ranks, sizeof *run->ranks);
  run->rank_count = ranks;
  run->has_main = true;
  for (size_t r = 0; r < ranks; r++) {
    run->ranks[r].number = (int)r;
    run->ranks[r].steps = calloc(steps, sizeof *run->ranks[r].steps);
    run->ranks[r].step_count = steps;
    for (size_t i = 0; i < steps; i++)
      run->ranks[r].steps[i] =
        (struct tagc_sum_step){.cycle = i + 1, .lock = 1, .whole = true, .ns = 100000000, .began_ns = i * 100000000};
  }
  return run;
}

static inline void run_free(struct tagc_summary *run) {
  for (size_t r = 0; r < run->rank_count; r++)
    free(run->ranks[r].steps);
  free(run->ranks);
  free(run);
}

/* Sets alternating windows of plain and compressed steps, plain first, and their sent bytes. */
static inline void run_take_sides(struct tagc_summary *run, size_t window) {
  for (size_t r = 0; r < run->rank_count; r++)
    for (size_t i = 0; i < run->ranks[r].step_count; i++) {
      struct tagc_sum_step *step = &run->ranks[r].steps[i];
      step->side = i / window % 2 ? TAGC_SUM_COMPRESSED : TAGC_SUM_PLAIN;
      step->plain.between = 4000000;
      step->sent.between = step->side == TAGC_SUM_PLAIN ? 4000000 : 1000000;
    }
}

#endif
