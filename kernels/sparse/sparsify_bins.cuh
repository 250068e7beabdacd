/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the boundary bin of each stripe from counts of values: see sparsify_cuda.h.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_BINS_CUH
#define KERNELS_SPARSE_SPARSIFY_BINS_CUH

#include "kernels/cuda/call.cuh"
#include "kernels/sparse/sparsify_cuda.h"

/* The counts that all groups of a shard make. */
enum arrival { SCANNED, COARSE, FINE, ARRIVALS };

/* Neither zero nor an exception. */
DEVICE bool can_be_chosen(uint32_t magnitude) {
  return magnitude >= TAGC_LEAST_BITS && magnitude < TAGC_EXCEPTION_BITS;
}

/* -- histograms ---------------------------------------------------------------------------------------------------- */

/* Bypasses the first-level cache, which may miss the additions of other groups. */
DEVICE uint4 four_of(const uint32_t *histogram, bool shared) {
  return shared ? *(const uint4 *)histogram : __ldcg((const uint4 *)histogram);
}

/* The first bin from the top, plus one, whose values do not fit into `capacity` after *above values; *count: its
 * values. Adds the values of the bins above it to *above. 0: all fit. `bins`: a power of two from 128 on. */
DEVICE uint32_t find_boundary(const uint32_t *histogram, uint32_t bins, bool shared, uint32_t capacity, uint32_t lane,
                              uint32_t *above, uint32_t *count) {
  uint32_t from = 0;
  for (uint32_t each = bins / LANES;; each = each / LANES < 4 ? 4 : each / LANES) {
    /* A lane adds up `each` neighbours; then all lanes share out those of one lane. */
    const uint32_t at = lane * each;
    uint32_t mine = 0;
    uint4 last = make_uint4(0, 0, 0, 0);
    UNROLL_8_FOR (uint32_t i = 0; i < each && at < bins; i += 4) {
      last = four_of(histogram + from + at + i, shared);
      mine += last.x + last.y + last.z + last.w;
    }
    uint32_t upto = mine;
    UNROLL_FOR (uint32_t by = 1; by < LANES; by *= 2) {
      const uint32_t other = __shfl_down_sync(ALL_LANES, upto, by);
      upto += lane + by < LANES ? other : 0;
    }
    const uint32_t full = __ballot_sync(ALL_LANES, upto > capacity - *above);
    if (full == 0) {
      *above += __shfl_sync(ALL_LANES, upto, 0);
      return 0;
    }
    const int owner = LANES - 1 - __clz((int)full);
    *above += __shfl_sync(ALL_LANES, upto - mine, owner);
    from += (uint32_t)owner * each;
    bins = each;
    if (each > 4)
      continue;
    const uint32_t four[4] = {__shfl_sync(ALL_LANES, last.x, owner), __shfl_sync(ALL_LANES, last.y, owner),
                              __shfl_sync(ALL_LANES, last.z, owner), __shfl_sync(ALL_LANES, last.w, owner)};
    uint32_t bin = 3;
    UNROLL_FOR (uint32_t i = 3; i > 0; i--)
      if (bin == i && four[i] <= capacity - *above) {
        *above += four[i];
        bin = i - 1;
      }
    *count = bin == 3 ? four[3] : bin == 2 ? four[2] : bin == 1 ? four[1] : four[0];
    return from + bin + 1;
  }
}

/* -- the boundary bins of a shard, when all its values are counted: by a warp each --------------------------------- */

DEVICE void chosen(const struct tagc_choosing &choosing, uint32_t place, uint32_t stripe, uint32_t lane,
                   struct tagc_sparsify_choice choice) {
  const struct tagc_choose_call &of = choosing.of;
  const uint32_t capacity = tagc_grid_capacity(&of.grid, stripe), part = place * of.grid.stripes + stripe;
  if (choice.bin >= TAGC_BIN_TINY) {
    choice.take = capacity - choice.above;
    choice.offset = tagc_bin_offset(tagc_grid_seed(of.call.seed, shard_at(of.call, place), stripe), choice.count);
  }
  if (lane > 0)
    return;
  const uint32_t count = choice.above + choice.take;
  choosing.parts[part].choice = choice;
  of.counts[part] = count;
  if (count >= capacity)
    atomicOr(&of.shards[place].full, 1u);
  atomicAdd((unsigned long long *)&of.call.state->selected, (unsigned long long)count);
}

/* Uses the counts near the guess. If they are not enough, the part goes the long way. */
DEVICE void settle_near(const struct tagc_choosing &choosing, uint32_t place, uint32_t stripe, uint32_t lane) {
  const uint32_t part = place * choosing.of.grid.stripes + stripe, lowest = tagc_bin_of(choosing.guesses[place].least);
  const uint32_t capacity = tagc_grid_capacity(&choosing.of.grid, stripe);
  uint32_t *histogram = choosing.histograms + (uint64_t)part * TAGC_SPARSIFY_NEAR;
  uint32_t above = 0, count = 0;
  const uint32_t near = find_boundary(histogram, TAGC_SPARSIFY_NEAR, false, capacity, lane, &above, &count);
  const bool good = near == 0 ? above == capacity || lowest == TAGC_BIN_TINY : near < TAGC_SPARSIFY_NEAR;
  if (lane == 0)
    choosing.parts[part].long_way = !good;
  if (good) {
    chosen(choosing, place, stripe, lane, {near == 0 ? TAGC_BIN_TINY - 1 : lowest + near - 1, above, count, 0, 0});
    return;
  }
  for (uint32_t i = lane; i < TAGC_BIN_COARSE + TAGC_BIN_FINE; i += LANES)
    histogram[i] = 0;
  if (lane == 0)
    atomicOr(choosing.long_ways, 1u);
}

DEVICE void settle_coarse(const struct tagc_choosing &choosing, uint32_t place, uint32_t stripe, uint32_t lane) {
  const uint32_t part = place * choosing.of.grid.stripes + stripe;
  struct tagc_choose_part *of = &choosing.parts[part];
  uint32_t above = 0, count = 0;
  if (!of->long_way)
    return;
  const uint32_t coarse = find_boundary(choosing.histograms + (uint64_t)part * TAGC_SPARSIFY_NEAR, TAGC_BIN_COARSE,
                                        false, tagc_grid_capacity(&choosing.of.grid, stripe), lane, &above, &count);
  if (coarse == 0)
    chosen(choosing, place, stripe, lane, {TAGC_BIN_TINY - 1, above, 0, 0, 0});
  else if (lane == 0)
    of->choice.above = above;
  if (lane == 0)
    of->coarse = coarse == 0 ? (uint32_t)TAGC_SPARSIFY_NO_BIN : coarse - 1;
}

DEVICE void settle_fine(const struct tagc_choosing &choosing, uint32_t place, uint32_t stripe, uint32_t lane) {
  const uint32_t part = place * choosing.of.grid.stripes + stripe;
  const struct tagc_choose_part of = choosing.parts[part];
  uint32_t above = of.choice.above, count = 0;
  if (!of.long_way || of.coarse == TAGC_SPARSIFY_NO_BIN)
    return;
  const uint32_t *histogram = choosing.histograms + (uint64_t)part * TAGC_SPARSIFY_NEAR + TAGC_BIN_COARSE;
  const uint32_t fine =
    find_boundary(histogram, TAGC_BIN_FINE, false, tagc_grid_capacity(&choosing.of.grid, stripe), lane, &above, &count);
  __syncwarp(); /* all lanes have read the part */
  chosen(choosing, place, stripe, lane, {of.coarse * TAGC_BIN_FINE + fine - 1, above, count, 0, 0});
}

/* Called when a group has counted its share of a shard. The last group finds the boundaries. */
DEVICE void arrive(const struct tagc_choosing &choosing, uint32_t place, enum arrival what) {
  const uint32_t lane = threadIdx.x % LANES;
  if (!group_is_last(&choosing.arrived[ARRIVALS * place + what], gridDim.x))
    return;
  for (uint32_t stripe = threadIdx.x / LANES; stripe < choosing.of.grid.stripes; stripe += WARPS) {
    if (what == SCANNED)
      settle_near(choosing, place, stripe, lane);
    else if (what == COARSE)
      settle_coarse(choosing, place, stripe, lane);
    else
      settle_fine(choosing, place, stripe, lane);
  }
}

#endif
