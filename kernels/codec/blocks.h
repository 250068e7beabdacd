/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of the dense codecs (bf16, q8, q4, q2) that the host and GPU kernels share: what is done once a block,
 * and what is done once an element where the host has no vectors of sixteen for it.
 *
 * Scales   are the upper halves of floats (bf16).
 * Chance   Rounding by chance adds r of 16 random bits before it rounds: to a number between -1/2 and 1/2 for codes, as
 *          they are for bf16. They are functions of seed, sender, shard and position.
 * Threads  Pure functions. Failure: none.
 */
#ifndef KERNELS_CODEC_BLOCKS_H
#define KERNELS_CODEC_BLOCKS_H

#include "kernels/codec/bits.h"
#include "kernels/codec/exceptions.h"

enum { TAGC_DENSE_BLOCK = 256 };

#define TAGC_DENSE_HUGE_BITS 0x77800000u /* 2^112: below it, nothing that is computed reaches 2^120 */

/* -- in and out ---------------------------------------------------------------------------------------------------- */

/* Whether a block of such values needs a closer look: this one is tiny, huge or no number at all. */
static inline TAGC_HD bool tagc_dense_unusual(float value) {
  const uint32_t magnitude = tagc_bits_of(value) & 0x7fffffffu;
  return magnitude >= TAGC_DENSE_HUGE_BITS || (magnitude > 0 && magnitude < TAGC_LEAST_BITS);
}

/* What is encoded of a value: exceptions, and what counts as zero, are not. A zero keeps its sign. */
static inline TAGC_HD float tagc_dense_strip(float value) {
  const uint32_t magnitude = tagc_bits_of(value) & 0x7fffffffu;
  return tagc_is_exception(magnitude) || (magnitude > 0 && magnitude < TAGC_LEAST_BITS) ? 0 : value;
}

/* What stays of a value in a block with unusual ones, where `left` stays of what was stripped: nothing of exceptions,
 * all of what counted as zero. What an inverse rotation of huge values leaves beyond the exceptions' bound goes. */
static inline TAGC_HD float tagc_dense_mend(float value, float left) {
  const uint32_t magnitude = tagc_bits_of(value) & 0x7fffffffu;
  if (magnitude < TAGC_LEAST_BITS)
    left += value;
  return tagc_is_exception(magnitude) || tagc_is_exception(tagc_bits_of(left)) ? 0 : left;
}

/* Whether a value is too small to be sent: in a block of which nothing is (its scales are zero), or by itself. */
static inline TAGC_HD bool tagc_dense_loses(float value, bool silent) {
  const uint32_t magnitude = tagc_bits_of(value) & 0x7fffffffu;
  return magnitude > 0 && !tagc_is_exception(magnitude) && (silent || magnitude < TAGC_LEAST_BITS);
}

/* The quotient by a power of two is the product with its inverse, to the bit. */
static inline TAGC_HD bool tagc_divides_by_inverse(float divisor) {
  const uint32_t bits = tagc_bits_of(divisor);
  return (bits & 0x7fffffu) == 0 && bits >> 23 > 0 && bits >> 23 < 250;
}

/* -- rounding by chance -------------------------------------------------------------------------------------------- */

/* r * TAGC_CHANCE_UNIT + TAGC_CHANCE_LEAST is (r + 1/2) / 2^16 - 1/2, exactly. */
#define TAGC_CHANCE_UNIT 0x1p-16f
#define TAGC_CHANCE_LEAST (0x1p-17f - 0.5f)

/* The random bits of a block's elements 4 word to 4 word + 3, from the lowest 16 bits on. */
static inline TAGC_HD uint64_t tagc_chance(uint64_t key, uint64_t block, uint32_t word) {
  return tagc_mix64(key + TAGC_DENSE_BLOCK / 4 * block + word);
}

/* -- q8, q4 -------------------------------------------------------------------------------------------------------- */

/* The code of a value times the inverse of its scale, plus what chance adds: a whole number within +-limit. */
static inline TAGC_HD float tagc_code(float x, float limit) {
  x = x + TAGC_NEAREST - TAGC_NEAREST;
  return x > limit ? limit : x < -limit ? -limit : x;
}

/* -- q2 ------------------------------------------------------------------------------------------------------------ */

/* The best four levels for a normal distribution, in units of its deviation (Max 1960, Lloyd 1982). */
#define TAGC_Q2_SMALL 0.4528f
#define TAGC_Q2_LARGE 1.510f
#define TAGC_Q2_BOUNDARY 0.9816f

/* The power of two that brings `most`, which is not silent, to [1, 2): sums of squares must not overflow. */
static inline TAGC_HD float tagc_q2_power(uint32_t most_bits) {
  return tagc_float_of((254u - (most_bits >> 23)) << 23);
}

/* Squares above this have the large level; `squares`: their sum. */
static inline TAGC_HD float tagc_q2_threshold(float squares) {
  return squares * (TAGC_Q2_BOUNDARY * TAGC_Q2_BOUNDARY / TAGC_DENSE_BLOCK);
}

/* The scale with the least error: <v, level> / <level, level>. */
static inline TAGC_HD float tagc_q2_scale(float product, uint32_t large) {
  return product / ((float)large * (TAGC_Q2_LARGE * TAGC_Q2_LARGE) +
                    (float)(TAGC_DENSE_BLOCK - large) * (TAGC_Q2_SMALL * TAGC_Q2_SMALL));
}

/* The scale with the right mean over all rotations: <v, v> / <v, level> (EDEN, ICML 2022). */
static inline TAGC_HD float tagc_q2_scale_unbiased(float squares, float product) { return squares / product; }

/* The values of the four codes. */
static inline TAGC_HD void tagc_q2_values(uint16_t scale, float four[4]) {
  const float s = tagc_from_bf16(scale);
  four[0] = TAGC_Q2_SMALL * s;
  four[1] = TAGC_Q2_LARGE * s;
  four[2] = -four[0];
  four[3] = -four[1];
}

#endif
