/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels that choose the largest values: see sparsify_cuda.h for the steps, and sparsify.c for the same on the host, to
 * the bit.
 *
 * Grid      Groups of eight warps in x, shards (scan) or places in y.
 * Speed     scan reads g and e once, a warp 1,024 positions at a time; of the others, each looks at a small part of that.
 */
#include "kernels/lines.cuh"
#include "kernels/sparsify_bins.cuh"
#include "kernels/sparsify_tiles.cuh"

enum {
  SAMPLE_LINES = 512,              /* of a shard */
  SAMPLE = SAMPLE_LINES * TAGC_GRID_LINE,
  SAMPLE_SHIFT = 15,               /* what of a magnitude is left out: 16 bits stay, the lower five of them fine ones */
  ROW_BLOCKS = 1024 / BLOCK,       /* of positions that share an exponent */
  MANY = BLOCK / 4,                /* candidates of a block: many of them may be in one bin */
  AT_ONCE = 32,                    /* lines of a sample that a warp fetches at once */
};

/* -- sample -------------------------------------------------------------------------------------------------------- */

/* The bits of the lowest magnitude to look at: what the capacity is in the sample, half as much again, for neighbours may be
 * alike, and three standard deviations. `codes`: the sample's upper bits, zero for what is not chosen in any case. */
DEVICE uint32_t guess(const struct tagc_grid &grid, const uint16_t *codes, uint32_t *histogram, uint32_t count)
{
  const uint32_t lane = threadIdx.x % LANES;
  const uint32_t expected = (uint32_t)((uint64_t)count * grid.keep_ppm / 1000000);
  uint32_t deviation = 1, above = 0, some;
  while (deviation * deviation < expected)
    deviation++;
  const uint32_t enough = expected + expected / 2 + 3 * deviation + 8;
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
  const uint32_t place = place_at(choosing.of.call, number);
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
    const uint32_t place = place_at(call, number), threshold = choosing.thresholds[place];
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
