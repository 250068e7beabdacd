/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen doubles in AVX2: four of four. See doubles_plain.h for each operation.
 */
#ifndef KERNELS_SIMD_DOUBLES_AVX2_H
#define KERNELS_SIMD_DOUBLES_AVX2_H

#include "kernels/simd/doubles.h"
#include "kernels/simd/vector_avx2.h"

struct v16d {
  __m256d a, b, c, d;
};

TAGC_OPERATION struct v16d v16d_zero(void) {
  const __m256d zero = _mm256_setzero_pd();
  return (struct v16d){zero, zero, zero, zero};
}

TAGC_OPERATION __m256d low_doubles(__m256 x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
TAGC_OPERATION __m256d high_doubles(__m256 x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }

TAGC_OPERATION struct v16d v16d_add(struct v16d s, struct v16 x) {
  return (struct v16d){_mm256_add_pd(s.a, low_doubles(x.low)), _mm256_add_pd(s.b, high_doubles(x.low)),
                       _mm256_add_pd(s.c, low_doubles(x.high)), _mm256_add_pd(s.d, high_doubles(x.high))};
}

TAGC_OPERATION struct v16d v16d_scale(struct v16d s, double factor) {
  const __m256d all = _mm256_set1_pd(factor);
  return (struct v16d){_mm256_mul_pd(s.a, all), _mm256_mul_pd(s.b, all), _mm256_mul_pd(s.c, all),
                       _mm256_mul_pd(s.d, all)};
}

TAGC_OPERATION struct v16 v16d_nearest(struct v16d s) {
  return (struct v16){_mm256_set_m128(_mm256_cvtpd_ps(s.b), _mm256_cvtpd_ps(s.a)),
                      _mm256_set_m128(_mm256_cvtpd_ps(s.d), _mm256_cvtpd_ps(s.c))};
}

TAGC_OPERATION __m256d odd_doubles(__m256d x, uint64_t below) {
  const __m256i all = _mm256_set1_epi64x((long long)below), bits = _mm256_castpd_si256(x);
  const __m256i carried = _mm256_add_epi64(_mm256_and_si256(bits, all), all);
  return _mm256_castsi256_pd(_mm256_andnot_si256(all, _mm256_or_si256(bits, carried)));
}

TAGC_OPERATION struct v16d v16d_odd(struct v16d s, uint64_t below) {
  return (struct v16d){odd_doubles(s.a, below), odd_doubles(s.b, below), odd_doubles(s.c, below),
                       odd_doubles(s.d, below)};
}

TAGC_OPERATION __m256d divide_odd(__m256d x, double divisor, uint64_t below) {
  const __m256d all = _mm256_set1_pd(divisor);
  const __m256d unit = _mm256_castsi256_pd(_mm256_set1_epi64x((long long)below + 1));
  const __m256d mask = _mm256_castsi256_pd(_mm256_set1_epi64x((long long)below));
  const __m256d cut = _mm256_andnot_pd(mask, _mm256_div_pd(x, all));
  return _mm256_or_pd(cut, _mm256_and_pd(unit, _mm256_cmp_pd(_mm256_mul_pd(cut, all), x, _CMP_NEQ_UQ)));
}

TAGC_OPERATION struct v16d v16d_divide_odd(struct v16d s, double divisor, uint64_t below) {
  return (struct v16d){divide_odd(s.a, divisor, below), divide_odd(s.b, divisor, below),
                       divide_odd(s.c, divisor, below), divide_odd(s.d, divisor, below)};
}

#endif
