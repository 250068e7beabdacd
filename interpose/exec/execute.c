/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/execute.h"

#include <stdlib.h>
#include <string.h>

#include "env/clock.h"
#include "env/log.h"
#include "interpose/calls/calls.h"
#include "interpose/comm/slot.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/order.h"
#include "interpose/exec/timing.h"
#include "interpose/exec/work.h"
#include "interpose/nccl/process.h"

/* Calls of different communicators, and these communicators. */
struct batch {
  struct tagc_work *work;
  struct tagc_comm **comms;
  size_t count;
};

/* ---- what all works of a batch do together ----------------------------------------------------------------------- */

enum { PAYLOADS = TAGC_EXCHANGES }; /* stands for the exchange of a chunk */

/* The current step: its phase, and its chunk or exchange. */
struct step {
  struct batch *batch;
  int phase, exchange;
  unsigned chunk;
};

static const struct tagc_exchange *exchange_of(const struct step *step, const struct tagc_work *w) {
  return &w->phases[step->phase]->exchanges[step->exchange];
}

/* Does the work have the phase, and the chunk? */
static bool has_step(const struct step *step, const struct tagc_work *w) {
  return w->phases[step->phase] && step->chunk < w->chunks[step->phase];
}

static bool takes_part(const struct step *step, const struct tagc_work *w) {
  if (!has_step(step, w) || step->exchange == PAYLOADS)
    return has_step(step, w);
  const struct tagc_exchange *exchange = exchange_of(step, w);
  return exchange->wanted && exchange->wanted(w);
}

static ncclResult_t enqueue_work(const struct tagc_nccl_group *real, void *step_, size_t i) {
  const struct step *step = step_;
  struct tagc_work *w = &step->batch->work[i];
  if (!takes_part(step, w))
    return ncclSuccess;
  if (step->exchange == PAYLOADS)
    return w->phases[step->phase]->enqueue_payloads(real, w, step->chunk);
  return exchange_of(step, w)->enqueue(real, w);
}

/* Runs one real group over the works that take part, if any, and adds up its time. */
static ncclResult_t run_group(const struct tagc_nccl_group *real, struct step *step, ncclResult_t status) {
  struct batch *batch = step->batch;
  bool any = false;
  for (size_t i = 0; i < batch->count; i++)
    any |= takes_part(step, &batch->work[i]);
  if (!any || status != ncclSuccess)
    return status;
  const uint64_t began = tagc_clock_ns();
  status = tagc_nccl_group_run(real, batch->comms, batch->count, enqueue_work, step);
  for (size_t i = 0; i < batch->count; i++)
    *(step->exchange == TAGC_EXCHANGE_SUMS ? &batch->work[i].took.sum_ns : &batch->work[i].took.exchange_ns) +=
      tagc_clock_ns() - began;
  return status;
}

/* Begins nothing more once a communicator is aborted: the program may free its buffers. */
static ncclResult_t run_each(struct step *step, ncclResult_t (*function)(const struct step *step, struct tagc_work *w),
                             ncclResult_t status) {
  struct batch *batch = step->batch;
  if (status != ncclSuccess)
    return status;
  bool alive = tagc_comms_enter_driver(batch->comms, batch->count);
  for (size_t i = 0; i < batch->count && alive && status == ncclSuccess; i++)
    if (has_step(step, &batch->work[i]))
      status = function(step, &batch->work[i]);
  alive &= tagc_comms_leave_driver(batch->comms, batch->count);
  return status == ncclSuccess && !alive ? ncclInternalError : status;
}

/* ---- the steps of one -------------------------------------------------------------------------------------------- */

static void *side_stream_of(const struct tagc_work *w) { return atomic_load(&w->call->comm->memory.side_stream); }

static bool is_allgather(const struct tagc_work *w) { return w->phases[0] == &tagc_phase_parameters; }

static bool is_of_broadcast(const struct tagc_work *w) { return w->phases[0] == &tagc_phase_broadcast; }

static struct tagc_ledger_times *times_of_kind(struct tagc_ledger *ledger, const struct tagc_work *w) {
  return is_allgather(w) ? &ledger->allgather_times : is_of_broadcast(w) ? &ledger->broadcasts->times : &ledger->times;
}

/* The part of the side stream's work that the caller did not wait for. It is limited to this call's work, because side
 * stream and caller have separate clocks. */
static uint64_t hidden_ns(const struct tagc_work *w) {
  struct tagc_side_times now;
  if (!w->event || !w->device->side_stream_times(w->device, side_stream_of(w), &now))
    return 0;
  const uint64_t worked = now.worked_ns - w->side_stream.worked_ns, waited = now.waited_ns - w->side_stream.waited_ns;
  const uint64_t most = w->took.encode_ns + w->took.decode_ns, hidden = worked > waited ? worked - waited : 0;
  return hidden < most ? hidden : most;
}

/* If the host does the work, enters its times into the accounts and the trace. A device reports its own later. */
static void account_times(struct tagc_work *w) {
  struct tagc_ledger *ledger = w->call->comm->ledger;
  const struct tagc_trace_times *took = &w->took;
  struct tagc_ledger_times *sum = times_of_kind(ledger, w);
  if (!w->device->host_reads)
    return;
  w->took.hidden_ns = hidden_ns(w);
  if (w->call->decision.action == TAGC_FLUSH) {
    sum->flushes++;
    sum->flush_ms += (double)(took->encode_ns + took->sum_ns + took->exchange_ns + took->decode_ns) * 1e-6;
  } else {
    sum->encode_ms += (double)took->encode_ns * 1e-6;
    sum->exchange_ms += (double)(took->sum_ns + took->exchange_ns) * 1e-6;
    sum->decode_ms += (double)took->decode_ns * 1e-6;
    sum->hidden_ms += (double)took->hidden_ns * 1e-6;
  }
  w->took.record = (struct tagc_trace_record){TAGC_TRACE_TIMES, sizeof w->took, w->call->trace.comm};
  w->took.call = w->call->trace.number;
  if (w->took.call)
    tagc_trace_add(&w->took.record);
}

/* At the vote all ranks could compress the slot's calls. A rank that no longer can must not act alone: the others send
 * payloads and wait for some. NCCL, too, wants all calls of a communicator in one context. */
static ncclResult_t fail_unable(const struct tagc_work *w, enum tagc_reason reason) {
  struct tagc_ledger *ledger = w->call->comm->ledger;
  const struct tagc_ledger_row *row =
    is_allgather(w) ? tagc_ledger_allgather_row(ledger, w->call->allgather) : tagc_ledger_row(ledger, w->call->slot);
  tagc_log(TAGC_LOG_ERROR, "interpose",
           "communicator %llu, %s%s: %s, which is new since the ranks voted to compress it: the call fails",
           (unsigned long long)ledger->number, is_allgather(w) ? "all-gather of " : "", row->name,
           tagc_reason_words(reason));
  return reason == TAGC_REASON_memory   ? ncclInvalidArgument
         : reason == TAGC_REASON_stream ? ncclUnhandledCudaError
                                        : ncclInvalidUsage;
}

/* Enters the side stream's work for the call into its tally. */
static void tally_side_stream(const struct tagc_work *w) {
  unsigned tasks = 0;
  for (int phase = 0; phase < TAGC_PHASES && w->phases[phase]; phase++)
    tasks += w->chunks[phase] > 1 ? 2 * w->chunks[phase] - 1 : 0; /* all but the first encode */
  if (side_stream_of(w) && w->tally && tasks)
    w->device->tally_side_stream(w->device, w->tally, side_stream_of(w), tasks);
}

/* Earlier work on our memory may be on another stream. */
static ncclResult_t begin_call(struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  const enum tagc_reason reason = is_of_broadcast(w) ? tagc_broadcast_reject_reason(w) : tagc_slot_reject_reason(call);
  if (reason != TAGC_REASON_NONE && !is_of_broadcast(w))
    return fail_unable(w, reason);
  w->reject_reason = reason;
  if (reason != TAGC_REASON_NONE)
    return ncclSuccess; /* only copies follow, which the host waits for */
  w->fenced = w->device->fence_wait(w->device, call->comm->sync.fence, call->stream) &&
              tagc_order_before_call(call->comm, call->stream);
  return tagc_work_done(w->fenced);
}

static ncclResult_t run_begin(const struct step *step, struct tagc_work *w) {
  const struct tagc_phase *phase = w->phases[step->phase];
  ncclResult_t status = step->phase == 0 ? begin_call(w) : ncclSuccess;
  if (phase->begin && status == ncclSuccess)
    status = phase->begin(w);
  if (step->phase == 0 && status == ncclSuccess)
    tally_side_stream(w);
  return status;
}

static ncclResult_t run_then(const struct step *step, struct tagc_work *w) {
  const struct tagc_exchange *exchange = exchange_of(step, w);
  return exchange->then ? exchange->then(w) : ncclSuccess;
}

/* ---- the side stream --------------------------------------------------------------------------------------------- */

/* Runs on the side stream. The caller waits for the event before it uses the results. */
static void run_task(void *task_, void *stream) {
  struct tagc_side_task *task = task_;
  const uint64_t began = tagc_clock_ns();
  task->status = task->function(task->work, task->chunk, stream);
  task->took_ns = tagc_clock_ns() - began;
}

/* The error if the side stream did not do its work. */
static ncclResult_t side_stream_error(const struct tagc_work *w) {
  return tagc_comm_is_aborted(w->call->comm) ? ncclInternalError : ncclUnhandledCudaError;
}

/* Submits a task to the side stream if it runs `beside` the call. Otherwise runs it now, as always in the child of a
 * fork, which has no side stream. */
static ncclResult_t submit_task(struct tagc_side_task *task, bool beside) {
  struct tagc_work *w = task->work;
  void *side_stream = side_stream_of(w);
  if (side_stream && beside)
    task->event = w->device->side_stream_submit(w->device, side_stream, task->kind, run_task, task);
  if (task->event) {
    w->event = task->event;
    return ncclSuccess;
  }
  if (tagc_comm_is_aborted(w->call->comm))
    return ncclInternalError;
  run_task(task, w->call->stream);
  return task->status;
}

/* Orders the side stream's next tasks behind the work on the caller's stream. */
static bool put_side_stream_behind(const struct step *step, const struct tagc_work *w) {
  return !side_stream_of(w) || w->chunks[step->phase] <= 1 ||
         w->device->side_stream_after(w->device, side_stream_of(w), w->call->stream);
}

static ncclResult_t await_task(const struct tagc_side_task *task) {
  const struct tagc_work *w = task->work;
  if (task->event && !w->device->side_stream_wait(w->device, side_stream_of(w), task->event, w->call->stream))
    return side_stream_error(w);
  return task->status;
}

/* Marks a device's stream. With several chunks the stream shows the encoding of the first one, and of the others only
 * the waits of the exchanges. */
static ncclResult_t mark_compressed(const struct tagc_work *w, bool is_wanted, enum tagc_mark mark) {
  return tagc_work_done(!is_wanted || !tagc_work_compresses(w) || tagc_work_mark(w, mark));
}

static ncclResult_t run_encode(const struct step *step, struct tagc_work *w) {
  const struct tagc_phase *phase = w->phases[step->phase];
  struct tagc_side_task *task = &w->encode[step->chunk];
  if (step->chunk == 1 && !put_side_stream_behind(step, w))
    return ncclUnhandledCudaError;
  *task = (struct tagc_side_task){.work = w, .function = phase->encode, .chunk = step->chunk, .kind = TAGC_SIDE_ENCODE};
  return submit_task(task, step->chunk > 0);
}

static ncclResult_t await_encode(const struct step *step, struct tagc_work *w) {
  const struct tagc_phase *phase = w->phases[step->phase];
  const ncclResult_t status = await_task(&w->encode[step->chunk]);
  return status == ncclSuccess ? mark_compressed(w, step->chunk == 0, phase->encoded) : status;
}

static ncclResult_t run_decode(const struct step *step, struct tagc_work *w) {
  const struct tagc_phase *phase = w->phases[step->phase];
  struct tagc_side_task *task = &w->decode[step->chunk];
  const unsigned chunks = w->chunks[step->phase];
  const ncclResult_t status = mark_compressed(w, step->chunk + 1 == chunks, phase->exchanged);
  if (status != ncclSuccess || !put_side_stream_behind(step, w))
    return status != ncclSuccess ? status : ncclUnhandledCudaError;
  *task = (struct tagc_side_task){.work = w, .function = phase->decode, .chunk = step->chunk, .kind = TAGC_SIDE_DECODE};
  return submit_task(task, step->chunk + 1 < chunks || (chunks > 1 && !w->device->host_reads));
}

static ncclResult_t await_decodes(const struct step *step, struct tagc_work *w) {
  ncclResult_t status = ncclSuccess;
  for (unsigned chunk = 0; chunk < w->chunks[step->phase] && status == ncclSuccess; chunk++) {
    status = await_task(&w->decode[chunk]);
    w->took.encode_ns += w->encode[chunk].took_ns;
    w->took.decode_ns += w->decode[chunk].took_ns;
  }
  return status;
}

/* After a call that failed half way, the side stream may still use the program's buffers. */
static void await_side_stream(const struct tagc_work *w) {
  if (w->event)
    (void)w->device->side_stream_wait(w->device, side_stream_of(w), w->event, w->call->stream);
}

static ncclResult_t run_after_decode(const struct step *step, struct tagc_work *w) {
  return w->phases[step->phase]->after_decode(w);
}

/* ---- the order of all that --------------------------------------------------------------------------------------- */

static void lay_out_batch(struct batch *batch) {
  for (size_t i = 0; i < batch->count; i++) {
    struct tagc_work *w = &batch->work[i];
    if (!side_stream_of(w) || !w->device->side_stream_times(w->device, side_stream_of(w), &w->side_stream))
      w->side_stream = (struct tagc_side_times){0};
    for (int phase = 0; phase < TAGC_PHASES && w->phases[phase]; phase++) {
      w->chunks[phase] = 1;
      w->phases[phase]->lay_out(w);
    }
  }
}

/* In place: a work is too large to be on the caller's stack twice. */
static void set_up_work(struct tagc_work *w, struct tagc_call *call) {
  memset(w, 0, sizeof *w);
  w->call = call;
  w->device = call->comm->device;
  w->phases[0] = call->entry == TAGC_ENTRY_ncclAllGather ? &tagc_phase_parameters
                 : tagc_call_is_broadcast(call)          ? &tagc_phase_broadcast
                                                         : &tagc_phase_reduce_scatter;
  w->phases[1] = call->entry == TAGC_ENTRY_ncclAllReduce ? &tagc_phase_sums : NULL;
}

/* 0: no work has this phase. */
static unsigned most_chunks(const struct batch *batch, int phase) {
  unsigned most = 0;
  for (size_t i = 0; i < batch->count; i++)
    if (batch->work[i].phases[phase] && batch->work[i].chunks[phase] > most)
      most = batch->work[i].chunks[phase];
  return most;
}

static ncclResult_t run_exchange(const struct tagc_nccl_group *real, struct batch *batch, int phase, int exchange,
                                 ncclResult_t status) {
  struct step step = {batch, phase, exchange, 0};
  status = run_group(real, &step, status);
  return run_each(&step, run_then, status);
}

static ncclResult_t run_chunks(const struct tagc_nccl_group *real, struct batch *batch, int phase,
                               ncclResult_t status) {
  const unsigned chunks = most_chunks(batch, phase);
  struct step first = {batch, phase, PAYLOADS, 0};
  status = run_each(&first, run_encode, status);
  for (unsigned chunk = 0; chunk < chunks; chunk++) {
    struct step step = {batch, phase, PAYLOADS, chunk}, next = {batch, phase, PAYLOADS, chunk + 1};
    if (chunk + 1 < chunks)
      status = run_each(&next, run_encode, status);
    status = run_each(&step, await_encode, status);
    status = run_group(real, &step, status);
    status = run_each(&step, run_decode, status);
  }
  return run_each(&first, await_decodes, status);
}

static ncclResult_t run_phase(const struct tagc_nccl_group *real, struct batch *batch, int phase, ncclResult_t status) {
  struct step step = {batch, phase, PAYLOADS, 0};
  if (!most_chunks(batch, phase))
    return status;
  status = run_each(&step, run_begin, status);
  status = run_exchange(real, batch, phase, TAGC_EXCHANGE_SUMS, status);
  status = run_exchange(real, batch, phase, TAGC_EXCHANGE_EXPONENTS, status);
  status = run_chunks(real, batch, phase, status);
  status = run_each(&step, run_after_decode, status);
  return run_exchange(real, batch, phase, TAGC_EXCHANGE_LAST, status);
}

/* Sets the fences behind the last work on our memory, even of failed calls. An aborted one's stream may be gone. */
static ncclResult_t set_fences(struct batch *batch, ncclResult_t status) {
  tagc_comms_enter_driver(batch->comms, batch->count);
  for (size_t i = 0; i < batch->count; i++) {
    const struct tagc_work *w = &batch->work[i];
    w->call->comm->sync.unfenced = !tagc_comm_has_streams(w->call->comm);
    if (w->call->comm->sync.unfenced || !w->fenced)
      continue; /* a call that did not begin has put nothing on its stream */
    await_side_stream(w);
    const bool set = w->device->fence_set(w->device, w->call->comm->sync.fence, w->call->stream);
    if (set)
      tagc_order_after_call(w->call->comm);
    else if (status == ncclSuccess)
      status = ncclUnhandledCudaError;
  }
  bool alive = tagc_comms_leave_driver(batch->comms, batch->count);
  return status == ncclSuccess && !alive ? ncclInternalError : status;
}

static ncclResult_t run_batch(const struct tagc_nccl_group *real, struct batch *batch) {
  const uint64_t began = tagc_clock_ns();
  bool alive = tagc_comms_enter_driver(batch->comms, batch->count); /* a new stage asks a device for its sizes */
  lay_out_batch(batch);
  alive &= tagc_comms_leave_driver(batch->comms, batch->count);
  ncclResult_t status = alive ? ncclSuccess : ncclInternalError;
  for (int phase = 0; phase < TAGC_PHASES; phase++)
    status = run_phase(real, batch, phase, status);
  status = set_fences(batch, status);
  for (size_t i = 0; i < batch->count; i++) {
    struct tagc_work *w = &batch->work[i];
    account_times(w);
    if (status == ncclSuccess && !is_allgather(w))
      tagc_times_spent(w->call, began); /* hidden time does not count */
    (status == ncclSuccess ? w->phases[0]->commit : w->phases[0]->abort)(w);
  }
  return status;
}

ncclResult_t tagc_execute(const struct tagc_nccl_group *real, struct tagc_call *const *calls, size_t count) {
  struct tagc_work one;
  struct tagc_comm *its_comm = NULL;
  struct batch batch = {&one, &its_comm, count};
  if (count > 1) {
    batch.work = malloc(count * sizeof *batch.work);
    batch.comms = malloc(count * sizeof(*batch.comms));
  }
  ncclResult_t status;
  if (!batch.work || !batch.comms) {
    status = tagc_no_memory("the calls of a group");
  } else {
    for (size_t i = 0; i < count; i++) {
      set_up_work(&batch.work[i], calls[i]);
      batch.comms[i] = calls[i]->comm;
    }
    status = ncclInternalError;
    if (tagc_comms_enter(batch.comms, count)) {
      status = run_batch(real, &batch);
      tagc_comms_leave(batch.comms, count);
    }
  }
  if (count > 1) {
    free(batch.work);
    free(batch.comms);
  }
  return status;
}

/* All-gathers may have to be repeated plainly; broadcasts begin with statuses; of all-reduces the ranks may tell the
 * bytes of nonzero sums; exact sums in two levels may lack some. */
bool tagc_execute_waits(const struct tagc_call *call) {
  if (call->entry == TAGC_ENTRY_ncclAllGather || tagc_call_is_broadcast(call))
    return true;
  const struct tagc_slot *slot = call->slot < 0 ? NULL : &call->comm->slots[call->slot];
  return slot && (slot->allgather_phase.support.payload_bytes ||
                  (call->comm->hierarchy.scope.two_levels && slot->packed.local && slot->layout.exponent_bytes));
}
