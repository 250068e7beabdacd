/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of sparsification for x86-64 with AVX-512 (F, BW, DQ, VL). See sparsify_kernels.inc.c.
 */
#include "kernels/sparse/sparsify_vector_avx512.h"

#define TAGC_SPARSIFY_VARIANT tagc_sparsify_avx512
#include "kernels/sparse/sparsify_kernels.inc.c"
