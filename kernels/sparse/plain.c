/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of lists of values by block in plain C. See kernels.inc.c.
 */
#include "kernels/sparse/sparsify_vector_plain.h"

#define TAGC_SPARSE_VARIANT tagc_sparse_plain
#include "kernels/sparse/kernels.inc.c"
