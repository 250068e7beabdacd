/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a rank in a stretch of time, with their times, from a second reading of its trace.
 *
 * Placing NCCL's work has a known length, but no known start. It is placed where the call began, or where the previous
 *         work on its stream ended: the earliest possible moment.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_WINDOW_H
#define INTERPOSE_TAGC_REPORT_SHOW_WINDOW_H

#include "interpose/tagc-report/read/summary.h"

struct tagc_window_call {
  struct tagc_trace_call call;   /* as tagc_window_call() gives it */
  struct tagc_trace_times times; /* times.call 0: unknown */
  uint64_t wire_began_ns;        /* start of these times */
  bool under;                    /* in the call itself, as measured by its thread; else on its stream */
};

struct tagc_time_window {
  struct tagc_window_call *calls; /* in the order in which they were made */
  size_t count;
  size_t left_out; /* more than TAGC_WINDOW_CALLS */
};

enum { TAGC_WINDOW_CALLS = 200000 };

/* Times and calls match whichever comes first: the earlier record waits in a table of TAGC_WINDOW_LATE, by number. */
enum { TAGC_WINDOW_LATE = 1 << 15 };

/* Reads the calls of the rank that began in [from_ns, to_ns). False: no memory. No calls: the trace is gone. */
bool tagc_time_window_read(const struct tagc_sum_rank *rank, uint64_t from_ns, uint64_t to_ns,
                           struct tagc_time_window *out);
void tagc_time_window_free(struct tagc_time_window *window);

/* A call of the rank's trace with the summary's codes instead of its own. */
struct tagc_trace_call tagc_window_call(const struct tagc_sum_rank *rank, const struct tagc_trace_call *call);

/* The summary's places of a rank's communicators, by number in its trace; SIZE_MAX: none. NULL: no memory. Free it. */
size_t *tagc_rank_comms(const struct tagc_summary *summary, size_t rank, uint32_t *count);
/* The slot or all-gather of a call on that communicator (SIZE_MAX: none), or NULL. */
const struct tagc_sum_slot *tagc_call_slot(const struct tagc_summary *summary, size_t comm,
                                           const struct tagc_trace_call *call);

/* The codec of a call of the slot; "": plain. */
const char *tagc_call_codec(const struct tagc_sum_slot *slot, const struct tagc_trace_call *call);

/* For a call with known times: the part of encode and decode under the exchange, ... */
static inline uint64_t tagc_times_hidden(const struct tagc_trace_times *times) {
  const uint64_t most = times->encode_ns + times->decode_ns;
  return times->hidden_ns < most ? times->hidden_ns : most;
}

/* ... their length from start to end, and whether they lie in the call itself. */
static inline uint64_t tagc_times_sum(const struct tagc_trace_times *times) {
  return times->sum_ns + times->encode_ns + times->exchange_ns + times->decode_ns - tagc_times_hidden(times);
}

static inline bool tagc_times_under(const struct tagc_trace_times *times, const struct tagc_trace_call *call) {
  return !times->by_device && !(call->flags & TAGC_TRACE_GROUPED) && tagc_times_sum(times) <= call->host_ns;
}

#endif
