/* SPDX-License-Identifier: BSD-3-Clause
 * The rotation of q4 and q2: random signs and a Hadamard transform spread every element over its block of 256. The
 * values to quantize are then about normal, whatever the gradient looks like (DRIVE, NeurIPS 2021).
 *
 * Forward   c = H (sign * x * 2^-8): butterflies (a, b) -> (a + b, a - b) of strides 1, 2, 4, ..., 128 in this order.
 *           Scaled first, so that nothing overflows; powers of two are exact.
 * Inverse   x = sign * H c, because H H = 256.
 * Signs     New in every call and for every block of every shard, the same on all ranks: the errors of many equal steps
 *           average out. They are functions of seed and place, so any block can be decoded alone. One key has no signs:
 *           tagc_mix64(0) = 0. With seed 0 the first 64 elements of block 0 of shard 0 thus all stay positive. The
 *           caller's seed is 0 only by chance, in one of 2^64 calls.
 * Threads   Pure functions.
 */
#ifndef KERNELS_CODEC_ROTATE_H
#define KERNELS_CODEC_ROTATE_H

#include "kernels/codec/bits.h"

enum { TAGC_ROTATION = 256, TAGC_ROTATION_WORDS = TAGC_ROTATION / 64 };

/* The key for all blocks of the shard that rank `shard` receives. */
static inline TAGC_HD uint64_t tagc_rotation_key(uint64_t seed, uint32_t shard) {
  return tagc_mix64(tagc_mix64(seed) + shard);
}

/* The signs of a block's elements 64 word to 64 word + 63, from the lowest bit on; 1 is negative. */
static inline TAGC_HD uint64_t tagc_rotation_signs(uint64_t key, uint64_t block, uint32_t word) {
  return tagc_mix64(key + TAGC_ROTATION_WORDS * block + word);
}

#endif
