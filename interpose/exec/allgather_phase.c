/* SPDX-License-Identifier: BSD-3-Clause
 * The second half of an all-reduce: encode, {payloads, and the tail}, decode. The first half (reduce_scatter.c) has
 * left each rank its shard of the sum at its place in the whole.
 *
 * All ranks decode all payloads, even their own, so that all end with the same bytes. The tail, fewer elements than
 * there are ranks, is summed plainly. In two levels, too, all ranks take part: shard j is rank j's, wherever it is.
 *
 * After sparse and lhc most sums may be zero. Then each rank first encodes its nonzero values, and an exchange tells
 * all ranks how many bytes the largest shard takes. If these are no more than q8's, they are sent, and the sums are
 * exact. Otherwise q8 goes on as if nothing had been. Every rank has the same numbers, so all do the same. On a GPU the
 * host waits for them; there the estimates of TAGC_CODEC=auto decide for a slot (policy/choose.c).
 *
 * With TAGC_SUMS=exact sums have no codec but this one: the nonzero ones alone are gathered, or all plainly.
 */
#include "env/clock.h"
#include "interpose/exec/work.h"
#include "kernels/allgather/support.h"

/* A flush sums in full precision, and its sums stay so. */
static bool sums_is_encoded(const struct tagc_work *w) { return w->allgather.codec && tagc_work_compresses(w); }

static bool has_support(const struct tagc_work *w) { return w->allgather.support.needed != NULL; }

static bool sends_support(const struct tagc_work *w) { return w->allgather.codec == &tagc_allgather_support; }

static const struct tagc_allgather_phase *sums_phase(const struct tagc_work *w) {
  return &w->call->comm->slots[w->call->slot].allgather_phase;
}

static void sums_lay_out(struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  const struct tagc_comm *comm = call->comm;
  const struct tagc_slot *slot = &comm->slots[call->slot];
  w->allgather.codec = slot->allgather_phase.codec;
  w->allgather.handle = comm->handle;
  w->allgather.job = (struct tagc_allgather_job){
    .shape = slot->allgather_phase.shape,
    .layout = slot->allgather_phase.layout,
    .rank = comm->rank,
    .send = w->reduce.job.recv,
    .recv = call->recv,
    .seed = w->reduce.job.seed,
  };
  if (sums_is_encoded(w))
    tagc_work_assign_chunks(w, 1, &slot->allgather_phase_chunking, comm->memory.workspace);
  if (slot->allgather_phase.support.payload_bytes && tagc_work_compresses(w))
    tagc_memory_assign_support(&w->allgather.support, &slot->allgather_phase, comm->memory.workspace);
}

static ncclResult_t sums_begin(struct tagc_work *w) {
  if (!has_support(w))
    return ncclSuccess;
  const uint64_t began = tagc_clock_ns();
  struct tagc_allgather_job job = w->allgather.job;
  job.layout = sums_phase(w)->support;
  job.payloads = w->allgather.support.encoded;
  job.state = w->allgather.support.state;
  job.rank = 0; /* the only payload there */
  const bool good = w->device->allgather_encode(w->device, &tagc_allgather_support, &job, w->call->stream);
  w->took.encode_ns += tagc_clock_ns() - began;
  return tagc_work_done(good);
}

static ncclResult_t enqueue_needed(const struct tagc_nccl_group *real, struct tagc_work *w) {
  const uint8_t *own = w->allgather.support.encoded + offsetof(struct tagc_support_header, needed);
  return real->all_gather(own, w->allgather.support.needed, 1, ncclUint64, w->allgather.handle, w->call->stream);
}

/* The host waits for the device here. */
static bool read_most_needed(const struct tagc_work *w, uint64_t *most) {
  enum { SOME = 128 };
  const int ranks = w->allgather.job.shape.nranks;
  uint64_t some[SOME];
  bool good = true;
  *most = 0;
  for (int from = 0; from < ranks && good; from += SOME) {
    const int count = ranks - from < SOME ? ranks - from : SOME;
    good = w->device->get(w->device, some, w->allgather.support.needed + from, (size_t)count * sizeof *some,
                          w->call->stream);
    for (int i = 0; i < count && good; i++)
      *most = some[i] > *most ? some[i] : *most;
  }
  return good;
}

/* In place, the own shard is exact already. */
static ncclResult_t choose_support(struct tagc_work *w) {
  if (!has_support(w))
    return ncclSuccess;
  struct tagc_allgather_job *job = &w->allgather.job;
  uint64_t most;
  if (!read_most_needed(w, &most))
    return ncclUnhandledCudaError;
  if (most > sums_phase(w)->support.payload_bytes)
    return ncclSuccess;
  w->allgather.codec = &tagc_allgather_support;
  w->allgather.chunks = w->chunks[1] = 1;
  job->layout = sums_phase(w)->support;
  job->layout.payload_bytes = most;
  job->payloads = w->allgather.support.payloads;
  job->state = w->allgather.support.state;
  job->keep_own = true;
  return ncclSuccess;
}

static ncclResult_t sums_encode(struct tagc_work *w, unsigned chunk, void *stream) {
  struct tagc_allgather_job *job = tagc_work_allgather_job(&w->allgather, chunk);
  return tagc_work_done(!sums_is_encoded(w) || sends_support(w) ||
                        w->device->allgather_encode(w->device, w->allgather.codec, job, stream));
}

static ncclResult_t enqueue_shards(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk) {
  const struct tagc_allgather_work *allgather = &w->allgather;
  if (!sends_support(w))
    return tagc_work_enqueue_allgather(real, w, chunk, sums_is_encoded(w));
  return real->all_gather(allgather->support.encoded, allgather->job.payloads, allgather->job.layout.payload_bytes,
                          ncclUint8, allgather->handle, w->call->stream);
}

static ncclResult_t sums_enqueue_payloads(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk) {
  const struct tagc_call *call = w->call;
  const struct tagc_allgather_shape *shape = &w->allgather.job.shape;
  const uint64_t whole = shape->n * (uint64_t)shape->nranks, tail = call->count - whole;
  const size_t at = (size_t)whole * tagc_dtype_size(shape->dtype);
  ncclResult_t status = enqueue_shards(real, w, chunk);
  if (tail && chunk == 0 && status == ncclSuccess)
    status = real->all_reduce((const uint8_t *)call->send + at, (uint8_t *)call->recv + at, tail, call->type, call->op,
                              w->allgather.handle, call->stream);
  return status;
}

/* Sums are never refused: their ranks knew that they fit. A payload that says so all the same is damaged. */
static ncclResult_t sums_decode(struct tagc_work *w, unsigned chunk, void *stream) {
  struct tagc_allgather_job *job = tagc_work_allgather_job(&w->allgather, chunk);
  return tagc_work_done(!sums_is_encoded(w) ||
                        (w->device->allgather_decode(w->device, w->allgather.codec, job, stream) && !job->refused));
}

static ncclResult_t sums_after_decode(struct tagc_work *w) {
  return tagc_work_done(!tagc_work_compresses(w) || tagc_work_mark(w, TAGC_MARK_DECODED));
}

/* The first phase commits or aborts the work of both. */
const struct tagc_phase tagc_phase_sums = {
  .lay_out = sums_lay_out,
  .begin = sums_begin,
  .exchanges = {[TAGC_EXCHANGE_EXPONENTS] = {.wanted = has_support, .enqueue = enqueue_needed, .then = choose_support}},
  .encoded = TAGC_MARK_SUMS_ENCODED,
  .exchanged = TAGC_MARK_SUMS_EXCHANGED,
  .encode = sums_encode,
  .enqueue_payloads = sums_enqueue_payloads,
  .decode = sums_decode,
  .after_decode = sums_after_decode,
};
