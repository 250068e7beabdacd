/* SPDX-License-Identifier: BSD-3-Clause
 * exp() that compilers vectorise: GELU and softmax would otherwise spend more time in libm than the products take.
 */
#ifndef EXAMPLES_GPT_FAST_EXP_H
#define EXAMPLES_GPT_FAST_EXP_H

#include <stdint.h>
#include <string.h>

/* e^x to 2 units in the last place for |x| <= 87; towards 0 and infinity beyond, for |x| up to 1e12; NaN stays NaN.
 * x = n ln 2 + r, e^r by its Taylor series to the 7th power (|r| <= 0.35: remainder 6e-9), 2^n by its exponent bits.
 * The limits are put on the integer n: on x they would be branches, which compilers follow instead of vectorising. */
static inline float fast_exp(float x) {
  /* Adding 1.5 * 2^23 leaves the nearest integer in the low bits of the sum. */
  const float magic = 12582912.0f;
  const int32_t magic_bits = 0x4b400000;
  float shifted = x * 1.44269504f + magic, power;
  float rounded = shifted - magic;
  float r = (x - rounded * 0.693145752f) - rounded * 1.42860677e-6f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int32_t n;
  memcpy(&n, &shifted, sizeof n);
  n = n < magic_bits - 127 ? magic_bits - 127 : n;
  n = n > magic_bits + 128 ? magic_bits + 128 : n;
  n = (n - magic_bits + 127) * (1 << 23);
  memcpy(&power, &n, sizeof power);
  return p * power;
}

#endif
