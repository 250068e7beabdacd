/* SPDX-License-Identifier: BSD-3-Clause
 * The sum of a vector's lanes, for code that includes one of the headers with vectors before (vector.h).
 */
#ifndef KERNELS_SIMD_VECTOR_SUM_H
#define KERNELS_SIMD_VECTOR_SUM_H

/* A tree, lane t += lane t + 8, then 4, 2, 1: the order is part of formats, and of what is refused. */
TAGC_OPERATION float v16_sum(struct v16 x)
{
  float lane[TAGC_LANES];
  v16_store(lane, x);
  for (int some = TAGC_LANES / 2; some > 0; some /= 2)
    for (int t = 0; t < some; t++)
      lane[t] += lane[t + some];
  return lane[0];
}

#endif
