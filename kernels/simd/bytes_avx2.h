/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of 64 bytes in AVX2: two of 32. See bytes_plain.h for each operation.
 */
#ifndef KERNELS_SIMD_BYTES_AVX2_H
#define KERNELS_SIMD_BYTES_AVX2_H

#include <immintrin.h>

#include "kernels/simd/bytes.h"

struct v64 {
  __m256i low, high;
};

#define V64(low, high) ((struct v64){low, high})

TAGC_OPERATION __m256i load32x8(const void *from) { return _mm256_loadu_si256((const __m256i *)from); }
TAGC_OPERATION void store32x8(void *to, __m256i x) { _mm256_storeu_si256((__m256i *)to, x); }

TAGC_OPERATION void v64_store(uint8_t *to, struct v64 x) {
  store32x8(to, x.low);
  store32x8(to + 32, x.high);
}

TAGC_OPERATION struct v64 v64_load(const uint8_t *from) { return V64(load32x8(from), load32x8(from + 32)); }

/* Quarters 0, 2, 1, 3: repairs the order after packing and unpacking within halves. */
TAGC_OPERATION __m256i swap_quarters(__m256i x) { return _mm256_permute4x64_epi64(x, 0xd8); }

/* Splits 32 halves into 32 bytes each. */
TAGC_OPERATION void split(__m256i a, __m256i b, __m256i *exponents, __m256i *rests) {
  const __m256i byte = _mm256_set1_epi16(0xff), sign = _mm256_set1_epi16(0x80), mantissa = _mm256_set1_epi16(0x7f);
  const __m256i exponent_a = _mm256_and_si256(_mm256_srli_epi16(a, 7), byte);
  const __m256i exponent_b = _mm256_and_si256(_mm256_srli_epi16(b, 7), byte);
  const __m256i rest_a =
    _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(a, 8), sign), _mm256_and_si256(a, mantissa));
  const __m256i rest_b =
    _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(b, 8), sign), _mm256_and_si256(b, mantissa));
  *exponents = swap_quarters(_mm256_packus_epi16(exponent_a, exponent_b));
  *rests = swap_quarters(_mm256_packus_epi16(rest_a, rest_b));
}

TAGC_OPERATION void v64_split16(const uint16_t *from, struct v64 *exponents, struct v64 *rests) {
  split(load32x8(from), load32x8(from + 16), &exponents->low, &rests->low);
  split(load32x8(from + 32), load32x8(from + 48), &exponents->high, &rests->high);
}

/* The upper halves of sixteen fp32; stores the lower ones. */
TAGC_OPERATION __m256i upper16(const uint32_t *from, uint16_t *lows) {
  const __m256i a = load32x8(from), b = load32x8(from + 8), low = _mm256_set1_epi32(0xffff);
  store32x8(lows, swap_quarters(_mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low))));
  return swap_quarters(_mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16)));
}

TAGC_OPERATION void v64_split32(const uint32_t *from, struct v64 *exponents, struct v64 *rests, uint16_t *lows) {
  split(upper16(from, lows), upper16(from + 16, lows + 16), &exponents->low, &rests->low);
  split(upper16(from + 32, lows + 32), upper16(from + 48, lows + 48), &exponents->high, &rests->high);
}

/* Joins sixteen halves. */
TAGC_OPERATION __m256i join(__m128i exponents, __m128i rests) {
  const __m256i exponent = _mm256_slli_epi16(_mm256_cvtepu8_epi16(exponents), 7), rest = _mm256_cvtepu8_epi16(rests);
  const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(rest, 8), _mm256_set1_epi16((short)0x8000));
  return _mm256_or_si256(_mm256_or_si256(exponent, sign), _mm256_and_si256(rest, _mm256_set1_epi16(0x7f)));
}

TAGC_OPERATION void join_all(struct v64 e, struct v64 r, __m256i half[4]) {
  half[0] = join(_mm256_castsi256_si128(e.low), _mm256_castsi256_si128(r.low));
  half[1] = join(_mm256_extracti128_si256(e.low, 1), _mm256_extracti128_si256(r.low, 1));
  half[2] = join(_mm256_castsi256_si128(e.high), _mm256_castsi256_si128(r.high));
  half[3] = join(_mm256_extracti128_si256(e.high, 1), _mm256_extracti128_si256(r.high, 1));
}

TAGC_OPERATION void v64_join16(struct v64 exponents, struct v64 rests, uint16_t *to) {
  __m256i half[4];
  join_all(exponents, rests, half);
  for (int i = 0; i < 4; i++)
    store32x8(to + 16 * i, half[i]);
}

TAGC_OPERATION void v64_join32(struct v64 exponents, struct v64 rests, const uint16_t *lows, uint32_t *to) {
  __m256i half[4];
  join_all(exponents, rests, half);
  for (int i = 0; i < 4; i++) {
    const __m256i high = swap_quarters(half[i]), low = swap_quarters(load32x8(lows + 16 * i));
    store32x8(to + 16 * i, _mm256_unpacklo_epi16(low, high));
    store32x8(to + 16 * i + 8, _mm256_unpackhi_epi16(low, high));
  }
}

TAGC_OPERATION uint32_t above32x8(__m256i x, __m256i least) {
  return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(x, least), x));
}

TAGC_OPERATION uint64_t v64_above(struct v64 x, uint8_t limit) {
  const __m256i least = _mm256_set1_epi8((char)(limit + 1));
  return above32x8(x.low, least) | (uint64_t)above32x8(x.high, least) << 32;
}

TAGC_OPERATION struct v64 v64_max(struct v64 a, struct v64 b) {
  return V64(_mm256_max_epu8(a.low, b.low), _mm256_max_epu8(a.high, b.high));
}

TAGC_OPERATION uint32_t v64_least_group(struct v64 x) {
  const __m256i half = _mm256_max_epu8(x.low, x.high);
  const __m128i quarter = _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  return (uint32_t)_mm_extract_epi16(
    _mm_minpos_epu16(_mm_cvtepu8_epi16(_mm_max_epu8(quarter, _mm_srli_si128(quarter, 8)))), 0);
}

TAGC_OPERATION struct v64 v64_codes(struct v64 exponents, uint32_t base) {
  const __m256i all = _mm256_set1_epi8((char)base), escape = _mm256_set1_epi8(TAGC_LOSSLESS_ESCAPE);
  return V64(_mm256_min_epu8(_mm256_sub_epi8(all, exponents.low), escape),
             _mm256_min_epu8(_mm256_sub_epi8(all, exponents.high), escape));
}

/* A byte of 255 for each set bit of 32. */
TAGC_OPERATION __m256i spread(uint32_t bits) {
  const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
  return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), which), bit), bit);
}

TAGC_OPERATION __m256i exponents32(__m256i base, uint32_t plane0, uint32_t plane1, uint32_t plane2) {
  base = _mm256_add_epi8(base, spread(plane0));
  base = _mm256_sub_epi8(base, _mm256_and_si256(spread(plane1), _mm256_set1_epi8(2)));
  return _mm256_sub_epi8(base, _mm256_and_si256(spread(plane2), _mm256_set1_epi8(4)));
}

TAGC_OPERATION struct v64 v64_exponents(uint32_t base, const uint64_t plane[3]) {
  const __m256i all = _mm256_set1_epi8((char)base);
  return V64(exponents32(all, (uint32_t)plane[0], (uint32_t)plane[1], (uint32_t)plane[2]),
             exponents32(all, (uint32_t)(plane[0] >> 32), (uint32_t)(plane[1] >> 32), (uint32_t)(plane[2] >> 32)));
}

TAGC_OPERATION uint64_t top_bits(__m256i low, __m256i high) {
  return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

TAGC_OPERATION void v64_planes(struct v64 codes, uint64_t plane[3]) {
  plane[0] = top_bits(_mm256_slli_epi16(codes.low, 7), _mm256_slli_epi16(codes.high, 7));
  plane[1] = top_bits(_mm256_slli_epi16(codes.low, 6), _mm256_slli_epi16(codes.high, 6));
  plane[2] = top_bits(_mm256_slli_epi16(codes.low, 5), _mm256_slli_epi16(codes.high, 5));
}

TAGC_OPERATION uint32_t first_bit(uint64_t bits) { return (uint32_t)_tzcnt_u64(bits); }

TAGC_OPERATION uint32_t v64_count(struct v64 x, uint32_t number) {
  const __m256i all = _mm256_set1_epi8((char)number);
  return (uint32_t)__builtin_popcountll(top_bits(_mm256_cmpeq_epi8(x.low, all), _mm256_cmpeq_epi8(x.high, all)));
}

TAGC_OPERATION struct v64 v64_all(uint32_t byte) {
  const __m256i x = _mm256_set1_epi8((char)byte);
  return V64(x, x);
}

TAGC_OPERATION struct v64 v64_min(struct v64 a, struct v64 b) {
  return V64(_mm256_min_epu8(a.low, b.low), _mm256_min_epu8(a.high, b.high));
}

TAGC_OPERATION struct v64 v64_plus(struct v64 a, struct v64 b) {
  return V64(_mm256_adds_epu8(a.low, b.low), _mm256_adds_epu8(a.high, b.high));
}

TAGC_OPERATION struct v64 v64_minus(struct v64 a, struct v64 b) {
  return V64(_mm256_subs_epu8(a.low, b.low), _mm256_subs_epu8(a.high, b.high));
}

TAGC_OPERATION struct v64 v64_and(struct v64 a, struct v64 b) {
  return V64(_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high));
}

TAGC_OPERATION __m256i nonzero32x8(__m256i a) {
  return _mm256_xor_si256(_mm256_cmpeq_epi8(a, _mm256_setzero_si256()), _mm256_set1_epi8(-1));
}

TAGC_OPERATION struct v64 v64_nonzero(struct v64 a) { return V64(nonzero32x8(a.low), nonzero32x8(a.high)); }

TAGC_OPERATION __m256i spread32x8(uint32_t mask) {
  const __m256i at = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201), all = _mm256_set1_epi32((int)mask);
  return _mm256_min_epu8(_mm256_and_si256(_mm256_shuffle_epi8(all, at), bit), _mm256_set1_epi8(1));
}

TAGC_OPERATION struct v64 v64_spread(uint64_t mask) {
  return V64(spread32x8((uint32_t)mask), spread32x8((uint32_t)(mask >> 32)));
}

TAGC_OPERATION struct v64 v64_lookup(const uint8_t table[16], struct v64 at) {
  const __m256i all = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
  return V64(_mm256_shuffle_epi8(all, at.low), _mm256_shuffle_epi8(all, at.high));
}

TAGC_OPERATION struct v64 v64_low_digits(struct v64 a) { return v64_and(a, v64_all(15)); }

TAGC_OPERATION struct v64 v64_high_digits(struct v64 a) {
  return v64_and(V64(_mm256_srli_epi16(a.low, 4), _mm256_srli_epi16(a.high, 4)), v64_all(15));
}

TAGC_OPERATION uint32_t v64_sum(struct v64 a) {
  const __m256i none = _mm256_setzero_si256();
  const __m256i sums = _mm256_add_epi64(_mm256_sad_epu8(a.low, none), _mm256_sad_epu8(a.high, none));
  const __m128i both = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  return (uint32_t)(_mm_cvtsi128_si64(both) + _mm_extract_epi64(both, 1));
}

#undef V64

#endif
