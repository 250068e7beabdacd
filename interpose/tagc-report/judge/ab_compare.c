/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/judge/ab_compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/read/format.h"

enum { FEWEST_PAIRS = 3 };
static const double HARDLY = 0.01;   /* smaller changes of speed are not worth a word */
static const double NARROW = 0.03;   /* an interval within this of 1: nothing to gain */
static const double ROUNDING = 1e-6; /* of a step: rounding of sums */

/* A step of the job, merged from its ranks. */
struct step {
  uint32_t lock;
  uint64_t cycle;
  double ms;
  uint8_t side; /* TAGC_SUM_NEITHER: ranks differ */
  bool counts;
};

struct window {
  uint8_t side;
  bool joined;       /* no gap to the window before */
  size_t first, end; /* of the steps */
  size_t counted;
  double ms; /* NaN: too few counted steps */
};

struct scratch {
  struct step *steps;
  size_t step_count;
  struct window *windows;
  size_t window_count;
  double *values; /* room for all steps */
};

/* P(T <= t) for t >= 0 (Abramowitz, Stegun 1964, 26.7.3 and 26.7.4: finite sums for whole degrees of freedom). */
static double student_below(double t, size_t degrees) {
  const double n = (double)degrees, angle = atan(t / sqrt(n)), c = cos(angle), s = sin(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? c : 1, sum = degrees == 1 ? 0 : term;
  for (size_t k = odd ? 3 : 2; k + 1 < degrees; k += 2) {
    term *= c * c * (double)(k - 1) / (double)k;
    sum += term;
  }
  const double within = odd ? 2 / M_PI * (angle + s * sum) : s * sum;
  return 0.5 + within / 2;
}

double tagc_student(size_t degrees) {
  double low = 1.9, high = 13;
  if (degrees > 100000) /* from here on 1.95999 */
    degrees = 100000;
  for (int i = 0; i < 60; i++) {
    const double middle = (low + high) / 2;
    if (student_below(middle, degrees) < 0.975)
      low = middle;
    else
      high = middle;
  }
  return (low + high) / 2;
}

/* The mean of the middle half: excludes the outer quarters, in part if n is no multiple of four. */
static double middle_mean(double *values, size_t n) {
  const double low = (double)n / 4, high = 3 * (double)n / 4;
  double sum = 0;
  tagc_quantile(values, n, 0); /* sorts them */
  for (size_t i = 0; i < n; i++)
    sum += values[i] * fmax(0, fmin(high, (double)i + 1) - fmax(low, (double)i));
  return sum / (high - low);
}

static struct step merge(const struct tagc_rank_step *ranks, size_t count) {
  const struct tagc_sum_step *first = ranks->step;
  struct step step = {first->lock, first->cycle, 0, first->side, true}; /* no time is no measurement */
  for (size_t i = 0; i < count; i++) {
    step.ms += tagc_ms((double)ranks[i].step->ns) / (double)count;
    step.counts = step.counts && ranks[i].step->whole;
    if (ranks[i].step->side != step.side)
      step.side = TAGC_SUM_NEITHER;
  }
  step.counts = step.counts && step.ms > 0;
  return step;
}

static bool follows(const struct step *a, const struct step *b, uint64_t missing_most) {
  return b->lock == a->lock && b->cycle > a->cycle && b->cycle - a->cycle - 1 <= missing_most;
}

/* The longest window without gaps. A gap as long may hide a window of the other side. */
static size_t longest_window(const struct step *steps, size_t count) {
  size_t longest = 0;
  for (size_t i = 0, length = 0; i < count; i++) {
    length = i && follows(&steps[i - 1], &steps[i], 0) && steps[i].side == steps[i - 1].side ? length + 1 : 1;
    if (steps[i].side != TAGC_SUM_NEITHER && length > longest)
      longest = length;
  }
  return longest;
}

static void close_window(struct scratch *s, struct window *w, size_t longest) {
  size_t n = 0;
  for (size_t i = w->first + 1; i < w->end; i++)
    if (s->steps[i].counts)
      s->values[n++] = s->steps[i].ms;
  w->counted = n;
  /* A window cut short is far less certain than its neighbours: it does not count. */
  w->ms = n && 2 * n >= longest - 1 ? middle_mean(s->values, n) : NAN;
}

static void find_windows(struct scratch *s) {
  const size_t longest = longest_window(s->steps, s->step_count);
  struct window *w = NULL;
  bool near = false;
  for (size_t i = 0; i < s->step_count; i++) {
    const struct step *step = &s->steps[i];
    near = i && follows(step - 1, step, longest ? longest - 1 : 0);
    if (w && near && step->side == w->side) {
      w->end = i + 1;
      continue;
    }
    if (w)
      close_window(s, w, longest);
    w = &s->windows[s->window_count++];
    *w = (struct window){.side = step->side, .joined = near, .first = i, .end = i + 1};
  }
  if (w)
    close_window(s, w, longest);
}

static bool has_pair(const struct scratch *s, size_t i) {
  const struct window *w = &s->windows[i];
  if (w->side != TAGC_SUM_COMPRESSED || i == 0 || i + 1 >= s->window_count || isnan(w->ms))
    return false;
  return w->joined && w[1].joined && w[-1].side == TAGC_SUM_PLAIN && w[1].side == TAGC_SUM_PLAIN && !isnan(w[-1].ms) &&
         !isnan(w[1].ms);
}

/* The spread of a side's steps around their windows' values. */
static double side_spread(struct scratch *s, uint8_t side) {
  size_t n = 0;
  for (size_t k = 0; k < s->window_count; k++) {
    const struct window *w = &s->windows[k];
    for (size_t i = w->first + 1; w->side == side && w->counted > 1 && !isnan(w->ms) && i < w->end; i++)
      if (s->steps[i].counts)
        s->values[n++] = s->steps[i].ms - w->ms;
  }
  if (n < 2)
    return NAN;
  const double low = tagc_quantile(s->values, n, 0.25), high = tagc_quantile(s->values, n, 0.75);
  return (high - low) / 1.349; /* width of a normal distribution's middle half */
}

static double mean_of_side(const struct scratch *s, uint8_t side) {
  double sum = 0;
  size_t n = 0;
  for (size_t k = 0; k < s->window_count; k++)
    if (s->windows[k].side == side && !isnan(s->windows[k].ms)) {
      sum += s->windows[k].ms;
      n++;
    }
  return n ? sum / (double)n : NAN;
}

/* `differences`: out->pairs of them, `shared` of which share a plain window with their predecessor. */
static void tell_interval(struct tagc_ab_result *out, const double *differences, size_t shared) {
  const double n = (double)out->pairs, plain = out->mean_ms[TAGC_SUM_PLAIN], c = 1 + (double)shared / (3 * n);
  double mean = 0, squares = 0;
  for (size_t i = 0; i < out->pairs; i++)
    mean += differences[i] / n;
  for (size_t i = 0; i < out->pairs; i++)
    squares += (differences[i] - mean) * (differences[i] - mean);
  out->difference_ms = mean;
  out->mean_ms[TAGC_SUM_COMPRESSED] = plain + mean;
  out->speed = plain / (plain + mean);
  if (out->pairs < 2)
    return;
  const double half = tagc_student(out->pairs - 1) * sqrt(squares / (n - 1) * c * (n - 1) / (n * (n - c)));
  out->low_ms = mean - half;
  out->high_ms = mean + half;
  out->low_speed = plain / (plain + out->high_ms);
  out->high_speed = plain + out->low_ms > 0 ? plain / (plain + out->low_ms) : INFINITY;
}

static void compare_pairs(const struct scratch *s, struct tagc_ab_result *out) {
  double plain = 0;
  size_t shared = 0;
  for (size_t i = 0; i < s->window_count; i++) {
    if (!has_pair(s, i))
      continue;
    const struct window *w = &s->windows[i];
    const double beside = (w[-1].ms + w[1].ms) / 2;
    plain += beside;
    shared += i >= 2 && has_pair(s, i - 2);
    s->values[out->pairs++] = w->ms - beside;
  }
  if (out->pairs == 0)
    return;
  out->mean_ms[TAGC_SUM_PLAIN] = plain / (double)out->pairs;
  tell_interval(out, s->values, shared);
}

static enum tagc_ab_outcome judge(const struct tagc_ab_result *out) {
  const double nothing = ROUNDING * out->mean_ms[TAGC_SUM_PLAIN];
  if (out->pairs < FEWEST_PAIRS)
    return TAGC_AB_TOO_FEW;
  return out->high_ms < -nothing ? TAGC_AB_FASTER : out->low_ms > nothing ? TAGC_AB_SLOWER : TAGC_AB_EQUAL;
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
  if (out->low_speed > 1 - NARROW && out->high_speed < 1 + NARROW)
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
  return (ab->outcome == TAGC_AB_FASTER || ab->outcome == TAGC_AB_SLOWER) && fabs(ab->speed - 1) > HARDLY;
}

static void say_outcome(struct tagc_ab_result *out) {
  const bool little = fabs(out->speed - 1) <= HARDLY;
  const int digits = little ? 3 : 2;
  char interval[120], high[16] = "any number of";
  if (isfinite(out->high_speed))
    snprintf(high, sizeof high, "%.*f", digits, out->high_speed);
  snprintf(interval, sizeof interval, "%.*f to %s, 95%% confidence, %zu pairs of windows", digits, out->low_speed, high,
           out->pairs);
  switch (out->outcome) {
  case TAGC_AB_NONE:
    snprintf(out->words, sizeof out->words, "Not compared: TAGC_MODE=ab makes plain and compressed steps take turns.");
    break;
  case TAGC_AB_TOO_FEW:
    snprintf(out->words, sizeof out->words,
             "Too early to tell: %zu pair%s of windows, and %d are needed (a compressed window between two "
             "plain ones). Let the run go on, or make windows shorter (TAGC_AB, 5 at least).",
             out->pairs, out->pairs == 1 ? "" : "s", FEWEST_PAIRS);
    break;
  case TAGC_AB_FASTER:
  case TAGC_AB_SLOWER:
    if (little)
      snprintf(out->words, sizeof out->words, "TAGC makes a step %.3f times as fast (%s): too little to matter.",
               out->speed, interval);
    else if (out->outcome == TAGC_AB_FASTER)
      snprintf(out->words, sizeof out->words, "TAGC makes a step %.2f times as fast (%s): keep it on.", out->speed,
               interval);
    else
      snprintf(out->words, sizeof out->words,
               "TAGC makes a step slower: %.2f times as fast (%s). Use TAGC_MODE=off here. %s", out->speed, interval,
               why_slower(out));
    break;
  case TAGC_AB_EQUAL:
    snprintf(out->words, sizeof out->words,
             "No difference can be seen: with TAGC a step is %.*f times as fast (%s). %s", digits, out->speed, interval,
             why_equal(out));
  }
}

const char *tagc_ab_outcome_name(enum tagc_ab_outcome outcome) {
  static const char *const words[] = {"none", "too few", "faster", "slower", "equal"};
  return words[outcome];
}

static void print_side(FILE *to, const char *name, const struct tagc_ab_result *s, uint8_t side) {
  char between[16], inside[16], mean[24] = "-", spread[24] = "-";
  if (!isnan(s->mean_ms[side]))
    snprintf(mean, sizeof mean, "%.3f", s->mean_ms[side]);
  if (!isnan(s->deviation_ms[side]))
    snprintf(spread, sizeof spread, "%.3f", s->deviation_ms[side]);
  fprintf(to, "  %-11s %10s ms  (+- %s)  %8zu steps   sent by a rank: %s to other hosts, %s inside\n", name, mean,
          spread, s->steps[side], tagc_format_bytes((double)s->sent[side].between, between),
          tagc_format_bytes((double)s->sent[side].inside, inside));
}

void tagc_ab_print(FILE *to, const struct tagc_ab_result *ab) {
  if (ab->outcome == TAGC_AB_NONE)
    return;
  fprintf(to, "Plain against compressed\n");
  print_side(to, "plain", ab, TAGC_SUM_PLAIN);
  print_side(to, "compressed", ab, TAGC_SUM_COMPRESSED);
  if (ab->pairs >= 2)
    fprintf(to, "  %-11s %+10.3f ms  (%+.3f to %+.3f)\n", "difference", ab->difference_ms, ab->low_ms, ab->high_ms);
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

static void compare_windows(struct scratch *s, const struct tagc_rank_step *sorted, size_t count,
                            struct tagc_ab_result *out) {
  for (size_t i = 0, same; i < count; i += same) {
    same = tagc_steps_same(&sorted[i], count - i);
    s->steps[s->step_count++] = merge(&sorted[i], same);
  }
  find_windows(s);
  for (uint8_t side = TAGC_SUM_PLAIN; side < TAGC_SUM_SIDES; side++) {
    out->mean_ms[side] = mean_of_side(s, side);
    out->deviation_ms[side] = side_spread(s, side);
  }
  for (size_t k = 0; k < s->window_count; k++)
    if (s->windows[k].side < TAGC_SUM_SIDES && !isnan(s->windows[k].ms))
      out->steps[s->windows[k].side] += s->windows[k].counted;
  compare_pairs(s, out);
  bool has[TAGC_SUM_SIDES] = {false};
  for (size_t k = 0; k < s->window_count; k++)
    if (s->windows[k].side < TAGC_SUM_SIDES)
      has[s->windows[k].side] = true;
  out->outcome = has[TAGC_SUM_PLAIN] && has[TAGC_SUM_COMPRESSED] ? judge(out) : TAGC_AB_NONE;
}

void tagc_ab_compare(const struct tagc_summary *summary, struct tagc_ab_result *out) {
  size_t count;
  struct tagc_rank_step *sorted = tagc_steps_sorted(summary, &count);
  struct scratch s = {.steps = malloc((count + 1) * sizeof *s.steps),
                      .windows = malloc((count + 1) * sizeof *s.windows),
                      .values = malloc((count + 1) * sizeof *s.values)};
  *out = (struct tagc_ab_result){.difference_ms = NAN,
                                 .low_ms = NAN,
                                 .high_ms = NAN,
                                 .speed = NAN,
                                 .low_speed = NAN,
                                 .high_speed = NAN,
                                 .coding_ms = NAN,
                                 .saved_ms = NAN,
                                 .mean_ms = {NAN, NAN, NAN},
                                 .deviation_ms = {NAN, NAN, NAN}};
  if (sorted && s.steps && s.windows && s.values) {
    add_sent(sorted, count, out);
    add_coding_times(summary, out);
    compare_windows(&s, sorted, count, out);
  }
  free(s.values);
  free(s.windows);
  free(s.steps);
  free(sorted);
  say_outcome(out);
}
