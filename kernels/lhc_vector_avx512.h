/* SPDX-License-Identifier: BSD-3-Clause
 * The vector steps of lhc_kernels.inc.c in AVX-512 (F, BW, DQ, VL). lhc_vector_plain.h says what each step does.
 */
#ifndef KERNELS_LHC_VECTOR_AVX512_H
#define KERNELS_LHC_VECTOR_AVX512_H

#include <immintrin.h>

#include "kernels/lhc_vector.h"

struct block {
  __m512 scale, lane;
  __m512i most;
  double norm2;
};

STEP struct block block_new(float scale)
{
  return (struct block){ .scale = _mm512_set1_ps(scale), .lane = _mm512_setzero_ps(), .most = _mm512_setzero_si512() };
}

STEP __m512i magnitude16(__m512 x)
{
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

STEP void block_add(struct block *block, __m512i magnitude)
{
  __mmask16 usual = _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(TAGC_EXCEPTION_BITS));
  block->most = _mm512_mask_max_epu32(block->most, usual, block->most, magnitude);
}

STEP void block_include(struct block *block, const float v[16])
{
  block_add(block, magnitude16(_mm512_loadu_ps(v)));
}

STEP uint32_t block_end(struct block *block)
{
  float lane[16];
  _mm512_storeu_ps(lane, block->lane);
  for (int i = 0; i < 16; i++)
    block->norm2 += (double)lane[i];
  uint32_t most = _mm512_reduce_max_epu32(block->most);
  block->lane = _mm512_setzero_ps();
  block->most = _mm512_setzero_si512();
  return most;
}

STEP __m512i iota16(void)
{
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

STEP __m512 load16(const void *from, enum tagc_dtype dtype)
{
  if (dtype == TAGC_FLOAT32)
    return _mm512_loadu_ps(from);
  __m256i halves = _mm256_loadu_si256(from);
  if (dtype == TAGC_FLOAT16)
    return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* Results only: the one NaN among them is TAGC_NAN_BITS, which bf16's rounding leaves alone. */
STEP void store16(void *to, struct tagc_lhc_result result, __m512 x)
{
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
    __m512i bits = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
    __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    bits = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    bits = _mm512_mask_add_epi32(bits, odd, bits, one);
    halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16));
  }
  if (result.streaming)
    _mm256_stream_si256(to, halves);
  else
    _mm256_storeu_si256(to, halves);
}

STEP __m512 sum_vector(const void *send, const float *residual, struct tagc_lhc_input input)
{
  __m512 e = input.residual_empty ? _mm512_setzero_ps() : _mm512_loadu_ps(residual);
  return _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(input.scale), load16(send, input.dtype)), e);
}

STEP void sum16(const void *send, const float *residual, struct tagc_lhc_input input, float out[16])
{
  _mm512_storeu_ps(out, sum_vector(send, residual, input));
}

/* Appends to a list. Most often few are appended, and a short store less often crosses a line of the cache. */
STEP void append16(void *list, __m512i front, uint32_t count)
{
  if (__builtin_expect(count <= 8, 1))
    _mm256_storeu_si256(list, _mm512_castsi512_si256(front));
  else
    _mm512_storeu_si512(list, front);
}

STEP uint32_t scan16(const void *send, float *residual, struct tagc_lhc_input input, uint32_t threshold,
                              uint32_t id, float *values, uint32_t *ids, struct block *block)
{
  __m512 v = sum_vector(send, residual, input);
  __m512i magnitude = magnitude16(v);
  __mmask16 mask = _mm512_cmpge_epu32_mask(magnitude, _mm512_set1_epi32((int)threshold));
  block_add(block, magnitude);
  __m512 rest = _mm512_maskz_mov_ps(_knot_mask16(mask), v);
  _mm512_storeu_ps(residual, rest);
  __m512i id16 = _mm512_add_epi32(iota16(), _mm512_set1_epi32((int)id));
  uint32_t count = (uint32_t)__builtin_popcount(mask);
  append16(values, _mm512_maskz_compress_epi32(mask, _mm512_castps_si512(v)), count);
  append16(ids, _mm512_maskz_compress_epi32(mask, id16), count);
  __m512 scaled = _mm512_mul_ps(rest, block->scale);
  block->lane = _mm512_add_ps(block->lane, _mm512_mul_ps(scaled, scaled));
  return mask;
}

STEP uint32_t fine16(const float *values, uint32_t lanes, uint32_t coarse, uint32_t fine[16])
{
  __m512i bin = _mm512_srli_epi32(magnitude16(_mm512_maskz_loadu_ps((__mmask16)lanes, values)), 12);
  __mmask16 inside = _mm512_mask_cmpeq_epi32_mask((__mmask16)lanes, _mm512_srli_epi32(bin, 8),
                                                  _mm512_set1_epi32((int)coarse));
  bin = _mm512_and_si512(bin, _mm512_set1_epi32(TAGC_LHC_FINE - 1));
  _mm512_storeu_si512(fine, _mm512_maskz_compress_epi32(inside, bin));
  return (uint32_t)__builtin_popcount(inside);
}

STEP uint32_t filter16(const float *values, const uint32_t *ids, uint32_t lanes,
                                const struct tagc_lhc_choice *choice, uint32_t *rank, float *out_values,
                                uint32_t *out_ids, float left_values[16], uint32_t left_ids[16], uint32_t *left)
{
  __m512 v = _mm512_loadu_ps(values);
  __m512i id = _mm512_loadu_si512(ids), bin = _mm512_srli_epi32(magnitude16(v), 12);
  __m512i boundary = _mm512_set1_epi32((int)choice->bin), offset = _mm512_set1_epi32((int)choice->offset);
  __mmask16 all = (__mmask16)lanes, at = _mm512_mask_cmpeq_epi32_mask(all, bin, boundary);
  __mmask16 chosen = _mm512_mask_cmpgt_epu32_mask(all, bin, boundary);
  chosen = _mm512_mask_cmplt_epu32_mask(chosen, bin, _mm512_set1_epi32(TAGC_LHC_HUGE));
  __m512i ranks = _mm512_add_epi32(_mm512_maskz_expand_epi32(at, iota16()), _mm512_set1_epi32((int)*rank));
  __m512i from = _mm512_sub_epi32(ranks, offset);
  from = _mm512_mask_add_epi32(from, _mm512_cmplt_epu32_mask(ranks, offset), from,
                               _mm512_set1_epi32((int)choice->count));
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

STEP uint32_t exceptions16(const void *send, struct tagc_lhc_input input)
{
  __m512 v = _mm512_mul_ps(_mm512_set1_ps(input.scale), load16(send, input.dtype));
  return _mm512_cmpge_epu32_mask(magnitude16(v), _mm512_set1_epi32(TAGC_EXCEPTION_BITS));
}

STEP __m512i mul_hi32(__m512i a, __m512i b)
{
  __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(a, b), 32);
  __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
  return _mm512_mask_mov_epi32(even, 0xaaaa, odd);
}

STEP void lines16(const uint32_t *ids, uint32_t chunks, uint32_t chunk, uint32_t lines[16])
{
  __m512i local = _mm512_srli_epi32(_mm512_loadu_si512(ids), 5), all = _mm512_set1_epi32((int)chunks);
  if (chunks == 1) {
    _mm512_storeu_si512(lines, local);
    return;
  }
  __m512i turn = mul_hi32(_mm512_mullo_epi32(local, _mm512_set1_epi32((int)0x9e3779b9)), all);
  __m512i place = _mm512_sub_epi32(_mm512_set1_epi32((int)chunk), turn);
  place = _mm512_mask_add_epi32(place, _mm512_cmplt_epi32_mask(place, _mm512_setzero_si512()), place, all);
  _mm512_storeu_si512(lines, _mm512_add_epi32(_mm512_mullo_epi32(local, all), place));
}

STEP __m512i cells8(uint64_t seed, uint32_t part_cells, __m256i ids)
{
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
  return _mm512_ternarylogic_epi64(low, turned, cell, 0xca);     /* low ? turned : cell */
}

STEP void cells16(uint64_t seed, uint32_t part_cells, const uint32_t *ids, uint64_t cells[16])
{
  _mm512_storeu_si512(cells, cells8(seed, part_cells, _mm256_loadu_si256((const __m256i *)ids)));
  _mm512_storeu_si512(cells + 8, cells8(seed, part_cells, _mm256_loadu_si256((const __m256i *)(ids + 8))));
}

STEP uint32_t quantise16(const float *values, const uint32_t *lines, const uint8_t *exponents,
                                  int counter_bits, int32_t q[16], float left[16])
{
  __m512i block = _mm512_srli_epi32(_mm512_loadu_si512(lines), 5), bits = _mm512_loadu_si512(values);
  __m512i four = _mm512_i32gather_epi32(_mm512_srli_epi32(block, 2), exponents, 4);
  __m512i shift = _mm512_slli_epi32(_mm512_and_si512(block, _mm512_set1_epi32(3)), 3);
  __m512i exponent = _mm512_and_si512(_mm512_srlv_epi32(four, shift), _mm512_set1_epi32(0xff));
  /* The power of two of the unit; it is added to or taken from the field of an exponent. */
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

STEP uint32_t list_support(uint32_t *masks, uint32_t lines, uint32_t capacity, uint32_t *ids)
{
  __m512i first = iota16(), second = _mm512_add_epi32(first, _mm512_set1_epi32(16));
  const __m512i line = _mm512_set1_epi32(TAGC_LHC_LINE);
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

STEP uint32_t find_singles(const uint64_t *cells, uint32_t count, uint64_t *words)
{
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
                            struct tagc_lhc_result result)
{
  __m512i list = _mm512_loadu_si512(sums);
  /* Into a register first: to expand from memory takes Zen three times as long. */
  __asm__("" : "+v"(list));
  __m512i sum = _mm512_maskz_expand_epi32((__mmask16)mask, list);
  __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(unit));
  x = _mm512_add_ps(x, _mm512_mul_ps(_mm512_set1_ps(result.scale), load16(own, result.dtype)));
  __m512 divisor = _mm512_set1_ps(result.divisor);
  x = result.by_inverse ? _mm512_mul_ps(x, divisor) : _mm512_div_ps(x, divisor);
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  store16(recv, result, _mm512_mask_mov_ps(x, nan, _mm512_castsi512_ps(_mm512_set1_epi32(TAGC_NAN_BITS))));
}

STEP void stream_end(void) { _mm_sfence(); }

#endif
