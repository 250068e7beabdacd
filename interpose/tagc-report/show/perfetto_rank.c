/* SPDX-License-Identifier: BSD-3-Clause
 * The events of a rank: steps, communicators, calls, NCCL's work for them, and losses; see perfetto.h.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/show/perfetto_parts.h"
#include "interpose/tagc-report/show/window.h"

/* Tracks of a rank: its steps, its threads, its streams, and NCCL's kernels, as its profiler saw them. */
enum {
  LATE = TAGC_WINDOW_LATE,
  STREAMS = 256,
  THREADS = 4096,
  TRACK_STEPS = 1,
  TRACK_THREADS = 10,
  TRACK_STREAMS = TRACK_THREADS + THREADS,
  KERNELS = 32,
  TRACK_KERNELS = TRACK_STREAMS + STREAMS,
  TRACKS = TRACK_KERNELS + KERNELS
};

struct reader {
  struct tagc_perfetto *w;
  const struct tagc_sum_rank *rank;
  size_t at;
  uint32_t pid;
  uint64_t from_ns, to_ns;
  size_t *comms;
  uint32_t comm_count;
  uint64_t *k;                  /* collectives so far, by the communicator's place */
  struct tagc_trace_call *late; /* by number: calls whose times may come; times whose calls may come */
  struct tagc_trace_times *early;
  bool named[TRACKS];
  bool collective[256]; /* by function, as the summary counts them */
  size_t behind;        /* calls so far behind the range */
  uint64_t stream[STREAMS], busy[STREAMS];
  uint64_t kernels_busy[KERNELS];
  size_t streams;
  uint64_t state_cycle; /* the cycle of the collected losses */
  uint32_t state_lock;
  double residual, error;
};

/* -- tracks ---------------------------------------------------------------------------------------------------------
 */

static int64_t time_of(const struct tagc_perfetto *w, const struct tagc_sum_rank *rank, uint64_t ns) {
  return (int64_t)((uint64_t)rank->clock_ns + ns - (uint64_t)w->base_ns);
}

static void put_at(const struct reader *r, uint64_t ns) {
  tagc_perfetto_put_us(r->w, "ts", time_of(r->w, r->rank, ns));
}

static void open_args(const struct reader *r) { tagc_json_open(&r->w->json, "args", '{'); }

/* Ends an event that has arguments. */
static void close_args(const struct reader *r) {
  tagc_json_close(&r->w->json, '}');
  tagc_json_close(&r->w->json, '}');
}

/* Begins an event with a duration, and leaves it open. */
static void put_slice(const struct reader *r, uint32_t track, const char *name, const char *kind, uint64_t began,
                      uint64_t ns) {
  tagc_perfetto_begin(r->w, "X", r->pid, track, name);
  tagc_json_text(&r->w->json, "cat", kind);
  put_at(r, began);
  tagc_perfetto_put_us(r->w, "dur", (int64_t)ns);
}

/* Writes the name and the place of a track, or of the process. */
static void put_label(const struct reader *r, const char *of, uint32_t track, const char *name, int64_t place) {
  char kind[32];
  snprintf(kind, sizeof kind, "%s_name", of);
  tagc_perfetto_begin(r->w, "M", r->pid, track, kind);
  open_args(r);
  tagc_json_text(&r->w->json, "name", name);
  close_args(r);
  snprintf(kind, sizeof kind, "%s_sort_index", of);
  tagc_perfetto_begin(r->w, "M", r->pid, track, kind);
  open_args(r);
  tagc_json_number(&r->w->json, "sort_index", place);
  close_args(r);
}

/* Names a track before its first event. */
static void name_track(struct reader *r, uint32_t track, const char *name) {
  if (r->named[track])
    return;
  r->named[track] = true;
  put_label(r, "thread", track, name, track);
}

static void name_process(struct reader *r) {
  char name[400];
  snprintf(name, sizeof name, "rank %d on %s: %s, process %" PRId32, r->rank->number, r->rank->host, r->rank->program,
           r->rank->pid);
  put_label(r, "process", 0, name, r->rank->number);
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

static size_t comm_of(const struct reader *r, uint32_t id) { return id < r->comm_count ? r->comms[id] : SIZE_MAX; }

/* The number in the log, or without one the place in the summary. */
static size_t comm_number(const struct reader *r, size_t comm) {
  const uint32_t number = r->w->summary->comms[comm].number;
  return number == UINT32_MAX ? comm : number;
}

/* True for calls that every rank of the communicator makes. */
static bool is_collective(const struct tagc_summary *summary, uint16_t function) {
  static const char *const names[] = {"ncclReduceScatter", "ncclAllGather", "ncclAllReduce",
                                      "ncclBroadcast",     "ncclBcast",     "ncclReduce",
                                      "ncclAlltoAll",      "ncclGather",    "ncclScatter"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (tagc_sum_is(summary, TAGC_TRACE_FUNCTIONS, function, names[i]))
      return true;
  return false;
}

static uint32_t thread_track(const struct tagc_trace_call *call) { return TRACK_THREADS + call->thread % THREADS; }

/* "ReduceScatter block.3" */
static void call_name(const struct reader *r, const struct tagc_trace_call *call, char name[256]) {
  const struct tagc_sum_slot *slot = tagc_call_slot(r->w->summary, comm_of(r, call->record.comm), call);
  snprintf(name, 256, "%s%s%s", tagc_sum_function(r->w->summary, call->function), slot && *slot->name ? " " : "",
           slot ? slot->name : "");
}

/* `slot` NULL: none. */
static void put_call_names(struct reader *r, const struct tagc_trace_call *call, const struct tagc_sum_slot *slot) {
  struct tagc_json *j = &r->w->json;
  const struct tagc_summary *summary = r->w->summary;
  if (call->count) {
    tagc_json_text(j, "type", tagc_sum_name(summary, TAGC_TRACE_TYPES, call->type));
    tagc_json_text(j, "op", tagc_sum_name(summary, TAGC_TRACE_OPS, call->op));
  }
  tagc_json_text(j, "action", tagc_sum_name(summary, TAGC_TRACE_ACTIONS, call->action));
  tagc_json_text(j, "reason", tagc_sum_name(summary, TAGC_TRACE_REASONS, call->reason));
  if (slot) {
    tagc_json_text(j, "layer", slot->name);
    tagc_json_text(j, "codec", tagc_call_codec(slot, call));
  }
}

static void put_call_bytes(struct tagc_json *j, const struct tagc_trace_call *call) {
  if (call->raw_bytes) {
    tagc_json_count(j, "bytes", call->raw_bytes);
    tagc_json_count(j, "count", call->count);
    tagc_json_count(j, "sent inside the host", call->inside);
    tagc_json_count(j, "sent to other hosts", call->between);
  }
  if (call->inside != call->plain_inside || call->between != call->plain_between)
    tagc_json_count(j, "sent if plain", call->plain_inside + call->plain_between);
}

static void put_call_args(struct reader *r, const struct tagc_trace_call *call, size_t comm, uint64_t k) {
  struct tagc_json *j = &r->w->json;
  char text[48];
  open_args(r);
  tagc_json_count(j, "call", call->number);
  if (comm != SIZE_MAX)
    tagc_json_count(j, "communicator", comm_number(r, comm));
  snprintf(text, sizeof text, "%zu.%" PRIu64, comm, k);
  if (k)
    tagc_json_text(j, "collective", text);
  put_call_bytes(j, call);
  put_call_names(r, call, tagc_call_slot(r->w->summary, comm, call));
  if (call->slot >= 0) {
    tagc_json_number(j, "slot", call->slot);
    tagc_json_count(j, "cycle", call->cycle);
  }
  if (call->allgather) {
    tagc_json_count(j, "allgather", call->allgather);
    tagc_json_count(j, "cycle", call->cycle);
  }
  if (call->peer >= 0)
    tagc_json_number(j, "peer", call->peer);
  if (call->group)
    tagc_json_count(j, "group", call->group);
  snprintf(text, sizeof text, "0x%" PRIx64, call->stream);
  if (call->stream)
    tagc_json_text(j, "stream", text);
  tagc_json_number(j, "result", call->result);
  tagc_json_close(j, '}');
}

static void keep_arrow(const struct reader *r, const struct tagc_trace_call *call, size_t comm, uint64_t k) {
  struct tagc_perfetto *w = r->w;
  w->full |= w->arrow_count == TAGC_PERFETTO_ARROWS;
  if (!w->full)
    w->arrows[w->arrow_count++] =
      (struct tagc_perfetto_arrow){k, time_of(w, r->rank, call->began_ns), (uint32_t)comm, r->pid, thread_track(call)};
}

static void put_call_times(struct reader *r, const struct tagc_trace_times *times, const struct tagc_trace_call *call);

static void take_call(struct reader *r, const struct tagc_trace_call *call) {
  char name[256];
  size_t comm = comm_of(r, call->record.comm);
  bool counted = r->w->linked && comm != SIZE_MAX && r->collective[call->function];
  uint64_t k = counted ? ++r->k[comm] : 0;
  r->behind += call->began_ns >= r->to_ns;
  if (call->began_ns < r->from_ns || call->began_ns >= r->to_ns)
    return;
  snprintf(name, sizeof name, "calls of thread %" PRIu32, call->thread);
  name_track(r, thread_track(call), name);
  call_name(r, call, name);
  put_slice(r, thread_track(call), name, "call", call->began_ns, call->host_ns);
  put_call_args(r, call, comm, k);
  tagc_json_close(&r->w->json, '}');
  if (k)
    keep_arrow(r, call, comm, k);
  const struct tagc_trace_times *times = &r->early[call->number % LATE];
  if (times->call == call->number)
    put_call_times(r, times, call);
  else
    r->late[call->number % LATE] = *call;
}

/* -- times --------------------------------------------------------------------------------------------------------- */

static void put_span(struct reader *r, uint32_t track, const char *name, uint64_t began, uint64_t ns) {
  put_slice(r, track, name, "wire", began, ns);
  tagc_json_close(&r->w->json, '}');
}

/* The hidden part of encode and decode is one event in the exchange: viewers cannot show two that overlap. */
static void put_stage_spans(struct reader *r, uint32_t track, const struct tagc_trace_times *times, uint64_t began) {
  const uint64_t hidden = tagc_times_hidden(times),
                 early = tagc_encode_hidden(times->encode_ns, times->decode_ns, hidden);
  const uint64_t stages[] = {times->sum_ns, times->encode_ns - early, times->exchange_ns,
                             times->decode_ns - (hidden - early)};
  static const char *const names[] = {"sum inside the host", "encode", "exchange", "decode"};
  for (int i = 0; i < 4; i++) {
    if (stages[i])
      put_span(r, track, names[i], began, stages[i]);
    if (i == 2 && hidden)
      put_span(r, track, "encode and decode, hidden", began, hidden < stages[i] ? hidden : stages[i]);
    began += stages[i];
  }
}

/* The place of the stream among the rank's. */
static size_t place_of(struct reader *r, uint64_t stream) {
  for (size_t i = 0; i < r->streams; i++)
    if (r->stream[i] == stream)
      return i;
  if (r->streams == STREAMS)
    return STREAMS - 1;
  r->stream[r->streams] = stream;
  return r->streams++;
}

static void put_call_times(struct reader *r, const struct tagc_trace_times *times, const struct tagc_trace_call *call) {
  uint64_t sum = tagc_times_sum(times);
  if (!sum)
    return;
  if (tagc_times_under(times, call)) {
    put_stage_spans(r, thread_track(call), times, call->began_ns);
    return;
  }
  char name[256];
  size_t at = place_of(r, call->stream);
  uint32_t track = TRACK_STREAMS + (uint32_t)at;
  uint64_t began = call->began_ns > r->busy[at] ? call->began_ns : r->busy[at];
  r->busy[at] = began + sum;
  snprintf(name, sizeof name, "wire, stream %zu", at + 1);
  name_track(r, track, name);
  call_name(r, call, name);
  put_span(r, track, name, began, sum);
  if (times->sum_ns || times->encode_ns || times->decode_ns)
    put_stage_spans(r, track, times, began);
}

static void take_times(struct reader *r, const struct tagc_trace_times *times) {
  const struct tagc_trace_call *call = &r->late[times->call % LATE];
  if (times->call && call->number == times->call)
    put_call_times(r, times, call);
  else
    r->early[times->call % LATE] = *times;
}

/* -- kernels ------------------------------------------------------------------------------------------------------- */

/* Kernels that overlap go to different tracks. */
static size_t kernel_track(struct reader *r, const struct tagc_trace_profile *profile) {
  size_t at = 0;
  while (at + 1 < KERNELS && r->kernels_busy[at] > profile->kernel_began_ns)
    at++;
  r->kernels_busy[at] = profile->kernel_began_ns + profile->kernel_ns;
  return at;
}

static void put_profile_args(const struct reader *r, const struct tagc_trace_profile *profile) {
  struct tagc_json *j = &r->w->json;
  const size_t comm = comm_of(r, profile->record.comm);
  open_args(r);
  if (profile->call)
    tagc_json_count(j, "call", profile->call);
  if (comm != SIZE_MAX)
    tagc_json_count(j, "communicator", comm_number(r, comm));
  tagc_json_count(j, "channels", profile->channels);
  tagc_json_text(j, "clock", profile->by_device ? "GPU" : "proxy thread");
  if (profile->sends || profile->receives) {
    tagc_json_count(j, "bytes sent", profile->sent_bytes);
    tagc_json_count(j, "bytes received", profile->received_bytes);
    tagc_json_real(j, "sending, us", (double)profile->sending_ns / 1e3);
    tagc_json_real(j, "sends wait for the kernel, us", (double)profile->send_gpu_ns / 1e3);
    tagc_json_real(j, "sends wait for the receiver, us", (double)profile->send_peer_ns / 1e3);
  }
  close_args(r);
}

static void take_profile(struct reader *r, const struct tagc_trace_profile *profile) {
  char name[64];
  if (!profile->kernel_ns || profile->kernel_ns > TAGC_NS_MOST || profile->kernel_began_ns < r->from_ns ||
      profile->kernel_began_ns >= r->to_ns)
    return;
  const size_t at = kernel_track(r, profile);
  const uint8_t code = tagc_sum_code(r->rank, TAGC_TRACE_FUNCTIONS, profile->function);
  snprintf(name, sizeof name, "NCCL's kernels%s%.0zu", at ? " " : "", at);
  name_track(r, TRACK_KERNELS + (uint32_t)at, name);
  put_slice(r, TRACK_KERNELS + (uint32_t)at,
            profile->function < 256 ? tagc_sum_function(r->w->summary, code) : "kernel", "kernel",
            profile->kernel_began_ns, profile->kernel_ns);
  put_profile_args(r, profile);
}

/* -- steps, losses, communicators ---------------------------------------------------------------------------------- */

static bool in_range(const struct reader *r, uint64_t ns) { return ns >= r->from_ns && ns < r->to_ns; }

static void begin_counter(const struct reader *r, const char *name, uint64_t at) {
  tagc_perfetto_begin(r->w, "C", r->pid, TRACK_STEPS, name);
  put_at(r, at);
  open_args(r);
}

static void put_step_args(const struct reader *r, const struct tagc_sum_step *step) {
  open_args(r);
  tagc_json_count(&r->w->json, "cycle", step->cycle);
  tagc_json_count(&r->w->json, "lock", step->lock);
  tagc_json_truth(&r->w->json, "whole", step->whole);
  tagc_json_count(&r->w->json, "calls", step->calls);
  close_args(r);
}

static void put_steps(struct reader *r) {
  static const char *const ab[] = {"", ", plain", ", compressed"};
  const struct tagc_sum_rank *rank = r->rank;
  for (size_t i = 0; i < rank->step_count; i++) {
    const struct tagc_sum_step *step = &rank->steps[i];
    if (!in_range(r, step->began_ns))
      continue;
    uint64_t ns = step->ns;
    if (i + 1 < rank->step_count && rank->steps[i + 1].began_ns >= step->began_ns &&
        rank->steps[i + 1].began_ns - step->began_ns < ns)
      ns = rank->steps[i + 1].began_ns - step->began_ns;
    const size_t number = tagc_step_number(r->w->summary, step->lock, step->cycle);
    char name[96], of_first[24] = "of this rank alone";
    if (number)
      snprintf(of_first, sizeof of_first, "%zu", number);
    snprintf(name, sizeof name, "step %s%s", of_first, step->side < TAGC_SUM_SIDES ? ab[step->side] : "");
    name_track(r, TRACK_STEPS, "steps");
    put_slice(r, TRACK_STEPS, name, "step", step->began_ns, ns);
    put_step_args(r, step);
    begin_counter(r, "bytes sent in a step", step->began_ns);
    tagc_json_count(&r->w->json, "inside the host", step->sent.inside);
    tagc_json_count(&r->w->json, "to other hosts", step->sent.between);
    close_args(r);
  }
}

static void end_states(struct reader *r) {
  const struct tagc_sum_step *step = r->state_cycle ? tagc_step_find(r->rank, r->state_lock, r->state_cycle) : NULL;
  if (step && in_range(r, step->began_ns)) {
    begin_counter(r, "residual norm", step->began_ns);
    tagc_json_real(&r->w->json, "all layers", sqrt(r->residual));
    close_args(r);
    begin_counter(r, "relative error", step->began_ns);
    tagc_json_real(&r->w->json, "largest of a layer", r->error);
    close_args(r);
  }
  r->residual = r->error = 0;
}

/* Samples of one cycle are adjacent. */
static void read_state(struct reader *r, const struct tagc_trace_state *state) {
  if (comm_of(r, state->record.comm) != 0)
    return;
  if (state->lock != r->state_lock || state->cycle != r->state_cycle) {
    end_states(r);
    r->state_lock = state->lock;
    r->state_cycle = state->cycle;
  }
  if (isfinite(state->residual_norm) && isfinite(r->residual + state->residual_norm * state->residual_norm))
    r->residual += state->residual_norm * state->residual_norm;
  if (isfinite(state->error))
    r->error = fmax(r->error, state->error);
}

static void put_instant(struct reader *r, const struct tagc_sum_comm *comm, size_t at, uint64_t ns, uint16_t function,
                        const char *what) {
  char name[160], identity[24];
  if (!ns || !in_range(r, ns))
    return;
  snprintf(name, sizeof name, "communicator %zu %s (%s)", comm_number(r, at), what,
           tagc_sum_function(r->w->summary, function));
  snprintf(identity, sizeof identity, "0x%" PRIx64, comm->identity);
  tagc_perfetto_begin(r->w, "i", r->pid, TRACK_STEPS, name);
  tagc_json_text(&r->w->json, "s", "p");
  tagc_json_text(&r->w->json, "cat", "communicator");
  put_at(r, ns);
  open_args(r);
  tagc_json_number(&r->w->json, "ranks", comm->nranks);
  tagc_json_text(&r->w->json, "identity", identity);
  close_args(r);
}

static void put_comms(struct reader *r) {
  for (size_t i = 0; i < r->w->summary->comm_count; i++) {
    const struct tagc_sum_comm *comm = &r->w->summary->comms[i];
    for (size_t j = 0; j < comm->member_count; j++) {
      const struct tagc_sum_member *member = &comm->members[j];
      if (member->rank != r->at)
        continue;
      put_instant(r, comm, i, member->born_ns, member->born_by, "is born");
      put_instant(r, comm, i, member->ended_ns, member->ended_by, "ends");
    }
  }
}

/* -- a rank -------------------------------------------------------------------------------------------------------- */

/* Reads the trace of a rank, if still readable, as long as records in the range may come. */
static void write_calls(struct reader *r) {
  char why[TAGC_TRACE_WHY];
  const struct tagc_trace_record *record;
  struct tagc_trace_file *file = tagc_trace_open(r->rank->path, why);
  while (file && r->behind < LATE && (record = tagc_trace_next(file)))
    switch (record->kind) {
    case TAGC_TRACE_CALL: {
      const struct tagc_trace_call call = tagc_window_call(r->rank, (const struct tagc_trace_call *)record);
      take_call(r, &call);
      break;
    }
    case TAGC_TRACE_TIMES: take_times(r, (const struct tagc_trace_times *)record); break;
    case TAGC_TRACE_PROFILE: take_profile(r, (const struct tagc_trace_profile *)record); break;
    case TAGC_TRACE_STATE: read_state(r, (const struct tagc_trace_state *)record); break;
    default:;
    }
  end_states(r);
  if (file)
    tagc_trace_close(file);
}

bool tagc_perfetto_rank(struct tagc_perfetto *w, size_t at, uint64_t from_ns, uint64_t to_ns) {
  struct reader *r = calloc(1, sizeof *r);
  if (!r)
    return false;
  *r = (struct reader){
    .w = w, .rank = &w->summary->ranks[at], .at = at, .pid = (uint32_t)at + 1, .from_ns = from_ns, .to_ns = to_ns};
  r->comms = tagc_rank_comms(w->summary, at, &r->comm_count);
  r->k = calloc(w->summary->comm_count + 1, sizeof *r->k);
  r->late = calloc(LATE, sizeof *r->late);
  r->early = calloc(LATE, sizeof *r->early);
  for (uint16_t function = 0; function < 256; function++)
    r->collective[function] = is_collective(r->w->summary, function);
  bool fits = r->comms && r->k && r->late && r->early;
  if (fits) {
    name_process(r);
    put_steps(r);
    put_comms(r);
    write_calls(r);
  }
  free(r->comms);
  free(r->k);
  free(r->late);
  free(r->early);
  free(r);
  return fits;
}
