/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that rotates blocks of 256 and sends 4 bits an element, with a scale for each half block: 4.14 bits.
 *
 * Payload    Exchange A2A: exceptions (exceptions.h), then, each padded with zeros to 16 bytes,
 *              scales   uint16 x 2 x blocks: bf16; for the rotated elements (rotate.h) 0 to 127, and 128 to 255, of a
 *                       block: the largest magnitude / 7, rounded up; 0 below 2^-110
 *              codes    128 bytes x blocks: byte j has in its lower half the code of rotated element j, in its upper
 *                       half that of j + 128: c * (1 / scale), rounded to nearest even, within +-7, two's complement
 *            A rotated value is code * scale, exactly; the owner sums these and turns the sum back once.
 * Example    n = 1, seed 1, shard 1 is (-1792): element 0 keeps its sign there, all rotated ones are -7, the scales 1.
 *              00 00 00 00  00 00 00 00  (8 zeros)       no exceptions, room for one
 *              80 3f  80 3f  (12 zeros)
 *              99 (128 times)
 * Chance     A random number between -1/2 and 1/2 is added to c * (1 / scale) before it is rounded.
 * See dense.h for sum, residual and exceptions.
 */
#include "kernels/codec/codecs.h"
#include "kernels/dense/dense.h"

#define FORMAT (&tagc_dense_formats[TAGC_DENSE_Q4])

static bool q4_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  return tagc_dense_layout(FORMAT, shape, out);
}

static void dense_q4_encode(struct tagc_job *job) { tagc_dense_encode(FORMAT, job); }
static void q4_decode(struct tagc_job *job) { tagc_dense_decode(FORMAT, job); }

const struct tagc_codec tagc_codec_q4 = {
  .name = "q4",
  .needs_residual = false,
  .layout = q4_layout,
  .prepare = NULL,
  .encode = dense_q4_encode,
  .decode = q4_decode,
};
