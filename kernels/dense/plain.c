/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the dense codecs in C, for any processor. See kernels.inc.c.
 */
#include "kernels/simd/vector_plain.h"

#define TAGC_DENSE_VARIANT tagc_dense_plain
#include "kernels/dense/kernels.inc.c"
