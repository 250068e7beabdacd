/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of a reduce-scatter that is compressed or flushed: {sums of a host}, prepare, {exponents}, encode,
 * {payloads}, decode, tell, {what was told}, hear.
 */
#include "env/clock.h"
#include "env/log.h"
#include "interpose/comm/chunking.h"
#include "interpose/comm/memory.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/loss_samples.h"
#include "interpose/exec/work.h"
#include "interpose/nccl/process.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/residual.h"

static const struct tagc_codec *codec_of(const struct tagc_work *w) {
  return w->call->comm->slots[w->call->slot].codec;
}

/* ---- what is exchanged ------------------------------------------------------------------------------------------- */

static bool has_sums(const struct tagc_work *w) { return w->reduce.sums != NULL; }

/* The job of a chunk; with one chunk, the whole job. */
static struct tagc_job *job_of(struct tagc_work *w, unsigned chunk) {
  return w->chunks[0] > 1 ? &w->reduce.chunk[chunk] : &w->reduce.job;
}

static bool has_exponents(const struct tagc_work *w) {
  return tagc_work_compresses(w) && w->reduce.job.layout.exponent_bytes > 0;
}

static bool has_last(const struct tagc_work *w) { return w->reduce.told != NULL || w->reduce.lacks_sums; }

/* Exact sums on a device: the exponents say whether some message lacks its sums. */
static bool asks_for_values(const struct tagc_work *w) { return w->reduce.gathers && has_exponents(w); }

/* PreMulSum: each rank has a scalar of its own. */
static bool is_scaled(const struct tagc_work *w) { return w->call->scale != 1; }

/* Of this rank, scaled. */
static const uint8_t *values_of(const struct tagc_work *w) { return is_scaled(w) ? w->reduce.beside : w->call->send; }

static ncclResult_t enqueue_sums(const struct tagc_nccl_group *real, struct tagc_work *w) {
  const struct tagc_shape whole = tagc_slot_shard(&w->call->comm->slots[w->call->slot]);
  if (w->reduce.gathers)
    return tagc_hierarchy_gather(real, w->call, &whole, values_of(w), w->reduce.sums);
  return tagc_hierarchy_sum(real, w->call, &whole, w->reduce.sums);
}

static ncclResult_t enqueue_exponents(const struct tagc_nccl_group *real, struct tagc_work *w) {
  struct tagc_job *job = &w->reduce.job;
  size_t bytes = (size_t)job->shape.nranks * job->layout.exponent_bytes;
  return real->all_reduce(job->exponents, job->exponents, bytes, ncclUint8, ncclMax, w->reduce.peers.handle,
                          w->call->stream);
}

/* The reduction if no more scaling is needed: for the sums of a host, or the result of a flush. */
static ncclRedOp_t plain_op(const struct tagc_work *w) { return w->call->op_kind == TAGC_OP_AVG ? ncclAvg : ncclSum; }

/* Reduces the elements that are not selected, in full precision. */
static ncclResult_t enqueue_rest(const struct tagc_nccl_group *real, const struct tagc_work *w) {
  const struct tagc_partial *partial = &w->reduce.partial;
  if (!partial->parts)
    return ncclSuccess;
  return real->reduce_scatter(partial->rest, partial->rest_sum, partial->parts->rest, w->call->type,
                              w->reduce.sums ? plain_op(w) : w->call->op, w->reduce.peers.handle, w->call->stream);
}

/* Does a message to a host, or from it, hold no sums? Its chunks may differ; all values follow if one lacks them. */
static bool lacks_sums(struct tagc_work *w, int host, bool received) {
  const struct tagc_codec_levels *levels = codec_of(w)->levels;
  for (unsigned k = 0; k < w->chunks[0]; k++) {
    const struct tagc_job *job = job_of(w, k);
    const uint8_t *messages = received ? job->message_in : job->message_out;
    if (levels->lacks_sums(job, messages + (size_t)host * job->layout.message_bytes))
      return true;
  }
  return false;
}

/* On a device all hosts exchange values if some message lacks its sums. */
static ncclResult_t enqueue_values(const struct tagc_nccl_group *real, struct tagc_work *w) {
  const struct tagc_shape whole = tagc_slot_shard(&w->call->comm->slots[w->call->slot]);
  const size_t bytes = (size_t)whole.local * whole.n * tagc_dtype_size(whole.dtype);
  ncclResult_t status = ncclSuccess;
  for (int host = 0; host < w->reduce.peers.nranks && status == ncclSuccess; host++) {
    if (host == w->reduce.peers.rank)
      continue;
    const bool sends = w->reduce.follow || lacks_sums(w, host, false),
               receives = w->reduce.follow || lacks_sums(w, host, true);
    w->reduce.values_bytes += sends ? bytes : 0;
    status = tagc_hierarchy_exchange_values(real, w->call, &whole, host, sends ? w->reduce.sums : NULL,
                                            receives ? w->reduce.beside : NULL);
  }
  return status;
}

static ncclResult_t reduce_enqueue_payloads(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk) {
  const struct tagc_job *job = job_of(w, chunk);
  ncclComm_t comm = w->reduce.peers.handle;
  cudaStream_t stream = w->call->stream;
  size_t bytes = job->layout.message_bytes;
  ncclResult_t status = ncclSuccess;
  if (w->call->decision.action == TAGC_FLUSH) {
    status = real->reduce_scatter(w->reduce.scratch, job->recv, job->shape.n, w->call->type, plain_op(w), comm, stream);
    return status == ncclSuccess ? enqueue_rest(real, w) : status;
  }
  if (job->layout.sketch_count)
    status =
      real->reduce_scatter(job->sketch_out, job->sketch_in, job->layout.sketch_count, ncclInt32, ncclSum, comm, stream);
  if (bytes && status == ncclSuccess)
    status = tagc_nccl_group_exchange(real, &w->reduce.peers, stream, job->message_out, job->message_in, bytes,
                                      w->call->comm->vote.all_to_all);
  if (w->reduce.follow && status == ncclSuccess)
    status = enqueue_values(real, w);
  return status == ncclSuccess && chunk == 0 ? enqueue_rest(real, w) : status;
}

/* In two levels a rank receives messages of only one rank a host; but all ranks must draw the same conclusions. */
static ncclResult_t enqueue_last(const struct tagc_nccl_group *real, struct tagc_work *w) {
  const ncclResult_t status = w->reduce.lacks_sums ? enqueue_values(real, w) : ncclSuccess;
  return status == ncclSuccess && w->reduce.told ? tagc_hierarchy_max(real, w->call, w->reduce.told, TAGC_FLAGS)
                                                 : status;
}

/* ---- the steps --------------------------------------------------------------------------------------------------- */

static uint64_t reduce_seed(const struct tagc_call *call, const struct tagc_slot *slot) {
  /* splitmix64 (Steele, Lea, Flood 2014) over facts about the call that all ranks know. */
  uint64_t x = tagc_library_options()->seed + UINT64_C(0x9e3779b97f4a7c15) * (1 + (uint64_t)call->slot);
  for (int i = 0; i < 2; i++) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x = (x ^ x >> 31) + slot->state.calls * UINT64_C(0x9e3779b97f4a7c15);
  }
  return x;
}

/* The job of a call from its slot, without memory for payloads. */
static struct tagc_job reduce_job(const struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  const struct tagc_comm *comm = call->comm;
  const struct tagc_slot *slot = &comm->slots[call->slot];
  struct tagc_job job = {
    .shape = slot->packed,
    .layout = slot->layout,
    .rank = w->reduce.peers.rank,
    .send = call->send,
    .recv = call->recv,
    .scale = call->scale,
    .divisor = call->op_kind == TAGC_OP_AVG ? (float)(slot->packed.local ? comm->nranks : w->reduce.peers.nranks) : 1,
    .residual = slot->memory.residual,
    .residual_empty = slot->state.residual_empty,
    .seed = reduce_seed(call, slot),
    .stochastic = tagc_library_options()->rounding == TAGC_ROUNDING_STOCHASTIC,
    .nonfinite_before = comm->observed.nonfinite == call->cycle + 1,
    .stats = &tagc_ledger_row(comm->ledger, call->slot)->stats,
    .tally = slot->memory.tally,
    .health = comm->memory.health,
    .cycle = call->cycle + 1,
    .residual_cycle = slot->state.residual_cycle + 1,
  };
  if (slot->all_reduce) /* its shard of the sum lands at its place in the whole */
    job.recv = (uint8_t *)call->recv + (size_t)comm->rank * slot->packed.n * tagc_dtype_size(slot->packed.dtype);
  return job;
}

/* In two levels, the job sends the sums of this host, already scaled and averaged; or with exact sums the values of its
 * ranks, scaled. Returns the bytes that they take. */
static size_t lay_out_sums(struct tagc_work *w, uint8_t *memory) {
  const struct tagc_comm *comm = w->call->comm;
  const struct tagc_shape whole = tagc_slot_shard(&comm->slots[w->call->slot]);
  const size_t bytes = tagc_hierarchy_sum_bytes(&whole);
  if (!comm->hierarchy.scope.two_levels)
    return 0;
  w->reduce.sums = memory;
  w->reduce.job.send = memory;
  w->reduce.job.scale = 1;
  if (whole.local) {
    w->reduce.gathers = true;
    w->reduce.beside = memory + tagc_hierarchy_values_bytes(&whole);
    w->reduce.job.values = w->reduce.beside;
  }
  if (comm->vote.keeps_residuals && tagc_work_compresses(w))
    w->reduce.told = (int64_t *)(memory + bytes);
  return bytes + TAGC_HIERARCHY_TOLD_BYTES;
}

/* If only a part of the slot is selected, the job uses packed buffers. Returns the bytes that they take. */
static size_t lay_out_partial(struct tagc_work *w, uint8_t *memory) {
  const size_t bytes = tagc_partial_assign_buffers(&w->reduce.partial, &w->call->comm->slots[w->call->slot], memory);
  if (w->reduce.partial.parts) {
    w->reduce.job.send = w->reduce.partial.selected;
    w->reduce.job.recv = w->reduce.partial.selected_sum;
  }
  return bytes;
}

static void lay_out_chunks(struct tagc_work *w, struct tagc_slot *slot, uint8_t *memory) {
  w->chunks[0] = (unsigned)slot->chunking.chunks.count;
  tagc_chunking_assign(slot, &w->reduce.job, w->reduce.chunk, memory);
  for (unsigned k = 0; k < w->chunks[0]; k++) {
    w->reduce.chunk[k].stats = &w->reduce.seen[k];
    w->reduce.chunk[k].beside = true;
  }
}

/* All ranks enter a stage in the same call. */
static bool enter_stage(const struct tagc_work *w, struct tagc_slot *slot) {
  const uint32_t stage = tagc_slot_stage(w->call->comm, w->call->cycle);
  return !tagc_work_compresses(w) || stage == slot->stages.now ||
         tagc_chunking_set_stage(w->device, slot, stage, slot->chunking.chunks.count);
}

/* All buffers lie in the communicator's workspace, behind those of the all-gather of the sums. */
static void reduce_lay_out(struct tagc_work *w) {
  const struct tagc_comm *comm = w->call->comm;
  struct tagc_slot *slot = &comm->slots[w->call->slot];
  uint8_t *memory = comm->memory.workspace + tagc_memory_allgather_phase_bytes(comm, slot);
  w->reduce.has_no_layout = !enter_stage(w, slot);
  w->reduce.peers = tagc_hierarchy_exchange_comm(comm);
  w->reduce.job = reduce_job(w);
  w->tally = slot->memory.tally;
  memory += lay_out_sums(w, memory);
  memory += lay_out_partial(w, memory);
  if (tagc_work_compresses(w)) {
    w->reduce.job.ends = !w->reduce.told;
    lay_out_chunks(w, slot, memory);
    slot->state.calls++; /* even if it fails: all ranks make the seeds of later calls from this */
  } else {
    w->reduce.scratch = memory;
  }
}

/* After the call the residual holds the unsent values. They are dropped if the slot was perhaps another's. */
static void commit_residual(const struct tagc_work *w) {
  struct tagc_slot *slot = &w->call->comm->slots[w->call->slot];
  slot->state.residual_empty = w->call->decision.action == TAGC_FLUSH;
  slot->state.dirty = !slot->state.residual_empty && slot->memory.residual != NULL;
  if (slot->state.dirty)
    slot->state.residual_cycle = w->call->cycle;
  if (w->call->number < slot->state.void_before)
    tagc_slot_drop_residual(w->call->comm, (size_t)w->call->slot);
}

/* The call has failed. If the residual was encoded, it lacks the values under way, which are lost: the rest of it is
 * dropped, too. A residual that was only read is unchanged, and kept. */
static void reduce_abort(struct tagc_work *w) {
  struct tagc_comm *comm = w->call->comm;
  struct tagc_slot *slot = &comm->slots[w->call->slot];
  if (!w->reduce.encoded || !slot->memory.residual)
    return;
  slot->state.residual_empty = true;
  slot->state.dirty = true; /* as on the ranks without a failure: a flush is not made like a plain call */
  tagc_ledger_row(comm->ledger, w->call->slot)->residuals_dropped++;
}

/* Has the gradient outgrown the codec that auto chose? A slot becomes plain when TAGC_SURPLUS_CALLS calls in a row had
 * more values than room. The room is 1.5 times the need when the codec was chosen, so single larger steps do no harm:
 * the next ones send the rest. A lasting surplus would delay ever more of the gradient. All ranks decide alike. */
static void watch_density(const struct tagc_work *w) {
  struct tagc_comm *comm = w->call->comm;
  struct tagc_slot *slot = &comm->slots[w->call->slot];
  if (!tagc_work_compresses(w) || !tagc_options_auto(tagc_library_options()))
    return;
  slot->state.surplus_calls = w->reduce.job.surplus_seen ? slot->state.surplus_calls + 1 : 0;
  if ((slot->state.surplus_calls < TAGC_SURPLUS_CALLS && !w->reduce.denser) || slot->reason != TAGC_REASON_compressed)
    return;
  slot->reason = TAGC_REASON_denser;
  tagc_retune_hasten(comm->ledger->retune, w->call->cycle);
  tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu, %s: plain from now on: %s",
           (unsigned long long)comm->ledger->number, tagc_ledger_row(comm->ledger, w->call->slot)->name,
           tagc_reason_words(slot->reason));
}

/* The bytes of a rank's part in the second half of an all-reduce, of which a plain one would send these. */
static uint64_t gathered_bytes(const struct tagc_work *w, uint64_t plain) {
  const struct tagc_allgather_work *allgather = &w->allgather;
  return (allgather->codec && tagc_work_compresses(w) ? allgather->job.layout.payload_bytes : plain) +
         (allgather->support.needed ? sizeof *allgather->support.needed : 0);
}

static void reduce_account(const struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  const struct tagc_comm *comm = call->comm;
  const struct tagc_slot *slot = &comm->slots[call->slot];
  const struct tagc_slot_info info = {.signature.collective =
                                        slot->all_reduce ? TAGC_COLL_ALL_REDUCE : TAGC_COLL_REDUCE_SCATTER};
  struct tagc_slot_question question = {
    .options = tagc_library_options(),
    .codec = call->decision.action == TAGC_COMPRESS ? slot->codec : &tagc_codec_none,
    .slot = &info,
    .hosts = tagc_hierarchy_hosts(comm),
    .scope = comm->hierarchy.scope,
    .packed = slot->packed,
    .shard_count = slot->shard_count,
    .rest_count = tagc_slot_rest_count(slot),
  };
  const struct tagc_shape selected = w->reduce.job.shape, rest = tagc_plan_rest(&question);
  const size_t element = tagc_dtype_size(selected.dtype);
  const uint64_t shard = tagc_plan_shard(&question).n * element;
  question.allgather_phase_bytes = gathered_bytes(w, shard);
  /* Between hosts a flush sends the bytes of a codec that leaves everything as it is. */
  const struct tagc_layout whole = {.message_bytes = selected.n * element};
  const struct tagc_traffic plain = tagc_plan_plain_traffic(&question);
  struct tagc_traffic sent = rest.n ? tagc_plain_traffic((selected.n + rest.n) * element, &question.hosts) : plain;
  if (call->decision.action == TAGC_COMPRESS) {
    struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
    sent = tagc_plan_traffic(&question, &w->reduce.job.layout);
    sent.between += w->reduce.values_bytes;
    row->compressed++;
    comm->ledger->cycles_compressed += comm->observed.reduced_cycle != call->cycle;
    call->comm->observed.reduced_cycle = call->cycle;
    comm->ledger->stages[slot->stages.now].calls++;
    tagc_traffic_add(&comm->ledger->stages[slot->stages.now].sent, &sent);
    comm->ledger->times.calls += w->device->host_reads;
    row->raw_bytes += (uint64_t)comm->nranks * shard;
    tagc_traffic_add(&row->plain, &plain);
    tagc_traffic_add(&row->sent, &sent);
  } else if (comm->hierarchy.scope.two_levels) {
    sent = tagc_plan_traffic(&question, &whole);
  }
  tagc_traffic_add(&comm->ledger->sent, &sent);
  tagc_traffic_add(&comm->ledger->plain, &plain);
  w->call->trace.sent = sent;
  w->call->trace.plain = plain;
}

/* A flush without a residual rounds the scaled values. */
static bool begin_values(struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  struct tagc_job job = {.shape = call->comm->slots[call->slot].packed, .send = call->send, .scale = call->scale};
  job.shape.nranks = call->comm->nranks;
  return (!is_scaled(w) || w->device->flush(w->device, &job, w->reduce.beside, call->stream)) &&
         tagc_hierarchy_copy_own(call, &job.shape, values_of(w), w->reduce.sums);
}

static ncclResult_t reduce_begin(struct tagc_work *w) {
  if (w->reduce.has_no_layout)
    return ncclUnhandledCudaError;
  if (w->tally)
    tagc_comm_read_tally(w->call->comm, w->tally, w->call->slot);
  return tagc_work_done(tagc_work_mark(w, TAGC_MARK_BEGUN) && (!w->reduce.gathers || begin_values(w)));
}

/* If calls go in chunks, so does the residual. */
static bool flush_residual(struct tagc_work *w) {
  const struct tagc_chunks *chunks = &w->call->comm->slots[w->call->slot].chunking.chunks;
  bool good = true;
  for (int k = 0; k < chunks->count && good; k++) {
    struct tagc_job chunk = tagc_chunk_job(&w->reduce.job, chunks, k);
    char *to = (char *)w->reduce.scratch + chunks->at[k] * tagc_dtype_size(chunk.shape.dtype);
    good = w->device->flush(w->device, &chunk, to, w->call->stream);
  }
  return good;
}

/* Chunks are prepared when they are encoded, with the exponents of all ranks. */
static bool measure_chunks(struct tagc_work *w) {
  bool good = true;
  for (unsigned k = 0; k < w->chunks[0] && has_exponents(w) && good; k++) {
    good = w->device->measure(w->device, codec_of(w), &w->reduce.chunk[k], w->call->stream);
    w->reduce.chunk[k].measured = true;
  }
  return good;
}

static ncclResult_t reduce_prepare(struct tagc_work *w) {
  const uint64_t began = tagc_clock_ns();
  bool good = !w->reduce.sums || tagc_work_mark(w, TAGC_MARK_SUMMED);
  if (w->reduce.partial.parts)
    good = good && tagc_partial_pack(&w->reduce.partial, w->call, w->reduce.sums ? w->reduce.sums : w->call->send);
  if (w->call->decision.action == TAGC_FLUSH)
    good = good && flush_residual(w);
  else if (w->chunks[0] > 1)
    good = good && measure_chunks(w);
  else {
    /* lhc takes the values to send out of a residual in fp32 here; narrower ones it only reads */
    w->reduce.encoded = good && w->reduce.job.shape.residual == TAGC_STORAGE_FP32 && !w->reduce.job.residual_empty;
    good = good && w->device->prepare(w->device, codec_of(w), &w->reduce.job, w->call->stream);
  }
  w->took.encode_ns += tagc_clock_ns() - began;
  return tagc_work_done(good);
}

/* The host waits for the device here: the next exchange depends on the answer, which is equal on all ranks. */
static ncclResult_t reduce_ask(struct tagc_work *w) {
  const struct tagc_job *job = &w->reduce.job;
  const size_t bytes = asks_for_values(w) ? (size_t)job->shape.nranks * job->layout.exponent_bytes : 0;
  uint8_t some[1024];
  bool good = true;
  for (size_t at = 0; at < bytes && good; at += sizeof some) {
    const size_t count = bytes - at < sizeof some ? bytes - at : sizeof some;
    good = w->device->get(w->device, some, job->exponents + at, count, w->call->stream);
    for (size_t i = 0; i < count && good; i++)
      w->reduce.follow |= some[i] != 0;
  }
  return tagc_work_done(good);
}

static ncclResult_t reduce_encode(struct tagc_work *w, unsigned chunk, void *stream) {
  const bool compressed = tagc_work_compresses(w);
  bool good = true;
  if (chunk == 0)
    w->reduce.encoded = compressed;
  if (w->chunks[0] > 1)
    good = w->device->prepare(w->device, codec_of(w), job_of(w, chunk), stream);
  if (compressed)
    good = good && w->device->encode(w->device, codec_of(w), job_of(w, chunk), stream);
  return tagc_work_done(good);
}

static ncclResult_t reduce_decode(struct tagc_work *w, unsigned chunk, void *stream) {
  return tagc_work_done(!tagc_work_compresses(w) ||
                        w->device->decode(w->device, codec_of(w), job_of(w, chunk), stream));
}

static ncclResult_t reduce_after_decode(struct tagc_work *w) {
  const uint64_t began = tagc_clock_ns();
  bool good = true;
  w->reduce.job.ended = job_of(w, w->chunks[0] - 1)->ended;
  for (unsigned k = 0; k < w->chunks[0] && w->chunks[0] > 1 && !w->tally; k++)
    tagc_chunk_add_stats(&w->reduce.job, &w->reduce.chunk[k]);
  if (w->reduce.partial.parts)
    good = tagc_partial_unpack(&w->reduce.partial, w->call);
  if (tagc_work_compresses(w))
    good = good && tagc_work_mark(w, w->phases[1] ? TAGC_MARK_HALF : TAGC_MARK_DECODED);
  const bool reads = w->reduce.gathers && tagc_work_compresses(w) && !asks_for_values(w);
  for (int host = 0; host < w->reduce.peers.nranks && reads; host++)
    w->reduce.lacks_sums |= host != w->reduce.peers.rank && (lacks_sums(w, host, false) || lacks_sums(w, host, true));
  w->took.decode_ns += tagc_clock_ns() - began;
  return tagc_work_done(
    good && (!w->reduce.told || w->device->pack_flags(w->device, &w->reduce.job, w->reduce.told, w->call->stream)));
}

/* All ranks ask for a device's counts at the same calls; by then the counts are some calls old. */
static bool ask_density(struct tagc_work *w) {
  const struct tagc_slot *slot = &w->call->comm->slots[w->call->slot];
  if (!w->tally || !tagc_options_auto(tagc_library_options()) || slot->state.calls % TAGC_SURPLUS_CALLS)
    return true;
  return w->device->tally_denser(w->device, w->tally, w->call->stream, &w->reduce.denser);
}

/* Decodes the chunks that waited for values. */
static bool decode_values(struct tagc_work *w) {
  const uint64_t began = tagc_clock_ns();
  bool good = true;
  for (unsigned k = 0; k < w->chunks[0] && w->reduce.lacks_sums && good; k++) {
    struct tagc_job *job = job_of(w, k);
    job->has_values = true;
    if (job->wants_values)
      good = w->device->decode(w->device, codec_of(w), job, w->call->stream);
  }
  w->took.decode_ns += tagc_clock_ns() - began;
  return good;
}

static ncclResult_t reduce_hear(struct tagc_work *w) {
  return tagc_work_done(!tagc_work_compresses(w) ||
                        (decode_values(w) &&
                         w->device->end_call(w->device, &w->reduce.job, w->reduce.told, w->call->stream) &&
                         ask_density(w)));
}

/* A group may hold the next cycle's first calls, too: then the call's cycle has ended before it runs. */
static void note_nonfinite(const struct tagc_work *w) {
  struct tagc_comm *comm = w->call->comm;
  if (!w->reduce.job.nonfinite_seen)
    return;
  comm->observed.nonfinite = w->call->cycle + 1;
  if (w->call->cycle < comm->observed.cycle_number)
    tagc_slots_drop_nonfinite(comm);
}

static void reduce_commit(struct tagc_work *w) {
  commit_residual(w);
  note_nonfinite(w);
  watch_density(w);
  reduce_account(w);
  tagc_loss_sample_slot(w->call, &w->reduce.job);
}

const struct tagc_phase tagc_phase_reduce_scatter = {
  .lay_out = reduce_lay_out,
  .begin = reduce_begin,
  .exchanges = {[TAGC_EXCHANGE_SUMS] = {.wanted = has_sums, .enqueue = enqueue_sums, .then = reduce_prepare},
                [TAGC_EXCHANGE_EXPONENTS] = {.wanted = has_exponents, .enqueue = enqueue_exponents, .then = reduce_ask},
                [TAGC_EXCHANGE_LAST] = {.wanted = has_last, .enqueue = enqueue_last, .then = reduce_hear}},
  .encoded = TAGC_MARK_ENCODED,
  .exchanged = TAGC_MARK_EXCHANGED,
  .encode = reduce_encode,
  .enqueue_payloads = reduce_enqueue_payloads,
  .decode = reduce_decode,
  .after_decode = reduce_after_decode,
  .commit = reduce_commit,
  .abort = reduce_abort,
};
