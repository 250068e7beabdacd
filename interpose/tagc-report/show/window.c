/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/show/window.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/read/merge.h"

/* So many calls behind the stretch no times of its calls are expected. */
enum { LATE = 1 << 16 };

/* False: no memory. `early`: times that came before their calls. */
static bool add_window_call(struct tagc_time_window *window, const struct tagc_sum_rank *rank,
                            const struct tagc_trace_call *call, const struct tagc_trace_times *early) {
  const struct tagc_trace_times *times = &early[call->number % TAGC_WINDOW_LATE];
  if (window->count == TAGC_WINDOW_CALLS) {
    window->left_out++;
    return true;
  }
  if (!TAGC_SUM_ROOM(window->calls, window->count))
    return false;
  window->calls[window->count++] = (struct tagc_window_call){.call = tagc_window_call(rank, call)};
  if (times->call == call->number)
    window->calls[window->count - 1].times = *times;
  return true;
}

/* Calls are recorded nearly in order of number: threads may overtake each other slightly. */
static void add_call_window_times(struct tagc_time_window *window, const struct tagc_trace_times *times) {
  size_t low = 0, high = window->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (window->calls[middle].call.number < times->call)
      low = middle + 1;
    else
      high = middle;
  }
  size_t from = low > 64 ? low - 64 : 0, to = low + 64 < window->count ? low + 64 : window->count;
  for (size_t i = from; i < to; i++)
    if (window->calls[i].call.number == times->call)
      window->calls[i].times = *times;
}

static int order_calls(const void *a, const void *b) {
  const struct tagc_window_call *x = a, *y = b;
  return (x->call.number > y->call.number) - (x->call.number < y->call.number);
}

/* Places calls with the times until which streams are busy. */
static void place_on_wire(struct tagc_time_window *window) {
  enum { STREAMS = 64 };
  uint64_t stream[STREAMS] = {0}, busy[STREAMS] = {0};
  size_t streams = 0;
  for (size_t i = 0; i < window->count; i++) {
    struct tagc_window_call *call = &window->calls[i];
    size_t at = 0;
    call->wire_began_ns = call->call.began_ns;
    call->under = tagc_times_under(&call->times, &call->call);
    if (!call->times.call || call->under)
      continue;
    while (at < streams && stream[at] != call->call.stream)
      at++;
    if (at == streams && streams < STREAMS)
      stream[streams++] = call->call.stream;
    at = at < STREAMS ? at : STREAMS - 1;
    call->wire_began_ns = call->call.began_ns > busy[at] ? call->call.began_ns : busy[at];
    busy[at] = call->wire_began_ns + tagc_times_sum(&call->times);
  }
}

bool tagc_time_window_read(const struct tagc_sum_rank *rank, uint64_t from_ns, uint64_t to_ns,
                           struct tagc_time_window *out) {
  char why[TAGC_TRACE_WHY];
  struct tagc_trace_file *file = tagc_trace_open(rank->path, why);
  const struct tagc_trace_record *record;
  struct tagc_trace_times *early = calloc(TAGC_WINDOW_LATE, sizeof *early);
  size_t later = 0;
  bool fits = early != NULL;
  *out = (struct tagc_time_window){0};
  while (file && fits && later < LATE && (record = tagc_trace_next(file))) {
    if (record->kind == TAGC_TRACE_TIMES) {
      const struct tagc_trace_times *times = (const struct tagc_trace_times *)record;
      add_call_window_times(out, times);
      early[times->call % TAGC_WINDOW_LATE] = *times;
    }
    if (record->kind != TAGC_TRACE_CALL)
      continue;
    const struct tagc_trace_call *call = (const struct tagc_trace_call *)record;
    if (call->began_ns >= to_ns)
      later++;
    else if (call->began_ns >= from_ns)
      fits = add_window_call(out, rank, call, early);
  }
  if (file)
    tagc_trace_close(file);
  free(early);
  if (out->count)
    qsort(out->calls, out->count, sizeof *out->calls, order_calls);
  place_on_wire(out);
  return fits;
}

void tagc_time_window_free(struct tagc_time_window *window) {
  free(window->calls);
  *window = (struct tagc_time_window){0};
}

struct tagc_trace_call tagc_window_call(const struct tagc_sum_rank *rank, const struct tagc_trace_call *call) {
  struct tagc_trace_call same = *call;
  same.function = tagc_sum_code(rank, TAGC_TRACE_FUNCTIONS, call->function);
  same.reason = tagc_sum_code(rank, TAGC_TRACE_REASONS, call->reason);
  same.action = tagc_sum_code(rank, TAGC_TRACE_ACTIONS, call->action);
  same.type = tagc_sum_code(rank, TAGC_TRACE_TYPES, call->type);
  same.op = tagc_sum_code(rank, TAGC_TRACE_OPS, call->op);
  return same;
}

size_t *tagc_rank_comms(const struct tagc_summary *summary, size_t rank, uint32_t *count) {
  enum { MOST = 1 << 16 };
  uint32_t last = 0;
  for (size_t i = 0; i < summary->comm_count; i++)
    for (size_t j = 0; j < summary->comms[i].member_count; j++) {
      const struct tagc_sum_member *member = &summary->comms[i].members[j];
      if (member->rank == rank && member->id < MOST && member->id > last)
        last = member->id;
    }
  size_t *comms = malloc((last + 1) * sizeof *comms);
  *count = comms ? last + 1 : 0;
  for (uint32_t id = 0; id < *count; id++)
    comms[id] = SIZE_MAX;
  for (size_t i = 0; i < summary->comm_count && comms; i++)
    for (size_t j = 0; j < summary->comms[i].member_count; j++) {
      const struct tagc_sum_member *member = &summary->comms[i].members[j];
      if (member->rank == rank && member->id <= last)
        comms[member->id] = i;
    }
  return comms;
}

const struct tagc_sum_slot *tagc_call_slot(const struct tagc_summary *summary, size_t comm,
                                           const struct tagc_trace_call *call) {
  if (comm == SIZE_MAX || (call->slot < 0 && !call->allgather))
    return NULL;
  const struct tagc_sum_comm *in = &summary->comms[comm];
  const struct tagc_sum_slot *list = call->allgather ? in->allgathers : in->slots;
  const uint32_t slot = call->allgather ? call->allgather : (uint32_t)call->slot;
  for (size_t low = 0, high = call->allgather ? in->allgather_count : in->slot_count; low < high;) {
    const size_t middle = low + (high - low) / 2; /* sorted by lock and slot */
    const struct tagc_sum_slot *at = &list[middle];
    if (at->lock == call->lock && at->slot == slot)
      return at;
    if (at->lock < call->lock || (at->lock == call->lock && at->slot < slot))
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

const char *tagc_call_codec(const struct tagc_sum_slot *slot, const struct tagc_trace_call *call) {
  const struct tagc_sum_choice *choice = slot ? tagc_sum_choice_of(slot, call->cycle) : NULL;
  return choice ? choice->codec : "";
}
