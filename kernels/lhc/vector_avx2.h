/* SPDX-License-Identifier: BSD-3-Clause
 * The vector steps of kernels.c in AVX2 with F16C; see vector_plain.h for each step.
 */
#ifndef KERNELS_LHC_VECTOR_AVX2_H
#define KERNELS_LHC_VECTOR_AVX2_H

#include "kernels/lhc/vector.h"
#include "kernels/sparse/sparsify_vector_avx2.h"

STEP __m256i mul_lo64(__m256i a, uint64_t factor) {
  __m256i b = _mm256_set1_epi64x((long long)factor), b_high = _mm256_set1_epi64x((long long)(factor >> 32));
  __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(a, 32), b), _mm256_mul_epu32(a, b_high));
  return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(cross, 32));
}

STEP void cells16(uint64_t seed, uint32_t part_cells, const uint32_t *ids, uint64_t cells[16]) {
  const __m256i low = _mm256_set1_epi16(31);
  for (uint32_t i = 0; i < 16; i += 4) {
    __m256i id = _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(ids + i)));
    __m256i x = _mm256_add_epi64(_mm256_srli_epi64(id, 3), _mm256_set1_epi64x((long long)seed));
    x = mul_lo64(x, 0x9e3779b97f4a7c15u);
    x = _mm256_xor_si256(x, _mm256_srli_epi64(x, 32));
    x = mul_lo64(x, 0xd6e8feb86659fd93u);
    x = _mm256_xor_si256(x, _mm256_srli_epi64(x, 32));
    __m256i cell = _mm256_mulhi_epu16(x, _mm256_set1_epi16((short)part_cells));
    /* The lowest 16 bits of each id, in each 16 bits. */
    const __m256i each =
      _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 8, 9, 8, 9, 8, 9, 8, 9, 0, 1, 0, 1, 0, 1, 0, 1, 8, 9, 8, 9, 8, 9, 8, 9);
    __m256i turned = _mm256_and_si256(_mm256_add_epi16(cell, _mm256_shuffle_epi8(id, each)), low);
    _mm256_storeu_si256((__m256i *)(cells + i), _mm256_or_si256(turned, _mm256_andnot_si256(low, cell)));
  }
}

STEP uint32_t dense16(const uint64_t cells[16], uint32_t dense_rows) {
  const __m256i rows = _mm256_set1_epi64x(dense_rows);
  uint32_t mask = 0;
  for (uint32_t i = 0; i < 16; i += 4) {
    const __m256i row = _mm256_srli_epi64(_mm256_loadu_si256((const __m256i *)(cells + i)), 53);
    mask |= (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(rows, row))) << i;
  }
  return mask;
}

STEP uint32_t quantise8(const float *values, const uint32_t *lines, const uint8_t *exponents, int counter_bits,
                        int32_t *q, float *left) {
  const __m256i field = _mm256_set1_epi32(0xff), zero = _mm256_setzero_si256();
  __m256i block = _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)lines), 5);
  __m256i four = _mm256_i32gather_epi32((const int *)(const void *)exponents, _mm256_srli_epi32(block, 2), 4);
  __m256i shift = _mm256_slli_epi32(_mm256_and_si256(block, _mm256_set1_epi32(3)), 3);
  __m256i exponent = _mm256_and_si256(_mm256_srlv_epi32(four, shift), field);
  /* The power of two of the unit, added to or subtracted from the field of an exponent. */
  __m256i power = _mm256_sub_epi32(exponent, _mm256_set1_epi32(128 + counter_bits));
  __m256 v = _mm256_loadu_ps(values);
  __m256i bits = _mm256_castps_si256(v), own = _mm256_and_si256(_mm256_srli_epi32(bits, 23), field);
  __m256i some = _mm256_cmpgt_epi32(_mm256_sub_epi32(own, power), zero);
  some = _mm256_and_si256(some, _mm256_cmpgt_epi32(own, zero));
  __m256i moved = _mm256_and_si256(some, _mm256_sub_epi32(bits, _mm256_slli_epi32(power, 23)));
  __m256i limit = _mm256_set1_epi32((1 << counter_bits) - 1), number = _mm256_cvtps_epi32(_mm256_castsi256_ps(moved));
  number = _mm256_max_epi32(_mm256_min_epi32(number, limit), _mm256_sub_epi32(zero, limit));
  _mm256_storeu_si256((__m256i *)q, number);
  /* 2^power: a denormal below 2^-126. */
  __m256i normal = _mm256_slli_epi32(_mm256_add_epi32(power, _mm256_set1_epi32(127)), 23);
  __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_add_epi32(power, _mm256_set1_epi32(149)));
  __m256i denormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(-126), power);
  __m256 unit = _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, denormal));
  __m256 rest = _mm256_sub_ps(v, _mm256_mul_ps(_mm256_cvtepi32_ps(number), unit));
  _mm256_storeu_ps(left, rest);
  return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(rest, _mm256_setzero_ps(), _CMP_NEQ_OQ));
}

STEP uint32_t quantise16(const float *values, const uint32_t *lines, const uint8_t *exponents, int counter_bits,
                         int32_t q[16], float left[16]) {
  uint32_t low = quantise8(values, lines, exponents, counter_bits, q, left);
  return low | quantise8(values + 8, lines + 8, exponents, counter_bits, q + 8, left + 8) << 8;
}

STEP uint32_t list_support(uint32_t *masks, uint32_t lines, uint32_t capacity, uint32_t *ids) {
  uint32_t count = 0;
  for (uint32_t local = 0; local < lines; local++) {
    uint32_t mask = masks[local];
    if (__builtin_expect(count + (uint32_t)__builtin_popcount(mask) > capacity, 0))
      masks[local] = mask = 0;
    for (uint32_t i = 0; i < TAGC_GRID_LINE; i += 8, mask >>= 8)
      count += append_ids(ids + count, lanes_of(lanes_to_front, mask & 0xff), local * TAGC_GRID_LINE + i, mask & 0xff);
  }
  return count;
}

STEP uint32_t find_singles(const uint64_t *cells, uint32_t count, uint64_t *words) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; i++) {
    words[found] = cells[i];
    found += tagc_lhc_degree(cells[i]) == 1;
  }
  return found;
}

/* Moves the first of eight numbers to the lanes of a mask; the others get 0. */
STEP __m256i spread8(const uint32_t *sums, uint32_t mask) {
  const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)mask), bits), bits);
  const __m256i list = _mm256_loadu_si256((const __m256i *)sums);
  return _mm256_and_si256(set, _mm256_permutevar8x32_epi32(list, lanes_of(lanes_from_front, mask)));
}

STEP void result16(uint32_t mask, const uint32_t *sums, float unit, const void *own, void *recv,
                   struct tagc_result_format result) {
  for (uint32_t i = 0; i < 2;
       i++, mask >>= 8, own = behind8(own, result.dtype), recv = (char *)recv + 8 * tagc_dtype_size(result.dtype)) {
    __m256i sum = spread8(sums, mask & 0xff);
    sums += __builtin_popcount(mask & 0xff);
    finish_vector(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(unit)), own, recv, result, NULL);
  }
}

#endif
