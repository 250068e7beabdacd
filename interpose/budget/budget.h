/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_BUDGET: the codecs of all slots of a communicator together, for a target of time or of error.
 *
 * Purpose  Time: the total of the slots' calls of a step is at most the target, and the squared error, the sum of
 *          (error x norm)^2, as small as that allows; if the target cannot be met, the fastest choice. Error: that sum
 *          is at most (target)^2 times the sum of the squared norms (plain calls meet any), and the total time as small
 *          as that allows.
 * How      Every slot has a few options. At first only those on the lower convex hull of (squared error, time) count.
 *          All slots begin with their most exact one. Then the step along some slot's hull that saves the most time per
 *          added squared error is taken, again and again, until the target of time is met, or for as long as the target
 *          of error holds. So far this is the greedy solution of the multiple-choice knapsack (Sinha and Zoltners
 *          1979), which is best but for its last step. Then single slots change, to any of their options, as long as
 *          that is better and the target holds.
 * Guard    An option with an error above TAGC_BUDGET_WORST is never taken, whatever the target: so the choice backs off
 *          if the noise of a codec comes near the gradient.
 * Units    Nanoseconds; relative L2 errors; norms in any unit. Ties go to the first slot, and to the earlier option.
 * Threads  Pure and reentrant; the same numbers give the same choice everywhere. No failure.
 */
#ifndef INTERPOSE_BUDGET_BUDGET_H
#define INTERPOSE_BUDGET_BUDGET_H

#include "interpose/policy/choose.h"

/* q2 on a normal distribution: 0.34; at the bound a fifth of the gradient's power is lost. */
#define TAGC_BUDGET_WORST 0.45

/* Option 0 is the plain call: exact, and always available. The others are those of choose.h, in their order. */
enum { TAGC_BUDGET_OPTIONS = 1 + TAGC_CANDIDATES };

struct tagc_budget_slot {
  double norm;                    /* of the gradient; 0: unknown, without weight */
  double ns[TAGC_BUDGET_OPTIONS]; /* infinite: ruled out */
  double error[TAGC_BUDGET_OPTIONS];
  int before, option; /* the previous option, and the chosen one */
};

struct tagc_budget_outcome {
  double ns;           /* of all slots */
  double error;        /* relative, of all gradients whose norm is known */
  double error_before; /* the same with the previous options, where no error counts as more than 1 */
  bool met;            /* the target, by these numbers */
  unsigned changed;    /* slots whose option changes */
  unsigned backed_off; /* those of them that the guard changes */
};

/* Chooses for all slots. */
struct tagc_budget_outcome tagc_budget_choose(const struct tagc_budget *target, struct tagc_budget_slot *slots,
                                              size_t count);
/* Sets ns, error and met of the outcome by the slots' options. */
void tagc_budget_add_up(const struct tagc_budget *target, const struct tagc_budget_slot *slots, size_t count,
                        struct tagc_budget_outcome *outcome);

/* ---- when -------------------------------------------------------------------------------------------------------- */

/* Cycles from one choice to the next: the first interval at first, and after a choice that the guard has changed; then
 * twice as many, up to the last. `interval`: between the last two choices, 0: only one so far. */
enum { TAGC_BUDGET_FIRST_INTERVAL = 32, TAGC_BUDGET_LAST_INTERVAL = 1024 };
uint32_t tagc_budget_interval(uint32_t interval, bool backed_off);

/* ---- measured ---------------------------------------------------------------------------------------------------- */

/* The measured time of calls by their estimate: 1 without a measurement, else between 1/8 and 8, because a step with a
 * pause says nothing about codecs. */
double tagc_budget_ratio(double measured_ns, double estimated_ns);

#endif
