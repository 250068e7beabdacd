/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of the dense codecs on a GPU: a warp encodes a block in its registers, and adds one that was sent.
 * {bf16,q8,q4,q3,q2}.c describe the bytes, lanes.cuh the places of elements. encode() returns the halves of the block
 * that were silent, as bits: no scale of theirs is above zero.
 */
#ifndef KERNELS_DENSE_CODECS_CUH
#define KERNELS_DENSE_CODECS_CUH

#include "kernels/dense/dense.h"
#include "kernels/cuda/lanes.cuh"

/* A block on its way out. Every codec has a warp's scratch for a block, free before and after: who writes there
 * synchronizes the lanes first. */
struct sent {
  uint16_t *scales; /* of this block */
  uint8_t *codes;
  uint32_t block, count; /* count: its elements of the shard */
  uint64_t rotation_key, chance_key;
  bool stochastic;
};

template <enum tagc_dense_codec codec> struct steps;

enum { BOTH_HALVES = 3 };

/* -- bf16: codes are not sent beyond the shard's end -------------------------------------------------------------- */

template <> struct steps<TAGC_DENSE_BF16> {
  enum { SCALES = 0, BYTES = 2 * BLOCK, ROTATES = false };

  static __device__ __forceinline__ uint32_t encode(const struct sent &to, const float x[EACH], uint32_t lane,
                                                    float *scratch, float left[EACH]) {
    struct rows rows = {};
    struct chance chance = {};
    if (to.stochastic)
      chance = chance_of(to.chance_key, to.block, lane);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const uint32_t code = to.stochastic ? (tagc_bits_of(x[i]) + chance_get(chance, i)) >> 16 : tagc_to_bf16(x[i]);
      rows_put<2>(rows, i, code);
      left[i] = x[i] - tagc_from_bf16((uint16_t)code);
    }
    rows_store<2>(to.codes, lane, to.count, rows, scratch);
    return 0;
  }

  static __device__ __forceinline__ void add(float sum[EACH], const uint16_t *, const uint8_t *codes, uint32_t lane,
                                             uint32_t count, float *scratch) {
    const struct rows rows = rows_fetch<2>(codes, lane, count, scratch);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      sum[i] += tagc_from_bf16((uint16_t)rows_get<2>(rows, i));
  }
};

/* -- q8, q4 -------------------------------------------------------------------------------------------------------- */

DEVICE float code_of(const struct sent &to, float x, float inverse, float limit, const struct chance &chance,
                     uint32_t i) {
  float y = x * inverse;
  if (to.stochastic)
    y = y + ((float)chance_get(chance, i) * TAGC_CHANCE_UNIT + TAGC_CHANCE_LEAST);
  return tagc_code(y, limit);
}

template <> struct steps<TAGC_DENSE_Q8> {
  enum { SCALES = 1, BYTES = BLOCK, ROTATES = false };

  static __device__ __forceinline__ uint32_t encode(const struct sent &to, const float x[EACH], uint32_t lane, float *,
                                                    float left[EACH]) {
    const uint16_t scale = tagc_scale_up(warp_largest(x, EACH), 127);
    const float inverse = tagc_scale_inverse(scale), unit = tagc_from_bf16(scale);
    struct rows rows = {};
    struct chance chance = {};
    if (to.stochastic)
      chance = chance_of(to.chance_key, to.block, lane);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const float code = code_of(to, x[i], inverse, 127, chance, i);
      rows_put<1>(rows, i, (uint32_t)(int32_t)code & 0xff);
      left[i] = x[i] - code * unit;
    }
    rows_write<1>((char *)to.codes, lane, rows);
    if (lane == 0)
      *to.scales = scale;
    return scale == 0 ? BOTH_HALVES : 0;
  }

  static __device__ __forceinline__ void add(float sum[EACH], const uint16_t *scales, const uint8_t *codes,
                                             uint32_t lane, uint32_t, float *) {
    const struct rows rows = rows_read<1>((const char *)codes, lane);
    const float unit = tagc_from_bf16(*scales);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      sum[i] += (float)(int8_t)rows_get<1>(rows, i) * unit;
  }
};

template <> struct steps<TAGC_DENSE_Q4> {
  enum { SCALES = 2, BYTES = BLOCK / 2, ROTATES = true };

  /* The word with byte 4 lane on: each has a code of the lower half and one of the upper. */
  static __device__ __forceinline__ uint32_t encode(const struct sent &to, const float x[EACH], uint32_t lane, float *,
                                                    float left[EACH]) {
    const uint32_t signs = signs_of(to.rotation_key, to.block, lane);
    float rotated[EACH];
    rotate(x, signs, lane, rotated);
    struct chance chance = {};
    if (to.stochastic)
      chance = chance_of(to.chance_key, to.block, lane);
    uint32_t word = 0, scales = 0;
    UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
      const uint16_t scale = tagc_scale_up(warp_largest(rotated + ROW * half, ROW), 7);
      const float inverse = tagc_scale_inverse(scale), unit = tagc_from_bf16(scale);
      scales |= (uint32_t)scale << 16 * half;
      UNROLL_FOR (uint32_t i = 0; i < ROW; i++) {
        const float code = code_of(to, rotated[ROW * half + i], inverse, 7, chance, ROW * half + i);
        word |= ((uint32_t)(int32_t)code & 15) << (8 * i + 4 * half);
        left[ROW * half + i] = code * unit;
      }
    }
    ((uint32_t *)to.codes)[lane] = word;
    if (lane == 0)
      *(uint32_t *)to.scales = scales;
    turn_back(left, signs, lane);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      left[i] = x[i] - left[i];
    return scales == 0 ? BOTH_HALVES : 0;
  }

  static __device__ __forceinline__ void add(float sum[EACH], const uint16_t *scales, const uint8_t *codes,
                                             uint32_t lane, uint32_t, float *) {
    const uint32_t word = ((const uint32_t *)codes)[lane], both = *(const uint32_t *)scales;
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const uint32_t nibble = word >> (8 * (i % ROW) + i / ROW * 4) & 15;
      sum[i] += (float)((int32_t)(nibble ^ 8) - 8) * tagc_from_bf16((uint16_t)(both >> i / ROW * 16));
    }
  }
};

/* -- q3 ------------------------------------------------------------------------------------------------------------ */

/* Picks one of eight by the lowest three bits. */
DEVICE float q3_pick(uint32_t code, const float eight[8]) {
  const float even = code & 2 ? (code & 4 ? eight[6] : eight[2]) : code & 4 ? eight[4] : eight[0];
  const float odd = code & 2 ? (code & 4 ? eight[7] : eight[3]) : code & 4 ? eight[5] : eight[1];
  return code & 1 ? odd : even;
}

template <> struct steps<TAGC_DENSE_Q3> {
  enum { SCALES = 2, BYTES = BLOCK / 8 * 3, ROTATES = false };

  /* The places of element i's code: two bits in the word with byte 4 (lane % 16) on, and one bit in the word with byte
   * 64 + 4 (lane % 8) on. */
  static __device__ __forceinline__ uint32_t lower_at(uint32_t lane, uint32_t i) {
    return 8 * (i % ROW) + i / ROW * 4 + lane / 16 * 2;
  }
  static __device__ __forceinline__ uint32_t upper_at(uint32_t lane, uint32_t i) {
    return 8 * (i % ROW) + i / ROW * 4 + lane / 8;
  }

  static __device__ __forceinline__ uint32_t encode(const struct sent &to, const float x[EACH], uint32_t lane,
                                                    float *scratch, float left[EACH]) {
    float v[EACH], power[2], spread, eight[8];
    uint32_t most[2] = {0, 0};
    UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
      UNROLL_FOR (uint32_t i = 0; i < ROW; i++) {
        const uint32_t bits = tagc_bits_of(x[ROW * half + i]), key = bits << 1 | bits >> 31;
        most[half] = key > most[half] ? key : most[half];
      }
      most[half] = warp_most(most[half]);
      power[half] = tagc_q3_power(most[half]);
      UNROLL_FOR (uint32_t i = 0; i < ROW; i++)
        v[ROW * half + i] = x[ROW * half + i] * power[half];
    }
    const uint32_t half_of = lane / 16; /* half of the lanes look at each half */
    const uint32_t scales =
      choose(to, v, half_of ? most[1] : most[0], half_of ? power[1] : power[0], lane, scratch, &spread);
    uint32_t lower = 0, upper = 0;
    UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
      float threshold[4];
      tagc_q3_thresholds(__shfl_sync(ALL_LANES, spread, (int)(LANES / 2 * half)), threshold);
      tagc_q3_values(tagc_from_bf16((uint16_t)(scales >> 16 * half)), eight);
      UNROLL_FOR (uint32_t i = ROW * half; i < ROW * half + ROW; i++) {
        const uint32_t code = tagc_q3_code(v[i], threshold);
        lower |= (code & 3) << lower_at(lane, i);
        upper |= code >> 2 << upper_at(lane, i);
        left[i] = x[i] - q3_pick(code, eight);
      }
    }
    lower |= __shfl_xor_sync(ALL_LANES, lower, LANES / 2);
    upper |= __shfl_xor_sync(ALL_LANES, upper, LANES / 2);
    upper |= __shfl_xor_sync(ALL_LANES, upper, LANES / 4);
    if (lane < LANES / 2 + LANES / 4)
      ((uint32_t *)to.codes)[lane] = lane < LANES / 2 ? lower : upper;
    if (lane == 0)
      *(uint32_t *)to.scales = scales;
    return (power[0] == 0) | (power[1] == 0) << 1;
  }

  /* Returns both scales, and the spread of the lane's half. */
  static __device__ __forceinline__ uint32_t choose(const struct sent &to, const float v[EACH], uint32_t most,
                                                    float power, uint32_t lane, float *scratch, float *spread) {
    float sum = 0, products = 0, levels = 0, threshold[4], eight[8];
    const uint32_t other = lane & 16; /* the upper half lies in other banks of shared memory than the lower one */
    const float *row = scratch + HALF * (lane / 16) + lane % 16;
    __syncwarp(); /* the last readers are done */
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      scratch[place_of(i < ROW ? lane : lane ^ 4, i)] = v[i];
    __syncwarp();
    UNROLL_4_FOR (uint32_t i = 0; i < HALF; i += 16)
      sum += row[i ^ other] * row[i ^ other];
    sum = tree_sum(sum);
    *spread = tagc_q3_spread(sum, most, power);
    tagc_q3_thresholds(*spread, threshold);
    tagc_q3_values(1, eight);
    UNROLL_4_FOR (uint32_t i = 0; i < HALF; i += 16) {
      const float its = row[i ^ other], level = q3_pick(tagc_q3_code(its, threshold), eight);
      products += its * level;
      levels += level * level;
    }
    products = tree_sum(products);
    levels = tree_sum(levels);
    const uint32_t scale = tagc_q3_scale(sum, products, levels, power, to.stochastic);
    return __shfl_sync(ALL_LANES, scale, 0) | __shfl_sync(ALL_LANES, scale, LANES / 2) << 16;
  }

  static __device__ __forceinline__ void add(float sum[EACH], const uint16_t *scales, const uint8_t *codes,
                                             uint32_t lane, uint32_t, float *) {
    const uint32_t both = *(const uint32_t *)scales, lower = ((const uint32_t *)codes)[lane % 16];
    const uint32_t upper = ((const uint32_t *)codes)[16 + lane % 8];
    UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
      float eight[8];
      tagc_q3_values(tagc_from_bf16((uint16_t)(both >> 16 * half)), eight);
      UNROLL_FOR (uint32_t i = ROW * half; i < ROW * half + ROW; i++) {
        const uint32_t code = (lower >> lower_at(lane, i) & 3) | (upper >> upper_at(lane, i) & 1) << 2;
        sum[i] += q3_pick(code, eight);
      }
    }
  }
};

/* -- q2 ------------------------------------------------------------------------------------------------------------ */

/* The squares of a block in `row`: sixteen sums, each over every sixteenth value in order, and the tree over these. */
DEVICE float q2_squares(const float *row, uint32_t lane) {
  float squares = 0;
  UNROLL_4_FOR (uint32_t i = 0; i < BLOCK; i += 16) {
    const float v = row[i + lane % 16];
    squares += v * v;
  }
  return tree_sum(squares);
}

/* The same for magnitudes times levels; *large: the number of large ones. */
DEVICE float q2_products(const float *row, uint32_t lane, float threshold, uint32_t *large) {
  float products = 0;
  uint32_t count = 0;
  UNROLL_4_FOR (uint32_t i = 0; i < BLOCK; i += 16) {
    const float v = row[i + lane % 16];
    const bool is_large = v * v > threshold;
    products += tagc_float_of(tagc_bits_of(v) & 0x7fffffffu) * (is_large ? TAGC_Q2_LARGE : TAGC_Q2_SMALL);
    count += is_large;
  }
  *large = tree_sum(count);
  return tree_sum(products);
}

/* Picks one of four by the lowest two bits. */
DEVICE float q2_pick(uint32_t code, const float four[4]) {
  const float magnitude_of = code & 1 ? four[1] : four[0], negative = code & 1 ? four[3] : four[2];
  return code & 2 ? negative : magnitude_of;
}

template <> struct steps<TAGC_DENSE_Q2> {
  enum { SCALES = 1, BYTES = BLOCK / 4, ROTATES = true };

  /* The place of element i's code in the word with byte 4 (lane % 16) on: two bits, four bits apart. */
  static __device__ __forceinline__ uint32_t shift_of(uint32_t lane, uint32_t i) {
    return 8 * (i % ROW) + i / ROW * 4 + lane / 16 * 2;
  }

  static __device__ __forceinline__ uint32_t encode(const struct sent &to, const float x[EACH], uint32_t lane,
                                                    float *scratch, float left[EACH]) {
    const uint32_t signs = signs_of(to.rotation_key, to.block, lane);
    float rotated[EACH], four[4];
    rotate(x, signs, lane, rotated);
    const uint32_t most = tagc_bits_of(warp_largest(rotated, EACH));
    uint32_t word = 0;
    uint16_t scale = 0;
    if (most >= TAGC_SILENT_BITS) {
      const float power = tagc_q2_power(most);
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        rotated[i] = rotated[i] * power;
      scale = choose(to, rotated, power, lane, scratch, &word);
    }
    const uint32_t whole = word | __shfl_xor_sync(ALL_LANES, word, LANES / 2);
    if (lane < LANES / 2)
      ((uint32_t *)to.codes)[lane] = whole;
    if (lane == 0)
      *to.scales = scale;
    if (most < TAGC_SILENT_BITS) {
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        left[i] = x[i];
      return BOTH_HALVES;
    }
    tagc_q2_values(scale, four);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      left[i] = q2_pick(word >> shift_of(lane, i), four);
    turn_back(left, signs, lane);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      left[i] = x[i] - left[i];
    return 0;
  }

  /* Returns the scale, and adds the lane's codes to *word. */
  static __device__ __forceinline__ uint16_t choose(const struct sent &to, const float v[EACH], float power,
                                                    uint32_t lane, float *scratch, uint32_t *word) {
    uint32_t large;
    __syncwarp(); /* the last readers are done */
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      scratch[place_of(lane, i)] = v[i];
    __syncwarp();
    const float squares = q2_squares(scratch, lane), threshold = tagc_q2_threshold(squares);
    const float product = q2_products(scratch, lane, threshold, &large);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const uint32_t code = tagc_bits_of(v[i]) >> 31 << 1 | (v[i] * v[i] > threshold);
      *word |= code << shift_of(lane, i);
    }
    const float scale = to.stochastic ? tagc_q2_scale_unbiased(squares, product) : tagc_q2_scale(product, large);
    return tagc_to_bf16(scale / power);
  }

  static __device__ __forceinline__ void add(float sum[EACH], const uint16_t *scales, const uint8_t *codes,
                                             uint32_t lane, uint32_t, float *) {
    const uint32_t word = ((const uint32_t *)codes)[lane % 16];
    float four[4];
    tagc_q2_values(*scales, four);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      sum[i] += q2_pick(word >> shift_of(lane, i), four);
  }
};

#endif
