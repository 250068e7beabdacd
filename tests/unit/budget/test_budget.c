/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/budget/budget: targets of time and of error against all possible choices, the guard, and the intervals.
 */
#include <math.h>
#include <string.h>

#include "interpose/budget/budget.h"
#include "tests/unit/tap.h"

enum { BF16 = 1, Q8, Q4, SPARSE, LHC, Q3, Q2, MOST_SLOTS = 5 };

static uint64_t state = 1;

static double uniform(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(state >> 11) * 0x1p-53;
}

/* A dense gradient: a plain call of that many milliseconds, and typical times and errors by codec. */
static struct tagc_budget_slot dense(double ms, double norm) {
  static const double part[] = {1, 0.55, 0.32, 0.2, 0, 0, 0.17, 0.15},
                      error[] = {0, 0.0017, 0.0065, 0.118, 0, 0, 0.19, 0.34};
  struct tagc_budget_slot slot = {.norm = norm};
  for (int i = 0; i < TAGC_BUDGET_OPTIONS; i++) {
    const bool open = i != SPARSE && i != LHC;
    slot.ns[i] = open ? 1e6 * ms * part[i] : INFINITY;
    slot.error[i] = open ? error[i] : INFINITY;
  }
  return slot;
}

static struct tagc_budget time_of(double ms) { return (struct tagc_budget){TAGC_BUDGET_TIME, (uint64_t)(1e6 * ms)}; }
static struct tagc_budget error_of(double percent) {
  return (struct tagc_budget){TAGC_BUDGET_ERROR, (uint64_t)(1e4 * percent + 0.5)};
}

/* ---- against all choices ----------------------------------------------------------------------------------------- */

static void add_up(const struct tagc_budget_slot *slots, const int *options, size_t count, double *ns,
                   double *squared) {
  *ns = *squared = 0;
  for (size_t i = 0; i < count; i++) {
    const double absolute = slots[i].error[options[i]] * slots[i].norm;
    *ns += slots[i].ns[options[i]];
    *squared += absolute * absolute;
  }
}

static bool is_open(const struct tagc_budget_slot *s, int i) {
  return s->ns[i] < INFINITY && s->error[i] <= TAGC_BUDGET_WORST && (!i || tagc_choose_is_worth_it(s->ns[i], s->ns[0]));
}

/* The optimum: the least squared error within a time, or the least time within a squared error; infinite: none. */
static double best_of_all(const struct tagc_budget_slot *slots, size_t count, double most_ns, double most_squared,
                          bool of_time) {
  int options[MOST_SLOTS] = {0};
  double best = INFINITY;
  for (;;) {
    bool open = true;
    double ns, squared;
    for (size_t i = 0; i < count; i++)
      open &= is_open(&slots[i], options[i]);
    add_up(slots, options, count, &ns, &squared);
    if (open && ns <= most_ns && squared <= most_squared)
      best = fmin(best, of_time ? squared : ns);
    size_t at = 0;
    while (at < count && ++options[at] == TAGC_BUDGET_OPTIONS)
      options[at++] = 0;
    if (at == count)
      return best;
  }
}

static void make_slots(struct tagc_budget_slot *slots, size_t count) {
  for (size_t i = 0; i < count; i++) {
    slots[i] = dense(1 + 20 * uniform(), 10 * uniform());
    for (int o = 1; o < TAGC_BUDGET_OPTIONS; o++) {
      slots[i].ns[o] *= 0.7 + 0.6 * uniform();
      slots[i].error[o] *= 0.5 + uniform();
      if (uniform() < 0.1)
        slots[i].ns[o] = INFINITY;
    }
    if (uniform() < 0.3) { /* sparse by nature */
      slots[i].ns[SPARSE] = slots[i].ns[0] * uniform();
      slots[i].error[SPARSE] = 0.002;
    }
  }
}

static double largest_square(const struct tagc_budget_slot *slots, size_t count) {
  double most = 0;
  for (size_t i = 0; i < count; i++)
    most = fmax(most, slots[i].norm * slots[i].norm * TAGC_BUDGET_WORST * TAGC_BUDGET_WORST);
  return most;
}

/* A greedy solution deviates by less than one slot's step. */
static void compare(bool of_time) {
  struct tagc_budget_slot slots[MOST_SLOTS];
  int options[MOST_SLOTS], exact = 0, reachable = 0, wrong = 0;
  double excess = 0, sum = 0;
  for (int round = 0; round < 400; round++) {
    const size_t count = 1 + (size_t)(uniform() * MOST_SLOTS);
    make_slots(slots, count);
    double plain = 0, norms = 0, ns, squared, one_ns = 0;
    for (size_t i = 0; i < count; i++) {
      plain += slots[i].ns[0];
      norms += slots[i].norm * slots[i].norm;
      one_ns = fmax(one_ns, slots[i].ns[0]);
    }
    const struct tagc_budget target =
      of_time ? time_of(1e-6 * plain * (0.1 + uniform())) : error_of(0.01 + 35 * uniform() * uniform());
    const double share = 1e-6 * (double)target.amount, most_ns = of_time ? (double)target.amount : INFINITY;
    const double most_squared = of_time ? INFINITY : share * share * norms,
                 best = best_of_all(slots, count, most_ns, most_squared, of_time);
    const struct tagc_budget_outcome outcome = tagc_budget_choose(&target, slots, count);
    for (size_t i = 0; i < count; i++) {
      options[i] = slots[i].option;
      wrong += !is_open(&slots[i], options[i]);
    }
    add_up(slots, options, count, &ns, &squared);
    wrong += outcome.met != (best < INFINITY) || fabs(outcome.ns - ns) > 1e-9 * ns ||
             (best < INFINITY && (ns > most_ns || squared > most_squared));
    if (best < INFINITY) {
      const double got = of_time ? squared : ns;
      reachable++;
      wrong += got > best + (of_time ? largest_square(slots, count) : one_ns);
      exact += got <= best * (1 + 1e-12);
      excess += got - best;
      sum += best;
    } else { /* out of reach: the fastest choice */
      double least = 0;
      for (size_t i = 0; i < count; i++) {
        double its = INFINITY;
        for (int o = 0; o < TAGC_BUDGET_OPTIONS; o++)
          its = is_open(&slots[i], o) ? fmin(its, slots[i].ns[o]) : its;
        least += its;
      }
      wrong += fabs(ns - least) > 1e-9 * least;
    }
  }
  ok(wrong == 0, "a target of %s: met where it can be, near the best, else as near to it as it gets",
     of_time ? "time" : "error");
  ok(reachable > 250 && exact > 0.9 * reachable && excess < 0.1 * sum,
     "of %d targets that can be met %d as well as can be; %.2g%% beyond in the mean", reachable, exact,
     100 * excess / sum);
}

/* ---- by hand ----------------------------------------------------------------------------------------------------- */

static void targets(void) {
  struct tagc_budget_slot slots[] = {
    dense(10, 1), dense(10, 100), {.ns = {2e6, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}}};
  struct tagc_budget target = time_of(30);
  struct tagc_budget_outcome outcome = tagc_budget_choose(&target, slots, 3);
  ok(outcome.met && slots[0].option == 0 && slots[1].option == 0 && slots[2].option == 0 && outcome.error == 0 &&
       fabs(outcome.ns - 22e6) < 1,
     "room enough: all plain");
  target = time_of(10);
  outcome = tagc_budget_choose(&target, slots, 3);
  ok(outcome.met && slots[0].option > slots[1].option && slots[1].option > 0,
     "less: the gradient with little weight errs more: %d and %d", slots[0].option, slots[1].option);
  target = time_of(4);
  outcome = tagc_budget_choose(&target, slots, 3);
  ok(!outcome.met && slots[0].option == Q2 && slots[1].option == Q2, "not enough: the fastest, and it says so");
  target = error_of(2);
  outcome = tagc_budget_choose(&target, slots, 3);
  ok(outcome.met && slots[0].option == Q2 && slots[1].option == Q8 && outcome.error <= 0.02, "2%%: %.2g%%",
     100 * outcome.error);
  target = error_of(0.01);
  outcome = tagc_budget_choose(&target, slots, 3);
  ok(outcome.met && slots[1].option == 0, "an error that no codec has for the heavy one: plain");
  target = error_of(100);
  outcome = tagc_budget_choose(&target, slots, 3);
  ok(outcome.met && slots[1].option == Q2 && outcome.error < 0.35, "any error: the fastest");
  struct tagc_budget_slot twins[] = {dense(10, 1), dense(10, 1)};
  target = time_of(15.6);
  outcome = tagc_budget_choose(&target, twins, 2);
  ok(outcome.met && twins[0].option > twins[1].option, "ties go to the slot that comes first: %d and %d",
     twins[0].option, twins[1].option);
  outcome = tagc_budget_choose(&target, NULL, 0);
  ok(outcome.met && outcome.ns == 0 && outcome.error == 0, "no slots");
}

static void guards(void) {
  struct tagc_budget_slot slots[] = {dense(10, 1), dense(10, 1)};
  struct tagc_budget target = time_of(1);
  slots[0].before = slots[1].before = Q2;
  struct tagc_budget_outcome outcome = tagc_budget_choose(&target, slots, 2);
  ok(!outcome.backed_off && !outcome.changed && fabs(outcome.error_before - 0.34) < 1e-9,
     "noise as it usually is: q2 stays");
  slots[1].error[Q2] = 0.9;
  outcome = tagc_budget_choose(&target, slots, 2);
  ok(slots[0].option == Q2 && slots[1].option == Q3 && outcome.backed_off == 1 && outcome.changed == 1,
     "noise near the gradient: the next better codec, whatever the target of time");
  slots[1].error[Q3] = slots[1].error[Q4] = slots[1].error[Q8] = 0.46;
  outcome = tagc_budget_choose(&target, slots, 2);
  ok(slots[1].option == BF16, "or one better still");
  slots[1].error[BF16] = NAN;
  outcome = tagc_budget_choose(&target, slots, 2);
  ok(slots[1].option == 0, "or none");
  target = error_of(100);
  outcome = tagc_budget_choose(&target, slots, 2);
  ok(slots[0].option == Q2 && slots[1].option == 0, "the same with a target of error");
  slots[0].before = SPARSE; /* no longer tried */
  outcome = tagc_budget_choose(&target, slots, 2);
  ok(outcome.backed_off == 2, "a gradient that is sparse no more counts, too");
}

static void intervals(void) {
  uint32_t interval = 0;
  static const uint32_t expected[] = {32, 64, 128, 256, 512, 1024, 1024};
  bool good = true;
  for (size_t i = 0; i < 7; i++) {
    interval = tagc_budget_interval(interval, false);
    good &= interval == expected[i];
  }
  ok(good, "choices come less and less often");
  ok(tagc_budget_interval(512, true) == 32, "and soon again when the guard has changed something");
  ok(tagc_budget_ratio(0, 1) == 1 && tagc_budget_ratio(1, 0) == 1 && tagc_budget_ratio(3, 2) == 1.5 &&
       tagc_budget_ratio(1000, 1) == 8 && tagc_budget_ratio(1, 1000) == 0.125,
     "what was measured corrects estimates, within bounds");
}

int main(void) {
  compare(true);
  compare(false);
  targets();
  guards();
  intervals();
  return tap_done();
}
