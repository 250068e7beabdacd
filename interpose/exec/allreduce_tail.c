/* SPDX-License-Identifier: BSD-3-Clause
 * The second half of an all-reduce, whose first half (reduce_scatter.c) has left each rank its shard of the sum, where that lies in the whole:
 * encode, {payloads, and the tail}, decode.
 *
 * All ranks decode all payloads, their own, too, so that all end with the same bytes. The tail, fewer elements than there are ranks,
 * is summed as it came. In two levels all this goes between all ranks all the same: shard j is rank j's, wherever it is.
 */
#include "interpose/exec/work.h"

/* What a flush has summed in full precision stays so. */
static bool tail_is_encoded(const struct tagc_work *w) { return w->gather.codec && tagc_work_compresses(w); }

/* In the tally of the first half, which has begun with the call and ends with it. */
static bool tail_mark(const struct tagc_work *w, enum tagc_mark mark)
{
  void *tally = w->reduce.job.tally;
  return !tally || !tagc_work_compresses(w) ||
         w->device->tally_mark(w->device, tally, mark, w->call->trace.number, w->call->stream);
}

static void tail_lay_out(struct tagc_work *w)
{
  const struct tagc_call *call = w->call;
  const struct tagc_comm *comm = call->comm;
  const struct tagc_slot *slot = &comm->slots[call->slot];
  w->gather.codec = slot->allgather_phase.codec;
  w->gather.handle = comm->handle;
  w->gather.job = (struct tagc_allgather_job){
    .shape = slot->allgather_phase.shape, .layout = slot->allgather_phase.layout, .rank = comm->rank, .send = w->reduce.job.recv, .recv = call->recv,
    .seed = w->reduce.job.seed,
  };
  if (tail_is_encoded(w))
    tagc_gather_assign_buffers(w, 1, &slot->allgather_phase_chunks, comm->memory.workspace);
}

static ncclResult_t tail_encode(struct tagc_work *w, unsigned chunk, void *stream)
{
  struct tagc_allgather_job *job = tagc_gather_job(&w->gather, chunk);
  return tagc_work_done(!tail_is_encoded(w) || w->device->allgather_encode(w->device, w->gather.codec, job, stream));
}

static ncclResult_t tail_after_encode(struct tagc_work *w, unsigned chunk)
{
  return tagc_work_done(chunk > 0 || tail_mark(w, TAGC_MARK_SUMS_ENCODED));
}

static ncclResult_t tail_enqueue_payloads(const struct tagc_exchange *real, struct tagc_work *w, unsigned chunk)
{
  const struct tagc_call *call = w->call;
  const struct tagc_allgather_shape *shape = &w->gather.job.shape;
  const uint64_t whole = shape->n * (uint64_t)shape->nranks, tail = call->count - whole;
  const size_t at = (size_t)whole * tagc_dtype_size(shape->dtype);
  ncclResult_t status = tagc_gather_enqueue(real, w, chunk, tail_is_encoded(w));
  if (tail && chunk == 0 && status == ncclSuccess)
    status = real->all_reduce((const uint8_t *)call->send + at, (uint8_t *)call->recv + at, tail, call->type, call->op,
                              w->gather.handle, call->stream);
  return status;
}

static ncclResult_t tail_after_exchange(struct tagc_work *w, unsigned chunk)
{
  return tagc_work_done(chunk + 1 < w->chunks[1] || tail_mark(w, TAGC_MARK_SUMS_EXCHANGED));
}

static ncclResult_t tail_decode(struct tagc_work *w, unsigned chunk, void *stream)
{
  struct tagc_allgather_job *job = tagc_gather_job(&w->gather, chunk);
  return tagc_work_done(!tail_is_encoded(w) || w->device->allgather_decode(w->device, w->gather.codec, job, stream));
}

static ncclResult_t tail_after_decode(struct tagc_work *w) { return tagc_work_done(tail_mark(w, TAGC_MARK_DECODED)); }

/* The first phase ends the work of both. */
const struct tagc_phase tagc_phase_tail = {
  .lay_out = tail_lay_out,
  .encode = tail_encode,
  .after_encode = tail_after_encode,
  .enqueue_payloads = tail_enqueue_payloads,
  .after_exchange = tail_after_exchange,
  .decode = tail_decode,
  .after_decode = tail_after_decode,
};
