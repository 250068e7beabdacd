/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that sends every value as bf16 and sums in fp32: 16 bits an element.
 *
 * Payload    Exchange A2A: exceptions (exceptions.h), then
 *              values   uint16 x n: the upper halves of the fp32 values, rounded to nearest even; padded to 16 bytes
 * Example    n = 3, shard (1, -2, 2^-130):
 *              00 00 00 00  00 00 00 00  (8 zeros)       no exceptions, room for one
 *              80 3f  00 c0  00 00  (10 zeros)           1, -2, and a value that counts as zero
 * Chance     16 random bits are added to the lower halves, which are then cut off.
 * See dense.h for sum, residual and exceptions.
 */
#include "kernels/codec/codecs.h"
#include "kernels/dense/dense.h"

#define FORMAT (&tagc_dense_formats[TAGC_DENSE_BF16])

static bool dense_bf16_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  return tagc_dense_layout(FORMAT, shape, out);
}

static void dense_bf16_encode(struct tagc_job *job) { tagc_dense_encode(FORMAT, job); }
static void dense_bf16_decode(struct tagc_job *job) { tagc_dense_decode(FORMAT, job); }

const struct tagc_codec tagc_codec_bf16 = {
  .name = "bf16",
  .needs_residual = false,
  .layout = dense_bf16_layout,
  .prepare = NULL,
  .encode = dense_bf16_encode,
  .decode = dense_bf16_decode,
};
