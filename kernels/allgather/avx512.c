/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codecs for all-gathers for x86-64 with AVX-512 (F, BW, DQ, VL). See kernels.inc.c.
 */
#include "kernels/simd/bytes_avx512.h"
#include "kernels/simd/vector_avx512.h"

#define TAGC_ALLGATHER_VARIANT tagc_allgather_avx512
#include "kernels/allgather/kernels.inc.c"
