/* SPDX-License-Identifier: BSD-3-Clause
 * The codec for all-gathers that sends fp32 parameters as bf16: the template for new ones.
 *
 * Payload    header (allgather.h), then
 *              values   n x bf16, rounded to nearest even, padded with zeros to 16 bytes
 * Example    n = 3, shard (1, -2, 0.5): 16 zeros, 80 3f  00 c0  00 3f, ten zeros: 32 bytes.
 * Values     Infinities and NaNs stay what they are; what rounds beyond the largest bf16 becomes infinite, as it does in a cast.
 * Other types have no gain from it: layout() says no.
 */
#include <string.h>

#include "kernels/allgather.h"
#include "kernels/codec_bits.h"
#include "kernels/fpmode.h"

/* Sizes only, from the shape only: every rank computes this for itself and must get the same. */
static bool bf16_layout(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out)
{
  if (shape->dtype != TAGC_FLOAT32 || shape->n == 0 || shape->nranks < 2 || shape->n > SIZE_MAX / 8 / (size_t)shape->nranks)
    return false;
  *out = (struct tagc_allgather_layout){.payload_bytes = sizeof(struct tagc_allgather_header) + tagc_pad16(shape->n * 2)};
  return out->payload_bytes < shape->n * 4;
}

static void bf16_encode(struct tagc_allgather_job *job)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  uint8_t *payload = tagc_allgather_payload(job, job->rank);
  uint16_t *values = (uint16_t *)(payload + sizeof(struct tagc_allgather_header));
  const float *from = job->send;
  memset(payload, 0, sizeof(struct tagc_allgather_header));
  for (uint64_t i = 0; i < job->shape.n; i++)
    values[i] = tagc_to_bf16(from[i]);
  memset(values + job->shape.n, 0, job->layout.payload_bytes - sizeof(struct tagc_allgather_header) - job->shape.n * 2);
  tagc_fpmode_leave(mode);
}

static void bf16_decode(struct tagc_allgather_job *job)
{
  for (int rank = 0; rank < job->shape.nranks; rank++) {
    const uint16_t *values =
        (const uint16_t *)(tagc_allgather_payload(job, rank) + sizeof(struct tagc_allgather_header));
    float *to = (float *)job->recv + (size_t)rank * job->shape.n;
    if (rank == job->rank && job->keep_own)
      continue;
    for (uint64_t i = 0; i < job->shape.n; i++)
      to[i] = tagc_from_bf16(values[i]);
  }
  job->refused = false;
}

const struct tagc_allgather_codec tagc_allgather_bf16 = {
  .name = "bf16",
  .exact = false,
  .may_refuse = false,
  .layout = bf16_layout,
  .encode = bf16_encode,
  .decode = bf16_decode,
  .refer = NULL,
};
