/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of the codec exact that the host and GPU kernels share: see exact.h.
 *
 * Elements   are their bits; those of 16-bit types have zeros above.
 * Threads    Pure functions. Failure: none.
 */
#ifndef KERNELS_ALLGATHER_EXACT_STEPS_H
#define KERNELS_ALLGATHER_EXACT_STEPS_H

#include "kernels/allgather/exact.h"

/* -- differences --------------------------------------------------------------------------------------------------- */

static inline TAGC_HD uint32_t tagc_exact_sign(uint32_t dtype) {
  return dtype == TAGC_FLOAT32 ? UINT32_C(0x80000000) : UINT32_C(0x8000);
}

static inline TAGC_HD uint32_t tagc_exact_mask(uint32_t dtype) {
  return dtype == TAGC_FLOAT32 ? UINT32_C(0xffffffff) : UINT32_C(0xffff);
}

/* In the order of the floats: negative ones have all bits turned, others the sign. And back. */
static inline TAGC_HD uint32_t tagc_exact_ordered(uint32_t bits, uint32_t dtype) {
  return bits ^ (bits & tagc_exact_sign(dtype) ? tagc_exact_mask(dtype) : tagc_exact_sign(dtype));
}

static inline TAGC_HD uint32_t tagc_exact_from_ordered(uint32_t ordered, uint32_t dtype) {
  return ordered ^ (ordered & tagc_exact_sign(dtype) ? tagc_exact_sign(dtype) : tagc_exact_mask(dtype));
}

/* z, and the value again. */
static inline TAGC_HD uint32_t tagc_exact_difference(uint32_t value, uint32_t reference, uint32_t dtype) {
  const uint32_t d = tagc_exact_ordered(value, dtype) - tagc_exact_ordered(reference, dtype);
  return (d << 1 ^ (d & tagc_exact_sign(dtype) ? tagc_exact_mask(dtype) : 0)) & tagc_exact_mask(dtype);
}

static inline TAGC_HD uint32_t tagc_exact_sum(uint32_t reference, uint32_t z, uint32_t dtype) {
  const uint32_t d = z >> 1 ^ (z & 1 ? UINT32_C(0xffffffff) : 0);
  return tagc_exact_from_ordered((tagc_exact_ordered(reference, dtype) + d) & tagc_exact_mask(dtype), dtype);
}

/* -- lengths ------------------------------------------------------------------------------------------------------- */

/* L: the bits of z from its highest one on. */
static inline TAGC_HD uint32_t tagc_exact_length(uint32_t z) {
#ifdef __CUDA_ARCH__
  return 32 - (uint32_t)__clz((int)z);
#else
  return z ? 32 - (uint32_t)__builtin_clz(z) : 0;
#endif
}

static inline TAGC_HD uint32_t tagc_exact_exponent(uint32_t bits, uint32_t dtype) {
  const uint32_t mantissa = dtype == TAGC_FLOAT32 ? 23 : dtype == TAGC_FLOAT16 ? 10 : 7;
  return bits >> mantissa & (dtype == TAGC_FLOAT16 ? 0x1f : 0xff);
}

/* Where an element would have the edge, one higher. 0: it has no wish. */
static inline TAGC_HD uint32_t tagc_exact_wish(uint32_t length, uint32_t exponent) {
  const uint32_t sum = exponent + length < 255 ? exponent + length : 255;
  return length > 1 && exponent ? sum : 0;
}

/* From the sum of the wishes, and their number: the more elements change, the less the mean is one of outliers. */
static inline TAGC_HD uint32_t tagc_exact_edge(uint32_t sum, uint32_t count) {
  if (sum <= count)
    return 0;
  const uint32_t edge = sum / count + (count >= 400) - (count < 64);
  return edge < 255 ? edge : 255;
}

/* k of an element with that exponent. */
static inline TAGC_HD uint32_t tagc_exact_shift(uint32_t edge, uint32_t exponent, uint32_t dtype) {
  const uint32_t most = dtype == TAGC_FLOAT32 ? 31 : 15, above = exponent && edge > exponent ? edge - exponent : 0;
  return above < most ? above : most;
}

/* The level whose map has the fewest bits, the least of equal ones, by the fours that are not 0: of the map, and of the
 * maps of fours above it. Sets its bits. */
static inline TAGC_HD uint32_t tagc_exact_level(uint32_t fours, uint32_t second, uint32_t third, uint32_t *bits) {
  const uint32_t one = TAGC_EXACT_BLOCK / 4 + 4 * fours, two = TAGC_EXACT_BLOCK / 16 + 4 * (fours + second),
                 three = TAGC_EXACT_BLOCK / 64 + 4 * (fours + second + third);
  uint32_t level = TAGC_EXACT_MAP, least = TAGC_EXACT_BLOCK;
  level = one < least ? TAGC_EXACT_MAP + 1 : level;
  least = one < least ? one : least;
  level = two < least ? TAGC_EXACT_MAP + 2 : level;
  least = two < least ? two : least;
  level = three < least ? TAGC_EXACT_MAP + 3 : level;
  *bits = three < least ? three : least;
  return level;
}

/* -- digests ------------------------------------------------------------------------------------------------------- */

/* The hash of an element at a place of its block. A block has the sum of those, and, above, the sum of their products
 * with 2 place + 1, modulo 2^32. */
static inline TAGC_HD uint32_t tagc_exact_place_hash(uint32_t place) { return place * UINT32_C(0x9e3779b9); }

static inline TAGC_HD uint32_t tagc_exact_mix_at(uint32_t bits, uint32_t place_hash) {
  const uint32_t x = (bits ^ place_hash) * UINT32_C(0x85ebca6b);
  return x ^ x >> 15;
}

static inline TAGC_HD uint32_t tagc_exact_mix(uint32_t bits, uint32_t place) {
  return tagc_exact_mix_at(bits, tagc_exact_place_hash(place));
}

/* The part of a block in its shard's digest; `first`: its first element. */
static inline TAGC_HD uint64_t tagc_exact_block_digest(uint64_t sums, uint64_t first) {
  return tagc_mix64(sums ^ tagc_mix64(first + 1));
}

/* The digest of all shards from the digests of each. */
static inline TAGC_HD uint64_t tagc_exact_add_digest(uint64_t all, uint64_t shard) {
  return tagc_mix64(all ^ shard) + 1;
}

#endif
