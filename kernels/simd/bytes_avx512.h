/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of 64 bytes in AVX-512 (F, BW, DQ, VL). See bytes_plain.h for each operation.
 */
#ifndef KERNELS_SIMD_BYTES_AVX512_H
#define KERNELS_SIMD_BYTES_AVX512_H

#include <immintrin.h>

#include "kernels/simd/bytes.h"

struct v64 {
  __m512i v;
};

TAGC_OPERATION void v64_store(uint8_t *to, struct v64 x) { _mm512_storeu_si512(to, x.v); }
TAGC_OPERATION struct v64 v64_load(const uint8_t *from) { return (struct v64){_mm512_loadu_si512(from)}; }

/* The lower bytes of 64 halves, in order. */
TAGC_OPERATION __m512i lower_bytes(__m512i low, __m512i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)), _mm512_cvtepi16_epi8(high), 1);
}

/* The rests of 32 halves: the sign in bit 7, above the mantissa. */
TAGC_OPERATION __m512i rest_of(__m512i half) {
  /* The bits of b where a is set, else those of c. */
  enum { b_where_a_else_c = 0xca };
  return _mm512_ternarylogic_epi32(_mm512_set1_epi16(0x80), _mm512_srli_epi16(half, 8), half, b_where_a_else_c);
}

TAGC_OPERATION void split(__m512i low, __m512i high, struct v64 *exponents, struct v64 *rests) {
  exponents->v = lower_bytes(_mm512_srli_epi16(low, 7), _mm512_srli_epi16(high, 7));
  rests->v = lower_bytes(rest_of(low), rest_of(high));
}

TAGC_OPERATION void v64_split16(const uint16_t *from, struct v64 *exponents, struct v64 *rests) {
  split(_mm512_loadu_si512(from), _mm512_loadu_si512(from + 32), exponents, rests);
}

/* The indices 0, 2, 4, ..., 62 of 64 halves. */
TAGC_OPERATION __m512i even_halves(void) {
  return _mm512_setr_epi32(0x20000, 0x60004, 0xa0008, 0xe000c, 0x120010, 0x160014, 0x1a0018, 0x1e001c, 0x220020,
                           0x260024, 0x2a0028, 0x2e002c, 0x320030, 0x360034, 0x3a0038, 0x3e003c);
}

TAGC_OPERATION void v64_split32(const uint32_t *from, struct v64 *exponents, struct v64 *rests, uint16_t *lows) {
  const __m512i even = even_halves(), odd = _mm512_add_epi16(even, _mm512_set1_epi16(1));
  const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 16);
  const __m512i c = _mm512_loadu_si512(from + 32), d = _mm512_loadu_si512(from + 48);
  _mm512_storeu_si512(lows, _mm512_permutex2var_epi16(a, even, b));
  _mm512_storeu_si512(lows + 32, _mm512_permutex2var_epi16(c, even, d));
  split(_mm512_permutex2var_epi16(a, odd, b), _mm512_permutex2var_epi16(c, odd, d), exponents, rests);
}

/* Joins 32 halves. */
TAGC_OPERATION __m512i join(__m256i exponents, __m256i rests) {
  const __m512i exponent = _mm512_slli_epi16(_mm512_cvtepu8_epi16(exponents), 7), rest = _mm512_cvtepu8_epi16(rests);
  const __m512i sign = _mm512_and_si512(_mm512_slli_epi16(rest, 8), _mm512_set1_epi16((short)0x8000));
  return _mm512_or_si512(_mm512_or_si512(exponent, sign), _mm512_and_si512(rest, _mm512_set1_epi16(0x7f)));
}

TAGC_OPERATION __m512i join_low(struct v64 e, struct v64 r) {
  return join(_mm512_castsi512_si256(e.v), _mm512_castsi512_si256(r.v));
}

TAGC_OPERATION __m512i join_high(struct v64 e, struct v64 r) {
  return join(_mm512_extracti64x4_epi64(e.v, 1), _mm512_extracti64x4_epi64(r.v, 1));
}

TAGC_OPERATION void v64_join16(struct v64 exponents, struct v64 rests, uint16_t *to) {
  _mm512_storeu_si512(to, join_low(exponents, rests));
  _mm512_storeu_si512(to + 32, join_high(exponents, rests));
}

/* Joins 32 fp32 from their halves. */
TAGC_OPERATION void interleave(__m512i lows, __m512i highs, uint32_t *to) {
  /* Half i of the lower one is 0 for i even, 32 (the other operand's) for i odd. */
  const __m512i first =
    _mm512_setr_epi32(0x200000, 0x210001, 0x220002, 0x230003, 0x240004, 0x250005, 0x260006, 0x270007, 0x280008,
                      0x290009, 0x2a000a, 0x2b000b, 0x2c000c, 0x2d000d, 0x2e000e, 0x2f000f);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(lows, first, highs));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(lows, second, highs));
}

TAGC_OPERATION void v64_join32(struct v64 exponents, struct v64 rests, const uint16_t *lows, uint32_t *to) {
  interleave(_mm512_loadu_si512(lows), join_low(exponents, rests), to);
  interleave(_mm512_loadu_si512(lows + 32), join_high(exponents, rests), to + 32);
}

TAGC_OPERATION uint64_t v64_above(struct v64 x, uint8_t limit) {
  return _mm512_cmpgt_epu8_mask(x.v, _mm512_set1_epi8((char)limit));
}

TAGC_OPERATION struct v64 v64_max(struct v64 a, struct v64 b) { return (struct v64){_mm512_max_epu8(a.v, b.v)}; }

TAGC_OPERATION uint32_t v64_least_group(struct v64 x) {
  const __m256i half = _mm256_max_epu8(_mm512_castsi512_si256(x.v), _mm512_extracti64x4_epi64(x.v, 1));
  const __m128i quarter = _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  return (uint32_t)_mm_extract_epi16(
    _mm_minpos_epu16(_mm_cvtepu8_epi16(_mm_max_epu8(quarter, _mm_srli_si128(quarter, 8)))), 0);
}

TAGC_OPERATION struct v64 v64_codes(struct v64 exponents, uint32_t base) {
  const __m512i below = _mm512_sub_epi8(_mm512_set1_epi8((char)base), exponents.v);
  return (struct v64){_mm512_min_epu8(below, _mm512_set1_epi8(TAGC_LOSSLESS_ESCAPE))};
}

TAGC_OPERATION struct v64 v64_exponents(uint32_t base, const uint64_t plane[3]) {
  __m512i x = _mm512_set1_epi8((char)base);
  for (int p = 0; p < 3; p++)
    x = _mm512_mask_sub_epi8(x, plane[p], x, _mm512_set1_epi8((char)(1 << p)));
  return (struct v64){x};
}

TAGC_OPERATION void v64_planes(struct v64 codes, uint64_t plane[3]) {
  for (int p = 0; p < 3; p++)
    plane[p] = _mm512_test_epi8_mask(codes.v, _mm512_set1_epi8((char)(1 << p)));
}

TAGC_OPERATION uint32_t first_bit(uint64_t bits) { return (uint32_t)_tzcnt_u64(bits); }

TAGC_OPERATION uint32_t v64_count(struct v64 x, uint32_t number) {
  return (uint32_t)__builtin_popcountll(_mm512_cmpeq_epi8_mask(x.v, _mm512_set1_epi8((char)number)));
}

TAGC_OPERATION struct v64 v64_all(uint32_t byte) { return (struct v64){_mm512_set1_epi8((char)byte)}; }
TAGC_OPERATION struct v64 v64_min(struct v64 a, struct v64 b) { return (struct v64){_mm512_min_epu8(a.v, b.v)}; }
TAGC_OPERATION struct v64 v64_plus(struct v64 a, struct v64 b) { return (struct v64){_mm512_adds_epu8(a.v, b.v)}; }
TAGC_OPERATION struct v64 v64_minus(struct v64 a, struct v64 b) { return (struct v64){_mm512_subs_epu8(a.v, b.v)}; }
TAGC_OPERATION struct v64 v64_and(struct v64 a, struct v64 b) { return (struct v64){_mm512_and_si512(a.v, b.v)}; }

TAGC_OPERATION struct v64 v64_nonzero(struct v64 a) {
  return (struct v64){_mm512_movm_epi8(_mm512_test_epi8_mask(a.v, a.v))};
}

TAGC_OPERATION struct v64 v64_spread(uint64_t mask) { return (struct v64){_mm512_maskz_set1_epi8(mask, 1)}; }

TAGC_OPERATION struct v64 v64_lookup(const uint8_t table[16], struct v64 at) {
  const __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table));
  return (struct v64){_mm512_shuffle_epi8(all, at.v)};
}

TAGC_OPERATION struct v64 v64_low_digits(struct v64 a) { return v64_and(a, v64_all(15)); }

TAGC_OPERATION struct v64 v64_high_digits(struct v64 a) {
  return v64_and((struct v64){_mm512_srli_epi16(a.v, 4)}, v64_all(15));
}

TAGC_OPERATION uint32_t v64_sum(struct v64 a) {
  return (uint32_t)_mm512_reduce_add_epi64(_mm512_sad_epu8(a.v, _mm512_setzero_si512()));
}

#endif
