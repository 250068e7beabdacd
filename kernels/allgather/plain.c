/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codecs for all-gathers for any processor. See kernels.inc.c.
 */
#include "kernels/simd/bytes_plain.h"
#include "kernels/simd/vector_plain.h"

#define TAGC_ALLGATHER_VARIANT tagc_allgather_plain
#include "kernels/allgather/kernels.inc.c"
