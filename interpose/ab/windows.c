/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/ab/windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/thread.h"

enum { AROUND_MOST = 4096, LEAST_ROOM = 32 };
static const double NOT_KNOWN = __builtin_nan("");
static const double HARDLY = 0.01;   /* smaller changes of speed are not worth a word */
static const double ROUNDING = 1e-6; /* of a step: rounding of sums */

static bool has_value(double value) { return !__builtin_isnan(value); }

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Up to ten degrees by table; then the expansion of Abramowitz, Stegun 1964, 26.7.5, with x = 1.959964 for 0.975. */
double tagc_student(size_t degrees) {
  static const double few[] = {12.70620, 4.30265, 3.18245, 2.77645, 2.57058,
                               2.44691,  2.36462, 2.30600, 2.26216, 2.22814};
  const double x = 1.959963985, n = (double)degrees, x2 = x * x;
  if (degrees <= sizeof few / sizeof *few)
    return few[degrees ? degrees - 1 : 0];
  const double g1 = (x2 + 1) * x / 4, g2 = ((5 * x2 + 16) * x2 + 3) * x / 96,
               g3 = (((3 * x2 + 19) * x2 + 17) * x2 - 15) * x / 384;
  return x + g1 / n + g2 / (n * n) + g3 / (n * n * n);
}

static int compare_doubles(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

double tagc_quantile(double *values, size_t n, double share) {
  if (n == 0)
    return NOT_KNOWN;
  qsort(values, n, sizeof *values, compare_doubles);
  const double at = share * (double)(n - 1);
  const size_t below = (size_t)at;
  return below + 1 < n ? values[below] + (at - (double)below) * (values[below + 1] - values[below]) : values[n - 1];
}

/* The mean of the middle half: excludes the outer quarters, in part if n is no multiple of four. */
static double middle_mean(double *values, size_t n) {
  const double low = (double)n / 4, high = 3 * (double)n / 4;
  double sum = 0;
  tagc_quantile(values, n, 0); /* sorts them */
  for (size_t i = 0; i < n; i++) {
    const double from = (double)i > low ? (double)i : low, to = (double)i + 1 < high ? (double)i + 1 : high;
    sum += to > from ? values[i] * (to - from) : 0;
  }
  return sum / (high - low);
}

/* Room for one more value; false: no memory. */
static bool list_grows(struct tagc_ab_list *list) {
  if (list->count < list->room)
    return true;
  const size_t room = list->room ? 2 * list->room : LEAST_ROOM;
  double *values = realloc(list->values, room * sizeof *values);
  if (!values)
    return false;
  list->values = values;
  list->room = room;
  return true;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* A window cut short is far less certain than its neighbours: it has no value. Sorts its steps. */
static struct tagc_ab_window closed(const struct tagc_ab_windows *w) {
  struct tagc_ab_window window = w->open;
  window.counted = w->ms.count;
  window.ms = w->ms.count && 2 * w->ms.count >= w->longest - 1 ? middle_mean(w->ms.values, w->ms.count) : NOT_KNOWN;
  return window;
}

static bool is_pair(const struct tagc_ab_window *before, const struct tagc_ab_window *middle,
                    const struct tagc_ab_window *after) {
  return middle->side == TAGC_AB_COMPRESSED && before->side == TAGC_AB_PLAIN && after->side == TAGC_AB_PLAIN &&
         middle->joined && after->joined && has_value(before->ms) && has_value(middle->ms) && has_value(after->ms);
}

/* A closed window, the newest: the one before it may now be a pair. */
static void add_window(struct tagc_ab_sums *sums, const struct tagc_ab_window *window) {
  const struct tagc_ab_window *before = &sums->last[0], *middle = &sums->last[1];
  const bool pair = is_pair(before, middle, window);
  if (pair) {
    const double plain = (before->ms + window->ms) / 2, difference = middle->ms - plain,
                 off = difference - sums->mean_ms;
    sums->pairs++;
    sums->shared += sums->paired[1];
    sums->plain_ms += plain;
    sums->mean_ms += off / (double)sums->pairs;
    sums->squares += off * (difference - sums->mean_ms);
  }
  sums->seen[window->side] = true;
  if (has_value(window->ms)) {
    sums->windows[window->side]++;
    sums->steps[window->side] += window->counted;
    sums->ms[window->side] += window->ms;
  }
  sums->paired[1] = sums->paired[0];
  sums->paired[0] = pair;
  sums->last[0] = sums->last[1];
  sums->last[1] = *window;
}

static bool has_spread(const struct tagc_ab_window *window) {
  return window->side != TAGC_AB_NEITHER && window->counted > 1 && has_value(window->ms);
}

static void keep_deviations(struct tagc_ab_windows *w, const struct tagc_ab_window *window) {
  struct tagc_ab_list *around = &w->around[window->side];
  size_t *oldest = &w->oldest[window->side];
  for (size_t i = 0; has_spread(window) && i < w->ms.count; i++) {
    const double deviation = w->ms.values[i] - window->ms;
    if (around->count == AROUND_MOST) {
      around->values[*oldest] = deviation;
      *oldest = (*oldest + 1) % AROUND_MOST;
    } else if (list_grows(around)) {
      around->values[around->count++] = deviation;
    }
  }
}

static void close_window(struct tagc_ab_windows *w) {
  const struct tagc_ab_window window = closed(w);
  keep_deviations(w, &window);
  add_window(&w->sums, &window);
}

/* A gap as long as a window may hide one of the other side. */
static bool follows(const struct tagc_ab_windows *w, const struct tagc_ab_step *step) {
  const uint64_t missing_most = w->longest ? w->longest - 1 : 0;
  return w->any && step->lock == w->step.lock && step->cycle > w->step.cycle &&
         step->cycle - w->step.cycle - 1 <= missing_most;
}

void tagc_ab_begin(struct tagc_ab_windows *w, size_t longest) {
  *w = (struct tagc_ab_windows){
    .lock = PTHREAD_MUTEX_INITIALIZER, .longest = longest, .sums.last = {{.ms = NOT_KNOWN}, {.ms = NOT_KNOWN}}};
}

void tagc_ab_add(struct tagc_ab_windows *w, const struct tagc_ab_step *step) {
  pthread_mutex_lock(&w->lock);
  const bool near = follows(w, step);
  if (near && step->side == w->step.side) {
    if (step->counts && step->side != TAGC_AB_NEITHER && list_grows(&w->ms)) /* without a vote there is no other */
      w->ms.values[w->ms.count++] = step->ms;
  } else { /* the first step of a window does not count */
    if (w->any)
      close_window(w);
    w->open = (struct tagc_ab_window){.side = step->side, .joined = near};
    w->ms.count = 0;
  }
  w->any = true;
  w->step = *step;
  pthread_mutex_unlock(&w->lock);
}

void tagc_ab_free(struct tagc_ab_windows *w) {
  free(w->ms.values);
  for (int side = 0; side < TAGC_AB_SIDES; side++)
    free(w->around[side].values);
  *w = (struct tagc_ab_windows){0};
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* The spread of a side's steps around their windows, the open one included. */
static double side_spread(const struct tagc_ab_windows *w, const struct tagc_ab_window *open, enum tagc_ab_side side) {
  const struct tagc_ab_list *around = &w->around[side];
  const size_t more = w->any && open->side == side && has_spread(open) ? w->ms.count : 0, n = around->count + more;
  double *values = n < 2 ? NULL : malloc(n * sizeof *values);
  if (!values)
    return NOT_KNOWN;
  if (around->count)
    memcpy(values, around->values, around->count * sizeof *values);
  for (size_t i = 0; i < more; i++)
    values[around->count + i] = w->ms.values[i] - open->ms;
  const double low = tagc_quantile(values, n, 0.25), high = tagc_quantile(values, n, 0.75);
  free(values);
  return (high - low) / 1.349; /* width of a normal distribution's middle half */
}

static void tell_interval(const struct tagc_ab_sums *sums, struct tagc_ab_figures *out) {
  const double n = (double)sums->pairs, plain = sums->plain_ms / n, c = 1 + (double)sums->shared / (3 * n);
  out->mean_ms[TAGC_AB_PLAIN] = plain;
  out->mean_ms[TAGC_AB_COMPRESSED] = plain + sums->mean_ms;
  out->difference_ms = sums->mean_ms;
  out->speed = plain / (plain + sums->mean_ms);
  if (sums->pairs < 2)
    return;
  const double error = __builtin_sqrt(sums->squares / (n - 1) * c * (n - 1) / (n * (n - c)));
  const double half = tagc_student(sums->pairs - 1) * error;
  out->low_ms = sums->mean_ms - half;
  out->high_ms = sums->mean_ms + half;
  out->low_speed = plain / (plain + out->high_ms);
  out->high_speed = plain + out->low_ms > 0 ? plain / (plain + out->low_ms) : __builtin_inf();
}

static enum tagc_ab_outcome judge(const struct tagc_ab_sums *sums, const struct tagc_ab_figures *out) {
  const double nothing = ROUNDING * out->mean_ms[TAGC_AB_PLAIN];
  if (!sums->seen[TAGC_AB_PLAIN] || !sums->seen[TAGC_AB_COMPRESSED])
    return TAGC_AB_NONE;
  if (out->pairs < TAGC_AB_FEWEST_PAIRS)
    return TAGC_AB_TOO_FEW;
  return out->high_ms < -nothing ? TAGC_AB_FASTER : out->low_ms > nothing ? TAGC_AB_SLOWER : TAGC_AB_EQUAL;
}

/* `open`: the open window, as if it were closed now. */
static void figures_so_far(const struct tagc_ab_windows *w, struct tagc_ab_window *open, struct tagc_ab_figures *out) {
  struct tagc_ab_sums sums = w->sums;
  *open = (struct tagc_ab_window){.ms = NOT_KNOWN};
  if (w->any) {
    *open = closed(w);
    add_window(&sums, open);
  }
  *out = (struct tagc_ab_figures){.pairs = sums.pairs,
                                  .difference_ms = NOT_KNOWN,
                                  .low_ms = NOT_KNOWN,
                                  .high_ms = NOT_KNOWN,
                                  .speed = NOT_KNOWN,
                                  .low_speed = NOT_KNOWN,
                                  .high_speed = NOT_KNOWN};
  for (int side = 0; side < TAGC_AB_SIDES; side++) {
    const bool told = side != TAGC_AB_NEITHER;
    out->steps[side] = told ? sums.steps[side] : 0;
    out->mean_ms[side] = told && sums.windows[side] ? sums.ms[side] / (double)sums.windows[side] : NOT_KNOWN;
    out->deviation_ms[side] = NOT_KNOWN;
  }
  if (sums.pairs)
    tell_interval(&sums, out);
  out->outcome = judge(&sums, out);
}

/* At exit the lock may be held for good. */
static void read_figures(struct tagc_ab_windows *w, bool with_deviations, struct tagc_ab_figures *out) {
  struct tagc_ab_window open;
  *out = (struct tagc_ab_figures){.outcome = TAGC_AB_NONE};
  if (!tagc_thread_try_lock(&w->lock))
    return;
  figures_so_far(w, &open, out);
  for (int side = TAGC_AB_NEITHER + 1; side < TAGC_AB_SIDES && with_deviations; side++)
    out->deviation_ms[side] = side_spread(w, &open, (enum tagc_ab_side)side);
  pthread_mutex_unlock(&w->lock);
}

void tagc_ab_so_far(struct tagc_ab_windows *w, struct tagc_ab_figures *out) { read_figures(w, false, out); }

void tagc_ab_figures(struct tagc_ab_windows *w, struct tagc_ab_figures *out) { read_figures(w, true, out); }

/* ---- words ------------------------------------------------------------------------------------------------------- */

const char *tagc_ab_outcome_name(enum tagc_ab_outcome outcome) {
  static const char *const words[] = {"none", "too few", "faster", "slower", "equal"};
  return words[outcome];
}

bool tagc_ab_hardly(const struct tagc_ab_figures *figures) {
  return figures->speed >= 1 - HARDLY && figures->speed <= 1 + HARDLY;
}

const char *tagc_ab_interval(const struct tagc_ab_figures *figures, char text[TAGC_AB_WORDS]) {
  const int digits = tagc_ab_hardly(figures) ? 3 : 2;
  char high[16] = "any number of";
  if (!__builtin_isinf(figures->high_speed))
    snprintf(high, sizeof high, "%.*f", digits, figures->high_speed);
  snprintf(text, TAGC_AB_WORDS, "%.*f to %s, 95%% confidence, %zu pairs of windows", digits, figures->low_speed, high,
           figures->pairs);
  return text;
}

const char *tagc_ab_words(const struct tagc_ab_figures *figures, char text[TAGC_AB_WORDS]) {
  char interval[TAGC_AB_WORDS];
  *text = '\0';
  if (figures->outcome == TAGC_AB_TOO_FEW)
    snprintf(text, TAGC_AB_WORDS, "too early to tell: %zu pair%s of windows, and %d are needed", figures->pairs,
             figures->pairs == 1 ? "" : "s", TAGC_AB_FEWEST_PAIRS);
  else if (figures->outcome != TAGC_AB_NONE)
    snprintf(text, TAGC_AB_WORDS, "%.*f times as fast (%s)%s", tagc_ab_hardly(figures) ? 3 : 2, figures->speed,
             tagc_ab_interval(figures, interval),
             figures->outcome == TAGC_AB_EQUAL ? ": no difference can be seen" : "");
  return text;
}
