/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/execute.h"

#include <stdlib.h>
#include <string.h>

#include "env/clock.h"
#include "env/log.h"
#include "interpose/comm/slot.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/op.h"
#include "interpose/exec/timing.h"
#include "interpose/nccl/process.h"

/* Calls of different communicators, and these communicators. */
struct batch {
  struct tagc_work *work;
  struct tagc_comm **comms;
  size_t count;
};

/* ---- what all works of a batch do together ---------------------------------------------------------------------------- */

/* What is done now: of which part, and which piece or round. */
struct stage {
  struct batch *batch;
  int part;
  unsigned piece;
  const struct tagc_round *(*round)(const struct tagc_part *part);
};

static const struct tagc_round *before_0(const struct tagc_part *part) { return &part->before[0]; }
static const struct tagc_round *before_1(const struct tagc_part *part) { return &part->before[1]; }
static const struct tagc_round *after(const struct tagc_part *part) { return &part->after; }

static bool takes_part(const struct stage *stage, const struct tagc_work *w)
{
  const struct tagc_part *part = w->parts[stage->part];
  if (!part || !stage->round)
    return part && stage->piece < w->pieces[stage->part];
  const struct tagc_round *round = stage->round(part);
  return round->wanted && round->wanted(w);
}

static ncclResult_t enqueue(const struct tagc_exchange *real, void *stage_, size_t i)
{
  const struct stage *stage = stage_;
  struct tagc_work *w = &stage->batch->work[i];
  if (!takes_part(stage, w))
    return ncclSuccess;
  const struct tagc_part *part = w->parts[stage->part];
  return stage->round ? stage->round(part)->enqueue(real, w) : part->enqueue(real, w, stage->piece);
}

/* Runs one real group over those of the batch that take part, if any does, and notes its time. */
static ncclResult_t exchange(const struct tagc_exchange *real, struct stage *stage, ncclResult_t status)
{
  struct batch *batch = stage->batch;
  bool any = false, sums = false;
  for (size_t i = 0; i < batch->count; i++)
    if (takes_part(stage, &batch->work[i])) {
      any = true;
      sums |= stage->round && stage->round(batch->work[i].parts[stage->part])->sums;
    }
  if (!any || status != ncclSuccess)
    return status;
  const uint64_t began = tagc_clock_ns();
  status = tagc_exchange_run(real, batch->comms, batch->count, enqueue, stage);
  for (size_t i = 0; i < batch->count; i++)
    *(sums ? &batch->work[i].took.sum_ns : &batch->work[i].took.exchange_ns) += tagc_clock_ns() - began;
  return status;
}

/* Nothing more is begun where one of the communicators has been aborted: the program may free its buffers. */
static ncclResult_t run_each(struct stage *stage, ncclResult_t (*step)(const struct stage *stage, struct tagc_work *w),
                             ncclResult_t status)
{
  struct batch *batch = stage->batch;
  if (status != ncclSuccess)
    return status;
  bool alive = tagc_comms_enter_driver(batch->comms, batch->count);
  for (size_t i = 0; i < batch->count && alive && status == ncclSuccess; i++)
    if (batch->work[i].parts[stage->part])
      status = step(stage, &batch->work[i]);
  alive &= tagc_comms_leave_driver(batch->comms, batch->count);
  return status == ncclSuccess && !alive ? ncclInternalError : status;
}

/* ---- the steps of one ------------------------------------------------------------------------------------------------- */

/* What of the lane's work the caller did not wait for: of what this call has given it, as lane and caller have clocks of their own. */
static uint64_t hidden_ns(const struct tagc_work *w)
{
  struct tagc_lane_times now;
  void *lane = atomic_load(&w->call->comm->lane);
  if (!w->ticket || !w->device->lane_times(w->device, lane, &now))
    return 0;
  const uint64_t worked = now.worked_ns - w->lane.worked_ns, waited = now.waited_ns - w->lane.waited_ns;
  const uint64_t most = w->took.encode_ns + w->took.decode_ns, hidden = worked > waited ? worked - waited : 0;
  return hidden < most ? hidden : most;
}

/* Where the host does the work its times go into the accounts, and into the trace. A device tells its own, later. */
static void tell_times(struct tagc_work *w)
{
  struct tagc_ledger *ledger = w->call->comm->ledger;
  const struct tagc_trace_times *took = &w->took;
  struct tagc_ledger_times *sum = w->parts[0] == &tagc_part_gather ? &ledger->gather_times : &ledger->times;
  if (!w->device->host_reads)
    return;
  w->took.hidden_ns = hidden_ns(w);
  sum->encode_ms += (double)took->encode_ns * 1e-6;
  sum->exchange_ms += (double)(took->sum_ns + took->exchange_ns) * 1e-6;
  sum->decode_ms += (double)took->decode_ns * 1e-6;
  sum->hidden_ms += (double)took->hidden_ns * 1e-6;
  w->took.record = (struct tagc_trace_record){TAGC_TRACE_TIMES, sizeof w->took, w->call->trace.comm};
  w->took.call = w->call->trace.number;
  if (w->took.call)
    tagc_trace_add(&w->took.record);
}

/* When the ranks voted, all of them could compress the calls of the slot. A rank that cannot any more has no way of its own: the others
 * send payloads and wait for some. */
static ncclResult_t refuse(const struct tagc_work *w, enum tagc_reason reason, ncclResult_t error)
{
  const struct tagc_call *call = w->call;
  const bool gathers = call->entry == TAGC_ENTRY_ncclAllGather;
  struct tagc_ledger *ledger = call->comm->ledger;
  const struct tagc_ledger_row *row = gathers ? tagc_ledger_gather_row(ledger, call->allgather) : tagc_ledger_row(ledger, call->slot);
  tagc_log(TAGC_LOG_ERROR, "interpose", "communicator %llu, %s%s: %s, which was not so when the ranks voted to compress it: the call "
           "fails", (unsigned long long)ledger->number, gathers ? "all-gather of " : "", row->name, tagc_reason_words(reason));
  return error;
}

/* What the lane of a device does for the call goes into the call's tally. */
static void time_lane(const struct tagc_work *w)
{
  void *lane = atomic_load(&w->call->comm->lane);
  void *tally = w->parts[0] == &tagc_part_gather ? w->gather.job.tally : w->reduce.job.tally;
  unsigned errands = 0;
  for (int part = 0; part < TAGC_WORK_PARTS && w->parts[part]; part++)
    errands += w->pieces[part] > 1 ? 2 * w->pieces[part] - 1 : 0;    /* all but the first encode */
  if (lane && tally && errands)
    w->device->tally_lane(w->device, tally, lane, errands);
}

/* Earlier work on our memory may be on another stream. */
static ncclResult_t begin(const struct stage *stage, struct tagc_work *w)
{
  const struct tagc_call *call = w->call;
  const struct tagc_part *part = w->parts[stage->part];
  const enum tagc_reason reason = tagc_slot_reject_reason(call);
  if (stage->part == 0 && reason != TAGC_REASON_compressed)
    return refuse(w, reason, reason == TAGC_REASON_memory ? ncclInvalidArgument : ncclInvalidUsage);
  const bool good = stage->part > 0 || (w->device->fence_wait(w->device, call->comm->fence, call->stream) &&
                                        tagc_levels_before_call(call->comm, call->stream));
  const ncclResult_t status = good && part->begin ? part->begin(w) : tagc_work_done(good);
  if (stage->part == 0 && status == ncclSuccess)
    time_lane(w);
  return status;
}

static ncclResult_t then(const struct stage *stage, struct tagc_work *w)
{
  const struct tagc_round *round = stage->round(w->parts[stage->part]);
  return round->then ? round->then(w) : ncclSuccess;
}

/* ---- the lane --------------------------------------------------------------------------------------------------------- */

/* On the lane. Nothing that it does is the caller's before the ticket has been waited for. */
static void run_errand(void *errand_, void *stream)
{
  struct tagc_errand *errand = errand_;
  const uint64_t began = tagc_clock_ns();
  errand->status = errand->step(errand->work, errand->piece, stream);
  errand->took_ns = tagc_clock_ns() - began;
}

/* What stops where the lane did not do its work. */
static ncclResult_t lane_error(const struct tagc_work *w)
{
  return tagc_comm_is_aborted(w->call->comm) ? ncclInternalError : ncclUnhandledCudaError;
}

/* Gives a step to the lane, where it is `beside` the call; or does it, as in a process that has no lane because it is the child of a
 * fork. */
static ncclResult_t give(struct tagc_work *w, struct tagc_errand *errand, bool beside)
{
  void *lane = atomic_load(&w->call->comm->lane);
  if (lane && beside)
    errand->ticket = w->device->lane_submit(w->device, lane, errand->kind, run_errand, errand);
  if (errand->ticket) {
    w->ticket = errand->ticket;
    return ncclSuccess;
  }
  if (tagc_comm_is_aborted(w->call->comm))
    return ncclInternalError;
  run_errand(errand, w->call->stream);
  return errand->status;
}

/* What the lane is given next comes behind what is on the caller's stream. */
static bool put_behind(const struct stage *stage, const struct tagc_work *w)
{
  void *lane = atomic_load(&w->call->comm->lane);
  return !lane || w->pieces[stage->part] <= 1 || w->device->lane_after(w->device, lane, w->call->stream);
}

/* Until a step is done. */
static ncclResult_t await(const struct tagc_work *w, const struct tagc_errand *errand)
{
  if (errand->ticket && !w->device->lane_wait(w->device, atomic_load(&w->call->comm->lane), errand->ticket, w->call->stream))
    return lane_error(w);
  return errand->status;
}

static ncclResult_t encode(const struct stage *stage, struct tagc_work *w)
{
  if (stage->piece >= w->pieces[stage->part])
    return ncclSuccess;
  if (stage->piece == 1 && !put_behind(stage, w))
    return ncclUnhandledCudaError;
  w->encode[stage->piece] = (struct tagc_errand){.work = w, .step = w->parts[stage->part]->encode, .piece = stage->piece,
                                                .kind = TAGC_LANE_ENCODE};
  return give(w, &w->encode[stage->piece], stage->piece > 0);
}

static ncclResult_t await_encoded(const struct stage *stage, struct tagc_work *w)
{
  const struct tagc_part *part = w->parts[stage->part];
  if (stage->piece >= w->pieces[stage->part])
    return ncclSuccess;
  const ncclResult_t status = await(w, &w->encode[stage->piece]);
  return status == ncclSuccess && part->encoded ? part->encoded(w, stage->piece) : status;
}

static ncclResult_t decode(const struct stage *stage, struct tagc_work *w)
{
  const struct tagc_part *part = w->parts[stage->part];
  if (stage->piece >= w->pieces[stage->part])
    return ncclSuccess;
  const ncclResult_t status = part->exchanged ? part->exchanged(w, stage->piece) : ncclSuccess;
  if (status != ncclSuccess || !put_behind(stage, w))
    return status != ncclSuccess ? status : ncclUnhandledCudaError;
  w->decode[stage->piece] = (struct tagc_errand){.work = w, .step = part->decode, .piece = stage->piece, .kind = TAGC_LANE_DECODE};
  const bool last = stage->piece + 1 == w->pieces[stage->part];
  return give(w, &w->decode[stage->piece], !last || (w->pieces[stage->part] > 1 && !w->device->host_reads));
}

static ncclResult_t await_decoded(const struct stage *stage, struct tagc_work *w)
{
  ncclResult_t status = ncclSuccess;
  for (unsigned piece = 0; piece < w->pieces[stage->part] && status == ncclSuccess; piece++) {
    status = await(w, &w->decode[piece]);
    w->took.encode_ns += w->encode[piece].took_ns;
    w->took.decode_ns += w->decode[piece].took_ns;
  }
  return status;
}

/* What the lane still works on, when the call has failed half way, is the program's. */
static void await_lane(const struct tagc_work *w)
{
  if (w->ticket)
    (void)w->device->lane_wait(w->device, atomic_load(&w->call->comm->lane), w->ticket, w->call->stream);
}

static ncclResult_t decoded(const struct stage *stage, struct tagc_work *w)
{
  const struct tagc_part *part = w->parts[stage->part];
  return part->decoded ? part->decoded(w) : ncclSuccess;
}

/* ---- the order of all that -------------------------------------------------------------------------------------------- */

static void lay_out(struct batch *batch)
{
  for (size_t i = 0; i < batch->count; i++) {
    struct tagc_work *w = &batch->work[i];
    void *lane = atomic_load(&w->call->comm->lane);
    if (!lane || !w->device->lane_times(w->device, lane, &w->lane))
      w->lane = (struct tagc_lane_times){0};
    for (int part = 0; part < TAGC_WORK_PARTS && w->parts[part]; part++) {
      w->pieces[part] = 1;
      w->parts[part]->lay_out(w);
    }
  }
}

/* In place: a work is too large to be on the caller's stack twice. */
static void set_up(struct tagc_work *w, struct tagc_call *call)
{
  const bool gathers = call->entry == TAGC_ENTRY_ncclAllGather, spreads = call->entry == TAGC_ENTRY_ncclAllReduce;
  memset(w, 0, sizeof *w);
  w->call = call;
  w->device = call->comm->device;
  w->parts[0] = gathers ? &tagc_part_gather : &tagc_part_reduce;
  w->parts[1] = spreads ? &tagc_part_spread : NULL;
}

static bool has_part(const struct batch *batch, int part)
{
  for (size_t i = 0; i < batch->count; i++)
    if (batch->work[i].parts[part])
      return true;
  return false;
}

static unsigned most_pieces(const struct batch *batch, int part)
{
  unsigned most = 0;
  for (size_t i = 0; i < batch->count; i++)
    if (batch->work[i].parts[part] && batch->work[i].pieces[part] > most)
      most = batch->work[i].pieces[part];
  return most;
}

static ncclResult_t run_round(const struct tagc_exchange *real, struct batch *batch, int part,
                              const struct tagc_round *(*round)(const struct tagc_part *part), ncclResult_t status)
{
  struct stage stage = {batch, part, 0, round};
  status = exchange(real, &stage, status);
  return run_each(&stage, then, status);
}

static ncclResult_t run_pieces(const struct tagc_exchange *real, struct batch *batch, int part, ncclResult_t status)
{
  const unsigned pieces = most_pieces(batch, part);
  struct stage first = {batch, part, 0, NULL};
  status = run_each(&first, encode, status);
  for (unsigned piece = 0; piece < pieces; piece++) {
    struct stage stage = {batch, part, piece, NULL}, next = {batch, part, piece + 1, NULL};
    if (piece + 1 < pieces)
      status = run_each(&next, encode, status);
    status = run_each(&stage, await_encoded, status);
    status = exchange(real, &stage, status);
    status = run_each(&stage, decode, status);
  }
  return run_each(&first, await_decoded, status);
}

static ncclResult_t run_part(const struct tagc_exchange *real, struct batch *batch, int part, ncclResult_t status)
{
  struct stage all = {batch, part, 0, NULL};
  if (!has_part(batch, part))
    return status;
  status = run_each(&all, begin, status);
  status = run_round(real, batch, part, before_0, status);
  status = run_round(real, batch, part, before_1, status);
  status = run_pieces(real, batch, part, status);
  status = run_each(&all, decoded, status);
  return run_round(real, batch, part, after, status);
}

/* Behind the last work on our memory, whatever became of the calls. The streams of those that have been aborted may be gone. */
static ncclResult_t set_fences(struct batch *batch, ncclResult_t status)
{
  tagc_comms_enter_driver(batch->comms, batch->count);
  for (size_t i = 0; i < batch->count; i++) {
    const struct tagc_work *w = &batch->work[i];
    w->call->comm->unfenced = !tagc_comm_has_streams(w->call->comm);
    if (w->call->comm->unfenced)
      continue;
    await_lane(w);
    const bool set = w->device->fence_set(w->device, w->call->comm->fence, w->call->stream);
    tagc_levels_after_call(w->call->comm, w->call->stream, set);
    if (!set && status == ncclSuccess)
      status = ncclUnhandledCudaError;
  }
  bool alive = tagc_comms_leave_driver(batch->comms, batch->count);
  return status == ncclSuccess && !alive ? ncclInternalError : status;
}

static ncclResult_t run(const struct tagc_exchange *real, struct batch *batch)
{
  const uint64_t began = tagc_clock_ns();
  ncclResult_t status = ncclSuccess;
  lay_out(batch);
  for (int part = 0; part < TAGC_WORK_PARTS; part++)
    status = run_part(real, batch, part, status);
  status = set_fences(batch, status);
  for (size_t i = 0; i < batch->count; i++) {
    struct tagc_work *w = &batch->work[i];
    tell_times(w);
    if (status == ncclSuccess && w->parts[0] != &tagc_part_gather)
      tagc_times_spent(w->call, began);     /* what was hidden does not count */
    for (int part = 0; part < TAGC_WORK_PARTS && w->parts[part]; part++)
      (status == ncclSuccess ? w->parts[part]->settle : w->parts[part]->give_up)(w);
  }
  return status;
}

ncclResult_t tagc_execute(const struct tagc_exchange *real, struct tagc_call *const *calls, size_t count)
{
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
      set_up(&batch.work[i], calls[i]);
      batch.comms[i] = calls[i]->comm;
    }
    status = ncclInternalError;
    if (tagc_comms_enter(batch.comms, count, TAGC_OWNER_NONE, TAGC_OWNER_LIBRARY)) {
      status = run(real, &batch);
      tagc_comms_leave(batch.comms, count);
    }
  }
  if (count > 1) {
    free(batch.work);
    free(batch.comms);
  }
  return status;
}
