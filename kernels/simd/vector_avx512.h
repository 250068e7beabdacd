/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen numbers in AVX-512 (F, BW, DQ, VL). See vector_plain.h for each operation.
 */
#ifndef KERNELS_SIMD_VECTOR_AVX512_H
#define KERNELS_SIMD_VECTOR_AVX512_H

#include <immintrin.h>

#include "kernels/simd/vector.h"

struct v16 {
  __m512 v;
};
struct v16i {
  __m512i v;
};
struct v16m {
  __mmask16 v;
};

#define V16(x) ((struct v16){x})
#define V16I(x) ((struct v16i){x})

/* -- memory -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16 v16_load(const float *from) { return V16(_mm512_loadu_ps(from)); }
TAGC_OPERATION void v16_store(float *to, struct v16 x) { _mm512_storeu_ps(to, x.v); }

TAGC_OPERATION struct v16i v16i_load(const void *from) { return V16I(_mm512_loadu_si512(from)); }
TAGC_OPERATION void v16i_store(void *to, struct v16i x) { _mm512_storeu_si512(to, x.v); }

TAGC_OPERATION struct v16i v16i_load_halves(const uint16_t *from) {
  return V16I(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)from)));
}

TAGC_OPERATION void v16i_store_halves(uint16_t *to, struct v16i x) {
  _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(x.v));
}

TAGC_OPERATION struct v16 v16_load_as(const void *from, enum tagc_dtype dtype) {
  if (dtype == TAGC_FLOAT32)
    return V16(_mm512_loadu_ps(from));
  if (dtype == TAGC_FLOAT16)
    return V16(_mm512_cvtph_ps(_mm256_loadu_si256(from)));
  return V16(_mm512_castsi512_ps(_mm512_slli_epi32(v16i_load_halves(from).v, 16)));
}

TAGC_OPERATION void v16_store_as(void *to, enum tagc_dtype dtype, struct v16 x) {
  __m256i halves;
  if (dtype == TAGC_FLOAT32) {
    _mm512_storeu_ps(to, x.v);
    return;
  }
  if (dtype == TAGC_FLOAT16) {
    halves = _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    __m512i bits = _mm512_castps_si512(x.v), one = _mm512_set1_epi32(1);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
  }
  _mm256_storeu_si256(to, halves);
}

TAGC_OPERATION struct v16i v16i_load_bytes(const uint8_t *from) {
  return V16I(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
}

TAGC_OPERATION void v16i_store_bytes(uint8_t *to, struct v16i x) {
  _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8(x.v));
}

/* -- floats -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16 v16_all(float x) { return V16(_mm512_set1_ps(x)); }
TAGC_OPERATION struct v16 v16_add(struct v16 a, struct v16 b) { return V16(_mm512_add_ps(a.v, b.v)); }
TAGC_OPERATION struct v16 v16_sub(struct v16 a, struct v16 b) { return V16(_mm512_sub_ps(a.v, b.v)); }
TAGC_OPERATION struct v16 v16_mul(struct v16 a, struct v16 b) { return V16(_mm512_mul_ps(a.v, b.v)); }
TAGC_OPERATION struct v16 v16_div(struct v16 a, struct v16 b) { return V16(_mm512_div_ps(a.v, b.v)); }

TAGC_OPERATION float v16_sum(struct v16 x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

TAGC_OPERATION struct v16 v16_clamp(struct v16 x, float limit) {
  return V16(_mm512_max_ps(_mm512_min_ps(x.v, _mm512_set1_ps(limit)), _mm512_set1_ps(-limit)));
}

TAGC_OPERATION struct v16 v16_one_nan(struct v16 x) {
  __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  return V16(_mm512_mask_mov_ps(x.v, nan, _mm512_castsi512_ps(_mm512_set1_epi32(TAGC_NAN_BITS))));
}

TAGC_OPERATION struct v16 v16_turn_signs(struct v16 x, uint32_t bits) {
  __m512i sign = _mm512_set1_epi32((int)0x80000000u), b = _mm512_castps_si512(x.v);
  return V16(_mm512_castsi512_ps(_mm512_mask_xor_epi32(b, (__mmask16)bits, b, sign)));
}

/* b + a in the lanes that are first of their pairs, a - b in the others; `other` has the pairs swapped. */
#define BUTTERFLY(x, other, second) _mm512_mask_sub_ps(_mm512_add_ps(x, other), second, other, x)

TAGC_OPERATION struct v16 v16_butterflies(struct v16 x) {
  __m512 y = x.v;
  y = BUTTERFLY(y, _mm512_permute_ps(y, 0xb1), 0xaaaa);
  y = BUTTERFLY(y, _mm512_permute_ps(y, 0x4e), 0xcccc);
  y = BUTTERFLY(y, _mm512_shuffle_f32x4(y, y, 0xb1), 0xf0f0);
  y = BUTTERFLY(y, _mm512_shuffle_f32x4(y, y, 0x4e), 0xff00);
  return V16(y);
}

#undef BUTTERFLY

/* -- truths -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16m v16_greater(struct v16 a, struct v16 b) {
  return (struct v16m){_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)};
}

TAGC_OPERATION uint32_t v16m_count(struct v16m m) { return (uint32_t)__builtin_popcount(m.v); }

TAGC_OPERATION struct v16 v16_select(struct v16m m, struct v16 yes, struct v16 no) {
  return V16(_mm512_mask_mov_ps(no.v, m.v, yes.v));
}

/* -- integers ------------------------------------------------------------------------------------------------------ */

TAGC_OPERATION struct v16i v16i_all(uint32_t x) { return V16I(_mm512_set1_epi32((int)x)); }
TAGC_OPERATION struct v16i v16i_add(struct v16i a, struct v16i b) { return V16I(_mm512_add_epi32(a.v, b.v)); }
TAGC_OPERATION struct v16i v16i_add_truth(struct v16i a, struct v16m m) {
  return V16I(_mm512_mask_add_epi32(a.v, m.v, a.v, _mm512_set1_epi32(1)));
}
TAGC_OPERATION struct v16i v16i_keep(struct v16i a, struct v16m m) { return V16I(_mm512_maskz_mov_epi32(m.v, a.v)); }
TAGC_OPERATION struct v16i v16i_and(struct v16i a, struct v16i b) { return V16I(_mm512_and_si512(a.v, b.v)); }
TAGC_OPERATION struct v16i v16i_or(struct v16i a, struct v16i b) { return V16I(_mm512_or_si512(a.v, b.v)); }
TAGC_OPERATION struct v16i v16i_left(struct v16i a, int by) { return V16I(_mm512_slli_epi32(a.v, (unsigned)by)); }
TAGC_OPERATION struct v16i v16i_right(struct v16i a, int by) { return V16I(_mm512_srli_epi32(a.v, (unsigned)by)); }
TAGC_OPERATION struct v16i v16i_max(struct v16i a, struct v16i b) { return V16I(_mm512_max_epu32(a.v, b.v)); }
TAGC_OPERATION struct v16i v16i_min(struct v16i a, struct v16i b) { return V16I(_mm512_min_epu32(a.v, b.v)); }
TAGC_OPERATION bool v16i_any_above(struct v16i a, struct v16i b) { return _mm512_cmpgt_epu32_mask(a.v, b.v) != 0; }
TAGC_OPERATION uint32_t v16i_largest(struct v16i a) { return _mm512_reduce_max_epu32(a.v); }
TAGC_OPERATION uint32_t v16i_least(struct v16i a) { return _mm512_reduce_min_epu32(a.v); }

/* -- between them -------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16i v16_bits(struct v16 x) { return V16I(_mm512_castps_si512(x.v)); }
TAGC_OPERATION struct v16 v16_from_bits(struct v16i x) { return V16(_mm512_castsi512_ps(x.v)); }
TAGC_OPERATION struct v16i v16_to_int(struct v16 x) { return V16I(_mm512_cvtps_epi32(x.v)); }
TAGC_OPERATION struct v16 v16i_to_float(struct v16i x) { return V16(_mm512_cvtepi32_ps(x.v)); }

TAGC_OPERATION void v16_nibbles(const uint8_t *from, const float factor[2], struct v16 *lower, struct v16 *upper) {
  const __m512 numbers = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
  __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
  /* The lowest four bits choose. Multiplying before or after that gives the same products. */
  lower->v = _mm512_permutexvar_ps(bytes, _mm512_mul_ps(numbers, _mm512_set1_ps(factor[0])));
  upper->v = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), _mm512_mul_ps(numbers, _mm512_set1_ps(factor[1])));
}

TAGC_OPERATION struct v16 v16_pick(struct v16i index, const float four[4]) {
  return V16(_mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(four)), index.v));
}

TAGC_OPERATION struct v16 v16_pick8(struct v16i index, const float eight[8]) {
  return V16(_mm512_permutexvar_ps(index.v, _mm512_broadcast_f32x8(_mm256_loadu_ps(eight))));
}

#undef V16
#undef V16I
#endif
