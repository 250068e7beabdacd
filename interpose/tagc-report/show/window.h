/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a rank in a stretch of time, from a second reading of its trace, with their times.
 *
 * Placing What NCCL did is known by its length, not by its beginning: it is placed where the call began, or where the
 * one before it on
 *         its stream has ended, which is the earliest moment at which it can have begun.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_WINDOW_H
#define INTERPOSE_TAGC_REPORT_SHOW_WINDOW_H

#include "interpose/tagc-report/read/summary.h"

struct tagc_window_call {
  struct tagc_trace_call call;   /* as tagc_window_call() gives it */
  struct tagc_trace_times times; /* times.call 0: not known */
  uint64_t wire_began_ns;        /* where they are */
  bool under;                    /* in the call itself: the thread that made it has measured them; else on its stream */
};

struct tagc_time_window {
  struct tagc_window_call *calls; /* in the order in which they were made */
  size_t count;
  size_t left_out; /* more than TAGC_WINDOW_CALLS */
};

enum { TAGC_WINDOW_CALLS = 200000 };

/* Times and calls find each other whichever comes first; what a record waits for in a table of TAGC_WINDOW_LATE, by
 * number. */
enum { TAGC_WINDOW_LATE = 1 << 15 };

/* The calls of the rank that began in [from_ns, to_ns). False without memory; no calls, if its trace cannot be read any
 * more. */
bool tagc_time_window_read(const struct tagc_sum_rank *rank, uint64_t from_ns, uint64_t to_ns,
                           struct tagc_time_window *out);
void tagc_time_window_free(struct tagc_time_window *window);

/* A call of the rank's trace with the codes of the summary in place of its own. */
struct tagc_trace_call tagc_window_call(const struct tagc_sum_rank *rank, const struct tagc_trace_call *call);

/* Where a rank's communicators are in the summary, by their numbers in its trace; SIZE_MAX: nowhere. NULL without
 * memory; for free(). */
size_t *tagc_rank_comms(const struct tagc_summary *summary, size_t rank, uint32_t *count);
/* The slot or all-gather of a call on that communicator (SIZE_MAX: none); NULL: it has none. */
const struct tagc_sum_slot *tagc_call_slot(const struct tagc_summary *summary, size_t comm,
                                           const struct tagc_trace_call *call);

/* What a call of the slot is compressed with, if it is; "": nothing. */
const char *tagc_call_codec(const struct tagc_sum_slot *slot, const struct tagc_trace_call *call);

/* Of a call whose times are known: what of encode and decode lies under the exchange, ... */
static inline uint64_t tagc_times_hidden(const struct tagc_trace_times *times) {
  const uint64_t most = times->encode_ns + times->decode_ns;
  return times->hidden_ns < most ? times->hidden_ns : most;
}

/* ... what they come to, from the beginning to the end, and whether they lie in the call itself. */
static inline uint64_t tagc_times_sum(const struct tagc_trace_times *times) {
  return times->sum_ns + times->encode_ns + times->exchange_ns + times->decode_ns - tagc_times_hidden(times);
}

static inline bool tagc_times_under(const struct tagc_trace_times *times, const struct tagc_trace_call *call) {
  return !times->by_device && !(call->flags & TAGC_TRACE_GROUPED) && tagc_times_sum(times) <= call->host_ns;
}

#endif
