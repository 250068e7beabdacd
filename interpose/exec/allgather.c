/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of an all-gather that is compressed, or plain as a new reference for a codec: encode, {payloads}, decode,
 * and if some rank's payload holds no shard {the plain call}, refer.
 *
 * Of the call they use only what parameters_lay_out() puts into w->allgather: buffers, sizes and codec. So they also
 * exchange the second half of an all-reduce (allgather_phase.c).
 */
#include "env/hash.h"
#include "env/log.h"
#include "interpose/comm/allgathers.h"
#include "interpose/comm/chunking.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/loss_samples.h"
#include "interpose/exec/work.h"
#include "interpose/nccl/process.h"
#include "interpose/policy/choose_allgather.h"

/* ---- what is exchanged ------------------------------------------------------------------------------------------- */

static ncclResult_t parameters_enqueue_plain(const struct tagc_nccl_group *real, struct tagc_work *w) {
  const struct tagc_allgather_job *job = &w->allgather.job;
  return real->all_gather(job->send, job->recv, job->shape.n, w->call->type, w->allgather.handle, w->call->stream);
}

ncclResult_t tagc_work_enqueue_allgather(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk,
                                         bool encoded) {
  const struct tagc_allgather_job *job = tagc_work_allgather_job(&w->allgather, chunk);
  if (!encoded)
    return parameters_enqueue_plain(real, w);
  return real->all_gather(tagc_allgather_payload(job, job->rank), job->payloads, job->layout.payload_bytes, ncclUint8,
                          w->allgather.handle, w->call->stream);
}

static ncclResult_t parameters_enqueue_payloads(const struct tagc_nccl_group *real, struct tagc_work *w,
                                                unsigned chunk) {
  return tagc_work_enqueue_allgather(real, w, chunk, tagc_work_compresses(w));
}

/* Must the call be repeated plainly? All ranks have the same answer. */
static bool is_refused(const struct tagc_work *w) { return w->allgather.refused; }

/* ---- the steps --------------------------------------------------------------------------------------------------- */

static uint64_t parameters_seed(const struct tagc_call *call, const struct tagc_allgather *a) {
  const uint64_t words[] = {tagc_library_options()->seed, (uint64_t)call->allgather, a->calls};
  return tagc_hash_words(words, sizeof words);
}

void tagc_work_assign_chunks(struct tagc_work *w, int phase, const struct tagc_allgather_chunking *chunking,
                             uint8_t *base) {
  struct tagc_allgather_work *allgather = &w->allgather;
  allgather->chunks = w->chunks[phase] = (unsigned)chunking->chunks.count;
  tagc_chunking_assign_allgather(chunking, &allgather->job, allgather->chunk, base);
  for (unsigned k = 0; k < allgather->chunks; k++) {
    allgather->chunk[k].stats = allgather->job.stats ? &allgather->seen[k] : NULL;
    allgather->chunk[k].beside = true;
  }
}

static void parameters_lay_out(struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  const struct tagc_comm *comm = call->comm;
  struct tagc_allgather *a = tagc_allgather_of(comm, call), *first = tagc_allgather_first(comm, a);
  const size_t shard = call->count * tagc_dtype_size(a->shape.dtype);
  struct tagc_ledger_row *row = tagc_ledger_allgather_row(comm->ledger, call->allgather);
  w->allgather.codec = a->codec;
  w->allgather.handle = comm->handle;
  w->allgather.job = (struct tagc_allgather_job){
    .shape = a->shape,
    .layout = a->layout,
    .rank = comm->rank,
    .send = call->send,
    .recv = call->recv,
    .keep_own = call->send == (const uint8_t *)call->recv + (size_t)comm->rank * shard,
    .seed = parameters_seed(call, a),
    .reference = first->reference,
    .tables = first->tables,
    .sizes = a->codec->least_bytes ? &a->sizes : NULL,
    .digest = &first->reference_digest,
    .stats = &row->allgather.stats,
    .tally = a->tally,
  };
  w->allgather.sizes_before = a->sizes.calls;
  if (w->allgather.job.sizes && a->sizes.payload_bytes)
    w->allgather.job.layout.payload_bytes = a->sizes.payload_bytes;
  w->tally = a->tally;
  if (tagc_work_compresses(w))
    tagc_work_assign_chunks(w, 0, &a->chunking, comm->memory.workspace);
  a->calls++; /* even if it fails: all ranks make the seeds of later calls from this */
}

static ncclResult_t parameters_begin(struct tagc_work *w) {
  if (w->tally)
    tagc_comm_read_allgather_tally(w->call->comm, w->tally, w->call->allgather);
  return tagc_work_done(!tagc_work_compresses(w) || tagc_work_mark(w, TAGC_MARK_BEGUN));
}

/* A rank whose reference differs from the others' sends no payload. */
static bool put_refusal(struct tagc_work *w, const struct tagc_allgather_job *job, void *stream) {
  static const struct tagc_allgather_header refused = {.flags = TAGC_ALLGATHER_REFUSED};
  return w->device->put(w->device, tagc_allgather_payload(job, job->rank), &refused, sizeof refused, stream);
}

static ncclResult_t parameters_encode(struct tagc_work *w, unsigned chunk, void *stream) {
  const struct tagc_allgather *a = tagc_allgather_of(w->call->comm, w->call);
  struct tagc_allgather_job *job = tagc_work_allgather_job(&w->allgather, chunk);
  bool good = true;
  if (tagc_work_compresses(w)) {
    good = w->device->allgather_encode(w->device, w->allgather.codec, job, stream);
    if (tagc_allgather_first(w->call->comm, a)->damaged)
      good = good && put_refusal(w, job, stream);
  }
  return tagc_work_done(good);
}

static ncclResult_t parameters_decode(struct tagc_work *w, unsigned chunk, void *stream) {
  struct tagc_allgather_job *job = tagc_work_allgather_job(&w->allgather, chunk);
  return tagc_work_done(tagc_work_compresses(w)
                          ? w->device->allgather_decode(w->device, w->allgather.codec, job, stream)
                          : w->device->allgather_refer(w->device, w->allgather.codec, job, stream));
}

/* The host waits here for the device: the next step depends on the answer. One refused chunk refuses the call. */
static bool ask_refused(struct tagc_work *w) {
  bool good = true;
  for (unsigned k = 0; k < w->chunks[0] && good && !w->allgather.refused && w->allgather.codec->may_refuse; k++)
    good = w->device->allgather_refused(w->device, w->allgather.codec, tagc_work_allgather_job(&w->allgather, k),
                                        w->call->stream, &w->allgather.refused);
  return good;
}

static ncclResult_t parameters_after_decode(struct tagc_work *w) {
  if (!tagc_work_compresses(w))
    return ncclSuccess;
  if (w->allgather.chunks > 1 && w->allgather.job.stats && w->device->host_reads)
    tagc_chunk_allgather_add_stats(&w->allgather.job, w->allgather.chunk, (int)w->allgather.chunks);
  return tagc_work_done(tagc_work_mark(w, TAGC_MARK_DECODED) && ask_refused(w));
}

static ncclResult_t refer_again(struct tagc_work *w) {
  if (!w->allgather.refused || !w->allgather.codec->refer)
    return ncclSuccess;
  return tagc_work_done(w->device->allgather_refer(w->device, w->allgather.codec, &w->allgather.job, w->call->stream));
}

/* Many changes may come again: the all-gather rests, twice as long each time. All ranks saw the same refusals. */
static void rest_after_refusals(const struct tagc_work *w, struct tagc_allgather *a) {
  if (!a->refused)
    a->rested = 0;
  if (a->refused < TAGC_ALLGATHER_JUMPS)
    return;
  a->refused = 0;
  a->rested = a->rested ? 2 * a->rested : 2;
  a->rest = a->rested = a->rested < TAGC_ALLGATHER_LONGEST_REST ? a->rested : TAGC_ALLGATHER_LONGEST_REST;
  tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu, all-gathers of %s: plain for the next %u calls: %s",
           (unsigned long long)w->call->comm->ledger->number,
           tagc_ledger_allgather_row(w->call->comm->ledger, w->call->allgather)->name, a->rest,
           tagc_reason_words(TAGC_REASON_jumps));
}

/* Makes all all-gathers of the same unit plain for good. */
static void make_unit_plain(const struct tagc_work *w, const struct tagc_allgather *a, enum tagc_reason reason,
                            enum tagc_log_level level) {
  struct tagc_comm *comm = w->call->comm;
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].first == a->first && comm->allgathers[i].reason == TAGC_REASON_compressed)
      tagc_ledger_allgather_row(comm->ledger, (int)i)->allgather.reason = comm->allgathers[i].reason = reason;
  tagc_log(level, "interpose", "communicator %llu, all-gathers of %s: plain from now on: %s",
           (unsigned long long)comm->ledger->number, tagc_ledger_allgather_row(comm->ledger, w->call->allgather)->name,
           tagc_reason_words(reason));
}

/* TAGC_ALLGATHER=auto: were the payloads of several calls in a row too large to be worth it? All ranks know the sizes.
 * An estimate decides, and no clock of this rank. What is gathered again, unchanged, says nothing. */
static void watch_speed(const struct tagc_work *w, struct tagc_allgather *a) {
  const struct tagc_comm *comm = w->call->comm;
  const struct tagc_wire *wire = &comm->ledger->wire;
  if (!tagc_choose_allgathers_may(tagc_library_options()) || a->reason != TAGC_REASON_compressed || a->again)
    return;
  const struct tagc_parameter_stats *stats = &tagc_allgather_first(comm, a)->stats;
  const double plain_ns = tagc_choose_allgather_plain_ns(&a->shape, wire);
  const double ns = tagc_choose_allgather_ns(&a->shape, stats, wire, (double)w->allgather.job.layout.payload_bytes) +
                    (w->allgather.refused ? plain_ns : 0);
  a->slow = tagc_choose_is_worth_it(ns, plain_ns) ? 0 : a->slow + 1;
  if (a->slow >= TAGC_ALLGATHER_JUMPS)
    make_unit_plain(w, a, TAGC_REASON_allgather_slower, TAGC_LOG_INFO);
}

/* All ranks saw the same refusals. */
static void watch_refusals(const struct tagc_work *w, struct tagc_allgather *a) {
  const bool refers = a->layout.reference_bytes > 0;
  a->refused = w->allgather.refused ? a->refused + 1 : 0;
  if (a->codec->least_bytes) {
    rest_after_refusals(w, a);
    watch_speed(w, a);
    return;
  }
  if (a->refused < (refers ? TAGC_ALLGATHER_JUMPS : 1) || a->reason != TAGC_REASON_compressed)
    return;
  make_unit_plain(w, a, refers ? TAGC_REASON_jumps : TAGC_REASON_escapes, TAGC_LOG_WARN);
}

/* Has this rank's shard changed since it was last gathered? If the host cannot read it, only the cycle tells. */
static void watch_repeats(const struct tagc_work *w, const struct tagc_allgather *a, struct tagc_allgather *first,
                          struct tagc_ledger_allgather *allgather, const struct tagc_traffic *sent) {
  const struct tagc_allgather_job *job = &w->allgather.job;
  const bool host_reads = w->device->host_reads;
  if (!first->repeated)
    return;
  const uint64_t digest = host_reads ? tagc_hash_words(job->send, job->shape.n * tagc_dtype_size(job->shape.dtype)) : 0;
  if (first->digest_known && (host_reads ? digest == first->digest : a->again)) {
    allgather->unchanged++;
    tagc_traffic_add(&allgather->savable, sent);
  }
  first->digest = digest;
  first->digest_known = true;
}

static void parameters_account(const struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  struct tagc_ledger *ledger = call->comm->ledger;
  struct tagc_allgather *a = tagc_allgather_of(call->comm, call), *first = tagc_allgather_first(call->comm, a);
  struct tagc_ledger_row *row = tagc_ledger_allgather_row(ledger, call->allgather);
  const struct tagc_hosts hosts = tagc_hierarchy_hosts(call->comm);
  const uint64_t shard = call->count * tagc_dtype_size(a->shape.dtype);
  const struct tagc_traffic plain = tagc_plain_traffic(shard, &hosts);
  struct tagc_traffic sent = plain;
  if (tagc_work_compresses(w)) {
    sent = tagc_plain_traffic(w->allgather.chunks > 1 ? a->layout.payload_bytes : w->allgather.job.layout.payload_bytes,
                              &hosts);
    if (w->allgather.refused)
      tagc_traffic_add(&sent, &plain);
    row->compressed++;
    call->comm->observed.gathered_cycle = call->cycle;
    row->raw_bytes += shard;
    tagc_traffic_add(&row->plain, &plain);
    tagc_traffic_add(&row->sent, &sent);
    row->allgather.refused += w->allgather.refused;
    row->allgather.own_left += w->allgather.job.keep_own && !w->allgather.codec->exact;
    ledger->allgather_times.calls += w->device->host_reads;
  } else {
    row->allgather.refreshed++;
  }
  watch_repeats(w, a, first, &row->allgather, &sent);
  tagc_traffic_add(&ledger->allgather_sent, &sent);
  tagc_traffic_add(&ledger->allgather_plain, &plain);
  w->call->trace.sent = sent;
  w->call->trace.plain = plain;
}

static void parameters_commit(struct tagc_work *w) {
  struct tagc_allgather *a = tagc_allgather_of(w->call->comm, w->call), *first = tagc_allgather_first(w->call->comm, a);
  first->referred = a->layout.reference_bytes > 0;
  if (!tagc_work_compresses(w) || w->allgather.refused)
    first->damaged = false;
  a->rest -= !tagc_work_compresses(w) && a->rest;
  parameters_account(w);
  if (tagc_work_compresses(w))
    watch_refusals(w, a);
  tagc_loss_sample_allgather(w->call);
}

/* The call has failed here. Other ranks may have updated their references. Until the next new reference, this rank has
 * none to send differences to, and says so in its payloads. The sizes of payloads stay those of the others: either no
 * rank has got this call's payloads, or decode here has set them. What follows from the sizes follows here, too. */
static void parameters_abort(struct tagc_work *w) {
  struct tagc_allgather *a = tagc_allgather_of(w->call->comm, w->call), *first = tagc_allgather_first(w->call->comm, a);
  a->rest -= !tagc_work_compresses(w) && a->rest;
  first->referred = first->layout.reference_bytes > 0; /* as on the ranks that did not fail */
  first->damaged = first->referred;
  if (!tagc_work_compresses(w) || a->sizes.calls == w->allgather.sizes_before)
    return;
  w->allgather.refused = w->allgather.job.refused;
  watch_refusals(w, a);
}

const struct tagc_phase tagc_phase_parameters = {
  .lay_out = parameters_lay_out,
  .begin = parameters_begin,
  .exchanges = {[TAGC_EXCHANGE_LAST] = {is_refused, parameters_enqueue_plain, .then = refer_again}},
  .encoded = TAGC_MARK_ENCODED,
  .exchanged = TAGC_MARK_EXCHANGED,
  .encode = parameters_encode,
  .enqueue_payloads = parameters_enqueue_payloads,
  .decode = parameters_decode,
  .after_decode = parameters_after_decode,
  .commit = parameters_commit,
  .abort = parameters_abort,
};
