/* SPDX-License-Identifier: BSD-3-Clause
 * The all-gather codec lossless for vectors of bytes: a value's upper half is an exponent and the rest. See
 * allgather/lossless.c for the whole.
 *
 * Threads    Pure functions. Failure: none.
 */
#ifndef KERNELS_CODEC_LOSSLESS_H
#define KERNELS_CODEC_LOSSLESS_H

#include "kernels/codec/bits.h"

enum {
  TAGC_LOSSLESS_ESCAPE = 7, /* the code of an exponent that is stored apart */
  TAGC_LOSSLESS_GROUPS = 8,
};

/* `half`: a bf16, or the upper half of an fp32. */
static inline TAGC_HD uint32_t tagc_lossless_exponent(uint32_t half) { return half >> 7 & 0xff; }
static inline TAGC_HD uint32_t tagc_lossless_rest(uint32_t half) { return (half >> 8 & 0x80) | (half & 0x7f); }

static inline TAGC_HD uint32_t tagc_lossless_half(uint32_t exponent, uint32_t rest) {
  return (rest & 0x80) << 8 | (exponent & 0xff) << 7 | (rest & 0x7f);
}

/* The distance of an exponent below the base, modulo 256: decoding is right wherever the base lies. */
static inline TAGC_HD uint32_t tagc_lossless_code(uint32_t exponent, uint32_t base) {
  const uint32_t below = (base - exponent) & 0xff;
  return below < TAGC_LOSSLESS_ESCAPE ? below : (uint32_t)TAGC_LOSSLESS_ESCAPE;
}

#endif
