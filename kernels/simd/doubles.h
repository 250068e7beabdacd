/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen doubles: the common part of doubles_plain.h, doubles_avx2.h and doubles_avx512.h, as vector.h is
 * for floats. For sums that must be exact.
 *
 * Types   struct v16d    sixteen doubles
 * doubles_plain.h explains each operation. The values are finite, and zero or normal.
 */
#ifndef KERNELS_SIMD_DOUBLES_H
#define KERNELS_SIMD_DOUBLES_H

#include "kernels/simd/vector.h"

#endif
