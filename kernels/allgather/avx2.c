/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codecs for all-gathers for x86-64 with AVX2 and F16C. See kernels.inc.c.
 */
#include "kernels/simd/bytes_avx2.h"
#include "kernels/simd/vector_avx2.h"

#define TAGC_ALLGATHER_VARIANT tagc_allgather_avx2
#include "kernels/allgather/kernels.inc.c"
