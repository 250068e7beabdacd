/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels that choose the largest values: see sparsify_cuda.h for the steps, and sparsify.c for the same on the
 * host, to the bit.
 *
 * Grid      Groups of eight warps in x, places in y (begin: x).
 * Speed     scan reads g and e once, a warp 1,024 positions at a time; each other kernel looks at a small part of them.
 */
#include "kernels/cuda/exceptions.cuh"
#include "kernels/sparse/lines.cuh"
#include "kernels/sparse/sparsify_bins.cuh"
#include "kernels/sparse/sparsify_tiles.cuh"

enum : uint32_t { NOWHERE = 0xffffffffu }; /* no bin of a shard: it has far fewer than 2^20 stripes */

enum {
  SAMPLE = TAGC_CHOOSE_SAMPLED * TAGC_GRID_LINE,
  SAMPLE_SHIFT = 15,         /* dropped bits of a magnitude: 16 bits stay, the lower five of them fine ones */
  ROW_BLOCKS = 1024 / BLOCK, /* blocks that share an exponent */
  SURE_STRIPES = 512,        /* groups count sure values of so many stripes */
  MANY = BLOCK / 4,          /* a block with more candidates may have many in one bin */
  AT_ONCE = 8,               /* lines of a sample that a warp fetches at once */
};

/* -- sample -------------------------------------------------------------------------------------------------------- */

/* The bits of the lowest magnitude whose values do not fit into `few` values of the sample, at the precision of its
 * codes; 0: all fit. `codes`: the sample's upper bits, zero for values that cannot be chosen. `histogram`: their coarse
 * bins, and then room for fine ones. */
DEVICE uint32_t find_in_sample(const uint16_t *codes, uint32_t *histogram, uint32_t count, uint32_t few) {
  uint32_t above = 0, some, *fine = histogram + TAGC_BIN_COARSE, bin = LANES;
  const uint32_t coarse = find_boundary(histogram, TAGC_BIN_COARSE, true, few, threadIdx.x % LANES, &above, &some);
  if (coarse == 0)
    return 0;
  __syncthreads();
  if (threadIdx.x < LANES)
    fine[threadIdx.x] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
    if (codes[i] / LANES == coarse - 1)
      atomicAdd(&fine[codes[i] % LANES], 1u);
  __syncthreads();
  while (bin > 1 && fine[bin - 1] <= few - above)
    above += fine[--bin];
  return ((coarse - 1) * LANES + bin - 1) << SAMPLE_SHIFT;
}

/* The group's threads have just written `codes`. */
DEVICE struct tagc_choose_guess guess(const struct tagc_choose_sampling &sample, const uint16_t *codes,
                                      uint32_t *histogram) {
  const uint32_t count = sample.lines * LANES;
  for (uint32_t i = threadIdx.x; i < TAGC_BIN_COARSE; i += blockDim.x)
    histogram[i] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
    if (codes[i] > 0)
      atomicAdd(&histogram[codes[i] / LANES], 1u);
  __syncthreads();
  const uint32_t least = find_in_sample(codes, histogram, count, sample.most);
  const uint32_t sure = find_in_sample(codes, histogram, count, sample.fewest);
  struct tagc_choose_guess guess = {least > 0 ? least : TAGC_LEAST_BITS, 0};
  guess.sure = guess.least + ((TAGC_SPARSIFY_NEAR - 1) << 12);
  if (sure > 0 && sure + (1u << SAMPLE_SHIFT) < guess.sure)
    guess.sure = sure + (1u << SAMPLE_SHIFT);
  return guess;
}

DEVICE void sample_shard(const struct tagc_choosing &choosing, uint32_t place, uint16_t *codes, uint32_t *histogram) {
  const struct tagc_cuda_call &call = choosing.of.call;
  const struct tagc_grid &grid = choosing.of.grid;
  const uint32_t shard = shard_at(call, place), lane = threadIdx.x % LANES;
  const char *from = shard_of(call, shard);
  const struct kept kept = kept_of(call, shard);
  const bool adds = tagc_residual_counts(&call);
  const uint32_t step = choosing.sample.step, lines = choosing.sample.lines;
  for (uint32_t first = threadIdx.x / LANES; first < lines; first += AT_ONCE * WARPS) {
    uint32_t position[AT_ONCE];
    float x[AT_ONCE];
    UNROLL_FOR (uint32_t i = 0; i < AT_ONCE; i++) {
      const uint64_t at = ((uint64_t)step / 2 + (first + (uint64_t)i * WARPS) * step) * TAGC_GRID_LINE + lane;
      position[i] = (uint32_t)(at < grid.n ? at : grid.n - 1); /* lines beyond the end are not used */
    }
    load_some<AT_ONCE>(call, from, kept, adds, position, x);
    UNROLL_FOR (uint32_t i = 0; i < AT_ONCE; i++) {
      const uint32_t line = first + i * WARPS, magnitude = tagc_bits_of(x[i]) & 0x7fffffffu;
      const bool counts = position[i] % LANES == lane && can_be_chosen(magnitude);
      if (line < lines)
        codes[line * LANES + lane] = counts ? (uint16_t)(magnitude >> SAMPLE_SHIFT) : 0;
    }
  }
  const struct tagc_choose_guess guessed = guess(choosing.sample, codes, histogram);
  if (threadIdx.x == 0)
    choosing.guesses[place] = guessed;
  __syncthreads(); /* the next shard reuses the memory */
}

/* -- begin --------------------------------------------------------------------------------------------------------- */

/* Zeroes the memory that later kernels add to. */
DEVICE void clear(const struct tagc_choosing &choosing) {
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  for (uint64_t i = first; i < choosing.cleared / sizeof(uint4); i += stride)
    ((uint4 *)choosing.histograms)[i] = make_uint4(0, 0, 0, 0);
  for (uint32_t place = first; place < choosing.places; place += stride)
    choosing.of.shards[place] = {};
}

/* The first groups make guesses, which take as long as all groups need for the own shard. The result for the own shard
 * cannot go to call.state yet, which this kernel creates. */
DEVICE void begin(const struct tagc_choosing &choosing) {
  __shared__ union {
    struct {
      uint16_t codes[SAMPLE];
      uint32_t histogram[TAGC_BIN_COARSE + LANES];
    } sample;
    float stages[WARPS][BLOCK];
  } __align__(16) memory;
  const struct tagc_cuda_call &call = choosing.of.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  open(call);
  clear(choosing);
  for (uint32_t place = blockIdx.x; place < choosing.places; place += gridDim.x)
    sample_shard(choosing, place, memory.sample.codes, memory.sample.histogram);
  const bool seen = own_has_exception(call, blockIdx.x * WARPS + warp, gridDim.x * WARPS, lane, memory.stages[warp]);
  const bool any = __syncthreads_or(seen);
  if (threadIdx.x == 0)
    choosing.own[blockIdx.x] = any;
}

/* -- scan ---------------------------------------------------------------------------------------------------------- */

/* Adds one to the shard's bin `at`, of all stripes, or NOWHERE. `many`: several lanes may have the same bin. */
DEVICE void count_near(uint32_t *histograms, uint32_t at, bool many) {
  uint32_t more = 1;
  bool counts = at != NOWHERE;
  if (many) {
    const uint32_t same = __match_any_sync(ALL_LANES, at);
    counts = counts && (uint32_t)__ffs((int)same) - 1 == threadIdx.x % LANES;
    more = (uint32_t)__popc(same);
  }
  if (counts)
    atomicAdd(&histograms[at], more);
}

/* A foreign shard during the scan. */
struct scanned {
  struct tagc_choose_guess guess;
  const char *from;
  struct kept kept;
  bool adds;
  uint32_t number;
  uint32_t *bitmap, *edges, *histograms;
  struct tagc_exceptions *list;
};

DEVICE struct scanned scanned_of(const struct tagc_choosing &choosing, uint32_t number) {
  const struct tagc_cuda_call &call = choosing.of.call;
  const uint32_t place = place_at(call, number), part = place * choosing.of.grid.stripes;
  return {choosing.guesses[place],
          shard_of(call, number),
          kept_of(call, number),
          tagc_residual_counts(&call),
          number,
          choosing.of.bitmap + choosing.of.bitmap_words * number,
          choosing.edges + (uint64_t)part * choosing.tiles * TAGC_CHOOSE_TILE,
          choosing.histograms + (uint64_t)part * TAGC_SPARSIFY_NEAR,
          list_of(call.message_out, call, number)};
}

/* Writes a block's sure values and candidates: a bit for each of the lane's elements. `sure`: the group's counts. */
DEVICE void collect(const struct tagc_choosing &choosing, const struct scanned &shard, uint32_t block, uint32_t lane,
                    const float x[EACH], uint32_t above, uint32_t between, uint32_t *sure) {
  const struct tagc_grid &grid = choosing.of.grid;
  const bool many = warp_sum((uint32_t)__popc(between)) > MANY;
  UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
    const uint32_t line = line_of(block, lane, half), four = between >> ROW * half & 15;
    const uint32_t chosen = line_word(above, lane, half), candidates = line_word(between, lane, half);
    const struct place at = place_of_line(grid, line);
    uint32_t *histogram = shard.histograms + (uint64_t)at.stripe * TAGC_SPARSIFY_NEAR;
    if (lane % 8 == half && line < grid.lines) {
      shard.bitmap[word_of(grid, at)] = chosen;
      shard.edges[(uint64_t)at.stripe * choosing.tiles * TAGC_CHOOSE_TILE + at.local] = candidates;
      if (chosen != 0)
        atomicAdd(grid.stripes <= SURE_STRIPES ? &sure[at.stripe] : &histogram[TAGC_SPARSIFY_NEAR - 1],
                  (uint32_t)__popc(chosen));
    }
    if (many || four != 0)
      UNROLL_FOR (uint32_t i = 0; i < ROW; i++) {
        const uint32_t bin = tagc_bin_of(tagc_bits_of(x[ROW * half + i])) - tagc_bin_of(shard.guess.least);
        count_near(shard.histograms, four >> i & 1 ? at.stripe * TAGC_SPARSIFY_NEAR + bin : NOWHERE, many);
      }
  }
}

/* Scans a block. Returns the lane's largest magnitude that is no exception. */
DEVICE uint32_t scan_block(const struct tagc_choosing &choosing, const struct scanned &shard, uint32_t block,
                           uint32_t lane, float *stage, uint32_t *sure) {
  const struct tagc_cuda_call &call = choosing.of.call;
  uint32_t most = 0, above = 0, between = 0;
  bool unusual = false;
  float x[EACH];
  load(call, shard.from, shard.kept, shard.adds, block, lane, stage, x);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    const uint32_t magnitude = tagc_bits_of(x[i]) & 0x7fffffffu;
    const bool exception = magnitude >= TAGC_EXCEPTION_BITS;
    unusual |= exception;
    most = exception || magnitude < most ? most : magnitude;
    above |= (uint32_t)(magnitude >= shard.guess.sure && !exception) << i;
    between |= (uint32_t)(magnitude >= shard.guess.least && magnitude < shard.guess.sure && !exception) << i;
  }
  if (__any_sync(ALL_LANES, unusual))
    append(call, shard.list, block, lane, x);
  collect(choosing, shard, block, lane, x, above, between, sure);
  return most;
}

/* Adds the group's counts of sure values to the last bins. */
DEVICE void add_sure(const struct scanned &shard, uint32_t *sure) {
  __syncthreads();
  for (uint32_t stripe = threadIdx.x; stripe < SURE_STRIPES; stripe += blockDim.x) {
    if (sure[stripe] > 0)
      atomicAdd(&shard.histograms[(uint64_t)stripe * TAGC_SPARSIFY_NEAR + TAGC_SPARSIFY_NEAR - 1], sure[stripe]);
    sure[stripe] = 0;
  }
}

/* Collects the results of `begin` for the own shard. */
DEVICE void tell_of_own(const struct tagc_choosing &choosing) {
  bool seen = false;
  UNROLL_8_FOR (uint32_t i = threadIdx.x; i < choosing.own_groups; i += blockDim.x)
    seen |= choosing.own[i] != 0;
  if (__syncthreads_or(seen) && threadIdx.x == 0)
    atomicOr(&choosing.of.call.state->found, (uint32_t)TAGC_ANYWHERE_EXCEPTION);
}

DEVICE void scan(const struct tagc_choosing &choosing) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  __shared__ uint32_t sure[SURE_STRIPES];
  const struct tagc_cuda_call &call = choosing.of.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint32_t first = blockIdx.x * WARPS + warp, stride = gridDim.x * WARPS;
  const uint32_t rows = (call.blocks + ROW_BLOCKS - 1) / ROW_BLOCKS;
  for (uint32_t stripe = threadIdx.x; stripe < SURE_STRIPES; stripe += blockDim.x)
    sure[stripe] = 0;
  __syncthreads();
  if (blockIdx.x == 0 && blockIdx.y == 0)
    tell_of_own(choosing);
  for (uint32_t place = blockIdx.y; place < choosing.places; place += gridDim.y) {
    const uint32_t number = shard_at(call, place);
    const struct scanned shard = scanned_of(choosing, number);
    uint8_t *exponents = choosing.of.exponents + choosing.of.exponent_bytes * number;
    for (uint32_t row = first; row < rows; row += stride) {
      uint32_t most = 0;
      for (uint32_t block = row * ROW_BLOCKS; block < (row + 1) * ROW_BLOCKS && block < call.blocks; block++) {
        const uint32_t other = scan_block(choosing, shard, block, lane, stages[warp], sure);
        most = other > most ? other : most;
      }
      most = warp_most(most);
      if (choosing.of.exponents && lane == 0)
        exponents[row] = most < TAGC_LEAST_BITS ? 0 : tagc_exponent_byte(most);
    }
    add_sure(shard, sure);
    arrive(choosing, place, SCANNED);
  }
}

/* -- close --------------------------------------------------------------------------------------------------------- */

/* TAGC_ANYWHERE_SURPLUS, or 0, in all threads of the group. */
DEVICE uint32_t weigh(const struct tagc_choose_call &of) {
  bool surplus = false;
  for (uint32_t place = threadIdx.x; place < of.call.nranks - 1; place += blockDim.x)
    surplus |= of.shards[place].full && of.shards[place].left * 64 > of.shards[place].chosen;
  return __syncthreads_or(surplus) ? TAGC_ANYWHERE_SURPLUS : 0;
}

/* -- entries ------------------------------------------------------------------------------------------------------- */

ENTRY(tagc_choose_begin, tagc_choosing, 3, begin(call));
ENTRY(tagc_choose_scan, tagc_choosing, 4, scan(call));
ENTRY(tagc_choose_coarse, tagc_choosing, 4, count<false>(call));
ENTRY(tagc_choose_fine, tagc_choosing, 4, count<true>(call));
ENTRY(tagc_choose_mark, tagc_choosing, 4, mark(call));
ENTRY(tagc_choose_fill, tagc_choosing, 4, fill(call));
ENTRY(tagc_choose_weigh, tagc_choose_call, 4, close(call.call, weigh(call), blockIdx.x, gridDim.x));
