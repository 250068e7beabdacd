/* SPDX-License-Identifier: BSD-3-Clause
 * The facts of NVIDIA's header, if there is one of CUDA 13.
 */
#include "tests/unit/standin/cudart_table.h"

#ifdef __has_include
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#endif
#endif

const struct cudart_fact cudart_theirs[] = {
#if defined CUDART_VERSION && CUDART_VERSION >= 13000 && CUDART_VERSION < 14000
  CUDART_FACTS,
#endif
  {NULL, 0}};
