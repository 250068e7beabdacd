/* SPDX-License-Identifier: BSD-3-Clause
 * The lines of a shard (sparsify_bits.h) and their bitmap, a word a line, for a warp that holds a block of 256.
 */
#ifndef KERNELS_SPARSE_LINES_CUH
#define KERNELS_SPARSE_LINES_CUH

#include "kernels/cuda/lanes.cuh"
#include "kernels/sparse/sparsify_bits.h"

enum { BLOCK_LINES = BLOCK / TAGC_GRID_LINE };

/* The place of a line: its stripe, and its number in the stripe. */
struct place {
  uint32_t stripe, local;
};

DEVICE struct place place_of_line(const struct tagc_grid &grid, uint32_t line) {
  if (grid.stripes == 1)
    return {0, line};
  return {tagc_grid_stripe_of(grid.stripes, line), line / grid.stripes};
}

/* The line's word in the bitmap. */
DEVICE uint64_t word_of(const struct tagc_grid &grid, const struct place &place) {
  return (uint64_t)place.stripe * grid.stripe_lines + place.local;
}

/* The line of a lane's elements of a half: its elements 4 (lane % 8) on. */
DEVICE uint32_t line_of(uint32_t block, uint32_t lane, uint32_t half) {
  return block * BLOCK_LINES + half * (BLOCK_LINES / 2) + lane / 8;
}

/* The word of that line, from one bit for each of the lanes' elements. */
DEVICE uint32_t line_word(uint32_t bits, uint32_t lane, uint32_t half) {
  uint32_t word = (bits >> ROW * half & ((1u << ROW) - 1)) << lane % 8 * ROW;
  UNROLL_FOR (int by = 1; by < 8; by *= 2)
    word |= __shfl_xor_sync(ALL_LANES, word, by);
  return word;
}

/* The reverse: one bit for each of the lane's elements of a block. */
DEVICE uint32_t lane_bits(const struct tagc_grid &grid, const uint32_t *bitmap, uint32_t block, uint32_t lane) {
  uint32_t bits = 0;
  UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
    const uint32_t line = line_of(block, lane, half);
    const uint32_t word = line < grid.lines ? bitmap[word_of(grid, place_of_line(grid, line))] : 0;
    bits |= (word >> lane % 8 * ROW & ((1u << ROW) - 1)) << ROW * half;
  }
  return bits;
}

#endif
