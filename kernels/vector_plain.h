/* SPDX-License-Identifier: BSD-3-Clause
 * Vectors of sixteen numbers in C, for any processor: what each operation does.
 */
#ifndef KERNELS_VECTOR_PLAIN_H
#define KERNELS_VECTOR_PLAIN_H

#include <string.h>

#include "kernels/vector.h"

struct v16 { float lane[TAGC_LANES]; };
struct v16i { uint32_t lane[TAGC_LANES]; };
struct v16m { uint32_t lane[TAGC_LANES]; };

#define EACH(type, expression) \
  type out; \
  for (int t = 0; t < TAGC_LANES; t++) \
    out.lane[t] = (expression); \
  return out

/* -- memory --------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16 v16_load(const float *from)
{
  struct v16 out;
  memcpy(out.lane, from, sizeof out.lane);
  return out;
}

TAGC_OPERATION void v16_store(float *to, struct v16 x) { memcpy(to, x.lane, sizeof x.lane); }

/* Sixteen elements of some type. */
TAGC_OPERATION struct v16 v16_load_as(const void *from, enum tagc_dtype dtype)
{
  EACH(struct v16, tagc_load(from, (uint64_t)t, dtype));
}

/* Rounds to a type. A NaN must be TAGC_NAN_BITS. */
TAGC_OPERATION void v16_store_as(void *to, enum tagc_dtype dtype, struct v16 x)
{
  for (int t = 0; t < TAGC_LANES; t++)
    tagc_store(to, (uint64_t)t, dtype, x.lane[t]);
}

/* Unsigned 16-bit numbers; what is stored is below 2^16. */
TAGC_OPERATION struct v16i v16i_load_halves(const uint16_t *from) { EACH(struct v16i, from[t]); }

TAGC_OPERATION void v16i_store_halves(uint16_t *to, struct v16i x)
{
  for (int t = 0; t < TAGC_LANES; t++)
    to[t] = (uint16_t)x.lane[t];
}

/* Bytes: loaded with their signs; of what is stored the lowest eight bits. */
TAGC_OPERATION struct v16i v16i_load_bytes(const uint8_t *from)
{
  EACH(struct v16i, (uint32_t)(int32_t)(int8_t)from[t]);
}

TAGC_OPERATION void v16i_store_bytes(uint8_t *to, struct v16i x)
{
  for (int t = 0; t < TAGC_LANES; t++)
    to[t] = (uint8_t)x.lane[t];
}

/* -- floats --------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16 v16_all(float x) { EACH(struct v16, x); }
TAGC_OPERATION struct v16 v16_add(struct v16 a, struct v16 b) { EACH(struct v16, a.lane[t] + b.lane[t]); }
TAGC_OPERATION struct v16 v16_sub(struct v16 a, struct v16 b) { EACH(struct v16, a.lane[t] - b.lane[t]); }
TAGC_OPERATION struct v16 v16_mul(struct v16 a, struct v16 b) { EACH(struct v16, a.lane[t] * b.lane[t]); }
TAGC_OPERATION struct v16 v16_div(struct v16 a, struct v16 b) { EACH(struct v16, a.lane[t] / b.lane[t]); }

/* Within +-limit; no NaN. */
TAGC_OPERATION struct v16 v16_clamp(struct v16 x, float limit)
{
  EACH(struct v16, x.lane[t] > limit ? limit : x.lane[t] < -limit ? -limit : x.lane[t]);
}

/* The one NaN for all NaNs. */
TAGC_OPERATION struct v16 v16_one_nan(struct v16 x)
{
  EACH(struct v16, x.lane[t] == x.lane[t] ? x.lane[t] : tagc_float_of(TAGC_NAN_BITS));
}

/* Lane t with the other sign where bit t is 1. */
TAGC_OPERATION struct v16 v16_turn_signs(struct v16 x, uint32_t bits)
{
  EACH(struct v16, tagc_float_of(tagc_bits_of(x.lane[t]) ^ (bits >> t & 1) << 31));
}

/* Hadamard butterflies of strides 1, 2, 4, 8 in this order: (a, b) -> (a + b, a - b). */
TAGC_OPERATION struct v16 v16_butterflies(struct v16 x)
{
  for (int stride = 1; stride < TAGC_LANES; stride *= 2)
    for (int t = 0; t < TAGC_LANES; t++) {
      float a = x.lane[t], b = x.lane[t ^ stride];
      if (t & stride)
        continue;
      x.lane[t] = a + b;
      x.lane[t + stride] = a - b;
    }
  return x;
}

/* -- truths --------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16m v16_greater(struct v16 a, struct v16 b) { EACH(struct v16m, a.lane[t] > b.lane[t]); }

TAGC_OPERATION uint32_t v16m_count(struct v16m m)
{
  uint32_t count = 0;
  for (int t = 0; t < TAGC_LANES; t++)
    count += m.lane[t];
  return count;
}

TAGC_OPERATION struct v16 v16_select(struct v16m m, struct v16 yes, struct v16 no)
{
  EACH(struct v16, m.lane[t] ? yes.lane[t] : no.lane[t]);
}

/* -- integers ------------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16i v16i_all(uint32_t x) { EACH(struct v16i, x); }
TAGC_OPERATION struct v16i v16i_add(struct v16i a, struct v16i b) { EACH(struct v16i, a.lane[t] + b.lane[t]); }
TAGC_OPERATION struct v16i v16i_and(struct v16i a, struct v16i b) { EACH(struct v16i, a.lane[t] & b.lane[t]); }
TAGC_OPERATION struct v16i v16i_or(struct v16i a, struct v16i b) { EACH(struct v16i, a.lane[t] | b.lane[t]); }
TAGC_OPERATION struct v16i v16i_left(struct v16i a, int by) { EACH(struct v16i, a.lane[t] << by); }
TAGC_OPERATION struct v16i v16i_right(struct v16i a, int by) { EACH(struct v16i, a.lane[t] >> by); }

/* Unsigned, like the largest and the least of the lanes. */
TAGC_OPERATION struct v16i v16i_max(struct v16i a, struct v16i b)
{
  EACH(struct v16i, a.lane[t] > b.lane[t] ? a.lane[t] : b.lane[t]);
}

TAGC_OPERATION struct v16i v16i_min(struct v16i a, struct v16i b)
{
  EACH(struct v16i, a.lane[t] < b.lane[t] ? a.lane[t] : b.lane[t]);
}

TAGC_OPERATION uint32_t v16i_largest(struct v16i a)
{
  uint32_t most = 0;
  for (int t = 0; t < TAGC_LANES; t++)
    most = a.lane[t] > most ? a.lane[t] : most;
  return most;
}

TAGC_OPERATION uint32_t v16i_least(struct v16i a)
{
  uint32_t least = UINT32_MAX;
  for (int t = 0; t < TAGC_LANES; t++)
    least = a.lane[t] < least ? a.lane[t] : least;
  return least;
}

/* -- between them --------------------------------------------------------------------------------------------------- */

TAGC_OPERATION struct v16i v16_bits(struct v16 x) { EACH(struct v16i, tagc_bits_of(x.lane[t])); }
TAGC_OPERATION struct v16 v16_from_bits(struct v16i x) { EACH(struct v16, tagc_float_of(x.lane[t])); }

/* Of whole numbers below 2^31 in magnitude. */
TAGC_OPERATION struct v16i v16_to_int(struct v16 x) { EACH(struct v16i, (uint32_t)(int32_t)x.lane[t]); }
TAGC_OPERATION struct v16 v16i_to_float(struct v16i x) { EACH(struct v16, (float)(int32_t)x.lane[t]); }

/* The two's complement numbers in the lower and in the upper halves of sixteen bytes, each times its factor. */
TAGC_OPERATION void v16_nibbles(const uint8_t *from, const float factor[2], struct v16 *lower, struct v16 *upper)
{
  for (int t = 0; t < TAGC_LANES; t++) {
    lower->lane[t] = (float)(((from[t] & 15) ^ 8) - 8) * factor[0];
    upper->lane[t] = (float)((from[t] >> 4 ^ 8) - 8) * factor[1];
  }
}

/* The one of four that the lowest two bits name. */
TAGC_OPERATION struct v16 v16_pick(struct v16i index, const float four[4])
{
  EACH(struct v16, four[index.lane[t] & 3]);
}

#undef EACH
#endif
