/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/judge/stragglers.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "env/append.h"
#include "interpose/ab/windows.h"
#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/read/format.h"

static const double STANDS_OUT = 0.02; /* of a step: others wait for a rank this far behind */
static const double ALL_OF_IT = 0.95;  /* of a step: with calls under way for longer, the time outside is unknown */
static const double FAR_BEHIND = 0.2;  /* of the median step: a straggler is this far behind */

/* A rank's time between its calls. NaN: these only enqueue, and their time under way is unknown, or fills the step. */
static double outside(const struct tagc_sum_rank *rank, const struct tagc_sum_step *step) {
  const bool sure = tagc_sum_step_exact(step);
  if (!rank->blocking && !sure &&
      (!tagc_sum_step_timed(step) || step->wire_ns == 0 || (double)step->wire_ns > ALL_OF_IT * (double)step->ns))
    return NAN;
  const double inside = (double)(rank->blocking ? step->host_ns : step->wire_ns);
  return tagc_ms(fmax(0, (double)step->ns - inside));
}

static void sum_rank(const struct tagc_sum_rank *rank, struct tagc_straggler_rank *out) {
  double wire = 0, sending = 0, sent = 0, raw = 0, untimed = 0;
  size_t known = 0, exact = 0, timed = 0, profiled = 0;
  *out = (struct tagc_straggler_rank){.wire_ms = NAN, .exposed_ms = NAN, .hidden_ms = NAN};
  for (size_t i = 0; i < rank->step_count; i++) {
    const struct tagc_sum_step *step = &rank->steps[i];
    if (!step->whole)
      continue;
    out->steps++;
    out->step_ms += tagc_ms((double)step->ns);
    out->in_calls_ms += tagc_ms((double)step->host_ns);
    wire += tagc_ms((double)step->wire_ns);
    exact += tagc_sum_step_exact(step);
    timed += tagc_sum_step_timed(step);
    raw += (double)step->raw_bytes;
    untimed += (double)step->untimed_bytes;
    profiled += step->profiled;
    sending += tagc_ms((double)step->network.sending_ns);
    sent += (double)step->network.bytes;
    const double ms = outside(rank, step);
    out->outside_ms += isnan(ms) ? 0 : ms;
    known += !isnan(ms);
  }
  const double n = (double)out->steps; /* 0 makes everything NaN */
  out->step_ms /= n;
  out->in_calls_ms /= n;
  out->outside_ms = 2 * known > out->steps ? out->outside_ms / (double)known : NAN;
  out->wire_ms = wire > 0 ? wire / n : NAN;
  out->wire_exact = exact && exact == out->steps;
  out->wire_least = !rank->blocking && !out->wire_exact && timed < out->steps;
  out->untimed = raw > 0 ? untimed / raw : 0;
  out->network_ms = profiled ? sending / n : NAN;
  out->network_bytes = profiled ? sent / n : NAN;
  if (rank->blocking) {
    /* Several threads may call at once, and a call that ends in the next step counts where it began. */
    out->exposed_ms = fmin(out->in_calls_ms, out->step_ms);
    if (!out->wire_exact)
      out->wire_ms = fmax(out->wire_ms, out->in_calls_ms); /* plain calls may have no known times */
    out->hidden_ms = fmax(0, out->wire_ms - out->in_calls_ms);
  } else if (!out->wire_least) {
    out->exposed_ms = out->wire_ms > out->step_ms ? out->step_ms : out->wire_ms;
  }
}

/* `usual`: the ranks' median time between calls per step; NaN: unknown. */
static bool find_slowest(struct tagc_stragglers *out, double *usual) {
  double *values = malloc((out->rank_count + 1) * sizeof *values), most = -1;
  size_t known = 0, last = SIZE_MAX;
  if (!values)
    return false;
  for (size_t r = 0; r < out->rank_count; r++)
    if (!isnan(out->ranks[r].outside_ms)) {
      values[known++] = out->ranks[r].outside_ms;
      if (out->ranks[r].outside_ms > most) {
        most = out->ranks[r].outside_ms;
        last = r;
      }
    }
  *usual = tagc_quantile(values, known, 0.5);
  free(values);
  if (known >= 2) {
    out->behind_ms = most - *usual;
    out->slowest = out->behind_ms > STANDS_OUT * out->ranks[last].step_ms ? last : SIZE_MAX;
  }
  return true;
}

/* -- step by step -------------------------------------------------------------------------------------------------- */

/* Keeps the worst ones in order; the caller counts all. */
static void keep(struct tagc_straggler_step *list, size_t count, const struct tagc_straggler_step *step) {
  size_t at = count < TAGC_STRAGGLERS_WORST ? count : TAGC_STRAGGLERS_WORST;
  while (at && list[at - 1].ms < step->ms) {
    if (at < TAGC_STRAGGLERS_WORST)
      list[at] = list[at - 1];
    at--;
  }
  if (at < TAGC_STRAGGLERS_WORST)
    list[at] = *step;
}

static void note_length(const struct tagc_rank_step *same, size_t n, struct tagc_stragglers *out, double *times) {
  struct tagc_straggler_step step = {same->step->lock, same->step->cycle, SIZE_MAX, 0, true};
  for (size_t i = 0; i < n; i++) {
    step.ms += tagc_ms((double)same[i].step->ns) / (double)n;
    step.whole = step.whole && same[i].step->whole;
  }
  keep(out->longest, out->longest_count, &step);
  out->longest_count += out->longest_count < TAGC_STRAGGLERS_WORST;
  if (step.whole)
    times[out->steps++] = step.ms;
}

/* Finds the rank behind. False: unknown. `usual`: median time between calls in all steps; `values`: one per rank. */
static bool note_behind(const struct tagc_summary *summary, const struct tagc_rank_step *same, size_t n, double usual,
                        struct tagc_stragglers *out, double *values) {
  const double median_step = out->median_ms;
  size_t known = 0, last = 0;
  double most = -1;
  for (size_t i = 0; i < n; i++) {
    const double ms = same[i].step->whole ? outside(&summary->ranks[same[i].rank], same[i].step) : NAN;
    if (isnan(ms))
      return false; /* all compared ranks must be known */
    if (ms > most) {
      most = ms;
      last = same[i].rank;
    }
    values[known++] = ms;
  }
  if (known < 2)
    return false;
  const double behind = most - tagc_quantile(values, known, 0.5);
  if (behind > STANDS_OUT * median_step)
    out->ranks[last].slowest_share += 1;
  if (behind - (out->ranks[last].outside_ms - usual) > FAR_BEHIND * median_step)
    keep(out->behind, out->behind_count++,
         &(struct tagc_straggler_step){same->step->lock, same->step->cycle, last, behind, true});
  return true;
}

/* True if no rank is last in more steps. */
static bool is_often_last(const struct tagc_stragglers *out, size_t rank) {
  for (size_t r = 0; r < out->rank_count; r++)
    if (out->ranks[r].slowest_share > out->ranks[rank].slowest_share)
      return false;
  return true;
}

static bool by_steps(const struct tagc_summary *summary, double usual, struct tagc_stragglers *out) {
  size_t count, known = 0;
  struct tagc_rank_step *sorted = tagc_steps_sorted(summary, &count);
  double *times = malloc((count + 1) * sizeof *times);
  if (!times || (!sorted && count)) {
    free(times);
    free(sorted);
    return false;
  }
  for (size_t i = 0, same; i < count; i += same) {
    same = tagc_steps_same(&sorted[i], count - i);
    note_length(&sorted[i], same, out, times);
  }
  out->p95_ms = tagc_quantile(times, out->steps, 0.95);
  out->median_ms = tagc_quantile(times, out->steps, 0.5);
  for (size_t i = 0, same; i < count; i += same) {
    same = tagc_steps_same(&sorted[i], count - i);
    known += note_behind(summary, &sorted[i], same, usual, out, times);
  }
  for (size_t r = 0; r < out->rank_count; r++)
    out->ranks[r].slowest_share = known ? out->ranks[r].slowest_share / (double)known : NAN;
  if (out->slowest != SIZE_MAX && !is_often_last(out, out->slowest))
    out->slowest = SIZE_MAX;
  free(times);
  free(sorted);
  return true;
}

/* -- in words --------------------------------------------------------------------------------------- */

/* The mean over the ranks that have steps. */
static double mean_of(const struct tagc_stragglers *out, double (*value)(const struct tagc_straggler_rank *)) {
  double sum = 0;
  size_t n = 0;
  for (size_t r = 0; r < out->rank_count; r++)
    if (out->ranks[r].steps && !isnan(value(&out->ranks[r]))) {
      sum += value(&out->ranks[r]);
      n++;
    }
  return n ? sum / (double)n : NAN;
}

/* NaN also for a clock that stood still. */
static double of_step(const struct tagc_straggler_rank *rank, double ms) {
  return rank->step_ms > 0 ? ms / rank->step_ms : NAN;
}
static double exposed_of(const struct tagc_straggler_rank *rank) { return of_step(rank, rank->exposed_ms); }
static double under_way_of(const struct tagc_straggler_rank *rank) { return of_step(rank, rank->wire_ms); }
static double untimed_of(const struct tagc_straggler_rank *rank) { return rank->untimed; }
static double sending_of(const struct tagc_straggler_rank *rank) { return of_step(rank, rank->network_ms); }
static double step_ms_of(const struct tagc_straggler_rank *rank) { return rank->step_ms; }
static double outside_of(const struct tagc_straggler_rank *rank) { return rank->outside_ms; }

static void say_exposed(const struct tagc_stragglers *out, char *text, size_t size) {
  const double share = mean_of(out, exposed_of);
  if (out->wire_least && !isnan(mean_of(out, under_way_of)))
    snprintf(text, size,
             "Calls are under way for at least %.0f%% of a step: the times of calls with %.0f%% of the bytes are not "
             "known. With TAGC_PROFILER=on they are.",
             100 * mean_of(out, under_way_of), 100 * mean_of(out, untimed_of));
  else if (isnan(share))
    snprintf(text, size, "How long calls are under way is not known%s.",
             !out->steps                    ? ", as there are no whole steps"
             : mean_of(out, step_ms_of) > 0 ? ": the traces have no times of the device"
                                            : ": the steps took no time");
  else if (out->exposed_known)
    snprintf(text, size, "%.0f%% of a step is communication that nothing hides.", 100 * share);
  else if (out->wire_exact)
    snprintf(text, size,
             "NCCL's kernels run for %.0f%% of a step, exactly, and its network sends for %.0f%%; other "
             "work may hide some of that, which NCCL cannot see.",
             100 * share, 100 * mean_of(out, sending_of));
  else
    snprintf(text, size,
             "Calls are under way for %.0f%% of a step; how much of that other work hides cannot be seen from calls.",
             100 * share);
}

static void say_who(const struct tagc_summary *summary, struct tagc_stragglers *out) {
  const double outside_ms = mean_of(out, outside_of);
  say_exposed(out, out->words, sizeof out->words);
  if (out->slowest != SIZE_MAX) {
    const double share = out->ranks[out->slowest].slowest_share;
    tagc_append(out->words, sizeof out->words,
                " The others wait for rank %d: between its calls it needs %.1f ms more in a step than the median of "
                "the ranks",
                summary->ranks[out->slowest].number, out->behind_ms);
    if (!isnan(share)) /* else no step is known of all ranks */
      tagc_append(out->words, sizeof out->words, ", and was the last one in %.0f%% of the steps", 100 * share);
    tagc_append(out->words, sizeof out->words, ".");
  } else if (out->rank_count > 1 && !isnan(outside_ms))
    tagc_append(out->words, sizeof out->words, " No rank keeps the others waiting.");
}

bool tagc_stragglers_find(const struct tagc_summary *summary, struct tagc_stragglers *out) {
  double usual;
  *out = (struct tagc_stragglers){.slowest = SIZE_MAX,
                                  .rank_count = summary->rank_count,
                                  .median_ms = NAN,
                                  .p95_ms = NAN,
                                  .exposed_known = true,
                                  .wire_exact = true};
  out->ranks = calloc(summary->rank_count + 1, sizeof *out->ranks);
  if (!out->ranks)
    return false;
  for (size_t r = 0; r < summary->rank_count; r++) {
    sum_rank(&summary->ranks[r], &out->ranks[r]);
    out->exposed_known = out->exposed_known && summary->ranks[r].blocking;
    out->wire_exact = out->wire_exact && out->ranks[r].wire_exact;
    out->wire_least = out->wire_least || out->ranks[r].wire_least;
  }
  if (!find_slowest(out, &usual) || !by_steps(summary, usual, out)) {
    tagc_stragglers_free(out);
    return false;
  }
  say_who(summary, out);
  return true;
}

void tagc_stragglers_free(struct tagc_stragglers *stragglers) {
  free(stragglers->ranks);
  stragglers->ranks = NULL;
}

/* -- for people ---------------------------------------------------------------------------------------------------- */

static const char *number(double value, char text[16]) {
  if (isnan(value))
    return strcpy(text, "-");
  snprintf(text, 16, "%.2f", value);
  return text;
}

static void print_rank(FILE *to, const struct tagc_sum_rank *rank, const struct tagc_straggler_rank *p, bool profiled) {
  char step[16], in_calls[16], wire[16], exposed[16], hidden[16], away[16], last[16] = "-", sending[16], sent[16];
  if (!isnan(p->slowest_share))
    snprintf(last, sizeof last, "%.0f%%", 100 * p->slowest_share);
  fprintf(to, "  %6d %8zu %11s %11s %11s %11s %11s %11s %9s", rank->number, p->steps, number(p->step_ms, step),
          number(p->in_calls_ms, in_calls), number(p->wire_ms, wire), number(p->exposed_ms, exposed),
          number(p->hidden_ms, hidden), number(p->outside_ms, away), last);
  if (profiled)
    fprintf(to, " %8s %s", number(p->network_ms, sending),
            isnan(p->network_bytes) ? "-" : tagc_format_bytes(p->network_bytes, sent));
  fprintf(to, "\n");
}

/* "step 7"; if the first rank lacks it, the rank's own name for it. */
static const char *step_name(const struct tagc_summary *summary, const struct tagc_straggler_step *step,
                             char text[64]) {
  const size_t number = tagc_step_number(summary, step->lock, step->cycle);
  if (number)
    snprintf(text, 64, "step %zu", number);
  else
    snprintf(text, 64, "cycle %" PRIu64 " of lock %" PRIu32, step->cycle, step->lock);
  return text;
}

static void print_worst(FILE *to, const struct tagc_summary *summary, const struct tagc_stragglers *p) {
  char line[400], name[64];
  int used =
    snprintf(line, sizeof line,
             "A step takes %.2f ms (median of %zu whole ones; 95%% of them at most %.2f). The longest:", p->median_ms,
             p->steps, p->p95_ms);
  for (size_t i = 0; i < p->longest_count && i < 3; i++)
    used += snprintf(line + used, sizeof line - (size_t)used, "%s %.2f (%s%s)", i ? "," : "", p->longest[i].ms,
                     step_name(summary, &p->longest[i], name), p->longest[i].whole ? "" : ", not whole");
  tagc_format_print(to, 2, line);
  if (p->behind_count)
    fprintf(to, "  In %zu step%s a rank was much later than it is else (by %.0f%% of a step or more):\n",
            p->behind_count, p->behind_count > 1 ? "s" : "", 100 * FAR_BEHIND);
  for (size_t i = 0; i < p->behind_count && i < TAGC_STRAGGLERS_WORST; i++)
    fprintf(to, "    %s: rank %d, by %.2f ms\n", step_name(summary, &p->behind[i], name),
            summary->ranks[p->behind[i].rank].number, p->behind[i].ms);
}

void tagc_stragglers_print(FILE *to, const struct tagc_summary *summary, const struct tagc_stragglers *stragglers) {
  if (stragglers->steps == 0)
    return;
  fprintf(to, "Where the time of a step goes (ms)\n");
  bool profiled = false;
  for (size_t r = 0; r < stragglers->rank_count; r++)
    profiled |= stragglers->ranks[r].steps && !isnan(stragglers->ranks[r].network_ms);
  fprintf(to, "  %6s %8s %11s %11s %11s %11s %11s %11s %9s%s\n", "rank", "steps", "step", "in calls",
          stragglers->wire_exact   ? "kernels"
          : stragglers->wire_least ? "at least"
                                   : "under way",
          stragglers->exposed_known ? "exposed" : "at most", "hidden", "outside", "last in",
          profiled ? "  network" : "");
  for (size_t r = 0; r < stragglers->rank_count; r++)
    if (stragglers->ranks[r].steps)
      print_rank(to, &summary->ranks[r], &stragglers->ranks[r], profiled);
  print_worst(to, summary, stragglers);
  tagc_format_print(to, 2, stragglers->words);
}
