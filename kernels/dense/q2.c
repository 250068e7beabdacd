/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that rotates blocks of 256 and sends 2 bits an element: the best four levels for normal values. 2.08 bits.
 *
 * Payload    Exchange A2A: exceptions (exceptions.h), then, each padded with zeros to 16 bytes,
 *              scales   uint16 x blocks: bf16, for the rotated elements (rotate.h) of a block; see blocks.h; 0 if all
 *                       are below 2^-110
 *              codes    64 bytes x blocks: bits 2m and 2m + 1 of byte j are the code of rotated element j + 64m: 1 if
 *                       its magnitude is large (blocks.h), 2 if it is negative, 3 both
 *            A rotated value is +-(0.4528 * scale) or +-(1.510 * scale), rounded to fp32; the owner sums these and
 *            turns the sum back once.
 * Example    n = 1, seed 1, shard 1 is (-256): element 0 keeps its sign there, all rotated ones are -1 and large, and
 *            the scale is 1/1.510.
 *              00 00 00 00  00 00 00 00  (8 zeros)       no exceptions, room for one
 *              2a 3f  (14 zeros)
 *              ff (64 times)
 * Bias       The scale with the least error makes a gradient smaller in the mean: by the square of that error, an
 *            eighth. TAGC_ROUNDING=stochastic sends the scale with the right mean over the rotations, which are as good
 *            as random. Its error in each call is a little larger (0.37 and not 0.34). Choosing levels by chance would
 *            cost more, and still cut off values beyond the large levels.
 * See dense.h for sum, residual and exceptions.
 */
#include "kernels/codec/codecs.h"
#include "kernels/dense/dense.h"

#define FORMAT (&tagc_dense_formats[TAGC_DENSE_Q2])

static bool q2_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  return tagc_dense_layout(FORMAT, shape, out);
}

static void dense_q2_encode(struct tagc_job *job) { tagc_dense_encode(FORMAT, job); }
static void q2_decode(struct tagc_job *job) { tagc_dense_decode(FORMAT, job); }

const struct tagc_codec tagc_codec_q2 = {
  .name = "q2",
  .needs_residual = false,
  .layout = q2_layout,
  .prepare = NULL,
  .encode = dense_q2_encode,
  .decode = q2_decode,
};
