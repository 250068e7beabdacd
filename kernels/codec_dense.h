/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of the dense codecs (bf16, q8, q4, q2) that is done once a block, shared by the host and GPU kernels.
 *
 * Scales   are the upper halves of floats (bf16).
 * Chance   Rounding by chance adds r of 16 random bits before it rounds: to a number between -1/2 and 1/2 for codes, as
 *          they are for bf16. They are functions of seed, sender, shard and position.
 * Threads  Pure functions. Failure: none.
 */
#ifndef KERNELS_CODEC_DENSE_H
#define KERNELS_CODEC_DENSE_H

#include "kernels/codec_bits.h"

enum { TAGC_DENSE_BLOCK = 256 };

#define TAGC_DENSE_HUGE_BITS 0x77800000u /* 2^112: below it, nothing that is computed reaches 2^120 */

/* -- rounding by chance -------------------------------------------------------------------------------------------- */

/* The random bits of a block's elements 4 word to 4 word + 3, from the lowest 16 bits on. */
static inline TAGC_HD uint64_t tagc_chance(uint64_t key, uint64_t block, uint32_t word)
{
  return tagc_mix64(key + TAGC_DENSE_BLOCK / 4 * block + word);
}

/* -- q2 ------------------------------------------------------------------------------------------------------------ */

/* The best four levels for a normal distribution, in units of its deviation (Max 1960, Lloyd 1982). */
#define TAGC_Q2_SMALL 0.4528f
#define TAGC_Q2_LARGE 1.510f
#define TAGC_Q2_BOUNDARY 0.9816f

/* The power of two that brings `most`, which is not silent, to [1, 2): sums of squares must not overflow. */
static inline TAGC_HD float tagc_q2_power(uint32_t most_bits)
{
  return tagc_float_of((254u - (most_bits >> 23)) << 23);
}

/* Squares above this have the large level; `squares`: their sum. */
static inline TAGC_HD float tagc_q2_threshold(float squares)
{
  return squares * (TAGC_Q2_BOUNDARY * TAGC_Q2_BOUNDARY / TAGC_DENSE_BLOCK);
}

/* The scale with the least error: <v, level> / <level, level>. */
static inline TAGC_HD float tagc_q2_scale(float product, uint32_t large)
{
  return product / ((float)large * (TAGC_Q2_LARGE * TAGC_Q2_LARGE) +
                    (float)(TAGC_DENSE_BLOCK - large) * (TAGC_Q2_SMALL * TAGC_Q2_SMALL));
}

/* The scale with the right mean over all rotations: <v, v> / <v, level> (EDEN, ICML 2022). */
static inline TAGC_HD float tagc_q2_scale_unbiased(float squares, float product) { return squares / product; }

#endif
