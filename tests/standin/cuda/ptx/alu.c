/* SPDX-License-Identifier: BSD-3-Clause
 * Arithmetic of PTX, a row of lanes at a time. Every opcode that nvcc used for the kernels is in the table; another one
 * ends the process when the module is loaded. The host computes as a GPU does: it rounds to nearest, keeps small
 * numbers, and a NaN becomes the GPU's own.
 */
#include "tests/standin/cuda/ptx/ptx.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#if defined __GNUC__ && !defined __clang__
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* Rows take half as many vectors where the processor has wider ones. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && !defined __SANITIZE_THREAD__ && \
  !defined __SANITIZE_ADDRESS__
#define WIDEST __attribute__((target_clones("avx2", "default")))
#else
#define WIDEST
#endif

typedef row32 u32;
typedef row64 u64;
typedef rowf f32;
typedef rowd f64;

__extension__ typedef unsigned __int128 wide;

static inline float gpu_float(float x) { return x == x ? x : __builtin_nanf("0x3fffff"); }
static inline double gpu_double(double x) { return x == x ? x : __builtin_nan(""); }

static inline uint32_t float_to_int(float x) {
  return x != x ? 0 : x >= 2147483648.0f ? (uint32_t)INT_MAX : x < -2147483648.0f ? 1u << 31 : (uint32_t)(int32_t)x;
}
static inline uint32_t float_to_unsigned(float x) {
  return x != x || x <= 0 ? 0 : x >= 4294967296.0f ? UINT32_MAX : (uint32_t)x;
}

static inline uint32_t reversed(uint32_t x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}

static inline uint32_t permuted(uint32_t x, uint32_t y, uint32_t selector) {
  uint64_t bytes = (uint64_t)y << 32 | x;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; i++) {
    uint32_t nibble = selector >> 4 * i & 15, byte = (uint32_t)(bytes >> 8 * (nibble & 7)) & 255;
    if (nibble & 8) /* its sign, eight times */
      byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}

/* `bits` bits of x at position `at` of y. */
static inline uint64_t inserted(uint64_t x, uint64_t y, uint32_t at, uint32_t bits) {
  at &= 255;
  bits &= 255;
  uint64_t mask = bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  return at >= 64 ? y : (y & ~(mask << at)) | (x & mask) << at;
}

static inline uint64_t extracted(uint64_t x, uint32_t at, uint32_t bits) {
  at &= 255;
  bits &= 255;
  x = at >= 64 ? 0 : x >> at;
  return bits >= 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

/* -- steps: x, y, z and v are the sources ----------------------------------------------------------------------------
 */
#define STEP(type, value) \
  type *d = ptx_row(w, i->to[0]); \
  if (w->mask == UINT32_MAX) { \
    INDEPENDENT for (unsigned l = 0; l < LANES; l++) d[l] = (type)(value); \
  } else { \
    INDEPENDENT for (unsigned l = 0; l < LANES; l++) d[l] = w->on[l] ? (type)(value) : d[l]; \
  }
#define BITS(row) (8 * sizeof(row))
#define ONE(name, type, first, value) \
  WIDEST static void step_##name(struct ptx_warp *w, const struct ptx_ins *i) { \
    const first *a = ptx_row(w, i->from[0]); \
    STEP(type, value) \
  } \
  static const struct ptx_arithmetic name = {step_##name, 1, BITS(type), {BITS(first)}};
#define TWO(name, type, first, second, value) \
  WIDEST static void step_##name(struct ptx_warp *w, const struct ptx_ins *i) { \
    const first *a = ptx_row(w, i->from[0]); \
    const second *b = ptx_row(w, i->from[1]); \
    STEP(type, value) \
  } \
  static const struct ptx_arithmetic name = {step_##name, 2, BITS(type), {BITS(first), BITS(second)}};
#define THREE(name, type, first, second, third, value) \
  WIDEST static void step_##name(struct ptx_warp *w, const struct ptx_ins *i) { \
    const first *a = ptx_row(w, i->from[0]); \
    const second *b = ptx_row(w, i->from[1]); \
    const third *c = ptx_row(w, i->from[2]); \
    STEP(type, value) \
  } \
  static const struct ptx_arithmetic name = {step_##name, 3, BITS(type), {BITS(first), BITS(second), BITS(third)}};
#define FOUR(name, type, first, second, third, fourth, value) \
  WIDEST static void step_##name(struct ptx_warp *w, const struct ptx_ins *i) { \
    const first *a = ptx_row(w, i->from[0]); \
    const second *b = ptx_row(w, i->from[1]); \
    const third *c = ptx_row(w, i->from[2]); \
    const fourth *e = ptx_row(w, i->from[3]); \
    STEP(type, value) \
  } \
  static const struct ptx_arithmetic name = { \
    step_##name, 4, BITS(type), {BITS(first), BITS(second), BITS(third), BITS(fourth)}};
#define x a[l]
#define y b[l]
#define z c[l]
#define v e[l]

ONE(move_32, u32, u32, x)
ONE(move_64, u64, u64, x)
ONE(to_shared, u64, u64, x + PTX_SHARED_BASE)
ONE(from_shared, u64, u64, x - PTX_SHARED_BASE)
TWO(add_16, u32, u32, u32, (uint16_t)(x + y))
TWO(add_32, u32, u32, u32, x + y)
TWO(add_64, u64, u64, u64, x + y)
TWO(add_f32, f32, f32, f32, gpu_float(x + y))
TWO(add_f64, f64, f64, f64, gpu_double(x + y))
TWO(sub_16, u32, u32, u32, (uint16_t)(x - y))
TWO(sub_32, u32, u32, u32, x - y)
TWO(sub_64, u64, u64, u64, x - y)
TWO(sub_f32, f32, f32, f32, gpu_float(x - y))
TWO(sub_f64, f64, f64, f64, gpu_double(x - y))
TWO(mul_16, u32, u32, u32, (uint16_t)(x *y))
TWO(mul_32, u32, u32, u32, x *y)
TWO(mul_64, u64, u64, u64, x *y)
TWO(mul_f32, f32, f32, f32, gpu_float(x *y))
TWO(mul_f64, f64, f64, f64, gpu_double(x *y))
TWO(mul_high_u32, u32, u32, u32, (uint64_t)x *y >> 32)
TWO(mul_high_s32, u32, u32, u32, (uint64_t)((int64_t)(int32_t)x *(int32_t)y) >> 32)
TWO(mul_high_u64, u64, u64, u64, (wide)x *y >> 64)
TWO(mul_wide_u16, u32, u32, u32, (uint16_t)x *(uint32_t)(uint16_t)y)
TWO(mul_wide_s16, u32, u32, u32, (int16_t)x *(int32_t)(int16_t)y)
TWO(mul_wide_u32, u64, u32, u32, (uint64_t)x *y)
TWO(mul_wide_s32, u64, u32, u32, (int64_t)(int32_t)x *(int32_t)y)
THREE(mad_16, u32, u32, u32, u32, (uint16_t)(x *y + z))
THREE(mad_32, u32, u32, u32, u32, x *y + z)
THREE(mad_64, u64, u64, u64, u64, x *y + z)
THREE(mad_wide_u32, u64, u32, u32, u64, (uint64_t)x *y + z)
THREE(mad_wide_s32, u64, u32, u32, u64, (uint64_t)((int64_t)(int32_t)x *(int32_t)y) + z)
TWO(div_u16, u32, u32, u32, (uint16_t)y ? (uint16_t)x / (uint16_t)y : 65535)
TWO(rem_u16, u32, u32, u32, (uint16_t)y ? (uint16_t)x % (uint16_t)y : (uint16_t)x)
TWO(div_u32, u32, u32, u32, y ? x / y : UINT32_MAX)
TWO(div_s32, u32, u32, u32, !y ? UINT32_MAX : y == UINT32_MAX ? 0 - x : (uint32_t)((int32_t)x / (int32_t)y))
TWO(div_u64, u64, u64, u64, y ? x / y : UINT64_MAX)
TWO(rem_u32, u32, u32, u32, y ? x % y : x)
TWO(rem_s32, u32, u32, u32, !y ? x : y == UINT32_MAX ? 0 : (uint32_t)((int32_t)x % (int32_t)y))
TWO(rem_u64, u64, u64, u64, y ? x % y : x)
TWO(div_f32, f32, f32, f32, gpu_float(x / y))
TWO(div_f64, f64, f64, f64, gpu_double(x / y))
ONE(rcp_f32, f32, f32, gpu_float(1.0f / x))
ONE(rcp_f64, f64, f64, gpu_double(1.0 / x))
ONE(sqrt_f32, f32, f32, gpu_float(sqrtf(x)))
ONE(sqrt_f64, f64, f64, gpu_double(sqrt(x)))
THREE(fma_f32, f32, f32, f32, f32, gpu_float(fmaf(x, y, z)))
THREE(fma_f64, f64, f64, f64, f64, gpu_double(fma(x, y, z)))
TWO(and_32, u32, u32, u32, x &y)
TWO(and_64, u64, u64, u64, x &y)
TWO(or_32, u32, u32, u32, x | y)
TWO(or_64, u64, u64, u64, x | y)
TWO(xor_32, u32, u32, u32, x ^ y)
TWO(xor_64, u64, u64, u64, x ^ y)
ONE(not_pred, u32, u32, x ^ 1)
ONE(not_16, u32, u32, (uint16_t)~x)
ONE(not_32, u32, u32, ~x)
ONE(not_64, u64, u64, ~x)
ONE(neg_16, u32, u32, (uint16_t)(0 - x))
ONE(neg_32, u32, u32, 0 - x)
ONE(neg_64, u64, u64, 0 - x)
ONE(neg_f32, u32, u32, x ^ 1u << 31)
ONE(neg_f64, u64, u64, x ^ UINT64_C(1) << 63)
ONE(abs_f32, u32, u32, x & 0x7fffffffu)
ONE(abs_f64, u64, u64, x &(UINT64_MAX >> 1))
ONE(abs_s32, u32, u32, x >> 31 ? 0 - x : x)
TWO(left_16, u32, u32, u32, y > 15 ? 0 : (uint16_t)(x << (y & 15)))
TWO(left_32, u32, u32, u32, y > 31 ? 0 : x << (y & 31))
TWO(left_64, u64, u64, u32, y > 63 ? 0 : x << (y & 63))
TWO(right_u16, u32, u32, u32, y > 15 ? 0 : (uint16_t)x >> (y & 15))
TWO(right_s16, u32, u32, u32, (uint16_t)((int16_t)x >> (y > 15 ? 15 : y)))
TWO(right_u32, u32, u32, u32, y > 31 ? 0 : x >> (y & 31))
TWO(right_s32, u32, u32, u32, (int32_t)x >> (y > 31 ? 31 : y))
TWO(right_u64, u64, u64, u32, y > 63 ? 0 : x >> (y & 63))
TWO(right_s64, u64, u64, u32, (int64_t)x >> (y > 63 ? 63 : y))
THREE(funnel_right, u32, u32, u32, u32, ((uint64_t)y << 32 | x) >> (z & 31))
THREE(funnel_left, u32, u32, u32, u32, ((uint64_t)y << 32 | x) << (z & 31) >> 32)
TWO(min_u16, u32, u32, u32, (uint16_t)x < (uint16_t)y ? x : y)
TWO(min_s16, u32, u32, u32, (int16_t)x < (int16_t)y ? x : y)
TWO(min_u32, u32, u32, u32, x < y ? x : y)
TWO(min_s32, u32, u32, u32, (int32_t)x < (int32_t)y ? x : y)
TWO(min_u64, u64, u64, u64, x < y ? x : y)
TWO(min_s64, u64, u64, u64, (int64_t)x < (int64_t)y ? x : y)
TWO(max_u16, u32, u32, u32, (uint16_t)x > (uint16_t)y ? x : y)
TWO(max_s16, u32, u32, u32, (int16_t)x > (int16_t)y ? x : y)
TWO(max_u32, u32, u32, u32, x > y ? x : y)
TWO(max_s32, u32, u32, u32, (int32_t)x > (int32_t)y ? x : y)
TWO(max_u64, u64, u64, u64, x > y ? x : y)
TWO(max_s64, u64, u64, u64, (int64_t)x > (int64_t)y ? x : y)
ONE(ones_32, u32, u32, (uint32_t)__builtin_popcount(x))
ONE(ones_64, u32, u64, (uint32_t)__builtin_popcountll(x))
ONE(zeros_32, u32, u32, x ? (uint32_t)__builtin_clz(x) : 32)
ONE(zeros_64, u32, u64, x ? (uint32_t)__builtin_clzll(x) : 64)
ONE(reverse_32, u32, u32, reversed(x))
ONE(reverse_64, u64, u64, (uint64_t)reversed((uint32_t)x) << 32 | reversed((uint32_t)(x >> 32)))
ONE(find_32, u32, u32, x ? 31 - (uint32_t)__builtin_clz(x) : UINT32_MAX)
ONE(find_shift_32, u32, u32, x ? (uint32_t)__builtin_clz(x) : UINT32_MAX)
ONE(find_shift_64, u32, u64, x ? (uint32_t)__builtin_clzll(x) : UINT32_MAX)
FOUR(insert_32, u32, u32, u32, u32, u32, inserted(x, y, z, v))
FOUR(insert_64, u64, u64, u64, u32, u32, inserted(x, y, z, v))
THREE(extract_u32, u32, u32, u32, u32, extracted(x, y, z))
THREE(extract_u64, u64, u64, u32, u32, extracted(x, y, z))
THREE(permute, u32, u32, u32, u32, permuted(x, y, z))
THREE(pick_32, u32, u32, u32, u32, z ? x : y)
THREE(pick_64, u64, u64, u64, u32, z ? x : y)
TWO(is_eq_u16, u32, u32, u32, (uint16_t)x == (uint16_t)y)
TWO(is_eq_u32, u32, u32, u32, x == y)
TWO(is_eq_u64, u32, u64, u64, x == y)
TWO(is_ne_u16, u32, u32, u32, (uint16_t)x != (uint16_t)y)
TWO(is_ne_u32, u32, u32, u32, x != y)
TWO(is_ne_u64, u32, u64, u64, x != y)
TWO(is_lt_u16, u32, u32, u32, (uint16_t)x < (uint16_t)y)
TWO(is_lt_s16, u32, u32, u32, (int16_t)x < (int16_t)y)
TWO(is_lt_u32, u32, u32, u32, x < y)
TWO(is_lt_s32, u32, u32, u32, (int32_t)x < (int32_t)y)
TWO(is_lt_u64, u32, u64, u64, x < y)
TWO(is_lt_s64, u32, u64, u64, (int64_t)x < (int64_t)y)
TWO(is_le_u16, u32, u32, u32, (uint16_t)x <= (uint16_t)y)
TWO(is_le_s16, u32, u32, u32, (int16_t)x <= (int16_t)y)
TWO(is_le_u32, u32, u32, u32, x <= y)
TWO(is_le_s32, u32, u32, u32, (int32_t)x <= (int32_t)y)
TWO(is_le_u64, u32, u64, u64, x <= y)
TWO(is_le_s64, u32, u64, u64, (int64_t)x <= (int64_t)y)
TWO(is_gt_u16, u32, u32, u32, (uint16_t)x > (uint16_t)y)
TWO(is_gt_s16, u32, u32, u32, (int16_t)x > (int16_t)y)
TWO(is_gt_u32, u32, u32, u32, x > y)
TWO(is_gt_s32, u32, u32, u32, (int32_t)x > (int32_t)y)
TWO(is_gt_u64, u32, u64, u64, x > y)
TWO(is_gt_s64, u32, u64, u64, (int64_t)x > (int64_t)y)
TWO(is_ge_u16, u32, u32, u32, (uint16_t)x >= (uint16_t)y)
TWO(is_ge_s16, u32, u32, u32, (int16_t)x >= (int16_t)y)
TWO(is_ge_u32, u32, u32, u32, x >= y)
TWO(is_ge_s32, u32, u32, u32, (int32_t)x >= (int32_t)y)
TWO(is_ge_u64, u32, u64, u64, x >= y)
TWO(is_ge_s64, u32, u64, u64, (int64_t)x >= (int64_t)y)
TWO(is_eq_f32, u32, f32, f32, x == y)
TWO(is_eq_f64, u32, f64, f64, x == y)
TWO(is_ne_f32, u32, f32, f32, x<y || x> y)
TWO(is_ne_f64, u32, f64, f64, x<y || x> y)
TWO(is_lt_f32, u32, f32, f32, x < y)
TWO(is_lt_f64, u32, f64, f64, x < y)
TWO(is_le_f32, u32, f32, f32, x <= y)
TWO(is_le_f64, u32, f64, f64, x <= y)
TWO(is_gt_f32, u32, f32, f32, x > y)
TWO(is_gt_f64, u32, f64, f64, x > y)
TWO(is_ge_f32, u32, f32, f32, x >= y)
TWO(is_ge_f64, u32, f64, f64, x >= y)
TWO(is_num_f32, u32, f32, f32, x == x && y == y)
TWO(is_num_f64, u32, f64, f64, x == x && y == y)
TWO(is_nan_f32, u32, f32, f32, x != x || y != y)
TWO(is_nan_f64, u32, f64, f64, x != x || y != y)
TWO(is_neu_f32, u32, f32, f32, !(x == y))
TWO(is_neu_f64, u32, f64, f64, !(x == y))
TWO(is_equ_f32, u32, f32, f32, !(x < y || x > y))
TWO(is_equ_f64, u32, f64, f64, !(x < y || x > y))
TWO(is_ltu_f32, u32, f32, f32, !(x >= y))
TWO(is_ltu_f64, u32, f64, f64, !(x >= y))
TWO(is_leu_f32, u32, f32, f32, !(x > y))
TWO(is_leu_f64, u32, f64, f64, !(x > y))
TWO(is_gtu_f32, u32, f32, f32, !(x <= y))
TWO(is_gtu_f64, u32, f64, f64, !(x <= y))
TWO(is_geu_f32, u32, f32, f32, !(x < y))
TWO(is_geu_f64, u32, f64, f64, !(x < y))
ONE(u16_of_u8, u32, u32, (uint16_t)(uint8_t)x)
ONE(u16_of_s8, u32, u32, (uint16_t)(int8_t)x)
ONE(u16_of_s16, u32, u32, (uint16_t)(int16_t)x)
ONE(u16_of_u32, u32, u32, (uint16_t)x)
ONE(u16_of_s32, u32, u32, (uint16_t)(int32_t)x)
ONE(u16_of_u64, u32, u64, (uint16_t)x)
ONE(u16_of_s64, u32, u64, (uint16_t)(int64_t)x)
ONE(s16_of_u8, u32, u32, (uint16_t)(uint8_t)x)
ONE(s16_of_s8, u32, u32, (uint16_t)(int8_t)x)
ONE(s16_of_u16, u32, u32, (uint16_t)(uint16_t)x)
ONE(s16_of_u32, u32, u32, (uint16_t)x)
ONE(s16_of_s32, u32, u32, (uint16_t)(int32_t)x)
ONE(s16_of_u64, u32, u64, (uint16_t)x)
ONE(s16_of_s64, u32, u64, (uint16_t)(int64_t)x)
ONE(u32_of_u8, u32, u32, (uint32_t)(uint8_t)x)
ONE(u32_of_s8, u32, u32, (uint32_t)(int8_t)x)
ONE(u32_of_u16, u32, u32, (uint32_t)(uint16_t)x)
ONE(u32_of_s16, u32, u32, (uint32_t)(int16_t)x)
ONE(u32_of_s32, u32, u32, (uint32_t)(int32_t)x)
ONE(u32_of_u64, u32, u64, (uint32_t)x)
ONE(u32_of_s64, u32, u64, (uint32_t)(int64_t)x)
ONE(s32_of_u8, u32, u32, (uint32_t)(uint8_t)x)
ONE(s32_of_s8, u32, u32, (uint32_t)(int8_t)x)
ONE(s32_of_u16, u32, u32, (uint32_t)(uint16_t)x)
ONE(s32_of_s16, u32, u32, (uint32_t)(int16_t)x)
ONE(s32_of_u32, u32, u32, (uint32_t)x)
ONE(s32_of_u64, u32, u64, (uint32_t)x)
ONE(s32_of_s64, u32, u64, (uint32_t)(int64_t)x)
ONE(u64_of_u8, u64, u32, (uint64_t)(uint8_t)x)
ONE(u64_of_s8, u64, u32, (uint64_t)(int8_t)x)
ONE(u64_of_u16, u64, u32, (uint64_t)(uint16_t)x)
ONE(u64_of_s16, u64, u32, (uint64_t)(int16_t)x)
ONE(u64_of_u32, u64, u32, (uint64_t)x)
ONE(u64_of_s32, u64, u32, (uint64_t)(int32_t)x)
ONE(u64_of_s64, u64, u64, (uint64_t)(int64_t)x)
ONE(s64_of_u8, u64, u32, (uint64_t)(uint8_t)x)
ONE(s64_of_s8, u64, u32, (uint64_t)(int8_t)x)
ONE(s64_of_u16, u64, u32, (uint64_t)(uint16_t)x)
ONE(s64_of_s16, u64, u32, (uint64_t)(int16_t)x)
ONE(s64_of_u32, u64, u32, (uint64_t)x)
ONE(s64_of_s32, u64, u32, (uint64_t)(int32_t)x)
ONE(s64_of_u64, u64, u64, (uint64_t)x)
ONE(u8_of_u16, u32, u32, (uint8_t)(uint16_t)x)
ONE(u8_of_s16, u32, u32, (uint8_t)(int16_t)x)
ONE(u8_of_u32, u32, u32, (uint8_t)x)
ONE(u8_of_s32, u32, u32, (uint8_t)(int32_t)x)
ONE(s8_of_u16, u32, u32, (uint16_t)(int8_t)(uint16_t)x)
ONE(s8_of_s16, u32, u32, (uint16_t)(int8_t)(int16_t)x)
ONE(s8_of_u32, u32, u32, (uint16_t)(int8_t)x)
ONE(s8_of_s32, u32, u32, (uint16_t)(int8_t)(int32_t)x)
ONE(f32_of_u8, f32, u32, (float)(uint8_t)x)
ONE(f64_of_u8, f64, u32, (double)(uint8_t)x)
ONE(f32_of_s8, f32, u32, (float)(int8_t)x)
ONE(f64_of_s8, f64, u32, (double)(int8_t)x)
ONE(f32_of_u16, f32, u32, (float)(uint16_t)x)
ONE(f64_of_u16, f64, u32, (double)(uint16_t)x)
ONE(f32_of_s16, f32, u32, (float)(int16_t)x)
ONE(f64_of_s16, f64, u32, (double)(int16_t)x)
ONE(f32_of_u32, f32, u32, (float)x)
ONE(f64_of_u32, f64, u32, (double)x)
ONE(f32_of_s32, f32, u32, (float)(int32_t)x)
ONE(f64_of_s32, f64, u32, (double)(int32_t)x)
ONE(f32_of_u64, f32, u64, (float)x)
ONE(f64_of_u64, f64, u64, (double)x)
ONE(f32_of_s64, f32, u64, (float)(int64_t)x)
ONE(f64_of_s64, f64, u64, (double)(int64_t)x)
ONE(f64_of_f32, f64, f32, gpu_double((double)x))
ONE(f32_of_f64, f32, f64, gpu_float((float)x))
ONE(truncated_s32, u32, f32, float_to_int(x))
ONE(truncated_u32, u32, f32, float_to_unsigned(x))
ONE(nearest_s32, u32, f32, float_to_int(nearbyintf(x)))

#undef x
#undef y
#undef z
#undef v

static const struct {
  const char *opcode;
  const struct ptx_arithmetic *arithmetic;
} known_opcodes[] = {
  {"mov.u32", &move_32},
  {"mov.b32", &move_32},
  {"mov.s32", &move_32},
  {"mov.f32", &move_32},
  {"mov.u16", &move_32},
  {"mov.b16", &move_32},
  {"mov.s16", &move_32},
  {"mov.pred", &move_32},
  {"mov.u64", &move_64},
  {"mov.b64", &move_64},
  {"mov.s64", &move_64},
  {"mov.f64", &move_64},
  {"cvta.to.global.u64", &move_64},
  {"cvta.global.u64", &move_64},
  {"cvta.shared.u64", &to_shared},
  {"cvta.to.shared.u64", &from_shared},
  {"add.s16", &add_16},
  {"add.u16", &add_16},
  {"add.s32", &add_32},
  {"add.u32", &add_32},
  {"add.s64", &add_64},
  {"add.u64", &add_64},
  {"add.rn.f32", &add_f32},
  {"add.f32", &add_f32},
  {"add.rn.f64", &add_f64},
  {"add.f64", &add_f64},
  {"sub.s16", &sub_16},
  {"sub.u16", &sub_16},
  {"sub.s32", &sub_32},
  {"sub.u32", &sub_32},
  {"sub.s64", &sub_64},
  {"sub.u64", &sub_64},
  {"sub.rn.f32", &sub_f32},
  {"sub.f32", &sub_f32},
  {"sub.rn.f64", &sub_f64},
  {"sub.f64", &sub_f64},
  {"mul.lo.s16", &mul_16},
  {"mul.lo.u16", &mul_16},
  {"mul.lo.s32", &mul_32},
  {"mul.lo.u32", &mul_32},
  {"mul.lo.s64", &mul_64},
  {"mul.lo.u64", &mul_64},
  {"mul.rn.f32", &mul_f32},
  {"mul.f32", &mul_f32},
  {"mul.rn.f64", &mul_f64},
  {"mul.f64", &mul_f64},
  {"mul.hi.u32", &mul_high_u32},
  {"mul.hi.s32", &mul_high_s32},
  {"mul.hi.u64", &mul_high_u64},
  {"mul.wide.u16", &mul_wide_u16},
  {"mul.wide.s16", &mul_wide_s16},
  {"mul.wide.u32", &mul_wide_u32},
  {"mul.wide.s32", &mul_wide_s32},
  {"mad.lo.s16", &mad_16},
  {"mad.lo.u16", &mad_16},
  {"mad.lo.s32", &mad_32},
  {"mad.lo.u32", &mad_32},
  {"mad.lo.s64", &mad_64},
  {"mad.lo.u64", &mad_64},
  {"mad.wide.u32", &mad_wide_u32},
  {"mad.wide.s32", &mad_wide_s32},
  {"div.u16", &div_u16},
  {"rem.u16", &rem_u16},
  {"div.u32", &div_u32},
  {"div.s32", &div_s32},
  {"div.u64", &div_u64},
  {"rem.u32", &rem_u32},
  {"rem.s32", &rem_s32},
  {"rem.u64", &rem_u64},
  {"div.rn.f32", &div_f32},
  {"div.rn.f64", &div_f64},
  {"rcp.rn.f32", &rcp_f32},
  {"rcp.rn.f64", &rcp_f64},
  {"sqrt.rn.f32", &sqrt_f32},
  {"sqrt.rn.f64", &sqrt_f64},
  {"fma.rn.f32", &fma_f32},
  {"fma.rn.f64", &fma_f64},
  {"and.b32", &and_32},
  {"and.b16", &and_32},
  {"and.pred", &and_32},
  {"and.b64", &and_64},
  {"or.b32", &or_32},
  {"or.b16", &or_32},
  {"or.pred", &or_32},
  {"or.b64", &or_64},
  {"xor.b32", &xor_32},
  {"xor.b16", &xor_32},
  {"xor.pred", &xor_32},
  {"xor.b64", &xor_64},
  {"not.pred", &not_pred},
  {"not.b16", &not_16},
  {"not.b32", &not_32},
  {"not.b64", &not_64},
  {"neg.s16", &neg_16},
  {"neg.s32", &neg_32},
  {"neg.s64", &neg_64},
  {"neg.f32", &neg_f32},
  {"neg.f64", &neg_f64},
  {"abs.f32", &abs_f32},
  {"abs.f64", &abs_f64},
  {"abs.s32", &abs_s32},
  {"shl.b16", &left_16},
  {"shl.b32", &left_32},
  {"shl.b64", &left_64},
  {"shr.u16", &right_u16},
  {"shr.b16", &right_u16},
  {"shr.s16", &right_s16},
  {"shr.u32", &right_u32},
  {"shr.b32", &right_u32},
  {"shr.s32", &right_s32},
  {"shr.u64", &right_u64},
  {"shr.b64", &right_u64},
  {"shr.s64", &right_s64},
  {"shf.r.wrap.b32", &funnel_right},
  {"shf.l.wrap.b32", &funnel_left},
  {"min.u16", &min_u16},
  {"min.s16", &min_s16},
  {"min.u32", &min_u32},
  {"min.s32", &min_s32},
  {"min.u64", &min_u64},
  {"min.s64", &min_s64},
  {"max.u16", &max_u16},
  {"max.s16", &max_s16},
  {"max.u32", &max_u32},
  {"max.s32", &max_s32},
  {"max.u64", &max_u64},
  {"max.s64", &max_s64},
  {"popc.b32", &ones_32},
  {"popc.b64", &ones_64},
  {"clz.b32", &zeros_32},
  {"clz.b64", &zeros_64},
  {"brev.b32", &reverse_32},
  {"brev.b64", &reverse_64},
  {"bfind.u32", &find_32},
  {"bfind.shiftamt.u32", &find_shift_32},
  {"bfind.shiftamt.u64", &find_shift_64},
  {"bfi.b32", &insert_32},
  {"bfi.b64", &insert_64},
  {"bfe.u32", &extract_u32},
  {"bfe.u64", &extract_u64},
  {"prmt.b32", &permute},
  {"selp.b32", &pick_32},
  {"selp.u32", &pick_32},
  {"selp.s32", &pick_32},
  {"selp.f32", &pick_32},
  {"selp.u16", &pick_32},
  {"selp.b16", &pick_32},
  {"selp.s16", &pick_32},
  {"selp.b64", &pick_64},
  {"selp.u64", &pick_64},
  {"selp.s64", &pick_64},
  {"selp.f64", &pick_64},
  {"setp.eq.u16", &is_eq_u16},
  {"setp.eq.s16", &is_eq_u16},
  {"setp.eq.b16", &is_eq_u16},
  {"setp.eq.u32", &is_eq_u32},
  {"setp.eq.s32", &is_eq_u32},
  {"setp.eq.b32", &is_eq_u32},
  {"setp.eq.u64", &is_eq_u64},
  {"setp.eq.s64", &is_eq_u64},
  {"setp.eq.b64", &is_eq_u64},
  {"setp.ne.u16", &is_ne_u16},
  {"setp.ne.s16", &is_ne_u16},
  {"setp.ne.b16", &is_ne_u16},
  {"setp.ne.u32", &is_ne_u32},
  {"setp.ne.s32", &is_ne_u32},
  {"setp.ne.b32", &is_ne_u32},
  {"setp.ne.u64", &is_ne_u64},
  {"setp.ne.s64", &is_ne_u64},
  {"setp.ne.b64", &is_ne_u64},
  {"setp.lt.u16", &is_lt_u16},
  {"setp.lt.s16", &is_lt_s16},
  {"setp.lt.u32", &is_lt_u32},
  {"setp.lt.s32", &is_lt_s32},
  {"setp.lt.u64", &is_lt_u64},
  {"setp.lt.s64", &is_lt_s64},
  {"setp.le.u16", &is_le_u16},
  {"setp.le.s16", &is_le_s16},
  {"setp.le.u32", &is_le_u32},
  {"setp.le.s32", &is_le_s32},
  {"setp.le.u64", &is_le_u64},
  {"setp.le.s64", &is_le_s64},
  {"setp.gt.u16", &is_gt_u16},
  {"setp.gt.s16", &is_gt_s16},
  {"setp.gt.u32", &is_gt_u32},
  {"setp.gt.s32", &is_gt_s32},
  {"setp.gt.u64", &is_gt_u64},
  {"setp.gt.s64", &is_gt_s64},
  {"setp.ge.u16", &is_ge_u16},
  {"setp.ge.s16", &is_ge_s16},
  {"setp.ge.u32", &is_ge_u32},
  {"setp.ge.s32", &is_ge_s32},
  {"setp.ge.u64", &is_ge_u64},
  {"setp.ge.s64", &is_ge_s64},
  {"setp.eq.f32", &is_eq_f32},
  {"setp.eq.f64", &is_eq_f64},
  {"setp.ne.f32", &is_ne_f32},
  {"setp.ne.f64", &is_ne_f64},
  {"setp.lt.f32", &is_lt_f32},
  {"setp.lt.f64", &is_lt_f64},
  {"setp.le.f32", &is_le_f32},
  {"setp.le.f64", &is_le_f64},
  {"setp.gt.f32", &is_gt_f32},
  {"setp.gt.f64", &is_gt_f64},
  {"setp.ge.f32", &is_ge_f32},
  {"setp.ge.f64", &is_ge_f64},
  {"setp.num.f32", &is_num_f32},
  {"setp.num.f64", &is_num_f64},
  {"setp.nan.f32", &is_nan_f32},
  {"setp.nan.f64", &is_nan_f64},
  {"setp.neu.f32", &is_neu_f32},
  {"setp.neu.f64", &is_neu_f64},
  {"setp.equ.f32", &is_equ_f32},
  {"setp.equ.f64", &is_equ_f64},
  {"setp.ltu.f32", &is_ltu_f32},
  {"setp.ltu.f64", &is_ltu_f64},
  {"setp.leu.f32", &is_leu_f32},
  {"setp.leu.f64", &is_leu_f64},
  {"setp.gtu.f32", &is_gtu_f32},
  {"setp.gtu.f64", &is_gtu_f64},
  {"setp.geu.f32", &is_geu_f32},
  {"setp.geu.f64", &is_geu_f64},
  {"cvt.u16.u8", &u16_of_u8},
  {"cvt.u16.s8", &u16_of_s8},
  {"cvt.u16.s16", &u16_of_s16},
  {"cvt.u16.u32", &u16_of_u32},
  {"cvt.u16.s32", &u16_of_s32},
  {"cvt.u16.u64", &u16_of_u64},
  {"cvt.u16.s64", &u16_of_s64},
  {"cvt.s16.u8", &s16_of_u8},
  {"cvt.s16.s8", &s16_of_s8},
  {"cvt.s16.u16", &s16_of_u16},
  {"cvt.s16.u32", &s16_of_u32},
  {"cvt.s16.s32", &s16_of_s32},
  {"cvt.s16.u64", &s16_of_u64},
  {"cvt.s16.s64", &s16_of_s64},
  {"cvt.u32.u8", &u32_of_u8},
  {"cvt.u32.s8", &u32_of_s8},
  {"cvt.u32.u16", &u32_of_u16},
  {"cvt.u32.s16", &u32_of_s16},
  {"cvt.u32.s32", &u32_of_s32},
  {"cvt.u32.u64", &u32_of_u64},
  {"cvt.u32.s64", &u32_of_s64},
  {"cvt.s32.u8", &s32_of_u8},
  {"cvt.s32.s8", &s32_of_s8},
  {"cvt.s32.u16", &s32_of_u16},
  {"cvt.s32.s16", &s32_of_s16},
  {"cvt.s32.u32", &s32_of_u32},
  {"cvt.s32.u64", &s32_of_u64},
  {"cvt.s32.s64", &s32_of_s64},
  {"cvt.u64.u8", &u64_of_u8},
  {"cvt.u64.s8", &u64_of_s8},
  {"cvt.u64.u16", &u64_of_u16},
  {"cvt.u64.s16", &u64_of_s16},
  {"cvt.u64.u32", &u64_of_u32},
  {"cvt.u64.s32", &u64_of_s32},
  {"cvt.u64.s64", &u64_of_s64},
  {"cvt.s64.u8", &s64_of_u8},
  {"cvt.s64.s8", &s64_of_s8},
  {"cvt.s64.u16", &s64_of_u16},
  {"cvt.s64.s16", &s64_of_s16},
  {"cvt.s64.u32", &s64_of_u32},
  {"cvt.s64.s32", &s64_of_s32},
  {"cvt.s64.u64", &s64_of_u64},
  {"cvt.u8.u16", &u8_of_u16},
  {"cvt.u8.s16", &u8_of_s16},
  {"cvt.u8.u32", &u8_of_u32},
  {"cvt.u8.s32", &u8_of_s32},
  {"cvt.s8.u16", &s8_of_u16},
  {"cvt.s8.s16", &s8_of_s16},
  {"cvt.s8.u32", &s8_of_u32},
  {"cvt.s8.s32", &s8_of_s32},
  {"cvt.rn.f32.u8", &f32_of_u8},
  {"cvt.rn.f64.u8", &f64_of_u8},
  {"cvt.rn.f32.s8", &f32_of_s8},
  {"cvt.rn.f64.s8", &f64_of_s8},
  {"cvt.rn.f32.u16", &f32_of_u16},
  {"cvt.rn.f64.u16", &f64_of_u16},
  {"cvt.rn.f32.s16", &f32_of_s16},
  {"cvt.rn.f64.s16", &f64_of_s16},
  {"cvt.rn.f32.u32", &f32_of_u32},
  {"cvt.rn.f64.u32", &f64_of_u32},
  {"cvt.rn.f32.s32", &f32_of_s32},
  {"cvt.rn.f64.s32", &f64_of_s32},
  {"cvt.rn.f32.u64", &f32_of_u64},
  {"cvt.rn.f64.u64", &f64_of_u64},
  {"cvt.rn.f32.s64", &f32_of_s64},
  {"cvt.rn.f64.s64", &f64_of_s64},
  {"cvt.f64.f32", &f64_of_f32},
  {"cvt.rn.f32.f64", &f32_of_f64},
  {"cvt.rzi.s32.f32", &truncated_s32},
  {"cvt.rzi.u32.f32", &truncated_u32},
  {"cvt.rni.s32.f32", &nearest_s32},
};

const struct ptx_arithmetic *ptx_arithmetic(const char *opcode, size_t length) {
  for (size_t i = 0; i < sizeof known_opcodes / sizeof *known_opcodes; i++)
    if (strncmp(known_opcodes[i].opcode, opcode, length) == 0 && !known_opcodes[i].opcode[length])
      return known_opcodes[i].arithmetic;
  return NULL;
}
