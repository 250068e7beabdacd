/* SPDX-License-Identifier: BSD-3-Clause
 * A block of 256 elements in the registers of a warp, for dense.cu: how it gets there, how it is rotated, how it leaves.
 *
 * Places   A lane holds eight elements of a block: 4 lane to 4 lane + 3 of each half. So the lanes' accesses are
 *          neighbours whatever the width of an element, the halves' codes of q4 meet in one byte, and so do strides 1, 2
 *          and 128 of the rotation in one lane.
 * Memory   Four elements at once where the address allows, else one by one, or byte by byte. Incomplete blocks read as
 *          zeros, and nothing is written behind their end.
 * Order    Sums are made in the order of dense_kernels.inc.c; that order is part of the formats.
 */
#ifndef KERNELS_DENSE_LANES_CUH
#define KERNELS_DENSE_LANES_CUH

#include "kernels/codec_dense.h"
#include "kernels/residual_blocks.h"
#include "kernels/rotate.h"

enum { BLOCK = TAGC_DENSE_BLOCK, HALF = BLOCK / 2, LANES = 32, EACH = BLOCK / LANES, ROW = EACH / 2 };

#define ALL_LANES 0xffffffffu
#define DEVICE static __device__ __forceinline__
#ifdef __CUDACC__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif

/* Where a lane's element i is in its block. */
DEVICE uint32_t place_of(uint32_t lane, uint32_t i) { return (i < ROW ? 0 : HALF) + ROW * lane + i % ROW; }

/* -- four elements in memory --------------------------------------------------------------------------------------- */

enum access { BY_BYTES, BY_ELEMENTS, BY_ROWS };

/* As they lie in memory: 4, 8 or 16 bytes. */
struct row {
  uint32_t word[ROW];
};

DEVICE enum access access_of(const void *at, uint32_t size)
{
  const uintptr_t address = (uintptr_t)at;
  return address % (ROW * size) == 0 ? BY_ROWS : address % size == 0 ? BY_ELEMENTS : BY_BYTES;
}

/* How many of the row at `place` a block of `count` elements has. */
DEVICE uint32_t row_length(uint32_t place, uint32_t count)
{
  return place >= count ? 0 : count - place < ROW ? count - place : (uint32_t)ROW;
}

/* Element i of a row, of `size` bytes. */
template <uint32_t size> DEVICE uint32_t row_get(const struct row &row, uint32_t i)
{
  return size == 4 ? row.word[i] : row.word[size * i / 4] >> 8 * (size * i % 4) & ((1u << 8 * size % 32) - 1);
}

/* Of a row of zeros. */
template <uint32_t size> DEVICE void row_put(struct row &row, uint32_t i, uint32_t element)
{
  row.word[size * i / 4] |= element << 8 * (size * i % 4);
}

template <uint32_t size> DEVICE struct row row_fetch(const void *from, enum access how, uint32_t length)
{
  struct row row = {{0, 0, 0, 0}};
  if (how == BY_ROWS && length == ROW) {
    if (size == 4) {
      const uint4 all = *(const uint4 *)from;
      row.word[0] = all.x, row.word[1] = all.y, row.word[2] = all.z, row.word[3] = all.w;
    } else if (size == 2) {
      const uint2 all = *(const uint2 *)from;
      row.word[0] = all.x, row.word[1] = all.y;
    } else {
      row.word[0] = *(const uint32_t *)from;
    }
  } else if (how != BY_BYTES) {
    UNROLL for (uint32_t i = 0; i < ROW; i++)
      if (i < length)
        row_put<size>(row, i, size == 4   ? ((const uint32_t *)from)[i]
                              : size == 2 ? ((const uint16_t *)from)[i]
                                          : ((const uint8_t *)from)[i]);
  } else {
    UNROLL for (uint32_t i = 0; i < ROW * size; i++)
      if (i < length * size)
        row.word[i / 4] |= (uint32_t)((const uint8_t *)from)[i] << 8 * (i % 4);
  }
  return row;
}

template <uint32_t size> DEVICE void row_store(void *to, enum access how, uint32_t length, const struct row &row)
{
  if (how == BY_ROWS && length == ROW) {
    if (size == 4)
      *(uint4 *)to = make_uint4(row.word[0], row.word[1], row.word[2], row.word[3]);
    else if (size == 2)
      *(uint2 *)to = make_uint2(row.word[0], row.word[1]);
    else
      *(uint32_t *)to = row.word[0];
  } else if (how != BY_BYTES) {
    UNROLL for (uint32_t i = 0; i < ROW; i++)
      if (i < length) {
        const uint32_t element = row_get<size>(row, i);
        if (size == 4)
          ((uint32_t *)to)[i] = element;
        else if (size == 2)
          ((uint16_t *)to)[i] = (uint16_t)element;
        else
          ((uint8_t *)to)[i] = (uint8_t)element;
      }
  } else {
    UNROLL for (uint32_t i = 0; i < ROW * size; i++)
      if (i < length * size)
        ((uint8_t *)to)[i] = (uint8_t)(row.word[i / 4] >> 8 * (i % 4));
  }
}

/* -- a lane's part of a block -------------------------------------------------------------------------------------- */

struct rows {
  struct row half[2];
};

/* Of the block's `count` elements at `from`. */
template <uint32_t size> DEVICE struct rows rows_fetch(const void *from, enum access how, uint32_t lane, uint32_t count)
{
  struct rows rows;
  UNROLL for (uint32_t half = 0; half < 2; half++) {
    const uint32_t place = place_of(lane, ROW * half);
    rows.half[half] = row_fetch<size>((const char *)from + size * place, how, row_length(place, count));
  }
  return rows;
}

template <uint32_t size>
DEVICE void rows_store(void *to, enum access how, uint32_t lane, uint32_t count, const struct rows &rows)
{
  UNROLL for (uint32_t half = 0; half < 2; half++) {
    const uint32_t place = place_of(lane, ROW * half);
    row_store<size>((char *)to + size * place, how, row_length(place, count), rows.half[half]);
  }
}

template <uint32_t size> DEVICE uint32_t rows_get(const struct rows &rows, uint32_t i)
{
  return row_get<size>(rows.half[i / ROW], i % ROW);
}

template <uint32_t size> DEVICE void rows_put(struct rows &rows, uint32_t i, uint32_t element)
{
  row_put<size>(rows.half[i / ROW], i % ROW, element);
}

/* Elements of a type: fetched first and converted later, so that what is fetched together is waited for together. */
DEVICE struct rows elements_fetch(const void *from, uint32_t dtype, uint32_t lane, uint32_t count)
{
  return dtype == TAGC_FLOAT32 ? rows_fetch<4>(from, access_of(from, 4), lane, count)
                               : rows_fetch<2>(from, access_of(from, 2), lane, count);
}

DEVICE void elements_convert(const struct rows &rows, uint32_t dtype, float x[EACH])
{
  if (dtype == TAGC_FLOAT32)
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = tagc_float_of(rows_get<4>(rows, i));
  else if (dtype == TAGC_FLOAT16)
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = tagc_from_fp16((uint16_t)rows_get<2>(rows, i));
  else
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = tagc_from_bf16((uint16_t)rows_get<2>(rows, i));
}

DEVICE void elements_store(void *to, uint32_t dtype, uint32_t lane, uint32_t count, const float x[EACH])
{
  struct rows rows = {};
  if (dtype == TAGC_FLOAT32) {
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      rows_put<4>(rows, i, tagc_bits_of(x[i]));
    rows_store<4>(to, access_of(to, 4), lane, count, rows);
    return;
  }
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    rows_put<2>(rows, i, dtype == TAGC_FLOAT16 ? tagc_to_fp16(x[i]) : tagc_to_bf16(x[i]));
  rows_store<2>(to, access_of(to, 2), lane, count, rows);
}

/* -- what a warp finds out together -------------------------------------------------------------------------------- */

DEVICE uint32_t warp_most(uint32_t x)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(ALL_LANES, x);
#else
  UNROLL for (int by = LANES / 2; by > 0; by /= 2) {
    const uint32_t other = __shfl_xor_sync(ALL_LANES, x, by);
    x = other > x ? other : x;
  }
  return x;
#endif
}

/* Of the magnitudes of x[0..count). */
DEVICE float warp_largest(const float *x, uint32_t count)
{
  uint32_t most = 0;
  UNROLL for (uint32_t i = 0; i < count; i++) {
    const uint32_t magnitude = tagc_bits_of(x[i]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  return tagc_float_of(warp_most(most));
}

/* The sum over each sixteen lanes, for all of them: the tree of the formats. */
template <typename T> DEVICE T tree_sum(T x)
{
  UNROLL for (int by = LANES / 4; by > 0; by /= 2)
    x = x + __shfl_xor_sync(ALL_LANES, x, by);
  return x;
}

template <typename T> DEVICE T warp_sum(T x)
{
  x = tree_sum(x);
  return x + __shfl_xor_sync(ALL_LANES, x, LANES / 2);
}

/* -- chance and rotation -------------------------------------------------------------------------------------------- */

/* Sixteen bits for each of a lane's elements. */
struct chance {
  uint64_t half[2];
};

DEVICE struct chance chance_of(uint64_t key, uint32_t block, uint32_t lane)
{
  struct chance chance;
  UNROLL for (uint32_t half = 0; half < 2; half++)
    chance.half[half] = tagc_chance(key, block, place_of(lane, ROW * half) / 4);
  return chance;
}

DEVICE uint32_t chance_get(const struct chance &chance, uint32_t i)
{
  return (uint32_t)(chance.half[i / ROW] >> 16 * (i % ROW)) & 0xffffu;
}

/* The signs of a lane's elements, from the lowest bit on. */
DEVICE uint32_t signs_of(uint64_t key, uint32_t block, uint32_t lane)
{
  uint32_t signs = 0;
  UNROLL for (uint32_t half = 0; half < 2; half++) {
    const uint32_t place = place_of(lane, ROW * half);
    signs |= (uint32_t)(tagc_rotation_signs(key, block, place / 64) >> place % 64 & ((1u << ROW) - 1)) << ROW * half;
  }
  return signs;
}

DEVICE float turn_sign(float x, uint32_t signs, uint32_t i) { return tagc_float_of(tagc_bits_of(x) ^ (signs >> i & 1) << 31); }

DEVICE void butterflies(float x[EACH], uint32_t stride)
{
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    if (!(i & stride)) {
      const float a = x[i], b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
}

/* rotate.h's H: strides 1, 2; 4 to 64 between lanes; 128. */
DEVICE void hadamard(float x[EACH], uint32_t lane)
{
  butterflies(x, 1);
  butterflies(x, 2);
  UNROLL for (uint32_t by = 1; by < LANES; by *= 2) {
    const float sign = lane & by ? -1 : 1;    /* other - x is -1 * x + other, to the bit: the product is exact */
    UNROLL for (uint32_t i = 0; i < EACH; i++) {
      const float other = __shfl_xor_sync(ALL_LANES, x[i], (int)by);
      x[i] = __fmaf_rn(sign, x[i], other);
    }
  }
  butterflies(x, ROW);
}

DEVICE void rotate(const float x[EACH], uint32_t signs, uint32_t lane, float rotated[EACH])
{
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    rotated[i] = turn_sign(x[i] * 0x1p-8f, signs, i);
  hadamard(rotated, lane);
}

DEVICE void turn_back(float x[EACH], uint32_t signs, uint32_t lane)
{
  hadamard(x, lane);
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    x[i] = turn_sign(x[i], signs, i);
}

#endif
