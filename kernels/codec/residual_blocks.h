/* SPDX-License-Identifier: BSD-3-Clause
 * A block of the residual in each storage, and as fp32: the hot functions, compiled once per instruction set, with the
 * same bits from each. See residual.h for the layouts.
 *
 * Threads  Pure functions of their arguments.
 */
#ifndef KERNELS_CODEC_RESIDUAL_BLOCKS_H
#define KERNELS_CODEC_RESIDUAL_BLOCKS_H

#include "kernels/codec/bits.h"
#include "kernels/codec/residual.h"

/* -- one value, shared by the host and GPU kernels; `chance`: its 16 random bits ----------------------------------- */

/* The bits, as fp32, of a finite value rounded to bf16. */
static inline TAGC_HD uint32_t tagc_kept_bf16(float value, uint32_t chance) {
  return (tagc_bits_of(value) + chance) & 0xffff0000u;
}

/* The int8 code of a value, in units of its block's scale. */
static inline TAGC_HD int32_t tagc_kept_int8(float value, float inverse, uint32_t chance) {
  /* The dither is between -1/2 and 1/2. TAGC_NEAREST (1.5 * 2^23) leaves the nearest integer in the mantissa. */
  float dither = (float)(2 * (int32_t)chance + 1 - 65536) * 0x1p-17f;
  int32_t code = (int32_t)(tagc_bits_of(value * inverse + dither + TAGC_NEAREST) - 0x4b400000u);
  return code > 127 ? 127 : code < -127 ? -127 : code;
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */

/* The place in memory of a whole block of TAGC_RESIDUAL_BLOCK values. */
struct tagc_residual_place {
  void *values;    /* of the storage's width */
  uint16_t *scale; /* int8 only: bf16 */
};

struct tagc_residual_blocks {
  void (*load)(struct tagc_residual_place from, float *out);
  /* `noise` keys the rounding of this block. Returns the squared norm of the stored values. */
  double (*store)(struct tagc_residual_place to, const float *values, uint64_t noise);
};

/* Indexed by storage; the entry of TAGC_STORAGE_NONE is empty. */
enum { TAGC_RESIDUAL_STORAGES = TAGC_STORAGE_INT8 + 1 };
extern const struct tagc_residual_blocks tagc_residual_plain[TAGC_RESIDUAL_STORAGES];
extern const struct tagc_residual_blocks tagc_residual_avx2[TAGC_RESIDUAL_STORAGES];
extern const struct tagc_residual_blocks tagc_residual_avx512[TAGC_RESIDUAL_STORAGES];

#endif
