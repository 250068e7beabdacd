/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the `lhc` codec: see lhc.h.
 *
 * Compiled once for each instruction set (codec/instruction_set.h), with that set's vector steps of 16 elements
 * (vector_*.h; the plain one explains each step). The control flow here is scalar and common.
 */
#include "kernels/codec/instruction_set.h"
/* clang-format off */
#include TAGC_SIMD_HEADER(kernels/lhc/vector)
/* clang-format on */

#include <string.h>

#include "kernels/lhc/lhc.h"
#include "kernels/sparse/prefetch_places.h"

enum { SEGMENT = 512 }; /* queue entries peeled at a time: their words stay in the first-level cache */

#include "kernels/lhc/send.inc.c"
#include "kernels/lhc/receive.inc.c"

const struct tagc_lhc_kernels TAGC_SIMD_TABLE(tagc_lhc) = {
  .name = TAGC_SIMD_TEXT(TAGC_SIMD),
  .scatter = scatter,
  .find_support = find_support,
  .build = build,
  .peel = peel,
  .output = output,
};
