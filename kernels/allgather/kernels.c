/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codecs for all-gathers: see kernels.h.
 *
 * Compiled once for each instruction set (codec/instruction_set.h), with that set's vectors.
 */
#include "kernels/codec/instruction_set.h"
/* clang-format off */
#include TAGC_SIMD_HEADER(kernels/simd/bytes)
#include TAGC_SIMD_HEADER(kernels/simd/vector)
/* clang-format on */

#include <string.h>

#include "kernels/allgather/kernels.h"
#include "kernels/simd/vector_sum.h"

enum {
  BLOCK = TAGC_ALLGATHER_BLOCK,
  HALF = TAGC_ALLGATHER_HALF,
  PREFETCH_BYTES = 2048, /* ahead: across the end of a page, where hardware stops */
};

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define RARE __attribute__((noinline))
#define UNROLL_4_FOR(...) _Pragma("GCC unroll 4") for (__VA_ARGS__)

/* Calls a function with its type as a constant. */
#define EACH_TYPE(dtype, function, ...) \
  ((dtype) == TAGC_FLOAT32   ? function(__VA_ARGS__, TAGC_FLOAT32) \
   : (dtype) == TAGC_FLOAT16 ? function(__VA_ARGS__, TAGC_FLOAT16) \
                             : function(__VA_ARGS__, TAGC_BFLOAT16))

/* tagc_allgather_within(): v16_clamp() leaves the result for a NaN open. */
static ALWAYS_INLINE struct v16 within(struct v16 x, enum tagc_dtype dtype) {
  const struct v16 most = v16_all(65504.0f), least = v16_all(-65504.0f);
  if (dtype != TAGC_FLOAT16)
    return x;
  x = v16_select(v16_greater(x, most), most, x);
  return v16_select(v16_greater(least, x), least, x);
}

/* -- what was lost ------------------------------------------------------------------------------------------------- */

struct squares {
  struct v16 error, value;
};

static ALWAYS_INLINE void add_squares(struct squares *sum, struct v16 value, struct v16 got) {
  const struct v16 error = v16_sub(value, got);
  sum->error = v16_add(sum->error, v16_mul(error, error));
  sum->value = v16_add(sum->value, v16_mul(value, value));
}

/* False: the block has values that are not finite, or squares that fp32 does not hold. */
static ALWAYS_INLINE bool add_norms(struct tagc_allgather_norms *norms, const struct squares *sum) {
  const float error2 = v16_sum(sum->error), norm2 = v16_sum(sum->value), infinity = __builtin_inff();
  if (!(error2 < infinity && norm2 < infinity && norm2 > 0x1p-80f))
    return false;
  norms->error2 += (double)error2;
  norms->norm2 += (double)norm2;
  return true;
}

/* Leaves values out that are not finite, or have become so. */
static ALWAYS_INLINE void add_value(struct tagc_allgather_norms *norms, float value, float got) {
  const double x = (double)value, error = x - (double)got;
  if (error - error != 0)
    return;
  norms->error2 += error * error;
  norms->norm2 += x * x;
}

static ALWAYS_INLINE void to_floats(const void *from, enum tagc_dtype dtype, float to[BLOCK]) {
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES)
    v16_store(to + i, v16_load_as(tagc_element_of(from, i, dtype), dtype));
}

/* A block for which add_norms() returns false. */
static RARE void add_values(struct tagc_allgather_norms *norms, const void *value, enum tagc_dtype dtype,
                            const void *got, enum tagc_dtype got_dtype) {
  float x[BLOCK], y[BLOCK];
  to_floats(value, dtype, x);
  to_floats(got, got_dtype, y);
  if (v16_largest(x, BLOCK) == 0 && v16_largest(y, BLOCK) == 0)
    return;
  for (uint32_t i = 0; i < BLOCK; i++)
    add_value(norms, x[i], y[i]);
}

static TAGC_SPECIALISED int compare_typed(const void *value, const void *got, uint64_t n,
                                          struct tagc_allgather_norms *norms, enum tagc_dtype dtype) {
  uint64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    struct squares sum = {v16_all(0), v16_all(0)};
    for (uint32_t j = 0; j < BLOCK; j += TAGC_LANES)
      add_squares(&sum, v16_load_as(tagc_element_of(value, i + j, dtype), dtype),
                  v16_load_as(tagc_element_of(got, i + j, dtype), dtype));
    if (!add_norms(norms, &sum))
      add_values(norms, tagc_element_of(value, i, dtype), dtype, tagc_element_of(got, i, dtype), dtype);
  }
  for (; i < n; i++)
    add_value(norms, tagc_load(value, i, dtype), tagc_load(got, i, dtype));
  return 0;
}

static void add_norms_of(const void *value, const void *got, uint64_t n, enum tagc_dtype dtype,
                         struct tagc_allgather_norms *norms) {
  EACH_TYPE(dtype, compare_typed, value, got, n, norms);
}

/* -- bf16 ---------------------------------------------------------------------------------------------------------- */

static ALWAYS_INLINE void bf16_encode_block(const float *from, uint16_t *to, struct tagc_allgather_norms *norms) {
  struct squares sum = {v16_all(0), v16_all(0)};
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    __builtin_prefetch((const char *)(from + i) + PREFETCH_BYTES);
    const struct v16 x = v16_one_nan(v16_load(from + i));
    v16_store_as(to + i, TAGC_BFLOAT16, x);
    if (norms)
      add_squares(&sum, x, v16_load_as(to + i, TAGC_BFLOAT16));
  }
  if (norms && !add_norms(norms, &sum))
    add_values(norms, from, TAGC_FLOAT32, to, TAGC_BFLOAT16);
}

static void allgather_bf16_to_codes(const float *from, uint64_t n, uint16_t *to, struct tagc_allgather_norms *norms) {
  uint64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK)
    if (norms)
      bf16_encode_block(from + i, to + i, norms);
    else
      bf16_encode_block(from + i, to + i, NULL);
  for (; i < n; i++) {
    to[i] = tagc_allgather_to_bf16(from[i]);
    if (norms)
      add_value(norms, from[i], tagc_from_bf16(to[i]));
  }
}

static void allgather_bf16_from_codes(const uint16_t *from, uint64_t n, float *to) {
  uint64_t i = 0;
  for (; i + TAGC_LANES <= n; i += TAGC_LANES) {
    __builtin_prefetch((const char *)(from + i) + PREFETCH_BYTES);
    v16_store(to + i, v16_load_as(from + i, TAGC_BFLOAT16));
  }
  for (; i < n; i++)
    to[i] = tagc_from_bf16(from[i]);
}

/* -- q8 ------------------------------------------------------------------------------------------------------------ */

static ALWAYS_INLINE struct v16 q8_values(const uint8_t *codes, float scale, enum tagc_dtype dtype) {
  return within(v16_mul(v16i_to_float(v16i_load_bytes(codes)), v16_all(scale)), dtype);
}

/* The stored values, as floats. */
static ALWAYS_INLINE struct v16 as_stored(struct v16 x, enum tagc_dtype dtype) {
  float stored[TAGC_LANES];
  x = within(x, dtype);
  if (dtype == TAGC_FLOAT32)
    return x;
  v16_store_as(stored, dtype, x);
  return v16_load_as(stored, dtype);
}

static RARE void add_q8_values(struct tagc_allgather_norms *norms, const float *values, const uint16_t scales[2],
                               const uint8_t *codes, enum tagc_dtype dtype) {
  float got[BLOCK];
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES)
    v16_store(got + i, as_stored(q8_values(codes + i, tagc_from_bf16(scales[i / HALF]), dtype), dtype));
  add_values(norms, values, TAGC_FLOAT32, got, TAGC_FLOAT32);
}

static TAGC_SPECIALISED int allgather_q8_to_codes_typed(const float *values, uint16_t scales[2], uint8_t *codes,
                                                        struct tagc_allgather_norms *norms, enum tagc_dtype dtype) {
  struct squares sum = {v16_all(0), v16_all(0)};
  for (uint32_t half = 0; half < 2; half++) {
    const uint32_t first = half * HALF;
    scales[half] = tagc_scale_up(v16_largest(values + first, HALF), 127);
    const float inverse = tagc_scale_inverse(scales[half]), scale = tagc_from_bf16(scales[half]);
    for (uint32_t i = first; i < first + HALF; i += TAGC_LANES) {
      const struct v16 x = v16_load(values + i), y = v16_mul(x, v16_all(inverse));
      const struct v16 code = v16_clamp(v16_sub(v16_add(y, v16_all(TAGC_NEAREST)), v16_all(TAGC_NEAREST)), 127);
      v16i_store_bytes(codes + i, v16_to_int(code));
      if (norms)
        add_squares(&sum, x, as_stored(v16_mul(code, v16_all(scale)), dtype));
    }
  }
  if (norms && !add_norms(norms, &sum))
    add_q8_values(norms, values, scales, codes, dtype);
  return 0;
}

static void allgather_q8_to_codes(const float *values, enum tagc_dtype dtype, uint16_t scales[2], uint8_t *codes,
                                  struct tagc_allgather_norms *norms) {
  if (norms)
    EACH_TYPE(dtype, allgather_q8_to_codes_typed, values, scales, codes, norms);
  else
    allgather_q8_to_codes_typed(values, scales, codes, NULL, TAGC_FLOAT32);
}

static TAGC_SPECIALISED int q8_decode_typed(const uint16_t scales[2], const uint8_t *codes, void *to,
                                            enum tagc_dtype dtype) {
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    __builtin_prefetch(codes + i + PREFETCH_BYTES);
    /* Hostile payloads may have NaN scales. */
    v16_store_as((char *)to + i * tagc_dtype_size(dtype), dtype,
                 v16_one_nan(q8_values(codes + i, tagc_from_bf16(scales[i / HALF]), dtype)));
  }
  return 0;
}

static void allgather_q8_from_codes(const uint16_t scales[2], const uint8_t *codes, enum tagc_dtype dtype, void *to) {
  EACH_TYPE(dtype, q8_decode_typed, scales, codes, to);
}

/* -- lossless ------------------------------------------------------------------------------------------------------ */

enum { PARTS = BLOCK / TAGC_BYTES };

/* Prefetches `bytes` bytes, PREFETCH_BYTES ahead. */
static ALWAYS_INLINE void fetch_ahead(const void *from, size_t bytes, bool to_write) {
  UNROLL_4_FOR (size_t line = 0; line < bytes; line += 64)
    if (to_write)
      __builtin_prefetch((const char *)from + line + PREFETCH_BYTES, 1);
    else
      __builtin_prefetch((const char *)from + line + PREFETCH_BYTES);
}

/* True if m + 1 is the better base (tagc_lossless_base()): it gains the exponents right above m, and loses the last
 * ones that m has a code for. */
static ALWAYS_INLINE uint32_t next_is_better(const struct v64 exponents[PARTS], uint32_t m) {
  uint32_t gained = 0, lost = 0;
  UNROLL_4_FOR (int part = 0; part < PARTS; part++) {
    gained += v64_count(exponents[part], m + 1);
    lost += v64_count(exponents[part], m + 1 - TAGC_LOSSLESS_ESCAPE);
  }
  return gained > lost;
}

/* Appends the escaped exponents, by the planes, in order, and returns the new end. Mostly there are few, and no
 * processor would predict the end of a loop: so it writes TAGC_LOSSLESS_AT_ONCE even if there are fewer. */
static ALWAYS_INLINE uint8_t *take_escapes(const uint8_t exponents[TAGC_BYTES + 1], const uint64_t plane[3],
                                           uint8_t *end) {
  uint64_t left = plane[0] & plane[1] & plane[2];
  uint8_t *const next = end + __builtin_popcountll(left);
  do
    UNROLL_4_FOR (int i = 0; i < TAGC_LOSSLESS_AT_ONCE; i++, left &= left - 1)
      *end++ = exponents[first_bit(left)];
  while (left);
  return next;
}

static TAGC_SPECIALISED uint32_t lossless_encode_typed(const void *from, uint8_t *record, uint8_t *base, uint16_t *lows,
                                                       uint8_t *escaped, enum tagc_dtype dtype) {
  struct v64 exponents[PARTS], rest, most;
  uint8_t *end = escaped;
  UNROLL_4_FOR (int part = 0; part < PARTS; part++) {
    const void *at = tagc_element_of(from, (uint64_t)part * TAGC_BYTES, dtype);
    fetch_ahead(at, TAGC_BYTES * tagc_dtype_size(dtype), false);
    fetch_ahead(record + part * TAGC_LOSSLESS_RECORD / PARTS, TAGC_LOSSLESS_RECORD / PARTS, true);
    if (dtype == TAGC_FLOAT32)
      fetch_ahead(lows + part * TAGC_BYTES, TAGC_BYTES * sizeof *lows, true);
    if (dtype == TAGC_FLOAT32)
      v64_split32(at, &exponents[part], &rest, lows + part * TAGC_BYTES);
    else
      v64_split16(at, &exponents[part], &rest);
    v64_store(record + TAGC_LOSSLESS_RESTS + part * TAGC_BYTES, rest);
    most = part ? v64_max(most, exponents[part]) : exponents[part];
  }
  const uint32_t m = v64_least_group(most), chosen = m + next_is_better(exponents, m);
  UNROLL_4_FOR (int part = 0; part < PARTS; part++) {
    uint64_t plane[3];
    uint8_t byte[TAGC_BYTES + 1];
    v64_store(byte, exponents[part]);
    byte[TAGC_BYTES] = 0;
    v64_planes(v64_codes(exponents[part], chosen), plane);
    for (int p = 0; p < 3; p++)
      memcpy(record + p * TAGC_LOSSLESS_PLANE + part * sizeof(uint64_t), &plane[p], sizeof(uint64_t));
    end = take_escapes(byte, plane, end);
  }
  *base = (uint8_t)chosen;
  return (uint32_t)(end - escaped);
}

static uint32_t allgather_lossless_to_record(const void *from, enum tagc_dtype dtype, uint8_t *record, uint8_t *base,
                                             uint16_t *lows, uint8_t *escaped) {
  if (dtype == TAGC_FLOAT32)
    return lossless_encode_typed(from, record, base, lows, escaped, TAGC_FLOAT32);
  return lossless_encode_typed(from, record, base, lows, escaped, TAGC_BFLOAT16);
}

/* Puts the escaped exponents in their places, like take_escapes(). Returns the end of those read. */
static ALWAYS_INLINE const uint8_t *put_escapes(uint8_t exponents[TAGC_BYTES + 1], const uint64_t plane[3],
                                                const uint8_t *end) {
  uint64_t left = plane[0] & plane[1] & plane[2];
  const uint8_t *const next = end + __builtin_popcountll(left);
  do
    UNROLL_4_FOR (int i = 0; i < TAGC_LOSSLESS_AT_ONCE; i++, left &= left - 1)
      exponents[first_bit(left)] = *end++;
  while (left);
  return next;
}

static TAGC_SPECIALISED int lossless_decode_typed(const uint8_t *record, uint8_t base, const uint16_t *lows,
                                                  const uint8_t *escaped, void *to, enum tagc_dtype dtype) {
  uint8_t exponents[PARTS][TAGC_BYTES + 1];
  UNROLL_4_FOR (int part = 0; part < PARTS; part++) {
    uint64_t plane[3];
    for (int p = 0; p < 3; p++)
      memcpy(&plane[p], record + p * TAGC_LOSSLESS_PLANE + part * sizeof(uint64_t), sizeof(uint64_t));
    v64_store(exponents[part], v64_exponents(base, plane));
    escaped = put_escapes(exponents[part], plane, escaped);
  }
  UNROLL_4_FOR (int part = 0; part < PARTS; part++) {
    void *at = (char *)to + (size_t)part * TAGC_BYTES * tagc_dtype_size(dtype);
    const uint8_t *rests = record + TAGC_LOSSLESS_RESTS + part * TAGC_BYTES;
    fetch_ahead(record + part * TAGC_LOSSLESS_RECORD / PARTS, TAGC_LOSSLESS_RECORD / PARTS, false);
    fetch_ahead(at, TAGC_BYTES * tagc_dtype_size(dtype), true);
    if (dtype == TAGC_FLOAT32) {
      fetch_ahead(lows + part * TAGC_BYTES, TAGC_BYTES * sizeof *lows, false);
      v64_join32(v64_load(exponents[part]), v64_load(rests), lows + part * TAGC_BYTES, at);
    } else {
      v64_join16(v64_load(exponents[part]), v64_load(rests), at);
    }
  }
  return 0;
}

static void allgather_lossless_from_record(const uint8_t *record, uint8_t base, const uint16_t *lows,
                                           const uint8_t *escaped, enum tagc_dtype dtype, void *to) {
  if (dtype == TAGC_FLOAT32)
    lossless_decode_typed(record, base, lows, escaped, to, TAGC_FLOAT32);
  else
    lossless_decode_typed(record, base, lows, escaped, to, TAGC_BFLOAT16);
}

/* -- delta --------------------------------------------------------------------------------------------------------- */

static TAGC_SPECIALISED uint32_t delta_differ_typed(const void *from, const void *reference, float *differences,
                                                    enum tagc_dtype dtype) {
  struct squares sum = {v16_all(0), v16_all(0)};
  struct v16i most = v16i_all(0), least = v16i_all(UINT32_MAX);
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    const void *at = tagc_element_of(from, i, dtype), *old = tagc_element_of(reference, i, dtype);
    __builtin_prefetch((const char *)at + PREFETCH_BYTES);
    __builtin_prefetch((const char *)old + PREFETCH_BYTES);
    const struct v16 value = v16_load_as(at, dtype), was = v16_load_as(old, dtype), difference = v16_sub(value, was);
    most = v16i_max(most, v16i_max(v16_magnitudes(value), v16_magnitudes(difference)));
    /* Subtracting one makes zeros the largest. */
    least = v16i_min(least, v16i_add(v16_magnitudes(difference), v16i_all(UINT32_MAX)));
    add_squares(&sum, value, was);
    v16_store(differences + i, difference);
  }
  return (v16i_least(least) < TAGC_LEAST_BITS - 1 ? (uint32_t)TAGC_DELTA_TINY : 0) |
         (v16i_largest(most) >= TAGC_DELTA_HUGE_BITS ? (uint32_t)TAGC_DELTA_UNFIT : 0) |
         (tagc_delta_far(v16_sum(sum.error), v16_sum(sum.value)) ? (uint32_t)TAGC_DELTA_FAR : 0);
}

static uint32_t delta_differ(const void *from, const void *reference, enum tagc_dtype dtype, float *differences) {
  return EACH_TYPE(dtype, delta_differ_typed, from, reference, differences);
}

static TAGC_SPECIALISED int delta_add_typed(const float *differences, void *reference, void *to,
                                            enum tagc_dtype dtype) {
  for (uint32_t i = 0; i < BLOCK; i += TAGC_LANES) {
    char *old = (char *)reference + i * tagc_dtype_size(dtype);
    __builtin_prefetch(old + PREFETCH_BYTES, 1);
    const struct v16 x = v16_one_nan(within(v16_add(v16_load_as(old, dtype), v16_load(differences + i)), dtype));
    v16_store_as(old, dtype, x);
    if (to)
      v16_store_as((char *)to + i * tagc_dtype_size(dtype), dtype, x);
  }
  return 0;
}

static void delta_add(const float *differences, enum tagc_dtype dtype, void *reference, void *to) {
  EACH_TYPE(dtype, delta_add_typed, differences, reference, to);
}

/* -- support ------------------------------------------------------------------------------------------------------- */

/* Bit i: has element i of 64 any bit? */
static ALWAYS_INLINE uint64_t find_nonzero(const void *from, enum tagc_dtype dtype) {
  uint8_t flag[TAGC_BYTES];
  if (dtype == TAGC_FLOAT32)
    for (int i = 0; i < TAGC_BYTES; i++)
      flag[i] = ((const uint32_t *)from)[i] != 0;
  else
    for (int i = 0; i < TAGC_BYTES; i++)
      flag[i] = ((const uint16_t *)from)[i] != 0;
  return v64_above(v64_load(flag), 0);
}

static ALWAYS_INLINE void copy_element(void *to, uint32_t at, const void *from, uint32_t of, enum tagc_dtype dtype) {
  if (dtype == TAGC_FLOAT32)
    ((uint32_t *)to)[at] = ((const uint32_t *)from)[of];
  else
    ((uint16_t *)to)[at] = ((const uint16_t *)from)[of];
}

static TAGC_SPECIALISED uint32_t support_encode_typed(const void *from, void *values, uint8_t *index, uint8_t *kind,
                                                      enum tagc_dtype dtype) {
  uint64_t mask[PARTS];
  uint32_t count = 0, done = 0;
  fetch_ahead(from, BLOCK * tagc_dtype_size(dtype), false);
  for (uint32_t part = 0; part < PARTS; part++) {
    mask[part] = find_nonzero((const char *)from + part * TAGC_BYTES * tagc_dtype_size(dtype), dtype);
    count += (uint32_t)__builtin_popcountll(mask[part]);
  }
  *kind = tagc_support_kind(count);
  if (*kind == TAGC_SUPPORT_BITMAP)
    memcpy(index, mask, sizeof mask);
  if (*kind == TAGC_SUPPORT_WHOLE) {
    memcpy(values, from, BLOCK * tagc_dtype_size(dtype));
    return count;
  }
  for (uint32_t part = 0; part < PARTS; part++)
    for (uint64_t left = mask[part]; left; left &= left - 1, done++) {
      const uint32_t at = part * TAGC_BYTES + (uint32_t)__builtin_ctzll(left);
      if (count < TAGC_SUPPORT_BITMAP)
        index[done] = (uint8_t)at;
      copy_element(values, done, from, at, dtype);
    }
  return count;
}

static uint32_t support_encode_block(const void *from, enum tagc_dtype dtype, void *values, uint8_t *index,
                                     uint8_t *kind) {
  return EACH_TYPE(dtype, support_encode_typed, from, values, index, kind);
}

static TAGC_SPECIALISED int support_decode_typed(uint8_t kind, const uint8_t *index, const void *values, void *to,
                                                 enum tagc_dtype dtype) {
  uint64_t mask[PARTS];
  uint32_t done = 0;
  fetch_ahead(to, BLOCK * tagc_dtype_size(dtype), true);
  if (kind >= TAGC_SUPPORT_WHOLE) {
    memcpy(to, values, BLOCK * tagc_dtype_size(dtype));
    return 0;
  }
  memset(to, 0, BLOCK * tagc_dtype_size(dtype));
  if (kind < TAGC_SUPPORT_BITMAP) {
    for (; done < kind; done++)
      copy_element(to, index[done], values, done, dtype);
    return 0;
  }
  memcpy(mask, index, sizeof mask);
  for (uint32_t part = 0; part < PARTS; part++)
    for (uint64_t left = mask[part]; left; left &= left - 1, done++)
      copy_element(to, part * TAGC_BYTES + (uint32_t)__builtin_ctzll(left), values, done, dtype);
  return 0;
}

static void support_decode_block(uint8_t kind, const uint8_t *index, const void *values, enum tagc_dtype dtype,
                                 void *to) {
  EACH_TYPE(dtype, support_decode_typed, kind, index, values, to);
}

const struct tagc_allgather_kernels TAGC_SIMD_TABLE(tagc_allgather) = {
  .bf16_encode = allgather_bf16_to_codes,
  .bf16_decode = allgather_bf16_from_codes,
  .q8_encode = allgather_q8_to_codes,
  .q8_decode = allgather_q8_from_codes,
  .lossless_encode = allgather_lossless_to_record,
  .lossless_decode = allgather_lossless_from_record,
  .delta_differ = delta_differ,
  .delta_add = delta_add,
  .compare = add_norms_of,
  .support_encode = support_encode_block,
  .support_decode = support_decode_block,
};
