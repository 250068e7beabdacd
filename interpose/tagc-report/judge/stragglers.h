/* SPDX-License-Identifier: BSD-3-Clause
 * Where the time of a step goes, rank by rank: who waits, and for whom.
 *
 * In a step of time t, a rank's calls are under way for a time w, and its thread is inside them for a time c. If calls
 * return when done (host memory), c is exposed communication, and w - c is hidden behind other work. On a GPU a call
 * only enqueues, and the calls alone do not show exposed communication. It lies between max(0, w + p - t) and min(w,
 * t), where p is the rest of the program's work, which is unknown. So we report the upper bound min(w, t), and the
 * share of a step with calls under way. Simultaneous calls on several streams count once in w. Their beginnings are
 * unknown, so w is an estimate; if it nears t, we report nothing about the time outside calls. If calls with more than
 * a twentieth of the bytes have no known time, w is a lower bound, and nothing else is reported. If NCCL's profiler saw
 * all kernels of a step (TAGC_PROFILER), w is exact. The bound stays a bound: NCCL does not see the program's kernels.
 *
 * The *slowest rank* is the one that others wait for. Collectives end together, so it spends the shortest time inside
 * them and the longest outside. We name it if its time outside exceeds the median of the ranks by more than 2% of a
 * step, and no rank is last in more steps: a few hiccups shift a mean, but delay others only then.
 *
 * A *straggler* is so far behind in a single step, by a fifth of the median step more than it is on average: the
 * garbage collector, the data loader, another program. A step that only one rank has tells nothing.
 *
 * Only whole steps count, except in the list of the longest, which marks others: a checkpoint disturbs a step. Pure.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_STRAGGLERS_H
#define INTERPOSE_TAGC_REPORT_JUDGE_STRAGGLERS_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

struct tagc_straggler_rank {
  double step_ms, in_calls_ms, wire_ms; /* means over whole steps; NaN: unknown */
  double exposed_ms, hidden_ms;         /* NaN: unknowable here */
  bool wire_exact;                      /* wire_ms is the time of NCCL's kernels, of all of them */
  bool wire_least;                      /* calls with many bytes have no known time: wire_ms is a lower bound */
  double untimed;                       /* the share of bytes of calls without a known time */
  double network_ms, network_bytes;     /* of a step: the network sent for so long, to other hosts; NaN: unknown */
  double outside_ms;                    /* step minus the time in calls (or under way, if they only enqueue) */
  size_t steps;
  double slowest_share; /* share of the steps with a known last rank in which it was that one; NaN: no such steps */
};

/* A rank far behind in a step; or a long step (rank: SIZE_MAX). */
struct tagc_straggler_step {
  uint32_t lock;
  uint64_t cycle;
  size_t rank; /* index into ranks */
  double ms;   /* behind the median of the ranks; or the step's time */
  bool whole;  /* on all ranks that have it */
};

enum { TAGC_STRAGGLERS_WORST = 5 };

struct tagc_stragglers {
  struct tagc_straggler_rank *ranks; /* as the summary's */
  size_t slowest;                    /* SIZE_MAX: none stands out */
  double behind_ms;                  /* its time outside of calls minus the median */
  bool exposed_known;
  bool wire_exact; /* on all ranks */
  bool wire_least; /* on any rank */
  char words[450];
  size_t rank_count;
  size_t steps;                                              /* whole ones of the job: means over their ranks */
  double median_ms, p95_ms;                                  /* NaN: none */
  struct tagc_straggler_step longest[TAGC_STRAGGLERS_WORST]; /* of all steps, the longest first */
  size_t longest_count;
  struct tagc_straggler_step behind[TAGC_STRAGGLERS_WORST]; /* the worst first */
  size_t behind_count;                                      /* of all; at most TAGC_STRAGGLERS_WORST are kept */
};

/* False: no memory. tagc_stragglers_free() frees the ranks. */
bool tagc_stragglers_find(const struct tagc_summary *summary, struct tagc_stragglers *out);
void tagc_stragglers_free(struct tagc_stragglers *stragglers);
/* Lines of at most 120 columns; nothing without steps. */
void tagc_stragglers_print(FILE *to, const struct tagc_summary *summary, const struct tagc_stragglers *stragglers);

#endif
