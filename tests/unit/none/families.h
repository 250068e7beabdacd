/* SPDX-License-Identifier: BSD-3-Clause
 * Values whose sums are hard to round, for the tests of `precise` on the host and on a GPU.
 *
 * Threads  As sim.h, whose random numbers these are. Failure: none.
 */
#ifndef TESTS_UNIT_NONE_FAMILIES_H
#define TESTS_UNIT_NONE_FAMILIES_H

#include "kernels/none/exact.h"
#include "tests/unit/codec/sim.h"

static inline uint32_t bits_at(const void *buffer, uint64_t i, enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? ((const uint32_t *)buffer)[i] : ((const uint16_t *)buffer)[i];
}

static inline void put_bits(struct sim *sim, int rank, int shard, uint64_t i, uint32_t bits) {
  void *send = (void *)(uintptr_t)sim->job[rank].send;
  const uint64_t at = (uint64_t)shard * sim->shape.n + i;
  if (sim->shape.dtype == TAGC_FLOAT32)
    ((uint32_t *)send)[at] = bits;
  else
    ((uint16_t *)send)[at] = (uint16_t)bits;
}

/* BURIED: a small value among larger ones, which cancel. MIDWAY: the sum of three values, divided, is halfway between
 * two results, or next to that. LOW: likewise, between the smallest results. */
enum family { NORMAL, ANY, TINY, HUGE_VALUES, CANCELLING, OUTLIERS, BURIED, MIDWAY, LOW, FAMILIES };

/* Part 0, 1 or 2 of a number, which the three of them add up to. */
static inline float part_of(double number, int part, enum tagc_dtype dtype) {
  float x = 0;
  for (int p = 0; p <= part && p < 3; p++) {
    uint8_t stored[4];
    number -= (double)x;
    tagc_store(stored, 0, dtype, (float)number);
    x = tagc_load(stored, 0, dtype);
  }
  return part < 3 ? x : 0;
}

static inline double midway(enum family family, uint64_t i, uint32_t divisor, enum tagc_dtype dtype) {
  const double half = (double)divisor * (double)(2 * (i * 37 % (family == LOW ? 90 : 128)) + 257) / 2;
  const int lowest = tagc_exact_lowest(dtype);
  return family == LOW ? ldexp(floor(half - 128 * (double)divisor) + (double)(i % 3) - 1, lowest)
                       : ldexp(half + (double)(i % 3) - 1, dtype == TAGC_FLOAT16 ? -20 : (int)(i % 40) - 20);
}

/* The bits of a value for rank r of w. */
static inline uint32_t draw_bits(enum family family, int r, uint64_t i, uint32_t divisor, enum tagc_dtype dtype) {
  const uint64_t roll = sim_random();
  const uint32_t infinity = tagc_exact_infinity(dtype), top = dtype == TAGC_FLOAT32 ? 31 : 15;
  const uint32_t sign = (uint32_t)(roll >> 63) << top;
  uint8_t stored[4] = {0};
  float x = sim_normal();
  switch (family) {
  case ANY: return (uint32_t)(roll % infinity) | sign;
  case TINY: return (uint32_t)(roll % (i % 2 ? 9 : infinity / 16)) | sign;
  case HUGE_VALUES: return (infinity - 1 - (uint32_t)(roll % 5)) | sign;
  case BURIED: x = r == 1 ? ldexpf(x, -20 - (int)(i % 40)) : r > 2 ? 0 : r ? -1.5f : 1.5f; break;
  case MIDWAY:
  case LOW: x = part_of(midway(family, i, divisor, dtype), r, dtype); break;
  case CANCELLING: x = r % 2 ? -(float)(i % 97) : (float)(i % 97); break;
  case OUTLIERS: x = roll % 31 == 0 ? ldexpf(x, (int)(roll >> 8) % 90 - 45) : x; break;
  default: break;
  }
  tagc_store(stored, 0, dtype, x);
  const uint32_t bits = bits_at(stored, 0, dtype);
  return (bits & ~(1u << top)) >= infinity ? infinity - 1 : bits;
}

#endif
