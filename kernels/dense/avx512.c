/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the dense codecs for x86-64 with AVX-512 (F, BW, DQ, VL). See kernels.inc.c.
 */
#include "kernels/simd/vector_avx512.h"

#define TAGC_DENSE_VARIANT tagc_dense_avx512
#include "kernels/dense/kernels.inc.c"
