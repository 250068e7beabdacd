/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the `lhc` codec for any processor. See kernels.inc.c.
 */
#include "kernels/lhc/vector_plain.h"

#define TAGC_LHC_VARIANT tagc_lhc_plain
#define TAGC_LHC_NAME "plain"
#include "kernels/lhc/kernels.inc.c"
