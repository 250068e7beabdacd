/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of reductions: one loop per type and operator, written so that compilers vectorise it.
 *
 * Integers wrap (they are added as unsigned). fp16 and bf16 are combined in fp32 and rounded to nearest even after
 * every operation, as a ring of GPUs does. Min and Max prefer numbers to NaN. A destination may be its own first
 * operand. Pure functions; buffers are aligned to their elements.
 */
#include "tests/standin/standin.h"

#include <string.h>

/* The stand-in spends its time in these loops, and -O2 alone vectorises only some of them. The second macro declares
 * that equal pointers are the only overlap. */
#if defined(__clang__)
#define EACH _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < count; i++)
#else
#pragma GCC optimize("O3", "no-trapping-math")
#define EACH _Pragma("GCC ivdep") for (size_t i = 0; i < count; i++)
#endif

static inline float as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t as_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* fp16 has 10 bits of fraction and bias 15, fp32 has 23 and 127: shift by 13, rebias by 112 << 23. */
static inline float float_from_half(uint16_t half) {
  uint32_t magnitude = half & 0x7fffu;
  uint32_t shifted = magnitude << 13;
  float subnormal = (float)(int32_t)magnitude * 0x1p-24f;
  uint32_t normal = shifted + (magnitude >= 0x7c00 ? 0x70000000u : 0x38000000u);
  uint32_t bits = magnitude < 0x400 ? as_bits(subnormal) : normal;
  return as_float(bits | (half & 0x8000u) << 16);
}

/* Below 2^-14, adding one half aligns the last bit of the sum with fp16's smallest step, so the FPU rounds. */
static inline uint16_t half_from_float(float value) {
  uint32_t bits = as_bits(value), magnitude = bits & 0x7fffffffu;
  uint32_t rebiased = magnitude - 0x38000000u;
  uint32_t normal = (rebiased + 0xfffu + (rebiased >> 13 & 1)) >> 13;
  uint32_t subnormal = as_bits(as_float(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x47800000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return (uint16_t)(half | (bits >> 16 & 0x8000u));
}

static inline float float_from_bf16(uint16_t bf16) { return as_float((uint32_t)bf16 << 16); }

static inline uint16_t bf16_from_float(float value) {
  uint32_t bits = as_bits(value);
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16 | 0x40u) : rounded);
}

uint16_t standin_half_from_float(float value) { return half_from_float(value); }

uint16_t standin_bf16_from_float(float value) { return bf16_from_float(value); }

#define PLAIN(x) (x)
#define GREATER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define GREATER_FLOAT(a, b) ((a) > (b) || (b) != (b) ? (a) : (b))
#define SMALLER_FLOAT(a, b) ((a) < (b) || (b) != (b) ? (a) : (b))

struct kernels {
  void (*combine[4])(void *dst, const void *own, const void *other, size_t count); /* by enum reduction_kind */
  void (*scale)(void *dst, const void *own, const void *scalar, size_t count);
  void (*scaled_sum)(void *dst, const void *own, const void *other, const void *scalar, size_t count);
  void (*divide)(void *dst, size_t count, int divisor);
};

/* dst[i] = own[i] OP other[i]; LOAD widens a stored value to the type of the computation, STORE rounds it back. */
#define COMBINE(name, stored, wide, LOAD, STORE, expression) \
  static TARGET void NAMED(name)(void *dst_, const void *own_, const void *other_, size_t count) { \
    stored *dst = dst_; \
    const stored *own = own_, *other = other_; \
    EACH { \
      wide a = LOAD(own[i]), b = LOAD(other[i]); \
      dst[i] = (stored)STORE((wide)(expression)); \
    } \
  }

/* dst[i] = own[i] x scalar, and the same plus other[i]: two roundings, as with two GPU instructions. */
#define SCALE(name, stored, wide, LOAD, STORE) \
  static TARGET void NAMED(scale_##name)(void *dst_, const void *own_, const void *scalar_, size_t count) { \
    stored *dst = dst_; \
    const stored *own = own_; \
    wide scalar = LOAD(*(const stored *)scalar_); \
    EACH dst[i] = (stored)STORE((wide)(LOAD(own[i]) * scalar)); \
  } \
  static TARGET void NAMED(scaled_sum_##name)(void *dst_, const void *own_, const void *other_, const void *scalar_, \
                                              size_t count) { \
    stored *dst = dst_; \
    const stored *own = own_, *other = other_; \
    wide scalar = LOAD(*(const stored *)scalar_); \
    EACH { \
      stored own_scaled = (stored)STORE((wide)(LOAD(own[i]) * scalar)); \
      dst[i] = (stored)STORE((wide)(LOAD(own_scaled) + LOAD(other[i]))); \
    } \
  }

#define DIVIDE(name, stored) \
  static TARGET void NAMED(divide_##name)(void *dst_, size_t count, int divisor) { \
    stored *dst = dst_; \
    for (size_t i = 0; i < count; i++) \
      dst[i] = (stored)(dst[i] / (stored)divisor); \
  }

#define ARITHMETIC(name, stored, wide, LOAD, STORE) \
  COMBINE(sum_##name, stored, wide, LOAD, STORE, a + b) \
  COMBINE(prod_##name, stored, wide, LOAD, STORE, a *b) \
  SCALE(name, stored, wide, LOAD, STORE)

#define ORDER(name, stored, wide, LOAD, STORE, MAX, MIN) \
  COMBINE(max_##name, stored, wide, LOAD, STORE, MAX(a, b)) \
  COMBINE(min_##name, stored, wide, LOAD, STORE, MIN(a, b))

#define TARGET
#define NAMED(name) name##_plain
#include "reduce_kernels.h"

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#define NAMED(name) name##_avx2
#include "reduce_kernels.h"
#endif

static const struct kernels *kernels_of(ncclDataType_t type) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return &kernels_avx2[type];
#endif
  return &kernels_plain[type];
}

void standin_reduce(void *dst, const void *own, const void *other, size_t count, const struct reduction *reduction,
                    bool complete) {
  const struct kernels *with = kernels_of(reduction->type);
  if (reduction->scaled)
    with->scaled_sum(dst, own, other, &reduction->scalar, count);
  else
    with->combine[reduction->kind](dst, own, other, count);
  if (complete && reduction->divisor)
    with->divide(dst, count, reduction->divisor);
}

void standin_scale(void *dst, const void *src, size_t count, const struct reduction *reduction) {
  kernels_of(reduction->type)->scale(dst, src, &reduction->scalar, count);
}
