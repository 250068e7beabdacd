/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that compresses nothing: the template for new codecs, and the control that shows the cost of the exchange.
 *
 * Payload    Exchange A2A, one part:
 *              values   n elements of the call's type, padded with zeros to 16 bytes
 * Example    n = 3, bf16, shard (1, -2, 0.5): 80 3f  00 c0  00 3f, ten zeros: 16 bytes.
 * Sum        The owner adds the senders' values in fp32 in rank order, its own shard last, divides, rounds once.
 * Residual   Needs none. If there is one (the codec has just changed), it is sent as well, and keeps the errors of
 *            rounding to the call's type.
 * Exceptions None: NaN and infinities travel as they are.
 *
 * Decode is in sums.c, once for each instruction set. A new codec may begin with plain C: tagc_load() and
 * tagc_store_result() of bits.h, block by block.
 *
 * To write another codec: copy this file, describe the bytes in this comment with an example, and follow "A codec" in
 * CONTRIBUTING.md, which lists the other files and the tests.
 */
#include <string.h>

#include "kernels/codec/bits.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/exceptions.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/residual.h"
#include "kernels/codec/variant.h"
#include "kernels/none/none.h"

enum { BLOCK = TAGC_RESIDUAL_BLOCK };

/* Sizes only, from the shape only: every rank computes this for itself and must get the same. */
bool tagc_none_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  uint64_t size = tagc_dtype_size(shape->dtype);
  if (shape->n == 0 || shape->nranks < 2 || shape->n > (SIZE_MAX - 15) / size)
    return false;
  *out = (struct tagc_layout){
    .message_bytes = tagc_pad16(shape->n * size),
    .capacity = shape->n,
  };
  return true;
}

static uint32_t none_block_at(const struct tagc_job *job, uint64_t from) {
  return job->shape.n - from < BLOCK ? (uint32_t)(job->shape.n - from) : BLOCK;
}

/* Sends scale*g + e, rounded; e becomes the error, 0 for an infinity. Returns the squared norm of the new residual. */
static double none_encode_block(const struct tagc_job *job, int shard, uint64_t from, void *message) {
  const enum tagc_dtype dtype = job->shape.dtype;
  const void *send = tagc_job_shard(job, shard);
  const uint32_t count = none_block_at(job, from);
  float residual[BLOCK] = {0};
  if (job->residual)
    tagc_residual_load(job, shard, from, count, residual);
  for (uint32_t i = 0; i < count; i++) {
    float x = job->scale * tagc_load(send, from + i, dtype) + residual[i];
    tagc_store(message, from + i, dtype, x == x ? x : tagc_float_of(TAGC_NAN_BITS));
    float left = x - tagc_load(message, from + i, dtype);
    residual[i] = tagc_is_exception(tagc_bits_of(left)) ? 0.0f : left;
  }
  return job->residual ? tagc_residual_store(job, shard, from, count, residual) : 0;
}

void tagc_none_encode(struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  const size_t used = job->shape.n * tagc_dtype_size(job->shape.dtype);
  double norm2 = 0;
  for (int shard = 0; shard < job->shape.nranks; shard++) {
    if (shard == job->rank)
      continue;
    uint8_t *message = job->message_out + (size_t)shard * job->layout.message_bytes;
    if (job->scale == 1 && !job->residual)
      memcpy(message, tagc_job_shard(job, shard), used);
    else
      for (uint64_t from = 0; from < job->shape.n; from += BLOCK)
        norm2 += none_encode_block(job, shard, from, message);
    memset(message + used, 0, job->layout.message_bytes - used);
  }
  job->stats->selected += ((uint64_t)job->shape.nranks - 1) * job->shape.n;
  job->stats->residual_norm2 = norm2;
  tagc_fpmode_leave(mode);
}

static void none_decode(struct tagc_job *job) {
  const tagc_fpmode mode = tagc_fpmode_enter();
  job->nonfinite_seen = TAGC_OF_VARIANT(tagc_none)->rank_order(job); /* of this shard only: no message has flags */
  job->surplus_seen = false;
  tagc_fpmode_leave(mode);
}

const struct tagc_codec tagc_codec_none = {
  .name = "none",
  .needs_residual = false,
  .layout = tagc_none_layout,
  .prepare = NULL,
  .encode = tagc_none_encode,
  .decode = none_decode,
};
