/* SPDX-License-Identifier: BSD-3-Clause
 * The vector steps of kernels.c in AVX-512 (F, BW, DQ, VL); see vector_plain.h for each step.
 */
#ifndef KERNELS_LHC_VECTOR_AVX512_H
#define KERNELS_LHC_VECTOR_AVX512_H

#include "kernels/lhc/vector.h"
#include "kernels/sparse/sparsify_vector_avx512.h"

STEP __m512i cells8(uint64_t seed, uint32_t part_cells, __m256i ids) {
  __m512i id = _mm512_cvtepu32_epi64(ids);
  __m512i x = _mm512_add_epi64(_mm512_srli_epi64(id, 3), _mm512_set1_epi64((long long)seed));
  x = _mm512_mullo_epi64(x, _mm512_set1_epi64((long long)0x9e3779b97f4a7c15u));
  x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 32));
  x = _mm512_mullo_epi64(x, _mm512_set1_epi64((long long)0xd6e8feb86659fd93u));
  x = _mm512_xor_si512(x, _mm512_srli_epi64(x, 32));
  __m512i cell = _mm512_mulhi_epu16(x, _mm512_set1_epi16((short)part_cells)), low = _mm512_set1_epi16(31);
  /* The lane in each 16 bits. */
  __m512i lane = _mm512_mullo_epi64(_mm512_and_si512(id, _mm512_set1_epi64(31)), _mm512_set1_epi64(0x0001000100010001));
  __m512i turned = _mm512_add_epi16(cell, lane);
  return _mm512_ternarylogic_epi64(low, turned, cell, 0xca); /* low ? turned : cell */
}

STEP void cells16(uint64_t seed, uint32_t part_cells, const uint32_t *ids, uint64_t cells[16]) {
  _mm512_storeu_si512(cells, cells8(seed, part_cells, _mm256_loadu_si256((const __m256i *)ids)));
  _mm512_storeu_si512(cells + 8, cells8(seed, part_cells, _mm256_loadu_si256((const __m256i *)(ids + 8))));
}

STEP uint32_t dense16(const uint64_t cells[16], uint32_t dense_rows) {
  const __m512i rows = _mm512_set1_epi64(dense_rows);
  const uint32_t low = _mm512_cmplt_epu64_mask(_mm512_srli_epi64(_mm512_loadu_si512(cells), 53), rows);
  return low | (uint32_t)_mm512_cmplt_epu64_mask(_mm512_srli_epi64(_mm512_loadu_si512(cells + 8), 53), rows) << 8;
}

STEP uint32_t quantise16(const float *values, const uint32_t *lines, const uint8_t *exponents, int counter_bits,
                         int32_t q[16], float left[16]) {
  __m512i block = _mm512_srli_epi32(_mm512_loadu_si512(lines), 5), bits = _mm512_loadu_si512(values);
  __m512i four = _mm512_i32gather_epi32(_mm512_srli_epi32(block, 2), exponents, 4);
  __m512i shift = _mm512_slli_epi32(_mm512_and_si512(block, _mm512_set1_epi32(3)), 3);
  __m512i exponent = _mm512_and_si512(_mm512_srlv_epi32(four, shift), _mm512_set1_epi32(0xff));
  /* The power of two of the unit, added to or subtracted from the field of an exponent. */
  __m512i power = _mm512_sub_epi32(exponent, _mm512_set1_epi32(128 + counter_bits)), field = _mm512_set1_epi32(0xff);
  __m512i own = _mm512_and_si512(_mm512_srli_epi32(bits, 23), field), scaled = _mm512_sub_epi32(own, power);
  __mmask16 some = _mm512_cmpgt_epi32_mask(scaled, _mm512_setzero_si512());
  some = _mm512_mask_cmpgt_epi32_mask(some, own, _mm512_setzero_si512());
  __m512i moved = _mm512_maskz_sub_epi32(some, bits, _mm512_slli_epi32(power, 23));
  __m512i limit = _mm512_set1_epi32((1 << counter_bits) - 1), number = _mm512_cvtps_epi32(_mm512_castsi512_ps(moved));
  number = _mm512_max_epi32(_mm512_min_epi32(number, limit), _mm512_sub_epi32(_mm512_setzero_si512(), limit));
  _mm512_storeu_si512(q, number);
  /* 2^power: a denormal below 2^-126. */
  __m512i normal = _mm512_slli_epi32(_mm512_add_epi32(power, _mm512_set1_epi32(127)), 23);
  __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(1), _mm512_add_epi32(power, _mm512_set1_epi32(149)));
  __mmask16 denormal = _mm512_cmplt_epi32_mask(power, _mm512_set1_epi32(-126));
  __m512 unit = _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, denormal, small));
  __m512 rest = _mm512_sub_ps(_mm512_loadu_ps(values), _mm512_mul_ps(_mm512_cvtepi32_ps(number), unit));
  _mm512_storeu_ps(left, rest);
  return _mm512_cmp_ps_mask(rest, _mm512_setzero_ps(), _CMP_NEQ_OQ);
}

STEP uint32_t list_support(uint32_t *masks, uint32_t lines, uint32_t capacity, uint32_t *ids) {
  __m512i first = iota16(), second = _mm512_add_epi32(first, _mm512_set1_epi32(16));
  const __m512i line = _mm512_set1_epi32(TAGC_GRID_LINE);
  uint32_t count = 0;
  for (uint32_t local = 0; local < lines; local++) {
    uint32_t mask = masks[local], all = (uint32_t)__builtin_popcount(mask);
    if (__builtin_expect(count + all > capacity, 0))
      masks[local] = mask = all = 0;
    uint32_t low = (uint32_t)__builtin_popcount(mask & 0xffff);
    append16(ids + count, _mm512_maskz_compress_epi32((__mmask16)mask, first), low);
    append16(ids + count + low, _mm512_maskz_compress_epi32((__mmask16)(mask >> 16), second), all - low);
    count += all;
    first = _mm512_add_epi32(first, line);
    second = _mm512_add_epi32(second, line);
  }
  return count;
}

STEP uint32_t find_singles(const uint64_t *cells, uint32_t count, uint64_t *words) {
  const __m512i degree = _mm512_set1_epi64(0xff000000), one = _mm512_set1_epi64(1 << 24);
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; i += 8) {
    __m512i word = _mm512_loadu_si512(cells + i);
    __mmask8 single = _mm512_cmpeq_epi64_mask(_mm512_and_si512(word, degree), one);
    _mm512_storeu_si512(words + found, _mm512_maskz_compress_epi64(single, word));
    found += (uint32_t)__builtin_popcount(single);
  }
  return found;
}

STEP void result16(uint32_t mask, const uint32_t *sums, float unit, const void *own, void *recv,
                   struct tagc_result_format result) {
  __m512i list = _mm512_loadu_si512(sums);
  /* Loads a register first: to expand from memory takes Zen three times as long. */
  __asm__("" : "+v"(list));
  __m512i sum = _mm512_maskz_expand_epi32((__mmask16)mask, list);
  finish_vector(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(unit)), own, recv, result, NULL);
}

#endif
