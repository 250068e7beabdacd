/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that sends 8 bits an element, with a scale for each block of 256: 8.08 bits.
 *
 * Payload    Exchange A2A: exceptions (exceptions.h), then, each padded with zeros to 16 bytes,
 *              scales   uint16 x blocks: bf16; the largest magnitude of the block / 127, rounded up; 0 below 2^-110
 *              codes    int8 x 256 x blocks: x * (1 / scale), rounded to nearest even, within +-127
 *            A value is code * scale, exactly.
 * Example    n = 3, shard (127, -1, 0.5): the scale is 1.
 *              00 00 00 00  00 00 00 00  (8 zeros)       no exceptions, room for one
 *              80 3f  (14 zeros)
 *              7f  ff  00  (253 zeros)                   a half is rounded to even
 * Chance     A random number between -1/2 and 1/2 is added to x * (1 / scale) before it is rounded.
 * See dense.h for sum, residual and exceptions.
 */
#include "kernels/codec/codecs.h"
#include "kernels/dense/dense.h"

#define FORMAT (&tagc_dense_formats[TAGC_DENSE_Q8])

static bool dense_q8_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  return tagc_dense_layout(FORMAT, shape, out);
}

static void dense_q8_encode(struct tagc_job *job) { tagc_dense_encode(FORMAT, job); }
static void dense_q8_decode(struct tagc_job *job) { tagc_dense_decode(FORMAT, job); }

const struct tagc_codec tagc_codec_q8 = {
  .name = "q8",
  .needs_residual = false,
  .layout = dense_q8_layout,
  .prepare = NULL,
  .encode = dense_q8_encode,
  .decode = dense_q8_decode,
};
