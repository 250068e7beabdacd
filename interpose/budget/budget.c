/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/budget/budget.h"

static double squared_error(const struct tagc_budget_slot *slot, int option) {
  const double absolute = slot->error[option] * slot->norm;
  return absolute * absolute;
}

/* May it be chosen? */
static bool is_open(const struct tagc_budget_slot *slot, int option) {
  return slot->ns[option] < __builtin_inf() && slot->error[option] <= TAGC_BUDGET_WORST &&
         (!option || tagc_choose_is_worth_it(slot->ns[option], slot->ns[0]));
}

struct totals {
  double ns, squared;
};

static struct totals totals_of(const struct tagc_budget_slot *slots, size_t count) {
  struct totals totals = {0, 0};
  for (size_t i = 0; i < count; i++) {
    totals.ns += slots[i].ns[slots[i].option];
    totals.squared += squared_error(&slots[i], slots[i].option);
  }
  return totals;
}

/* The limits of a target: one of them is infinite. */
static struct totals limits_of(const struct tagc_budget *target, const struct tagc_budget_slot *slots, size_t count) {
  struct totals limits = {__builtin_inf(), __builtin_inf()};
  const double share = 1e-6 * (double)target->amount;
  double squared = 0;
  for (size_t i = 0; i < count; i++)
    squared += slots[i].norm * slots[i].norm;
  if (target->kind == TAGC_BUDGET_TIME)
    limits.ns = (double)target->amount;
  else
    limits.squared = share * share * squared;
  return limits;
}

/* Time saved for each unit of added squared error; infinite if none is added. */
static double gain_of(const struct tagc_budget_slot *slot, int from, int to) {
  const double saved = slot->ns[from] - slot->ns[to], added = squared_error(slot, to) - squared_error(slot, from);
  return added > 0 ? saved / added : __builtin_inf();
}

/* The most exact option; of several, the fastest. */
static int most_exact(const struct tagc_budget_slot *slot) {
  int best = 0;
  for (int i = 1; i < TAGC_BUDGET_OPTIONS; i++)
    if (is_open(slot, i) && (squared_error(slot, i) < squared_error(slot, best) ||
                             (squared_error(slot, i) <= squared_error(slot, best) && slot->ns[i] < slot->ns[best])))
      best = i;
  return best;
}

/* The next option on the slot's hull; -1 at its end. */
static int next_on_hull(const struct tagc_budget_slot *slot) {
  int best = -1;
  for (int i = 0; i < TAGC_BUDGET_OPTIONS; i++)
    if (is_open(slot, i) && slot->ns[i] < slot->ns[slot->option] &&
        (best < 0 || gain_of(slot, slot->option, i) > gain_of(slot, slot->option, best)))
      best = i;
  return best;
}

/* Takes steps along the hulls, until the target of time is met, or while the target of error holds. */
static void take_steps(struct tagc_budget_slot *slots, size_t count, const struct totals *limits) {
  for (;;) {
    const struct totals now = totals_of(slots, count);
    size_t which = count;
    int to = -1;
    double best = 0;
    if (now.ns <= limits->ns && limits->ns < __builtin_inf())
      return;
    for (size_t i = 0; i < count; i++) {
      const int next = next_on_hull(&slots[i]);
      if (next < 0 ||
          now.squared - squared_error(&slots[i], slots[i].option) + squared_error(&slots[i], next) > limits->squared)
        continue;
      const double gain = gain_of(&slots[i], slots[i].option, next);
      if (to < 0 || gain > best) {
        best = gain;
        which = i;
        to = next;
      }
    }
    if (to < 0)
      return;
    slots[which].option = to;
  }
}

/* The gain of changing slot i; 0: none, or not allowed. A target of time saves error, a target of error time. */
static double better_by(const struct tagc_budget_slot *slot, int to, const struct totals *now,
                        const struct totals *limits) {
  const double ns = slot->ns[to] - slot->ns[slot->option],
               squared = squared_error(slot, to) - squared_error(slot, slot->option);
  if (!is_open(slot, to) || now->ns + ns > limits->ns || now->squared + squared > limits->squared)
    return 0;
  return limits->ns < __builtin_inf() ? -squared : -ns;
}

/* Uses the margin that the last steps have left. */
static void use_the_rest(struct tagc_budget_slot *slots, size_t count, const struct totals *limits) {
  for (size_t changes = 0; changes < TAGC_BUDGET_OPTIONS * count; changes++) {
    const struct totals now = totals_of(slots, count);
    size_t which = count;
    int to = -1;
    double best = 0;
    for (size_t i = 0; i < count; i++)
      for (int option = 0; option < TAGC_BUDGET_OPTIONS; option++)
        if (better_by(&slots[i], option, &now, limits) > best) {
          best = better_by(&slots[i], option, &now, limits);
          which = i;
          to = option;
        }
    if (to < 0)
      return;
    slots[which].option = to;
  }
}

void tagc_budget_add_up(const struct tagc_budget *target, const struct tagc_budget_slot *slots, size_t count,
                        struct tagc_budget_outcome *outcome) {
  const struct totals limits = limits_of(target, slots, count), totals = totals_of(slots, count);
  double norms = 0;
  for (size_t i = 0; i < count; i++)
    norms += slots[i].norm * slots[i].norm;
  outcome->ns = totals.ns;
  outcome->error = norms > 0 ? __builtin_sqrt(totals.squared / norms) : 0;
  outcome->met = totals.ns <= limits.ns && totals.squared <= limits.squared;
}

struct tagc_budget_outcome tagc_budget_choose(const struct tagc_budget *target, struct tagc_budget_slot *slots,
                                              size_t count) {
  const struct totals limits = limits_of(target, slots, count);
  struct tagc_budget_outcome outcome = {0};
  double norms = 0, squared_before = 0;
  for (size_t i = 0; i < count; i++)
    slots[i].option = most_exact(&slots[i]);
  take_steps(slots, count, &limits);
  use_the_rest(slots, count, &limits);
  for (size_t i = 0; i < count; i++) {
    norms += slots[i].norm * slots[i].norm;
    squared_before +=
      slots[i].error[slots[i].before] < 1 ? squared_error(&slots[i], slots[i].before) : slots[i].norm * slots[i].norm;
    outcome.changed += slots[i].option != slots[i].before;
    outcome.backed_off += slots[i].error[slots[i].before] > TAGC_BUDGET_WORST;
  }
  outcome.error_before = norms > 0 ? __builtin_sqrt(squared_before / norms) : 0;
  tagc_budget_add_up(target, slots, count, &outcome);
  return outcome;
}

uint32_t tagc_budget_interval(uint32_t interval, bool backed_off) {
  if (!interval || backed_off)
    return TAGC_BUDGET_FIRST_INTERVAL;
  return 2 * interval < TAGC_BUDGET_LAST_INTERVAL ? 2 * interval : TAGC_BUDGET_LAST_INTERVAL;
}

double tagc_budget_ratio(double measured_ns, double estimated_ns) {
  static const double MOST = 8;
  const double ratio = measured_ns > 0 && estimated_ns > 0 ? measured_ns / estimated_ns : 1;
  return ratio < 1 / MOST ? 1 / MOST : ratio > MOST ? MOST : ratio;
}
