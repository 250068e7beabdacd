/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of the `lhc` codec (count sketch + bitmap, arXiv 2504.05638), shared by the host and GPU kernels. See
 * sparsify_bits.h for lines, stripes and ids.
 *
 * Cells        Hash i of an octet (8 lanes, a sector of GPU memory) selects a row in the i-th part of the stripe's
 *              counters and a rotation. An element belongs to cell row * 32 + (lane + rotation) mod 32 of each part.
 *              Both come from one 16-bit window of a 64-bit mix: window * part_cells >> 16 = row * 32 + rotation. A
 *              hash per line would be bad: where whole lines are selected, as in the gradient of an embedding, it fills
 *              whole rows, and few full rows peel badly (27% of calls failed at 5,000 values; with octets none).
 * Dense octets With three hashes, one octet in 16 is hashed three more times, so that its elements have twelve cells,
 *              four in each part. (Those whose row in the fourth window is small.) Such a mixture peels denser ("Mixed
 *              hypergraphs for linear-time construction of denser hashing-based data structures", Rink 2013):
 * from 1.164 cells a value on instead of 1.222. An element may meet a cell twice, which then holds its word twice.
 * Checks       Two values that share all three cells can never be peeled (one full stripe in 8,000 has such a pair). So
 *              with three hashes a stripe has 128 more counters, into one of which each value is also added. If peeling
 *              leaves one value alone in its check, the rest of the check is this value.
 * Fixed point  B = 31 - ceil(log2 nranks) bits; q = v * 2^(B-e), rounded to nearest even, |q| <= 2^B - 1, where e is
 *              the exponent of the element's block of 1,024 positions. Sums wrap around in 32 bits.
 * Threads      Pure functions. Failure: none.
 */
#ifndef KERNELS_LHC_CODEC_H
#define KERNELS_LHC_CODEC_H

#include "kernels/sparse/sparsify_bits.h"

enum {
  TAGC_LHC_OCTET = 8, /* neighbours that are hashed together */
  TAGC_LHC_MAX_HASHES = 4,
  TAGC_LHC_CHECKS = 128,
  TAGC_LHC_TURNS = 4,          /* hashes of a dense octet, of three cells each */
  TAGC_LHC_ROUNDS = 48,        /* most rounds of peeling; 19 to 27 are usual */
  TAGC_LHC_LEAST_EXPONENT = 9, /* the exponent byte of 2^-120 */
};

/* The geometry of a shape: see layout.c. `hashes` = 0: no sketch, but the sparse layout. */
struct tagc_lhc_geometry {
  struct tagc_grid grid;
  uint32_t senders;        /* nranks - 1: their supports meet in one sketch */
  uint32_t union_capacity; /* values all senders may place there */
  uint32_t hashes;
  uint32_t part_cells;      /* counters of one part: rows * 32, less than 2^16 */
  uint32_t blocks;          /* with an exponent each */
  int counter_bits;         /* B */
  uint32_t narrow_residual; /* 1: stored narrower than fp32, widened in the state from prepare to encode */
  uint32_t stripe_counters; /* of all parts, and checks behind them if there are three hashes */
};
static_assert(sizeof(struct tagc_lhc_geometry) ==
                offsetof(struct tagc_lhc_geometry, stripe_counters) + sizeof(uint32_t),
              "no padding");

/* -- cells -------------------------------------------------------------------------------------------------------- */

/* The cells of an element: hash i's is in bits 16 i to 16 i + 15. */
static inline TAGC_HD uint64_t tagc_lhc_cells(uint64_t seed, uint32_t part_cells, uint32_t id) {
  uint64_t mixed = tagc_mix64(seed + id / TAGC_LHC_OCTET), cells = 0;
  for (int i = 0; i < TAGC_LHC_MAX_HASHES; i++) {
    uint32_t cell = (uint32_t)(mixed >> (16 * i) & 0xffff) * part_cells >> 16;
    cells |= (uint64_t)((cell & ~31u) | ((cell + id) & 31u)) << (16 * i);
  }
  return cells;
}

/* The check of an element with these cells, its first. */
static inline TAGC_HD uint32_t tagc_lhc_check(uint64_t cells) { return (uint32_t)(cells >> 48) % TAGC_LHC_CHECKS; }

/* The rows of a part that mark dense octets in the fourth window. */
static inline TAGC_HD uint32_t tagc_lhc_dense_rows(const struct tagc_lhc_geometry *geo) {
  return geo->hashes == 3 ? (geo->part_cells / TAGC_GRID_LINE + 15) / 16 : 0;
}

/* Does an element with these cells, its first, belong to a dense octet? */
static inline TAGC_HD bool tagc_lhc_is_dense(uint64_t cells, uint32_t dense_rows) { return cells >> 53 < dense_rows; }

/* The seed of the further cells of a dense octet; turn 0 has the first. */
static inline TAGC_HD uint64_t tagc_lhc_turn_seed(uint64_t seed, uint32_t turn) {
  return seed + turn * UINT64_C(0xa0761d6478bd642f);
}

/* -- numbers ------------------------------------------------------------------------------------------------------ */

/* The unit of the counters under an exponent byte: 2^(e-B). */
static inline TAGC_HD float tagc_lhc_unit(uint32_t exponent, int counter_bits) {
  return tagc_pow2((int)exponent - 128 - counter_bits);
}

/* value / unit to nearest even, by integers; |value| < 2^e. */
static inline TAGC_HD int32_t tagc_lhc_quantise(uint32_t bits, uint32_t exponent, int counter_bits) {
  /* value = mantissa * 2^(field - 150), so q = mantissa * 2^shift. */
  int shift = (int)(bits >> 23 & 0xff) - 150 - ((int)exponent - 128 - counter_bits);
  if ((bits & 0x7f800000u) == 0)
    return 0;
  uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u, limit = (1u << counter_bits) - 1, q;
  if (shift >= 0)
    q = mantissa << shift;
  else if (shift < -24)
    q = 0;
  else
    q = (mantissa + (1u << (-shift - 1)) - 1 + (mantissa >> -shift & 1u)) >> -shift;
  if (q > limit)
    q = limit;
  return bits >> 31 ? -(int32_t)q : (int32_t)q;
}

/* The estimate of an element that could not be peeled: the median of its shares of its three or four cells, within
 * +-limit. Without loops: a GPU would put an array with variable indices into memory. */
static inline TAGC_HD int32_t tagc_lhc_median(const int32_t share[TAGC_LHC_MAX_HASHES], uint32_t hashes,
                                              int64_t limit) {
  const int32_t low = share[0] < share[1] ? share[0] : share[1], high = share[0] < share[1] ? share[1] : share[0];
  const int32_t other_low = hashes == 4 && share[3] < share[2] ? share[3] : share[2];
  const int32_t other_high = hashes == 4 && share[3] > share[2] ? share[3] : share[2];
  const int32_t from = low > other_low ? low : other_low, to = high < other_high ? high : other_high;
  const int64_t median = hashes == 4 ? ((int64_t)from + to) / 2 : low > to ? low : to;
  return (int32_t)(median > limit ? limit : median < -limit ? -limit : median);
}

#endif
