/* SPDX-License-Identifier: BSD-3-Clause
 * Sums and maxima of vectors, for code that includes one of the vector headers before (vector.h).
 */
#ifndef KERNELS_SIMD_VECTOR_SUM_H
#define KERNELS_SIMD_VECTOR_SUM_H

/* A tree, lane t += lane t + 8, then 4, 2, 1: the order is part of formats, and decides refusals. */
TAGC_OPERATION float v16_sum(struct v16 x) {
  float lane[TAGC_LANES];
  v16_store(lane, x);
  for (int some = TAGC_LANES / 2; some > 0; some /= 2)
    for (int t = 0; t < some; t++)
      lane[t] += lane[t + some];
  return lane[0];
}

/* The bits of the magnitudes, which compare as integers. */
TAGC_OPERATION struct v16i v16_magnitudes(struct v16 x) { return v16i_and(v16_bits(x), v16i_all(0x7fffffffu)); }

/* The largest magnitude of `count` values, a multiple of TAGC_LANES. */
TAGC_OPERATION float v16_largest(const float *values, uint32_t count) {
  struct v16i most = v16i_all(0);
  for (uint32_t i = 0; i < count; i += TAGC_LANES)
    most = v16i_max(most, v16_magnitudes(v16_load(values + i)));
  return tagc_float_of(v16i_largest(most));
}

#endif
