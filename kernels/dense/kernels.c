/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the dense codecs: see dense.h.
 *
 * Compiled once for each instruction set (codec/instruction_set.h), with that set's vectors of sixteen numbers.
 */
#include "kernels/codec/instruction_set.h"
/* clang-format off */
#include TAGC_SIMD_HEADER(kernels/simd/vector)
/* clang-format on */

#include <string.h>

#include "kernels/dense/dense.h"
#include "kernels/simd/vector_sum.h"

enum {
  BLOCK = TAGC_DENSE_BLOCK,
  HALF = BLOCK / 2,
  QUARTER = BLOCK / 4,
  PREFETCH_BYTES = 2048, /* ahead: across the end of a page, where hardware stops */
};

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* -- in and out ---------------------------------------------------------------------------------------------------- */

/* The settings are constants where this is inlined. */
static TAGC_SPECIALISED bool load_typed(const void *from, enum tagc_dtype dtype, float scale, const float *residual,
                                        bool has_residual, float *values) {
  struct v16i most = v16i_all(0), least = v16i_all(UINT32_MAX);
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    const void *at = tagc_element_of(from, i, dtype);
    __builtin_prefetch((const char *)at + PREFETCH_BYTES);
    struct v16 x = v16_mul(v16_all(scale), v16_load_as(at, dtype));
    if (has_residual)
      x = v16_add(x, v16_load(residual + i));
    struct v16i magnitude = v16_magnitudes(x);
    most = v16i_max(most, magnitude);
    /* Subtracting one makes zeros the largest. */
    least = v16i_min(least, v16i_add(magnitude, v16i_all(UINT32_MAX)));
    v16_store(values + i, x);
  }
  return v16i_largest(most) < TAGC_DENSE_HUGE_BITS && v16i_least(least) >= TAGC_LEAST_BITS - 1;
}

static bool dense_load(const void *from, enum tagc_dtype dtype, float scale, const float *residual, float *values) {
#define LOAD(dtype) \
  residual ? load_typed(from, dtype, scale, residual, true, values) \
           : load_typed(from, dtype, scale, NULL, false, values)
  if (dtype == TAGC_FLOAT32)
    return LOAD(TAGC_FLOAT32);
  if (dtype == TAGC_FLOAT16)
    return LOAD(TAGC_FLOAT16);
  return LOAD(TAGC_BFLOAT16);
#undef LOAD
}

static TAGC_SPECIALISED bool has_exceptions_typed(const void *from, uint64_t n, enum tagc_dtype dtype, float scale) {
  struct v16i most = v16i_all(0);
  uint64_t i = 0;
  bool seen = false;
  for (; i + TAGC_LANES <= n; i += TAGC_LANES) {
    const void *at = tagc_element_of(from, i, dtype);
    __builtin_prefetch((const char *)at + PREFETCH_BYTES);
    most = v16i_max(most, v16_magnitudes(v16_mul(v16_all(scale), v16_load_as(at, dtype))));
  }
  for (; i < n; i++)
    seen |= tagc_is_exception(tagc_bits_of(scale * tagc_load(from, i, dtype)));
  return seen || v16i_largest(most) >= TAGC_EXCEPTION_BITS;
}

static bool shard_has_exceptions(const void *from, uint64_t n, enum tagc_dtype dtype, float scale) {
  if (dtype == TAGC_FLOAT32)
    return has_exceptions_typed(from, n, TAGC_FLOAT32, scale);
  if (dtype == TAGC_FLOAT16)
    return has_exceptions_typed(from, n, TAGC_FLOAT16, scale);
  return has_exceptions_typed(from, n, TAGC_BFLOAT16, scale);
}

/* A NaN is replaced after the block, where there is one: rounding leaves it one (dense.h). */
static ALWAYS_INLINE bool finish_typed(const float *sum, const void *own, void *recv, struct tagc_dense_result result,
                                       bool by_inverse) {
  const struct v16 divisor = v16_all(by_inverse ? 1 / result.divisor : result.divisor);
  struct v16i most = v16i_all(0);
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    const void *at = tagc_element_of(own, i, result.dtype);
    __builtin_prefetch((const char *)at + PREFETCH_BYTES);
    struct v16 x = v16_mul(v16_all(result.scale), v16_load_as(at, result.dtype));
    x = v16_add(v16_load(sum + i), x);
    x = by_inverse ? v16_mul(x, divisor) : v16_div(x, divisor);
    most = v16i_max(most, v16_magnitudes(x));
    v16_store_as((char *)recv + i * tagc_dtype_size(result.dtype), result.dtype, x);
  }
  if (__builtin_expect(!v16i_any_above(most, v16i_all(tagc_infinite_bits(result.dtype) - 1)), 1))
    return false;
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    void *at = (char *)recv + i * tagc_dtype_size(result.dtype);
    v16_store_as(at, result.dtype, v16_one_nan(v16_load_as(at, result.dtype)));
  }
  return true;
}

static TAGC_SPECIALISED bool finish_as(const float *sum, const void *own, void *recv, struct tagc_dense_result result,
                                       enum tagc_dtype dtype) {
  result.dtype = dtype;
  if (tagc_divides_by_inverse(result.divisor))
    return finish_typed(sum, own, recv, result, true);
  return finish_typed(sum, own, recv, result, false);
}

/* Does not bypass the caches: with few streams that was slower (0.58 of memcpy, not 0.90, two ranks, 16 M elements). */
static bool dense_finish(const float *sum, const void *own, void *recv, struct tagc_dense_result result) {
  if (result.dtype == TAGC_FLOAT32)
    return finish_as(sum, own, recv, result, TAGC_FLOAT32);
  if (result.dtype == TAGC_FLOAT16)
    return finish_as(sum, own, recv, result, TAGC_FLOAT16);
  return finish_as(sum, own, recv, result, TAGC_BFLOAT16);
}

/* -- the rotation -------------------------------------------------------------------------------------------------- */

/* Butterflies between vectors, of one stride and then twice that. */
static ALWAYS_INLINE void butterflies4(struct v16 x[4]) {
  struct v16 a = v16_add(x[0], x[1]), b = v16_sub(x[0], x[1]), c = v16_add(x[2], x[3]), d = v16_sub(x[2], x[3]);
  x[0] = v16_add(a, c);
  x[1] = v16_add(b, d);
  x[2] = v16_sub(a, c);
  x[3] = v16_sub(b, d);
}

/* out = H (in * factor), with signs turned by `signs`; NULL: none, and no factor. They may be the same. */
static ALWAYS_INLINE void transform(const float *in, float factor, const uint64_t *signs, float *out) {
  struct v16 x[4];
  for (uint32_t i = 0; i < BLOCK; i += 4 * TAGC_LANES) {
    for (uint32_t j = 0; j < 4; j++) {
      x[j] = v16_load(in + i + j * TAGC_LANES);
      if (signs)
        x[j] = v16_turn_signs(v16_mul(x[j], v16_all(factor)), signs[i / 64] >> (j * TAGC_LANES) & 0xffff);
      x[j] = v16_butterflies(x[j]);
    }
    butterflies4(x);
    for (uint32_t j = 0; j < 4; j++)
      v16_store(out + i + j * TAGC_LANES, x[j]);
  }
  for (uint32_t i = 0; i < 4 * TAGC_LANES; i += TAGC_LANES) {
    for (uint32_t j = 0; j < 4; j++)
      x[j] = v16_load(out + i + 64 * j);
    butterflies4(x);
    for (uint32_t j = 0; j < 4; j++)
      v16_store(out + i + 64 * j, x[j]);
  }
}

static void turn_back(float *sum, const uint64_t signs[TAGC_ROTATION_WORDS]) {
  transform(sum, 1, NULL, sum);
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES)
    v16_store(sum + i, v16_turn_signs(v16_load(sum + i), signs[i / 64] >> i % 64 & 0xffff));
}

/* The errors of a rotated block: values - turned back(decoded). */
static void leave_rotated(const float *values, float *decoded, const uint64_t signs[TAGC_ROTATION_WORDS], float *left) {
  turn_back(decoded, signs);
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES)
    v16_store(left + i, v16_sub(v16_load(values + i), v16_load(decoded + i)));
}

/* -- q8, q4 -------------------------------------------------------------------------------------------------------- */

/* Sixteen codes, as floats. `by_chance` is a constant where this is inlined. */
static ALWAYS_INLINE struct v16 codes16(struct v16 x, float inverse, float limit, bool by_chance,
                                        const uint16_t *chance) {
  struct v16 y = v16_mul(x, v16_all(inverse));
  if (by_chance) {
    struct v16 u = v16_mul(v16i_to_float(v16i_load_halves(chance)), v16_all(TAGC_CHANCE_UNIT));
    y = v16_add(y, v16_add(u, v16_all(TAGC_CHANCE_LEAST)));
  }
  return v16_clamp(v16_sub(v16_add(y, v16_all(TAGC_NEAREST)), v16_all(TAGC_NEAREST)), limit);
}

static TAGC_SPECIALISED void q8_to_codes_typed(const float *values, const uint16_t *chance, bool by_chance,
                                               uint16_t *scales, uint8_t *codes, float *left) {
  scales[0] = tagc_scale_up(v16_largest(values, BLOCK), 127);
  const float inverse = tagc_scale_inverse(scales[0]), scale = tagc_from_bf16(scales[0]);
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    struct v16 x = v16_load(values + i), code = codes16(x, inverse, 127, by_chance, by_chance ? chance + i : NULL);
    v16i_store_bytes(codes + i, v16_to_int(code));
    if (left)
      v16_store(left + i, v16_sub(x, v16_mul(code, v16_all(scale))));
  }
}

static void q8_to_codes(const float *values, const struct tagc_dense_context *context, uint16_t *scales, uint8_t *codes,
                        float *left) {
  if (context->stochastic)
    q8_to_codes_typed(values, context->chance, true, scales, codes, left);
  else if (left)
    q8_to_codes_typed(values, NULL, false, scales, codes, left);
  else
    q8_to_codes_typed(values, NULL, false, scales, codes, NULL);
}

static void q8_add(float *sum, const uint16_t *scales, const uint8_t *codes) {
  const struct v16 scale = v16_all(tagc_from_bf16(scales[0]));
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES)
    v16_store(sum + i, v16_add(v16_load(sum + i), v16_mul(v16i_to_float(v16i_load_bytes(codes + i)), scale)));
}

static TAGC_SPECIALISED void q4_encode_typed(const float *rotated, const uint16_t *chance, bool by_chance,
                                             uint16_t *scales, uint8_t *codes, float *decoded) {
  float inverse[2], scale[2];
  for (uint32_t half = 0; half < 2; half++) {
    scales[half] = tagc_scale_up(v16_largest(rotated + half * HALF, HALF), 7);
    inverse[half] = tagc_scale_inverse(scales[half]);
    scale[half] = tagc_from_bf16(scales[half]);
  }
  for (uint32_t i = 0; i < HALF; i += TAGC_LANES) {
    struct v16 lower = codes16(v16_load(rotated + i), inverse[0], 7, by_chance, by_chance ? chance + i : NULL);
    struct v16 upper =
      codes16(v16_load(rotated + HALF + i), inverse[1], 7, by_chance, by_chance ? chance + HALF + i : NULL);
    v16i_store_bytes(codes + i, v16i_or(v16i_and(v16_to_int(lower), v16i_all(15)), v16i_left(v16_to_int(upper), 4)));
    if (decoded) {
      v16_store(decoded + i, v16_mul(lower, v16_all(scale[0])));
      v16_store(decoded + HALF + i, v16_mul(upper, v16_all(scale[1])));
    }
  }
}

static void q4_to_codes(const float *values, const struct tagc_dense_context *context, uint16_t *scales, uint8_t *codes,
                        float *left) {
  _Alignas(64) float rotated[BLOCK], decoded[BLOCK];
  transform(values, 0x1p-8f, context->signs, rotated);
  if (context->stochastic)
    q4_encode_typed(rotated, context->chance, true, scales, codes, decoded);
  else if (left)
    q4_encode_typed(rotated, NULL, false, scales, codes, decoded);
  else
    q4_encode_typed(rotated, NULL, false, scales, codes, NULL);
  if (left)
    leave_rotated(values, decoded, context->signs, left);
}

static void q4_add(float *sum, const uint16_t *scales, const uint8_t *codes) {
  const float factor[2] = {tagc_from_bf16(scales[0]), tagc_from_bf16(scales[1])};
  for (uint32_t i = 0; i < HALF; i += TAGC_LANES) {
    struct v16 lower, upper;
    v16_nibbles(codes + i, factor, &lower, &upper);
    v16_store(sum + i, v16_add(v16_load(sum + i), lower));
    v16_store(sum + HALF + i, v16_add(v16_load(sum + HALF + i), upper));
  }
}

/* -- q3 ------------------------------------------------------------------------------------------------------------ */

/* A half of a block. */
struct q3_half {
  struct v16i most;
  struct v16 squares, factor, threshold[4], products, levels;
  float power, square_sum;
};

static ALWAYS_INLINE void q3_look16(const float *values, struct q3_half *half) {
  const struct v16 x = v16_load(values);
  half->squares = v16_add(half->squares, v16_mul(x, x));
  half->most = v16i_max(half->most, v16i_or(v16i_left(v16_bits(x), 1), v16i_right(v16_bits(x), 31)));
}

/* Finds the power and the thresholds. A power of 1 or -1 leaves the squares as they are. */
static ALWAYS_INLINE void q3_decide(const float *values, struct q3_half *half) {
  float threshold[4];
  const uint32_t most = v16i_largest(half->most);
  half->power = tagc_q3_power(most);
  half->factor = v16_all(half->power);
  if (half->power * half->power != 1) {
    half->squares = v16_all(0);
    for (uint32_t i = 0; i < HALF; i += TAGC_LANES) {
      const struct v16 v = v16_mul(v16_load(values + i), half->factor);
      half->squares = v16_add(half->squares, v16_mul(v, v));
    }
  }
  half->square_sum = v16_sum(half->squares);
  tagc_q3_thresholds(tagc_q3_spread(half->square_sum, most, half->power), threshold);
  for (uint32_t i = 0; i < 4; i++)
    half->threshold[i] = v16_all(threshold[i]);
}

static ALWAYS_INLINE void q3_choose16(const float *values, const float eight[8], struct q3_half *half, uint8_t *codes) {
  const struct v16 v = v16_mul(v16_load(values), half->factor), square = v16_mul(v, v);
  const struct v16i sign = v16i_and(v16_bits(v), v16i_all(0x80000000u));
  const struct v16m large = v16_greater(square, half->threshold[0]);
  const struct v16m top = v16_greater(v16_from_bits(v16i_or(v16_bits(square), sign)), half->threshold[3]);
  struct v16i code = v16i_add_truth(v16i_right(sign, 29), large);
  code = v16i_add_truth(code, v16_greater(square, half->threshold[1]));
  code = v16i_add_truth(code, v16_greater(square, half->threshold[2]));
  code = v16i_add_truth(v16i_keep(code, large), top); /* the top follows the third level */
  const struct v16 level = v16_pick8(code, eight);
  half->products = v16_add(half->products, v16_mul(v, level));
  half->levels = v16_add(half->levels, v16_mul(level, level));
  v16i_store_bytes(codes, code);
}

/* Returns the scale. */
static ALWAYS_INLINE uint16_t q3_scale_of(const struct q3_half *half, bool unbiased) {
  return tagc_q3_scale(half->square_sum, v16_sum(half->products), v16_sum(half->levels), half->power, unbiased);
}

/* Fills the scales, and writes each element's code in a byte of its own. Both halves at once hide each other's waits.
 */
static ALWAYS_INLINE void q3_choose(const float *values, bool unbiased, uint16_t *scales, uint8_t code[BLOCK]) {
  const struct v16 zero = v16_all(0);
  struct q3_half first = {.most = v16i_all(0), .squares = zero, .products = zero, .levels = zero}, second = first;
  float eight[8];
  tagc_q3_values(1, eight);
  for (uint32_t i = 0; i < HALF; i += TAGC_LANES) {
    q3_look16(values + i, &first);
    q3_look16(values + HALF + i, &second);
  }
  q3_decide(values, &first);
  q3_decide(values + HALF, &second);
  for (uint32_t i = 0; i < HALF; i += TAGC_LANES) {
    q3_choose16(values + i, eight, &first, code + i);
    q3_choose16(values + HALF + i, eight, &second, code + HALF + i);
  }
  scales[0] = q3_scale_of(&first, unbiased);
  scales[1] = q3_scale_of(&second, unbiased);
}

/* Packs the lower two bits four a byte, and then the upper ones eight a byte. */
static ALWAYS_INLINE void q3_pack(const uint8_t code[BLOCK], uint8_t *codes) {
  struct v16i lower = v16i_all(0), upper = v16i_all(0);
  for (uint32_t m = 0; m < 4; m++) {
    const struct v16i some = v16i_load(code + QUARTER * m); /* four codes a lane */
    lower = v16i_or(lower, v16i_left(v16i_and(some, v16i_all(0x03030303)), 2 * (int)m));
    upper = v16i_or(upper, v16i_left(v16i_and(v16i_right(some, 2), v16i_all(0x01010101)), 2 * (int)m));
  }
  uint64_t pairs[QUARTER / sizeof(uint64_t)];
  v16i_store(codes, lower);
  v16i_store(pairs, upper);
  for (uint32_t j = 0; j < 4; j++)
    pairs[j] |= pairs[j + 4] << 1;
  memcpy(codes + QUARTER, pairs, QUARTER / 2);
}

static void q3_to_codes(const float *values, const struct tagc_dense_context *context, uint16_t *scales, uint8_t *codes,
                        float *left) {
  _Alignas(64) uint8_t code[BLOCK];
  q3_choose(values, context->stochastic, scales, code);
  q3_pack(code, codes);
  for (uint32_t half = 0; left && half < BLOCK; half += HALF) {
    float eight[8];
    tagc_q3_values(tagc_from_bf16(scales[half / HALF]), eight);
    for (uint32_t i = half; i < half + HALF; i += TAGC_LANES)
      v16_store(left + i, v16_sub(v16_load(values + i), v16_pick8(v16i_load_bytes(code + i), eight)));
  }
}

static void q3_add(float *sum, const uint16_t *scales, const uint8_t *codes) {
  float eight[2][8];
  for (uint32_t half = 0; half < 2; half++)
    tagc_q3_values(tagc_from_bf16(scales[half]), eight[half]);
  for (uint32_t i = 0; i < QUARTER; i += TAGC_LANES) {
    struct v16i lower = v16i_load_bytes(codes + i), upper = v16i_load_bytes(codes + QUARTER + i % (QUARTER / 2));
    upper = i < QUARTER / 2 ? v16i_left(upper, 2) : v16i_left(upper, 1);
    for (uint32_t m = 0; m < BLOCK; m += QUARTER, lower = v16i_right(lower, 2), upper = v16i_right(upper, 2)) {
      const struct v16i code = v16i_or(v16i_and(lower, v16i_all(3)), v16i_and(upper, v16i_all(4)));
      v16_store(sum + m + i, v16_add(v16_load(sum + m + i), v16_pick8(code, eight[m / HALF])));
    }
  }
}

/* -- q2 ------------------------------------------------------------------------------------------------------------ */

/* Returns the scale of a block that is not silent; writes each element's code in a byte of its own. */
static ALWAYS_INLINE uint16_t q2_choose(const float *rotated, float power, bool unbiased, uint8_t code[BLOCK]) {
  struct v16 squares = v16_all(0), products = v16_all(0);
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    struct v16 v = v16_mul(v16_load(rotated + i), v16_all(power));
    squares = v16_add(squares, v16_mul(v, v));
  }
  const float square_sum = v16_sum(squares);
  const struct v16 threshold = v16_all(tagc_q2_threshold(square_sum));
  uint32_t count = 0;
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    struct v16 v = v16_mul(v16_load(rotated + i), v16_all(power));
    struct v16m large = v16_greater(v16_mul(v, v), threshold);
    struct v16 level = v16_select(large, v16_all(TAGC_Q2_LARGE), v16_all(TAGC_Q2_SMALL));
    products = v16_add(products, v16_mul(v16_from_bits(v16_magnitudes(v)), level));
    count += v16m_count(large);
    struct v16i sign = v16i_left(v16i_right(v16_bits(v), 31), 1);
    struct v16i bit = v16_bits(v16_select(large, v16_from_bits(v16i_all(1)), v16_all(0)));
    v16i_store_bytes(code + i, v16i_or(sign, bit));
  }
  const float product = v16_sum(products);
  const float scale = unbiased ? tagc_q2_scale_unbiased(square_sum, product) : tagc_q2_scale(product, count);
  return tagc_to_bf16(scale / power);
}

/* Packs four codes a byte, eight bytes at a time. */
static ALWAYS_INLINE void q2_pack(const uint8_t code[BLOCK], uint8_t *codes) {
  for (uint32_t j = 0; j < QUARTER; j += sizeof(uint64_t)) {
    uint64_t bytes = 0, some;
    for (uint32_t m = 0; m < 4; m++) {
      memcpy(&some, code + QUARTER * m + j, sizeof some);
      bytes |= some << 2 * m;
    }
    memcpy(codes + j, &bytes, sizeof bytes);
  }
}

static void q2_to_codes(const float *values, const struct tagc_dense_context *context, uint16_t *scales, uint8_t *codes,
                        float *left) {
  _Alignas(64) float rotated[BLOCK];
  _Alignas(64) uint8_t code[BLOCK];
  transform(values, 0x1p-8f, context->signs, rotated);
  const uint32_t most = tagc_bits_of(v16_largest(rotated, BLOCK));
  if (most < TAGC_SILENT_BITS) {
    scales[0] = 0;
    memset(codes, 0, QUARTER);
    if (left)
      memcpy(left, values, BLOCK * sizeof *left);
    return;
  }
  scales[0] = q2_choose(rotated, tagc_q2_power(most), context->stochastic, code);
  q2_pack(code, codes);
  if (!left)
    return;
  float four[4];
  tagc_q2_values(scales[0], four);
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES)
    v16_store(rotated + i, v16_pick(v16i_load_bytes(code + i), four));
  leave_rotated(values, rotated, context->signs, left);
}

static void q2_add(float *sum, const uint16_t *scales, const uint8_t *codes) {
  float four[4];
  tagc_q2_values(scales[0], four);
  for (uint32_t i = 0; i < QUARTER; i += TAGC_LANES) {
    struct v16i code = v16i_load_bytes(codes + i);
    for (uint32_t m = 0; m < BLOCK; m += QUARTER, code = v16i_right(code, 2))
      v16_store(sum + m + i, v16_add(v16_load(sum + m + i), v16_pick(code, four)));
  }
}

/* -- bf16 ---------------------------------------------------------------------------------------------------------- */

static void bf16_to_codes(const float *values, const struct tagc_dense_context *context, uint16_t *scales,
                          uint8_t *codes, float *left) {
  (void)scales;
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    struct v16 x = v16_load(values + i);
    void *to = codes + 2 * i;
    if (context->stochastic)
      v16i_store_halves(to, v16i_right(v16i_add(v16_bits(x), v16i_load_halves(context->chance + i)), 16));
    else
      v16_store_as(to, TAGC_BFLOAT16, x);
    if (left)
      v16_store(left + i, v16_sub(x, v16_load_as(to, TAGC_BFLOAT16)));
  }
}

static void bf16_add(float *sum, const uint16_t *scales, const uint8_t *codes) {
  (void)scales;
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES)
    v16_store(sum + i, v16_add(v16_load(sum + i), v16_load_as(codes + 2 * i, TAGC_BFLOAT16)));
}

const struct tagc_dense_kernels TAGC_SIMD_TABLE(tagc_dense) = {
  .load = dense_load,
  .has_exceptions = shard_has_exceptions,
  .turn_back = turn_back,
  .finish = dense_finish,
  .codec =
    {
      [TAGC_DENSE_BF16] = {.encode = bf16_to_codes, .add = bf16_add},
      [TAGC_DENSE_Q8] = {.encode = q8_to_codes, .add = q8_add},
      [TAGC_DENSE_Q4] = {.encode = q4_to_codes, .add = q4_add},
      [TAGC_DENSE_Q3] = {.encode = q3_to_codes, .add = q3_add},
      [TAGC_DENSE_Q2] = {.encode = q2_to_codes, .add = q2_add},
    },
};
