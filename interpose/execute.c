/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/execute.h"

#include <stdlib.h>

#include "env/log.h"
#include "interpose/ballot.h"
#include "interpose/comm.h"
#include "interpose/levels.h"
#include "interpose/library.h"
#include "interpose/selection.h"
#include "interpose/split.h"
#include "interpose/states.h"
#include "interpose/vote.h"
#include "kernels/cost.h"
#include "kernels/residual.h"

/* A call that is compressed or flushed. */
struct work {
  struct tagc_call *call;
  struct tagc_party party;          /* who exchanges payloads */
  const struct tagc_device *device;
  struct tagc_job job;
  uint8_t *sums;                    /* two levels: the sums over this host's ranks; otherwise NULL */
  struct tagc_split split;          /* where but a part of the slot is selected */
  int64_t *told;                    /* where the ranks of a host tell one another what they have seen; NULL: they need not */
  void *scratch;                    /* TAGC_FLUSH: the send buffer of the plain call */
  struct tagc_trace_times took;     /* on memory of the host */
  bool encoded;                     /* the residual has changed */
  bool denser;                      /* the device says that the gradient has outgrown the codec */
};

/* Calls of different communicators, and these communicators. */
struct batch {
  struct work *work;
  struct tagc_comm **comms;
  size_t count;
};

static ncclResult_t enqueue_sums(const struct tagc_exchange *real, void *batch, size_t i);

/* Runs one real group over the batch, and notes its time. */
static ncclResult_t exchange(const struct tagc_exchange *real, struct batch *batch,
                             tagc_enqueue_function *enqueue)
{
  const uint64_t began = tagc_trace_ns();
  ncclResult_t status = tagc_exchange_run(real, batch->comms, batch->count, enqueue, batch->work);
  for (size_t i = 0; i < batch->count; i++)
    *(enqueue == enqueue_sums ? &batch->work[i].took.sum_ns : &batch->work[i].took.exchange_ns) += tagc_trace_ns() - began;
  return status;
}

/* Where the host does the work its times go into the accounts, and into the trace. A device tells its own, later. */
static void tell_times(struct work *w)
{
  struct tagc_ledger *ledger = w->call->comm->ledger;
  const struct tagc_trace_times *took = &w->took;
  if (!w->device->host_reads)
    return;
  ledger->encode_ms += (double)took->encode_ns * 1e-6;
  ledger->exchange_ms += (double)(took->sum_ns + took->exchange_ns) * 1e-6;
  ledger->decode_ms += (double)took->decode_ns * 1e-6;
  tagc_selection_spent(w->call, (double)(took->encode_ns + took->sum_ns + took->exchange_ns + took->decode_ns));
  w->took.record = (struct tagc_trace_record){TAGC_TRACE_TIMES, sizeof w->took, w->call->trace.comm};
  w->took.call = w->call->trace.number;
  if (w->took.call)
    tagc_trace_add(&w->took.record);
}

static const struct tagc_codec *codec_of(const struct work *w) { return w->call->comm->slots[w->call->slot].codec; }

static bool any_exponents(const struct batch *batch)
{
  for (size_t i = 0; i < batch->count; i++)
    if (batch->work[i].call->decision.action == TAGC_COMPRESS && batch->work[i].job.layout.exponent_bytes)
      return true;
  return false;
}

static bool any_two_levels(const struct batch *batch)
{
  for (size_t i = 0; i < batch->count; i++)
    if (batch->work[i].sums)
      return true;
  return false;
}

static ncclResult_t enqueue_sums(const struct tagc_exchange *real, void *batch, size_t i)
{
  const struct work *w = (struct work *)batch + i;
  const struct tagc_shape whole = tagc_split_whole(&w->call->comm->slots[w->call->slot]);
  return w->sums ? tagc_levels_sum(real, w->call, &whole, w->sums) : ncclSuccess;
}

static ncclResult_t enqueue_exponents(const struct tagc_exchange *real, void *batch, size_t i)
{
  struct work *w = (struct work *)batch + i;
  struct tagc_job *job = &w->job;
  size_t bytes = (size_t)job->shape.nranks * job->layout.exponent_bytes;
  if (w->call->decision.action != TAGC_COMPRESS || !bytes)
    return ncclSuccess;
  return real->all_reduce(job->exponents, job->exponents, bytes, ncclUint8, ncclMax, w->party.handle, w->call->stream);
}

/* The reduction of what needs no more scaling: the sums of a host, or what a flush has made. */
static ncclRedOp_t plain_op(const struct work *w) { return w->call->op_kind == TAGC_OP_AVG ? ncclAvg : ncclSum; }

/* What is not selected, in full precision. */
static ncclResult_t enqueue_rest(const struct tagc_exchange *real, const struct work *w)
{
  const struct tagc_split *split = &w->split;
  if (!split->parts)
    return ncclSuccess;
  return real->reduce_scatter(split->rest, split->rest_sum, split->parts->rest, w->call->type, w->sums ? plain_op(w) : w->call->op,
                              w->party.handle, w->call->stream);
}

static ncclResult_t enqueue_payloads(const struct tagc_exchange *real, void *batch, size_t i)
{
  struct work *w = (struct work *)batch + i;
  struct tagc_job *job = &w->job;
  ncclComm_t comm = w->party.handle;
  cudaStream_t stream = w->call->stream;
  size_t bytes = job->layout.message_bytes;
  ncclResult_t status = ncclSuccess;
  if (w->call->decision.action == TAGC_FLUSH) {
    status = real->reduce_scatter(w->scratch, job->recv, job->shape.n, w->call->type, plain_op(w), comm, stream);
    return status == ncclSuccess ? enqueue_rest(real, w) : status;
  }
  if (job->layout.sketch_count)
    status = real->reduce_scatter(job->sketch_out, job->sketch_in, job->layout.sketch_count, ncclInt32, ncclSum, comm,
                                  stream);
  if (bytes && status == ncclSuccess)
    status = tagc_exchange_messages(real, &w->party, stream, job->message_out, job->message_in, bytes,
                                    w->call->comm->all_to_all);
  return status == ncclSuccess ? enqueue_rest(real, w) : status;
}

static uint64_t seed_of(const struct tagc_call *call, const struct tagc_slot *slot)
{
  /* splitmix64 (Steele, Lea, Flood 2014) over what all ranks know of the call. */
  uint64_t x = tagc_library_options()->seed + UINT64_C(0x9e3779b97f4a7c15) * (1 + (uint64_t)call->slot);
  for (int i = 0; i < 2; i++) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x = (x ^ x >> 31) + slot->compressed_calls * UINT64_C(0x9e3779b97f4a7c15);
  }
  return x;
}

/* Fills the job of a call from its slot; the payloads lie in the workspace of its communicator. */
static void lay_out(struct work *w)
{
  struct tagc_call *call = w->call;
  struct tagc_comm *comm = call->comm;
  struct tagc_slot *slot = &comm->slots[call->slot];
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
  uint8_t *workspace = comm->workspace;
  w->party = tagc_levels_party(comm);
  w->job = (struct tagc_job){
    .shape = slot->shape, .layout = slot->layout, .rank = w->party.rank, .send = call->send, .recv = call->recv,
    .scale = call->scale, .divisor = call->op_kind == TAGC_OP_AVG ? (float)w->party.nranks : 1,
    .residual = slot->residual, .residual_empty = slot->residual_empty, .seed = seed_of(call, slot),
    .stochastic = tagc_library_options()->rounding == TAGC_ROUNDING_STOCHASTIC, .stats = &row->stats,
    .health = comm->health, .cycle = call->cycle + 1, .residual_cycle = slot->residual_cycle + 1,
  };
  w->device = comm->device;
  w->job.tally = slot->tally;
  if (comm->scope.two_levels) {     /* which scale and average what they sum */
    w->sums = workspace;
    w->job.send = w->sums;
    w->job.scale = 1;
    const struct tagc_shape whole = tagc_split_whole(slot);
    workspace += tagc_levels_sum_bytes(&whole);
    if (comm->keeps_residuals && call->decision.action == TAGC_COMPRESS)
      w->told = (int64_t *)workspace;
    workspace += TAGC_LEVELS_TOLD_BYTES;
  }
  workspace += tagc_split_carve(&w->split, slot, workspace);
  if (w->split.parts) {
    w->job.send = w->split.selected;
    w->job.recv = w->split.selected_sum;
  }
  if (call->decision.action == TAGC_FLUSH) {
    w->scratch = workspace;
  } else {
    tagc_job_carve(&w->job, workspace);
    slot->compressed_calls++;       /* even if it fails: the seeds of later calls are made from this, on all ranks */
  }
}

/* The call is done: its residual holds what it did not send. */
static void settle_residual(const struct work *w)
{
  struct tagc_slot *slot = &w->call->comm->slots[w->call->slot];
  slot->residual_empty = w->call->decision.action == TAGC_FLUSH;
  slot->dirty = !slot->residual_empty && slot->residual != NULL;
  if (slot->dirty)
    slot->residual_cycle = w->call->cycle;
}

/* The call has failed. A residual that was encoded from lacks what was under way: nobody knows where that is now, so the
 * rest of it is given up, too. One that was only read is as it was. */
static void give_up(const struct work *w)
{
  struct tagc_comm *comm = w->call->comm;
  struct tagc_slot *slot = &comm->slots[w->call->slot];
  if (!w->encoded || !slot->residual)
    return;
  slot->residual_empty = true;
  slot->dirty = true;               /* as on the ranks that did not fail: a flush is not made like a plain call */
  tagc_ledger_row(comm->ledger, w->call->slot)->residuals_dropped++;
}

/* Has the gradient outgrown the codec that auto chose? A slot becomes plain when TAGC_SURPLUS_CALLS calls in a row had more values
 * than room for them. The room is half as much again as was needed when its codec was chosen, so that single steps are ridden
 * out, and the next ones send what they leave behind; but without an end to it ever more of the gradient comes late.
 * What is said of it is equal on all ranks. */
static void watch_density(const struct work *w)
{
  const struct tagc_comm *comm = w->call->comm;
  struct tagc_slot *slot = &comm->slots[w->call->slot];
  if (w->call->decision.action != TAGC_COMPRESS || !tagc_options_auto(tagc_library_options()))
    return;
  slot->surplus_calls = w->job.surplus_seen ? slot->surplus_calls + 1 : 0;
  if ((slot->surplus_calls < TAGC_SURPLUS_CALLS && !w->denser) || slot->verdict != TAGC_REASON_compressed)
    return;
  slot->verdict = TAGC_REASON_denser;
  tagc_selection_hasten(w->call->comm, w->call->cycle);
  tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu, %s: plain from now on: %s",
           (unsigned long long)comm->ledger->number, tagc_ledger_row(comm->ledger, w->call->slot)->name,
           tagc_reason_words(slot->verdict));
}

static void account(const struct work *w)
{
  const struct tagc_call *call = w->call;
  const struct tagc_comm *comm = call->comm;
  const struct tagc_slot *slot = &comm->slots[call->slot];
  const struct tagc_slot_question question = {
    .hosts = tagc_levels_hosts(comm), .scope = comm->scope, .shape = slot->shape, .whole = slot->shard, .rest = tagc_split_rest(slot),
  };
  const struct tagc_shape selected = w->job.shape, rest = tagc_plan_rest(&question);
  const size_t element = tagc_dtype_size(selected.dtype);
  const uint64_t shard = tagc_plan_whole(&question).n * element;
  /* A flush sends between hosts what a codec that leaves everything as it is would send. */
  const struct tagc_layout whole = {.message_bytes = selected.n * element};
  const struct tagc_traffic plain = tagc_plan_plain_traffic(&question);
  struct tagc_traffic sent = rest.n ? tagc_plain_traffic((selected.n + rest.n) * element, &question.hosts) : plain;
  if (call->decision.action == TAGC_COMPRESS) {
    struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
    sent = tagc_plan_traffic(&question, &w->job.layout);
    row->compressed++;
    comm->ledger->timed_calls += w->device->host_reads;
    row->raw_bytes += (uint64_t)comm->nranks * shard;
    tagc_traffic_add(&row->plain, &plain);
    tagc_traffic_add(&row->sent, &sent);
  } else if (comm->scope.two_levels) {
    sent = tagc_plan_traffic(&question, &whole);
  }
  tagc_traffic_add(&comm->ledger->sent, &sent);
  tagc_traffic_add(&comm->ledger->plain, &plain);
  w->call->trace.sent = sent;
  w->call->trace.plain = plain;
}

static bool mark(const struct work *w, enum tagc_mark mark)
{
  return !w->job.tally || w->device->tally_mark(w->device, w->job.tally, mark, w->call->trace.number, w->call->stream);
}

/* What a device could not do is said by what NCCL says of its own troubles with one. */
static ncclResult_t done(bool good) { return good ? ncclSuccess : ncclUnhandledCudaError; }

/* When the ranks voted, all of them could compress the calls of the slot. A rank that cannot any more has no way of its own: the others
 * send payloads and wait for some. */
static ncclResult_t refuse(const struct work *w, enum tagc_reason reason, ncclResult_t error)
{
  tagc_log(TAGC_LOG_ERROR, "interpose", "communicator %llu, %s: %s, which was not so when the ranks voted to compress it: the call "
           "fails", (unsigned long long)w->call->comm->ledger->number, tagc_ledger_row(w->call->comm->ledger, w->call->slot)->name,
           tagc_reason_words(reason));
  return error;
}

/* Earlier work on our memory may be on another stream. */
static ncclResult_t begin(struct work *w)
{
  const struct tagc_call *call = w->call;
  const enum tagc_reason reason = tagc_ballot_bar(call);
  if (reason != TAGC_REASON_compressed)
    return refuse(w, reason, reason == TAGC_REASON_memory ? ncclInvalidArgument : ncclInvalidUsage);
  if (w->job.tally)
    tagc_comm_read_tally(call->comm, w->job.tally, call->slot);
  const bool good = w->device->fence_wait(w->device, call->comm->fence, call->stream) &&
                    tagc_levels_before_call(call->comm, call->stream);
  return done(good && mark(w, TAGC_MARK_BEGUN));
}

static ncclResult_t prepare(struct work *w)
{
  const uint64_t began = tagc_trace_ns();
  bool good = !w->sums || mark(w, TAGC_MARK_SUMMED);
  if (w->split.parts)
    good = good && tagc_split_pack(&w->split, w->call, w->sums ? w->sums : w->call->send);
  if (w->call->decision.action == TAGC_FLUSH)
    good = good && w->device->flush(w->device, &w->job, w->scratch, w->call->stream);
  else
    good = good && w->device->prepare(w->device, codec_of(w), &w->job, w->call->stream);
  w->took.encode_ns += tagc_trace_ns() - began;
  return done(good);
}

static ncclResult_t encode(struct work *w)
{
  const uint64_t began = tagc_trace_ns();
  bool good = true;
  w->encoded = w->call->decision.action == TAGC_COMPRESS;
  if (w->encoded)
    good = w->device->encode(w->device, codec_of(w), &w->job, w->call->stream) && mark(w, TAGC_MARK_ENCODED);
  w->took.encode_ns += tagc_trace_ns() - began;
  return done(good);
}

static ncclResult_t decode(struct work *w)
{
  const uint64_t began = tagc_trace_ns();
  bool good = true;
  if (w->call->decision.action == TAGC_COMPRESS)
    good = mark(w, TAGC_MARK_EXCHANGED) && w->device->decode(w->device, codec_of(w), &w->job, w->call->stream);
  if (w->split.parts)
    good = good && tagc_split_unpack(&w->split, w->call);
  if (w->call->decision.action == TAGC_COMPRESS)
    good = good && mark(w, TAGC_MARK_DECODED);
  w->took.decode_ns += tagc_trace_ns() - began;
  return done(good);
}

/* In two levels the messages that a rank receives tell of one rank a host alone; but what is made of it, all ranks must do
 * alike. */
static ncclResult_t enqueue_told(const struct tagc_exchange *real, void *batch, size_t i)
{
  const struct work *w = (struct work *)batch + i;
  return w->told ? tagc_levels_largest(real, w->call, w->told, TAGC_TOLD_WORDS) : ncclSuccess;
}

static ncclResult_t tell(struct work *w)
{
  return done(!w->told || w->device->tell(w->device, &w->job, w->told, w->call->stream));
}

/* What a device has counted is asked for at the same calls on all ranks, and is some calls old then. */
static bool ask_density(struct work *w)
{
  const struct tagc_slot *slot = &w->call->comm->slots[w->call->slot];
  if (!w->job.tally || !tagc_options_auto(tagc_library_options()) || slot->compressed_calls % TAGC_SURPLUS_CALLS)
    return true;
  return w->device->tally_denser(w->device, w->job.tally, w->call->stream, &w->denser);
}

static ncclResult_t hear(struct work *w)
{
  return done(w->call->decision.action != TAGC_COMPRESS ||
              (w->device->settle(w->device, &w->job, w->told, w->call->stream) && ask_density(w)));
}

static bool any_told(const struct batch *batch)
{
  for (size_t i = 0; i < batch->count; i++)
    if (batch->work[i].told)
      return true;
  return false;
}

static void settle(const struct work *w)
{
  w->call->comm->nonfinite |= w->job.nonfinite_seen;
  settle_residual(w);
  watch_density(w);
  account(w);
  tagc_state_call(w->call, &w->job);
}

/* Nothing more is begun where one of the communicators has been aborted: the program may free its buffers. */
static ncclResult_t run_each(struct batch *batch, ncclResult_t (*step)(struct work *w), ncclResult_t status)
{
  if (status != ncclSuccess)
    return status;
  bool alive = tagc_comms_enter_driver(batch->comms, batch->count);
  for (size_t i = 0; i < batch->count && alive && status == ncclSuccess; i++)
    status = step(&batch->work[i]);
  alive &= tagc_comms_leave_driver(batch->comms, batch->count);
  return status == ncclSuccess && !alive ? ncclInternalError : status;
}

/* Behind the last work on our memory, whatever became of the calls. The streams of those that have been aborted may be gone. */
static ncclResult_t set_fences(struct batch *batch, ncclResult_t status)
{
  tagc_comms_enter_driver(batch->comms, batch->count);
  for (size_t i = 0; i < batch->count; i++) {
    const struct work *w = &batch->work[i];
    w->call->comm->unfenced = !tagc_comm_has_streams(w->call->comm);
    if (w->call->comm->unfenced)
      continue;
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
  for (size_t i = 0; i < batch->count; i++)
    lay_out(&batch->work[i]);
  ncclResult_t status = run_each(batch, begin, ncclSuccess);
  if (status == ncclSuccess && any_two_levels(batch))
    status = exchange(real, batch, enqueue_sums);
  status = run_each(batch, prepare, status);
  if (status == ncclSuccess && any_exponents(batch))
    status = exchange(real, batch, enqueue_exponents);
  status = run_each(batch, encode, status);
  if (status == ncclSuccess)
    status = exchange(real, batch, enqueue_payloads);
  status = run_each(batch, decode, status);
  status = run_each(batch, tell, status);
  if (status == ncclSuccess && any_told(batch))
    status = exchange(real, batch, enqueue_told);
  status = run_each(batch, hear, status);
  status = set_fences(batch, status);
  for (size_t i = 0; i < batch->count; i++) {
    tell_times(&batch->work[i]);
    if (status == ncclSuccess)
      settle(&batch->work[i]);
    else
      give_up(&batch->work[i]);
  }
  return status;
}

ncclResult_t tagc_execute(const struct tagc_exchange *real, struct tagc_call *const *calls, size_t count)
{
  struct work one;
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
      batch.work[i] = (struct work){.call = calls[i]};
      batch.comms[i] = calls[i]->comm;
    }
    status = ncclInternalError;
    if (tagc_comms_enter(batch.comms, count, TAGC_PHASE_IDLE, TAGC_PHASE_OURS)) {
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
