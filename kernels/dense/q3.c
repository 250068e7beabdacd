/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that sends 3 bits an element, with a scale for each half block of 256, and does not rotate: seven levels,
 * and an eighth on the side of the largest value. 3.14 bits.
 *
 * Payload    Exchange A2A: exceptions (exceptions.h), then, each padded with zeros to 16 bytes,
 *              scales   uint16 x 2 x blocks: bf16, for elements 0 to 127, and 128 to 255, of a block; negative if the
 *                       value with the largest magnitude is; 0 if all are below 2^-110
 *              codes    96 bytes x blocks: bits 2m and 2m + 1 of byte j are the lower bits of the code of element
 *                       j + 64m; bit m of byte 64 + j is the upper bit of element j + 32m
 *            A value is {0, 0.5606, 1.188, 2.033, 2.9, -0.5606, -1.188, -2.033}[code] * scale, rounded to fp32. So a
 *            code is a level and a sign, but a negative zero is the top. blocks.h chooses codes.
 * Example    n = 2, shard 1 is (-2.9, 2.033): the top and the third level, and the scale is -1.
 *              00 00 00 00  00 00 00 00  (8 zeros)       no exceptions, room for one
 *              80 bf  (14 zeros)
 *              00 03  (62 zeros)
 *              01 01  (30 zeros)
 * Zero       is a level, because gradients have rows of zeros, and single large values in them.
 * Bias       The scale with the least error makes a gradient smaller: by the square of that error, a twenty-fifth.
 *            TAGC_ROUNDING=stochastic sends the scale with which the product of a half and its decoded values is
 *            right. Without a rotation equal steps have equal errors in an element; a residual delivers these.
 * See dense.h for sum, residual and exceptions.
 */
#include "kernels/codec/codecs.h"
#include "kernels/dense/dense.h"

#define FORMAT (&tagc_dense_formats[TAGC_DENSE_Q3])

static bool q3_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  return tagc_dense_layout(FORMAT, shape, out);
}

static void dense_q3_encode(struct tagc_job *job) { tagc_dense_encode(FORMAT, job); }
static void q3_decode(struct tagc_job *job) { tagc_dense_decode(FORMAT, job); }

const struct tagc_codec tagc_codec_q3 = {
  .name = "q3",
  .needs_residual = false,
  .layout = q3_layout,
  .prepare = NULL,
  .encode = dense_q3_encode,
  .decode = q3_decode,
};
