/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the `lhc` codec for x86-64 with AVX2 and F16C. See kernels.inc.c.
 */
#include "kernels/lhc/vector_avx2.h"

#define TAGC_LHC_VARIANT tagc_lhc_avx2
#define TAGC_LHC_NAME "avx2"
#include "kernels/lhc/kernels.inc.c"
