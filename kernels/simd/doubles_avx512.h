/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen doubles in AVX-512: two of eight. See doubles_plain.h for each operation.
 */
#ifndef KERNELS_SIMD_DOUBLES_AVX512_H
#define KERNELS_SIMD_DOUBLES_AVX512_H

#include "kernels/simd/doubles.h"
#include "kernels/simd/vector_avx512.h"

struct v16d {
  __m512d low, high;
};

TAGC_OPERATION struct v16d v16d_zero(void) { return (struct v16d){_mm512_setzero_pd(), _mm512_setzero_pd()}; }

TAGC_OPERATION struct v16d v16d_add(struct v16d s, struct v16 x) {
  return (struct v16d){_mm512_add_pd(s.low, _mm512_cvtps_pd(_mm512_castps512_ps256(x.v))),
                       _mm512_add_pd(s.high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1)))};
}

TAGC_OPERATION struct v16d v16d_scale(struct v16d s, double factor) {
  const __m512d all = _mm512_set1_pd(factor);
  return (struct v16d){_mm512_mul_pd(s.low, all), _mm512_mul_pd(s.high, all)};
}

TAGC_OPERATION struct v16 v16d_nearest(struct v16d s) {
  return (struct v16){_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(s.low)), _mm512_cvtpd_ps(s.high), 1)};
}

TAGC_OPERATION __m512d odd_doubles(__m512d x, uint64_t below) {
  /* (a | b) & ~c */
  enum { a_or_b_without_c = 0x54 };
  const __m512i all = _mm512_set1_epi64((long long)below), bits = _mm512_castpd_si512(x);
  const __m512i carried = _mm512_add_epi64(_mm512_and_si512(bits, all), all);
  return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(bits, carried, all, a_or_b_without_c));
}

TAGC_OPERATION struct v16d v16d_odd(struct v16d s, uint64_t below) {
  return (struct v16d){odd_doubles(s.low, below), odd_doubles(s.high, below)};
}

TAGC_OPERATION __m512d divide_odd(__m512d x, double divisor, uint64_t below) {
  const __m512d all = _mm512_set1_pd(divisor);
  const __m512i unit = _mm512_set1_epi64((long long)below + 1), mask = _mm512_set1_epi64((long long)below);
  const __m512i cut = _mm512_andnot_si512(mask, _mm512_castpd_si512(_mm512_div_pd(x, all)));
  const __m512d product = _mm512_mul_pd(_mm512_castsi512_pd(cut), all);
  return _mm512_castsi512_pd(_mm512_mask_or_epi64(cut, _mm512_cmp_pd_mask(product, x, _CMP_NEQ_UQ), cut, unit));
}

TAGC_OPERATION struct v16d v16d_divide_odd(struct v16d s, double divisor, uint64_t below) {
  return (struct v16d){divide_odd(s.low, divisor, below), divide_odd(s.high, divisor, below)};
}

#endif
