/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels for lists of values by block: see cuda.h for the steps, and sparse.c for the same bits on the host.
 *
 * Grid      Groups of eight warps in x, places in y (sum: x). In pack and sum a warp takes tile after tile.
 */
#include "kernels/cuda/call.cuh"
#include "kernels/sparse/lines.cuh"
#include "kernels/sparse/cuda.h"
#include "kernels/sparse/shard_norms.cuh"

/* -- counts of a tile's blocks ------------------------------------------------------------------------------------- */

/* The counts of a tile, in order from the lowest bits on: 8 bits each, or 16. */
struct queue {
  uint32_t word[8];
};

DEVICE uint32_t queue_next(struct queue &queue, bool exact) {
  const uint32_t width = exact ? 16 : 8, first = queue.word[0] & ((1u << width) - 1);
  UNROLL_FOR (uint32_t i = 0; i < 7; i++)
    queue.word[i] = __funnelshift_r(queue.word[i], queue.word[i + 1], width);
  queue.word[7] >>= width;
  return first;
}

/* This may read beyond the last count: a message has more parts there. */
DEVICE struct queue queue_fetch(const uint8_t *counts, uint32_t tile, bool exact) {
  const uint4 *from = (const uint4 *)(counts + (uint64_t)tile * TAGC_LISTS_TILE * (exact ? 2 : 1));
  const uint4 low = from[0], high = exact ? from[1] : make_uint4(0, 0, 0, 0);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

DEVICE uint32_t blocks_of_tile(const struct tagc_cuda_call &call, uint32_t tile) {
  const uint32_t left = call.blocks - tile * TAGC_LISTS_TILE;
  return left < TAGC_LISTS_TILE ? left : (uint32_t)TAGC_LISTS_TILE;
}

/* -- count --------------------------------------------------------------------------------------------------------- */

DEVICE uint32_t count_block(const struct tagc_lists_call &lists, const uint32_t *bitmap, uint32_t block) {
  const uint32_t first = block * BLOCK_LINES, lines = lists.of.grid.lines;
  uint32_t some = 0;
  if (first + BLOCK_LINES <= lines)
    UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
      const uint4 four = ((const uint4 *)(bitmap + first))[half];
      some += (uint32_t)(__popc(four.x) + __popc(four.y) + __popc(four.z) + __popc(four.w));
    }
  else
    for (uint32_t line = first; line < lines; line++)
      some += (uint32_t)__popc(bitmap[line]);
  return lists.exact || some < BLOCK ? some : (uint32_t)BLOCK - 1; /* the value that does not fit a byte goes back */
}

/* Writes the counts of a tile, with the padding of the last ones. Returns their sum. */
DEVICE uint32_t count_blocks(const struct tagc_lists_call &lists, uint32_t place, uint32_t tile) {
  const struct tagc_cuda_call &call = lists.of.call;
  const uint32_t shard = shard_at(call, place), blocks = blocks_of_tile(call, tile);
  const uint32_t *bitmap = lists.of.bitmap + lists.of.bitmap_words * shard;
  uint8_t *counts = call.message_out + call.message_bytes * shard + lists.counts_at;
  uint32_t all = 0;
  UNROLL_FOR (uint32_t four = 0; four < TAGC_LISTS_TILE; four += 4) {
    uint32_t word[2] = {0, 0};
    UNROLL_FOR (uint32_t i = 0; i < 4; i++) {
      const uint32_t some = four + i < blocks ? count_block(lists, bitmap, tile * TAGC_LISTS_TILE + four + i) : 0;
      all += some;
      if (lists.exact)
        word[i / 2] |= some << i % 2 * 16;
      else
        word[0] |= some << 8 * i;
    }
    const uint64_t at = (uint64_t)tile * TAGC_LISTS_TILE + four;
    if (!lists.exact)
      *(uint32_t *)(counts + at) = word[0];
    else if (four / 8 * 8 < blocks) /* the part may end with the first eight */
      *(uint2 *)(counts + 2 * at) = make_uint2(word[0], word[1]);
  }
  return all;
}

/* The sum of the received counts for a tile. */
DEVICE uint32_t count_arrived(const struct tagc_lists_call &lists, uint32_t place, uint32_t tile) {
  const struct tagc_cuda_call &call = lists.of.call;
  const uint8_t *counts = call.message_in + call.message_bytes * shard_at(call, place) + lists.counts_at;
  struct queue queue = queue_fetch(counts, tile, lists.exact);
  uint32_t all = 0;
  for (uint32_t i = 0; i < blocks_of_tile(call, tile); i++)
    all += queue_next(queue, lists.exact);
  return all;
}

/* Counts the values before each tile in its segment, and those of each segment. */
template <bool out> DEVICE void count_lists(const struct tagc_lists_call &lists) {
  for (uint32_t place = blockIdx.y; place < lists.of.call.nranks - 1; place += gridDim.y)
    for (uint32_t segment = blockIdx.x; segment < lists.segments; segment += gridDim.x) {
      const uint32_t tile = segment * TAGC_LISTS_SEGMENT + threadIdx.x;
      uint32_t mine = 0, all;
      if (tile < lists.tiles)
        mine = out ? count_blocks(lists, place, tile) : count_arrived(lists, place, tile);
      const uint32_t before = group_before(mine, &all);
      if (tile < lists.tiles)
        lists.starts[(uint64_t)place * lists.tiles + tile] = before;
      if (threadIdx.x == 0)
        lists.totals[(uint64_t)place * lists.segments + segment] = all;
    }
}

/* The values in the first `segments` segments of a place, by a warp. Received counts may be anything. */
DEVICE uint64_t sum_totals(const struct tagc_lists_call &lists, uint32_t place, uint32_t segments, uint32_t lane) {
  uint64_t sum = 0;
  for (uint32_t i = lane; i < segments; i += LANES)
    sum += lists.totals[(uint64_t)place * lists.segments + i];
  return warp_sum(sum);
}

/* -- pack ---------------------------------------------------------------------------------------------------------- */

/* A lane's sums: squares of the stored residual; squares before rounding of the values that stay and of the chosen
 * ones; the number of values that went back. */
struct packed {
  double norm2, left, chosen;
  uint32_t dropped;
};

/* For a block chosen as a whole: the lane's bit for the smallest value, the last of equal ones. */
DEVICE uint32_t find_surplus(const float x[EACH], uint32_t lane) {
  uint32_t least = 0, last = 0, bit = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    const uint32_t turned = ~(tagc_bits_of(x[i]) & 0x7fffffffu);
    least = turned > least ? turned : least;
  }
  least = ~warp_most(least);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    if ((tagc_bits_of(x[i]) & 0x7fffffffu) == least)
      last = place_of(lane, i);
  last = warp_most(last);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    bit |= (uint32_t)((tagc_bits_of(x[i]) & 0x7fffffffu) == least && place_of(lane, i) == last) << i;
  return bit;
}

/* Writes a value to its place. Returns the error of sending it. */
DEVICE float send(const struct tagc_lists_call &lists, uint8_t *message, uint32_t at, uint32_t place, float x) {
  message[lists.offsets_at + at] = (uint8_t)place;
  if (lists.exact) {
    ((float *)(message + lists.values_at))[at] = x;
    return 0;
  }
  const uint16_t code = tagc_to_bf16(x);
  ((uint16_t *)(message + lists.values_at))[at] = code;
  return x - tagc_from_bf16(code);
}

/* Writes a block's values from `start` on; leaves the rest in x. Returns their number. `picked`: the lane's bits. */
DEVICE uint32_t send_block(const struct tagc_lists_call &lists, uint8_t *message, uint32_t start, uint32_t lane,
                           uint32_t picked, float x[EACH], struct packed *sums) {
  const uint32_t whole = (1u << EACH) - 1, row = (1u << ROW) - 1;
  uint32_t sent = picked, all;
  if (!lists.exact && __all_sync(ALL_LANES, picked == whole)) {
    sent &= ~find_surplus(x, lane);
    sums->dropped += sent != picked;
  }
  const uint32_t low = (uint32_t)__popc(sent & row), high = (uint32_t)__popc(sent >> ROW);
  const uint32_t before = warp_before(low | high << 16, lane, &all);
  uint32_t at[2] = {start + (before & 0xffffu), start + (all & 0xffffu) + (before >> 16)};
  uint32_t stays = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    stays |= (uint32_t)(!(picked >> i & 1) && !tagc_is_exception(tagc_bits_of(x[i]))) << i;
  sums->left += squares_of(x, stays);
  if (picked)
    sums->chosen += squares_of(x, picked);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    if (sent >> i & 1)
      x[i] = send(lists, message, at[i / ROW]++, place_of(lane, i), x[i]);
    else if (tagc_is_exception(tagc_bits_of(x[i])))
      x[i] = 0;
  }
  return (all & 0xffffu) + (all >> 16);
}

/* Writes zeros after the last of `count` values: the group's share. */
DEVICE void clear_rest(const struct tagc_lists_call &lists, uint8_t *message, uint32_t count) {
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
  const uint64_t offsets = lists.values_at - lists.offsets_at,
                 halves = (lists.of.call.message_bytes - lists.values_at) / 2;
  for (uint64_t i = (uint64_t)count + first; i < offsets; i += stride)
    message[lists.offsets_at + i] = 0;
  for (uint64_t i = (uint64_t)count * (lists.exact ? 2 : 1) + first; i < halves; i += stride)
    ((uint16_t *)(message + lists.values_at))[i] = 0;
}

DEVICE void pack_tile(const struct tagc_lists_call &lists, uint32_t place, uint32_t tile, uint32_t lane, float *stage,
                      struct packed *sums) {
  const struct tagc_cuda_call &call = lists.of.call;
  const uint32_t shard = shard_at(call, place), first = tile * TAGC_LISTS_TILE;
  const uint32_t *bitmap = lists.of.bitmap + lists.of.bitmap_words * shard;
  const bool adds = tagc_residual_counts(&call);
  uint8_t *message = call.message_out + call.message_bytes * shard;
  const struct kept kept = kept_of(call, shard);
  uint32_t start = (uint32_t)sum_totals(lists, place, tile / TAGC_LISTS_SEGMENT, lane) +
                   lists.starts[(uint64_t)place * lists.tiles + tile];
  for (uint32_t block = first; block < first + blocks_of_tile(call, tile); block++) {
    const uint32_t picked = lane_bits(lists.of.grid, bitmap, block, lane);
    float x[EACH];
    load(call, shard_of(call, shard), kept, adds, block, lane, stage, x);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = adds ? x[i] : x[i] + 0.0f; /* an empty residual is zero, and -0 + 0 is +0 */
    start += send_block(lists, message, start, lane, picked, x, sums);
    if (call.storage != TAGC_STORAGE_NONE)
      sums->norm2 += kept_store(call, kept, block, lane, count_of(call, block), x, stage);
  }
}

DEVICE void pack(const struct tagc_lists_call &lists) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = lists.of.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  double norm2 = 0;
  for (uint32_t row = blockIdx.y; row < call.nranks - 1; row += gridDim.y) {
    const uint32_t place = call.nranks - 2 - row; /* backwards: the caches have the last data read */
    uint8_t *message = call.message_out + call.message_bytes * shard_at(call, place);
    struct packed sums = {};
    clear_rest(lists, message, (uint32_t)sum_totals(lists, place, lists.segments, lane));
    for (uint32_t i = blockIdx.x * WARPS + warp; i < lists.tiles; i += gridDim.x * WARPS)
      pack_tile(lists, place, lists.tiles - 1 - i, lane, stages[warp], &sums);
    norm2 += sums.norm2;
    add_shard_norms(&lists.of.shards[place], lists.norms + 2 * (uint64_t)gridDim.x * place, sums.left, sums.chosen);
    sums.dropped = warp_sum(sums.dropped);
    if (lane == 0 && sums.dropped > 0)
      atomicAdd((unsigned long long *)&call.state->selected, 0ull - sums.dropped);
  }
  add_norm(call, norm2);
}

/* -- sum ----------------------------------------------------------------------------------------------------------- */

/* Adds the lanes' senders' values for a block: `count` of each from entry `start` on, by sender, then in list order. */
DEVICE void add_values(const struct tagc_lists_call &lists, uint32_t first_sender, uint32_t start, uint32_t count,
                       uint32_t lane, float *sum) {
  const struct tagc_cuda_call &call = lists.of.call;
  uint32_t all;
  const uint32_t before = warp_before(count, lane, &all);
  for (uint32_t some = 0; some < all; some += LANES) {
    const bool there = some + lane < all;
    const uint32_t at = there ? some + lane : all - 1, owner = warp_owner(before, at);
    const uint32_t index = at - __shfl_sync(ALL_LANES, before, (int)owner) + __shfl_sync(ALL_LANES, start, (int)owner);
    const uint8_t *message = call.message_in + call.message_bytes * shard_at(call, first_sender + owner);
    const uint32_t place = message[lists.offsets_at + index];
    const uint8_t *values = message + lists.values_at;
    const float value =
      lists.exact ? ((const float *)values)[index] : tagc_from_bf16(((const uint16_t *)values)[index]);
    /* If the places of a sender increase, all of its values can be added at once; a hostile list may break that. */
    const uint32_t other_owner = __shfl_up_sync(ALL_LANES, owner, 1), other_place = __shfl_up_sync(ALL_LANES, place, 1);
    const bool in_turn = __any_sync(ALL_LANES, lane > 0 && there && owner == other_owner && place <= other_place);
    const uint32_t turn = in_turn ? lane : owner;
    const uint32_t last = __shfl_sync(ALL_LANES, turn, LANES - 1);
    for (uint32_t now = __shfl_sync(ALL_LANES, turn, 0); now <= last; now++) {
      if (there && turn == now)
        sum[place] += value;
      __syncwarp();
    }
  }
}

/* The entries before a tile of a sender, cut at the end of its list. */
DEVICE uint32_t entries_before(const struct tagc_lists_call &lists, uint32_t sender, uint32_t tile) {
  uint64_t before = lists.starts[(uint64_t)sender * lists.tiles + tile];
  UNROLL_4_FOR (uint32_t i = 0; i < tile / TAGC_LISTS_SEGMENT; i++)
    before += lists.totals[(uint64_t)sender * lists.segments + i];
  return before < lists.capacity ? (uint32_t)before : lists.capacity;
}

/* The part of `count` values from `at` on that is in the list. */
DEVICE uint32_t listed(const struct tagc_lists_call &lists, uint32_t at, uint32_t count) {
  return count < lists.capacity - at ? count : lists.capacity - at;
}

/* A lane's place in the list of its sender. */
struct cursor {
  struct queue queue;
  uint32_t at;
};

/* The cursor at the start of a tile, for the lane's sender. */
DEVICE struct cursor cursor_at(const struct tagc_lists_call &lists, uint32_t tile, uint32_t lane) {
  const struct tagc_cuda_call &call = lists.of.call;
  if (lane >= call.nranks - 1)
    return {};
  const uint8_t *message = call.message_in + call.message_bytes * shard_at(call, lane);
  return {queue_fetch(message + lists.counts_at, tile, lists.exact), entries_before(lists, lane, tile)};
}

/* Adds the block's values of up to 32 senders, one a lane, which keeps its cursor. */
DEVICE void add_of_few(const struct tagc_lists_call &lists, struct cursor &cursor, uint32_t lane, float *sum) {
  const uint32_t count = queue_next(cursor.queue, lists.exact);
  const uint32_t some = lane < lists.of.call.nranks - 1 ? listed(lists, cursor.at, count) : 0;
  cursor.at += some;
  add_values(lists, 0, cursor.at - some, some, lane, sum);
}

/* The same for more senders: the cursors replace the tile's starts, which are this warp's alone. */
DEVICE void add_of_many(const struct tagc_lists_call &lists, uint32_t block, uint32_t lane, float *sum) {
  const struct tagc_cuda_call &call = lists.of.call;
  const uint32_t tile = block / TAGC_LISTS_TILE;
  for (uint32_t first = 0; first < call.nranks - 1; first += LANES) {
    const uint32_t sender = first + lane;
    uint32_t at = 0, some = 0;
    if (sender < call.nranks - 1) {
      uint32_t *kept = &lists.starts[(uint64_t)sender * lists.tiles + tile];
      const uint8_t *counts = call.message_in + call.message_bytes * shard_at(call, sender) + lists.counts_at;
      at = block % TAGC_LISTS_TILE == 0 ? entries_before(lists, sender, tile) : *kept;
      some = listed(lists, at, lists.exact ? ((const uint16_t *)counts)[block] : counts[block]);
      *kept = at + some;
    }
    add_values(lists, first, at, some, lane, sum);
  }
}

DEVICE void sum_tile(const struct tagc_lists_call &lists, const struct result &result, uint32_t tile, uint32_t lane,
                     float *stage, bool *seen) {
  const struct tagc_cuda_call &call = lists.of.call;
  const bool few = call.nranks - 1 <= LANES;
  struct cursor cursor = {};
  if (few)
    cursor = cursor_at(lists, tile, lane);
  for (uint32_t i = 0; i < blocks_of_tile(call, tile); i++) {
    const uint32_t block = tile * TAGC_LISTS_TILE + i;
    const struct rows own = result_fetch(call, result, block, lane, stage);
    float sum[EACH];
    __syncwarp();
    UNROLL_FOR (uint32_t k = 0; k < EACH; k++)
      stage[LANES * k + lane] = 0;
    __syncwarp();
    if (few)
      add_of_few(lists, cursor, lane, stage);
    else
      add_of_many(lists, block, lane, stage);
    UNROLL_FOR (uint32_t k = 0; k < EACH; k++)
      sum[k] = stage[place_of(lane, k)];
    *seen |= result_store(call, result, block, lane, sum, own, stage);
  }
}

DEVICE void sum_lists(const struct tagc_lists_call &lists) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = lists.of.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const struct result result = result_of(call);
  bool seen = false;
  for (uint32_t tile = blockIdx.x * WARPS + warp; tile < lists.tiles; tile += gridDim.x * WARPS)
    sum_tile(lists, result, tile, lane, stages[warp], &seen);
  note_seen(call, seen, lane);
}

/* -- entries ------------------------------------------------------------------------------------------------------- */

ENTRY(tagc_sparse_out_starts, tagc_lists_call, 4, count_lists<true>(call));
ENTRY(tagc_sparse_out, tagc_lists_call, 3, pack(call));
ENTRY(tagc_sparse_in_starts, tagc_lists_call, 4, count_lists<false>(call));
ENTRY(tagc_sparse_in, tagc_lists_call, 3, sum_lists(call));
