/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codecs for all-gathers for any processor. See allgather_kernels.inc.c.
 */
#include "kernels/bytes_plain.h"
#include "kernels/vector_plain.h"

#define TAGC_ALLGATHER_VARIANT tagc_allgather_plain
#include "kernels/allgather_kernels.inc.c"
