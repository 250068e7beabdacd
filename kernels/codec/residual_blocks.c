/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of residual_blocks.h, compiled once per instruction set (instruction_set.h): plain loops over a fixed
 * number of elements, which the compiler vectorizes. Sums go by lanes, in the same order whatever the vector length.
 */
#include "kernels/codec/instruction_set.h"

#include <string.h>

#include "kernels/codec/bits.h"
#include "kernels/codec/residual_blocks.h"

enum { BLOCK = TAGC_RESIDUAL_BLOCK, LANES = 16 };

/* Sixteen random bits an element. */
static void draw(uint64_t noise, uint16_t out[BLOCK]) {
  uint64_t words[BLOCK / 4];
  for (uint32_t i = 0; i < BLOCK / 4; i++)
    words[i] = tagc_mix64(noise + i);
  memcpy(out, words, sizeof words);
}

static double norm2_of(const float *values) {
  double lane[LANES] = {0}, norm2 = 0;
  for (uint32_t i = 0; i < BLOCK; i += LANES)
    for (uint32_t j = 0; j < LANES; j++)
      lane[j] += (double)values[i + j] * (double)values[i + j];
  for (uint32_t j = 0; j < LANES; j++)
    norm2 += lane[j];
  return norm2;
}

static void load_fp32(struct tagc_residual_place from, float *restrict out) {
  memcpy(out, from.values, BLOCK * sizeof *out);
}

static double store_fp32(struct tagc_residual_place to, const float *restrict values, uint64_t noise) {
  (void)noise;
  memcpy(to.values, values, BLOCK * sizeof *values);
  return norm2_of(values);
}

static void load_bf16(struct tagc_residual_place from, float *restrict out) {
  const uint16_t *in = from.values;
  for (uint32_t i = 0; i < BLOCK; i++)
    out[i] = tagc_from_bf16(in[i]);
}

static double store_bf16(struct tagc_residual_place to, const float *restrict values, uint64_t noise) {
  uint16_t *out = to.values;
  uint16_t chance[BLOCK];
  float stored[BLOCK];
  draw(noise, chance);
  for (uint32_t i = 0; i < BLOCK; i++) {
    uint32_t bits = tagc_kept_bf16(values[i], chance[i]);
    out[i] = (uint16_t)(bits >> 16);
    stored[i] = tagc_float_of(bits);
  }
  return norm2_of(stored);
}

static void load_int8(struct tagc_residual_place from, float *restrict out) {
  const int8_t *in = from.values;
  const float scale = tagc_from_bf16(*from.scale);
  for (uint32_t i = 0; i < BLOCK; i++)
    out[i] = (float)in[i] * scale;
}

static float largest_magnitude(const float *values) {
  int32_t most = 0;
  for (uint32_t i = 0; i < BLOCK; i++) {
    int32_t magnitude = (int32_t)(tagc_bits_of(values[i]) & 0x7fffffffu);
    most = magnitude > most ? magnitude : most;
  }
  return tagc_float_of((uint32_t)most);
}

static double store_int8(struct tagc_residual_place to, const float *restrict values, uint64_t noise) {
  int8_t *out = to.values;
  uint16_t chance[BLOCK];
  const uint16_t bits = tagc_scale_up(largest_magnitude(values), 127);
  const float scale = tagc_from_bf16(bits), inverse = tagc_scale_inverse(bits);
  int32_t squares = 0;
  draw(noise, chance);
  *to.scale = bits;
  for (uint32_t i = 0; i < BLOCK; i++) {
    const int32_t code = tagc_kept_int8(values[i], inverse, chance[i]);
    squares += code * code;
    out[i] = (int8_t)code;
  }
  return (double)squares * (double)scale * (double)scale;
}

const struct tagc_residual_blocks TAGC_SIMD_TABLE(tagc_residual)[TAGC_RESIDUAL_STORAGES] = {
  [TAGC_STORAGE_FP32] = {load_fp32, store_fp32},
  [TAGC_STORAGE_BF16] = {load_bf16, store_bf16},
  [TAGC_STORAGE_INT8] = {load_int8, store_int8},
};
