/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_MODE=ab: compares plain with compressed steps, in pairs of windows. The log, the report at exit and tagc-report
 * all ask this, so that they give one answer.
 *
 * Windows of plain and compressed steps alternate in one run. A slowdown of the machine hits neighbouring windows
 * alike. So each compressed window is compared with the mean of the plain ones on both sides: a drift, however steep,
 * cancels if it is straight over three windows. The result is the mean of these differences d_1..d_n with Student's
 * interval, mean(d) +- t(0.975, n - 1) se, with one correction. Neighbouring differences share a plain window, so with
 * equal noise they correlate by 1/6, and se^2 = var(d)/n would be too small by a quarter. If s of them share one,
 *     c = 1 + s/(3n), and se^2 = var(d) c (n - 1) / (n (n - c)),
 * for var(d), of correlated values, is itself n/(n-1) (1 - c/n) of the true one.
 *
 * Unit       Windows, not steps: the steps of a window resemble one another (data loader, GPU clock), and would make
 *            the interval too narrow.
 * A window   has the mean of the middle half of its steps. A step of 30 s for a checkpoint or an evaluation is no
 *            network time, and falls on either side by chance: in a mean of all steps it would hide any effect. The
 *            median would do, too, but needs half as many steps again for equal certainty (of normal noise it uses 64%,
 *            the middle half 83%).
 * Left out   The first step of a window (it sends leftovers, and overlaps with the other side), disturbed steps,
 *            windows with fewer than half of their steps, and those without a whole neighbour on both sides: where
 *            steps are missing, or a new lock begins.
 * Memory     The steps of one window, and the deviations of the last 4096 steps of a side.
 * Threads    Any: one trains while another one ends the process, which may find no moment to read. No libm.
 */
#ifndef INTERPOSE_AB_WINDOWS_H
#define INTERPOSE_AB_WINDOWS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tagc_ab_side { TAGC_AB_NEITHER, TAGC_AB_PLAIN, TAGC_AB_COMPRESSED, TAGC_AB_SIDES };

struct tagc_ab_step {
  uint32_t lock;  /* number of the lock, and of the cycle in it */
  uint64_t cycle; /* a step that does not follow the last one begins anew */
  enum tagc_ab_side side;
  bool counts; /* undisturbed */
  double ms;
};

enum tagc_ab_outcome {
  TAGC_AB_NONE,    /* a side is missing */
  TAGC_AB_TOO_FEW, /* fewer than three pairs */
  TAGC_AB_FASTER,
  TAGC_AB_SLOWER, /* the interval excludes zero */
  TAGC_AB_EQUAL   /* it includes zero */
};

enum { TAGC_AB_FEWEST_PAIRS = 3, TAGC_AB_WORDS = 200 };

struct tagc_ab_figures {
  enum tagc_ab_outcome outcome;
  size_t pairs, steps[TAGC_AB_SIDES];  /* steps: those that count */
  double mean_ms[TAGC_AB_SIDES];       /* of a step: of the paired windows, if any; NaN: none */
  double deviation_ms[TAGC_AB_SIDES];  /* of single steps around their windows, by the width of the middle half; NaN:
                                          no window has two steps that count */
  double difference_ms;                /* compressed minus plain; NaN: no pairs */
  double low_ms, high_ms;              /* its interval of 95%; NaN: fewer than two pairs */
  double speed, low_speed, high_speed; /* speed factor: plain / compressed; high_speed may be infinite */
};

struct tagc_ab_window {
  enum tagc_ab_side side;
  bool joined; /* no gap to the window before */
  size_t counted;
  double ms; /* NaN: too few steps count */
};

/* What closed windows add up to. */
struct tagc_ab_sums {
  struct tagc_ab_window last[2]; /* the newest last */
  bool paired[2];                /* the windows before the newest, and before that */
  size_t pairs, shared;          /* shared: pairs that share a plain window with the pair before */
  double plain_ms;               /* sum of the pairs' plain sides */
  double mean_ms, squares;       /* of the differences, updated one at a time (Welford 1962) */
  bool seen[TAGC_AB_SIDES];
  size_t windows[TAGC_AB_SIDES], steps[TAGC_AB_SIDES];
  double ms[TAGC_AB_SIDES]; /* sums over these windows */
};

struct tagc_ab_list {
  double *values;
  size_t count, room;
};

struct tagc_ab_windows {
  pthread_mutex_t lock;
  size_t longest;             /* steps of a whole window */
  bool any;                   /* a window is open: */
  struct tagc_ab_step step;   /* its last step */
  struct tagc_ab_window open; /* counted and ms come when it is closed */
  struct tagc_ab_list ms;     /* its steps that count */
  struct tagc_ab_sums sums;
  struct tagc_ab_list around[TAGC_AB_SIDES]; /* deviations of steps from their windows: rings when full */
  size_t oldest[TAGC_AB_SIDES];
};

/* longest: steps of a whole window (TAGC_AB). Release it with tagc_ab_free(). */
void tagc_ab_begin(struct tagc_ab_windows *windows, size_t longest);
/* Adds a step, in their order. Without memory it does not count. */
void tagc_ab_add(struct tagc_ab_windows *windows, const struct tagc_ab_step *step);
/* The figures so far; the open window counts if it has half of its steps. TAGC_AB_NONE, and zeros, if the lock is not
 * to be had. */
void tagc_ab_figures(struct tagc_ab_windows *windows, struct tagc_ab_figures *out);
/* The same without the deviations (NaN), which take the time to sort thousands of numbers: for a caller in training. */
void tagc_ab_so_far(struct tagc_ab_windows *windows, struct tagc_ab_figures *out);
void tagc_ab_free(struct tagc_ab_windows *windows);

/* "1.28 times as fast (1.10 to 1.40, 95% confidence, 12 pairs of windows)", or that it is too early to tell. Empty if
 * a side is missing. Returns `text`. */
const char *tagc_ab_words(const struct tagc_ab_figures *figures, char text[TAGC_AB_WORDS]);
/* "1.10 to 1.40, 95% confidence, 12 pairs of windows"; needs two pairs. Returns `text`. */
const char *tagc_ab_interval(const struct tagc_ab_figures *figures, char text[TAGC_AB_WORDS]);
/* True if the speed differs by 1% at most: not worth a word. */
bool tagc_ab_hardly(const struct tagc_ab_figures *figures);
/* "faster", for programs. */
const char *tagc_ab_outcome_name(enum tagc_ab_outcome outcome);

/* The 97.5th percentile of Student's distribution with `degrees` >= 1 degrees of freedom, to 0.0001. */
double tagc_student(size_t degrees);

/* The value below which a share of the n values lies, interpolated between neighbours. Sorts the values. NaN: n = 0. */
double tagc_quantile(double *values, size_t n, double share);

#endif
