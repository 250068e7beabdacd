/* SPDX-License-Identifier: BSD-3-Clause
 * The residual's blocks in plain C. See residual_blocks.inc.c.
 */
#define TAGC_RESIDUAL_VARIANT tagc_residual_plain
#include "kernels/codec/residual_blocks.inc.c"
