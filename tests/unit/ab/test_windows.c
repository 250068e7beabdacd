/* SPDX-License-Identifier: BSD-3-Clause
 * Plain steps against compressed ones, entered one at a time, as the library sees them. The outcomes of whole runs are
 * those of tests/unit/tagc-report/test_ab_compare.c; here the figures at every step equal those of a second, simple
 * calculation over all steps so far.
 */
#include "interpose/ab/windows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/tap.h"

enum { STEPS = 700, LONGEST = 9 };

static uint32_t state = 1;
static double uniform(void) {
  state = state * 1664525 + 1013904223;
  return (double)(state >> 8) / (1 << 24);
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-9 * fabs(a); }

/* ---- the simple calculation -------------------------------------------------------------------------------------- */

struct window {
  enum tagc_ab_side side;
  bool joined;
  size_t from, to, counted;
  double ms;
};

static double middle_half(double *ms, size_t n) {
  double sum = 0, weight = 0;
  tagc_quantile(ms, n, 0);
  for (size_t quarter = 0; quarter < 4 * n; quarter++)
    if (quarter >= n && quarter < 3 * n) { /* every value stands for four quarters of itself */
      sum += ms[quarter / 4];
      weight++;
    }
  return sum / weight;
}

static size_t find_windows(const struct tagc_ab_step *steps, size_t count, struct window *windows) {
  static double ms[STEPS];
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    const bool near = i && steps[i].lock == steps[i - 1].lock && steps[i].cycle > steps[i - 1].cycle &&
                      steps[i].cycle - steps[i - 1].cycle <= LONGEST;
    if (!(near && steps[i].side == steps[i - 1].side))
      windows[found++] = (struct window){.side = steps[i].side, .joined = near, .from = i};
    windows[found - 1].to = i + 1;
  }
  for (struct window *w = windows; w < windows + found; w++) {
    for (size_t i = w->from + 1; i < w->to; i++)
      if (steps[i].counts)
        ms[w->counted++] = steps[i].ms;
    w->ms = w->counted && 2 * w->counted >= LONGEST - 1 ? middle_half(ms, w->counted) : NAN;
  }
  return found;
}

static bool is_pair(const struct window *w, size_t i, size_t count) {
  return i > 0 && i + 1 < count && w[i].side == TAGC_AB_COMPRESSED && w[i - 1].side == TAGC_AB_PLAIN &&
         w[i + 1].side == TAGC_AB_PLAIN && w[i].joined && w[i + 1].joined &&
         !isnan(w[i - 1].ms + w[i].ms + w[i + 1].ms);
}

static double spread_of(const struct tagc_ab_step *steps, const struct window *windows, size_t count, int side) {
  static double around[STEPS];
  size_t n = 0;
  for (const struct window *w = windows; w < windows + count; w++)
    for (size_t i = w->from + 1; (int)w->side == side && w->counted > 1 && !isnan(w->ms) && i < w->to; i++)
      if (steps[i].counts)
        around[n++] = steps[i].ms - w->ms;
  return n < 2 ? NAN : (tagc_quantile(around, n, 0.75) - tagc_quantile(around, n, 0.25)) / 1.349;
}

/* True if `figures` are those of these steps. */
static bool are_figures(const struct tagc_ab_figures *figures, const struct tagc_ab_step *steps, size_t count) {
  static struct window windows[STEPS];
  static double differences[STEPS];
  memset(windows, 0, sizeof windows);
  const size_t found = find_windows(steps, count, windows);
  size_t pairs = 0, shared = 0;
  double plain = 0, mean = 0, squares = 0;
  for (size_t i = 0; i < found; i++)
    if (is_pair(windows, i, found)) {
      const double beside = (windows[i - 1].ms + windows[i + 1].ms) / 2;
      shared += i >= 2 && is_pair(windows, i - 2, found);
      differences[pairs++] = windows[i].ms - beside;
      plain += beside;
    }
  for (size_t i = 0; i < pairs; i++)
    mean += differences[i] / (double)pairs;
  for (size_t i = 0; i < pairs; i++)
    squares += (differences[i] - mean) * (differences[i] - mean);
  const double n = (double)pairs, c = 1 + (double)shared / (3 * n);
  const double half = tagc_student(pairs > 1 ? pairs - 1 : 1) * sqrt(squares * c / (n * (n - c)));
  bool good = figures->pairs == pairs && same(figures->difference_ms, pairs ? mean : NAN) &&
              same(figures->low_ms, pairs > 1 ? mean - half : NAN) &&
              same(figures->high_ms, pairs > 1 ? mean + half : NAN) &&
              same(figures->speed, pairs ? plain / (plain + n * mean) : NAN);
  for (int side = TAGC_AB_PLAIN; side < TAGC_AB_SIDES; side++)
    good = good && same(figures->deviation_ms[side], spread_of(steps, windows, found, side));
  return good;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_each_step(void) {
  static struct tagc_ab_step steps[STEPS];
  struct tagc_ab_windows windows;
  struct tagc_ab_figures figures = {0};
  size_t wrong = 0, most = 0;
  for (int run = 0; run < 20; run++) {
    uint64_t cycle = 0;
    uint32_t lock = 1;
    size_t left = LONGEST;
    enum tagc_ab_side side = TAGC_AB_PLAIN;
    tagc_ab_begin(&windows, LONGEST);
    for (size_t i = 0; i < STEPS; i++) {
      if (left-- == 0) {
        side = uniform() < 0.05 ? TAGC_AB_NEITHER : side == TAGC_AB_PLAIN ? TAGC_AB_COMPRESSED : TAGC_AB_PLAIN;
        left = uniform() < 0.1 ? (size_t)(LONGEST * uniform()) : LONGEST - 1;
      }
      cycle += uniform() < 0.02 ? 1 + (uint64_t)(12 * uniform()) : 1;
      if (uniform() < 0.005) {
        lock++;
        cycle = 1;
      }
      steps[i] = (struct tagc_ab_step){lock, cycle, side, uniform() < 0.95, 100 + 10 * uniform() - 5 * (double)side};
      tagc_ab_add(&windows, &steps[i]);
      tagc_ab_figures(&windows, &figures);
      wrong += !are_figures(&figures, steps, i + 1);
    }
    most = figures.pairs > most ? figures.pairs : most;
    tagc_ab_free(&windows);
  }
  ok(wrong == 0 && most > 20, "20 runs of %d steps, up to %zu pairs: figures as calculated at once, after every step",
     STEPS, most);
}

static void turns(struct tagc_ab_windows *windows, size_t steps, size_t longest, double effect) {
  tagc_ab_begin(windows, longest);
  for (size_t i = 0; i < steps; i++) {
    const bool compressed = i / longest % 2 == 1;
    tagc_ab_add(windows, &(struct tagc_ab_step){1, i + 1, compressed ? TAGC_AB_COMPRESSED : TAGC_AB_PLAIN, true,
                                                (compressed ? effect : 1) * (100 + uniform())});
  }
}

static void test_words(void) {
  static const struct {
    size_t steps;
    double effect;
    const char *begins;
  } runs[] = {{20, 0.5, ""},
              {60, 0.5, "too early to tell: 1 pair of windows, and 3 are needed"},
              {100, 0.5, "too early to tell: 2 pairs of windows, and 3 are needed"},
              {400, 0.5, "2.00 times as fast (2.00 to 2.0"},
              {400, 2, "0.50 times as fast (0."},
              {400, 0.995, "1.005 times as fast (1.00"}};
  struct tagc_ab_windows windows;
  struct tagc_ab_figures figures;
  char words[TAGC_AB_WORDS];
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    turns(&windows, runs[i].steps, 20, runs[i].effect);
    tagc_ab_figures(&windows, &figures);
    tagc_ab_words(&figures, words);
    ok(*runs[i].begins ? strncmp(words, runs[i].begins, strlen(runs[i].begins)) == 0 : !*words, "%zu steps, x %g: %s",
       runs[i].steps, runs[i].effect, words);
    tagc_ab_free(&windows);
  }
}

/* Months of steps take the memory of a few thousand. */
static void test_long(void) {
  struct tagc_ab_windows windows;
  struct tagc_ab_figures figures;
  turns(&windows, 200000, 20, 0.8);
  tagc_ab_figures(&windows, &figures);
  ok(figures.pairs == 4999 && windows.around[TAGC_AB_PLAIN].room <= 4096 && windows.ms.room <= 32,
     "200,000 steps: %zu pairs, and %zu deviations kept", figures.pairs, windows.around[TAGC_AB_PLAIN].count);
  ok(figures.deviation_ms[TAGC_AB_PLAIN] > 0.3 && figures.deviation_ms[TAGC_AB_PLAIN] < 0.4,
     "their spread is that of the noise: %.3f", figures.deviation_ms[TAGC_AB_PLAIN]);
  tagc_ab_free(&windows);
}

int main(void) {
  test_each_step();
  test_words();
  test_long();
  return tap_done();
}
