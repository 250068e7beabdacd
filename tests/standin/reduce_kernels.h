/* SPDX-License-Identifier: BSD-3-Clause
 * The loops of all types and operators, and their table. reduce.c includes this once per instruction set, with NAMED(x)
 * for unique names and TARGET for the instructions. It also defines EACH, the conversions and struct kernels.
 */

ARITHMETIC(u8, uint8_t, uint8_t, PLAIN, PLAIN)
ARITHMETIC(u32, uint32_t, uint32_t, PLAIN, PLAIN)
ARITHMETIC(u64, uint64_t, uint64_t, PLAIN, PLAIN)
ARITHMETIC(f16, uint16_t, float, float_from_half, half_from_float)
ARITHMETIC(bf16, uint16_t, float, float_from_bf16, bf16_from_float)
ARITHMETIC(f32, float, float, PLAIN, PLAIN)
ARITHMETIC(f64, double, double, PLAIN, PLAIN)
ORDER(i8, int8_t, int8_t, PLAIN, PLAIN, GREATER, SMALLER)
ORDER(u8, uint8_t, uint8_t, PLAIN, PLAIN, GREATER, SMALLER)
ORDER(i32, int32_t, int32_t, PLAIN, PLAIN, GREATER, SMALLER)
ORDER(u32, uint32_t, uint32_t, PLAIN, PLAIN, GREATER, SMALLER)
ORDER(i64, int64_t, int64_t, PLAIN, PLAIN, GREATER, SMALLER)
ORDER(u64, uint64_t, uint64_t, PLAIN, PLAIN, GREATER, SMALLER)
ORDER(f16, uint16_t, float, float_from_half, half_from_float, GREATER_FLOAT, SMALLER_FLOAT)
ORDER(bf16, uint16_t, float, float_from_bf16, bf16_from_float, GREATER_FLOAT, SMALLER_FLOAT)
ORDER(f32, float, float, PLAIN, PLAIN, GREATER_FLOAT, SMALLER_FLOAT)
ORDER(f64, double, double, PLAIN, PLAIN, GREATER_FLOAT, SMALLER_FLOAT)
DIVIDE(i8, int8_t)
DIVIDE(u8, uint8_t)
DIVIDE(i32, int32_t)
DIVIDE(u32, uint32_t)
DIVIDE(i64, int64_t)
DIVIDE(u64, uint64_t)

#define KERNELS(arithmetic, order, division) \
  { \
    {NAMED(sum_##arithmetic), NAMED(prod_##arithmetic), NAMED(max_##order), NAMED(min_##order)}, \
      NAMED(scale_##arithmetic), NAMED(scaled_sum_##arithmetic), division \
  }

static const struct kernels NAMED(kernels)[] = {
  [ncclInt8] = KERNELS(u8, i8, NAMED(divide_i8)),
  [ncclUint8] = KERNELS(u8, u8, NAMED(divide_u8)),
  [ncclInt32] = KERNELS(u32, i32, NAMED(divide_i32)),
  [ncclUint32] = KERNELS(u32, u32, NAMED(divide_u32)),
  [ncclInt64] = KERNELS(u64, i64, NAMED(divide_i64)),
  [ncclUint64] = KERNELS(u64, u64, NAMED(divide_u64)),
  [ncclFloat16] = KERNELS(f16, f16, NULL),
  [ncclBfloat16] = KERNELS(bf16, bf16, NULL),
  [ncclFloat32] = KERNELS(f32, f32, NULL),
  [ncclFloat64] = KERNELS(f64, f64, NULL),
};

#undef KERNELS
#undef NAMED
#undef TARGET
