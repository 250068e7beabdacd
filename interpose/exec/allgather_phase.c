/* SPDX-License-Identifier: BSD-3-Clause
 * The second half of an all-reduce: encode, {payloads, and the tail}, decode. The first half (reduce_scatter.c) has
 * left each rank its shard of the sum at its place in the whole.
 *
 * All ranks decode all payloads, even their own, so that all end with the same bytes. The tail, fewer elements than
 * there are ranks, is summed plainly. In two levels, too, all ranks take part: shard j is rank j's, wherever it is.
 */
#include "interpose/exec/work.h"

/* A flush sums in full precision, and its sums stay so. */
static bool sums_is_encoded(const struct tagc_work *w) { return w->allgather.codec && tagc_work_compresses(w); }

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
}

static ncclResult_t sums_encode(struct tagc_work *w, unsigned chunk, void *stream) {
  struct tagc_allgather_job *job = tagc_work_allgather_job(&w->allgather, chunk);
  return tagc_work_done(!sums_is_encoded(w) || w->device->allgather_encode(w->device, w->allgather.codec, job, stream));
}

static ncclResult_t sums_enqueue_payloads(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk) {
  const struct tagc_call *call = w->call;
  const struct tagc_allgather_shape *shape = &w->allgather.job.shape;
  const uint64_t whole = shape->n * (uint64_t)shape->nranks, tail = call->count - whole;
  const size_t at = (size_t)whole * tagc_dtype_size(shape->dtype);
  ncclResult_t status = tagc_work_enqueue_allgather(real, w, chunk, sums_is_encoded(w));
  if (tail && chunk == 0 && status == ncclSuccess)
    status = real->all_reduce((const uint8_t *)call->send + at, (uint8_t *)call->recv + at, tail, call->type, call->op,
                              w->allgather.handle, call->stream);
  return status;
}

static ncclResult_t sums_decode(struct tagc_work *w, unsigned chunk, void *stream) {
  struct tagc_allgather_job *job = tagc_work_allgather_job(&w->allgather, chunk);
  return tagc_work_done(!sums_is_encoded(w) || w->device->allgather_decode(w->device, w->allgather.codec, job, stream));
}

static ncclResult_t sums_after_decode(struct tagc_work *w) {
  return tagc_work_done(!tagc_work_compresses(w) || tagc_work_mark(w, TAGC_MARK_DECODED));
}

/* The first phase commits or aborts the work of both. */
const struct tagc_phase tagc_phase_sums = {
  .lay_out = sums_lay_out,
  .encoded = TAGC_MARK_SUMS_ENCODED,
  .exchanged = TAGC_MARK_SUMS_EXCHANGED,
  .encode = sums_encode,
  .enqueue_payloads = sums_enqueue_payloads,
  .decode = sums_decode,
  .after_decode = sums_after_decode,
};
