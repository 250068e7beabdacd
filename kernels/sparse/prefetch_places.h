/* SPDX-License-Identifier: BSD-3-Clause
 * Fetches the places of values in the residual before they are written: values of a stripe lie lines apart, which the
 * processor's own prefetching does not follow. Included behind the vector steps of an instruction set.
 */
#ifndef KERNELS_SPARSE_PREFETCH_PLACES_H
#define KERNELS_SPARSE_PREFETCH_PLACES_H

/* Fetches 16 places that come 32 values after the first of `left` ids, if the list is that long. */
static ALWAYS_INLINE void prefetch_places(const float *residual, const uint32_t *ids, uint32_t left, uint32_t stripes,
                                          uint32_t stripe) {
  enum { AHEAD = 32 };
  uint32_t lines[16];
  if (left < AHEAD + 16)
    return;
  ids += AHEAD;
  lines16(ids, stripes, stripe, lines);
  for (uint32_t j = 0; j < 16; j++)
    __builtin_prefetch(residual + (uint64_t)lines[j] * TAGC_GRID_LINE + ids[j] % TAGC_GRID_LINE, 1);
}

#endif
