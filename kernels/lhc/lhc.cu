/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of the codec `lhc`: see cuda.h for their work, and codec.c for the same on the host, to the bit.
 *
 * Grid      send: groups of eight warps in x, foreign shards in y; result: x; a warp takes block after block of 256.
 *           From list to recover: x, groups of 32 warps. Each `parts` neighbours share a stripe; recover has one for
 *           each stripe. No group waits for another one.
 * Memory    From list to recover, data that other threads change is read past the first-level cache.
 */
#include "kernels/cuda/call.cuh"
#include "kernels/lhc/cuda.h"
#include "kernels/sparse/lines.cuh"
#include "kernels/sparse/shard_norms.cuh"

namespace lhc {

/* -- before all ---------------------------------------------------------------------------------------------------- */

enum { ROW_BLOCKS = TAGC_GRID_BLOCK_LINES * TAGC_GRID_LINE / BLOCK }; /* that share an exponent */

/* A warp's largest magnitude, as bits, that is no exception, in the blocks of an exponent. */
DEVICE uint32_t measure_row(const struct tagc_cuda_call &call, uint32_t shard, uint32_t row, uint32_t lane,
                            float *stage) {
  const bool adds = tagc_residual_counts(&call);
  uint32_t most = 0;
  for (uint32_t block = row * ROW_BLOCKS; block < (row + 1) * ROW_BLOCKS && block < call.blocks; block++) {
    float x[EACH];
    load(call, shard_of(call, shard), kept_of(call, shard), adds, block, lane, stage, x);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const uint32_t magnitude = tagc_bits_of(x[i]) & 0x7fffffffu;
      most = magnitude >= TAGC_EXCEPTION_BITS || magnitude < most ? most : magnitude;
    }
  }
  return warp_most(most);
}

/* Writes all exponents: those of the own shard, and the padding, are zero. */
DEVICE void measure(const struct tagc_lhc_call &lhc) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = lhc.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y)
    for (uint32_t row = blockIdx.x * WARPS + warp; row < lhc.exponent_bytes; row += gridDim.x * WARPS) {
      const uint32_t most = shard == call.rank ? 0 : measure_row(call, shard, row, lane, stages[warp]);
      if (lane == 0)
        lhc.exponents[lhc.exponent_bytes * shard + row] = most < TAGC_LEAST_BITS ? 0 : tagc_exponent_byte(most);
    }
}

DEVICE void zero(void *memory, uint64_t bytes) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < bytes / 16; i += gridDim.x * blockDim.x)
    ((uint4 *)memory)[i] = make_uint4(0, 0, 0, 0);
}

/* Clears sketches, exponents unless they are known, and the padding of the bitmaps, which are written whole later. */
DEVICE void clear(const struct tagc_lhc_call &lhc) {
  const struct tagc_cuda_call &call = lhc.call;
  zero(lhc.exponents, lhc.measured ? 0 : call.nranks * lhc.exponent_bytes);
  zero(lhc.sketch_out, 4 * call.nranks * lhc.sketch_count);
  for (uint32_t shard = blockIdx.x * blockDim.x + threadIdx.x; shard < call.nranks; shard += gridDim.x * blockDim.x)
    if (shard != call.rank)
      ((uint4 *)(call.message_out + call.message_bytes * (shard + 1)))[-1] = make_uint4(0, 0, 0, 0);
}

/* -- encode -------------------------------------------------------------------------------------------------------- */

/* How often an element with these first cells is hashed. */
DEVICE uint32_t turns_of(const struct tagc_lhc_geometry &geo, uint64_t cells) {
  return tagc_lhc_is_dense(cells, tagc_lhc_dense_rows(&geo)) ? TAGC_LHC_TURNS : 1;
}

/* Adds a value to its counters. Returns the error of quantising. */
DEVICE float add_value(const struct tagc_lhc_call &lhc, uint32_t shard, uint32_t line, uint32_t lane, uint32_t exponent,
                       float value) {
  const struct tagc_lhc_geometry &geo = lhc.geo;
  const uint32_t stripe = tagc_grid_stripe_of(geo.grid.stripes, line),
                 id = line / geo.grid.stripes * TAGC_GRID_LINE + lane;
  const int32_t q = tagc_lhc_quantise(tagc_bits_of(value), exponent, geo.counter_bits);
  int32_t *counters = lhc.sketch_out + lhc.sketch_count * shard + (uint64_t)stripe * geo.stripe_counters;
  const uint64_t seed = tagc_grid_seed(lhc.call.seed, shard, stripe);
  uint64_t cells = tagc_lhc_cells(seed, geo.part_cells, id);
  if (geo.hashes == 3)
    atomicAdd(&counters[3 * geo.part_cells + tagc_lhc_check(cells)], q);
  for (uint32_t turn = 1, turns = turns_of(geo, cells);; turn++) {
    UNROLL_FOR (uint32_t hash = 0; hash < TAGC_LHC_MAX_HASHES; hash++)
      if (hash < geo.hashes)
        atomicAdd(&counters[hash * geo.part_cells + (uint32_t)(cells >> 16 * hash & 0xffff)], q);
    if (turn == turns)
      break;
    cells = tagc_lhc_cells(tagc_lhc_turn_seed(seed, turn), geo.part_cells, id);
  }
  return value - (float)q * tagc_lhc_unit(exponent, geo.counter_bits);
}

/* Squared norms: of the stored residual; of the values that stay, without quantising errors; of the chosen values. */
struct norms {
  double stored, left, chosen;
};

DEVICE struct norms send_shard(const struct tagc_lhc_call &lhc, uint32_t shard, uint32_t first, uint32_t stride,
                               uint32_t lane, float *stage) {
  const struct tagc_cuda_call &call = lhc.call;
  const char *from = shard_of(call, shard);
  const uint32_t *bitmap = (const uint32_t *)(call.message_out + call.message_bytes * shard + lhc.bitmap_at);
  const uint8_t *exponents = lhc.exponents + lhc.exponent_bytes * shard;
  const bool adds = tagc_residual_counts(&call);
  const struct kept kept = kept_of(call, shard);
  struct norms norms = {0, 0, 0};
  for (uint32_t block = first; block < call.blocks; block += stride) {
    float x[EACH];
    const uint32_t exponent = exponents[block * BLOCK_LINES / TAGC_GRID_BLOCK_LINES];
    const uint32_t chosen = lane_bits(lhc.geo.grid, bitmap, block, lane);
    load(call, from, kept, adds, block, lane, stage, x);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      /* -0 becomes 0, as with a residual of 0. */
      x[i] = tagc_is_exception(tagc_bits_of(x[i])) ? 0 : x[i] + 0.0f;
    norms.left += squares_of(x, ~chosen);
    if (chosen)
      norms.chosen += squares_of(x, chosen);
    for (uint32_t bits = chosen; bits; bits &= bits - 1) {
      const uint32_t which = (uint32_t)__ffs((int)bits) - 1, line = line_of(block, lane, which / ROW);
      float value = x[0];
      UNROLL_FOR (uint32_t i = 1; i < EACH; i++)
        value = i == which ? x[i] : value;
      const float left = add_value(lhc, shard, line, place_of(lane, which) % TAGC_GRID_LINE, exponent, value);
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        x[i] = i == which ? left : x[i];
    }
    norms.stored += kept_store(call, kept, block, lane, count_of(call, block), x, stage);
  }
  return norms;
}

DEVICE void send(const struct tagc_lhc_call &lhc) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = lhc.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint32_t first = blockIdx.x * WARPS + warp, stride = gridDim.x * WARPS;
  double stored = 0;
  for (uint32_t place = blockIdx.y; place < call.nranks - 1; place += gridDim.y) {
    const struct norms norms = send_shard(lhc, shard_at(call, place), first, stride, lane, stages[warp]);
    stored += norms.stored;
    add_shard_norms(&lhc.shards[place], lhc.norms + 2 * (uint64_t)gridDim.x * place, norms.left, norms.chosen);
  }
  add_norm(call, stored);
}

/* -- decode: the support ------------------------------------------------------------------------------------------- */

enum { MANY = TAGC_CUDA_MANY_THREADS, MANY_WARPS = MANY / LANES };

/* A stripe of the own shard, and the place of a group's threads among those of all groups that share it. */
struct part {
  uint32_t stripe, lines;
  uint32_t thread, threads; /* of all of its groups */
  uint32_t base;            /* of its elements, in `due`, `elements`, `queue` */
  uint64_t seed;
  unsigned long long *words, *cells;
};

DEVICE struct part part_of(const struct tagc_lhc_call &lhc, uint32_t stripe, uint32_t place, uint32_t parts) {
  const struct tagc_lhc_geometry &geo = lhc.geo;
  return {stripe,
          tagc_grid_stripe_lines(&geo.grid, stripe),
          place * MANY + threadIdx.x,
          parts * MANY,
          stripe * geo.union_capacity,
          tagc_grid_seed(lhc.call.seed, lhc.call.rank, stripe),
          lhc.words + (uint64_t)stripe * TAGC_LHC_WORDS,
          lhc.cells + (uint64_t)stripe * geo.stripe_counters};
}

/* Values of the support, by warp. */
DEVICE uint32_t *counts_of(const struct tagc_lhc_call &lhc, uint32_t stripe) {
  return lhc.counts + (uint64_t)stripe * lhc.most_parts * MANY_WARPS;
}

/* The union of the senders' bits of a line of a stripe. */
DEVICE uint32_t merged(const struct tagc_lhc_call &lhc, uint32_t stripe, uint32_t local) {
  const struct tagc_cuda_call &call = lhc.call;
  const uint64_t at = lhc.bitmap_at + 4 * ((uint64_t)stripe * lhc.geo.grid.stripe_lines + local);
  uint32_t mask = 0;
  for (uint32_t i = 0; i < call.nranks - 1; i++)
    mask |= __ldg((const uint32_t *)(call.message_in + call.message_bytes * shard_at(call, i) + at));
  return mask;
}

/* The lines of a stripe that are a warp's. */
struct range {
  uint32_t from, to;
};

DEVICE struct range range_of(uint32_t lines, uint32_t warp, uint32_t warps) {
  const uint32_t each = (lines / warps + 1 + LANES - 1) / LANES * LANES;
  const uint64_t from = (uint64_t)warp * each;
  const uint32_t begin = from < lines ? (uint32_t)from : lines;
  return {begin, lines - begin < each ? lines : begin + each};
}

/* Counts the elements in the lines of each warp of list(). This grid has other warps, which take them in turn. */
DEVICE void count(const struct tagc_lhc_call &lhc) {
  const uint32_t lane = threadIdx.x % LANES, warps = lhc.parts * MANY_WARPS;
  for (uint32_t which = blockIdx.x * WARPS + threadIdx.x / LANES; which < lhc.geo.grid.stripes * warps;
       which += gridDim.x * WARPS) {
    const uint32_t stripe = which / warps, warp = which % warps;
    const struct range range = range_of(tagc_grid_stripe_lines(&lhc.geo.grid, stripe), warp, warps);
    uint32_t sum = 0;
    UNROLL_4_FOR (uint32_t local = range.from + lane; local < range.to; local += LANES)
      sum += (uint32_t)__popc(merged(lhc, stripe, local));
    sum = warp_add(sum);
    if (lane == 0)
      counts_of(lhc, stripe)[warp] = sum;
  }
}

/* Initializes words, cells and dues, and counts the support. */
DEVICE void open(const struct tagc_lhc_call &lhc) {
  const struct tagc_lhc_geometry &geo = lhc.geo;
  const uint64_t stripes = geo.grid.stripes, first = blockIdx.x * blockDim.x + threadIdx.x,
                 stride = gridDim.x * blockDim.x;
  for (uint64_t i = first; i < stripes * TAGC_LHC_WORDS; i += stride)
    lhc.words[i] = 0;
  UNROLL_4_FOR (uint64_t i = first; i < stripes * geo.stripe_counters; i += stride)
    lhc.cells[i] = (unsigned long long)(uint32_t)lhc.sketch_in[i] << 32;
  UNROLL_4_FOR (uint64_t i = first; i < stripes * geo.union_capacity; i += stride)
    lhc.due[i] = ~0ull;
  count(lhc);
}

/* The mask, or zero if it does not fit into `room` after those of the lanes before that do. No sender of ours causes
 * this. As a function of its own it takes no registers from the others. */
static __device__ __noinline__ uint32_t cut(uint32_t mask, uint32_t room, uint32_t lane) {
  const uint32_t many = (uint32_t)__popc(mask);
  bool fits = false;
  for (uint32_t i = 0; i < LANES; i++) {
    const uint32_t next = __shfl_sync(ALL_LANES, many, (int)i);
    fits = i == lane ? next <= room : fits;
    room -= next <= room ? next : 0;
  }
  return fits ? mask : 0;
}

/* Lists the elements of a warp's lines from `at` on. Returns their end. */
DEVICE uint32_t list_lines(const struct tagc_lhc_call &lhc, const struct part &part, uint32_t from, uint32_t to,
                           uint32_t at) {
  const struct tagc_lhc_geometry &geo = lhc.geo;
  const uint32_t lane = part.thread % LANES;
  uint32_t next = from + lane < to ? merged(lhc, part.stripe, from + lane) : 0;
  for (uint32_t line = from; line < to; line += LANES) {
    const uint32_t local = line + lane;
    uint32_t mask = next, all, first = at + warp_before((uint32_t)__popc(mask), lane, &all);
    next = local + LANES < to ? merged(lhc, part.stripe, local + LANES) : 0;
    if (at + all > geo.union_capacity) {
      mask = cut(mask, geo.union_capacity - at, lane);
      first = at + warp_before((uint32_t)__popc(mask), lane, &all);
    }
    if (local < to)
      lhc.lines[tagc_grid_line(geo.grid.stripes, part.stripe, local)] = {mask, part.base + first};
    for (uint32_t bits = mask; bits; bits &= bits - 1)
      lhc.elements[part.base + first++] = local * TAGC_GRID_LINE + (uint32_t)__ffs((int)bits) - 1;
    at += all;
  }
  return at;
}

/* Lists the elements of the stripe, in order of their ids. All warps list theirs; if there are too many, the first warp
 * lists all, because each mask then depends on those before. */
DEVICE void list(const struct tagc_lhc_call &lhc, const struct part &part) {
  const uint32_t lane = part.thread % LANES, warp = part.thread / LANES, warps = part.threads / LANES;
  struct range range = range_of(part.lines, warp, warps);
  unsigned long long all = 0;
  uint32_t before = 0;
  for (uint32_t i = lane; i < warps; i += LANES) {
    const uint32_t many = counts_of(lhc, part.stripe)[i];
    before += i < warp ? many : 0;
    all += many;
  }
  before = warp_add(before);
  if (warp_sum(all) > lhc.geo.union_capacity) {
    range = {0, warp == 0 ? part.lines : 0};
    before = 0;
  }
  const uint32_t listed = list_lines(lhc, part, range.from, range.to, before) - before;
  if (lane == 0)
    atomicAdd(&part.words[TAGC_LHC_LISTED], (unsigned long long)listed);
}

/* -- decode: peeling ----------------------------------------------------------------------------------------------- */

DEVICE unsigned long long *cell_of(const struct tagc_lhc_call &lhc, const struct part &part, uint64_t cells,
                                   uint32_t hash) {
  return &part.cells[hash * lhc.geo.part_cells + (uint32_t)(cells >> 16 * hash & 0xffff)];
}

/* The stripe's elements, once all are listed. */
DEVICE uint32_t element_count(const struct part &part) { return (uint32_t)word_read(&part.words[TAGC_LHC_LISTED]); }

DEVICE void build(const struct tagc_lhc_call &lhc, const struct part &part) {
  const uint32_t count = element_count(part);
  for (uint32_t i = part.thread; i < count; i += part.threads) {
    const uint32_t id = __ldcg(&lhc.elements[part.base + i]);
    uint64_t cells = tagc_lhc_cells(part.seed, lhc.geo.part_cells, id);
    for (uint32_t turn = 1, turns = turns_of(lhc.geo, cells);; turn++) {
      UNROLL_FOR (uint32_t hash = 0; hash < TAGC_LHC_MAX_HASHES; hash++)
        if (hash < lhc.geo.hashes)
          atomicAdd(cell_of(lhc, part, cells, hash), 1ull << 24 | i);
      if (turn == turns)
        break;
      cells = tagc_lhc_cells(tagc_lhc_turn_seed(part.seed, turn), lhc.geo.part_cells, id);
    }
  }
}

/* If one element is left in a cell, it is due in that round, or earlier. True: this thread is first, and queues it. */
DEVICE bool look(const struct tagc_lhc_call &lhc, const struct part &part, unsigned long long cell, uint32_t round,
                 uint32_t count) {
  const uint32_t index = (uint32_t)cell & 0xffffff;
  return (uint32_t)cell >> 24 == 1 && index < count &&
         atomicMin(&lhc.due[part.base + index], (unsigned long long)round << 32 | cell >> 32) == ~0ull;
}

/* The cells that a lane looks at before the warp queues the results. */
enum { AT_ONCE = 4 };

/* A round takes the queue's elements [from, to), and queues those of the next one behind them. Round 0 takes none: it
 * finds the first round's. */
struct round {
  uint32_t number, from, to;
};

/* A round, after all earlier ones have ended. Called by all lanes of a warp. */
DEVICE struct round round_of(const struct part &part, uint32_t number) {
  uint32_t sum = 0, last = 0;
  for (uint32_t i = threadIdx.x % LANES; i < number; i += LANES) {
    const uint32_t queued = (uint32_t)word_read(&part.words[TAGC_LHC_QUEUED + i]);
    sum += queued;
    last += i + 1 == number ? queued : 0;
  }
  const uint32_t to = warp_add(sum);
  return {number, to - warp_add(last), to};
}

/* Appends the last elements of a lane's cells, those with bits in `found`, to the queue. Called by all lanes of a
 * warp. */
DEVICE void enqueue(const struct tagc_lhc_call &lhc, const struct part &part, const struct round &round,
                    const unsigned long long cell[AT_ONCE], uint32_t found) {
  const uint32_t lane = threadIdx.x % LANES;
  uint32_t all, first = 0;
  if (!__any_sync(ALL_LANES, found != 0))
    return;
  uint32_t at = warp_before((uint32_t)__popc(found), lane, &all);
  if (lane == 0)
    first = (uint32_t)atomicAdd(&part.words[TAGC_LHC_QUEUED + round.number], (unsigned long long)all);
  at += part.base + round.to + __shfl_sync(ALL_LANES, first, 0);
  UNROLL_FOR (uint32_t i = 0; i < AT_ONCE; i++)
    if (found >> i & 1)
      lhc.queue[at++] = (uint32_t)cell[i] & 0xffffff;
}

/* Finds the first round's elements. */
DEVICE void look_at_all(const struct tagc_lhc_call &lhc, const struct part &part) {
  const uint32_t all = lhc.geo.hashes * lhc.geo.part_cells, lane = threadIdx.x % LANES, count = element_count(part);
  for (uint32_t from = part.thread - lane; from < all; from += AT_ONCE * part.threads) {
    unsigned long long cell[AT_ONCE];
    uint32_t found = 0;
    UNROLL_FOR (uint32_t i = 0; i < AT_ONCE; i++) {
      const uint32_t at = from + lane + i * part.threads;
      cell[i] = at < all ? __ldcg(&part.cells[at]) : 0;
    }
    UNROLL_FOR (uint32_t i = 0; i < AT_ONCE; i++)
      found |= (uint32_t)look(lhc, part, cell[i], 1, count) << i;
    enqueue(lhc, part, {0, 0, 0}, cell, found);
  }
}

static_assert((int)AT_ONCE == (int)TAGC_LHC_MAX_HASHES, "an element's cells of a turn are looked at together");

/* A due element: its word, its id, its cells of this turn; 0 turns: none. */
struct due {
  unsigned long long word;
  uint64_t cells;
  uint32_t id, turns;
};

/* Fetches a due element, and replaces its id by its value. */
DEVICE struct due fetch_due(const struct tagc_lhc_call &lhc, const struct part &part, uint32_t index) {
  const unsigned long long value = word_read(&lhc.due[part.base + index]);
  const uint32_t id = __ldcg(&lhc.elements[part.base + index]);
  const uint64_t cells = tagc_lhc_cells(part.seed, lhc.geo.part_cells, id);
  lhc.elements[part.base + index] = (uint32_t)value;
  return {value << 32 | 1u << 24 | index, cells, id, turns_of(lhc.geo, cells)};
}

/* Takes an element out of its cells of a turn. Returns the bits of those with one left. */
DEVICE uint32_t take_turn(const struct tagc_lhc_call &lhc, const struct part &part, const struct due &due,
                          uint32_t round, uint32_t count, unsigned long long left[AT_ONCE]) {
  uint32_t found = 0;
  UNROLL_FOR (uint32_t hash = 0; hash < AT_ONCE; hash++)
    left[hash] = hash < lhc.geo.hashes ? atomicAdd(cell_of(lhc, part, due.cells, hash), 0 - due.word) - due.word : 0;
  UNROLL_FOR (uint32_t hash = 0; hash < AT_ONCE; hash++)
    found |= (uint32_t)look(lhc, part, left[hash], round + 1, count) << hash;
  return found;
}

DEVICE void take(const struct tagc_lhc_call &lhc, const struct part &part, const struct round &round, uint32_t count) {
  const uint32_t lane = threadIdx.x % LANES;
  for (uint32_t i = round.from + part.thread - lane; i < round.to; i += part.threads) {
    struct due due = {0, 0, 0, 0};
    if (i + lane < round.to)
      due = fetch_due(lhc, part, __ldcg(&lhc.queue[part.base + i + lane]));
    for (uint32_t turn = 0; __any_sync(ALL_LANES, turn < due.turns); turn++) {
      unsigned long long left[AT_ONCE] = {0, 0, 0, 0};
      uint32_t found = 0;
      if (turn > 0)
        due.cells = tagc_lhc_cells(tagc_lhc_turn_seed(part.seed, turn), lhc.geo.part_cells, due.id);
      if (turn < due.turns)
        found = take_turn(lhc, part, due, round.number, count, left);
      enqueue(lhc, part, round, left, found);
    }
  }
}

/* The checks of a stripe without the elements that were recovered, and the number of elements left in each. */
struct checks {
  uint32_t rest[TAGC_LHC_CHECKS], stuck[TAGC_LHC_CHECKS];
};

/* Fills them; called by all threads of the one group of a stripe. */
DEVICE void fill_checks(const struct tagc_lhc_call &lhc, const struct part &part, uint32_t rounds,
                        struct checks &checks) {
  const struct tagc_lhc_geometry &geo = lhc.geo;
  const int32_t *counters = lhc.sketch_in + (uint64_t)part.stripe * geo.stripe_counters + 3 * geo.part_cells;
  for (uint32_t i = part.thread; i < TAGC_LHC_CHECKS; i += part.threads) {
    checks.rest[i] = (uint32_t)counters[i];
    checks.stuck[i] = 0;
  }
  __syncthreads();
  for (uint32_t local = part.thread; local < part.lines; local += part.threads) {
    const uint2 line = __ldcg((const uint2 *)&lhc.lines[tagc_grid_line(geo.grid.stripes, part.stripe, local)]);
    uint32_t i = line.y; /* as in struct tagc_lhc_line: mask, first */
    for (uint32_t bits = line.x; bits; bits &= bits - 1, i++) {
      const uint32_t id = local * TAGC_GRID_LINE + (uint32_t)__ffs((int)bits) - 1;
      const uint32_t check = tagc_lhc_check(tagc_lhc_cells(part.seed, geo.part_cells, id));
      if (__ldcg(&lhc.due[i]) >> 32 <= rounds)
        atomicSub(&checks.rest[check], __ldcg(&lhc.elements[i]));
      else
        atomicAdd(&checks.stuck[check], 1);
    }
  }
  __syncthreads();
}

/* Replaces the ids of the elements that are not due by `rounds`: by their values, if they are alone in their checks,
 * otherwise by estimates from the rests of their cells, which it counts. */
DEVICE void settle(const struct tagc_lhc_call &lhc, const struct part &part, uint32_t rounds, uint32_t count) {
  __shared__ struct checks checks;
  const struct tagc_lhc_geometry &geo = lhc.geo;
  const int64_t limit = (int64_t)geo.senders * ((INT64_C(1) << geo.counter_bits) - 1);
  uint32_t estimates = 0;
  if (geo.hashes == 3)
    fill_checks(lhc, part, rounds, checks);
  for (uint32_t i = part.thread; i < count; i += part.threads) {
    if (__ldcg(&lhc.due[part.base + i]) >> 32 <= rounds)
      continue;
    const uint64_t cells = tagc_lhc_cells(part.seed, geo.part_cells, __ldcg(&lhc.elements[part.base + i]));
    const uint32_t check = tagc_lhc_check(cells);
    if (geo.hashes == 3 && checks.stuck[check] == 1) {
      lhc.elements[part.base + i] = checks.rest[check];
      continue;
    }
    estimates++;
    int32_t share[TAGC_LHC_MAX_HASHES];
    UNROLL_FOR (uint32_t hash = 0; hash < TAGC_LHC_MAX_HASHES; hash++) {
      const unsigned long long cell = hash < geo.hashes ? __ldcg(cell_of(lhc, part, cells, hash)) : 0;
      const int32_t degree = (int32_t)((uint32_t)cell >> 24);
      share[hash] = (int32_t)(cell >> 32) / (degree ? degree : 1);
    }
    lhc.elements[part.base + i] = (uint32_t)tagc_lhc_median(share, geo.hashes, limit);
  }
  if (estimates)
    atomicAdd((unsigned long long *)&lhc.call.counts->unrecovered, (unsigned long long)estimates);
  __syncthreads(); /* the group's next stripe uses the checks, too */
}

/* The rounds from lhc.round on, and the end of a stripe: one group. If it is alone from the beginning, the steps before
 * the first round, too. */
DEVICE void recover_stripe(const struct tagc_lhc_call &lhc, const struct part &part) {
  if (lhc.parts == 1) {
    list(lhc, part);
    __syncthreads();
    build(lhc, part);
    __syncthreads();
    look_at_all(lhc, part);
    __syncthreads();
  }
  const uint32_t many = element_count(part);
  struct round round = round_of(part, lhc.round);
  while (round.number <= TAGC_LHC_ROUNDS && round.from < round.to) {
    take(lhc, part, round, many);
    __syncthreads();
    const uint32_t queued = (uint32_t)word_read(&part.words[TAGC_LHC_QUEUED + round.number]);
    round = {round.number + 1, round.to, round.to + queued};
  }
  if (round.from == many) /* all are taken */
    return;
  settle(lhc, part, round.number - 1, many);
}

DEVICE void recover(const struct tagc_lhc_call &lhc) {
  if (!lhc.call.state->fits)
    return;
  for (uint32_t stripe = blockIdx.x; stripe < lhc.geo.grid.stripes; stripe += gridDim.x)
    recover_stripe(lhc, part_of(lhc, stripe, 0, 1));
}

/* One round; nothing if the stripe has ended. */
DEVICE void take_round(const struct tagc_lhc_call &lhc, const struct part &part) {
  take(lhc, part, round_of(part, lhc.round), element_count(part));
}

/* A step in a launch of its own: `parts` groups share each stripe. */
template <void step(const struct tagc_lhc_call &, const struct part &)>
DEVICE void share(const struct tagc_lhc_call &lhc) {
  if (lhc.call.state->fits)
    step(lhc, part_of(lhc, blockIdx.x / lhc.parts, blockIdx.x % lhc.parts, lhc.parts));
}

/* -- decode: results ----------------------------------------------------------------------------------------------- */

/* The foreign sums of a lane's elements. */
DEVICE void sums_of(const struct tagc_lhc_call &lhc, uint32_t block, uint32_t lane, float unit, float sum[EACH]) {
  UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
    const uint32_t number = line_of(block, lane, half), shift = lane % 8 * ROW;
    const struct tagc_lhc_line line = number < lhc.geo.grid.lines ? lhc.lines[number] : tagc_lhc_line{0, 0};
    uint32_t at = line.first + (uint32_t)__popc(line.mask & ((1u << shift) - 1));
    UNROLL_FOR (uint32_t i = 0; i < ROW; i++)
      sum[ROW * half + i] = line.mask >> (shift + i) & 1 ? (float)(int32_t)lhc.elements[at++] * unit : 0;
  }
}

DEVICE void write_results(const struct tagc_lhc_call &lhc) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = lhc.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint8_t *exponents = lhc.exponents + lhc.exponent_bytes * call.rank;
  const struct result result = result_of(call);
  bool seen = false;
  for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS) {
    float sum[EACH] = {0, 0, 0, 0, 0, 0, 0, 0};
    const struct rows own = result_fetch(call, result, block, lane, stages[warp]);
    const uint32_t exponent = exponents[block * BLOCK_LINES / TAGC_GRID_BLOCK_LINES];
    const bool sane = exponent >= TAGC_LHC_LEAST_EXPONENT && exponent < 250;
    if (result.fits) /* else there is nothing to add */
      sums_of(lhc, block, lane, sane ? tagc_lhc_unit(exponent, lhc.geo.counter_bits) : 0, sum);
    seen |= result_store(call, result, block, lane, sum, own, stages[warp]);
  }
  note_seen(call, seen, lane);
}

} // namespace lhc

/* -- entries ------------------------------------------------------------------------------------------------------- */

ENTRY(tagc_lhc_measure, tagc_lhc_call, 4, lhc::measure(call));
ENTRY(tagc_lhc_clear, tagc_lhc_call, 4, lhc::clear(call));
ENTRY(tagc_lhc_send, tagc_lhc_call, 2, lhc::send(call));
ENTRY(tagc_lhc_open, tagc_lhc_call, 4, lhc::open(call));
ENTRY(tagc_lhc_result, tagc_lhc_call, 4, lhc::write_results(call));

#define MANY_ENTRY(name, ...) \
  extern "C" __global__ void __launch_bounds__(TAGC_CUDA_MANY_THREADS, 1) name(const struct tagc_lhc_call call) { \
    __VA_ARGS__; \
  } \
  KERNEL(name)

MANY_ENTRY(tagc_lhc_list, lhc::share<lhc::list>(call));
MANY_ENTRY(tagc_lhc_build, lhc::share<lhc::build>(call));
MANY_ENTRY(tagc_lhc_look, lhc::share<lhc::look_at_all>(call));
MANY_ENTRY(tagc_lhc_take, lhc::share<lhc::take_round>(call));
MANY_ENTRY(tagc_lhc_recover, lhc::recover(call));
