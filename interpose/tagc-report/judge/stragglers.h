/* SPDX-License-Identifier: BSD-3-Clause
 * Where the time of a step goes, rank by rank: who waits, and for whom.
 *
 * Of a step that takes t, the calls of a rank are under way for a time w, and its thread is inside them for a time c.
 * Where calls return when they are done (memory of the host), c is communication that is exposed, and w - c what is
 * hidden behind other work. On a GPU a call only enqueues: exposed communication cannot be seen from the calls alone;
 * it lies between max(0, w + p - t) and min(w, t), where p is the rest of the program's work, which nobody knows, and
 * so what is told is the upper bound min(w, t), and the share of a step in which calls are under way.
 * Calls on several streams at once count once, in w; as their beginnings are not known, w is an estimate, and where it
 * nears the step nothing is told of what is outside.
 * The *slowest rank* is the one that others wait for: collectives end together, so it is the one that is inside them
 * the shortest time, and outside of them the longest. It is told where that is more than 2% of a step longer than the
 * median of the ranks, and no rank is the last one in more steps: a few hiccups make a mean, and nobody waits for them
 * but then.
 * A *straggler* is a rank that is behind so in a single step, by a fifth of the median step more
 * than it is on average: the garbage collector, the data loader, another program. Of a step that only one rank has,
 * nothing can be told. All of it is made from whole steps alone, but for the list of the longest, which has the
 * others, too, and says so: a step with a checkpoint in it is disturbed.
 * Pure functions.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_STRAGGLERS_H
#define INTERPOSE_TAGC_REPORT_JUDGE_STRAGGLERS_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

struct tagc_straggler_rank {
  double step_ms, in_calls_ms, wire_ms; /* means over whole steps; NaN: not known */
  double exposed_ms, hidden_ms;         /* NaN: cannot be known here */
  double outside_ms;                    /* step less the time in calls (or, where they only enqueue, under way) */
  size_t steps;
  double slowest_share; /* of the steps of which that is known: in which it was the one that others waited for;
                         * NaN: of none */
};

/* A rank that was far behind in a step; or a step that took long (rank: SIZE_MAX). */
struct tagc_straggler_step {
  uint32_t lock;
  uint64_t cycle;
  size_t rank; /* index into ranks */
  double ms;   /* how far behind the median of the ranks; or how long it took */
  bool whole;  /* on all ranks that have it */
};

enum { TAGC_STRAGGLERS_WORST = 5 };

struct tagc_stragglers {
  struct tagc_straggler_rank *ranks; /* as the summary's */
  size_t slowest;                    /* SIZE_MAX: none stands out */
  double behind_ms;                  /* how much longer it is outside of calls than the median */
  bool exposed_known;
  char words[300];
  size_t rank_count;
  size_t steps;             /* whole ones of the job: of each the mean over its ranks */
  double median_ms, p95_ms; /* NaN: none */
  struct tagc_straggler_step longest[TAGC_STRAGGLERS_WORST]; /* of all steps, the longest first */
  size_t longest_count;
  struct tagc_straggler_step behind[TAGC_STRAGGLERS_WORST]; /* the worst first */
  size_t behind_count; /* all there were; TAGC_STRAGGLERS_WORST at most of them are kept */
};

/* False without memory. tagc_stragglers_free() gives back the ranks. */
bool tagc_stragglers_find(const struct tagc_summary *summary, struct tagc_stragglers *out);
void tagc_stragglers_free(struct tagc_stragglers *stragglers);
/* Lines of at most 120 columns; nothing without steps. */
void tagc_stragglers_print(FILE *to, const struct tagc_summary *summary, const struct tagc_stragglers *stragglers);

#endif
