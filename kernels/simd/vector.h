/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen numbers: what vector_plain.h, vector_avx2.h and vector_avx512.h have in common. Code that includes
 * one of them is written once and compiled once per instruction set (variant.h); every operation rounds as IEEE 754
 * says, so all of them give the same bits.
 *
 * Types   struct v16    sixteen floats
 *         struct v16i   sixteen 32-bit integers; signs are a matter of the operation
 *         struct v16m   sixteen truths
 * vector_plain.h says what each operation does. Pointers need the alignment of their elements only.
 */
#ifndef KERNELS_SIMD_VECTOR_H
#define KERNELS_SIMD_VECTOR_H

#include "kernels/codec/bits.h"

enum { TAGC_LANES = 16 };

/* Operations are expanded where they stand: their settings are constants there. */
#define TAGC_OPERATION static inline __attribute__((always_inline))

#endif
