/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of lists of values by block for x86-64 with AVX2 and F16C. See kernels.inc.c.
 */
#include "kernels/sparse/sparsify_vector_avx2.h"

#define TAGC_SPARSE_VARIANT tagc_sparse_avx2
#include "kernels/sparse/kernels.inc.c"
