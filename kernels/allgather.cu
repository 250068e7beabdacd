/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of the codecs for all-gathers: see allgather_cuda.h for what they do, and allgather_{bf16,q8,lossless,delta}.c for the
 * same on the host, to the bit.
 *
 * Grid      encode: groups of eight warps in x; decode: the same, and shards in y. A warp takes block after block of 256, which it
 *           holds as lanes.cuh says. `starts` and `escapes`: a group takes a segment of 256 blocks.
 * Order     Exceptions are appended as they come and sorted when all are there. Escapes have their places by counting: no atomics.
 *           Nothing else is shared between warps, but for sums of whole numbers.
 */
#include "kernels/allgather_cuda.h"
#include "kernels/dense_codecs.cuh"
#include "kernels/exceptions.cuh"
#include "kernels/lines.cuh"

namespace gathered {

DEVICE uint8_t *payload_of(const struct tagc_allgather_call &gather, uint32_t rank)
{
  return gather.call.message_out + gather.call.message_bytes * rank;
}

DEVICE struct tagc_allgather_header *header_of(const struct tagc_allgather_call &gather, uint32_t rank)
{
  return (struct tagc_allgather_header *)payload_of(gather, rank);
}

/* A block of a buffer of shards. */
DEVICE char *block_of(const struct tagc_allgather_call &gather, void *shards, uint32_t rank, uint32_t block)
{
  return (char *)shards + (gather.call.n * rank + (uint64_t)block * BLOCK) * size_of(gather.call);
}

DEVICE const char *sent_block(const struct tagc_allgather_call &gather, uint32_t block)
{
  return (const char *)gather.call.send + (uint64_t)block * BLOCK * size_of(gather.call);
}

/* Is the shard left as it is? */
DEVICE bool is_kept(const struct tagc_allgather_call &gather, uint32_t rank) { return gather.keep_own && rank == gather.call.rank; }

/* -- before and behind ---------------------------------------------------------------------------------------------- */

/* The header, the list of exceptions, what pads, and the state: zeros. */
DEVICE void open(const struct tagc_allgather_call &gather)
{
  uint8_t *payload = payload_of(gather, gather.call.rank);
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint32_t i = first; i < gather.call.list_bytes / 16; i += gridDim.x * blockDim.x)
    ((uint4 *)(payload + gather.exceptions))[i] = make_uint4(0, 0, 0, 0);
  if (first > 0)
    return;
  *header_of(gather, gather.call.rank) = {};
  *(uint4 *)(payload + gather.padding[0]) = make_uint4(0, 0, 0, 0);
  *(uint4 *)(payload + gather.padding[1]) = make_uint4(0, 0, 0, 0);
  *gather.state = {};
}

DEVICE void refuse(const struct tagc_allgather_call &gather) { header_of(gather, gather.call.rank)->flags = TAGC_ALLGATHER_REFUSED; }

/* q8: exceptions in order, by one group. */
DEVICE void close_list(const struct tagc_allgather_call &gather)
{
  struct tagc_exceptions *list = (struct tagc_exceptions *)(payload_of(gather, gather.call.rank) + gather.exceptions);
  const uint32_t count = list->count;
  if (count <= gather.call.capacity)
    sort(list->entry, count);
  else
    for (uint32_t at = threadIdx.x; at < gather.call.capacity; at += blockDim.x)
      list->entry[at] = {0, 0};
  if (threadIdx.x > 0)
    return;
  if (count > gather.call.capacity)
    refuse(gather);
  if (gather.call.counts)
    gather.call.counts->nonfinite += count;
}

/* delta: is the reference one for this shard? */
DEVICE void weigh(const struct tagc_allgather_call &gather)
{
  if (threadIdx.x == 0 && (gather.state->unfit || tagc_delta_refuses(gather.state->far, gather.call.blocks)))
    refuse(gather);
}

/* What the headers say: by one group. */
DEVICE void look(const struct tagc_allgather_call &gather)
{
  bool refused = false;
  for (uint32_t rank = threadIdx.x; rank < gather.call.nranks; rank += blockDim.x)
    refused |= header_of(gather, rank)->flags & TAGC_ALLGATHER_REFUSED;
  refused = __syncthreads_or(refused);
  if (threadIdx.x > 0)
    return;
  gather.state->refused = refused;
  if (gather.call.counts)
    gather.call.counts->overflowed += refused;
}

/* -- bf16 ----------------------------------------------------------------------------------------------------------- */

struct bf16 {
  static __device__ __forceinline__ void encode(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane,
                                                struct scratch *scratch)
  {
    const uint32_t count = count_of(gather.call, block);
    struct rows to = {};
    const struct rows rows = rows_fetch<4, true>(sent_block(gather, block), lane, count, scratch->stage);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      rows_put<2>(to, i, tagc_allgather_to_bf16(tagc_float_of(rows_get<4>(rows, i))));
    rows_store<2>(payload_of(gather, gather.call.rank) + gather.codes + (uint64_t)block * BLOCK * 2, lane, count, to,
                  scratch->stage);
  }

  static __device__ __forceinline__ void decode(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t block,
                                                uint32_t lane, float *stage)
  {
    const uint32_t count = count_of(gather.call, block);
    struct rows to = {};
    const struct rows rows = rows_fetch<2>(payload_of(gather, rank) + gather.codes + (uint64_t)block * BLOCK * 2, lane, count, stage);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      rows_put<4>(to, i, rows_get<2>(rows, i) << 16);
    rows_store<4>(block_of(gather, gather.call.recv, rank, block), lane, count, to, stage);
  }
};

/* -- q8 ------------------------------------------------------------------------------------------------------------- */

struct q8 {
  static __device__ __forceinline__ void encode(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane,
                                                struct scratch *scratch)
  {
    const struct tagc_cuda_call &call = gather.call;
    uint8_t *payload = payload_of(gather, call.rank);
    uint32_t scales = 0;
    struct rows codes = {};
    float x[EACH];
    elements_convert(elements_fetch<true>(sent_block(gather, block), call.dtype, lane, count_of(call, block), scratch->stage),
                     call.dtype, x);
    if (__any_sync(ALL_LANES, has_exception(x)))
      append(call, (struct tagc_exceptions *)(payload + gather.exceptions), block, lane, x);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = tagc_dense_strip(x[i]);
    UNROLL for (uint32_t half = 0; half < 2; half++) {
      const uint16_t scale = tagc_scale_up(warp_largest(x + ROW * half, ROW), 127);
      const float inverse = tagc_scale_inverse(scale);
      scales |= (uint32_t)scale << 16 * half;
      UNROLL for (uint32_t i = ROW * half; i < ROW * half + ROW; i++)
        rows_put<1>(codes, i, (uint32_t)(int32_t)tagc_code(x[i] * inverse, 127) & 0xff);
    }
    rows_write<1>((char *)payload + gather.codes + (uint64_t)block * BLOCK, lane, codes);
    if (lane == 0)
      ((uint32_t *)(payload + gather.scales))[block] = scales;
  }

  static __device__ __forceinline__ void decode(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t block,
                                                uint32_t lane, float *stage)
  {
    const struct tagc_cuda_call &call = gather.call;
    const uint8_t *payload = payload_of(gather, rank);
    const uint32_t scales = ((const uint32_t *)(payload + gather.scales))[block];
    const struct rows codes = rows_read<1>((const char *)payload + gather.codes + (uint64_t)block * BLOCK, lane);
    float x[EACH];
    UNROLL for (uint32_t i = 0; i < EACH; i++) {
      const float scale = tagc_from_bf16((uint16_t)(scales >> i / ROW * 16));
      x[i] = tagc_allgather_within((float)(int8_t)rows_get<1>(codes, i) * scale, (enum tagc_dtype)call.dtype);
      x[i] = x[i] == x[i] ? x[i] : tagc_float_of(TAGC_NAN_BITS);
    }
    elements_store(block_of(gather, call.recv, rank, block), call.dtype, lane, count_of(call, block), x, stage);
  }
};

DEVICE void put_one(const struct tagc_allgather_call &gather, uint32_t rank, const struct tagc_exception &entry)
{
  if (entry.position < gather.call.n)
    tagc_store(gather.call.recv, gather.call.n * rank + entry.position, (enum tagc_dtype)gather.call.dtype, tagc_float_of(entry.bits));
}

/* Exceptions go to their places: a warp's work, one after the other where they have no order, which no sender of ours makes. */
DEVICE void put_exceptions(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t lane)
{
  const struct tagc_exceptions *list = (const struct tagc_exceptions *)(payload_of(gather, rank) + gather.exceptions);
  const uint32_t count = list->count < gather.call.capacity ? list->count : gather.call.capacity;
  for (uint32_t first = 0; first < count; first += LANES) {
    const bool there = first + lane < count;
    const struct tagc_exception entry = there ? list->entry[first + lane] : tagc_exception{0xffffffffu, 0};
    const uint32_t before = __shfl_up_sync(ALL_LANES, entry.position, 1);
    if (__all_sync(ALL_LANES, !there || lane == 0 || before < entry.position)) {
      if (there)
        put_one(gather, rank, entry);
    } else if (lane == 0)
      for (uint32_t i = first; i < first + LANES && i < count; i++)
        put_one(gather, rank, list->entry[i]);
    __syncwarp();
  }
}

DEVICE void put(const struct tagc_allgather_call &gather)
{
  if (gather.state->refused)
    return;
  for (uint32_t rank = blockIdx.x * WARPS + threadIdx.x / LANES; rank < gather.call.nranks; rank += gridDim.x * WARPS)
    if (!is_kept(gather, rank))
      put_exceptions(gather, rank, threadIdx.x % LANES);
}

/* -- lossless ------------------------------------------------------------------------------------------------------- */

/* An element's lower 16 bits where it has 32, and what has sign and exponent. */
struct apart {
  uint32_t half, low;
};

DEVICE struct apart take_apart(uint32_t bits, bool wide)
{
  return {wide ? bits >> 16 : bits, bits & 0xffff};
}

/* Of a lane's exponents: the least of the largest of those whose places are equal modulo 8. */
DEVICE uint32_t least_group(const uint32_t exponent[EACH])
{
  uint32_t least = 0xff;
  UNROLL for (uint32_t i = 0; i < ROW; i++) {
    uint32_t most = exponent[i] > exponent[ROW + i] ? exponent[i] : exponent[ROW + i];
    UNROLL for (int by = 2; by < LANES; by *= 2) {
      const uint32_t other = __shfl_xor_sync(ALL_LANES, most, by);
      most = other > most ? other : most;
    }
    least = most < least ? most : least;
  }
  const uint32_t other = __shfl_xor_sync(ALL_LANES, least, 1);
  return other < least ? other : least;
}

DEVICE uint32_t count_escapes(const uint32_t exponent[EACH], uint32_t base)
{
  uint32_t count = 0;
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    count += tagc_lossless_code(exponent[i], base) == TAGC_LOSSLESS_ESCAPE;
  return count;
}

/* A lane's elements as they are, the shard's last one behind its end. */
DEVICE struct rows fetch_whole(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane, bool wide, float *stage)
{
  const uint32_t count = count_of(gather.call, block);
  const char *from = sent_block(gather, block);
  struct rows rows = wide ? rows_fetch<4>(from, lane, count, stage) : rows_fetch<2>(from, lane, count, stage);
  if (count == BLOCK)
    return rows;
  const uint32_t last = wide ? ((const uint32_t *)from)[count - 1] : ((const uint16_t *)from)[count - 1];
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    if (place_of(lane, i) >= count) {         /* there are zeros */
      if (wide)
        rows_put<4>(rows, i, last);
      else
        rows_put<2>(rows, i, last);
    }
  return rows;
}

struct lossless {
  /* The record, the base and the lower halves; in place of its start, how many escapes the block has. */
  static __device__ __forceinline__ void encode(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane,
                                                struct scratch *scratch)
  {
    const bool wide = gather.call.dtype == TAGC_FLOAT32;
    uint8_t *payload = payload_of(gather, gather.call.rank), *record = payload + gather.blocks + (uint64_t)block * TAGC_LOSSLESS_RECORD;
    const struct rows rows = fetch_whole(gather, block, lane, wide, scratch->stage);
    struct rows rests = {}, lows = {};
    uint32_t exponent[EACH], bits[3] = {0, 0, 0};
    UNROLL for (uint32_t i = 0; i < EACH; i++) {
      const struct apart apart = take_apart(wide ? rows_get<4>(rows, i) : rows_get<2>(rows, i), wide);
      exponent[i] = tagc_lossless_exponent(apart.half);
      rows_put<1>(rests, i, tagc_lossless_rest(apart.half));
      rows_put<2>(lows, i, apart.low);
    }
    const uint32_t m = least_group(exponent);
    const uint32_t both = warp_add(count_escapes(exponent, m) | count_escapes(exponent, m + 1) << 16);
    const uint32_t base = tagc_lossless_base(m, both & 0xffff, both >> 16);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      UNROLL for (uint32_t plane = 0; plane < 3; plane++)
        bits[plane] |= (tagc_lossless_code(exponent[i], base) >> plane & 1) << i;
    UNROLL for (uint32_t plane = 0; plane < 3; plane++)
      UNROLL for (uint32_t half = 0; half < 2; half++) {
        const uint32_t word = line_word(bits[plane], lane, half);
        if (lane % 8 == 2 * plane + half)
          ((uint32_t *)(record + plane * TAGC_LOSSLESS_PLANE))[half * (LANES / 8) + lane / 8] = word;
      }
    rows_write<1>((char *)record + TAGC_LOSSLESS_RESTS, lane, rests);
    if (wide)
      rows_write<2>((char *)payload + gather.lows + (uint64_t)block * BLOCK * 2, lane, lows);
    if (lane == 0) {
      payload[gather.bases + block] = (uint8_t)base;
      ((uint32_t *)(payload + gather.starts))[block] = base == m ? both & 0xffff : both >> 16;
    }
  }

  static __device__ __forceinline__ void decode(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t block,
                                                uint32_t lane, float *stage)
  {
    const bool wide = gather.call.dtype == TAGC_FLOAT32;
    const uint32_t count = count_of(gather.call, block), shift = lane % 8 * ROW;
    const uint8_t *payload = payload_of(gather, rank), *record = payload + gather.blocks + (uint64_t)block * TAGC_LOSSLESS_RECORD;
    const struct rows rests = rows_read<1>((const char *)record + TAGC_LOSSLESS_RESTS, lane);
    struct rows lows = {}, to = {};
    if (wide)
      lows = rows_read<2>((const char *)payload + gather.lows + (uint64_t)block * BLOCK * 2, lane);
    uint32_t bits[3] = {0, 0, 0}, exponent[EACH];
    UNROLL for (uint32_t plane = 0; plane < 3; plane++)
      UNROLL for (uint32_t half = 0; half < 2; half++) {
        const uint32_t word = ((const uint32_t *)(record + plane * TAGC_LOSSLESS_PLANE))[half * (LANES / 8) + lane / 8];
        bits[plane] |= (word >> shift & ((1u << ROW) - 1)) << ROW * half;
      }
    const uint32_t base = payload[gather.bases + block], escapes = bits[0] & bits[1] & bits[2];
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      exponent[i] = base - (bits[0] >> i & 1) - 2 * (bits[1] >> i & 1) - 4 * (bits[2] >> i & 1);
    if (__any_sync(ALL_LANES, escapes != 0))
      take_escapes(gather, payload, block, lane, escapes, exponent);
    UNROLL for (uint32_t i = 0; i < EACH; i++) {
      const uint32_t half = tagc_lossless_half(exponent[i], rows_get<1>(rests, i));
      if (wide)
        rows_put<4>(to, i, half << 16 | rows_get<2>(lows, i));
      else
        rows_put<2>(to, i, half);
    }
    char *at = block_of(gather, gather.call.recv, rank, block);
    if (wide)
      rows_store<4>(at, lane, count, to, stage);
    else
      rows_store<2>(at, lane, count, to, stage);
  }

  /* The exponents of a block that are beside, in order of position: `escapes` has a bit for each of the lane's. What leads out of the
   * list is zero. */
  static __device__ __forceinline__ void take_escapes(const struct tagc_allgather_call &gather, const uint8_t *payload,
                                                      uint32_t block, uint32_t lane, uint32_t escapes, uint32_t exponent[EACH])
  {
    const uint32_t said = ((const uint32_t *)(payload + gather.starts))[block], row = (1u << ROW) - 1;
    const uint32_t start = said < gather.escapes ? said : gather.escapes, end = (uint32_t)(gather.bases - gather.escaped);
    uint32_t all;
    const uint32_t before = warp_before((uint32_t)__popc(escapes & row) | (uint32_t)__popc(escapes >> ROW) << 16, lane, &all);
    uint32_t at[2] = {start + (before & 0xffff), start + (all & 0xffff) + (before >> 16)};
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      if (escapes >> i & 1) {
        exponent[i] = at[i / ROW] < end ? payload[gather.escaped + at[i / ROW]] : 0;
        at[i / ROW]++;
      }
  }
};

/* How many escapes come before each block in its segment, and how many a segment has. */
DEVICE void count_starts(const struct tagc_allgather_call &gather)
{
  uint32_t *starts = (uint32_t *)(payload_of(gather, gather.call.rank) + gather.starts);
  for (uint32_t segment = blockIdx.x; segment < gather.segments; segment += gridDim.x) {
    const uint32_t block = segment * TAGC_ALLGATHER_SEGMENT + threadIdx.x;
    uint32_t all;
    const uint32_t before = group_before(block < gather.call.blocks ? starts[block] : 0, &all);
    if (block < gather.call.blocks)
      starts[block] = before;
    if (threadIdx.x == 0)
      gather.totals[segment] = all;
  }
}

/* Escapes of four blocks of a segment, eight lanes each: their places are known by `offset`, of the segment. */
DEVICE void send_escapes(const struct tagc_allgather_call &gather, uint32_t block, uint32_t offset, uint32_t lane)
{
  const bool wide = gather.call.dtype == TAGC_FLOAT32, there = block < gather.call.blocks;
  uint8_t *payload = payload_of(gather, gather.call.rank);
  uint32_t *starts = (uint32_t *)(payload + gather.starts);
  const uint32_t *planes = (const uint32_t *)(payload + gather.blocks + (uint64_t)block * TAGC_LOSSLESS_RECORD);
  const uint32_t word = lane % 8, step = TAGC_LOSSLESS_PLANE / 4;
  const uint32_t mask = there ? planes[word] & planes[step + word] & planes[2 * step + word] : 0;
  const uint32_t start = there ? offset + starts[block] : 0;
  uint32_t all;
  const uint32_t before = warp_before((uint32_t)__popc(mask), lane, &all);
  uint32_t at = start + before - __shfl_sync(ALL_LANES, before, (int)(lane / 8 * 8));
  __syncwarp();                    /* all have read where the block starts */
  if (there && word == 0)
    starts[block] = start;
  for (uint32_t left = mask; left; left &= left - 1, at++) {
    const uint64_t position = (uint64_t)block * BLOCK + word * 32 + (uint32_t)__ffs((int)left) - 1;
    const uint64_t i = position < gather.call.n ? position : gather.call.n - 1;
    const uint32_t bits = wide ? ((const uint32_t *)gather.call.send)[i] : ((const uint16_t *)gather.call.send)[i];
    if (at < gather.escapes)
      payload[gather.escaped + at] = (uint8_t)tagc_lossless_exponent(take_apart(bits, wide).half);
  }
}

/* Escapes, and zeros behind the last; more than there is room for: the shard is refused. */
DEVICE void list_escapes(const struct tagc_allgather_call &gather)
{
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  uint8_t *payload = payload_of(gather, gather.call.rank);
  uint32_t total = 0;
  for (uint32_t segment = blockIdx.x; segment < gather.segments; segment += gridDim.x) {
    uint32_t mine = 0, upto = 0, offset;
    for (uint32_t i = threadIdx.x; i < gather.segments; i += blockDim.x) {
      mine += gather.totals[i];
      upto += i < segment ? gather.totals[i] : 0;
    }
    group_before(mine, &total);
    group_before(upto, &offset);
    for (uint32_t i = lane / 8; i < LANES; i += LANES / 8)
      send_escapes(gather, segment * TAGC_ALLGATHER_SEGMENT + warp * LANES + i, offset, lane);
  }
  const uint64_t end = gather.bases - gather.escaped;
  for (uint64_t i = (uint64_t)total + blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x)
    payload[gather.escaped + i] = 0;
  if (blockIdx.x > 0 || threadIdx.x > 0)
    return;
  if (total > gather.escapes)
    refuse(gather);
  if (gather.call.counts)
    gather.call.counts->selected += total;
}

/* -- delta ---------------------------------------------------------------------------------------------------------- */

/* Two rows of a block, apart by so much that half a warp each reads without waiting for the other. */
struct pair {
  float row[2][BLOCK + LANES / 2];
};

/* The sums of squares of differences and values decide whether the block is far: lanes 0 to 15 add the former, the others the
 * latter, in the order of allgather_steps.h. */
DEVICE bool is_far(const float difference[EACH], const float value[EACH], uint32_t lane, struct pair *pair)
{
  float squares = 0;
  __syncwarp();
  UNROLL for (uint32_t i = 0; i < EACH; i++) {
    pair->row[0][place_of(lane, i)] = difference[i];
    pair->row[1][place_of(lane, i)] = value[i];
  }
  __syncwarp();
  const float *row = pair->row[lane / 16];
  UNROLL_4 for (uint32_t i = 0; i < BLOCK; i += 16) {
    const float x = row[i + lane % 16];
    squares += x * x;
  }
  __syncwarp();
  squares = tree_sum(squares);
  return tagc_delta_far(__shfl_sync(ALL_LANES, squares, 0), __shfl_sync(ALL_LANES, squares, 16));
}

DEVICE void encode_delta(const struct tagc_allgather_call &gather)
{
  __shared__ __align__(16) struct pair pairs[WARPS];
  const struct tagc_cuda_call &call = gather.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, stride = gridDim.x * WARPS;
  float *stage = pairs[warp].row[0];
  uint8_t *payload = payload_of(gather, call.rank);
  uint32_t far = 0;
  bool unfit = false;
  struct sent to = {};
  to.rotation_key = tagc_rotation_key(call.seed, call.rank);
  for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += stride) {
    const uint32_t count = count_of(call, block);
    float value[EACH], difference[EACH], unused[EACH];
    const struct rows sent = elements_fetch<true>(sent_block(gather, block), call.dtype, lane, count, stage);
    const struct rows was = elements_fetch(block_of(gather, gather.reference, call.rank, block), call.dtype, lane, count, stage);
    elements_convert(sent, call.dtype, value);
    elements_convert(was, call.dtype, difference);
    UNROLL for (uint32_t i = 0; i < EACH; i++) {
      difference[i] = value[i] - difference[i];
      unfit |= tagc_delta_unfit(value[i], difference[i]);
    }
    far += is_far(difference, value, lane, &pairs[warp]);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      difference[i] = tagc_dense_strip(difference[i]);
    to.scales = (uint16_t *)(payload + gather.scales) + (uint64_t)block * steps<TAGC_DENSE_Q4>::SCALES;
    to.codes = payload + gather.codes + (uint64_t)block * steps<TAGC_DENSE_Q4>::BYTES;
    to.block = block;
    to.count = count;
    steps<TAGC_DENSE_Q4>::encode(to, difference, lane, stage, unused);
  }
  unfit = __any_sync(ALL_LANES, unfit);
  if (lane == 0 && unfit)
    atomicOr(&gather.state->unfit, 1u);
  if (lane == 0 && far > 0)
    atomicAdd(&gather.state->far, far);
}

struct delta {
  static __device__ __forceinline__ void decode(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t block,
                                                uint32_t lane, float *stage)
  {
    typedef steps<TAGC_DENSE_Q4> q4;
    const struct tagc_cuda_call &call = gather.call;
    const uint32_t count = count_of(call, block);
    const uint8_t *payload = payload_of(gather, rank);
    char *kept = block_of(gather, gather.reference, rank, block);
    const uint16_t *scales = (const uint16_t *)(payload + gather.scales) + (uint64_t)block * q4::SCALES;
    float x[EACH], sum[EACH] = {0, 0, 0, 0, 0, 0, 0, 0};
    const struct rows was = elements_fetch(kept, call.dtype, lane, count, stage);
    q4::add(sum, scales, payload + gather.codes + (uint64_t)block * q4::BYTES, lane, count, stage);
    turn_back(sum, signs_of(tagc_rotation_key(call.seed, rank), block, lane), lane);
    elements_convert(was, call.dtype, x);
    UNROLL for (uint32_t i = 0; i < EACH; i++) {
      x[i] = tagc_allgather_within(x[i] + sum[i], (enum tagc_dtype)call.dtype);
      x[i] = x[i] == x[i] ? x[i] : tagc_float_of(TAGC_NAN_BITS);
    }
    elements_store(kept, call.dtype, lane, count, x, stage);
    if (!is_kept(gather, rank))
      elements_store(block_of(gather, call.recv, rank, block), call.dtype, lane, count, x, stage);
  }
};

/* -- all blocks ----------------------------------------------------------------------------------------------------- */

template <typename codec> DEVICE void encode(const struct tagc_allgather_call &gather)
{
  __shared__ __align__(16) struct scratch scratch[WARPS];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (uint32_t block = blockIdx.x * WARPS + warp; block < gather.call.blocks; block += gridDim.x * WARPS)
    codec::encode(gather, block, lane, &scratch[warp]);
}

/* keeps: the own shard is looked at though it is not received. */
template <typename codec, bool keeps, bool may_refuse> DEVICE void decode(const struct tagc_allgather_call &gather)
{
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  if (may_refuse && gather.state->refused)
    return;
  for (uint32_t rank = blockIdx.y; rank < gather.call.nranks; rank += gridDim.y)
    for (uint32_t block = blockIdx.x * WARPS + warp; block < gather.call.blocks && (keeps || !is_kept(gather, rank));
         block += gridDim.x * WARPS)
      codec::decode(gather, rank, block, lane, stages[warp]);
}

}  // namespace gathered

/* -- entries -------------------------------------------------------------------------------------------------------- */

ENTRY(tagc_allgather_open, tagc_allgather_call, 4, gathered::open(call));
ENTRY(tagc_allgather_encode_bf16, tagc_allgather_call, 4, gathered::encode<gathered::bf16>(call));
ENTRY(tagc_allgather_encode_q8, tagc_allgather_call, 4, gathered::encode<gathered::q8>(call));
ENTRY(tagc_allgather_encode_lossless, tagc_allgather_call, 3, gathered::encode<gathered::lossless>(call));
ENTRY(tagc_allgather_encode_delta, tagc_allgather_call, 3, gathered::encode_delta(call));
ENTRY(tagc_allgather_list, tagc_allgather_call, 1, gathered::close_list(call));
ENTRY(tagc_allgather_starts, tagc_allgather_call, 4, gathered::count_starts(call));
ENTRY(tagc_allgather_escapes, tagc_allgather_call, 4, gathered::list_escapes(call));
ENTRY(tagc_allgather_weigh, tagc_allgather_call, 1, gathered::weigh(call));
ENTRY(tagc_allgather_look, tagc_allgather_call, 1, gathered::look(call));
ENTRY(tagc_allgather_decode_bf16, tagc_allgather_call, 4, gathered::decode<gathered::bf16, false, false>(call));
ENTRY(tagc_allgather_decode_q8, tagc_allgather_call, 4, gathered::decode<gathered::q8, false, true>(call));
ENTRY(tagc_allgather_decode_lossless, tagc_allgather_call, 3, gathered::decode<gathered::lossless, false, true>(call));
ENTRY(tagc_allgather_decode_delta, tagc_allgather_call, 3, gathered::decode<gathered::delta, true, true>(call));
ENTRY(tagc_allgather_put, tagc_allgather_call, 4, gathered::put(call));
