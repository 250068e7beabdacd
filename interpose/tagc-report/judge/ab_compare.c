/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/judge/ab_compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/read/format.h"

static const double NARROW = 0.03; /* an interval within this of 1: nothing to gain */

_Static_assert((int)TAGC_SUM_PLAIN == TAGC_AB_PLAIN && (int)TAGC_SUM_COMPRESSED == TAGC_AB_COMPRESSED &&
                 (int)TAGC_SUM_SIDES == TAGC_AB_SIDES,
               "sides of steps");

/* A step of the job, merged from its ranks; on no side if they differ. */
static struct tagc_ab_step merge(const struct tagc_rank_step *ranks, size_t count) {
  const struct tagc_sum_step *first = ranks->step;
  struct tagc_ab_step step = {first->lock, first->cycle, (enum tagc_ab_side)first->side, true, 0};
  for (size_t i = 0; i < count; i++) {
    step.ms += tagc_ms((double)ranks[i].step->ns) / (double)count;
    step.counts = step.counts && ranks[i].step->whole;
    if ((int)ranks[i].step->side != (int)step.side)
      step.side = TAGC_AB_NEITHER;
  }
  step.counts = step.counts && step.ms > 0; /* no time is no measurement */
  return step;
}

/* The longest window without gaps. A gap as long may hide a window of the other side. */
static size_t longest_window(const struct tagc_ab_step *steps, size_t count) {
  size_t longest = 0;
  for (size_t i = 0, length = 0; i < count; i++) {
    const struct tagc_ab_step *step = &steps[i];
    const bool joined =
      i && step->lock == step[-1].lock && step->cycle == step[-1].cycle + 1 && step->side == step[-1].side;
    length = joined ? length + 1 : 1;
    if (step->side != TAGC_AB_NEITHER && length > longest)
      longest = length;
  }
  return longest;
}

/* -- in words ------------------------------------------------------------------------------------------------------ */

static double bytes_of(const struct tagc_ab_result *out, uint8_t side) {
  return (double)tagc_sent_all(&out->sent[side]);
}

static bool saves_bytes(const struct tagc_ab_result *out) {
  return bytes_of(out, TAGC_SUM_COMPRESSED) < 0.98 * bytes_of(out, TAGC_SUM_PLAIN);
}

static const char *why_equal(const struct tagc_ab_result *out) {
  if (!saves_bytes(out))
    return "Hardly a byte less is sent with it: the table of slots tells why.";
  if (out->figures.low_speed > 1 - NARROW && out->figures.high_speed < 1 + NARROW)
    return "Either a step does not wait for the network here, or encoding and decoding take what that saves.";
  return "The steps are too few, or too uneven, to tell: let the run go on for longer.";
}

/* Names a cause if times show it. */
static const char *why_slower(const struct tagc_ab_result *out) {
  if (!saves_bytes(out))
    return "It does not save bytes, either: the table of slots tells why.";
  if (out->coding_ms > out->saved_ms)
    return "Fewer bytes are sent, but encoding and decoding take longer than that saves: see their times, and try "
           "TAGC_CODEC=auto.";
  return "Fewer bytes are sent; why that does not help the times of calls do not tell. TAGC_CODEC=auto may do better.";
}

bool tagc_ab_matters(const struct tagc_ab_result *ab) {
  const enum tagc_ab_outcome outcome = ab->figures.outcome;
  return (outcome == TAGC_AB_FASTER || outcome == TAGC_AB_SLOWER) && !tagc_ab_hardly(&ab->figures);
}

static void say_outcome(struct tagc_ab_result *out) {
  const struct tagc_ab_figures *figures = &out->figures;
  const bool little = tagc_ab_hardly(figures);
  char words[TAGC_AB_WORDS], interval[TAGC_AB_WORDS];
  switch (figures->outcome) {
  case TAGC_AB_NONE:
    snprintf(out->words, sizeof out->words, "Not compared: TAGC_MODE=ab makes plain and compressed steps take turns.");
    break;
  case TAGC_AB_TOO_FEW:
    snprintf(out->words, sizeof out->words,
             "T%s (a compressed window between two plain ones). Let the run go on, or make windows shorter (TAGC_AB, 5 "
             "at least).",
             tagc_ab_words(figures, words) + 1);
    break;
  case TAGC_AB_FASTER:
  case TAGC_AB_SLOWER:
    tagc_ab_interval(figures, interval);
    if (little)
      snprintf(out->words, sizeof out->words, "TAGC makes a step %.3f times as fast (%s): too little to matter.",
               figures->speed, interval);
    else if (figures->outcome == TAGC_AB_FASTER)
      snprintf(out->words, sizeof out->words, "TAGC makes a step %.2f times as fast (%s): keep it on.", figures->speed,
               interval);
    else
      snprintf(out->words, sizeof out->words,
               "TAGC makes a step slower: %.2f times as fast (%s). Use TAGC_MODE=off here. %s", figures->speed,
               interval, why_slower(out));
    break;
  case TAGC_AB_EQUAL:
    snprintf(out->words, sizeof out->words,
             "No difference can be seen: with TAGC a step is %.*f times as fast (%s). %s", little ? 3 : 2,
             figures->speed, tagc_ab_interval(figures, interval), why_equal(out));
  }
}

static void print_side(FILE *to, const char *name, const struct tagc_ab_result *s, uint8_t side) {
  char between[16], inside[16], mean[24] = "-", spread[24] = "-";
  if (!isnan(s->figures.mean_ms[side]))
    snprintf(mean, sizeof mean, "%.3f", s->figures.mean_ms[side]);
  if (!isnan(s->figures.deviation_ms[side]))
    snprintf(spread, sizeof spread, "%.3f", s->figures.deviation_ms[side]);
  fprintf(to, "  %-11s %10s ms  (+- %s)  %8zu steps   sent by a rank: %s to other hosts, %s inside\n", name, mean,
          spread, s->figures.steps[side], tagc_format_bytes((double)s->sent[side].between, between),
          tagc_format_bytes((double)s->sent[side].inside, inside));
}

void tagc_ab_print(FILE *to, const struct tagc_ab_result *ab) {
  if (ab->figures.outcome == TAGC_AB_NONE)
    return;
  fprintf(to, "Plain against compressed\n");
  print_side(to, "plain", ab, TAGC_SUM_PLAIN);
  print_side(to, "compressed", ab, TAGC_SUM_COMPRESSED);
  if (ab->figures.pairs >= 2)
    fprintf(to, "  %-11s %+10.3f ms  (%+.3f to %+.3f)\n", "difference", ab->figures.difference_ms, ab->figures.low_ms,
            ab->figures.high_ms);
  tagc_format_print(to, 2, ab->words);
}

/* -- all together -------------------------------------------------------------------------------------------------- */

/* The ranks' bytes in counted steps, by side. */
static void add_sent(const struct tagc_rank_step *sorted, size_t count, struct tagc_ab_result *out) {
  size_t steps[TAGC_SUM_SIDES] = {0};
  for (size_t i = 0; i < count; i++) {
    const struct tagc_sum_step *step = sorted[i].step;
    const uint8_t side = step->side < TAGC_SUM_SIDES ? step->side : TAGC_SUM_NEITHER;
    if (!step->whole)
      continue;
    out->sent[side].inside += step->sent.inside;
    out->sent[side].between += step->sent.between;
    steps[side]++;
  }
  for (int side = 0; side < TAGC_SUM_SIDES; side++)
    if (steps[side]) {
      out->sent[side].inside /= steps[side];
      out->sent[side].between /= steps[side];
    }
}

/* Compares compressed calls with plain ones of the same slots; slots differ in size and in waiting. */
static void add_coding_times(const struct tagc_summary *summary, struct tagc_ab_result *out) {
  double coding = 0, saved = 0, calls = 0;
  for (size_t i = 0; i < summary->comm_count; i++)
    for (size_t j = 0; j < summary->comms[i].slot_count; j++) {
      const struct tagc_sum_calls *c = &summary->comms[i].slots[j].calls;
      const double packed = (double)c->packed_wire_calls, plain = (double)c->wire_calls - packed;
      if (packed < 1 || plain < 1)
        continue;
      coding += (double)c->encode_ns + (double)c->decode_ns - (double)c->hidden_ns;
      saved += ((double)c->wire_ns - (double)c->packed_wire_ns) * packed / plain - (double)c->packed_wire_ns;
      calls += packed;
    }
  out->coding_ms = calls > 0 ? tagc_ms(coding / calls) : NAN;
  out->saved_ms = calls > 0 ? tagc_ms(saved / calls) : NAN;
}

static void compare_windows(const struct tagc_rank_step *sorted, size_t count, struct tagc_ab_step *steps,
                            struct tagc_ab_figures *out) {
  struct tagc_ab_windows windows;
  size_t step_count = 0;
  for (size_t i = 0, same; i < count; i += same) {
    same = tagc_steps_same(&sorted[i], count - i);
    steps[step_count++] = merge(&sorted[i], same);
  }
  tagc_ab_begin(&windows, longest_window(steps, step_count));
  for (size_t i = 0; i < step_count; i++)
    tagc_ab_add(&windows, &steps[i]);
  tagc_ab_figures(&windows, out);
  tagc_ab_free(&windows);
}

void tagc_ab_compare(const struct tagc_summary *summary, struct tagc_ab_result *out) {
  size_t count;
  struct tagc_rank_step *sorted = tagc_steps_sorted(summary, &count);
  struct tagc_ab_step *steps = malloc((count + 1) * sizeof *steps);
  *out = (struct tagc_ab_result){.coding_ms = NAN, .saved_ms = NAN};
  compare_windows(sorted, sorted && steps ? count : 0, steps, &out->figures);
  if (sorted && steps) {
    add_sent(sorted, count, out);
    add_coding_times(summary, out);
  }
  free(steps);
  free(sorted);
  say_outcome(out);
}
