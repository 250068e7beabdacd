/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of sparsification, shared by the host and GPU kernels: how a shard is cut into stripes, in each of
 * which the largest values are chosen, and how values are compared.
 *
 * Stripes   A shard is cut into lines of 32 elements, and the lines are dealt to stripes: each stripe gets one of every
 *           `stripes` consecutive lines (a group), turned by a Fibonacci hash of the group, so that any run or column
 *           pattern is spread evenly. The last, incomplete group is dealt in the same way: stripes may differ by one
 *           line. A line's place in its stripe is the number of its group.
 * Ids       Inside a stripe an element is 32 * local line + lane; with one stripe, that is its position in the shard.
 * Bins      The upper 19 bits of a magnitude. Bin and place alone decide if a value is chosen.
 * Threads   Pure functions. Failure: none.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_BITS_H
#define KERNELS_SPARSE_SPARSIFY_BITS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels/codec/bits.h"

enum {
  TAGC_GRID_LINE = 32,        /* elements of a line */
  TAGC_GRID_BLOCK_LINES = 32, /* lines that share an exponent */
  TAGC_BIN_COARSE = 2048,     /* bins of the first histogram: 8 bits of exponent, 3 of the mantissa */
  TAGC_BIN_FINE = 256,        /* bins of the second one, inside one of the first: 8 bits more */
  TAGC_BIN_TINY = 7 << 11,    /* the bin of 2^-120: smaller values count as zero */
  TAGC_BIN_HUGE = 247 << 11,  /* the bin of 2^120: larger values are exceptions */
};

/* See tagc_grid_fill(). */
struct tagc_grid {
  uint64_t n; /* elements of the shard, less than 2^32 */
  uint32_t keep_ppm;
  uint32_t lines; /* of the shard; the last may be incomplete */
  uint32_t stripes;
  uint32_t groups, rest;    /* lines = groups * stripes + rest */
  uint32_t stripe_lines;    /* of the longest stripe */
  uint32_t stripe_capacity; /* values a sender may place in the longest stripe */
  uint32_t unused;          /* kernels are passed no padding: its bytes would be whatever the stack held */
};
static_assert(sizeof(struct tagc_grid) == offsetof(struct tagc_grid, unused) + sizeof(uint32_t), "no padding");

/* -- lines and stripes --------------------------------------------------------------------------------------------- */

static inline TAGC_HD uint32_t tagc_grid_turn(uint32_t group, uint32_t stripes) {
  return tagc_mul_hi32(group * 0x9e3779b9u, stripes);
}

/* The line of the shard that is line `local` of a stripe. */
static inline TAGC_HD uint32_t tagc_grid_line(uint32_t stripes, uint32_t stripe, uint32_t local) {
  uint32_t turn = tagc_grid_turn(local, stripes);
  return local * stripes + (stripe >= turn ? stripe - turn : stripe + stripes - turn);
}

static inline TAGC_HD uint32_t tagc_grid_stripe_of(uint32_t stripes, uint32_t line) {
  uint32_t stripe = line % stripes + tagc_grid_turn(line / stripes, stripes);
  return stripe >= stripes ? stripe - stripes : stripe;
}

static inline TAGC_HD uint32_t tagc_grid_stripe_lines(const struct tagc_grid *grid, uint32_t stripe) {
  uint32_t turn = tagc_grid_turn(grid->groups, grid->stripes);
  uint32_t place = stripe >= turn ? stripe - turn : stripe + grid->stripes - turn;
  return grid->groups + (place < grid->rest);
}

/* The values that a sender may place in a stripe: its share of the positions, at least one. */
static inline TAGC_HD uint32_t tagc_grid_capacity(const struct tagc_grid *grid, uint32_t stripe) {
  uint64_t positions = (uint64_t)tagc_grid_stripe_lines(grid, stripe) * TAGC_GRID_LINE;
  if (tagc_grid_stripe_of(grid->stripes, grid->lines - 1) == stripe)
    positions -= (uint64_t)grid->lines * TAGC_GRID_LINE - grid->n;
  uint64_t capacity = positions * grid->keep_ppm / 1000000;
  return capacity ? (uint32_t)capacity : 1;
}

/* -- choosing ------------------------------------------------------------------------------------------------------ */

/* The bin of a value: coarse bin * TAGC_BIN_FINE + fine bin. */
static inline TAGC_HD uint32_t tagc_bin_of(uint32_t bits) { return (bits & 0x7fffffffu) >> 12; }

/* The exponent byte of a finite value of at least 2^-120: e + 128 for the smallest e with |value| < 2^e. */
static inline TAGC_HD uint8_t tagc_exponent_byte(uint32_t bits) { return (uint8_t)((bits >> 23 & 0xff) + 2); }

/* The seed of the choice in a stripe. */
static inline TAGC_HD uint64_t tagc_grid_seed(uint64_t seed, uint32_t shard, uint32_t stripe) {
  return tagc_mix64(tagc_mix64(seed) + ((uint64_t)shard << 32 | stripe));
}

/* The rank where selection starts in a boundary bin of `count` values. */
static inline TAGC_HD uint32_t tagc_bin_offset(uint64_t seed, uint32_t count) {
  return tagc_mul_hi32((uint32_t)(tagc_mix64(~seed) >> 32), count);
}

enum {
  TAGC_SPARSIFY_NO_BIN = TAGC_BIN_COARSE,
  TAGC_SPARSIFY_NEAR = 4096, /* fine bins above a threshold: two octaves */
};

/* The selection: whole fine bins above `bin` (`above` values), and `take` of its `count`, from `offset` on, around. */
struct tagc_sparsify_choice {
  uint32_t bin, above, count, take, offset;
};

/* `rank`: the number of earlier values of the boundary bin. */
static inline TAGC_HD bool tagc_sparsify_chosen(const struct tagc_sparsify_choice *choice, uint32_t bin,
                                                uint32_t rank) {
  uint32_t from = rank + (rank < choice->offset ? choice->count : 0) - choice->offset;
  return bin == choice->bin ? from < choice->take : bin > choice->bin && bin < TAGC_BIN_HUGE;
}

#endif
