/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen numbers for any processor, with the vectors of gcc and clang: the reference for each operation.
 */
#ifndef KERNELS_SIMD_VECTOR_PLAIN_H
#define KERNELS_SIMD_VECTOR_PLAIN_H

#include <string.h>

#include "kernels/simd/vector.h"

typedef float lanes_float __attribute__((vector_size(64)));
typedef uint32_t lanes_uint __attribute__((vector_size(64)));
typedef int32_t lanes_int __attribute__((vector_size(64)));
typedef uint16_t lanes_half __attribute__((vector_size(32)));
typedef uint8_t lanes_byte __attribute__((vector_size(16)));
typedef int8_t lanes_signed_byte __attribute__((vector_size(16)));

struct v16 {
  lanes_float v;
};
struct v16i {
  lanes_uint v;
};
struct v16m {
  lanes_int v;
}; /* -1 or 0 */

#define V16(x) ((struct v16){x})
#define V16I(x) ((struct v16i){x})

/* -- memory -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16 v16_load(const float *from) {
  struct v16 out;
  memcpy(&out, from, sizeof out);
  return out;
}

TAGC_OPERATION void v16_store(float *to, struct v16 x) { memcpy(to, &x, sizeof x); }

TAGC_OPERATION struct v16i v16i_load(const void *from) {
  struct v16i out;
  memcpy(&out, from, sizeof out);
  return out;
}

TAGC_OPERATION void v16i_store(void *to, struct v16i x) { memcpy(to, &x, sizeof x); }

/* Unsigned 16-bit numbers; stored numbers are below 2^16. */
TAGC_OPERATION struct v16i v16i_load_halves(const uint16_t *from) {
  lanes_half halves;
  memcpy(&halves, from, sizeof halves);
  return V16I(__builtin_convertvector(halves, lanes_uint));
}

TAGC_OPERATION void v16i_store_halves(uint16_t *to, struct v16i x) {
  lanes_half halves = __builtin_convertvector(x.v, lanes_half);
  memcpy(to, &halves, sizeof halves);
}

/* Loops outside of the inlined operations: with sanitizers these would take minutes to compile. */
static inline void v16_load_fp16(const uint16_t *from, float lane[TAGC_LANES]) {
  for (int t = 0; t < TAGC_LANES; t++)
    lane[t] = tagc_from_fp16(from[t]);
}

static inline void v16_store_fp16(uint16_t *to, const float lane[TAGC_LANES]) {
  for (int t = 0; t < TAGC_LANES; t++)
    to[t] = tagc_to_fp16(lane[t]);
}

static inline void v16_pick8_of(const uint32_t index[TAGC_LANES], const float eight[8], float lane[TAGC_LANES]) {
  for (int t = 0; t < TAGC_LANES; t++)
    lane[t] = eight[index[t] & 7];
}

static inline void v16_butterflies_of(float lane[TAGC_LANES]) {
  for (int stride = 1; stride < TAGC_LANES; stride *= 2)
    for (int t = 0; t < TAGC_LANES; t++) {
      float a = lane[t], b = lane[t ^ stride];
      if (t & stride)
        continue;
      lane[t] = a + b;
      lane[t + stride] = a - b;
    }
}

/* Sixteen elements of a type. */
TAGC_OPERATION struct v16 v16_load_as(const void *from, enum tagc_dtype dtype) {
  if (dtype == TAGC_FLOAT32)
    return v16_load(from);
  if (dtype == TAGC_FLOAT16) {
    float lane[TAGC_LANES];
    v16_load_fp16(from, lane);
    return v16_load(lane);
  }
  return V16((lanes_float)(v16i_load_halves(from).v << 16));
}

/* Rounds to a type. A NaN must be TAGC_NAN_BITS. */
TAGC_OPERATION void v16_store_as(void *to, enum tagc_dtype dtype, struct v16 x) {
  const lanes_uint bits = (lanes_uint)x.v;
  if (dtype == TAGC_FLOAT32) {
    v16_store(to, x);
  } else if (dtype == TAGC_BFLOAT16) {
    v16i_store_halves(to, V16I((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  } else {
    float lane[TAGC_LANES];
    v16_store(lane, x);
    v16_store_fp16(to, lane);
  }
}

/* Loads signed bytes; stores the lowest eight bits. */
TAGC_OPERATION struct v16i v16i_load_bytes(const uint8_t *from) {
  lanes_signed_byte bytes;
  memcpy(&bytes, from, sizeof bytes);
  return V16I((lanes_uint) __builtin_convertvector(bytes, lanes_int));
}

TAGC_OPERATION void v16i_store_bytes(uint8_t *to, struct v16i x) {
  lanes_byte bytes = __builtin_convertvector(x.v, lanes_byte);
  memcpy(to, &bytes, sizeof bytes);
}

/* -- truths -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16m v16_greater(struct v16 a, struct v16 b) { return (struct v16m){a.v > b.v}; }

TAGC_OPERATION struct v16 v16_select(struct v16m m, struct v16 yes, struct v16 no) {
  return V16((lanes_float)(((lanes_int)yes.v & m.v) | ((lanes_int)no.v & ~m.v)));
}

TAGC_OPERATION uint32_t v16m_count(struct v16m m) {
  int32_t count = 0;
  for (int t = 0; t < TAGC_LANES; t++)
    count -= m.v[t];
  return (uint32_t)count;
}

/* -- floats -------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16 v16_all(float x) { return V16(x - (lanes_float){0}); }
TAGC_OPERATION struct v16 v16_add(struct v16 a, struct v16 b) { return V16(a.v + b.v); }
TAGC_OPERATION struct v16 v16_sub(struct v16 a, struct v16 b) { return V16(a.v - b.v); }
TAGC_OPERATION struct v16 v16_mul(struct v16 a, struct v16 b) { return V16(a.v * b.v); }
TAGC_OPERATION struct v16 v16_div(struct v16 a, struct v16 b) { return V16(a.v / b.v); }

/* A tree, lane t += lane t + 8, then 4, 2, 1: the order is part of formats, and decides refusals. */
TAGC_OPERATION float v16_sum(struct v16 x) {
  float lane[TAGC_LANES];
  v16_store(lane, x);
  for (int some = TAGC_LANES / 2; some > 0; some /= 2)
    for (int t = 0; t < some; t++)
      lane[t] += lane[t + some];
  return lane[0];
}

/* Clamps to +-limit; x has no NaN. */
TAGC_OPERATION struct v16 v16_clamp(struct v16 x, float limit) {
  const struct v16 most = v16_all(limit), least = v16_all(-limit);
  x = v16_select(v16_greater(x, most), most, x);
  return v16_select(v16_greater(least, x), least, x);
}

/* Replaces every NaN by the one. Without comparisons, which gcc makes one lane at a time if vectors are wider than the
 * processor's: the difference is negative for a NaN alone. */
TAGC_OPERATION struct v16 v16_one_nan(struct v16 x) {
  const lanes_int nan = (0x7f800000 - ((lanes_int)x.v & 0x7fffffff)) >> 31;
  return v16_select((struct v16m){nan}, v16_all(tagc_float_of(TAGC_NAN_BITS)), x);
}

/* Turns the sign of lane t if bit t is 1. */
TAGC_OPERATION struct v16 v16_turn_signs(struct v16 x, uint32_t bits) {
  const lanes_uint up = {31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16};
  const lanes_uint sign = (bits | (lanes_uint){0}) << up & 0x80000000u;
  return V16((lanes_float)((lanes_uint)x.v ^ sign));
}

/* Hadamard butterflies of strides 1, 2, 4, 8 in this order: (a, b) -> (a + b, a - b). */
TAGC_OPERATION struct v16 v16_butterflies(struct v16 x) {
  float lane[TAGC_LANES];
  v16_store(lane, x);
  v16_butterflies_of(lane);
  return v16_load(lane);
}

/* -- integers ------------------------------------------------------------------------------------------------------ */

TAGC_OPERATION struct v16i v16i_all(uint32_t x) { return V16I(x | (lanes_uint){0}); }
TAGC_OPERATION struct v16i v16i_add(struct v16i a, struct v16i b) { return V16I(a.v + b.v); }
/* Adds one where `m` is true; keeps numbers there, and makes zeros of the others. */
TAGC_OPERATION struct v16i v16i_add_truth(struct v16i a, struct v16m m) { return V16I(a.v - (lanes_uint)m.v); }
TAGC_OPERATION struct v16i v16i_keep(struct v16i a, struct v16m m) { return V16I(a.v & (lanes_uint)m.v); }
TAGC_OPERATION struct v16i v16i_and(struct v16i a, struct v16i b) { return V16I(a.v & b.v); }
TAGC_OPERATION struct v16i v16i_or(struct v16i a, struct v16i b) { return V16I(a.v | b.v); }
TAGC_OPERATION struct v16i v16i_left(struct v16i a, int by) { return V16I(a.v << by); }
TAGC_OPERATION struct v16i v16i_right(struct v16i a, int by) { return V16I(a.v >> by); }

/* Is a < b? The borrow of a - b, without comparisons, as in v16_one_nan(). */
TAGC_OPERATION lanes_uint less_than(lanes_uint a, lanes_uint b) {
  return (lanes_uint)((lanes_int)((~a & b) | ((~a | b) & (a - b))) >> 31);
}

/* Unsigned, like v16i_largest() and v16i_least(). */
TAGC_OPERATION struct v16i v16i_max(struct v16i a, struct v16i b) {
  const lanes_uint m = less_than(b.v, a.v);
  return V16I((a.v & m) | (b.v & ~m));
}

TAGC_OPERATION struct v16i v16i_min(struct v16i a, struct v16i b) {
  const lanes_uint m = less_than(a.v, b.v);
  return V16I((a.v & m) | (b.v & ~m));
}

/* Is some number above the other one of its lane? */
TAGC_OPERATION bool v16i_any_above(struct v16i a, struct v16i b) {
  const lanes_uint above = less_than(b.v, a.v);
  uint32_t any = 0;
  for (int t = 0; t < TAGC_LANES; t++)
    any |= above[t];
  return any != 0;
}

TAGC_OPERATION uint32_t v16i_largest(struct v16i a) {
  uint32_t most = 0;
  for (int t = 0; t < TAGC_LANES; t++)
    most = a.v[t] > most ? a.v[t] : most;
  return most;
}

TAGC_OPERATION uint32_t v16i_least(struct v16i a) {
  uint32_t least = UINT32_MAX;
  for (int t = 0; t < TAGC_LANES; t++)
    least = a.v[t] < least ? a.v[t] : least;
  return least;
}

/* -- between them -------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16i v16_bits(struct v16 x) { return V16I((lanes_uint)x.v); }
TAGC_OPERATION struct v16 v16_from_bits(struct v16i x) { return V16((lanes_float)x.v); }

/* For whole numbers below 2^31 in magnitude. */
TAGC_OPERATION struct v16i v16_to_int(struct v16 x) {
  return V16I((lanes_uint) __builtin_convertvector(x.v, lanes_int));
}

TAGC_OPERATION struct v16 v16i_to_float(struct v16i x) {
  return V16(__builtin_convertvector((lanes_int)x.v, lanes_float));
}

/* The two's complement numbers in the lower and the upper halves of sixteen bytes, each times its factor. */
TAGC_OPERATION void v16_nibbles(const uint8_t *from, const float factor[2], struct v16 *lower, struct v16 *upper) {
  const lanes_uint bytes = v16i_load_bytes(from).v;
  *lower = v16_mul(v16i_to_float(V16I(((bytes & 15) ^ 8) - 8)), v16_all(factor[0]));
  *upper = v16_mul(v16i_to_float(V16I(((bytes >> 4 & 15) ^ 8) - 8)), v16_all(factor[1]));
}

/* Picks one of four by the lowest two bits. */
TAGC_OPERATION struct v16 v16_pick(struct v16i index, const float four[4]) {
  const struct v16m odd = {(index.v & 1) != 0}, upper = {(index.v & 2) != 0};
  struct v16 low = v16_select(odd, v16_all(four[1]), v16_all(four[0]));
  return v16_select(upper, v16_select(odd, v16_all(four[3]), v16_all(four[2])), low);
}

/* Picks one of eight by the lowest three bits. */
TAGC_OPERATION struct v16 v16_pick8(struct v16i index, const float eight[8]) {
  uint32_t indices[TAGC_LANES];
  float lane[TAGC_LANES];
  v16i_store(indices, index);
  v16_pick8_of(indices, eight, lane);
  return v16_load(lane);
}

#undef V16
#undef V16I
#endif
