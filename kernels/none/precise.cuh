/* SPDX-License-Identifier: BSD-3-Clause
 * What the kernels of `precise` share: sums of a lane's elements in fp64 or fp32, and of one element in integers.
 */
#ifndef KERNELS_NONE_PRECISE_CUH
#define KERNELS_NONE_PRECISE_CUH

#include "kernels/cuda/exceptions.cuh"
#include "kernels/none/exact.h"

enum { ROOMS = LANES / 2, LARGEST_FINITE = 0x7f7fffff, LARGEST_DENORMAL = 0x7fffff };
static_assert(ROOMS * sizeof(struct tagc_exact) <= BLOCK * sizeof(float), "a stage has room for half a warp's sums");

/* The sums of a lane's elements, and the magnitudes that tell whether they are exact. */
template <typename T> struct precise_sums {
  T sum[EACH];
  uint32_t most[EACH], least[EACH]; /* least: minus one, so that zeros are the largest */
};

template <typename T> DEVICE void begin_sums(struct precise_sums<T> &sums) {
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    sums.sum[i] = 0;
    sums.most[i] = 0;
    sums.least[i] = UINT32_MAX;
  }
}

DEVICE uint64_t bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

DEVICE double double_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* v16d_odd() of simd/doubles_plain.h. */
DEVICE double odd_double(double x, uint64_t below) {
  const uint64_t bits = bits_of_double(x);
  return double_of((bits | ((bits & below) + below)) & ~below);
}

/* v16d_divide_odd(). */
DEVICE double quotient_odd(double x, double divisor, uint64_t below) {
  const uint64_t cut = bits_of_double(x / divisor) & ~below;
  return double_of(cut | (double_of(cut) * divisor != x ? below + 1 : 0));
}

DEVICE float nearest_sum(double sum, const struct tagc_exact_quotient &by, uint32_t dtype) {
  const uint64_t below = tagc_exact_below((enum tagc_dtype)dtype);
  if (!by.none && !by.power)
    return (float)quotient_odd(sum, by.divisor, below);
  if (!by.none)
    sum = sum * (1 / by.divisor);
  return (float)(dtype == TAGC_FLOAT32 ? sum : odd_double(sum, below));
}

template <typename T> DEVICE void add_to_sums(struct precise_sums<T> &sums, const float x[EACH]) {
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    const uint32_t magnitude = tagc_bits_of(x[i]) & 0x7fffffffu;
    sums.most[i] = magnitude > sums.most[i] ? magnitude : sums.most[i];
    sums.least[i] = magnitude - 1 < sums.least[i] ? magnitude - 1 : sums.least[i];
    sums.sum[i] += (T)x[i];
  }
}

/* Are the exponents of element i so near one another that its sum has no error? */
template <typename T> DEVICE bool is_narrow(const struct precise_sums<T> &sums, uint32_t i, uint32_t span) {
  const uint32_t finite = LARGEST_FINITE, least = sums.least[i] < finite ? sums.least[i] : finite;
  const uint32_t bound = least + span < finite ? least + span : finite;
  return span > 0 && sums.most[i] <= bound;
}

/* Has fp64 added and rounded element i correctly? */
DEVICE bool is_exact(const struct precise_sums<double> &sums, uint32_t i, uint32_t span,
                     const struct tagc_exact_quotient &by, float x) {
  /* A quotient that is too small for a normal float would be rounded twice. */
  const bool normal = by.none || (tagc_bits_of(x) & 0x7fffffffu) - 1 >= LARGEST_DENORMAL;
  return is_narrow(sums, i, span) && normal;
}

/* -- in integers --------------------------------------------------------------------------------------------------- */

DEVICE void begin_exact(struct tagc_exact *exact) {
  for (uint32_t w = 0; w < TAGC_EXACT_WORDS; w++)
    exact->word[w] = 0;
  exact->nan = exact->infinity[0] = exact->infinity[1] = false;
}

DEVICE float rounded_exact(struct tagc_exact *exact, const struct tagc_cuda_call &call) {
  const enum tagc_dtype dtype = (enum tagc_dtype)call.dtype;
  const uint32_t bits = tagc_exact_round(exact, (uint32_t)call.divisor, dtype);
  return dtype == TAGC_FLOAT32   ? tagc_float_of(bits)
         : dtype == TAGC_FLOAT16 ? tagc_from_fp16((uint16_t)bits)
                                 : tagc_from_bf16((uint16_t)bits);
}

/* The place of the element that a mask with one bit means. */
DEVICE uint32_t place_of_bit(uint32_t lane, uint32_t bit) {
  uint32_t place = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    place = bit == 1u << i ? place_of(lane, i) : place;
  return place;
}

/* Replaces the results that fp64 has not rounded correctly, those in the mask `wrong`, by sum_of(bit, a room for it). A
 * stage has room for half a warp, so the halves take turns. */
template <typename F>
DEVICE void mend_results(uint32_t lane, uint32_t wrong, float x[EACH], float *stage, const F &sum_of) {
  struct tagc_exact *exact = (struct tagc_exact *)stage + lane % ROOMS;
  for (uint32_t turn = 0; turn < LANES / ROOMS; turn++) {
    __syncwarp();
    for (uint32_t left = lane / ROOMS == turn ? wrong : 0; left != 0; left &= left - 1) {
      const uint32_t bit = left & (0 - left);
      const float sum = sum_of(bit, exact);
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        x[i] = bit == 1u << i ? sum : x[i];
    }
  }
}

#endif
