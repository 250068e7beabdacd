/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of 64 bytes for any processor: the reference for each operation.
 */
#ifndef KERNELS_SIMD_BYTES_PLAIN_H
#define KERNELS_SIMD_BYTES_PLAIN_H

#include <string.h>

#include "kernels/simd/bytes.h"

struct v64 {
  uint8_t byte[TAGC_BYTES];
};

static inline void v64_store(uint8_t *to, struct v64 x) { memcpy(to, x.byte, sizeof x.byte); }

static inline struct v64 v64_load(const uint8_t *from) {
  struct v64 x;
  memcpy(x.byte, from, sizeof x.byte);
  return x;
}

/* Takes 64 bf16 apart. */
static inline void v64_split16(const uint16_t *from, struct v64 *exponents, struct v64 *rests) {
  for (int i = 0; i < TAGC_BYTES; i++) {
    exponents->byte[i] = (uint8_t)tagc_lossless_exponent(from[i]);
    rests->byte[i] = (uint8_t)tagc_lossless_rest(from[i]);
  }
}

/* Takes apart the upper halves of 64 fp32 (as bits), and stores the lower ones. */
static inline void v64_split32(const uint32_t *from, struct v64 *exponents, struct v64 *rests, uint16_t *lows) {
  for (int i = 0; i < TAGC_BYTES; i++) {
    exponents->byte[i] = (uint8_t)tagc_lossless_exponent(from[i] >> 16);
    rests->byte[i] = (uint8_t)tagc_lossless_rest(from[i] >> 16);
    lows[i] = (uint16_t)from[i];
  }
}

/* Joins them again. */
static inline void v64_join16(struct v64 exponents, struct v64 rests, uint16_t *to) {
  for (int i = 0; i < TAGC_BYTES; i++)
    to[i] = (uint16_t)tagc_lossless_half(exponents.byte[i], rests.byte[i]);
}

static inline void v64_join32(struct v64 exponents, struct v64 rests, const uint16_t *lows, uint32_t *to) {
  for (int i = 0; i < TAGC_BYTES; i++)
    to[i] = tagc_lossless_half(exponents.byte[i], rests.byte[i]) << 16 | lows[i];
}

/* Bit i: is byte i larger than the limit, which is below 255? */
static inline uint64_t v64_above(struct v64 x, uint8_t limit) {
  uint64_t above = 0;
  for (int i = 0; i < TAGC_BYTES; i++)
    x.byte[i] = x.byte[i] > limit;
  for (int i = 0; i < TAGC_BYTES; i += 8) {
    uint64_t eight; /* flags, which a multiplication brings together */
    memcpy(&eight, x.byte + i, sizeof eight);
    above |= (eight * UINT64_C(0x0102040810204080) >> 56) << i;
  }
  return above;
}

static inline struct v64 v64_max(struct v64 a, struct v64 b) {
  for (int i = 0; i < TAGC_BYTES; i++)
    a.byte[i] = a.byte[i] > b.byte[i] ? a.byte[i] : b.byte[i];
  return a;
}

/* The least of the groups' largest bytes; a group: places equal modulo 8. */
static inline uint32_t v64_least_group(struct v64 x) {
  uint32_t least = UINT32_MAX;
  for (int group = 0; group < TAGC_LOSSLESS_GROUPS; group++) {
    uint32_t most = 0;
    for (int i = group; i < TAGC_BYTES; i += TAGC_LOSSLESS_GROUPS)
      most = x.byte[i] > most ? x.byte[i] : most;
    least = most < least ? most : least;
  }
  return least;
}

/* The codes of exponents. */
static inline struct v64 v64_codes(struct v64 exponents, uint32_t base) {
  for (int i = 0; i < TAGC_BYTES; i++)
    exponents.byte[i] = (uint8_t)tagc_lossless_code(exponents.byte[i], base);
  return exponents;
}

/* The exponents, from the planes of their codes. */
static inline struct v64 v64_exponents(uint32_t base, const uint64_t plane[3]) {
  struct v64 x;
  for (int i = 0; i < TAGC_BYTES; i++)
    x.byte[i] = (uint8_t)(base - ((plane[0] >> i & 1) | (plane[1] >> i & 1) << 1 | (plane[2] >> i & 1) << 2));
  return x;
}

/* The planes of codes: bit i is byte i's. */
static inline void v64_planes(struct v64 codes, uint64_t plane[3]) {
  plane[0] = plane[1] = plane[2] = 0;
  for (int i = 0; i < TAGC_BYTES; i++)
    for (int p = 0; p < 3; p++)
      plane[p] |= (uint64_t)(codes.byte[i] >> p & 1) << i;
}

/* The lowest set bit; 64: none. */
static inline uint32_t first_bit(uint64_t bits) { return bits ? (uint32_t)__builtin_ctzll(bits) : 64; }

/* Counts the bytes equal to `number` modulo 256. */
static inline uint32_t v64_count(struct v64 x, uint32_t number) {
  uint32_t count = 0;
  for (int i = 0; i < TAGC_BYTES; i++)
    count += x.byte[i] == (uint8_t)number;
  return count;
}

/* -- arithmetic, byte by byte ------------------------------------------------------------------------------------- */

static inline struct v64 v64_all(uint32_t byte) {
  struct v64 x;
  memset(x.byte, (int)byte, sizeof x.byte);
  return x;
}

static inline struct v64 v64_min(struct v64 a, struct v64 b) {
  for (int i = 0; i < TAGC_BYTES; i++)
    a.byte[i] = a.byte[i] < b.byte[i] ? a.byte[i] : b.byte[i];
  return a;
}

/* Sums stop at 255, differences at 0. */
static inline struct v64 v64_plus(struct v64 a, struct v64 b) {
  for (int i = 0; i < TAGC_BYTES; i++) {
    const uint8_t sum = (uint8_t)(a.byte[i] + b.byte[i]);
    a.byte[i] = (uint8_t)(sum | -(sum < b.byte[i]));
  }
  return a;
}

static inline struct v64 v64_minus(struct v64 a, struct v64 b) {
  for (int i = 0; i < TAGC_BYTES; i++)
    a.byte[i] = (uint8_t)((a.byte[i] > b.byte[i] ? a.byte[i] : b.byte[i]) - b.byte[i]);
  return a;
}

static inline struct v64 v64_and(struct v64 a, struct v64 b) {
  for (int i = 0; i < TAGC_BYTES; i++)
    a.byte[i] &= b.byte[i];
  return a;
}

/* 255 where a byte is not 0. */
static inline struct v64 v64_nonzero(struct v64 a) {
  for (int i = 0; i < TAGC_BYTES; i++)
    a.byte[i] = a.byte[i] ? 0xff : 0;
  return a;
}

/* Bit i of the mask in byte i. */
static inline struct v64 v64_spread(uint64_t mask) {
  struct v64 x;
  for (int i = 0; i < TAGC_BYTES; i++)
    x.byte[i] = (uint8_t)(mask >> i & 1);
  return x;
}

/* The entries of a table; each byte is below 16. */
static inline struct v64 v64_lookup(const uint8_t table[16], struct v64 at) {
  for (int i = 0; i < TAGC_BYTES; i++)
    at.byte[i] = table[at.byte[i]];
  return at;
}

static inline struct v64 v64_low_digits(struct v64 a) {
  for (int i = 0; i < TAGC_BYTES; i++)
    a.byte[i] &= 15;
  return a;
}

static inline struct v64 v64_high_digits(struct v64 a) {
  for (int i = 0; i < TAGC_BYTES; i++)
    a.byte[i] >>= 4;
  return a;
}

static inline uint32_t v64_sum(struct v64 a) {
  uint32_t sum = 0;
  for (int i = 0; i < TAGC_BYTES; i++)
    sum += a.byte[i];
  return sum;
}

#endif
