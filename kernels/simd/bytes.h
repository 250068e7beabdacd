/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of 64 bytes: the common part of bytes_plain.h, bytes_avx2.h and bytes_avx512.h, as vector.h is for numbers.
 * For the codec lossless, which splits bf16, or the upper halves of fp32, into exponents and the rest; and for exact.
 *
 * Types   struct v64    64 bytes, unsigned
 * bytes_plain.h explains each operation. Pointers need the alignment of their elements only.
 */
#ifndef KERNELS_SIMD_BYTES_H
#define KERNELS_SIMD_BYTES_H

#include "kernels/codec/lossless.h"
#include "kernels/simd/vector.h"

enum { TAGC_BYTES = 64 };

#endif
