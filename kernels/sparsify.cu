/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels that choose the largest values: see sparsify_cuda.h for the steps, and sparsify.c for the same on the host, to
 * the bit.
 *
 * Grid      Groups of eight warps in x, shards (scan) or places in y.
 * Speed     scan reads g and e once, a warp 1,024 positions at a time; of the others, each looks at a small part of that.
 */
#include "kernels/call.cuh"
#include "kernels/lines.cuh"
#include "kernels/sparsify_cuda.h"

enum {
  SAMPLE_LINES = 512,              /* of a shard */
  SAMPLE = SAMPLE_LINES * TAGC_GRID_LINE,
  SAMPLE_SHIFT = 15,               /* what of a magnitude is left out: 16 bits stay, the lower five of them fine ones */
  ROW_BLOCKS = 1024 / BLOCK,       /* of positions that share an exponent */
  MANY = BLOCK / 4,                /* candidates of a block: many of them may be in one bin */
  TILE_WORDS = TAGC_CHOOSE_TILE / WARPS,      /* of a warp */
  EACH_WORDS = TILE_WORDS / LANES,
  AT_ONCE = 32,                    /* lines of a sample that a warp fetches at once */
  FEW_AT_ONCE = 4,
};

enum arrival { SCANNED, COARSE, FINE, ARRIVALS };

DEVICE uint32_t shard_at(const struct tagc_cuda_call &call, uint32_t place) { return place + (place >= call.rank); }

DEVICE bool is_candidate(uint32_t magnitude, uint32_t threshold)
{
  return magnitude >= threshold && magnitude < TAGC_EXCEPTION_BITS;
}

/* -- histograms ---------------------------------------------------------------------------------------------------- */

/* Past the first-level cache, which may not know what other groups have added. */
DEVICE uint4 four_of(const uint32_t *histogram, bool shared)
{
  return shared ? *(const uint4 *)histogram : __ldcg((const uint4 *)histogram);
}

/* The first bin from the top that has no room any more below *above values and `capacity`, and how many it has; *above gets
 * those in bins above it. 0 for the lowest bin is 1; 0: all have room. `bins`: a power of two from 128 on. */
DEVICE uint32_t find_boundary(const uint32_t *histogram, uint32_t bins, bool shared, uint32_t capacity, uint32_t lane,
                              uint32_t *above, uint32_t *count)
{
  uint32_t from = 0;
  for (uint32_t each = bins / LANES; ; each = each / LANES < 4 ? 4 : each / LANES) {
    /* A lane adds up so many neighbours; then those of one lane are shared out to all. */
    const uint32_t at = lane * each;
    uint32_t mine = 0;
    uint4 last = make_uint4(0, 0, 0, 0);
    UNROLL_8 for (uint32_t i = 0; i < each && at < bins; i += 4) {
      last = four_of(histogram + from + at + i, shared);
      mine += last.x + last.y + last.z + last.w;
    }
    uint32_t upto = mine;
    UNROLL for (uint32_t by = 1; by < LANES; by *= 2) {
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
    UNROLL for (uint32_t i = 3; i > 0; i--)
      if (bin == i && four[i] <= capacity - *above) {
        *above += four[i];
        bin = i - 1;
      }
    *count = bin == 3 ? four[3] : bin == 2 ? four[2] : bin == 1 ? four[1] : four[0];
    return from + bin + 1;
  }
}

/* -- sample -------------------------------------------------------------------------------------------------------- */

/* The bits of the lowest magnitude to look at: what the capacity is in the sample, a bit more, and three standard
 * deviations. `codes`: the sample's upper bits, zero for what is not chosen in any case. */
DEVICE uint32_t guess(const struct tagc_grid &grid, const uint16_t *codes, uint32_t *histogram, uint32_t count)
{
  const uint32_t lane = threadIdx.x % LANES;
  const uint32_t expected = (uint32_t)((uint64_t)count * grid.keep_ppm / 1000000);
  uint32_t deviation = 1, above = 0, some;
  while (deviation * deviation < expected)
    deviation++;
  const uint32_t enough = expected + expected / 32 + 3 * deviation + 8;
  for (uint32_t i = threadIdx.x; i < TAGC_BIN_COARSE; i += blockDim.x)
    histogram[i] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
    if (codes[i] > 0)
      atomicAdd(&histogram[codes[i] / LANES], 1u);
  __syncthreads();
  const uint32_t coarse = find_boundary(histogram, TAGC_BIN_COARSE, true, enough, lane, &above, &some);
  if (coarse == 0)
    return (uint32_t)TAGC_BIN_TINY << 12;
  __syncthreads();
  if (threadIdx.x < LANES)
    histogram[threadIdx.x] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
    if (codes[i] / LANES == coarse - 1)
      atomicAdd(&histogram[codes[i] % LANES], 1u);
  __syncthreads();
  uint32_t fine = LANES;
  while (fine > 1 && histogram[fine - 1] <= enough - above)
    above += histogram[--fine];
  return ((coarse - 1) * LANES + fine - 1) << SAMPLE_SHIFT;
}

DEVICE void sample_shard(const struct tagc_choosing &choosing, uint32_t place)
{
  __shared__ uint16_t codes[SAMPLE];
  __shared__ __align__(16) uint32_t histogram[TAGC_BIN_COARSE];
  const struct tagc_cuda_call &call = choosing.of.call;
  const struct tagc_grid &grid = choosing.of.grid;
  const uint32_t shard = shard_at(call, place), lane = threadIdx.x % LANES;
  const char *from = shard_of(call, shard);
  const struct kept kept = kept_of(call, shard);
  const bool adds = tagc_residual_counts(&call);
  const uint32_t step = (grid.lines - 1) / SAMPLE_LINES + 1, lines = (grid.lines - 1 - step / 2) / step + 1;
  for (uint32_t first = threadIdx.x / LANES; first < lines; first += AT_ONCE * WARPS) {
    uint32_t position[AT_ONCE];
    float x[AT_ONCE];
    UNROLL for (uint32_t i = 0; i < AT_ONCE; i++) {
      const uint64_t at = ((uint64_t)step / 2 + (first + (uint64_t)i * WARPS) * step) * TAGC_GRID_LINE + lane;
      position[i] = (uint32_t)(at < grid.n ? at : grid.n - 1);     /* what is too far is not used */
    }
    load_some<AT_ONCE>(call, from, kept, adds, position, x);
    UNROLL for (uint32_t i = 0; i < AT_ONCE; i++) {
      const uint32_t line = first + i * WARPS, magnitude = tagc_bits_of(x[i]) & 0x7fffffffu;
      const bool counts = position[i] % LANES == lane && is_candidate(magnitude, TAGC_LEAST_BITS);
      if (line < lines)
        codes[line * LANES + lane] = counts ? (uint16_t)(magnitude >> SAMPLE_SHIFT) : 0;
    }
  }
  __syncthreads();
  const uint32_t threshold = guess(grid, codes, histogram, lines * LANES);
  if (threadIdx.x == 0)
    choosing.thresholds[place] = threshold;
  __syncthreads();                 /* the next shard's sample goes to the same place */
}

/* What is added to by the kernels that follow becomes zero. */
DEVICE void clear(const struct tagc_choosing &choosing, uint32_t place)
{
  const struct tagc_choose_call &of = choosing.of;
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  uint4 *histograms = (uint4 *)(choosing.histograms + (uint64_t)place * of.grid.chunks * TAGC_SPARSIFY_NEAR);
  for (uint64_t i = first; i < (uint64_t)of.grid.chunks * TAGC_SPARSIFY_NEAR / 4; i += stride)
    histograms[i] = make_uint4(0, 0, 0, 0);
  if (first > 0)
    return;
  of.shards[place] = {};
  for (uint32_t i = 0; i < ARRIVALS; i++)
    choosing.arrived[ARRIVALS * place + i] = 0;
  if (place == 0)
    *choosing.long_ways = 0;
}

DEVICE void sample(const struct tagc_choosing &choosing)
{
  for (uint32_t place = blockIdx.y; place < choosing.places; place += gridDim.y) {
    clear(choosing, place);
    if (blockIdx.x == gridDim.x - 1)
      sample_shard(choosing, place);
  }
}

/* -- the boundary bins of a shard, when all its values are counted: by a warp each ---------------------------------- */

DEVICE void chosen(const struct tagc_choosing &choosing, uint32_t place, uint32_t chunk, uint32_t lane,
                   struct tagc_sparsify_choice choice)
{
  const struct tagc_choose_call &of = choosing.of;
  const uint32_t capacity = tagc_grid_capacity(&of.grid, chunk), part = place * of.grid.chunks + chunk;
  if (choice.bin >= TAGC_BIN_TINY) {
    choice.take = capacity - choice.above;
    choice.offset = tagc_bin_offset(tagc_grid_seed(of.call.seed, shard_at(of.call, place), chunk), choice.count);
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

/* From the counts near the guess. Where they do not tell, the part goes the long way. */
DEVICE void settle_near(const struct tagc_choosing &choosing, uint32_t place, uint32_t chunk, uint32_t lane)
{
  const uint32_t part = place * choosing.of.grid.chunks + chunk, lowest = tagc_bin_of(choosing.thresholds[place]);
  const uint32_t capacity = tagc_grid_capacity(&choosing.of.grid, chunk);
  uint32_t *histogram = choosing.histograms + (uint64_t)part * TAGC_SPARSIFY_NEAR;
  uint32_t above = 0, count = 0;
  const uint32_t near = find_boundary(histogram, TAGC_SPARSIFY_NEAR, false, capacity, lane, &above, &count);
  const bool good = near == 0 ? above == capacity || lowest == TAGC_BIN_TINY : near < TAGC_SPARSIFY_NEAR;
  if (lane == 0)
    choosing.parts[part].long_way = !good;
  if (good) {
    chosen(choosing, place, chunk, lane, {near == 0 ? TAGC_BIN_TINY - 1 : lowest + near - 1, above, count, 0, 0});
    return;
  }
  for (uint32_t i = lane; i < TAGC_BIN_COARSE + TAGC_BIN_FINE; i += LANES)
    histogram[i] = 0;
  if (lane == 0)
    atomicOr(choosing.long_ways, 1u);
}

DEVICE void settle_coarse(const struct tagc_choosing &choosing, uint32_t place, uint32_t chunk, uint32_t lane)
{
  const uint32_t part = place * choosing.of.grid.chunks + chunk;
  struct tagc_choose_part *of = &choosing.parts[part];
  uint32_t above = 0, count = 0;
  if (!of->long_way)
    return;
  const uint32_t coarse = find_boundary(choosing.histograms + (uint64_t)part * TAGC_SPARSIFY_NEAR, TAGC_BIN_COARSE, false,
                                        tagc_grid_capacity(&choosing.of.grid, chunk), lane, &above, &count);
  if (coarse == 0)
    chosen(choosing, place, chunk, lane, {TAGC_BIN_TINY - 1, above, 0, 0, 0});
  else if (lane == 0)
    of->choice.above = above;
  if (lane == 0)
    of->coarse = coarse == 0 ? (uint32_t)TAGC_SPARSIFY_NO_BIN : coarse - 1;
}

DEVICE void settle_fine(const struct tagc_choosing &choosing, uint32_t place, uint32_t chunk, uint32_t lane)
{
  const uint32_t part = place * choosing.of.grid.chunks + chunk;
  const struct tagc_choose_part of = choosing.parts[part];
  uint32_t above = of.choice.above, count = 0;
  if (!of.long_way || of.coarse == TAGC_SPARSIFY_NO_BIN)
    return;
  const uint32_t *histogram = choosing.histograms + (uint64_t)part * TAGC_SPARSIFY_NEAR + TAGC_BIN_COARSE;
  const uint32_t fine = find_boundary(histogram, TAGC_BIN_FINE, false, tagc_grid_capacity(&choosing.of.grid, chunk), lane,
                                      &above, &count);
  __syncwarp();                    /* all lanes have read the part */
  chosen(choosing, place, chunk, lane, {of.coarse * TAGC_BIN_FINE + fine - 1, above, count, 0, 0});
}

/* A group has counted its share of a shard. The last one finds the boundaries. */
DEVICE void arrive(const struct tagc_choosing &choosing, uint32_t place, enum arrival what)
{
  const uint32_t lane = threadIdx.x % LANES;
  if (!group_is_last(&choosing.arrived[ARRIVALS * place + what], gridDim.x))
    return;
  for (uint32_t chunk = threadIdx.x / LANES; chunk < choosing.of.grid.chunks; chunk += WARPS) {
    if (what == SCANNED)
      settle_near(choosing, place, chunk, lane);
    else if (what == COARSE)
      settle_coarse(choosing, place, chunk, lane);
    else
      settle_fine(choosing, place, chunk, lane);
  }
}

/* -- scan ---------------------------------------------------------------------------------------------------------- */

/* One more in the fine bin of each candidate; `many` may be in the same. */
DEVICE void count_near(uint32_t *histogram, uint32_t lowest, uint32_t bits, bool counts, bool many)
{
  const uint32_t bin = tagc_bin_of(bits) - lowest, most = TAGC_SPARSIFY_NEAR - 1;
  uint32_t *at = histogram + (bin < most ? bin : most);
  uint32_t more = 1;
  if (many) {
    const uint32_t same = __match_any_sync(ALL_LANES, counts ? (unsigned long long)(uintptr_t)at : 0ull);
    counts = counts && (uint32_t)__ffs((int)same) - 1 == threadIdx.x % LANES;
    more = (uint32_t)__popc(same);
  }
  if (counts)
    atomicAdd(at, more);
}

/* The candidates of a block: their bits, and their bins. `mine`: a bit for each of the lane's elements. */
DEVICE void collect(const struct tagc_choosing &choosing, uint32_t number, uint32_t block, uint32_t lane, uint32_t threshold,
                    const float x[EACH], uint32_t mine)
{
  const struct tagc_grid &grid = choosing.of.grid;
  const uint32_t place = number - (number > choosing.of.call.rank);
  uint32_t *histograms = choosing.histograms + (uint64_t)place * grid.chunks * TAGC_SPARSIFY_NEAR;
  uint32_t *bitmap = choosing.of.bitmap + choosing.of.bitmap_words * number;
  const bool many = warp_sum((uint32_t)__popc(mine)) > MANY;
  UNROLL for (uint32_t half = 0; half < 2; half++) {
    const uint32_t line = line_of(block, lane, half), word = line_word(mine, lane, half), four = mine >> ROW * half & 15;
    const struct place at = place_of_line(grid, line);
    if (lane % 8 == half && line < grid.lines)
      bitmap[at.word] = word;
    if (many || four != 0)
      UNROLL for (uint32_t i = 0; i < ROW; i++)
        count_near(histograms + (uint64_t)at.chunk * TAGC_SPARSIFY_NEAR, tagc_bin_of(threshold),
                   tagc_bits_of(x[ROW * half + i]), four >> i & 1, many);
  }
}

/* A block. Returns the lane's largest magnitude that is no exception. */
DEVICE uint32_t scan_block(const struct tagc_choosing &choosing, uint32_t number, const struct kept &kept, bool adds,
                           uint32_t threshold, uint32_t block, uint32_t lane, float *stage)
{
  const struct tagc_cuda_call &call = choosing.of.call;
  uint32_t most = 0, mine = 0;
  bool unusual = false;
  float x[EACH];
  load(call, shard_of(call, number), kept, adds, block, lane, stage, x);
  UNROLL for (uint32_t i = 0; i < EACH; i++) {
    const uint32_t magnitude = tagc_bits_of(x[i]) & 0x7fffffffu;
    const bool exception = magnitude >= TAGC_EXCEPTION_BITS;
    unusual |= exception;
    most = exception || magnitude < most ? most : magnitude;
    mine |= (uint32_t)(magnitude >= threshold && !exception) << i;
  }
  if (__any_sync(ALL_LANES, unusual))
    append(call, list_of(call.message_out, call, number), block, lane, x);
  collect(choosing, number, block, lane, threshold, x, mine);
  return most;
}

DEVICE void scan(const struct tagc_choosing &choosing)
{
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = choosing.of.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint32_t first = blockIdx.x * WARPS + warp, stride = gridDim.x * WARPS;
  const uint32_t rows = (call.blocks + ROW_BLOCKS - 1) / ROW_BLOCKS;
  const bool adds = tagc_residual_counts(&call);
  for (uint32_t number = blockIdx.y; number < call.nranks; number += gridDim.y) {
    if (number == call.rank) {
      look_at_own(call, first, stride, lane, stages[warp]);
      continue;
    }
    const uint32_t place = number - (number > call.rank), threshold = choosing.thresholds[place];
    const struct kept kept = kept_of(call, number);
    uint8_t *exponents = choosing.of.exponents + choosing.of.exponent_bytes * number;
    for (uint32_t row = first; row < rows; row += stride) {
      uint32_t most = 0;
      for (uint32_t block = row * ROW_BLOCKS; block < (row + 1) * ROW_BLOCKS && block < call.blocks; block++) {
        const uint32_t other = scan_block(choosing, number, kept, adds, threshold, block, lane, stages[warp]);
        most = other > most ? other : most;
      }
      most = warp_most(most);
      if (choosing.of.exponents && lane == 0)
        exponents[row] = most < TAGC_LEAST_BITS ? 0 : tagc_exponent_byte(most);
    }
    arrive(choosing, place, SCANNED);
  }
}

/* -- tiles --------------------------------------------------------------------------------------------------------- */

/* One of a shard's, for a group. */
struct tile {
  uint32_t chunk, number;          /* number: in its chunk */
  uint32_t part;
  uint32_t lines;                  /* of the chunk */
};

DEVICE uint32_t tiles_of(const struct tagc_choosing &choosing) { return choosing.of.grid.chunks * choosing.tiles; }

DEVICE struct tile tile_at(const struct tagc_choosing &choosing, uint32_t place, uint32_t i)
{
  const uint32_t chunk = i / choosing.tiles;
  return {chunk, i % choosing.tiles, place * choosing.of.grid.chunks + chunk,
          tagc_grid_chunk_lines(&choosing.of.grid, chunk)};
}

/* The positions that a line has, a bit each. */
DEVICE uint32_t whole_line(const struct tagc_grid &grid, uint32_t line)
{
  const uint64_t left = grid.n - (uint64_t)line * TAGC_GRID_LINE;
  return left < TAGC_GRID_LINE ? (1u << (uint32_t)left) - 1 : ALL_LANES;
}

/* -- the long way -------------------------------------------------------------------------------------------------- */

template <bool fine>
DEVICE void count_tile(const struct tagc_choosing &choosing, uint32_t place, const struct tile &tile, uint32_t *histogram)
{
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
    UNROLL for (uint32_t i = 0; i < FEW_AT_ONCE; i++) {
      const uint32_t mine = local + i * WARPS < tile.lines ? local + i * WARPS : local;
      const uint32_t line = tagc_grid_line(grid.chunks, tile.chunk, mine);
      const bool there = mine == local + i * WARPS && whole_line(grid, line) >> lane & 1;
      position[i] = there ? line * TAGC_GRID_LINE + lane : 0;
      counts |= (uint32_t)there << i;
    }
    load_some<FEW_AT_ONCE>(call, from, kept, adds, position, x);
    UNROLL for (uint32_t i = 0; i < FEW_AT_ONCE; i++) {
      const uint32_t bits = tagc_bits_of(x[i]), bin = tagc_bin_of(bits);
      if (counts >> i & 1 && is_candidate(bits & 0x7fffffffu, TAGC_LEAST_BITS) && (!fine || bin / TAGC_BIN_FINE == coarse))
        atomicAdd(&histogram[fine ? bin % TAGC_BIN_FINE : bin / TAGC_BIN_FINE], 1u);
    }
  }
  __syncthreads();
  uint32_t *to = choosing.histograms + (uint64_t)tile.part * TAGC_SPARSIFY_NEAR + (fine ? TAGC_BIN_COARSE : 0);
  for (uint32_t i = threadIdx.x; i < bins; i += blockDim.x)
    if (histogram[i] > 0)
      atomicAdd(&to[i], histogram[i]);
  __syncthreads();
}

template <bool fine> DEVICE void count(const struct tagc_choosing &choosing)
{
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

/* A warp's lines of a tile: word 32 k + lane is lane's. */
struct marks {
  uint32_t candidates[TILE_WORDS], above[TILE_WORDS], edge[TILE_WORDS];
};

/* Candidate `at` of a warp's, where a lane's begin at `before`: its line, of the warp's, and its place in that. */
DEVICE void find_candidate(const struct marks &marks, uint32_t before, uint32_t at, uint32_t *line, uint32_t *lane)
{
  const uint32_t owner = warp_owner(before, at);
  uint32_t rank = at - __shfl_sync(ALL_LANES, before, (int)owner), word = marks.candidates[owner];
  *line = owner;
  for (uint32_t some; rank >= (some = (uint32_t)__popc(word)); word = marks.candidates[*line += LANES])
    rank -= some;
  for (; rank > 0; rank--)
    word &= word - 1;
  *lane = (uint32_t)__ffs((int)word) - 1;
}

/* Looks at the candidates of a warp's lines again. */
DEVICE void mark_lines(const struct tagc_choosing &choosing, uint32_t place, const struct tile &tile, uint32_t first,
                       uint32_t lane, struct marks *marks)
{
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
    const uint32_t position = tagc_grid_line(choosing.of.grid.chunks, tile.chunk, first + line) * TAGC_GRID_LINE + place_in;
    float x;
    load_some<1>(call, from, kept, adds, &position, &x);
    const uint32_t bin = tagc_bin_of(tagc_bits_of(x));
    if (bin > choice.bin && bin < TAGC_BIN_HUGE)
      atomicOr(&marks->above[line], 1u << place_in);
    else if (bin == choice.bin && choice.take > 0)
      atomicOr(&marks->edge[line], 1u << place_in);
  }
}

DEVICE void mark_tile(const struct tagc_choosing &choosing, uint32_t place, const struct tile &tile, struct marks *marks)
{
  const struct tagc_grid &grid = choosing.of.grid;
  const uint32_t lane = threadIdx.x % LANES;
  const uint32_t in_tile = threadIdx.x / LANES * TILE_WORDS, first = tile.number * TAGC_CHOOSE_TILE + in_tile;
  uint32_t *bitmap = choosing.of.bitmap + choosing.of.bitmap_words * shard_at(choosing.of.call, place) +
                     (uint64_t)tile.chunk * grid.chunk_lines;
  uint32_t *edges = choosing.edges + ((uint64_t)tile.part * choosing.tiles + tile.number) * TAGC_CHOOSE_TILE + in_tile;
  const bool long_way = choosing.parts[tile.part].long_way;
  UNROLL for (uint32_t k = 0; k < EACH_WORDS; k++) {
    const uint32_t i = LANES * k + lane, local = first + i;
    uint32_t word = 0;
    if (local < tile.lines)
      word = long_way ? whole_line(grid, tagc_grid_line(grid.chunks, tile.chunk, local)) : bitmap[local];
    marks->candidates[i] = word;
    marks->above[i] = marks->edge[i] = 0;
  }
  __syncwarp();
  mark_lines(choosing, place, tile, first, lane, marks);
  __syncwarp();
  uint32_t some = 0, all;
  UNROLL for (uint32_t k = 0; k < EACH_WORDS; k++) {
    const uint32_t i = LANES * k + lane, local = first + i;
    if (local < grid.chunk_lines)  /* chunks differ by a line at most; the wire has no undefined bytes */
      bitmap[local] = marks->above[i];
    edges[i] = marks->edge[i];
    some += (uint32_t)__popc(marks->edge[i]);
  }
  group_before(some, &all);
  if (threadIdx.x == 0)
    choosing.edge_counts[(uint64_t)tile.part * choosing.tiles + tile.number] = all;
}

DEVICE void mark(const struct tagc_choosing &choosing)
{
  __shared__ struct marks marks[WARPS];
  for (uint32_t place = blockIdx.y; place < choosing.places; place += gridDim.y)
    for (uint32_t i = blockIdx.x; i < tiles_of(choosing); i += gridDim.x)
      mark_tile(choosing, place, tile_at(choosing, place, i), &marks[threadIdx.x / LANES]);
}

/* -- fill ---------------------------------------------------------------------------------------------------------- */

/* Those of a word whose rank is in the part that is taken. */
DEVICE uint32_t taken(const struct tagc_sparsify_choice &choice, uint32_t word, uint32_t rank)
{
  uint32_t some = 0;
  for (; word != 0; word &= word - 1, rank++)
    if (tagc_sparsify_chosen(&choice, choice.bin, rank))
      some |= word & (0u - word);
  return some;
}

DEVICE void fill_tile(const struct tagc_choosing &choosing, uint32_t place, const struct tile &tile)
{
  const struct tagc_grid &grid = choosing.of.grid;
  const struct tagc_sparsify_choice choice = choosing.parts[tile.part].choice;
  const uint32_t *counts = choosing.edge_counts + (uint64_t)tile.part * choosing.tiles;
  if (choice.take == 0 || counts[tile.number] == 0)
    return;
  uint32_t earlier = 0, all, before;
  for (uint32_t i = threadIdx.x; i < tile.number; i += blockDim.x)
    earlier += counts[i];
  group_before(earlier, &before);
  const uint32_t each = TAGC_CHOOSE_TILE / TAGC_CUDA_THREADS, first = tile.number * TAGC_CHOOSE_TILE + threadIdx.x * each;
  const uint4 four =
    *(const uint4 *)(choosing.edges + (uint64_t)tile.part * choosing.tiles * TAGC_CHOOSE_TILE + first);
  const uint32_t word[each] = {four.x, four.y, four.z, four.w};
  uint32_t mine = 0;
  UNROLL for (uint32_t i = 0; i < each; i++)
    mine += (uint32_t)__popc(word[i]);
  uint32_t rank = before + group_before(mine, &all);
  uint32_t *bitmap = choosing.of.bitmap + choosing.of.bitmap_words * shard_at(choosing.of.call, place) +
                     (uint64_t)tile.chunk * grid.chunk_lines;
  UNROLL for (uint32_t i = 0; i < each; i++) {
    const uint32_t some = taken(choice, word[i], rank);
    if (some != 0)
      bitmap[first + i] |= some;
    rank += (uint32_t)__popc(word[i]);
  }
}

DEVICE void fill(const struct tagc_choosing &choosing)
{
  for (uint32_t place = blockIdx.y; place < choosing.places; place += gridDim.y)
    for (uint32_t i = blockIdx.x; i < tiles_of(choosing); i += gridDim.x)
      fill_tile(choosing, place, tile_at(choosing, place, i));
}

/* -- surplus ------------------------------------------------------------------------------------------------------- */

DEVICE void weigh(const struct tagc_choosing &choosing)
{
  bool surplus = false;
  for (uint32_t place = threadIdx.x; place < choosing.places; place += blockDim.x) {
    const struct tagc_choose_shard &shard = choosing.of.shards[place];
    surplus |= shard.full && shard.left * 64 > shard.chosen;
  }
  if (__syncthreads_or(surplus) && threadIdx.x == 0)
    choosing.of.call.state->found |= TAGC_ANYWHERE_SURPLUS;
}

/* -- entries ------------------------------------------------------------------------------------------------------- */

ENTRY(tagc_choose_sample, tagc_choosing, 1, sample(call));
ENTRY(tagc_choose_scan, tagc_choosing, 3, scan(call));
ENTRY(tagc_choose_coarse, tagc_choosing, 4, count<false>(call));
ENTRY(tagc_choose_fine, tagc_choosing, 4, count<true>(call));
ENTRY(tagc_choose_mark, tagc_choosing, 4, mark(call));
ENTRY(tagc_choose_fill, tagc_choosing, 4, fill(call));
ENTRY(tagc_choose_weigh, tagc_choosing, 1, weigh(call));
