/* SPDX-License-Identifier: BSD-3-Clause
 * The codec for all-gathers that sends fp32 parameters as bf16: the template for new ones.
 *
 * Payload    header (allgather.h), then
 *              values   n x bf16, rounded to nearest even, padded with zeros to 16 bytes
 * Example    n = 3, shard (1, -2, 0.5): 16 zeros, 80 3f  00 c0  00 3f, ten zeros: 32 bytes.
 * Values     Infinities stay, NaNs become the one of all codecs; values that round beyond the largest bf16 become
 *            infinite, as in a cast.
 * Types      Other types gain nothing: layout() refuses them.
 */
#include <string.h>

#include "kernels/allgather/kernels.h"
#include "kernels/codec/fpmode.h"

enum { VALUES = sizeof(struct tagc_allgather_header) };

/* Sizes only, from the shape only: every rank computes this for itself and must get the same. */
static bool allgather_bf16_layout(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  if (shape->dtype != TAGC_FLOAT32 || !tagc_allgather_shape_fits(shape))
    return false;
  *out = (struct tagc_allgather_layout){.payload_bytes = VALUES + tagc_pad16(shape->n * 2)};
  return out->payload_bytes < shape->n * 4;
}

static void allgather_bf16_encode(struct tagc_allgather_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  uint8_t *payload = tagc_allgather_payload(job, job->rank);
  struct tagc_allgather_norms norms = {0};
  memset(payload, 0, VALUES);
  memset(payload + job->layout.payload_bytes - 16, 0, 16); /* the place of padding: values are written later */
  tagc_allgather_kernels()->bf16_encode(job->send, job->shape.n, (uint16_t *)(payload + VALUES),
                                        job->stats ? &norms : NULL);
  tagc_allgather_set_norms(job, norms);
  tagc_fpmode_leave(mode);
}

static void allgather_bf16_decode(struct tagc_allgather_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  for (int rank = 0; rank < job->shape.nranks; rank++)
    if (rank != job->rank || !job->keep_own)
      tagc_allgather_kernels()->bf16_decode((const uint16_t *)(tagc_allgather_payload(job, rank) + VALUES),
                                            job->shape.n, tagc_allgather_shard(job, rank));
  job->refused = false;
  tagc_fpmode_leave(mode);
}

const struct tagc_allgather_codec tagc_allgather_bf16 = {
  .name = "bf16",
  .exact = false,
  .may_refuse = false,
  .layout = allgather_bf16_layout,
  .encode = allgather_bf16_encode,
  .decode = allgather_bf16_decode,
  .refer = NULL,
};
