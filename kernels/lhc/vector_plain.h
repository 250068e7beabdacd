/* SPDX-License-Identifier: BSD-3-Clause
 * The vector steps of kernels.c in plain C: the others must give the same bits.
 *
 * Lists grow by whole vectors: a step may write 16 entries even if it adds fewer, and returns how many count.
 */
#ifndef KERNELS_LHC_VECTOR_PLAIN_H
#define KERNELS_LHC_VECTOR_PLAIN_H

#include "kernels/lhc/vector.h"
#include "kernels/sparse/sparsify_vector_plain.h"

STEP void cells16(uint64_t seed, uint32_t part_cells, const uint32_t *ids, uint64_t cells[16]) {
  for (uint32_t i = 0; i < 16; i++)
    cells[i] = tagc_lhc_cells(seed, part_cells, ids[i]);
}

/* The mask of those in dense octets. */
STEP uint32_t dense16(const uint64_t cells[16], uint32_t dense_rows) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < 16; i++)
    mask |= (uint32_t)tagc_lhc_is_dense(cells[i], dense_rows) << i;
  return mask;
}

/* Fixed point under the exponents of the lines' blocks; left: the errors. Returns the mask of these != 0. */
STEP uint32_t quantise16(const float *values, const uint32_t *lines, const uint8_t *exponents, int counter_bits,
                         int32_t q[16], float left[16]) {
  uint32_t mask = 0;
  for (uint32_t i = 0; i < 16; i++) {
    uint32_t exponent = exponents[lines[i] / TAGC_GRID_BLOCK_LINES];
    q[i] = tagc_lhc_quantise(tagc_bits_of(values[i]), exponent, counter_bits);
    left[i] = values[i] - (float)q[i] * tagc_lhc_unit(exponent, counter_bits);
    mask |= (uint32_t)(left[i] != 0) << i;
  }
  return mask;
}

/* Lists the ids of the bits of all masks; zeroes a mask that exceeds the capacity. Returns their number. */
STEP uint32_t list_support(uint32_t *masks, uint32_t lines, uint32_t capacity, uint32_t *ids) {
  uint32_t count = 0;
  for (uint32_t local = 0; local < lines; local++) {
    if (count + (uint32_t)__builtin_popcount(masks[local]) > capacity)
      masks[local] = 0;
    for (uint32_t mask = masks[local]; mask; mask &= mask - 1)
      ids[count++] = local * TAGC_GRID_LINE + (uint32_t)__builtin_ctz(mask);
  }
  return count;
}

/* Lists the words of cells with one element. Vectors may read 7 cells beyond the end (zeros), and write 8 words
 * more. */
STEP uint32_t find_singles(const uint64_t *cells, uint32_t count, uint64_t *words) {
  uint32_t found = 0;
  for (uint32_t i = 0; i < count; i++) {
    words[found] = cells[i];
    found += tagc_lhc_degree(cells[i]) == 1;
  }
  return found;
}

/* Adds the foreign sums of the masked lanes (in order), times unit, to the own values; divides, rounds, writes. */
STEP void result16(uint32_t mask, const uint32_t *sums, float unit, const void *own, void *recv,
                   struct tagc_result_format result) {
  float sum[16] = {0};
  for (uint32_t i = 0; i < 16; i++)
    if (mask >> i & 1)
      sum[i] = (float)(int32_t)*sums++ * unit;
  finish16(sum, own, recv, result, NULL);
}

#endif
