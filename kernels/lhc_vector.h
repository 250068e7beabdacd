/* SPDX-License-Identifier: BSD-3-Clause
 * What the vector steps of lhc_kernels.inc.c have in common. Included by lhc_vector_plain.h, _avx2.h and _avx512.h.
 */
#ifndef KERNELS_LHC_VECTOR_H
#define KERNELS_LHC_VECTOR_H

#include "kernels/lhc.h"

/* How scale*g + e is read; constant where a step is expanded. */
struct tagc_lhc_input {
  enum tagc_dtype dtype;
  bool residual_empty;
  float scale;
};

/* How a result is written. */
struct tagc_lhc_result {
  enum tagc_dtype dtype;
  bool by_inverse;                 /* divisor is the inverse of a power of two: multiply */
  bool streaming;                  /* past the caches: recv is aligned to 64 bytes, and large */
  float scale, divisor;
};

/* Vector steps are expanded where they stand: their settings are constants there. */
#define STEP static inline __attribute__((always_inline))

static inline uint32_t tagc_lhc_degree(uint64_t cell) { return (uint32_t)cell >> 24; }

#endif
