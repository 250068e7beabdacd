/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of 64 bytes: what bytes_plain.h, bytes_avx2.h and bytes_avx512.h have in common, as vector.h has it for
 * numbers. For the codec lossless: bf16, or the upper halves of fp32, are taken apart into exponents and the rest.
 *
 * Types   struct v64    64 bytes, unsigned
 * bytes_plain.h says what each operation does. Pointers need the alignment of their elements only.
 */
#ifndef KERNELS_SIMD_BYTES_H
#define KERNELS_SIMD_BYTES_H

#include "kernels/codec/lossless.h"
#include "kernels/simd/vector.h"

enum { TAGC_BYTES = 64 };

#endif
