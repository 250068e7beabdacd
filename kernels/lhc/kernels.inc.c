/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the `lhc` codec. See lhc.h for what each one does.
 *
 * Included once per instruction set by plain.c, avx2.c, avx512.c, after the header with that set's vector
 * steps of 16 elements (lhc_vector_*.h; the plain one says what each step does). What steers here is scalar and common.
 */
#include <string.h>

#include "kernels/lhc/lhc.h"

enum { SEGMENT = 512 };            /* queue entries that are peeled at a time: their words stay in the first cache */

#include "kernels/lhc/send.inc.c"
#include "kernels/lhc/receive.inc.c"

const struct tagc_lhc_kernels TAGC_LHC_VARIANT = {
  .name = TAGC_LHC_NAME,
  .scatter = scatter,
  .find_support = find_support,
  .build = build,
  .peel = peel,
  .output = output,
};
