/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen doubles for any processor: the reference for each operation.
 */
#ifndef KERNELS_SIMD_DOUBLES_PLAIN_H
#define KERNELS_SIMD_DOUBLES_PLAIN_H

#include "kernels/simd/doubles.h"
#include "kernels/simd/vector_plain.h"

typedef double lanes_double __attribute__((vector_size(128)));
typedef uint64_t lanes_wide __attribute__((vector_size(128)));

struct v16d {
  lanes_double v;
};

#define V16D(x) ((struct v16d){x})

TAGC_OPERATION struct v16d v16d_zero(void) { return V16D((lanes_double){0}); }

TAGC_OPERATION struct v16d v16d_add(struct v16d a, struct v16 x) {
  return V16D(a.v + __builtin_convertvector(x.v, lanes_double));
}

TAGC_OPERATION struct v16d v16d_scale(struct v16d a, double factor) { return V16D(a.v * factor); }

/* Rounds to nearest. */
TAGC_OPERATION struct v16 v16d_nearest(struct v16d a) {
  return (struct v16){__builtin_convertvector(a.v, lanes_float)};
}

/* Cuts the bits `below` off, and sets the lowest bit that remains if one of them was set. Rounding this to a format
 * that is shorter by two bits or more gives the same as rounding `a` itself. */
TAGC_OPERATION struct v16d v16d_odd(struct v16d a, uint64_t below) {
  const lanes_wide bits = (lanes_wide)a.v;
  return V16D((lanes_double)((bits | ((bits & below) + below)) & ~below));
}

/* The same of a / divisor, a whole number of at most 24 bits and no power of two, where `below` leaves 26 bits or less.
 * The product of the cut quotient with the divisor is exact, and tells whether bits were cut off. The quotient that is
 * cut may have been rounded, but never up to or across such a short number q: then q * divisor would be 2^53 times the
 * last bit of `a`, a power of two. */
TAGC_OPERATION struct v16d v16d_divide_odd(struct v16d a, double divisor, uint64_t below) {
  const lanes_wide cut = (lanes_wide)(a.v / divisor) & ~below;
  const lanes_wide inexact = (lanes_wide)((lanes_double)cut * divisor != a.v);
  return V16D((lanes_double)(cut | (inexact & (below + 1))));
}

#undef V16D
#endif
