/* SPDX-License-Identifier: BSD-3-Clause
 * The vector steps of sparsify_kernels.c in AVX-512 (F, BW, DQ, VL); see sparsify_vector_plain.h for each step.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_VECTOR_AVX512_H
#define KERNELS_SPARSE_SPARSIFY_VECTOR_AVX512_H

#include <immintrin.h>

#include "kernels/sparse/sparsify_vector.h"

struct block {
  __m512 scale, lane;
  __m512i most;
  double norm2;
};

STEP struct block block_new(float scale) {
  return (struct block){.scale = _mm512_set1_ps(scale), .lane = _mm512_setzero_ps(), .most = _mm512_setzero_si512()};
}

STEP __m512i magnitude16(__m512 x) { return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)); }

STEP void block_add(struct block *block, __m512i magnitude) {
  __mmask16 usual = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(TAGC_EXCEPTION_BITS));
  block->most = _mm512_mask_max_epu32(block->most, usual, block->most, magnitude);
}

STEP void block_include(struct block *block, const float v[16]) { block_add(block, magnitude16(_mm512_loadu_ps(v))); }

STEP uint32_t block_end(struct block *block) {
  float lane[16];
  _mm512_storeu_ps(lane, block->lane);
  for (int i = 0; i < 16; i++)
    block->norm2 += (double)lane[i];
  uint32_t most = _mm512_reduce_max_epu32(block->most);
  block->lane = _mm512_setzero_ps();
  block->most = _mm512_setzero_si512();
  return most;
}

STEP __m512i iota16(void) { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

STEP __m512 load16(const void *from, enum tagc_dtype dtype) {
  if (dtype == TAGC_FLOAT32)
    return _mm512_loadu_ps(from);
  __m256i halves = _mm256_loadu_si256(from);
  if (dtype == TAGC_FLOAT16)
    return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* The bits of the nearest bf16 in the upper half; the lower half is garbage. */
STEP __m512i near_bf16(__m512i bits) {
  __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  bits = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  return _mm512_mask_add_epi32(bits, odd, bits, _mm512_set1_epi32(1));
}

/* For results only: their one NaN is TAGC_NAN_BITS, which the rounding to bf16 leaves alone. */
STEP void store16(void *to, struct tagc_result_format result, __m512 x) {
  __m256i halves;
  if (result.dtype == TAGC_FLOAT32) {
    if (result.streaming)
      _mm512_stream_ps(to, x);
    else
      _mm512_storeu_ps(to, x);
    return;
  }
  if (result.dtype == TAGC_FLOAT16) {
    halves = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(near_bf16(_mm512_castps_si512(x)), 16));
  }
  if (result.streaming)
    _mm256_stream_si256(to, halves);
  else
    _mm256_storeu_si256(to, halves);
}

STEP __m512 sum_vector(const void *send, const float *residual, struct tagc_sparsify_input input) {
  __m512 e = input.residual_empty ? _mm512_setzero_ps() : _mm512_loadu_ps(residual);
  return _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(input.scale), load16(send, input.dtype)), e);
}

STEP void sum16(const void *send, const float *residual, struct tagc_sparsify_input input, float out[16]) {
  _mm512_storeu_ps(out, sum_vector(send, residual, input));
}

/* Appends to a list. Mostly it appends few, and a short store crosses a cache line less often. */
STEP void append16(void *list, __m512i front, uint32_t count) {
  if (__builtin_expect(count <= 8, 1))
    _mm256_storeu_si256(list, _mm512_castsi512_si256(front));
  else
    _mm512_storeu_si512(list, front);
}

STEP uint32_t scan16(const void *send, float *residual, struct tagc_sparsify_input input, uint32_t threshold,
                     uint32_t id, float *values, uint32_t *ids, struct block *block) {
  __m512 v = sum_vector(send, residual, input);
  __m512i magnitude = magnitude16(v);
  __mmask16 mask = _mm512_cmpge_epu32_mask(magnitude, _mm512_set1_epi32((int)threshold));
  if (!input.rounded)
    block_add(block, magnitude);
  __m512 rest = _mm512_maskz_mov_ps(_knot_mask16(mask), v), stays = rest;
  if (input.rounded) {
    __mmask16 sent = _mm512_mask_cmplt_epu32_mask(mask, magnitude, _mm512_set1_epi32(TAGC_EXCEPTION_BITS));
    __m512i top = _mm512_and_si512(near_bf16(_mm512_castps_si512(v)), _mm512_set1_epi32((int)0xffff0000));
    stays = _mm512_mask_sub_ps(rest, sent, v, _mm512_castsi512_ps(top));
  }
  _mm512_storeu_ps(residual, stays);
  __m512i id16 = _mm512_add_epi32(iota16(), _mm512_set1_epi32((int)id));
  uint32_t count = (uint32_t)__builtin_popcount(mask);
  append16(values, _mm512_maskz_compress_epi32(mask, _mm512_castps_si512(v)), count);
  append16(ids, _mm512_maskz_compress_epi32(mask, id16), count);
  __m512 scaled = _mm512_mul_ps(rest, block->scale);
  block->lane = _mm512_add_ps(block->lane, _mm512_mul_ps(scaled, scaled));
  return mask;
}

STEP uint32_t fine16(const float *values, uint32_t lanes, uint32_t coarse, uint32_t fine[16]) {
  __m512i bin = _mm512_srli_epi32(magnitude16(_mm512_maskz_loadu_ps((__mmask16)lanes, values)), 12);
  __mmask16 inside =
    _mm512_mask_cmpeq_epi32_mask((__mmask16)lanes, _mm512_srli_epi32(bin, 8), _mm512_set1_epi32((int)coarse));
  bin = _mm512_and_si512(bin, _mm512_set1_epi32(TAGC_BIN_FINE - 1));
  _mm512_storeu_si512(fine, _mm512_maskz_compress_epi32(inside, bin));
  return (uint32_t)__builtin_popcount(inside);
}

STEP uint32_t filter16(const float *values, const uint32_t *ids, uint32_t lanes,
                       const struct tagc_sparsify_choice *choice, uint32_t *rank, float *out_values, uint32_t *out_ids,
                       float left_values[16], uint32_t left_ids[16], uint32_t *left) {
  __m512 v = _mm512_loadu_ps(values);
  __m512i id = _mm512_loadu_si512(ids), bin = _mm512_srli_epi32(magnitude16(v), 12);
  __m512i boundary = _mm512_set1_epi32((int)choice->bin), offset = _mm512_set1_epi32((int)choice->offset);
  __mmask16 all = (__mmask16)lanes, at = _mm512_mask_cmpeq_epi32_mask(all, bin, boundary);
  __mmask16 chosen = _mm512_mask_cmpgt_epu32_mask(all, bin, boundary);
  chosen = _mm512_mask_cmplt_epu32_mask(chosen, bin, _mm512_set1_epi32(TAGC_BIN_HUGE));
  __m512i ranks = _mm512_add_epi32(_mm512_maskz_expand_epi32(at, iota16()), _mm512_set1_epi32((int)*rank));
  __m512i from = _mm512_sub_epi32(ranks, offset);
  from =
    _mm512_mask_add_epi32(from, _mm512_cmplt_epu32_mask(ranks, offset), from, _mm512_set1_epi32((int)choice->count));
  chosen |= _mm512_mask_cmplt_epu32_mask(at, from, _mm512_set1_epi32((int)choice->take));
  *rank += (uint32_t)__builtin_popcount(at);
  __mmask16 others = all & (__mmask16)~chosen;
  _mm512_storeu_ps(out_values, _mm512_maskz_compress_ps(chosen, v));
  _mm512_storeu_si512(out_ids, _mm512_maskz_compress_epi32(chosen, id));
  _mm512_storeu_ps(left_values, _mm512_maskz_compress_ps(others, v));
  _mm512_storeu_si512(left_ids, _mm512_maskz_compress_epi32(others, id));
  *left = (uint32_t)__builtin_popcount(others);
  return (uint32_t)__builtin_popcount(chosen);
}

struct largest {
  __m512i lanes;
};

STEP struct largest largest_new(void) { return (struct largest){_mm512_setzero_si512()}; }

STEP void largest_include(struct largest *largest, __m512 x) {
  largest->lanes = _mm512_max_epu32(largest->lanes, magnitude16(x));
}

STEP uint32_t largest_end(const struct largest *largest) { return _mm512_reduce_max_epu32(largest->lanes); }

STEP void largest16(const void *send, struct tagc_sparsify_input input, struct largest *largest) {
  largest_include(largest, _mm512_mul_ps(_mm512_set1_ps(input.scale), load16(send, input.dtype)));
}

STEP __m512i mul_hi32(__m512i a, __m512i b) {
  __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32);
  __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
  return _mm512_mask_mov_epi32(even, 0xaaaa, odd);
}

STEP void lines16(const uint32_t *ids, uint32_t stripes, uint32_t stripe, uint32_t lines[16]) {
  __m512i local = _mm512_srli_epi32(_mm512_loadu_si512(ids), 5), all = _mm512_set1_epi32((int)stripes);
  if (stripes == 1) {
    _mm512_storeu_si512(lines, local);
    return;
  }
  __m512i turn = mul_hi32(_mm512_mullo_epi32(local, _mm512_set1_epi32((int)0x9e3779b9)), all);
  __m512i place = _mm512_sub_epi32(_mm512_set1_epi32((int)stripe), turn);
  place = _mm512_mask_add_epi32(place, _mm512_cmplt_epi32_mask(place, _mm512_setzero_si512()), place, all);
  _mm512_storeu_si512(lines, _mm512_add_epi32(_mm512_mullo_epi32(local, all), place));
}

STEP void finish_vector(__m512 sum, const void *own, void *recv, struct tagc_result_format result,
                        struct largest *largest) {
  __m512 x = _mm512_add_ps(sum, _mm512_mul_ps(_mm512_set1_ps(result.scale), load16(own, result.dtype)));
  __m512 divisor = _mm512_set1_ps(result.divisor);
  x = result.by_inverse ? _mm512_mul_ps(x, divisor) : _mm512_div_ps(x, divisor);
  if (largest)
    largest_include(largest, x);
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  store16(recv, result, _mm512_mask_mov_ps(x, nan, _mm512_castsi512_ps(_mm512_set1_epi32(TAGC_NAN_BITS))));
}

STEP void finish16(const float *sum, const void *own, void *recv, struct tagc_result_format result,
                   struct largest *largest) {
  finish_vector(_mm512_loadu_ps(sum), own, recv, result, largest);
}

STEP void stream_end(void) { _mm_sfence(); }

#endif
