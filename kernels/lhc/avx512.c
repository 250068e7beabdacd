/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the `lhc` codec for x86-64 with AVX-512 (F, BW, DQ, VL). See kernels.inc.c.
 */
#include "kernels/lhc/vector_avx512.h"

#define TAGC_LHC_VARIANT tagc_lhc_avx512
#define TAGC_LHC_NAME "avx512"
#include "kernels/lhc/kernels.inc.c"
