/* SPDX-License-Identifier: BSD-3-Clause
 * The work by tile after the count near the guess: the long way, marks, and the bitmap. See sparsify_cuda.h.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_TILES_CUH
#define KERNELS_SPARSE_SPARSIFY_TILES_CUH

#include "kernels/sparse/sparsify_bins.cuh"

enum {
  TILE_WORDS = TAGC_CHOOSE_TILE / WARPS, /* of a warp */
  EACH_WORDS = TILE_WORDS / LANES,
  FEW_AT_ONCE = 4, /* lines that a warp fetches at once */
};

/* -- tiles --------------------------------------------------------------------------------------------------------- */

/* A tile of a shard: the work of a group. */
struct tile {
  uint32_t stripe, number; /* number: in its stripe */
  uint32_t part;
  uint32_t lines; /* of the stripe */
};

DEVICE uint32_t tiles_of(const struct tagc_choosing &choosing) { return choosing.of.grid.stripes * choosing.tiles; }

DEVICE struct tile tile_at(const struct tagc_choosing &choosing, uint32_t place, uint32_t i) {
  const uint32_t stripe = i / choosing.tiles;
  return {stripe, i % choosing.tiles, place * choosing.of.grid.stripes + stripe,
          tagc_grid_stripe_lines(&choosing.of.grid, stripe)};
}

/* The positions of a line, a bit each. */
DEVICE uint32_t whole_line(const struct tagc_grid &grid, uint32_t line) {
  const uint64_t left = grid.n - (uint64_t)line * TAGC_GRID_LINE;
  return left < TAGC_GRID_LINE ? (1u << (uint32_t)left) - 1 : ALL_LANES;
}

/* -- the long way -------------------------------------------------------------------------------------------------- */

template <bool fine>
DEVICE void count_tile(const struct tagc_choosing &choosing, uint32_t place, const struct tile &tile,
                       uint32_t *histogram) {
  const struct tagc_cuda_call &call = choosing.of.call;
  const struct tagc_grid &grid = choosing.of.grid;
  const uint32_t bins = fine ? TAGC_BIN_FINE : TAGC_BIN_COARSE, lane = threadIdx.x % LANES;
  const uint32_t shard = shard_at(call, place), coarse = choosing.parts[tile.part].coarse;
  const char *from = shard_of(call, shard);
  const struct kept kept = kept_of(call, shard);
  const bool adds = tagc_residual_counts(&call);
  const uint32_t first = tile.number * TAGC_CHOOSE_TILE, end = first + TAGC_CHOOSE_TILE;
  for (uint32_t i = threadIdx.x; i < bins; i += blockDim.x)
    histogram[i] = 0;
  __syncthreads();
  for (uint32_t local = first + threadIdx.x / LANES; local < end && local < tile.lines; local += FEW_AT_ONCE * WARPS) {
    uint32_t position[FEW_AT_ONCE], counts = 0;
    float x[FEW_AT_ONCE];
    UNROLL_FOR (uint32_t i = 0; i < FEW_AT_ONCE; i++) {
      const uint32_t mine = local + i * WARPS < tile.lines ? local + i * WARPS : local;
      const uint32_t line = tagc_grid_line(grid.stripes, tile.stripe, mine);
      const bool there = mine == local + i * WARPS && whole_line(grid, line) >> lane & 1;
      position[i] = there ? line * TAGC_GRID_LINE + lane : 0;
      counts |= (uint32_t)there << i;
    }
    load_some<FEW_AT_ONCE>(call, from, kept, adds, position, x);
    UNROLL_FOR (uint32_t i = 0; i < FEW_AT_ONCE; i++) {
      const uint32_t bits = tagc_bits_of(x[i]), bin = tagc_bin_of(bits);
      if (counts >> i & 1 && can_be_chosen(bits & 0x7fffffffu) && (!fine || bin / TAGC_BIN_FINE == coarse))
        atomicAdd(&histogram[fine ? bin % TAGC_BIN_FINE : bin / TAGC_BIN_FINE], 1u);
    }
  }
  __syncthreads();
  uint32_t *to = choosing.histograms + (uint64_t)tile.part * TAGC_SPARSIFY_NEAR + (fine ? TAGC_BIN_COARSE : 0);
  /* The thread that reads a bin also zeroes it for the next tile. */
  for (uint32_t i = threadIdx.x; i < bins; i += blockDim.x)
    if (histogram[i] > 0)
      atomicAdd(&to[i], histogram[i]);
}

template <bool fine> DEVICE void count(const struct tagc_choosing &choosing) {
  __shared__ uint32_t histogram[fine ? TAGC_BIN_FINE : TAGC_BIN_COARSE];
  if (*choosing.long_ways == 0)
    return;
  for (uint32_t place = blockIdx.y; place < choosing.places; place += gridDim.y) {
    for (uint32_t i = blockIdx.x; i < tiles_of(choosing); i += gridDim.x) {
      const struct tile tile = tile_at(choosing, place, i);
      const struct tagc_choose_part &part = choosing.parts[tile.part];
      if (part.long_way && (!fine || part.coarse != TAGC_SPARSIFY_NO_BIN))
        count_tile<fine>(choosing, place, tile, histogram);
    }
    arrive(choosing, place, fine ? FINE : COARSE);
  }
}

/* -- mark ---------------------------------------------------------------------------------------------------------- */

/* A warp's lines of a tile: word 32 k + lane is the lane's. */
struct marks {
  uint32_t candidates[TILE_WORDS], above[TILE_WORDS], edge[TILE_WORDS];
};

/* Finds candidate `at` of a warp, where a lane's begin at `before`: its line among the warp's, and its place there. */
DEVICE void find_candidate(const struct marks &marks, uint32_t before, uint32_t at, uint32_t *line, uint32_t *lane) {
  const uint32_t owner = warp_owner(before, at);
  uint32_t rank = at - __shfl_sync(ALL_LANES, before, (int)owner), word = marks.candidates[owner];
  *line = owner;
  for (uint32_t some; rank >= (some = (uint32_t)__popc(word)); word = marks.candidates[ *line += LANES])
    rank -= some;
  for (; rank > 0; rank--)
    word &= word - 1;
  *lane = (uint32_t)__ffs((int)word) - 1;
}

/* Looks at the candidates of a warp's lines again. */
DEVICE void mark_lines(const struct tagc_choosing &choosing, uint32_t place, const struct tile &tile, uint32_t first,
                       uint32_t lane, struct marks *marks) {
  const struct tagc_cuda_call &call = choosing.of.call;
  const struct tagc_sparsify_choice choice = choosing.parts[tile.part].choice;
  const uint32_t shard = shard_at(call, place);
  const char *from = shard_of(call, shard);
  const struct kept kept = kept_of(call, shard);
  const bool adds = tagc_residual_counts(&call);
  uint32_t mine = 0, all;
  for (uint32_t i = lane; i < TILE_WORDS; i += LANES)
    mine += (uint32_t)__popc(marks->candidates[i]);
  const uint32_t before = warp_before(mine, lane, &all);
  for (uint32_t some = 0; some < all; some += LANES) {
    const uint32_t at = some + lane;
    uint32_t line, place_in;
    find_candidate(*marks, before, at < all ? at : all - 1, &line, &place_in);
    if (at >= all)
      continue;
    const uint32_t position =
      tagc_grid_line(choosing.of.grid.stripes, tile.stripe, first + line) * TAGC_GRID_LINE + place_in;
    float x;
    load_some<1>(call, from, kept, adds, &position, &x);
    const uint32_t bin = tagc_bin_of(tagc_bits_of(x));
    if (bin > choice.bin && bin < TAGC_BIN_HUGE)
      atomicOr(&marks->above[line], 1u << place_in);
    else if (bin == choice.bin && choice.take > 0)
      atomicOr(&marks->edge[line], 1u << place_in);
  }
}

DEVICE void mark_tile(const struct tagc_choosing &choosing, uint32_t place, const struct tile &tile,
                      struct marks *marks) {
  const struct tagc_grid &grid = choosing.of.grid;
  const uint32_t lane = threadIdx.x % LANES;
  const uint32_t in_tile = threadIdx.x / LANES * TILE_WORDS, first = tile.number * TAGC_CHOOSE_TILE + in_tile;
  uint32_t *bitmap = choosing.of.bitmap + choosing.of.bitmap_words * shard_at(choosing.of.call, place) +
                     (uint64_t)tile.stripe * grid.stripe_lines;
  uint32_t *edges = choosing.edges + ((uint64_t)tile.part * choosing.tiles + tile.number) * TAGC_CHOOSE_TILE + in_tile;
  const bool long_way = choosing.parts[tile.part].long_way;
  UNROLL_FOR (uint32_t k = 0; k < EACH_WORDS; k++) {
    const uint32_t i = LANES * k + lane, local = first + i;
    const bool there = local < tile.lines;
    uint32_t word = there && !long_way ? edges[i] : 0;
    if (there && long_way)
      word = whole_line(grid, tagc_grid_line(grid.stripes, tile.stripe, local));
    marks->candidates[i] = word;
    marks->above[i] = there && !long_way ? bitmap[local] : 0;
    marks->edge[i] = 0;
  }
  __syncwarp();
  mark_lines(choosing, place, tile, first, lane, marks);
  __syncwarp();
  uint32_t some = 0, all;
  UNROLL_FOR (uint32_t k = 0; k < EACH_WORDS; k++) {
    const uint32_t i = LANES * k + lane, local = first + i;
    if (local < grid.stripe_lines) /* stripes differ by one line at most; the wire must have no undefined bytes */
      bitmap[local] = marks->above[i];
    edges[i] = marks->edge[i];
    some += (uint32_t)__popc(marks->edge[i]);
  }
  group_before(some, &all);
  if (threadIdx.x > 0)
    return;
  choosing.edge_counts[(uint64_t)tile.part * choosing.tiles + tile.number] = all;
  if (all > 0)
    atomicAdd(&choosing.edge_sums[(uint64_t)tile.part * choosing.spans + tile.number / TAGC_CHOOSE_SPAN], all);
}

DEVICE void mark(const struct tagc_choosing &choosing) {
  __shared__ struct marks marks[WARPS];
  for (uint32_t place = blockIdx.y; place < choosing.places; place += gridDim.y)
    for (uint32_t i = blockIdx.x; i < tiles_of(choosing); i += gridDim.x)
      mark_tile(choosing, place, tile_at(choosing, place, i), &marks[threadIdx.x / LANES]);
}

/* -- fill ---------------------------------------------------------------------------------------------------------- */

/* The bits of a word whose ranks are taken. */
DEVICE uint32_t taken(const struct tagc_sparsify_choice &choice, uint32_t word, uint32_t rank) {
  uint32_t some = 0;
  for (; word != 0; word &= word - 1, rank++)
    if (tagc_sparsify_chosen(&choice, choice.bin, rank))
      some |= word & (0u - word);
  return some;
}

/* A thread's part of the number of boundary values before a tile. */
DEVICE uint32_t edges_before(const struct tagc_choosing &choosing, const struct tile &tile) {
  const uint32_t *sums = choosing.edge_sums + (uint64_t)tile.part * choosing.spans;
  const uint32_t *counts = choosing.edge_counts + (uint64_t)tile.part * choosing.tiles;
  const uint32_t span = tile.number / TAGC_CHOOSE_SPAN, i = span * TAGC_CHOOSE_SPAN + threadIdx.x;
  uint32_t some = i < tile.number ? counts[i] : 0;
  for (uint32_t earlier = threadIdx.x; earlier < span; earlier += blockDim.x)
    some += sums[earlier];
  return some;
}

DEVICE void fill_tile(const struct tagc_choosing &choosing, uint32_t place, const struct tile &tile) {
  const struct tagc_grid &grid = choosing.of.grid;
  const struct tagc_sparsify_choice choice = choosing.parts[tile.part].choice;
  uint32_t all, before;
  if (choice.take == 0 || choosing.edge_counts[(uint64_t)tile.part * choosing.tiles + tile.number] == 0)
    return;
  group_before(edges_before(choosing, tile), &before);
  const uint32_t each = TAGC_CHOOSE_TILE / TAGC_CUDA_THREADS,
                 first = tile.number * TAGC_CHOOSE_TILE + threadIdx.x * each;
  const uint4 four = *(const uint4 *)(choosing.edges + (uint64_t)tile.part * choosing.tiles * TAGC_CHOOSE_TILE + first);
  const uint32_t word[each] = {four.x, four.y, four.z, four.w};
  uint32_t mine = 0;
  UNROLL_FOR (uint32_t i = 0; i < each; i++)
    mine += (uint32_t)__popc(word[i]);
  uint32_t rank = before + group_before(mine, &all);
  uint32_t *bitmap = choosing.of.bitmap + choosing.of.bitmap_words * shard_at(choosing.of.call, place) +
                     (uint64_t)tile.stripe * grid.stripe_lines;
  UNROLL_FOR (uint32_t i = 0; i < each; i++) {
    const uint32_t some = taken(choice, word[i], rank);
    if (some != 0)
      bitmap[first + i] |= some;
    rank += (uint32_t)__popc(word[i]);
  }
}

DEVICE void fill(const struct tagc_choosing &choosing) {
  for (uint32_t place = blockIdx.y; place < choosing.places; place += gridDim.y)
    for (uint32_t i = blockIdx.x; i < tiles_of(choosing); i += gridDim.x)
      fill_tile(choosing, place, tile_at(choosing, place, i));
}

#endif
