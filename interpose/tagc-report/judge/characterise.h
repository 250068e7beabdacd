/* SPDX-License-Identifier: BSD-3-Clause
 * What a job communicates: how often, how much, in messages of which sizes, for which kind of parallelism, how fast.
 *
 * Message     Its size is the one that nccl-tests prints: the buffer of all ranks for all-gathers, reduce-scatters,
 *             all-to-alls, gathers and scatters, else the buffer of a rank. Ranks other than the root of a broadcast or
 *             scatter, and receivers, have sizes by their counts alone.
 * Bandwidth   algbw is the size over the time. busbw multiplies it with 2 (n-1)/n for all-reduces, (n-1)/n for calls
 *             whose size is that of all ranks, and 1 for others (nccl-tests, doc/PERFORMANCE.md).
 * Time        That of the transfer where the trace has it; else of the program's thread, on hosts whose calls return
 *             when they are done, for calls outside of groups. Both include the wait for the last rank, which
 *             nccl-tests avoids by a barrier.
 * Groups      A message between two ranks in a group returns at once: there the end of the group has a time, that of
 *             all its messages. It is known on the same hosts, for groups of nothing else. Otherwise only NCCL's
 *             profiler has times of such messages.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_CHARACTERISE_H
#define INTERPOSE_TAGC_REPORT_JUDGE_CHARACTERISE_H

#include "interpose/tagc-report/read/summary.h"

/* Times of calls. */
struct tagc_call_times {
  uint64_t calls;
  double bytes, ns; /* sums; bytes: the sizes of messages */
};

/* The calls of one function, role, number of ranks, and size class of messages; -1: their sizes are unknown. */
struct tagc_traits_row {
  enum tagc_sum_role role;
  int nranks;
  uint16_t function;
  int8_t size_class;
  double calls, raw_bytes, plain_bytes, sent_bytes; /* of all ranks, in whole steps; see struct tagc_traits */
  double sized_calls, message_bytes;                /* the calls with a known size, and these sizes together */
  double least, most;                               /* bytes of a message */
  struct tagc_call_times plain, packed;             /* packed: compressed calls */
  bool by_thread;                                   /* some of these times are those of the program's thread */
};

/* Groups of messages between two ranks, of communicators with one role and number of ranks. */
struct tagc_traits_group {
  enum tagc_sum_role role;
  int nranks;
  struct tagc_sum_group sum; /* `all`: of whole steps, if there are any */
};

struct tagc_traits_table {
  struct tagc_traits_row *rows;
  size_t count;
};

/* The calls for one kind of parallelism; idle roles have none. */
struct tagc_traits_share {
  size_t comms;
  int least_ranks, most_ranks;
  double calls, raw_bytes, plain_bytes, sent_bytes;
};

struct tagc_traits {
  bool steps;  /* numbers are of whole steps; else of the whole run */
  double each; /* divides sums over all ranks: the whole steps of all ranks, or the ranks */
  struct tagc_traits_share of[TAGC_ROLES], all;
  struct tagc_traits_row *rows; /* by role, ranks, function, size class */
  size_t count;
  /* Sums of the rows. What a table does not tell apart is that of the first row. */
  struct tagc_traits_table calls;   /* by role, ranks, function */
  struct tagc_traits_table sizes;   /* by size class */
  struct tagc_traits_table times;   /* by function, ranks, size class: those with times */
  struct tagc_traits_group *groups; /* by role, ranks, sends, receives, size class; none on other hosts */
  size_t group_count;
  bool blocking;    /* calls return when they are done */
  double untimed;   /* messages between two ranks without a time, in a row or in a group */
  uint64_t outside; /* calls outside of whole steps, of all ranks: set-up, checkpoints, steps that were disturbed */
};

/* False: no memory. The summary's roles must be set (tagc_sum_roles()). */
bool tagc_traits_find(const struct tagc_summary *summary, struct tagc_traits *traits);
void tagc_traits_free(struct tagc_traits *traits);

/* The kind of parallelism with most of the calls of a size, and its share of them. */
enum tagc_sum_role tagc_traits_main_role(const struct tagc_traits *traits, const struct tagc_traits_row *size,
                                         double *share);
/* The mean bytes of a message; NaN: no size is known. */
double tagc_traits_mean(const struct tagc_traits_row *row);
/* Messages so small that their time is latency. */
bool tagc_traits_small(double bytes);

/* The bytes of a message of `bytes` a rank's count, as nccl-tests count them; and busbw / algbw (1 if unknown). */
double tagc_message_bytes(const struct tagc_summary *summary, uint16_t function, int nranks, double bytes);
double tagc_busbw_factor(const struct tagc_summary *summary, uint16_t function, int nranks);

#endif
