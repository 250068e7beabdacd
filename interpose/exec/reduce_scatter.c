/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of a reduce-scatter that is compressed or flushed: {sums of a host}, prepare, {exponents}, encode, {payloads}, decode,
 * tell, {what was told}, hear.
 */
#include "env/clock.h"
#include "env/log.h"
#include "interpose/comm/chunking.h"
#include "interpose/comm/memory.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/loss_samples.h"
#include "interpose/exec/op.h"
#include "interpose/nccl/process.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/residual.h"

static const struct tagc_codec *codec_of(const struct tagc_work *w) { return w->call->comm->slots[w->call->slot].codec; }

static bool mark(const struct tagc_work *w, enum tagc_mark mark)
{
  return !w->reduce.job.tally ||
         w->device->tally_mark(w->device, w->reduce.job.tally, mark, w->call->trace.number, w->call->stream);
}

/* ---- what is exchanged ----------------------------------------------------------------------------------------------- */

static bool has_sums(const struct tagc_work *w) { return w->reduce.sums != NULL; }

/* In one piece: what is done; else that piece. */
static struct tagc_job *job_of(struct tagc_work *w, unsigned piece)
{
  return w->pieces[0] > 1 ? &w->reduce.piece[piece] : &w->reduce.job;
}

static bool has_exponents(const struct tagc_work *w)
{
  return w->call->decision.action == TAGC_COMPRESS && w->reduce.job.layout.exponent_bytes > 0;    /* then in one piece */
}

static bool has_told(const struct tagc_work *w) { return w->reduce.told != NULL; }

static ncclResult_t enqueue_sums(const struct tagc_exchange *real, struct tagc_work *w)
{
  const struct tagc_shape whole = tagc_split_whole(&w->call->comm->slots[w->call->slot]);
  return tagc_levels_sum(real, w->call, &whole, w->reduce.sums);
}

static ncclResult_t enqueue_exponents(const struct tagc_exchange *real, struct tagc_work *w)
{
  struct tagc_job *job = &w->reduce.job;
  size_t bytes = (size_t)job->shape.nranks * job->layout.exponent_bytes;
  return real->all_reduce(job->exponents, job->exponents, bytes, ncclUint8, ncclMax, w->reduce.party.handle, w->call->stream);
}

/* The reduction of what needs no more scaling: the sums of a host, or what a flush has made. */
static ncclRedOp_t plain_op(const struct tagc_work *w) { return w->call->op_kind == TAGC_OP_AVG ? ncclAvg : ncclSum; }

/* What is not selected, in full precision. */
static ncclResult_t enqueue_rest(const struct tagc_exchange *real, const struct tagc_work *w)
{
  const struct tagc_split *split = &w->reduce.split;
  if (!split->parts)
    return ncclSuccess;
  return real->reduce_scatter(split->rest, split->rest_sum, split->parts->rest, w->call->type,
                              w->reduce.sums ? plain_op(w) : w->call->op, w->reduce.party.handle, w->call->stream);
}

static ncclResult_t enqueue_payloads(const struct tagc_exchange *real, struct tagc_work *w, unsigned piece)
{
  const struct tagc_job *job = job_of(w, piece);
  ncclComm_t comm = w->reduce.party.handle;
  cudaStream_t stream = w->call->stream;
  size_t bytes = job->layout.message_bytes;
  ncclResult_t status = ncclSuccess;
  if (w->call->decision.action == TAGC_FLUSH) {
    status = real->reduce_scatter(w->reduce.scratch, job->recv, job->shape.n, w->call->type, plain_op(w), comm, stream);
    return status == ncclSuccess ? enqueue_rest(real, w) : status;
  }
  if (job->layout.sketch_count)
    status = real->reduce_scatter(job->sketch_out, job->sketch_in, job->layout.sketch_count, ncclInt32, ncclSum, comm,
                                  stream);
  if (bytes && status == ncclSuccess)
    status = tagc_exchange_messages(real, &w->reduce.party, stream, job->message_out, job->message_in, bytes,
                                    w->call->comm->all_to_all);
  return status == ncclSuccess && piece == 0 ? enqueue_rest(real, w) : status;
}

/* In two levels the messages that a rank receives tell of one rank a host alone; but what is made of it, all ranks must do
 * alike. */
static ncclResult_t enqueue_told(const struct tagc_exchange *real, struct tagc_work *w)
{
  return tagc_levels_largest(real, w->call, w->reduce.told, TAGC_TOLD_WORDS);
}

/* ---- the steps ------------------------------------------------------------------------------------------------------- */

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
static void lay_out(struct tagc_work *w)
{
  struct tagc_call *call = w->call;
  struct tagc_comm *comm = call->comm;
  struct tagc_slot *slot = &comm->slots[call->slot];
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
  uint8_t *workspace = comm->workspace + tagc_estate_allgather_phase_bytes(comm, slot);
  w->reduce.party = tagc_levels_party(comm);
  w->reduce.job = (struct tagc_job){
    .shape = slot->shape, .layout = slot->layout, .rank = w->reduce.party.rank, .send = call->send, .recv = call->recv,
    .scale = call->scale, .divisor = call->op_kind == TAGC_OP_AVG ? (float)w->reduce.party.nranks : 1,
    .residual = slot->residual, .residual_empty = slot->residual_empty, .seed = seed_of(call, slot),
    .stochastic = tagc_library_options()->rounding == TAGC_ROUNDING_STOCHASTIC, .stats = &row->stats,
    .health = comm->health, .cycle = call->cycle + 1, .residual_cycle = slot->residual_cycle + 1,
  };
  if (slot->all_reduce)             /* its shard of the sum lies where it lies in the whole */
    w->reduce.job.recv = (uint8_t *)call->recv + (size_t)comm->rank * slot->shape.n * tagc_dtype_size(slot->shape.dtype);
  w->reduce.job.tally = slot->tally;
  if (comm->scope.two_levels) {     /* which scale and average what they sum */
    w->reduce.sums = workspace;
    w->reduce.job.send = w->reduce.sums;
    w->reduce.job.scale = 1;
    const struct tagc_shape whole = tagc_split_whole(slot);
    workspace += tagc_levels_sum_bytes(&whole);
    if (comm->keeps_residuals && call->decision.action == TAGC_COMPRESS)
      w->reduce.told = (int64_t *)workspace;
    workspace += TAGC_LEVELS_TOLD_BYTES;
  }
  workspace += tagc_split_carve(&w->reduce.split, slot, workspace);
  if (w->reduce.split.parts) {
    w->reduce.job.send = w->reduce.split.selected;
    w->reduce.job.recv = w->reduce.split.selected_sum;
  }
  if (call->decision.action == TAGC_FLUSH) {
    w->reduce.scratch = workspace;
  } else {
    w->pieces[0] = (unsigned)slot->pieces.count;
    tagc_chunking_assign(slot, &w->reduce.job, w->reduce.piece, workspace);
    for (int k = 0; k < slot->pieces.count; k++) {
      w->reduce.piece[k].stats = &w->reduce.seen[k];
      w->reduce.piece[k].beside = true;
    }
    slot->compressed_calls++;       /* even if it fails: the seeds of later calls are made from this, on all ranks */
  }
}

/* The call is done: its residual holds what it did not send. */
static void settle_residual(const struct tagc_work *w)
{
  struct tagc_slot *slot = &w->call->comm->slots[w->call->slot];
  slot->residual_empty = w->call->decision.action == TAGC_FLUSH;
  slot->dirty = !slot->residual_empty && slot->residual != NULL;
  if (slot->dirty)
    slot->residual_cycle = w->call->cycle;
}

/* The call has failed. A residual that was encoded from lacks what was under way: nobody knows where that is now, so the
 * rest of it is given up, too. One that was only read is as it was. */
static void give_up(struct tagc_work *w)
{
  struct tagc_comm *comm = w->call->comm;
  struct tagc_slot *slot = &comm->slots[w->call->slot];
  if (!w->reduce.encoded || !slot->residual)
    return;
  slot->residual_empty = true;
  slot->dirty = true;               /* as on the ranks that did not fail: a flush is not made like a plain call */
  tagc_ledger_row(comm->ledger, w->call->slot)->residuals_dropped++;
}

/* Has the gradient outgrown the codec that auto chose? A slot becomes plain when TAGC_SURPLUS_CALLS calls in a row had more values
 * than room for them. The room is half as much again as was needed when its codec was chosen, so that single steps are ridden
 * out, and the next ones send what they leave behind; but without an end to it ever more of the gradient comes late.
 * What is said of it is equal on all ranks. */
static void watch_density(const struct tagc_work *w)
{
  struct tagc_comm *comm = w->call->comm;
  struct tagc_slot *slot = &comm->slots[w->call->slot];
  if (w->call->decision.action != TAGC_COMPRESS || !tagc_options_auto(tagc_library_options()))
    return;
  slot->surplus_calls = w->reduce.job.surplus_seen ? slot->surplus_calls + 1 : 0;
  if ((slot->surplus_calls < TAGC_SURPLUS_CALLS && !w->reduce.denser) || slot->reason != TAGC_REASON_compressed)
    return;
  slot->reason = TAGC_REASON_denser;
  tagc_retune_hasten(comm->ledger->retune, w->call->cycle);
  tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu, %s: plain from now on: %s",
           (unsigned long long)comm->ledger->number, tagc_ledger_row(comm->ledger, w->call->slot)->name,
           tagc_reason_words(slot->reason));
}

static void account(const struct tagc_work *w)
{
  const struct tagc_call *call = w->call;
  const struct tagc_comm *comm = call->comm;
  const struct tagc_slot *slot = &comm->slots[call->slot];
  const struct tagc_slot_info info = {.signature.collective = slot->all_reduce ? TAGC_ALL_REDUCE : TAGC_REDUCE_SCATTER};
  const struct tagc_slot_question question = {
    .codec = call->decision.action == TAGC_COMPRESS ? slot->codec : &tagc_codec_none, .slot = &info,
    .hosts = tagc_levels_hosts(comm), .scope = comm->scope, .shape = slot->shape,
    .whole = slot->shard, .rest = tagc_split_rest(slot), .allgather_phase_bytes = slot->allgather_phase.layout.payload_bytes,
  };
  const struct tagc_shape selected = w->reduce.job.shape, rest = tagc_plan_rest(&question);
  const size_t element = tagc_dtype_size(selected.dtype);
  const uint64_t shard = tagc_plan_whole(&question).n * element;
  /* A flush sends between hosts what a codec that leaves everything as it is would send. */
  const struct tagc_layout whole = {.message_bytes = selected.n * element};
  const struct tagc_traffic plain = tagc_plan_plain_traffic(&question);
  struct tagc_traffic sent = rest.n ? tagc_plain_traffic((selected.n + rest.n) * element, &question.hosts) : plain;
  if (call->decision.action == TAGC_COMPRESS) {
    struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
    sent = tagc_plan_traffic(&question, &w->reduce.job.layout);
    row->compressed++;
    comm->ledger->times.calls += w->device->host_reads;
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

static ncclResult_t begin(struct tagc_work *w)
{
  if (w->reduce.job.tally)
    tagc_comm_read_tally(w->call->comm, w->reduce.job.tally, w->call->slot);
  return tagc_work_done(mark(w, TAGC_MARK_BEGUN));
}

/* The residual lies in pieces where calls are compressed in pieces. */
static bool flush(struct tagc_work *w)
{
  const struct tagc_chunks *pieces = &w->call->comm->slots[w->call->slot].pieces;
  bool good = true;
  for (int k = 0; k < pieces->count && good; k++) {
    struct tagc_job piece = tagc_chunk_job(&w->reduce.job, pieces, k);
    char *to = (char *)w->reduce.scratch + pieces->at[k] * tagc_dtype_size(piece.shape.dtype);
    good = w->device->flush(w->device, &piece, to, w->call->stream);
  }
  return good;
}

static ncclResult_t prepare(struct tagc_work *w)
{
  const uint64_t began = tagc_clock_ns();
  bool good = !w->reduce.sums || mark(w, TAGC_MARK_SUMMED);
  if (w->reduce.split.parts)
    good = good && tagc_split_pack(&w->reduce.split, w->call, w->reduce.sums ? w->reduce.sums : w->call->send);
  if (w->call->decision.action == TAGC_FLUSH)
    good = good && flush(w);
  else if (w->pieces[0] == 1)       /* others are prepared when they are encoded */
    good = good && w->device->prepare(w->device, codec_of(w), &w->reduce.job, w->call->stream);
  w->took.encode_ns += tagc_clock_ns() - began;
  return tagc_work_done(good);
}

static ncclResult_t encode(struct tagc_work *w, unsigned piece, void *stream)
{
  const bool compressed = w->call->decision.action == TAGC_COMPRESS;
  bool good = true;
  if (piece == 0)
    w->reduce.encoded = compressed;
  if (w->pieces[0] > 1)
    good = w->device->prepare(w->device, codec_of(w), job_of(w, piece), stream);
  if (compressed)
    good = good && w->device->encode(w->device, codec_of(w), job_of(w, piece), stream);
  return tagc_work_done(good);
}

/* On a device. In several pieces what is seen there is the encoding of the first one, and of the others what the exchanges wait for. */
static ncclResult_t encoded(struct tagc_work *w, unsigned piece)
{
  return tagc_work_done(piece > 0 || w->call->decision.action != TAGC_COMPRESS || mark(w, TAGC_MARK_ENCODED));
}

static ncclResult_t exchanged(struct tagc_work *w, unsigned piece)
{
  return tagc_work_done(piece + 1 < w->pieces[0] || w->call->decision.action != TAGC_COMPRESS || mark(w, TAGC_MARK_EXCHANGED));
}

static ncclResult_t decode(struct tagc_work *w, unsigned piece, void *stream)
{
  return tagc_work_done(w->call->decision.action != TAGC_COMPRESS ||
                        w->device->decode(w->device, codec_of(w), job_of(w, piece), stream));
}

static ncclResult_t decoded(struct tagc_work *w)
{
  const uint64_t began = tagc_clock_ns();
  bool good = true;
  for (unsigned k = 0; k < w->pieces[0] && w->pieces[0] > 1 && !w->reduce.job.tally; k++)
    tagc_chunk_add_stats(&w->reduce.job, &w->reduce.piece[k]);
  if (w->reduce.split.parts)
    good = tagc_split_unpack(&w->reduce.split, w->call);
  if (w->call->decision.action == TAGC_COMPRESS)
    good = good && mark(w, w->parts[1] ? TAGC_MARK_HALF : TAGC_MARK_DECODED);
  w->took.decode_ns += tagc_clock_ns() - began;
  return tagc_work_done(good && (!w->reduce.told || w->device->tell(w->device, &w->reduce.job, w->reduce.told, w->call->stream)));
}

/* What a device has counted is asked for at the same calls on all ranks, and is some calls old then. */
static bool ask_density(struct tagc_work *w)
{
  const struct tagc_slot *slot = &w->call->comm->slots[w->call->slot];
  if (!w->reduce.job.tally || !tagc_options_auto(tagc_library_options()) || slot->compressed_calls % TAGC_SURPLUS_CALLS)
    return true;
  return w->device->tally_denser(w->device, w->reduce.job.tally, w->call->stream, &w->reduce.denser);
}

static ncclResult_t hear(struct tagc_work *w)
{
  return tagc_work_done(w->call->decision.action != TAGC_COMPRESS ||
                        (w->device->settle(w->device, &w->reduce.job, w->reduce.told, w->call->stream) && ask_density(w)));
}

static void settle(struct tagc_work *w)
{
  w->call->comm->nonfinite |= w->reduce.job.nonfinite_seen;
  settle_residual(w);
  watch_density(w);
  account(w);
  tagc_state_call(w->call, &w->reduce.job);
}

const struct tagc_part tagc_part_reduce = {
  .lay_out = lay_out,
  .begin = begin,
  .before = {{.wanted = has_sums, .enqueue = enqueue_sums, .then = prepare, .sums = true},
             {.wanted = has_exponents, .enqueue = enqueue_exponents}},
  .encode = encode,
  .encoded = encoded,
  .enqueue = enqueue_payloads,
  .exchanged = exchanged,
  .decode = decode,
  .decoded = decoded,
  .after = {.wanted = has_told, .enqueue = enqueue_told, .then = hear},
  .settle = settle,
  .give_up = give_up,
};
