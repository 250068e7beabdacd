/* SPDX-License-Identifier: BSD-3-Clause
 * The common part of sparsify_vector_plain.h, _avx2.h and _avx512.h: the vector steps of sparsify_kernels.c.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_VECTOR_H
#define KERNELS_SPARSE_SPARSIFY_VECTOR_H

#include "kernels/sparse/sparsify.h"

/* The format of scale*g + e; constant where a step is expanded. */
struct tagc_sparsify_input {
  enum tagc_dtype dtype;
  bool residual_empty;
  bool rounded; /* values are sent as bf16 */
  float scale;
};

/* The format of a result. */
struct tagc_result_format {
  enum tagc_dtype dtype;
  bool by_inverse; /* divisor is the inverse of a power of two: multiply */
  bool streaming;  /* past the caches: recv is aligned to 64 bytes, and large */
  float scale, divisor;
};

/* The error of sending a value. */
static inline float left_of(float v, bool rounded) {
  return rounded && !tagc_is_exception(tagc_bits_of(v)) ? v - tagc_from_bf16(tagc_to_bf16(v)) : 0.0f;
}

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Vector steps are inlined: their settings are constants there. */
#define STEP static ALWAYS_INLINE

enum {
  PREFETCH = 64,         /* entries of a list ahead of its end, or words of a bitmap */
  PREFETCH_BYTES = 2048, /* of gradient or residual ahead: across the end of a page, where hardware stops */
};

/* fine16() (sparsify_vector_plain.h) of variants without vectors for it. */
STEP uint32_t fine16_in_turn(const float *values, uint32_t lanes, uint32_t coarse, uint32_t fine[16]) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < 16 && lanes >> i & 1; i++) {
    uint32_t bin = tagc_bin_of(tagc_bits_of(values[i]));
    fine[count] = bin % TAGC_BIN_FINE;
    count += bin / TAGC_BIN_FINE == coarse;
  }
  return count;
}

/* A quotient by a power of two equals the product with its inverse, to the bit. */
STEP struct tagc_result_format result_format(enum tagc_dtype dtype, bool streaming, float scale, float divisor) {
  const uint32_t bits = tagc_bits_of(divisor);
  const bool power = (bits & 0x7fffffu) == 0 && bits >> 23 > 0 && bits >> 23 < 250;
  return (struct tagc_result_format){dtype, power, streaming, scale, power ? 1 / divisor : divisor};
}

#endif
