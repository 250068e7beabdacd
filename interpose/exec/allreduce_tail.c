/* SPDX-License-Identifier: BSD-3-Clause
 * The second half of an all-reduce, whose first half (reduce_scatter.c) has left each rank its shard of the sum, where that lies in the whole:
 * encode, {payloads, and the tail}, decode.
 *
 * All ranks decode all payloads, their own, too, so that all end with the same bytes. The tail, fewer elements than there are ranks,
 * is summed as it came. In two levels all this goes between all ranks all the same: shard j is rank j's, wherever it is.
 */
#include "interpose/exec/op.h"

/* What a flush has summed in full precision stays so. */
static bool is_encoded(const struct tagc_work *w) { return w->gather.codec && w->call->decision.action == TAGC_COMPRESS; }

/* In the tally of the first half, which has begun with the call and ends with it. */
static bool mark(const struct tagc_work *w, enum tagc_mark mark)
{
  void *tally = w->reduce.job.tally;
  return !tally || w->call->decision.action != TAGC_COMPRESS ||
         w->device->tally_mark(w->device, tally, mark, w->call->trace.number, w->call->stream);
}

static void lay_out(struct tagc_work *w)
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
  if (is_encoded(w))
    tagc_gather_carve(w, 1, &slot->allgather_phase_chunks, comm->workspace);
}

static ncclResult_t encode(struct tagc_work *w, unsigned piece, void *stream)
{
  struct tagc_allgather_job *job = tagc_gather_job(&w->gather, piece);
  return tagc_work_done(!is_encoded(w) || w->device->allgather_encode(w->device, w->gather.codec, job, stream));
}

static ncclResult_t encoded(struct tagc_work *w, unsigned piece)
{
  return tagc_work_done(piece > 0 || mark(w, TAGC_MARK_SUMS_ENCODED));
}

static ncclResult_t enqueue(const struct tagc_exchange *real, struct tagc_work *w, unsigned piece)
{
  const struct tagc_call *call = w->call;
  const struct tagc_allgather_shape *shape = &w->gather.job.shape;
  const uint64_t whole = shape->n * (uint64_t)shape->nranks, tail = call->count - whole;
  const size_t at = (size_t)whole * tagc_dtype_size(shape->dtype);
  ncclResult_t status = tagc_gather_enqueue(real, w, piece, is_encoded(w));
  if (tail && piece == 0 && status == ncclSuccess)
    status = real->all_reduce((const uint8_t *)call->send + at, (uint8_t *)call->recv + at, tail, call->type, call->op,
                              w->gather.handle, call->stream);
  return status;
}

static ncclResult_t exchanged(struct tagc_work *w, unsigned piece)
{
  return tagc_work_done(piece + 1 < w->pieces[1] || mark(w, TAGC_MARK_SUMS_EXCHANGED));
}

static ncclResult_t decode(struct tagc_work *w, unsigned piece, void *stream)
{
  struct tagc_allgather_job *job = tagc_gather_job(&w->gather, piece);
  return tagc_work_done(!is_encoded(w) || w->device->allgather_decode(w->device, w->gather.codec, job, stream));
}

static ncclResult_t decoded(struct tagc_work *w) { return tagc_work_done(mark(w, TAGC_MARK_DECODED)); }

/* The first half has the accounts of both. */
static void end(struct tagc_work *w) { (void)w; }

const struct tagc_part tagc_part_spread = {
  .lay_out = lay_out,
  .encode = encode,
  .encoded = encoded,
  .enqueue = enqueue,
  .exchanged = exchanged,
  .decode = decode,
  .decoded = decoded,
  .settle = end,
  .give_up = end,
};
