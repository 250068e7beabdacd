/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of sparsification for x86-64 with AVX2 and F16C. See sparsify_kernels.inc.c.
 */
#include "kernels/sparse/sparsify_vector_avx2.h"

#define TAGC_SPARSIFY_VARIANT tagc_sparsify_avx2
#include "kernels/sparse/sparsify_kernels.inc.c"
