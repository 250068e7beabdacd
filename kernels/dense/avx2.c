/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the dense codecs for x86-64 with AVX2 and F16C. See kernels.inc.c.
 */
#include "kernels/simd/vector_avx2.h"

#define TAGC_DENSE_VARIANT tagc_dense_avx2
#include "kernels/dense/kernels.inc.c"
