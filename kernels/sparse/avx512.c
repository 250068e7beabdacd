/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of lists of values by block for x86-64 with AVX-512 (F, BW, DQ, VL). See kernels.inc.c.
 */
#include "kernels/sparse/sparsify_vector_avx512.h"

#define TAGC_SPARSE_VARIANT tagc_sparse_avx512
#include "kernels/sparse/kernels.inc.c"
