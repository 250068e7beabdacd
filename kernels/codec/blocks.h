/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of the dense codecs that the host and GPU kernels share: the work per block, and
 * the work per element that the host does not do in vectors of sixteen.
 *
 * Scales   are the upper halves of floats (bf16).
 * Chance   Rounding by chance adds r of 16 random bits before it rounds: scaled to between -1/2 and 1/2 for codes,
 *          unscaled for bf16. Random bits are functions of seed, sender, shard and position.
 * Threads  Pure functions. Failure: none.
 */
#ifndef KERNELS_CODEC_BLOCKS_H
#define KERNELS_CODEC_BLOCKS_H

#include "kernels/codec/bits.h"
#include "kernels/codec/exceptions.h"

enum { TAGC_DENSE_BLOCK = 256 };

#define TAGC_DENSE_HUGE_BITS 0x77800000u /* 2^112: below it, no computed value reaches 2^120 */

/* -- in and out ---------------------------------------------------------------------------------------------------- */

/* True if a block with this value needs a closer look: the value is tiny, huge, or not finite. */
static inline TAGC_HD bool tagc_dense_unusual(float value) {
  const uint32_t magnitude = tagc_bits_of(value) & 0x7fffffffu;
  return magnitude >= TAGC_DENSE_HUGE_BITS || (magnitude > 0 && magnitude < TAGC_LEAST_BITS);
}

/* The encoded part of a value: exceptions, and magnitudes that count as zero, become 0. A zero keeps its sign. */
static inline TAGC_HD float tagc_dense_strip(float value) {
  const uint32_t magnitude = tagc_bits_of(value) & 0x7fffffffu;
  return tagc_is_exception(magnitude) || (magnitude > 0 && magnitude < TAGC_LEAST_BITS) ? 0 : value;
}

/* The residual of a value in a block with unusual ones; `left`: that of the stripped value. Exceptions leave nothing; a
 * value that counted as zero stays whole. 0 also if the inverse rotation of huge values is an exception. */
static inline TAGC_HD float tagc_dense_mend(float value, float left) {
  const uint32_t magnitude = tagc_bits_of(value) & 0x7fffffffu;
  if (magnitude < TAGC_LEAST_BITS)
    left += value;
  return tagc_is_exception(magnitude) || tagc_is_exception(tagc_bits_of(left)) ? 0 : left;
}

/* True if a value is too small to be sent: by itself, or because its block is silent (its scales are zero). */
static inline TAGC_HD bool tagc_dense_loses(float value, bool silent) {
  const uint32_t magnitude = tagc_bits_of(value) & 0x7fffffffu;
  return magnitude > 0 && !tagc_is_exception(magnitude) && (silent || magnitude < TAGC_LEAST_BITS);
}

/* True if x / divisor equals x * (1 / divisor) to the bit: the divisor is a power of two. */
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

/* `x`: a value times the inverse of its scale, plus chance. Returns its code: a whole number within +-limit. */
static inline TAGC_HD float tagc_code(float x, float limit) {
  x = x + TAGC_NEAREST - TAGC_NEAREST;
  return x > limit ? limit : x < -limit ? -limit : x;
}

/* -- q3 ------------------------------------------------------------------------------------------------------------ */

/* The best seven levels for a normal distribution, in units of its deviation (Max 1960): zero and these, of either
 * sign. An eighth one is for the largest values, on their side alone. */
#define TAGC_Q3_LEVEL1 0.5606f
#define TAGC_Q3_LEVEL2 1.188f
#define TAGC_Q3_LEVEL3 2.033f
#define TAGC_Q3_TOP 2.9f

enum { TAGC_Q3_HALF = TAGC_DENSE_BLOCK / 2 };

/* `most`: the largest magnitude of a half block, a bit to the left, and its sign as the lowest bit (of two alike the
 * negative one). Returns the power of two by which the squares of the half neither overflow nor vanish: 1 for a
 * magnitude from 2^-40 to 2^41, else that which brings it to [1, 2). It is negative if the value is; 0 for a silent
 * half. */
static inline TAGC_HD float tagc_q3_power(uint32_t most) {
  const uint32_t exponent = most >> 24, usual = exponent >= 87 && exponent <= 167;
  return most >> 1 < TAGC_SILENT_BITS ? 0 : tagc_float_of(most << 31 | (usual ? 127u : 254u - exponent) << 23);
}

/* The sum of the squares of a half as its levels see it: the largest value is four deviations away at most. Else levels
 * would be far from the large values of a half that has only a few. */
static inline TAGC_HD float tagc_q3_spread(float squares, uint32_t most, float power) {
  const float largest = tagc_float_of(most >> 1) * power, least = largest * largest * (TAGC_Q3_HALF / 16);
  return squares > least ? squares : least;
}

/* The squares half way between neighbouring levels. */
static inline TAGC_HD void tagc_q3_thresholds(float spread, float threshold[4]) {
  const float middle[4] = {TAGC_Q3_LEVEL1 / 2, (TAGC_Q3_LEVEL1 + TAGC_Q3_LEVEL2) / 2,
                           (TAGC_Q3_LEVEL2 + TAGC_Q3_LEVEL3) / 2, (TAGC_Q3_LEVEL3 + TAGC_Q3_TOP) / 2};
  for (int i = 0; i < 4; i++)
    threshold[i] = spread * (middle[i] * middle[i] / TAGC_Q3_HALF);
}

/* The code of a value that was multiplied with the power: 0 to 3 for zero and the levels, 4 more if it is negative. The
 * code of a negative zero is that of the top. */
static inline TAGC_HD uint32_t tagc_q3_code(float v, const float threshold[4]) {
  const float square = v * v;
  const uint32_t level = (square > threshold[0]) + (square > threshold[1]) + (square > threshold[2]);
  return v < 0 && level > 0 ? level + 4 : level + (v > 0 && square > threshold[3]);
}

/* The scale with the least error, <v, level> / <level, level>, or that with the right product, <v, v> / <v, level>. */
static inline TAGC_HD uint16_t tagc_q3_scale(float squares, float product, float levels, float power, bool unbiased) {
  return power == 0 ? 0 : tagc_to_bf16((unbiased ? squares / product : product / levels) / power);
}

/* The values of the eight codes. */
static inline TAGC_HD void tagc_q3_values(float scale, float eight[8]) {
  eight[0] = 0;
  eight[1] = TAGC_Q3_LEVEL1 * scale;
  eight[2] = TAGC_Q3_LEVEL2 * scale;
  eight[3] = TAGC_Q3_LEVEL3 * scale;
  eight[4] = TAGC_Q3_TOP * scale;
  for (int i = 5; i < 8; i++)
    eight[i] = -eight[i - 4];
}

/* -- q2 ------------------------------------------------------------------------------------------------------------ */

/* The best four levels for a normal distribution, in units of its deviation (Max 1960, Lloyd 1982). */
#define TAGC_Q2_SMALL 0.4528f
#define TAGC_Q2_LARGE 1.510f
#define TAGC_Q2_BOUNDARY 0.9816f

/* The power of two that brings `most`, which is not silent, to [1, 2), so that sums of squares do not overflow. */
static inline TAGC_HD float tagc_q2_power(uint32_t most_bits) {
  return tagc_float_of((254u - (most_bits >> 23)) << 23);
}

/* Squares above this have the large level; `squares`: the sum of all squares of the block. */
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
