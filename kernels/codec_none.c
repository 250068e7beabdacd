/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that compresses nothing: the template for new codecs, and the control that shows what the exchange costs.
 *
 * Payload    Exchange A2A, one part:
 *              values   n elements of the call's type, padded with zeros to 16 bytes
 * Example    n = 3, bf16, shard (1, -2, 0.5): 80 3f  00 c0  00 3f, ten zeros: 16 bytes.
 * Sum        The owner adds the senders' values in fp32 in rank order, its own shard last, divides, rounds once.
 * Residual   None is needed. Where there is one (compression has just changed codec) it is sent as well, and what the
 *            rounding to the call's type leaves over stays in it.
 * Exceptions None: NaN and infinities travel as what they are.
 *
 * To write another codec: copy this file, say in this comment what the bytes are (with an example that a test checks),
 * fill the table at the end, add it to codecs.h, to the list in codec.c and to kernels/local.mk.
 */
#include <string.h>

#include "kernels/codec_bits.h"
#include "kernels/codecs.h"
#include "kernels/exceptions.h"
#include "kernels/fpmode.h"

/* Sizes only, from the shape only: every rank computes this for itself and must get the same. */
static bool none_layout(const struct tagc_shape *shape, struct tagc_layout *out)
{
  uint64_t size = tagc_dtype_size(shape->dtype);
  if (shape->n == 0 || shape->nranks < 2 || shape->n > (SIZE_MAX - 15) / size)
    return false;
  *out = (struct tagc_layout){
    .message_bytes = tagc_pad16(shape->n * size),
    .capacity = shape->n,
  };
  return true;
}

/* scale*g + e, rounded; e becomes what the rounding left over. An infinity leaves nothing over. */
static void encode_shard(const struct tagc_job *job, int shard, void *message)
{
  const enum tagc_dtype dtype = job->shape.dtype;
  const void *send = tagc_job_shard(job, shard);
  float *residual = tagc_job_residual(job, shard);
  for (uint64_t i = 0; i < job->shape.n; i++) {
    float x = job->scale * tagc_load(send, i, dtype);
    if (residual) {
      x += job->residual_empty ? 0.0f : residual[i];
      tagc_store(message, i, dtype, x);
      float left = x - tagc_load(message, i, dtype);
      residual[i] = tagc_is_exception(tagc_bits_of(left)) || left != left ? 0.0f : left;
    } else {
      tagc_store(message, i, dtype, x);
    }
  }
}

static void none_encode(struct tagc_job *job)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  const size_t used = job->shape.n * tagc_dtype_size(job->shape.dtype);
  double norm2 = 0;
  for (int shard = 0; shard < job->shape.nranks; shard++) {
    if (shard == job->rank)
      continue;
    uint8_t *message = job->message_out + (size_t)shard * job->layout.message_bytes;
    encode_shard(job, shard, message);
    memset(message + used, 0, job->layout.message_bytes - used);
    const float *residual = tagc_job_residual(job, shard);
    for (uint64_t i = 0; residual && i < job->shape.n; i++)
      norm2 += (double)residual[i] * residual[i];
  }
  job->stats->selected += ((uint64_t)job->shape.nranks - 1) * job->shape.n;
  job->stats->residual_norm2 = norm2;
  tagc_fpmode_leave(mode);
}

/* Element by element, so that recv may be this rank's own shard of send. */
static void none_decode(struct tagc_job *job)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  const enum tagc_dtype dtype = job->shape.dtype;
  const void *own = tagc_job_shard(job, job->rank);
  uint32_t seen = 0;
  for (uint64_t i = 0; i < job->shape.n; i++) {
    float sum = 0;
    for (int sender = 0; sender < job->shape.nranks; sender++)
      if (sender != job->rank)
        sum += tagc_load(job->message_in + (size_t)sender * job->layout.message_bytes, i, dtype);
    sum += job->scale * tagc_load(own, i, dtype);
    seen |= tagc_is_exception(tagc_bits_of(sum));
    tagc_store_result(job->recv, i, dtype, sum, job->divisor);
  }
  job->nonfinite_seen = seen != 0;      /* of this shard only: nothing tells of the others */
  tagc_fpmode_leave(mode);
}

const struct tagc_codec tagc_codec_none = {
  .name = "none",
  .needs_residual = false,
  .layout = none_layout,
  .prepare = NULL,
  .encode = none_encode,
  .decode = none_decode,
};
