/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of lists of values by block in plain C. See sparse_kernels.inc.c.
 */
#include "kernels/sparsify_vector_plain.h"

#define TAGC_SPARSE_VARIANT tagc_sparse_plain
#include "kernels/sparse_kernels.inc.c"
