/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen numbers in AVX2 with F16C: two of eight. See vector_plain.h for each operation.
 */
#ifndef KERNELS_SIMD_VECTOR_AVX2_H
#define KERNELS_SIMD_VECTOR_AVX2_H

#include <immintrin.h>

#include "kernels/simd/vector.h"

struct v16 {
  __m256 low, high;
};
struct v16i {
  __m256i low, high;
};
struct v16m {
  __m256 low, high;
};

#define V16(low, high) ((struct v16){low, high})
#define V16I(low, high) ((struct v16i){low, high})
#define BOTH(f, a) ((struct v16){f((a).low), f((a).high)})
#define BOTH2(f, a, b) ((struct v16){f((a).low, (b).low), f((a).high, (b).high)})
#define BOTH2I(f, a, b) ((struct v16i){f((a).low, (b).low), f((a).high, (b).high)})

/* -- memory -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16 v16_load(const float *from) { return V16(_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)); }

TAGC_OPERATION void v16_store(float *to, struct v16 x) {
  _mm256_storeu_ps(to, x.low);
  _mm256_storeu_ps(to + 8, x.high);
}

TAGC_OPERATION struct v16i v16i_load(const void *from) {
  const __m256i *at = from;
  return V16I(_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1));
}

TAGC_OPERATION void v16i_store(void *to, struct v16i x) {
  _mm256_storeu_si256(to, x.low);
  _mm256_storeu_si256((__m256i *)to + 1, x.high);
}

TAGC_OPERATION __m128i load8x16(const void *from) { return _mm_loadu_si128((const __m128i *)from); }

TAGC_OPERATION struct v16i v16i_load_halves(const uint16_t *from) {
  return V16I(_mm256_cvtepu16_epi32(load8x16(from)), _mm256_cvtepu16_epi32(load8x16(from + 8)));
}

/* The lower halves of numbers below 2^16, in order. */
TAGC_OPERATION __m256i pack16(struct v16i x) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(x.low, x.high), 0xd8);
}

TAGC_OPERATION void v16i_store_halves(uint16_t *to, struct v16i x) { _mm256_storeu_si256((__m256i *)to, pack16(x)); }

TAGC_OPERATION __m256 upper_halves(__m256i halves) { return _mm256_castsi256_ps(_mm256_slli_epi32(halves, 16)); }

TAGC_OPERATION struct v16 v16_load_as(const void *from, enum tagc_dtype dtype) {
  if (dtype == TAGC_FLOAT32)
    return v16_load(from);
  if (dtype == TAGC_FLOAT16)
    return V16(_mm256_cvtph_ps(load8x16(from)), _mm256_cvtph_ps(load8x16((const uint16_t *)from + 8)));
  struct v16i halves = v16i_load_halves(from);
  return BOTH(upper_halves, halves);
}

TAGC_OPERATION __m256i to_bf16(__m256 x) {
  __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
}

TAGC_OPERATION void v16_store_as(void *to, enum tagc_dtype dtype, struct v16 x) {
  enum { nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
  __m256i halves;
  if (dtype == TAGC_FLOAT32) {
    v16_store(to, x);
    return;
  }
  if (dtype == TAGC_FLOAT16)
    halves = _mm256_set_m128i(_mm256_cvtps_ph(x.high, nearest), _mm256_cvtps_ph(x.low, nearest));
  else
    halves = pack16(V16I(to_bf16(x.low), to_bf16(x.high)));
  _mm256_storeu_si256(to, halves);
}

TAGC_OPERATION struct v16i v16i_load_bytes(const uint8_t *from) {
  __m128i bytes = load8x16(from);
  return V16I(_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)));
}

TAGC_OPERATION void v16i_store_bytes(uint8_t *to, struct v16i x) {
  const __m256i byte = _mm256_set1_epi32(0xff);
  __m256i halves = pack16(V16I(_mm256_and_si256(x.low, byte), _mm256_and_si256(x.high, byte)));
  __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  _mm_storeu_si128((__m128i *)to, bytes);
}

/* -- floats -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16 v16_all(float x) { return V16(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
TAGC_OPERATION struct v16 v16_add(struct v16 a, struct v16 b) { return BOTH2(_mm256_add_ps, a, b); }
TAGC_OPERATION struct v16 v16_sub(struct v16 a, struct v16 b) { return BOTH2(_mm256_sub_ps, a, b); }
TAGC_OPERATION struct v16 v16_mul(struct v16 a, struct v16 b) { return BOTH2(_mm256_mul_ps, a, b); }
TAGC_OPERATION struct v16 v16_div(struct v16 a, struct v16 b) { return BOTH2(_mm256_div_ps, a, b); }

TAGC_OPERATION float v16_sum(struct v16 x) {
  const __m256 eight = _mm256_add_ps(x.low, x.high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

TAGC_OPERATION struct v16 v16_clamp(struct v16 x, float limit) {
  x = BOTH2(_mm256_min_ps, x, v16_all(limit));
  return BOTH2(_mm256_max_ps, x, v16_all(-limit));
}

TAGC_OPERATION __m256 one_nan(__m256 x) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(TAGC_NAN_BITS));
  return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

TAGC_OPERATION struct v16 v16_one_nan(struct v16 x) { return BOTH(one_nan, x); }

/* Turns signs by the lowest eight bits. */
TAGC_OPERATION __m256 turn8(__m256 x, uint32_t bits) {
  __m256i up = _mm256_sllv_epi32(_mm256_set1_epi32((int)bits), _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
  __m256i sign = _mm256_and_si256(up, _mm256_set1_epi32((int)0x80000000u));
  return _mm256_xor_ps(x, _mm256_castsi256_ps(sign));
}

TAGC_OPERATION struct v16 v16_turn_signs(struct v16 x, uint32_t bits) {
  return V16(turn8(x.low, bits), turn8(x.high, bits >> 8));
}

/* b + a in the lanes that are first of their pairs, a - b in the others; `other` has the pairs swapped. */
#define BUTTERFLY(x, other, second) _mm256_blend_ps(_mm256_add_ps(x, other), _mm256_sub_ps(other, x), second)

TAGC_OPERATION __m256 butterflies8(__m256 x) {
  x = BUTTERFLY(x, _mm256_permute_ps(x, 0xb1), 0xaa);
  x = BUTTERFLY(x, _mm256_permute_ps(x, 0x4e), 0xcc);
  return BUTTERFLY(x, _mm256_permute2f128_ps(x, x, 1), 0xf0);
}

#undef BUTTERFLY

TAGC_OPERATION struct v16 v16_butterflies(struct v16 x) {
  __m256 low = butterflies8(x.low), high = butterflies8(x.high);
  return V16(_mm256_add_ps(low, high), _mm256_sub_ps(low, high));
}

/* -- truths -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16m v16_greater(struct v16 a, struct v16 b) {
  return (struct v16m){_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ)};
}

TAGC_OPERATION uint32_t v16m_count(struct v16m m) {
  return (uint32_t)__builtin_popcount((unsigned)(_mm256_movemask_ps(m.low) | _mm256_movemask_ps(m.high) << 8));
}

TAGC_OPERATION struct v16 v16_select(struct v16m m, struct v16 yes, struct v16 no) {
  return V16(_mm256_blendv_ps(no.low, yes.low, m.low), _mm256_blendv_ps(no.high, yes.high, m.high));
}

/* -- integers ------------------------------------------------------------------------------------------------------ */

TAGC_OPERATION struct v16i v16i_all(uint32_t x) { return V16I(_mm256_set1_epi32((int)x), _mm256_set1_epi32((int)x)); }

TAGC_OPERATION struct v16i v16i_add(struct v16i a, struct v16i b) { return BOTH2I(_mm256_add_epi32, a, b); }
TAGC_OPERATION struct v16i v16i_and(struct v16i a, struct v16i b) { return BOTH2I(_mm256_and_si256, a, b); }
TAGC_OPERATION struct v16i v16i_or(struct v16i a, struct v16i b) { return BOTH2I(_mm256_or_si256, a, b); }
TAGC_OPERATION struct v16i v16i_max(struct v16i a, struct v16i b) { return BOTH2I(_mm256_max_epu32, a, b); }
TAGC_OPERATION struct v16i v16i_min(struct v16i a, struct v16i b) { return BOTH2I(_mm256_min_epu32, a, b); }

TAGC_OPERATION struct v16i v16i_add_truth(struct v16i a, struct v16m m) {
  return V16I(_mm256_sub_epi32(a.low, _mm256_castps_si256(m.low)),
              _mm256_sub_epi32(a.high, _mm256_castps_si256(m.high)));
}

TAGC_OPERATION struct v16i v16i_keep(struct v16i a, struct v16m m) {
  return V16I(_mm256_and_si256(a.low, _mm256_castps_si256(m.low)),
              _mm256_and_si256(a.high, _mm256_castps_si256(m.high)));
}

TAGC_OPERATION struct v16i v16i_left(struct v16i a, int by) {
  return V16I(_mm256_slli_epi32(a.low, by), _mm256_slli_epi32(a.high, by));
}

TAGC_OPERATION struct v16i v16i_right(struct v16i a, int by) {
  return V16I(_mm256_srli_epi32(a.low, by), _mm256_srli_epi32(a.high, by));
}

/* Folds sixteen numbers to one. */
#define FOLD(f, a) \
  __m256i most = f((a).low, (a).high); \
  most = f(most, _mm256_permute2x128_si256(most, most, 1)); \
  most = f(most, _mm256_shuffle_epi32(most, 0x4e)); \
  most = f(most, _mm256_shuffle_epi32(most, 0xb1)); \
  return (uint32_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(most)) /* as one step it came with gcc 11 */

TAGC_OPERATION uint32_t v16i_largest(struct v16i a) { FOLD(_mm256_max_epu32, a); }
TAGC_OPERATION uint32_t v16i_least(struct v16i a) { FOLD(_mm256_min_epu32, a); }

#undef FOLD

TAGC_OPERATION bool v16i_any_above(struct v16i a, struct v16i b) {
  const __m256i low = _mm256_cmpeq_epi32(_mm256_max_epu32(a.low, b.low), b.low);
  const __m256i high = _mm256_cmpeq_epi32(_mm256_max_epu32(a.high, b.high), b.high);
  return _mm256_movemask_epi8(_mm256_and_si256(low, high)) != -1;
}

/* -- between them -------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16i v16_bits(struct v16 x) {
  return V16I(_mm256_castps_si256(x.low), _mm256_castps_si256(x.high));
}

TAGC_OPERATION struct v16 v16_from_bits(struct v16i x) { return BOTH(_mm256_castsi256_ps, x); }

TAGC_OPERATION struct v16i v16_to_int(struct v16 x) {
  return V16I(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
}

TAGC_OPERATION struct v16 v16i_to_float(struct v16i x) { return BOTH(_mm256_cvtepi32_ps, x); }

/* The sign-extended bits 28 to 31 of each number, times a factor. */
TAGC_OPERATION __m256 top_nibbles(__m256i x, float factor) {
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srai_epi32(x, 28)), _mm256_set1_ps(factor));
}

TAGC_OPERATION void v16_nibbles(const uint8_t *from, const float factor[2], struct v16 *lower, struct v16 *upper) {
  struct v16i bytes = v16i_load_bytes(from), first = v16i_left(bytes, 28), second = v16i_left(bytes, 24);
  *lower = V16(top_nibbles(first.low, factor[0]), top_nibbles(first.high, factor[0]));
  *upper = V16(top_nibbles(second.low, factor[1]), top_nibbles(second.high, factor[1]));
}

TAGC_OPERATION struct v16 v16_pick(struct v16i index, const float four[4]) {
  const __m256 all = _mm256_broadcast_ps((const __m128 *)four);
  return V16(_mm256_permutevar_ps(all, index.low), _mm256_permutevar_ps(all, index.high));
}

TAGC_OPERATION struct v16 v16_pick8(struct v16i index, const float eight[8]) {
  const __m256 all = _mm256_loadu_ps(eight);
  return V16(_mm256_permutevar8x32_ps(all, index.low), _mm256_permutevar8x32_ps(all, index.high));
}

#undef V16
#undef V16I
#undef BOTH
#undef BOTH2
#undef BOTH2I
#endif
