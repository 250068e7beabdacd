/* SPDX-License-Identifier: BSD-3-Clause
 * A block of the residual in each storage, and as fp32: the hot functions, compiled once per instruction set. The same
 * bits from each. See residual.h for the layouts.
 *
 * Threads  Pure functions of what they are given.
 */
#ifndef KERNELS_RESIDUAL_BLOCKS_H
#define KERNELS_RESIDUAL_BLOCKS_H

#include "kernels/residual.h"

/* Where a whole block of TAGC_RESIDUAL_BLOCK values is kept, or goes. */
struct tagc_residual_place {
  void *values;                    /* of the storage's width */
  uint16_t *scale;                 /* int8 only: bf16 */
};

struct tagc_residual_blocks {
  void (*load)(struct tagc_residual_place from, float *out);
  /* `noise` keys the rounding of this block. Returns the squared norm of what is stored. */
  double (*store)(struct tagc_residual_place to, const float *values, uint64_t noise);
};

/* By storage; TAGC_STORAGE_NONE has none. */
enum { TAGC_RESIDUAL_STORAGES = TAGC_STORAGE_INT8 + 1 };
extern const struct tagc_residual_blocks tagc_residual_plain[TAGC_RESIDUAL_STORAGES];
extern const struct tagc_residual_blocks tagc_residual_avx2[TAGC_RESIDUAL_STORAGES];
extern const struct tagc_residual_blocks tagc_residual_avx512[TAGC_RESIDUAL_STORAGES];

#endif
