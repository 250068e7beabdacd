/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/budget/retune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/log.h"
#include "env/numbers.h"
#include "interpose/nccl/process.h"

struct tagc_retune *tagc_retune_make(size_t slot_count) {
  struct tagc_retune *retune =
    calloc(1, sizeof *retune + slot_count * (sizeof *retune->slots + sizeof *retune->options));
  if (!retune)
    return NULL;
  retune->slot_count = slot_count;
  retune->options = (struct tagc_budget_slot *)(retune->slots + slot_count);
  retune->ratios[0] = retune->ratios[1] = 1;
  return retune;
}

/* ---- when -------------------------------------------------------------------------------------------------------- */

bool tagc_retune_is_near(const struct tagc_retune *retune, uint64_t cycle) {
  return tagc_retune_next(retune) && tagc_plan_samples(retune->next, cycle);
}

void tagc_retune_hasten(struct tagc_retune *retune, uint64_t cycle) {
  if (tagc_retune_next(retune) > cycle + 2)
    retune->next = cycle + 2;
}

/* ---- what calls take --------------------------------------------------------------------------------------------- */

bool tagc_retune_counts(const struct tagc_retune *retune, uint64_t cycle) {
  return retune && cycle > retune->chosen && !tagc_retune_is_near(retune, cycle);
}

void tagc_retune_add(struct tagc_retune *retune, int slot, double ns) {
  if (!retune || slot < 0 || (size_t)slot >= retune->slot_count)
    return;
  retune->slots[slot].spent_ns += ns;
  retune->slots[slot].spent_calls++;
}

void tagc_retune_measure(const struct tagc_retune *retune, double ratios[2]) {
  double measured[2] = {0, 0}, estimated[2] = {0, 0};
  for (size_t i = 0; i < retune->slot_count; i++) {
    const struct tagc_retune_slot *slot = &retune->slots[i];
    const bool compressed = retune->options[i].before > 0;
    measured[compressed] += slot->spent_ns;
    estimated[compressed] += (double)slot->spent_calls * slot->estimated_ns;
  }
  for (int i = 0; i < 2; i++)
    ratios[i] = measured[i] > 0 && estimated[i] > 0 ? tagc_budget_ratio(measured[i], estimated[i]) : 0;
}

void tagc_retune_correct(struct tagc_retune *retune, const double ratios[2]) {
  for (int i = 0; i < 2; i++)
    if (ratios[i] > 0)
      retune->ratios[i] = ratios[i];
}

/* Nanoseconds of a step's calls since the last choice, estimated for unmeasured slots; 0: none was measured. */
static double spent_since(const struct tagc_retune *retune) {
  double ns = 0;
  bool any = false;
  for (size_t i = 0; i < retune->slot_count; i++) {
    const struct tagc_retune_slot *slot = &retune->slots[i];
    any |= slot->spent_calls > 0;
    ns += slot->spent_calls ? slot->spent_ns / (double)slot->spent_calls
                            : retune->ratios[retune->options[i].before > 0] * slot->estimated_ns;
  }
  return any ? ns : 0;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* Option 0 is plain. */
void tagc_retune_offer(struct tagc_retune *retune, size_t slot, const struct tagc_slot_question *question,
                       const struct tagc_gradient_stats *gradient, struct tagc_choice *choice) {
  struct tagc_budget_slot *options = &retune->options[slot];
  const bool open = choice->reason == TAGC_REASON_compressed;
  retune->slots[slot].choice = choice;
  options->norm = open ? gradient->norm : 0;
  options->ns[0] = retune->ratios[0] * choice->plain_ns;
  for (int c = 0; c < TAGC_CANDIDATES; c++) {
    options->ns[1 + c] = open ? retune->ratios[1] * choice->ns[c] : __builtin_inf();
    options->error[1 + c] = open ? tagc_choose_error(question, gradient, c) : 0;
  }
}

static struct tagc_retune_entry *last_entry(struct tagc_retune *retune) {
  return retune->entry_count ? &retune->entries[retune->entry_count - 1] : NULL;
}

void tagc_retune_choose(struct tagc_retune *retune, bool offered) {
  struct tagc_retune_entry *last = last_entry(retune);
  const double ns = last ? spent_since(retune) : 0;
  retune->outcome = (struct tagc_budget_outcome){0};
  if (ns > 0) /* the result of the last choice is known now */
    last->measured_ns = ns;
  if (!offered)
    return;
  retune->outcome = tagc_budget_choose(&tagc_library_options()->budget, retune->options, retune->slot_count);
  for (size_t i = 0; i < retune->slot_count; i++) {
    struct tagc_choice *choice = retune->slots[i].choice;
    choice->candidate = retune->options[i].option - 1;
    if (choice->reason == TAGC_REASON_compressed && choice->candidate < 0)
      choice->reason = TAGC_REASON_budget;
  }
  if (last && retune->outcome.error_before > 0)
    last->measured_error = retune->outcome.error_before;
}

void tagc_retune_resolve(struct tagc_retune *retune, size_t slot, bool compressed) {
  if (!retune)
    return;
  struct tagc_budget_slot *options = &retune->options[slot];
  const struct tagc_choice *choice = retune->slots[slot].choice;
  options->option = compressed ? options->option : 0;
  retune->slots[slot].previous = options->before;
  options->before = options->option;
  retune->slots[slot].estimated_ns = !choice                ? 0
                                     : options->option == 0 ? choice->plain_ns
                                                            : choice->ns[options->option - 1];
  retune->slots[slot].spent_ns = 0;
  retune->slots[slot].spent_calls = 0;
}

/* The codecs that slots have now: "3 q4, 1 plain". */
static void describe_codecs(const struct tagc_retune *retune, char text[TAGC_RETUNE_CODECS]) {
  unsigned of[TAGC_BUDGET_OPTIONS] = {0};
  size_t n = 0;
  for (size_t i = 0; i < retune->slot_count; i++)
    of[retune->options[i].before]++;
  *text = '\0';
  for (int i = TAGC_BUDGET_OPTIONS; i-- > 0;)
    if (of[i])
      n += (size_t)snprintf(text + n, TAGC_RETUNE_CODECS - n, "%s%u %s", n ? ", " : "", of[i],
                            i ? tagc_choose_name(i - 1) : "plain");
}

/* Adds a line for each choice that has changed something; of very many only the first and the last ones stay. */
static void add_entry(struct tagc_retune *retune, uint64_t cycle) {
  struct tagc_retune_entry entry = {.cycle = cycle, .last = cycle, .times = 1, .outcome = retune->outcome},
                           *last = last_entry(retune);
  describe_codecs(retune, entry.codecs);
  if (last && !entry.outcome.changed && strcmp(entry.codecs, last->codecs) == 0) {
    last->last = cycle;
    last->times++;
    return;
  }
  if (retune->entry_count == TAGC_RETUNE_ENTRIES) {
    memmove(&retune->entries[1], &retune->entries[2], (TAGC_RETUNE_ENTRIES - 2) * sizeof entry);
    retune->entry_count--;
  }
  retune->entries[retune->entry_count++] = entry;
}

void tagc_retune_end(struct tagc_retune *retune, uint64_t communicator, uint64_t cycle) {
  char target[32];
  if (!retune)
    return;
  struct tagc_budget_outcome *outcome = &retune->outcome;
  /* The vote may have left some slots plain that were to be compressed. */
  tagc_budget_add_up(&tagc_library_options()->budget, retune->options, retune->slot_count, outcome);
  outcome->changed = 0;
  for (size_t i = 0; i < retune->slot_count; i++)
    outcome->changed += retune->options[i].option != retune->slots[i].previous;
  retune->interval = tagc_budget_interval(retune->interval, outcome->backed_off > 0);
  retune->chosen = cycle;
  retune->next = cycle + retune->interval;
  add_entry(retune, cycle);
  tagc_log(TAGC_LOG_INFO, "interpose",
           "communicator %llu: TAGC_BUDGET=%s in cycle %llu: %s; estimated %.3f ms a step, error %.3g%%%s, "
           "%u slots changed; next in cycle %llu",
           (unsigned long long)communicator, tagc_budget_text(&tagc_library_options()->budget, target),
           (unsigned long long)cycle, last_entry(retune)->codecs, 1e-6 * outcome->ns, 100 * outcome->error,
           outcome->met ? "" : ", the nearest to it", outcome->changed, (unsigned long long)retune->next);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

const char *tagc_retune_text(const struct tagc_retune *retune, char text[TAGC_RETUNE_TEXT]) {
  char target[32];
  *text = '\0';
  const struct tagc_numbers numbers = tagc_numbers_begin();
  if (retune && retune->entry_count)
    snprintf(text, TAGC_RETUNE_TEXT, "TAGC_BUDGET=%s: %s; estimated %.3f ms a step, error %.3g%%",
             tagc_budget_text(&tagc_library_options()->budget, target), retune->entries[retune->entry_count - 1].codecs,
             1e-6 * retune->outcome.ns, 100 * retune->outcome.error);
  tagc_numbers_end(&numbers);
  return text;
}

static void print_entry(const struct tagc_retune_entry *its) {
  char line[400];
  int n = its->times > 1 ? snprintf(line, sizeof line, "    cycles %" PRIu64 " to %" PRIu64 " (%" PRIu64 " times)",
                                    its->cycle, its->last, its->times)
                         : snprintf(line, sizeof line, "    cycle %" PRIu64, its->cycle);
  n += snprintf(line + n, sizeof line - (size_t)n, ": %s; estimated %.3f ms a step, error %.3g%%", its->codecs,
                1e-6 * its->outcome.ns, 100 * its->outcome.error);
  if (its->measured_ns > 0)
    n += snprintf(line + n, sizeof line - (size_t)n, "; measured %.3f ms", 1e-6 * its->measured_ns);
  if (its->measured_error > 0)
    n += snprintf(line + n, sizeof line - (size_t)n, ", error %.3g%%", 100 * its->measured_error);
  if (its->outcome.backed_off)
    snprintf(line + n, sizeof line - (size_t)n, "; %u slots backed off", its->outcome.backed_off);
  tagc_say("%s", line);
}

/* Has the last choice met the target, by measurements or else by estimates? */
static void print_target(const struct tagc_budget *target, const struct tagc_retune_entry *last) {
  char text[32];
  const bool is_time = target->kind == TAGC_BUDGET_TIME,
             measured = is_time ? last->measured_ns > 0 : last->measured_error > 0;
  const double error = measured ? last->measured_error : last->outcome.error,
               ns = measured ? last->measured_ns : last->outcome.ns;
  const bool met = is_time ? ns <= (double)target->amount : 1e6 * error <= (double)target->amount;
  tagc_budget_text(target, text);
  if (is_time)
    tagc_say("  TAGC_BUDGET=%s: %s: %.3f ms a step, %s", text, met ? "met" : "not met", 1e-6 * ns,
             measured ? "measured" : "estimated");
  else
    tagc_say("  TAGC_BUDGET=%s: %s: an error of %.3g%%, %s", text, met ? "met" : "not met", 100 * error,
             measured ? "by another look" : "as it was when chosen");
}

void tagc_retune_report(const struct tagc_retune *retune) {
  const struct tagc_budget *target = &tagc_library_options()->budget;
  char text[32];
  if (!retune || !retune->entry_count)
    return;
  struct tagc_retune_entry last = retune->entries[retune->entry_count - 1];
  const double spent_ns = spent_since(retune);
  last.measured_ns = spent_ns > 0 ? spent_ns : last.measured_ns;
  print_target(target, &last);
  for (size_t i = 0; i + 1 < retune->entry_count; i++)
    print_entry(&retune->entries[i]);
  print_entry(&last);
  tagc_say("tagc-budget: target=%s cycle=%" PRIu64 " estimated_ms=%.3f measured_ms=%.3f error=%.6f measured_error=%.6f",
           tagc_budget_text(target, text), last.last, 1e-6 * last.outcome.ns, 1e-6 * last.measured_ns,
           last.outcome.error, last.measured_error);
}
