/* SPDX-License-Identifier: BSD-3-Clause
 * What TAGC_BUDGET has come to: in a trace, and at exit.
 */
#include <inttypes.h>
#include <stdio.h>

#include "env/log.h"
#include "interpose/budget/retune.h"
#include "interpose/nccl/process.h"

const char *tagc_retune_text(const struct tagc_retune *retune, char text[TAGC_RETUNE_TEXT])
{
  char target[32];
  *text = '\0';
  if (retune && retune->entry_count)
    snprintf(text, TAGC_RETUNE_TEXT, "TAGC_BUDGET=%s: %s; estimated %.3f ms a step, error %.3g%%",
             tagc_budget_text(&tagc_library_options()->budget, target), retune->entries[retune->entry_count - 1].codecs,
             1e-6 * retune->outcome.ns, 100 * retune->outcome.error);
  return text;
}

static void print_entry(const struct tagc_retune_entry *its)
{
  char line[400];
  int n = its->times > 1 ? snprintf(line, sizeof line, "    cycles %" PRIu64 " to %" PRIu64 " (%" PRIu64 " times)", its->cycle, its->last, its->times)
                         : snprintf(line, sizeof line, "    cycle %" PRIu64, its->cycle);
  n += snprintf(line + n, sizeof line - (size_t)n, ": %s; estimated %.3f ms a step, error %.3g%%", its->codecs, 1e-6 * its->outcome.ns,
                100 * its->outcome.error);
  if (its->measured_ns > 0)
    n += snprintf(line + n, sizeof line - (size_t)n, "; measured %.3f ms", 1e-6 * its->measured_ns);
  if (its->measured_error > 0)
    n += snprintf(line + n, sizeof line - (size_t)n, ", error %.3g%%", 100 * its->measured_error);
  if (its->outcome.backed_off)
    snprintf(line + n, sizeof line - (size_t)n, "; %u slots backed off", its->outcome.backed_off);
  tagc_say("%s", line);
}

/* Has the last choice met the target, by what was measured, or else by what was estimated? */
static void print_target(const struct tagc_budget *target, const struct tagc_retune_entry *last)
{
  char text[32];
  const bool is_time = target->kind == TAGC_BUDGET_TIME, measured = is_time ? last->measured_ns > 0 : last->measured_error > 0;
  const double error = measured ? last->measured_error : last->outcome.error, ns = measured ? last->measured_ns : last->outcome.ns;
  const bool met = is_time ? ns <= (double)target->amount : 1e6 * error <= (double)target->amount;
  tagc_budget_text(target, text);
  if (is_time)
    tagc_say("  TAGC_BUDGET=%s: %s: %.3f ms a step, %s", text, met ? "met" : "not met", 1e-6 * ns, measured ? "measured" : "estimated");
  else
    tagc_say("  TAGC_BUDGET=%s: %s: an error of %.3g%%, %s", text, met ? "met" : "not met", 100 * error,
             measured ? "by another look" : "as it was when chosen");
}

void tagc_retune_report(const struct tagc_retune *retune)
{
  const struct tagc_budget *target = &tagc_library_options()->budget;
  char text[32];
  if (!retune || !retune->entry_count)
    return;
  struct tagc_retune_entry last = retune->entries[retune->entry_count - 1];
  const double spent_ns = tagc_retune_spent(retune);
  last.measured_ns = spent_ns > 0 ? spent_ns : last.measured_ns;
  print_target(target, &last);
  for (size_t i = 0; i + 1 < retune->entry_count; i++)
    print_entry(&retune->entries[i]);
  print_entry(&last);
  tagc_say("tagc-budget: target=%s cycle=%" PRIu64 " estimated_ms=%.3f measured_ms=%.3f error=%.6f measured_error=%.6f", tagc_budget_text(target, text),
           last.last, 1e-6 * last.outcome.ns, 1e-6 * last.measured_ns, last.outcome.error, last.measured_error);
}
