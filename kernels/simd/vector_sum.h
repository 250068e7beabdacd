/* SPDX-License-Identifier: BSD-3-Clause
 * Sums and maxima of vectors, for code that includes one of the vector headers before (vector.h).
 */
#ifndef KERNELS_SIMD_VECTOR_SUM_H
#define KERNELS_SIMD_VECTOR_SUM_H

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
