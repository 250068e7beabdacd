/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of the dense codecs: see dense_cuda.h for what they do, and dense.c for the same on the host, to the bit.
 *
 * Grid      Encode: groups of eight warps in x, shards in y (the own shard's is only looked at). Decode: x. A warp takes
 *           block after block. Everything that a warp decides, its lanes decide alike.
 * Order     Exceptions are appended as they come, with one atomic addition a block that has any, and put into order by the
 *           kernel that closes the lists. Nothing else is shared between warps, but for sums that are statistics.
 * Compiled  with nvcc (-fmad=false -ftz=false -prec-div=true), and for the tests with a host's compiler.
 */
#include "kernels/dense_cuda.h"
#include "kernels/dense_codecs.cuh"

#ifndef KERNEL
#define KERNEL(name) static_assert(true, "")    /* the tests note kernels here */
#endif

enum { WARPS = TAGC_DENSE_CUDA_THREADS / LANES };

DEVICE struct tagc_exceptions *list_of(uint8_t *messages, const struct tagc_dense_call &call, uint32_t rank)
{
  return (struct tagc_exceptions *)(messages + call.message_bytes * rank);
}

/* Of an element. */
DEVICE uint32_t size_of(const struct tagc_dense_call &call) { return call.dtype == TAGC_FLOAT32 ? 4 : 2; }

DEVICE const char *shard_of(const struct tagc_dense_call &call, uint32_t shard)
{
  return (const char *)call.send + call.n * shard * size_of(call);
}

DEVICE uint32_t count_of(const struct tagc_dense_call &call, uint32_t block)
{
  const uint64_t left = call.n - (uint64_t)block * BLOCK;
  return left < BLOCK ? (uint32_t)left : (uint32_t)BLOCK;
}

/* Whether a lane's elements, some of which are behind the shard's end, have an exception. */
DEVICE bool has_exception(const float x[EACH])
{
  bool seen = false;
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    seen |= tagc_is_exception(tagc_bits_of(x[i]));
  return seen;
}

/* -- the residual of a foreign shard ------------------------------------------------------------------------------- */

struct kept {
  char *values;                    /* of the shard */
  uint16_t *scales;
  uint64_t key;
};

DEVICE struct kept kept_of(const struct tagc_dense_call &call, uint32_t shard)
{
  char *base = (char *)call.residual + call.residual_bytes * (shard - (shard > call.rank));
  return {base + call.residual_at, (uint16_t *)base, tagc_chance_key(call.seed, TAGC_CHANCE_KEPT, call.rank, shard)};
}

DEVICE struct rows kept_fetch(const struct tagc_dense_call &call, const struct kept &kept, uint32_t block, uint32_t lane,
                              uint32_t count, float *stage)
{
  const uint64_t from = (uint64_t)block * BLOCK;
  if (call.storage == TAGC_STORAGE_FP32)
    return rows_fetch<4>(kept.values + 4 * from, lane, count, stage);
  if (call.storage == TAGC_STORAGE_BF16)
    return rows_fetch<2>(kept.values + 2 * from, lane, count, stage);
  return rows_fetch<1>(kept.values + from, lane, count, stage);
}

DEVICE void kept_add(const struct tagc_dense_call &call, const struct kept &kept, uint32_t block, const struct rows &rows,
                     float x[EACH])
{
  if (call.storage == TAGC_STORAGE_FP32) {
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = x[i] + tagc_float_of(rows_get<4>(rows, i));
  } else if (call.storage == TAGC_STORAGE_BF16) {
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = x[i] + tagc_from_bf16((uint16_t)rows_get<2>(rows, i));
  } else {
    const float scale = tagc_from_bf16(kept.scales[block]);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = x[i] + (float)(int8_t)rows_get<1>(rows, i) * scale;
  }
}

/* Stores a block, which is zero behind the shard's end. Returns the lane's part of the squared norm of what is stored. */
DEVICE double kept_store(const struct tagc_dense_call &call, const struct kept &kept, uint32_t block, uint32_t lane,
                         uint32_t count, const float x[EACH], float *stage)
{
  const uint64_t from = (uint64_t)block * BLOCK;
  struct rows rows = {};
  double norm2 = 0;
  if (call.storage == TAGC_STORAGE_FP32) {
    UNROLL for (uint32_t i = 0; i < EACH; i++) {
      rows_put<4>(rows, i, tagc_bits_of(x[i]));
      norm2 += (double)x[i] * (double)x[i];
    }
    rows_store<4>(kept.values + 4 * from, lane, count, rows, stage);
    return norm2;
  }
  const struct chance chance = chance_of(kept.key, block, lane);
  if (call.storage == TAGC_STORAGE_BF16) {
    UNROLL for (uint32_t i = 0; i < EACH; i++) {
      const uint32_t bits = tagc_kept_bf16(x[i], chance_get(chance, i));
      rows_put<2>(rows, i, bits >> 16);
      norm2 += (double)tagc_float_of(bits) * (double)tagc_float_of(bits);
    }
    rows_store<2>(kept.values + 2 * from, lane, count, rows, stage);
    return norm2;
  }
  const uint16_t scale = tagc_scale_up(warp_largest(x, EACH), 127);
  const float inverse = tagc_scale_inverse(scale), unit = tagc_from_bf16(scale);
  int32_t squares = 0;
  UNROLL for (uint32_t i = 0; i < EACH; i++) {
    const int32_t code = tagc_kept_int8(x[i], inverse, chance_get(chance, i));
    rows_put<1>(rows, i, (uint32_t)code & 0xff);
    squares += code * code;
  }
  rows_store<1>(kept.values + from, lane, count, rows, stage);
  if (lane == 0)
    kept.scales[block] = scale;
  return (double)squares * (double)unit * (double)unit;
}

/* -- encode -------------------------------------------------------------------------------------------------------- */

/* Appends a block's exceptions to the list, in any order. */
DEVICE void append(const struct tagc_dense_call &call, struct tagc_exceptions *list, uint32_t block, uint32_t lane,
                   const float x[EACH])
{
  uint32_t mine = 0;
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    mine += tagc_is_exception(tagc_bits_of(x[i]));
  uint32_t upto = mine, at = 0;
  UNROLL for (uint32_t by = 1; by < LANES; by *= 2) {
    const uint32_t other = __shfl_up_sync(ALL_LANES, upto, by);
    upto += lane >= by ? other : 0;
  }
  if (lane == LANES - 1 && upto > 0)
    at = atomicAdd(&list->count, upto);
  at = __shfl_sync(ALL_LANES, at, LANES - 1) + upto - mine;
  for (uint32_t i = 0; i < EACH && mine > 0; i++)
    if (tagc_is_exception(tagc_bits_of(x[i]))) {
      if (at < call.capacity)
        list->entry[at] = {block * BLOCK + place_of(lane, i), x[i] == x[i] ? tagc_bits_of(x[i]) : TAGC_NAN_BITS};
      at++;
    }
}

/* What pads the scales to 16 bytes, and bf16's codes. */
template <enum tagc_dense_codec codec>
DEVICE void pad(const struct tagc_dense_call &call, uint8_t *message, uint32_t lane)
{
  const uint64_t used = codec == TAGC_DENSE_BF16 ? call.n : (uint64_t)call.blocks * steps<codec>::SCALES;
  uint16_t *end = (uint16_t *)(message + (codec == TAGC_DENSE_BF16 ? call.codes_at : call.scales_at)) + used;
  if (lane < (8 - used % 8) % 8)
    end[lane] = 0;
}

/* scale*g + e of a block, zeros behind the end of the shard. */
DEVICE void load(const struct tagc_dense_call &call, const char *from, const struct kept &kept, uint32_t block, uint32_t lane,
                 float *stage, float x[EACH])
{
  const uint32_t count = count_of(call, block);
  const bool adds = call.storage != TAGC_STORAGE_NONE && !call.residual_empty;
  struct rows residual = {};
  const struct rows rows = elements_fetch(from + (uint64_t)block * BLOCK * size_of(call), call.dtype, lane, count, stage);
  if (adds)
    residual = kept_fetch(call, kept, block, lane, count, stage);
  elements_convert(rows, call.dtype, x);
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    x[i] = call.scale * x[i];
  if (adds)
    kept_add(call, kept, block, residual, x);
  UNROLL for (uint32_t i = 0; i < EACH; i++)
    x[i] = place_of(lane, i) < count ? x[i] : 0;     /* the scale may be no number */
}

/* The warp's shared memory: for what takes turns, and for a block with unusual values as it came. */
struct scratch {
  float stage[BLOCK], aside[BLOCK];
};

/* The lane's part of the squared norm of what stays of a foreign shard. */
template <enum tagc_dense_codec codec>
DEVICE double encode_shard(const struct tagc_dense_call &call, uint32_t shard, uint32_t first, uint32_t stride,
                           uint32_t lane, struct scratch *scratch)
{
  const char *from = shard_of(call, shard);
  uint8_t *message = call.message_out + call.message_bytes * shard;
  const struct kept kept = kept_of(call, shard);
  double norm2 = 0;
  struct sent to = {};
  to.rotation_key = tagc_rotation_key(call.seed, shard);
  to.chance_key = tagc_chance_key(call.seed, TAGC_CHANCE_SENT, call.rank, shard);
  to.stochastic = call.stochastic;
  for (uint32_t block = first; block < call.blocks; block += stride) {
    float x[EACH], left[EACH];
    bool unusual = false;
    load(call, from, kept, block, lane, scratch->stage, x);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      unusual |= tagc_dense_unusual(x[i]);
    unusual = __any_sync(ALL_LANES, unusual);
    if (unusual) {
      append(call, (struct tagc_exceptions *)message, block, lane, x);
      UNROLL for (uint32_t i = 0; i < EACH; i++) {
        scratch->aside[LANES * i + lane] = x[i];
        x[i] = tagc_dense_strip(x[i]);
      }
    }
    to.scales = (uint16_t *)(message + call.scales_at) + (uint64_t)block * steps<codec>::SCALES;
    to.codes = message + call.codes_at + (uint64_t)block * steps<codec>::BYTES;
    to.block = block;
    to.count = count_of(call, block);
    steps<codec>::encode(to, x, lane, scratch->stage, left);
    if (block == call.blocks - 1)
      pad<codec>(call, message, lane);
    if (call.storage == TAGC_STORAGE_NONE)
      continue;
    if (unusual)
      UNROLL for (uint32_t i = 0; i < EACH; i++)
        left[i] = tagc_dense_mend(scratch->aside[LANES * i + lane], left[i]);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      left[i] = place_of(lane, i) < to.count ? left[i] : 0;
    norm2 += kept_store(call, kept, block, lane, to.count, left, scratch->stage);
  }
  return norm2;
}

DEVICE void look_at_own(const struct tagc_dense_call &call, uint32_t first, uint32_t stride, uint32_t lane, float *stage)
{
  const char *from = shard_of(call, call.rank);
  const uint32_t size = size_of(call);
  bool seen = false;
  for (uint32_t block = first; block < call.blocks; block += stride) {
    const uint32_t count = count_of(call, block);
    float x[EACH];
    elements_convert(elements_fetch(from + (uint64_t)block * BLOCK * size, call.dtype, lane, count, stage), call.dtype, x);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = place_of(lane, i) < count ? call.scale * x[i] : 0;
    seen |= has_exception(x);
  }
  if (__any_sync(ALL_LANES, seen) && lane == 0)
    atomicOr(&call.state->own_exceptions, 1u);
}

template <enum tagc_dense_codec codec> DEVICE void encode(const struct tagc_dense_call &call)
{
  __shared__ __align__(16) struct scratch scratch[WARPS];
  __shared__ double norm2[WARPS];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint32_t first = blockIdx.x * WARPS + warp, stride = gridDim.x * WARPS;
  double sum = 0;
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y) {
    if (shard == call.rank)
      look_at_own(call, first, stride, lane, scratch[warp].stage);
    else
      sum += encode_shard<codec>(call, shard, first, stride, lane, &scratch[warp]);
  }
  sum = warp_sum(sum);
  if (lane == 0)
    norm2[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (uint32_t i = 0; i < WARPS; i++)
      sum += norm2[i];
    call.state->norm2[blockIdx.y * gridDim.x + blockIdx.x] = sum;
  }
}

/* -- lists of exceptions ------------------------------------------------------------------------------------------- */

/* Puts entries into order of position: bitonic, of which each step moves smaller ones down, so that what a power of two
 * would have beyond `count` is in its place already. */
DEVICE void sort(struct tagc_exception *entry, uint32_t count)
{
  uint32_t pairs = 1;
  while (2 * pairs < count)
    pairs *= 2;
  for (uint32_t span = 2; span / 2 < count; span *= 2)
    for (uint32_t stride = span / 2; stride > 0; stride /= 2) {
      for (uint32_t i = threadIdx.x; i < pairs; i += blockDim.x) {
        const uint32_t low = i / stride * 2 * stride + i % stride;
        const uint32_t high = stride == span / 2 ? low - i % stride + 2 * stride - 1 - i % stride : low + stride;
        if (high < count && entry[high].position < entry[low].position) {
          const struct tagc_exception swap = entry[low];
          entry[low] = entry[high];
          entry[high] = swap;
        }
      }
      __syncthreads();
    }
}

DEVICE void close(const struct tagc_dense_call &call)
{
  __shared__ double norm2[WARPS];
  __shared__ uint64_t nonfinite[WARPS];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  uint64_t exceptions = 0;
  double sum = 0;
  for (uint32_t shard = threadIdx.x; shard < call.nranks; shard += blockDim.x)
    exceptions += shard == call.rank ? 0 : list_of(call.message_out, call, shard)->count;
  const bool seen = __syncthreads_or(exceptions > 0) || call.state->own_exceptions;
  const uint32_t anywhere = seen ? TAGC_ANYWHERE_EXCEPTION : 0;
  for (uint32_t i = blockIdx.x; i < call.nranks - 1; i += gridDim.x) {
    struct tagc_exceptions *list = list_of(call.message_out, call, i + (i >= call.rank));
    if (list->count <= call.capacity)
      sort(list->entry, list->count);
    else
      for (uint32_t at = threadIdx.x; at < call.capacity; at += blockDim.x)
        list->entry[at] = {0, 0};
    if (threadIdx.x == 0)
      list->anywhere = anywhere;
  }
  if (blockIdx.x > 0)
    return;
  for (uint32_t i = threadIdx.x; i < call.groups; i += blockDim.x)
    sum += call.state->norm2[i];
  sum = warp_sum(sum);
  exceptions = warp_sum(exceptions);
  if (lane == 0) {
    norm2[warp] = sum;
    nonfinite[warp] = exceptions;
  }
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  for (uint32_t i = 1; i < WARPS; i++) {
    sum += norm2[i];
    exceptions += nonfinite[i];
  }
  call.state->anywhere = anywhere;
  call.counts->selected += (call.nranks - 1) * call.n;
  call.counts->nonfinite += exceptions;
  call.counts->residual_norm2 = sum;
}

/* What the senders' lists say, before any of them is believed. */
DEVICE void check(const struct tagc_dense_call &call)
{
  uint32_t anywhere = call.state->anywhere, some = 0;
  bool bad = false;
  for (uint32_t sender = 0; sender < call.nranks; sender++) {
    if (sender == call.rank)
      continue;
    const struct tagc_exceptions *list = list_of(call.message_in, call, sender);
    const uint32_t count = list->count;
    anywhere |= list->anywhere;
    some |= count;
    bad |= count > call.capacity;
    for (uint32_t i = threadIdx.x; i < count && count <= call.capacity; i += blockDim.x) {
      const uint32_t position = list->entry[i].position;
      bad |= position >= call.n || (i > 0 && position <= list->entry[i - 1].position);
    }
  }
  bad = __syncthreads_or(bad);
  if (threadIdx.x > 0)
    return;
  call.state->fits = !bad;
  call.state->exceptions = some;
  call.counts->overflowed += bad;
  call.counts->nonfinite_seen = (anywhere & TAGC_ANYWHERE_EXCEPTION) || bad;
}

/* -- decode -------------------------------------------------------------------------------------------------------- */

/* The block's exceptions, by position and sender, on top of what is finite. */
DEVICE void add_exceptions(const struct tagc_dense_call &call, uint32_t block, uint32_t lane, float x[EACH])
{
  for (uint32_t sender = 0; sender < call.nranks; sender++) {
    if (sender == call.rank)
      continue;
    const struct tagc_exceptions *list = list_of(call.message_in, call, sender);
    const uint32_t count = list->count;
    uint32_t at = 0, end = count;
    while (at < end) {             /* the first one that is not before the block */
      const uint32_t middle = at + (end - at) / 2;
      if (list->entry[middle].position / BLOCK < block)
        at = middle + 1;
      else
        end = middle;
    }
    for (; at < count && list->entry[at].position / BLOCK == block; at++) {
      const uint32_t place = list->entry[at].position % BLOCK;
      UNROLL for (uint32_t i = 0; i < EACH; i++)
        if (place_of(lane, i) == place)
          x[i] += tagc_float_of(list->entry[at].bits);
    }
  }
}

/* The quotient, and one NaN for all. */
DEVICE void finish(const struct tagc_dense_call &call, bool by_inverse, float inverse, float x[EACH])
{
  UNROLL for (uint32_t i = 0; i < EACH; i++) {
    x[i] = by_inverse ? x[i] * inverse : x[i] / call.divisor;
    x[i] = x[i] == x[i] ? x[i] : tagc_float_of(TAGC_NAN_BITS);
  }
}

/* In a block the own values are read before results are written, by the same lanes: recv may be the own shard. */
template <enum tagc_dense_codec codec> DEVICE void decode(const struct tagc_dense_call &call)
{
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, stride = gridDim.x * WARPS, size = size_of(call);
  float *stage = stages[warp];
  const uint64_t rotation_key = tagc_rotation_key(call.seed, call.rank);
  const char *own = shard_of(call, call.rank);
  const bool fits = call.state->fits, exceptions = call.state->exceptions;
  const bool by_inverse = tagc_divides_by_inverse(call.divisor);
  const float inverse = by_inverse ? 1 / call.divisor : 1;
  for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += stride) {
    const uint64_t from = (uint64_t)block * BLOCK;
    const uint32_t count = count_of(call, block);
    const struct rows rows = elements_fetch(own + from * size, call.dtype, lane, count, stage);
    float sum[EACH] = {0, 0, 0, 0, 0, 0, 0, 0}, x[EACH];
    UNROLL_4 for (uint32_t i = 0; i < call.nranks - 1; i++) {    /* no branches: several loads are under way at once */
      const uint8_t *message = call.message_in + call.message_bytes * (i + (i >= call.rank));
      const uint16_t *scales = (const uint16_t *)(message + call.scales_at) + (uint64_t)block * steps<codec>::SCALES;
      const uint8_t *codes = message + call.codes_at + (uint64_t)block * steps<codec>::BYTES;
      steps<codec>::add(sum, scales, codes, lane, count, stage);
    }
    if (steps<codec>::ROTATES)
      turn_back(sum, signs_of(rotation_key, block, lane), lane);
    elements_convert(rows, call.dtype, x);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = sum[i] + call.scale * x[i];
    if (exceptions && fits)
      add_exceptions(call, block, lane, x);
    finish(call, by_inverse, inverse, x);
    UNROLL for (uint32_t i = 0; i < EACH; i++)
      x[i] = fits ? x[i] : tagc_float_of(TAGC_NAN_BITS);
    elements_store((char *)call.recv + from * size, call.dtype, lane, count, x, stage);
  }
}

/* -- entries ------------------------------------------------------------------------------------------------------- */

/* How many groups a processor shall have room for: as many as leave registers enough (`make kernel-info`: no spills). */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
enum { ROTATE_GROUPS = 2 };
#else
enum { ROTATE_GROUPS = 3 };
#endif

#define ENTRY(name, groups, ...) \
  extern "C" __global__ void __launch_bounds__(TAGC_DENSE_CUDA_THREADS, groups) name(const struct tagc_dense_call call) \
  { \
    __VA_ARGS__; \
  } \
  KERNEL(name)

DEVICE void open(const struct tagc_dense_call &call)
{
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y) {
    uint4 *list = (uint4 *)list_of(call.message_out, call, shard);
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < call.list_bytes / 16; i += gridDim.x * blockDim.x)
      if (shard != call.rank)
        list[i] = make_uint4(0, 0, 0, 0);
  }
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
    call.state->own_exceptions = 0;
}

ENTRY(tagc_dense_open, 4, open(call));
ENTRY(tagc_dense_close, 4, close(call));
ENTRY(tagc_dense_check, 4, check(call));
ENTRY(tagc_dense_encode_bf16, 3, encode<TAGC_DENSE_BF16>(call));
ENTRY(tagc_dense_encode_q8, 3, encode<TAGC_DENSE_Q8>(call));
ENTRY(tagc_dense_encode_q4, ROTATE_GROUPS, encode<TAGC_DENSE_Q4>(call));
ENTRY(tagc_dense_encode_q2, ROTATE_GROUPS, encode<TAGC_DENSE_Q2>(call));
ENTRY(tagc_dense_decode_bf16, 3, decode<TAGC_DENSE_BF16>(call));
ENTRY(tagc_dense_decode_q8, 4, decode<TAGC_DENSE_Q8>(call));
ENTRY(tagc_dense_decode_q4, 4, decode<TAGC_DENSE_Q4>(call));
ENTRY(tagc_dense_decode_q2, 4, decode<TAGC_DENSE_Q2>(call));
