/* SPDX-License-Identifier: BSD-3-Clause
 * A block of 256 elements in the registers of a warp: loads, rotation, stores.
 *
 * Places   A lane holds eight elements of a block: 4 lane to 4 lane + 3 of each half. So the lanes access neighbouring
 *          memory, whatever the width of an element. The halves' codes of q4 meet in one byte, and strides 1, 2 and 128
 *          of the rotation stay in one lane.
 * Memory   Four elements at once if the block is whole and aligned for that; else by way of shared memory, which has
 *          zeros beyond the end. Nothing is read or written there.
 * Caches   Data used `once` leaves the caches first, to make room for the rest.
 * Order    Sums are made in the order of dense/kernels.c; that order is part of the formats.
 */
#ifndef KERNELS_CUDA_LANES_CUH
#define KERNELS_CUDA_LANES_CUH

#include "kernels/codec/blocks.h"
#include "kernels/codec/residual_blocks.h"
#include "kernels/codec/rotate.h"

enum { BLOCK = TAGC_DENSE_BLOCK, HALF = BLOCK / 2, LANES = 32, EACH = BLOCK / LANES, ROW = EACH / 2 };

#define ALL_LANES 0xffffffffu
#define DEVICE static __device__ __forceinline__
/* A loop that nvcc unrolls, by the number in its name or wholly. clang-format treats these as loops. */
#ifdef __CUDACC__
#define UNROLL_FOR(...) _Pragma("unroll") for (__VA_ARGS__)
#define UNROLL_4_FOR(...) _Pragma("unroll 4") for (__VA_ARGS__)
#define UNROLL_8_FOR(...) _Pragma("unroll 8") for (__VA_ARGS__)
#else
#define UNROLL_FOR(...) for (__VA_ARGS__)
#define UNROLL_4_FOR UNROLL_FOR
#define UNROLL_8_FOR UNROLL_FOR
#endif

/* The position of a lane's element i in its block. */
DEVICE uint32_t place_of(uint32_t lane, uint32_t i) { return (i < ROW ? 0 : HALF) + ROW * lane + i % ROW; }

/* -- a lane's part of a block, as it lies in memory ---------------------------------------------------------------- */

struct rows {
  uint32_t word[2][ROW]; /* of each half: 4, 8 or 16 bytes */
};

/* Element i, of `size` bytes. */
template <uint32_t size> DEVICE uint32_t rows_get(const struct rows &rows, uint32_t i) {
  const uint32_t at = size * (i % ROW), word = rows.word[i / ROW][at / 4];
  return size == 4 ? word : word >> 8 * (at % 4) & ((1u << 8 * size % 32) - 1);
}

/* `rows` begin as zeros. */
template <uint32_t size> DEVICE void rows_put(struct rows &rows, uint32_t i, uint32_t element) {
  const uint32_t at = size * (i % ROW);
  rows.word[i / ROW][at / 4] |= element << 8 * (at % 4);
}

/* Both halves; addresses are aligned for whole rows. */
template <uint32_t size, bool once = false> DEVICE struct rows rows_read(const char *from, uint32_t lane) {
  struct rows rows = {};
  UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
    const char *at = from + size * place_of(lane, ROW * half);
    uint32_t *word = rows.word[half];
    if (size == 4) {
      const uint4 all = once ? __ldcs((const uint4 *)at) : *(const uint4 *)at;
      word[0] = all.x, word[1] = all.y, word[2] = all.z, word[3] = all.w;
    } else if (size == 2) {
      const uint2 all = once ? __ldcs((const uint2 *)at) : *(const uint2 *)at;
      word[0] = all.x, word[1] = all.y;
    } else {
      word[0] = once ? __ldcs((const uint32_t *)at) : *(const uint32_t *)at;
    }
  }
  return rows;
}

/* `once`: device memory, and not the group's. */
template <typename T, bool once> DEVICE void put(void *to, T value) {
  if (once)
    __stcs((T *)to, value);
  else
    *(T *)to = value;
}

template <uint32_t size, bool once = false> DEVICE void rows_write(char *to, uint32_t lane, const struct rows &rows) {
  UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
    char *at = to + size * place_of(lane, ROW * half);
    const uint32_t *word = rows.word[half];
    if (size == 4)
      put<uint4, once>(at, make_uint4(word[0], word[1], word[2], word[3]));
    else if (size == 2)
      put<uint2, once>(at, make_uint2(word[0], word[1]));
    else
      put<uint32_t, once>(at, word[0]);
  }
}

/* -- memory that is not for whole rows: through shared memory ------------------------------------------------------ */

/* Copies the first `bytes` of `all`, both multiples of sizeof(T), and fills the rest with zeros. */
template <typename T> DEVICE void copy_as(void *to, const void *from, uint32_t bytes, uint32_t all, uint32_t lane) {
  UNROLL_4_FOR (uint32_t i = lane; i < all / sizeof(T); i += LANES)
    ((T *)to)[i] = i < bytes / sizeof(T) ? ((const T *)from)[i] : (T)0;
}

/* Copies in the widest unit that both addresses and the size allow. Synchronizes the warp's lanes before and after. */
static __device__ __noinline__ void copy(void *to, const void *from, uint32_t bytes, uint32_t all, uint32_t lane) {
  const uint32_t odd = (uint32_t)(uintptr_t)to | (uint32_t)(uintptr_t)from | bytes;
  __syncwarp();
  if (odd % 4 == 0)
    copy_as<uint32_t>(to, from, bytes, all, lane);
  else if (odd % 2 == 0)
    copy_as<uint16_t>(to, from, bytes, all, lane);
  else
    copy_as<uint8_t>(to, from, bytes, all, lane);
  __syncwarp();
}

/* The rows of a block of `count` elements at any address; zeros beyond. `stage`: the warp's own, for a block. */
template <uint32_t size, bool once = false>
DEVICE struct rows rows_fetch(const void *from, uint32_t lane, uint32_t count, float *stage) {
  if (count == BLOCK && (uintptr_t)from % (ROW * size) == 0)
    return rows_read<size, once>((const char *)from, lane);
  copy(stage, from, size * count, size * BLOCK, lane);
  return rows_read<size>((const char *)stage, lane);
}

template <uint32_t size, bool once = false>
DEVICE void rows_store(void *to, uint32_t lane, uint32_t count, const struct rows &rows, float *stage) {
  if (count == BLOCK && (uintptr_t)to % (ROW * size) == 0) {
    rows_write<size, once>((char *)to, lane, rows);
    return;
  }
  __syncwarp();
  rows_write<size>((char *)stage, lane, rows);
  copy(to, stage, size * count, size * count, lane);
}

/* -- elements of a type -------------------------------------------------------------------------------------------- */

/* Fetches first, converts later: all loads are then waited for together. */
template <bool once = false>
DEVICE struct rows elements_fetch(const void *from, uint32_t dtype, uint32_t lane, uint32_t count, float *stage) {
  return dtype == TAGC_FLOAT32 ? rows_fetch<4, once>(from, lane, count, stage)
                               : rows_fetch<2, once>(from, lane, count, stage);
}

DEVICE void elements_convert(const struct rows &rows, uint32_t dtype, float x[EACH]) {
  if (dtype == TAGC_FLOAT32)
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = tagc_float_of(rows_get<4>(rows, i));
  else if (dtype == TAGC_FLOAT16)
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = tagc_from_fp16((uint16_t)rows_get<2>(rows, i));
  else
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = tagc_from_bf16((uint16_t)rows_get<2>(rows, i));
}

DEVICE void elements_store(void *to, uint32_t dtype, uint32_t lane, uint32_t count, const float x[EACH], float *stage) {
  struct rows rows = {};
  if (dtype == TAGC_FLOAT32) {
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      rows_put<4>(rows, i, tagc_bits_of(x[i]));
    rows_store<4>(to, lane, count, rows, stage);
    return;
  }
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    rows_put<2>(rows, i, dtype == TAGC_FLOAT16 ? tagc_to_fp16(x[i]) : tagc_to_bf16(x[i]));
  rows_store<2>(to, lane, count, rows, stage);
}

/* -- what a warp finds out together -------------------------------------------------------------------------------- */

/* An instruction of newer GPUs. Tests have it, too, where kernels run as the host's code. */
#if !defined(__CUDACC__) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800)
#define LANES_REDUCE 1
#else
#define LANES_REDUCE 0
#endif

DEVICE uint32_t warp_most(uint32_t x) {
#if LANES_REDUCE
  return __reduce_max_sync(ALL_LANES, x);
#else
  UNROLL_FOR (int by = LANES / 2; by > 0; by /= 2) {
    const uint32_t other = __shfl_xor_sync(ALL_LANES, x, by);
    x = other > x ? other : x;
  }
  return x;
#endif
}

DEVICE uint32_t warp_add(uint32_t x) {
#if LANES_REDUCE
  return __reduce_add_sync(ALL_LANES, x);
#else
  UNROLL_FOR (int by = LANES / 2; by > 0; by /= 2)
    x += __shfl_xor_sync(ALL_LANES, x, by);
  return x;
#endif
}

/* The largest of the magnitudes of x[0..count). */
DEVICE float warp_largest(const float *x, uint32_t count) {
  uint32_t most = 0;
  UNROLL_FOR (uint32_t i = 0; i < count; i++) {
    const uint32_t magnitude = tagc_bits_of(x[i]) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  return tagc_float_of(warp_most(most));
}

/* The sum over each sixteen lanes, for all of them: the tree of the formats. */
template <typename T> DEVICE T tree_sum(T x) {
  UNROLL_FOR (int by = LANES / 4; by > 0; by /= 2)
    x = x + __shfl_xor_sync(ALL_LANES, x, by);
  return x;
}

template <typename T> DEVICE T warp_sum(T x) {
  x = tree_sum(x);
  return x + __shfl_xor_sync(ALL_LANES, x, LANES / 2);
}

/* The sum of `x` over the lanes before this one; *all: over all lanes. */
DEVICE uint32_t warp_before(uint32_t x, uint32_t lane, uint32_t *all) {
  uint32_t upto = x;
  UNROLL_FOR (uint32_t by = 1; by < LANES; by *= 2) {
    const uint32_t other = __shfl_up_sync(ALL_LANES, upto, by);
    upto += lane >= by ? other : 0;
  }
  *all = __shfl_sync(ALL_LANES, upto, LANES - 1);
  return upto - x;
}

/* Deals out the lanes' uneven work evenly: the owner of piece `at` (less than all); a lane's begin at `before`. */
DEVICE uint32_t warp_owner(uint32_t before, uint32_t at) {
  uint32_t owner = 0;
  UNROLL_FOR (uint32_t by = LANES / 2; by > 0; by /= 2)
    owner += __shfl_sync(ALL_LANES, before, (int)(owner + by)) <= at ? by : 0;
  return owner;
}

/* -- chance and rotation ------------------------------------------------------------------------------------------- */

/* Sixteen random bits for each of a lane's elements. */
struct chance {
  uint64_t half[2];
};

DEVICE struct chance chance_of(uint64_t key, uint32_t block, uint32_t lane) {
  struct chance chance;
  UNROLL_FOR (uint32_t half = 0; half < 2; half++)
    chance.half[half] = tagc_chance(key, block, place_of(lane, ROW * half) / 4);
  return chance;
}

DEVICE uint32_t chance_get(const struct chance &chance, uint32_t i) {
  return (uint32_t)(chance.half[i / ROW] >> 16 * (i % ROW)) & 0xffffu;
}

/* The signs of a lane's elements, from the lowest bit on. */
DEVICE uint32_t signs_of(uint64_t key, uint32_t block, uint32_t lane) {
  uint32_t signs = 0;
  UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
    const uint32_t place = place_of(lane, ROW * half);
    signs |= (uint32_t)(tagc_rotation_signs(key, block, place / 64) >> place % 64 & ((1u << ROW) - 1)) << ROW * half;
  }
  return signs;
}

DEVICE float turn_sign(float x, uint32_t signs, uint32_t i) {
  return tagc_float_of(tagc_bits_of(x) ^ (signs >> i & 1) << 31);
}

DEVICE void butterflies(float x[EACH], uint32_t stride) {
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    if (!(i & stride)) {
      const float a = x[i], b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
}

/* rotate.h's H: strides 1, 2; 4 to 64 between lanes; 128. */
DEVICE void hadamard(float x[EACH], uint32_t lane) {
  butterflies(x, 1);
  butterflies(x, 2);
  UNROLL_FOR (uint32_t by = 1; by < LANES; by *= 2) {
    const float sign = lane & by ? -1 : 1; /* other - x is -1 * x + other, to the bit: the product is exact */
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const float other = __shfl_xor_sync(ALL_LANES, x[i], (int)by);
      x[i] = __fmaf_rn(sign, x[i], other);
    }
  }
  butterflies(x, ROW);
}

DEVICE void rotate(const float x[EACH], uint32_t signs, uint32_t lane, float rotated[EACH]) {
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    rotated[i] = turn_sign(x[i] * 0x1p-8f, signs, i);
  hadamard(rotated, lane);
}

DEVICE void turn_back(float x[EACH], uint32_t signs, uint32_t lane) {
  hadamard(x, lane);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    x[i] = turn_sign(x[i], signs, i);
}

#endif
