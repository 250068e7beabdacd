/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of sparsification in plain C. See sparsify_kernels.inc.c.
 */
#include "kernels/sparse/sparsify_vector_plain.h"

#define TAGC_SPARSIFY_VARIANT tagc_sparsify_plain
#include "kernels/sparse/sparsify_kernels.inc.c"
