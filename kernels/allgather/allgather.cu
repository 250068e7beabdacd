/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of the codecs for all-gathers: see cuda.h for their calls, and {bf16,q8,lossless,delta}.c for the same on
 * the host, to the bit.
 *
 * Grid      encode: groups of eight warps in x; decode: the same, and shards in y. A warp takes block after block of
 *           256, and holds it as in lanes.cuh. `starts` and `escapes`: a group takes a segment of 256 blocks.
 * Order     Exceptions are appended in any order and sorted at the end. Escapes get their places by counting: no
 *           atomics. Warps share nothing else but sums of whole numbers.
 */
#include "kernels/allgather/lossless.cuh"
#include "kernels/dense/codecs.cuh"
#include "kernels/cuda/exceptions.cuh"

namespace gathered {

/* -- before and behind --------------------------------------------------------------------------------------------- */

/* Zeroes the header, the list of exceptions, the padding, and the state. */
DEVICE void open(const struct tagc_allgather_call &gather) {
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

/* q8: one group sorts the exceptions; too many lose the shard. */
DEVICE void close_list(const struct tagc_allgather_call &gather) {
  struct tagc_exceptions *list = (struct tagc_exceptions *)(payload_of(gather, gather.call.rank) + gather.exceptions);
  const uint32_t count = list->count;
  if (count <= gather.call.capacity)
    sort(list->entry, count);
  else {
    uint16_t *scales = (uint16_t *)(payload_of(gather, gather.call.rank) + gather.scales);
    for (uint32_t at = threadIdx.x; at < gather.call.capacity; at += blockDim.x)
      list->entry[at] = {0, 0};
    for (uint32_t at = threadIdx.x; at < 2 * gather.call.blocks; at += blockDim.x)
      scales[at] = TAGC_Q8_LOST;
  }
  if (threadIdx.x == 0 && gather.call.counts)
    gather.call.counts->nonfinite += count;
}

/* delta: refuses the shard if its reference does not fit. */
DEVICE void weigh(const struct tagc_allgather_call &gather) {
  if (threadIdx.x == 0 && (gather.state->unfit || tagc_delta_refuses(gather.state->far, gather.call.blocks)))
    refuse(gather);
}

/* Reads the headers, in one group. */
DEVICE void look(const struct tagc_allgather_call &gather) {
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

/* -- bf16 ---------------------------------------------------------------------------------------------------------- */

struct bf16 {
  static __device__ __forceinline__ void encode(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane,
                                                struct scratch *scratch) {
    const uint32_t count = count_of(gather.call, block);
    struct rows to = {};
    const struct rows rows = rows_fetch<4, true>(sent_block(gather, block), lane, count, scratch->stage);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      rows_put<2>(to, i, tagc_allgather_to_bf16(tagc_float_of(rows_get<4>(rows, i))));
    rows_store<2>(payload_of(gather, gather.call.rank) + gather.codes + (uint64_t)block * BLOCK * 2, lane, count, to,
                  scratch->stage);
  }

  static __device__ __forceinline__ void decode(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t block,
                                                uint32_t lane, float *stage) {
    const uint32_t count = count_of(gather.call, block);
    struct rows to = {};
    const uint8_t *from = payload_of(gather, rank) + gather.codes + (uint64_t)block * BLOCK * 2;
    const struct rows rows = rows_fetch<2>(from, lane, count, stage);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      rows_put<4>(to, i, rows_get<2>(rows, i) << 16);
    rows_store<4>(block_of(gather, gather.call.recv, rank, block), lane, count, to, stage);
  }
};

/* -- q8 ------------------------------------------------------------------------------------------------------------ */

struct q8 {
  static __device__ __forceinline__ void encode(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane,
                                                struct scratch *scratch) {
    const struct tagc_cuda_call &call = gather.call;
    uint8_t *payload = payload_of(gather, call.rank);
    uint32_t scales = 0;
    struct rows codes = {};
    float x[EACH];
    elements_convert(
      elements_fetch<true>(sent_block(gather, block), call.dtype, lane, count_of(call, block), scratch->stage),
      call.dtype, x);
    if (__any_sync(ALL_LANES, has_exception(x)))
      append(call, (struct tagc_exceptions *)(payload + gather.exceptions), block, lane, x);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = tagc_dense_strip(x[i]);
    UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
      const uint16_t scale = tagc_scale_up(warp_largest(x + ROW * half, ROW), 127);
      const float inverse = tagc_scale_inverse(scale);
      scales |= (uint32_t)scale << 16 * half;
      UNROLL_FOR (uint32_t i = ROW * half; i < ROW * half + ROW; i++)
        rows_put<1>(codes, i, (uint32_t)(int32_t)tagc_code(x[i] * inverse, 127) & 0xff);
    }
    rows_write<1>((char *)payload + gather.codes + (uint64_t)block * BLOCK, lane, codes);
    if (lane == 0)
      ((uint32_t *)(payload + gather.scales))[block] = scales;
  }

  static __device__ __forceinline__ void decode(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t block,
                                                uint32_t lane, float *stage) {
    const struct tagc_cuda_call &call = gather.call;
    const uint8_t *payload = payload_of(gather, rank);
    const uint32_t scales = ((const uint32_t *)(payload + gather.scales))[block];
    const struct rows codes = rows_read<1>((const char *)payload + gather.codes + (uint64_t)block * BLOCK, lane);
    float x[EACH];
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const float scale = tagc_from_bf16((uint16_t)(scales >> i / ROW * 16));
      x[i] = tagc_allgather_within((float)(int8_t)rows_get<1>(codes, i) * scale, (enum tagc_dtype)call.dtype);
      x[i] = x[i] == x[i] ? x[i] : tagc_float_of(TAGC_NAN_BITS);
    }
    elements_store(block_of(gather, call.recv, rank, block), call.dtype, lane, count_of(call, block), x, stage);
  }
};

DEVICE void put_one(const struct tagc_allgather_call &gather, uint32_t rank, const struct tagc_exception &entry) {
  if (entry.position < gather.call.n)
    tagc_store(gather.call.recv, gather.call.stride * rank + entry.position, (enum tagc_dtype)gather.call.dtype,
               tagc_float_of(entry.bits));
}

/* A warp puts exceptions in their places; one after the other if they are unsorted, which no sender of ours causes. */
DEVICE void put_exceptions(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t lane) {
  const struct tagc_exceptions *list = (const struct tagc_exceptions *)(payload_of(gather, rank) + gather.exceptions);
  const uint32_t count = list->count <= gather.call.capacity ? list->count : 0;
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

DEVICE void put(const struct tagc_allgather_call &gather) {
  for (uint32_t rank = blockIdx.x * WARPS + threadIdx.x / LANES; rank < gather.call.nranks; rank += gridDim.x * WARPS)
    if (!is_kept(gather, rank))
      put_exceptions(gather, rank, threadIdx.x % LANES);
}

/* -- delta --------------------------------------------------------------------------------------------------------- */

/* Two rows of a block, so far apart that half a warp each reads without bank conflicts. */
struct pair {
  float row[2][BLOCK + LANES / 2];
};

/* Compares sums of squares of differences (lanes 0 to 15) and values (the others), in the order of steps.h. */
DEVICE bool is_far(const float difference[EACH], const float value[EACH], uint32_t lane, struct pair *pair) {
  float squares = 0;
  __syncwarp();
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    pair->row[0][place_of(lane, i)] = difference[i];
    pair->row[1][place_of(lane, i)] = value[i];
  }
  __syncwarp();
  const float *row = pair->row[lane / 16];
  UNROLL_4_FOR (uint32_t i = 0; i < BLOCK; i += 16) {
    const float x = row[i + lane % 16];
    squares += x * x;
  }
  squares = tree_sum(squares);
  return tagc_delta_far(__shfl_sync(ALL_LANES, squares, 0), __shfl_sync(ALL_LANES, squares, 16));
}

DEVICE void encode_delta(const struct tagc_allgather_call &gather) {
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
    const struct rows was =
      elements_fetch(block_of(gather, gather.reference, call.rank, block), call.dtype, lane, count, stage);
    elements_convert(sent, call.dtype, value);
    elements_convert(was, call.dtype, difference);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      difference[i] = value[i] - difference[i];
      unfit |= tagc_delta_unfit(value[i], difference[i]);
    }
    far += is_far(difference, value, lane, &pairs[warp]);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
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
                                                uint32_t lane, float *stage) {
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
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      x[i] = tagc_allgather_within(x[i] + sum[i], (enum tagc_dtype)call.dtype);
      x[i] = x[i] == x[i] ? x[i] : tagc_float_of(TAGC_NAN_BITS);
    }
    elements_store(kept, call.dtype, lane, count, x, stage);
    if (!is_kept(gather, rank))
      elements_store(block_of(gather, call.recv, rank, block), call.dtype, lane, count, x, stage);
  }
};

/* -- all blocks ---------------------------------------------------------------------------------------------------- */

template <typename codec> DEVICE void encode(const struct tagc_allgather_call &gather) {
  __shared__ __align__(16) struct scratch scratch[WARPS];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (uint32_t block = blockIdx.x * WARPS + warp; block < gather.call.blocks; block += gridDim.x * WARPS)
    codec::encode(gather, block, lane, &scratch[warp]);
}

/* keeps: decode the own shard, too, even if it is not received. */
template <typename codec, bool keeps, bool may_refuse> DEVICE void decode(const struct tagc_allgather_call &gather) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  if (may_refuse && gather.state->refused)
    return;
  for (uint32_t rank = blockIdx.y; rank < gather.call.nranks; rank += gridDim.y)
    for (uint32_t block = blockIdx.x * WARPS + warp; block < gather.call.blocks && (keeps || !is_kept(gather, rank));
         block += gridDim.x * WARPS)
      codec::decode(gather, rank, block, lane, stages[warp]);
}

} // namespace gathered

/* -- entries ------------------------------------------------------------------------------------------------------- */

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
ENTRY(tagc_allgather_decode_q8, tagc_allgather_call, 4, gathered::decode<gathered::q8, false, false>(call));
ENTRY(tagc_allgather_decode_lossless, tagc_allgather_call, 3, gathered::decode<gathered::lossless, false, true>(call));
ENTRY(tagc_allgather_decode_delta, tagc_allgather_call, 3, gathered::decode<gathered::delta, true, true>(call));
ENTRY(tagc_allgather_put, tagc_allgather_call, 4, gathered::put(call));
