/* SPDX-License-Identifier: BSD-3-Clause
 * The vector steps of sparsify_kernels.c in AVX2 with F16C; see sparsify_vector_plain.h for each step.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_VECTOR_AVX2_H
#define KERNELS_SPARSE_SPARSIFY_VECTOR_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "kernels/sparse/sparsify_vector.h"

struct block {
  __m256 scale, lane[2];
  __m256i most[2];
  double norm2;
};

STEP struct block block_new(float scale) { return (struct block){.scale = _mm256_set1_ps(scale)}; }

STEP __m256i magnitude8(__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff)); }

/* Magnitudes are less than 2^31, so signed comparisons work. */
STEP void block_add(struct block *block, int half, __m256i magnitude) {
  __m256i usual = _mm256_cmpgt_epi32(_mm256_set1_epi32(TAGC_EXCEPTION_BITS), magnitude);
  block->most[half] = _mm256_max_epi32(block->most[half], _mm256_and_si256(magnitude, usual));
}

STEP void block_include(struct block *block, const float v[16]) {
  block_add(block, 0, magnitude8(_mm256_loadu_ps(v)));
  block_add(block, 1, magnitude8(_mm256_loadu_ps(v + 8)));
}

STEP uint32_t block_end(struct block *block) {
  float lane[16];
  uint32_t each[16], most = 0;
  for (int half = 0; half < 2; half++) {
    _mm256_storeu_ps(lane + 8 * half, block->lane[half]);
    _mm256_storeu_si256((__m256i *)(each + 8 * half), block->most[half]);
    block->lane[half] = _mm256_setzero_ps();
    block->most[half] = _mm256_setzero_si256();
  }
  for (int i = 0; i < 16; i++) {
    block->norm2 += (double)lane[i];
    most = each[i] > most ? each[i] : most;
  }
  return most;
}

STEP __m256 load8(const void *from, enum tagc_dtype dtype) {
  if (dtype == TAGC_FLOAT32)
    return _mm256_loadu_ps(from);
  __m128i halves = _mm_loadu_si128(from);
  if (dtype == TAGC_FLOAT16)
    return _mm256_cvtph_ps(halves);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

STEP const void *behind8(const void *at, enum tagc_dtype dtype) {
  return (const char *)at + 8 * tagc_dtype_size(dtype);
}

/* The bits of the nearest bf16 in the upper half; the lower half is garbage. */
STEP __m256i near_bf16(__m256i bits) {
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}

/* For results only: their one NaN is TAGC_NAN_BITS, which the rounding to bf16 leaves alone. */
STEP void store8(void *to, struct tagc_result_format result, __m256 x) {
  __m128i halves;
  if (result.dtype == TAGC_FLOAT32) {
    if (result.streaming)
      _mm256_stream_ps(to, x);
    else
      _mm256_storeu_ps(to, x);
    return;
  }
  if (result.dtype == TAGC_FLOAT16) {
    halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  } else {
    __m256i bits = _mm256_srli_epi32(near_bf16(_mm256_castps_si256(x)), 16);
    halves = _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
  }
  if (result.streaming)
    _mm_stream_si128(to, halves);
  else
    _mm_storeu_si128(to, halves);
}

STEP __m256 sum8(const void *send, const float *residual, struct tagc_sparsify_input input) {
  __m256 e = input.residual_empty ? _mm256_setzero_ps() : _mm256_loadu_ps(residual);
  return _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(input.scale), load8(send, input.dtype)), e);
}

STEP void sum16(const void *send, const float *residual, struct tagc_sparsify_input input, float out[16]) {
  _mm256_storeu_ps(out, sum8(send, residual, input));
  const float *rest = input.residual_empty ? NULL : residual + 8;
  _mm256_storeu_ps(out + 8, sum8(behind8(send, input.dtype), rest, input));
}

/* For each mask of eight lanes: its lanes in order, then any; and the place of each lane in that order. */
#define UP_TO(mask, lane) __builtin_popcount((mask) & ((2u << (lane)) - 1))
#define FROM(mask, i) \
  ((UP_TO(mask, 0) <= (i)) + (UP_TO(mask, 1) <= (i)) + (UP_TO(mask, 2) <= (i)) + (UP_TO(mask, 3) <= (i)) + \
   (UP_TO(mask, 4) <= (i)) + (UP_TO(mask, 5) <= (i)) + (UP_TO(mask, 6) <= (i)))
#define TO(mask, lane) __builtin_popcount((mask) & ((1u << (lane)) - 1))
#define EIGHT(f, mask) \
  { f(mask, 0), f(mask, 1), f(mask, 2), f(mask, 3), f(mask, 4), f(mask, 5), f(mask, 6), f(mask, 7) }
#define ROWS2(f, mask) EIGHT(f, mask), EIGHT(f, (mask) + 1)
#define ROWS8(f, mask) ROWS2(f, mask), ROWS2(f, (mask) + 2), ROWS2(f, (mask) + 4), ROWS2(f, (mask) + 6)
#define ROWS32(f, mask) ROWS8(f, mask), ROWS8(f, (mask) + 8), ROWS8(f, (mask) + 16), ROWS8(f, (mask) + 24)
#define ROWS128(f, mask) ROWS32(f, mask), ROWS32(f, (mask) + 32), ROWS32(f, (mask) + 64), ROWS32(f, (mask) + 96)
static const uint8_t lanes_to_front[256][8] = {ROWS128(FROM, 0), ROWS128(FROM, 128)};
static const uint8_t lanes_from_front[256][8] = {ROWS128(TO, 0), ROWS128(TO, 128)};
#undef UP_TO
#undef FROM
#undef TO
#undef EIGHT
#undef ROWS2
#undef ROWS8
#undef ROWS32
#undef ROWS128

STEP __m256i lanes_of(const uint8_t table[256][8], uint32_t mask) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)table[mask]));
}

/* Appends the masked ones of eight values and ids. Overwrites what follows, eight in all. */
STEP uint32_t append_pairs(float *values, uint32_t *ids, uint32_t count, __m256 v, __m256i id, uint32_t mask) {
  const __m256i lanes = lanes_of(lanes_to_front, mask);
  _mm256_storeu_ps(values + count, _mm256_permutevar8x32_ps(v, lanes));
  _mm256_storeu_si256((__m256i *)(ids + count), _mm256_permutevar8x32_epi32(id, lanes));
  return count + (uint32_t)__builtin_popcount(mask);
}

/* Appends the ids of the masked lanes, which count from `id` on. */
STEP uint32_t append_ids(uint32_t *ids, __m256i lanes, uint32_t id, uint32_t mask) {
  _mm256_storeu_si256((__m256i *)ids, _mm256_add_epi32(lanes, _mm256_set1_epi32((int)id)));
  return (uint32_t)__builtin_popcount(mask);
}

STEP uint32_t scan16(const void *send, float *residual, struct tagc_sparsify_input input, uint32_t threshold,
                     uint32_t id, float *values, uint32_t *ids, struct block *block) {
  uint32_t masks = 0, count = 0;
  for (int half = 0; half < 2; half++, send = behind8(send, input.dtype), residual += 8, id += 8) {
    __m256 v = sum8(send, residual, input);
    __m256i magnitude = magnitude8(v);
    /* A threshold of UINT32_MAX, which nothing reaches, would be -1 here, less than everything. */
    __m256i least = _mm256_set1_epi32(threshold > INT32_MAX ? INT32_MAX : (int)threshold - 1);
    __m256i large = _mm256_cmpgt_epi32(magnitude, least);
    uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(large));
    __m256 rest = _mm256_andnot_ps(_mm256_castsi256_ps(large), v), scaled = _mm256_mul_ps(rest, block->scale);
    if (!input.rounded)
      block_add(block, half, magnitude);
    block->lane[half] = _mm256_add_ps(block->lane[half], _mm256_mul_ps(scaled, scaled));
    if (input.rounded) {
      __m256i sent = _mm256_and_si256(large, _mm256_cmpgt_epi32(_mm256_set1_epi32(TAGC_EXCEPTION_BITS), magnitude));
      __m256i top = _mm256_and_si256(near_bf16(_mm256_castps_si256(v)), _mm256_set1_epi32((int)0xffff0000));
      __m256 left = _mm256_sub_ps(v, _mm256_castsi256_ps(top));
      _mm256_storeu_ps(residual, _mm256_or_ps(rest, _mm256_and_ps(left, _mm256_castsi256_ps(sent))));
    } else {
      _mm256_storeu_ps(residual, rest);
    }
    const __m256i lanes = lanes_of(lanes_to_front, mask);
    _mm256_storeu_ps(values + count, _mm256_permutevar8x32_ps(v, lanes));
    count += append_ids(ids + count, lanes, id, mask);
    masks |= mask << 8 * half;
  }
  return masks;
}

STEP uint32_t fine16(const float *values, uint32_t lanes, uint32_t coarse, uint32_t fine[16]) {
  return fine16_in_turn(values, lanes, coarse, fine);
}

/* The bits of the chosen ones; few values are in the boundary bin, so they go in turn. */
STEP uint32_t choose16(const __m256 v[2], uint32_t lanes, const struct tagc_sparsify_choice *choice, uint32_t *rank) {
  const __m256i boundary = _mm256_set1_epi32((int)choice->bin), huge = _mm256_set1_epi32(TAGC_BIN_HUGE);
  uint32_t chosen = 0, at = 0;
  for (int half = 0; half < 2; half++) {
    const __m256i bin = _mm256_srli_epi32(magnitude8(v[half]), 12);
    const __m256i above = _mm256_and_si256(_mm256_cmpgt_epi32(bin, boundary), _mm256_cmpgt_epi32(huge, bin));
    chosen |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(above)) << 8 * half;
    at |= (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(bin, boundary))) << 8 * half;
  }
  chosen &= lanes;
  for (at &= lanes; at; at &= at - 1, ++*rank)
    chosen |= (uint32_t)tagc_sparsify_chosen(choice, choice->bin, *rank) << __builtin_ctz(at);
  return chosen;
}

/* The left ones may replace the values and ids: all are loaded before. */
STEP uint32_t filter16(const float *values, const uint32_t *ids, uint32_t lanes,
                       const struct tagc_sparsify_choice *choice, uint32_t *rank, float *out_values, uint32_t *out_ids,
                       float left_values[16], uint32_t left_ids[16], uint32_t *left) {
  const __m256 v[2] = {_mm256_loadu_ps(values), _mm256_loadu_ps(values + 8)};
  const __m256i id[2] = {_mm256_loadu_si256((const __m256i *)ids), _mm256_loadu_si256((const __m256i *)(ids + 8))};
  const uint32_t chosen = choose16(v, lanes, choice, rank), others = lanes & ~chosen;
  uint32_t kept = 0, count = 0;
  for (int half = 0; half < 2; half++) {
    kept = append_pairs(out_values, out_ids, kept, v[half], id[half], chosen >> 8 * half & 0xff);
    count = append_pairs(left_values, left_ids, count, v[half], id[half], others >> 8 * half & 0xff);
  }
  *left = count;
  return kept;
}

struct largest {
  __m256i lanes;
};

STEP struct largest largest_new(void) { return (struct largest){_mm256_setzero_si256()}; }

STEP void largest_include(struct largest *largest, __m256 x) {
  largest->lanes = _mm256_max_epi32(largest->lanes, magnitude8(x));
}

STEP uint32_t largest_end(const struct largest *largest) {
  uint32_t lane[8], most = 0;
  _mm256_storeu_si256((__m256i *)lane, largest->lanes);
  for (uint32_t i = 0; i < 8; i++)
    most = lane[i] > most ? lane[i] : most;
  return most;
}

STEP void largest16(const void *send, struct tagc_sparsify_input input, struct largest *largest) {
  __m256 scale = _mm256_set1_ps(input.scale);
  largest_include(largest, _mm256_mul_ps(scale, load8(send, input.dtype)));
  largest_include(largest, _mm256_mul_ps(scale, load8(behind8(send, input.dtype), input.dtype)));
}

STEP __m256i mul_hi32(__m256i a, __m256i b) {
  __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(a, b), 32);
  __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
  return _mm256_blend_epi32(even, odd, 0xaa);
}

STEP void lines16(const uint32_t *ids, uint32_t stripes, uint32_t stripe, uint32_t lines[16]) {
  const __m256i all = _mm256_set1_epi32((int)stripes);
  for (uint32_t i = 0; i < 16; i += 8) {
    __m256i local = _mm256_srli_epi32(_mm256_loadu_si256((const __m256i *)(ids + i)), 5);
    __m256i turn = mul_hi32(_mm256_mullo_epi32(local, _mm256_set1_epi32((int)0x9e3779b9)), all);
    __m256i place = _mm256_sub_epi32(_mm256_set1_epi32((int)stripe), turn);
    place = _mm256_add_epi32(place, _mm256_and_si256(all, _mm256_srai_epi32(place, 31)));
    _mm256_storeu_si256((__m256i *)(lines + i), _mm256_add_epi32(_mm256_mullo_epi32(local, all), place));
  }
}

STEP void finish_vector(__m256 sum, const void *own, void *recv, struct tagc_result_format result,
                        struct largest *largest) {
  const __m256 divisor = _mm256_set1_ps(result.divisor), nan = _mm256_castsi256_ps(_mm256_set1_epi32(TAGC_NAN_BITS));
  __m256 x = _mm256_add_ps(sum, _mm256_mul_ps(_mm256_set1_ps(result.scale), load8(own, result.dtype)));
  x = result.by_inverse ? _mm256_mul_ps(x, divisor) : _mm256_div_ps(x, divisor);
  if (largest)
    largest_include(largest, x);
  store8(recv, result, _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

STEP void finish16(const float *sum, const void *own, void *recv, struct tagc_result_format result,
                   struct largest *largest) {
  const size_t half = 8 * tagc_dtype_size(result.dtype);
  finish_vector(_mm256_loadu_ps(sum), own, recv, result, largest);
  finish_vector(_mm256_loadu_ps(sum + 8), behind8(own, result.dtype), (char *)recv + half, result, largest);
}

STEP void stream_end(void) { _mm_sfence(); }

#endif
