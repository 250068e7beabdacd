/* SPDX-License-Identifier: BSD-3-Clause
 * The residual's blocks for x86-64 with AVX2. See residual_blocks.inc.c.
 */
#define TAGC_RESIDUAL_VARIANT tagc_residual_avx2
#include "kernels/codec/residual_blocks.inc.c"
