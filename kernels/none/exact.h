/* SPDX-License-Identifier: BSD-3-Clause
 * Exact sums of floats: a whole number of 384 bits, in units of 2^-151, divided and rounded once.
 *
 * Range    A float is a multiple of 2^-149 and less than 2^128. So 2^24 of them fit: 2 + 277 + 24 bits and a sign.
 * Order    Integers have no order: sums have the same bits whatever the order of the values.
 * Specials A NaN, or infinities of both signs, give TAGC_NAN_BITS; infinities of one sign give that infinity. A sum of
 *          exactly zero is +0. A result that rounds to zero keeps its sign.
 * Threads  Pure functions, on the host and on a GPU. Failure: none.
 */
#ifndef KERNELS_NONE_EXACT_H
#define KERNELS_NONE_EXACT_H

#include <stdbool.h>

#include "kernels/codec/bits.h"

enum { TAGC_EXACT_WORDS = 12, TAGC_EXACT_UNIT = -151, TAGC_EXACT_DIVISOR = 1 << 24 };

struct tagc_exact {
  uint32_t word[TAGC_EXACT_WORDS]; /* two's complement, the lowest first */
  bool nan, infinity[2];           /* met so far; positive and negative */
};

/* Bits of a type's mantissa (the hidden one included), its lowest exponent of a bit, and its infinity. */
static inline TAGC_HD int tagc_exact_mantissa(enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? 24 : dtype == TAGC_FLOAT16 ? 11 : 8;
}

static inline TAGC_HD int tagc_exact_lowest(enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? -149 : dtype == TAGC_FLOAT16 ? -24 : -133;
}

static inline TAGC_HD uint32_t tagc_exact_infinity(enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? 0x7f800000u : dtype == TAGC_FLOAT16 ? 0x7c00u : 0x7f80u;
}

static inline TAGC_HD uint32_t tagc_exact_nan(enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? TAGC_NAN_BITS : dtype == TAGC_FLOAT16 ? 0x7e00u : TAGC_NAN_BITS >> 16;
}

/* True if these bits of the type are an infinity or a NaN. */
static inline TAGC_HD bool tagc_exact_is_nonfinite(uint32_t bits, enum tagc_dtype dtype) {
  return (bits & tagc_exact_infinity(dtype)) == tagc_exact_infinity(dtype);
}

/* -- sums in fp64 -------------------------------------------------------------------------------------------------- */

/* The bits of a double below the 24 highest ones of its mantissa, or the 26 highest ones for fp32. */
static inline TAGC_HD uint64_t tagc_exact_below(enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? 0x07ffffffu : 0x1fffffffu;
}

/* The exponents of an element's values other than 0 may differ by this, in place as in a float, if `count` of them are
 * added in so many bits; 0: no sum is safe. */
static inline TAGC_HD uint32_t tagc_exact_span_in(int bits, uint64_t count, enum tagc_dtype dtype) {
  int range = bits - tagc_exact_mantissa(dtype);
  for (uint64_t some = 1; some < count; some *= 2)
    range--;
  return range > 0 ? (uint32_t)range << 23 : 0;
}

/* The same in fp64. */
static inline TAGC_HD uint32_t tagc_exact_span(uint32_t nranks, enum tagc_dtype dtype) {
  return tagc_exact_span_in(53, nranks, dtype);
}

struct tagc_exact_quotient {
  bool none, power; /* the divisor is 1, or another power of two */
  double divisor;
};

static inline TAGC_HD struct tagc_exact_quotient tagc_exact_quotient_of(uint32_t divisor) {
  struct tagc_exact_quotient by;
  by.none = divisor == 1;
  by.power = (divisor & (divisor - 1)) == 0;
  by.divisor = (double)divisor;
  return by;
}

/* -- sums in integers ---------------------------------------------------------------------------------------------- */

static inline TAGC_HD void tagc_exact_add(struct tagc_exact *sum, float x) {
  const uint32_t bits = tagc_bits_of(x), field = bits >> 23 & 255, negative = bits >> 31;
  uint64_t mantissa = bits & 0x7fffffu;
  if (field == 255) {
    sum->nan |= mantissa != 0;
    sum->infinity[negative] |= mantissa == 0;
    return;
  }
  mantissa |= field ? 0x800000u : 0;
  const uint32_t shift = (field ? field - 1 : 0) + 2;
  const uint64_t part = mantissa << shift % 32;
  int64_t carry = 0;
  for (uint32_t w = shift / 32, k = 0; w < TAGC_EXACT_WORDS; w++, k++) {
    const int64_t digit = k == 0 ? (int64_t)(part & 0xffffffffu) : k == 1 ? (int64_t)(part >> 32) : 0;
    if (k > 1 && carry == 0)
      break;
    carry += (int64_t)sum->word[w] + (negative ? -digit : digit);
    sum->word[w] = (uint32_t)carry;
    carry >>= 32;
  }
}

/* The bits of the sum divided by a whole number up to TAGC_EXACT_DIVISOR, rounded to the type: to nearest, ties to
 * even. Overwrites the sum. */
static inline TAGC_HD uint32_t tagc_exact_round(struct tagc_exact *sum, uint32_t divisor, enum tagc_dtype dtype) {
  const uint32_t negative = sum->word[TAGC_EXACT_WORDS - 1] >> 31;
  const int mantissa = tagc_exact_mantissa(dtype), lowest = tagc_exact_lowest(dtype);
  const uint32_t infinity = tagc_exact_infinity(dtype);
  const uint32_t sign_bit = dtype == TAGC_FLOAT32 ? 0x80000000u : 0x8000u;
  if (sum->nan || (sum->infinity[0] && sum->infinity[1]))
    return tagc_exact_nan(dtype);
  if (sum->infinity[0] || sum->infinity[1])
    return infinity | (sum->infinity[1] ? sign_bit : 0);
  int highest = -1; /* bit of the quotient */
  uint64_t carry = negative, rest = 0;
  for (int w = 0; w < TAGC_EXACT_WORDS && negative; w++) {
    carry += ~sum->word[w];
    sum->word[w] = (uint32_t)carry;
    carry >>= 32;
  }
  for (int w = TAGC_EXACT_WORDS - 1; w >= 0; w--) {
    rest = rest << 32 | sum->word[w];
    sum->word[w] = (uint32_t)(rest / divisor);
    rest %= divisor;
    if (highest < 0 && sum->word[w])
      for (highest = 32 * w + 31; !(sum->word[w] >> highest % 32 & 1);)
        highest--;
  }
  if (highest < 0 && rest == 0)
    return 0;
  /* The lowest bit that is kept: at least two lie below it. */
  int last = highest + TAGC_EXACT_UNIT - mantissa + 1;
  last = last < lowest ? lowest : last;
  const int cut = last - TAGC_EXACT_UNIT, half = cut - 1;
  uint64_t kept = sum->word[cut / 32];
  kept = (kept | (cut / 32 + 1 < TAGC_EXACT_WORDS ? (uint64_t)sum->word[cut / 32 + 1] << 32 : 0)) >> cut % 32;
  kept &= ((uint64_t)1 << mantissa) - 1;
  bool more = rest != 0 || (sum->word[half / 32] & ((1u << half % 32) - 1)) != 0;
  for (int w = 0; w < half / 32; w++)
    more |= sum->word[w] != 0;
  if ((sum->word[half / 32] >> half % 32 & 1) && (more || (kept & 1)))
    kept++;
  /* The hidden bit, and a carry into it, add one to the exponent. */
  const int steps = last - lowest;
  const uint64_t bits = ((uint64_t)steps << (mantissa - 1)) + kept;
  return (uint32_t)(bits < infinity ? bits : infinity) | (negative ? sign_bit : 0);
}

#endif
