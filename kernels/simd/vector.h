/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen numbers: the common part of vector_plain.h, vector_avx2.h and vector_avx512.h. Code that includes
 * one of them is written once and compiled once per instruction set (variant.h). Every operation rounds as IEEE 754
 * requires, so all of them give the same bits.
 *
 * Types   struct v16    sixteen floats
 *         struct v16i   sixteen 32-bit integers; the operation decides about signs
 *         struct v16m   sixteen truth values
 * vector_plain.h explains each operation. Pointers need the alignment of their elements only.
 */
#ifndef KERNELS_SIMD_VECTOR_H
#define KERNELS_SIMD_VECTOR_H

#include "kernels/codec/bits.h"

enum { TAGC_LANES = 16 };

/* Operations are inlined: their settings are constants there. */
#define TAGC_OPERATION static inline __attribute__((always_inline))

#endif
