/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of all codecs' kernels for a block of 256 elements, which a warp holds as in lanes.cuh. See call.h for a
 * call.
 *
 * Compiled  with nvcc (-fmad=false -ftz=false -prec-div=true), and for the tests with a host's compiler. All lanes of a
 *           warp decide alike.
 */
#ifndef KERNELS_CUDA_CALL_CUH
#define KERNELS_CUDA_CALL_CUH

#include "kernels/cuda/call.h"
#include "kernels/codec/exceptions.h"
#include "kernels/cuda/kernel.h"
#include "kernels/cuda/lanes.cuh"

enum { WARPS = TAGC_CUDA_THREADS / LANES };

/* A kernel of one parameter. `groups`: a processor has room for them; more would spill (`make kernel-info`). */
#define ENTRY(name, type, groups, ...) \
  extern "C" __global__ void __launch_bounds__(TAGC_CUDA_THREADS, groups) name(const struct type call) { \
    __VA_ARGS__; \
  } \
  KERNEL(name)

DEVICE struct tagc_exceptions *list_of(uint8_t *messages, const struct tagc_cuda_call &call, uint32_t rank) {
  return (struct tagc_exceptions *)(messages + call.message_bytes * rank);
}

/* Foreign shards, and senders, by place: in rank order, without this rank's. */
DEVICE uint32_t place_at(const struct tagc_cuda_call &call, uint32_t shard) { return shard - (shard > call.rank); }

DEVICE uint32_t shard_at(const struct tagc_cuda_call &call, uint32_t place) { return place + (place >= call.rank); }

/* Bytes of an element. */
DEVICE uint32_t size_of(const struct tagc_cuda_call &call) { return call.dtype == TAGC_FLOAT32 ? 4 : 2; }

DEVICE const char *shard_of(const struct tagc_cuda_call &call, uint32_t shard) {
  return (const char *)call.send + call.stride * shard * size_of(call);
}

DEVICE uint32_t count_of(const struct tagc_cuda_call &call, uint32_t block) {
  const uint64_t left = call.n - (uint64_t)block * BLOCK;
  return left < BLOCK ? (uint32_t)left : (uint32_t)BLOCK;
}

/* True if a lane's elements have an exception; some may be beyond the shard's end. */
DEVICE bool has_exception(const float x[EACH]) {
  bool seen = false;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    seen |= tagc_is_exception(tagc_bits_of(x[i]));
  return seen;
}

/* Adds the lost values of a warp's lanes. */
DEVICE void add_lost(const struct tagc_cuda_call &call, uint32_t lost, uint32_t lane) {
  const uint32_t all = warp_sum(lost);
  if (all > 0 && lane == 0)
    atomicAdd((unsigned long long *)&call.counts->lost, (unsigned long long)all);
}

/* -- the residual of a foreign shard ------------------------------------------------------------------------------- */

struct kept {
  char *values; /* of the shard */
  uint16_t *scales;
  uint64_t key;
};

DEVICE struct kept kept_of(const struct tagc_cuda_call &call, uint32_t shard) {
  char *base = (char *)call.residual + call.residual_bytes * place_at(call, shard);
  return {base + call.residual_at, (uint16_t *)base, tagc_chance_key(call.seed, TAGC_CHANCE_KEPT, call.rank, shard)};
}

DEVICE struct rows kept_fetch(const struct tagc_cuda_call &call, const struct kept &kept, uint32_t block, uint32_t lane,
                              uint32_t count, float *stage) {
  const uint64_t from = (uint64_t)block * BLOCK;
  if (call.storage == TAGC_STORAGE_FP32)
    return rows_fetch<4>(kept.values + 4 * from, lane, count, stage);
  if (call.storage == TAGC_STORAGE_BF16)
    return rows_fetch<2>(kept.values + 2 * from, lane, count, stage);
  return rows_fetch<1>(kept.values + from, lane, count, stage);
}

DEVICE void kept_add(const struct tagc_cuda_call &call, const struct kept &kept, uint32_t block,
                     const struct rows &rows, float x[EACH]) {
  if (call.storage == TAGC_STORAGE_FP32) {
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = x[i] + tagc_float_of(rows_get<4>(rows, i));
  } else if (call.storage == TAGC_STORAGE_BF16) {
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = x[i] + tagc_from_bf16((uint16_t)rows_get<2>(rows, i));
  } else {
    const float scale = tagc_from_bf16(kept.scales[block]);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = x[i] + (float)(int8_t)rows_get<1>(rows, i) * scale;
  }
}

DEVICE uint32_t count_values(const float x[EACH]) {
  uint32_t values = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    values += x[i] != 0;
  return values;
}

/* Stores a block, zero beyond the shard's end, for the next step. Returns the lane's part of its squared norm. */
DEVICE double kept_store(const struct tagc_cuda_call &call, const struct kept &kept, uint32_t block, uint32_t lane,
                         uint32_t count, const float x[EACH], float *stage) {
  const uint64_t from = (uint64_t)block * BLOCK;
  struct rows rows = {};
  double norm2 = 0;
  if (call.storage == TAGC_STORAGE_FP32) {
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      rows_put<4>(rows, i, tagc_bits_of(x[i]));
      norm2 += (double)x[i] * (double)x[i];
    }
    rows_store<4, true>(kept.values + 4 * from, lane, count, rows, stage);
    return norm2;
  }
  const struct chance chance = chance_of(kept.key, block, lane);
  if (call.storage == TAGC_STORAGE_BF16) {
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const uint32_t bits = tagc_kept_bf16(x[i], chance_get(chance, i));
      rows_put<2>(rows, i, bits >> 16);
      norm2 += (double)tagc_float_of(bits) * (double)tagc_float_of(bits);
    }
    rows_store<2, true>(kept.values + 2 * from, lane, count, rows, stage);
    return norm2;
  }
  const uint16_t scale = tagc_scale_up(warp_largest(x, EACH), 127);
  const float inverse = tagc_scale_inverse(scale), unit = tagc_from_bf16(scale);
  int32_t squares = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    const int32_t code = tagc_kept_int8(x[i], inverse, chance_get(chance, i));
    rows_put<1>(rows, i, (uint32_t)code & 0xff);
    squares += code * code;
  }
  rows_store<1, true>(kept.values + from, lane, count, rows, stage);
  if (lane == 0)
    kept.scales[block] = scale;
  if (scale == 0)
    add_lost(call, count_values(x), lane);
  return (double)squares * (double)unit * (double)unit;
}

/* scale*g (+ e, if `adds`) of a block, zeros beyond the end of the shard. */
DEVICE void load(const struct tagc_cuda_call &call, const char *from, const struct kept &kept, bool adds,
                 uint32_t block, uint32_t lane, float *stage, float x[EACH]) {
  const uint32_t count = count_of(call, block);
  struct rows residual = {};
  const struct rows rows =
    elements_fetch(from + (uint64_t)block * BLOCK * size_of(call), call.dtype, lane, count, stage);
  if (adds)
    residual = kept_fetch(call, kept, block, lane, count, stage);
  elements_convert(rows, call.dtype, x);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    x[i] = call.scale * x[i];
  if (adds)
    kept_add(call, kept, block, residual, x);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    x[i] = place_of(lane, i) < count ? x[i] : 0; /* the scale may be NaN */
}

/* An element at a misaligned address. */
DEVICE uint32_t element_at_odd(const char *from, uint32_t size, uint32_t position) {
  const uint8_t *at = (const uint8_t *)from + (uint64_t)size * position;
  const uint32_t half = at[0] | (uint32_t)at[1] << 8;
  return size == 2 ? half : half | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The same for some positions anywhere in the shard. Fetches all before waiting for one. */
template <uint32_t some>
DEVICE void load_some(const struct tagc_cuda_call &call, const char *from, const struct kept &kept, bool adds,
                      const uint32_t position[some], float x[some]) {
  uint32_t raw[some], rest[some] = {};
  float unit[some] = {};
  if ((uintptr_t)from % size_of(call) != 0)
    UNROLL_FOR (uint32_t i = 0; i < some; i++)
      raw[i] = element_at_odd(from, size_of(call), position[i]);
  else if (call.dtype == TAGC_FLOAT32)
    UNROLL_FOR (uint32_t i = 0; i < some; i++)
      raw[i] = ((const uint32_t *)from)[position[i]];
  else
    UNROLL_FOR (uint32_t i = 0; i < some; i++)
      raw[i] = ((const uint16_t *)from)[position[i]];
  if (adds && call.storage == TAGC_STORAGE_FP32)
    UNROLL_FOR (uint32_t i = 0; i < some; i++)
      rest[i] = ((const uint32_t *)kept.values)[position[i]];
  else if (adds && call.storage == TAGC_STORAGE_BF16)
    UNROLL_FOR (uint32_t i = 0; i < some; i++)
      rest[i] = (uint32_t)((const uint16_t *)kept.values)[position[i]] << 16;
  else if (adds)
    UNROLL_FOR (uint32_t i = 0; i < some; i++) {
      rest[i] = (uint32_t)(int32_t)((const int8_t *)kept.values)[position[i]];
      unit[i] = tagc_from_bf16(kept.scales[position[i] / BLOCK]);
    }
  UNROLL_FOR (uint32_t i = 0; i < some; i++) {
    const uint16_t half = (uint16_t)raw[i];
    x[i] = call.dtype == TAGC_FLOAT32   ? tagc_float_of(raw[i])
           : call.dtype == TAGC_FLOAT16 ? tagc_from_fp16(half)
                                        : tagc_from_bf16(half);
    x[i] = call.scale * x[i];
    if (adds)
      x[i] = x[i] + (call.storage == TAGC_STORAGE_INT8 ? (float)(int32_t)rest[i] * unit[i] : tagc_float_of(rest[i]));
  }
}

/* The warp's shared memory: a stage, and a copy of a block with unusual values. */
struct scratch {
  float stage[BLOCK], aside[BLOCK];
};

/* -- exceptions ---------------------------------------------------------------------------------------------------- */

/* For a kernel that opens its call itself (exceptions.cuh): a warp waits for the one that does it, which has begun. */
DEVICE void await_open(const struct tagc_cuda_call &call, uint32_t lane) {
  while (lane == 0 && word_wait(&call.counts->gate.opened) == 0)
    __nanosleep(64);
  __syncwarp();
}

/* Appends a block's exceptions to the list, in any order. */
DEVICE void append(const struct tagc_cuda_call &call, struct tagc_exceptions *list, uint32_t block, uint32_t lane,
                   const float x[EACH]) {
  uint32_t mine = 0, all, first = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    mine += tagc_is_exception(tagc_bits_of(x[i]));
  uint32_t at = warp_before(mine, lane, &all);
  if (lane == 0 && all > 0)
    first = atomicAdd(&list->count, all);
  at += __shfl_sync(ALL_LANES, first, 0);
  for (uint32_t i = 0; i < EACH && mine > 0; i++)
    if (tagc_is_exception(tagc_bits_of(x[i]))) {
      if (at < call.capacity)
        list->entry[at] = {block * BLOCK + place_of(lane, i), x[i] == x[i] ? tagc_bits_of(x[i]) : TAGC_NAN_BITS};
      at++;
    }
}

/* Adds the block's exceptions, by position and sender, to the finite values. */
DEVICE void add_exceptions(const struct tagc_cuda_call &call, uint32_t block, uint32_t lane, float x[EACH]) {
  for (uint32_t sender = 0; sender < call.nranks; sender++) {
    if (sender == call.rank)
      continue;
    const struct tagc_exceptions *list = list_of(call.message_in, call, sender);
    const uint32_t count = list->count;
    uint32_t at = 0, end = count;
    while (at < end) { /* finds the first entry not before the block */
      const uint32_t middle = at + (end - at) / 2;
      if (list->entry[middle].position / BLOCK < block)
        at = middle + 1;
      else
        end = middle;
    }
    for (; at < count && list->entry[at].position / BLOCK == block; at++) {
      const uint32_t place = list->entry[at].position % BLOCK;
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        if (place_of(lane, i) == place)
          x[i] += tagc_float_of(list->entry[at].bits);
    }
  }
}

/* True if the own shard has exceptions: codecs do not touch it, but other ranks ask. A warp checks its share. */
DEVICE bool own_has_exception(const struct tagc_cuda_call &call, uint32_t first, uint32_t stride, uint32_t lane,
                              float *stage) {
  const char *from = shard_of(call, call.rank);
  const uint32_t size = size_of(call);
  bool seen = false;
  for (uint32_t block = first; block < call.blocks; block += stride) {
    const uint32_t count = count_of(call, block);
    float x[EACH];
    elements_convert(elements_fetch<true>(from + (uint64_t)block * BLOCK * size, call.dtype, lane, count, stage),
                     call.dtype, x);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      x[i] = place_of(lane, i) < count ? call.scale * x[i] : 0;
    seen |= has_exception(x);
  }
  return __any_sync(ALL_LANES, seen);
}

DEVICE void look_at_own(const struct tagc_cuda_call &call, uint32_t first, uint32_t stride, uint32_t lane,
                        float *stage) {
  if (!own_has_exception(call, first, stride, lane, stage))
    return;
  await_open(call, lane);
  if (lane == 0)
    atomicOr(&call.state->found, (uint32_t)TAGC_ANYWHERE_EXCEPTION);
}

/* Divides, and replaces every NaN with one. */
DEVICE void finish(const struct tagc_cuda_call &call, bool by_inverse, float inverse, float x[EACH]) {
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    x[i] = by_inverse ? x[i] * inverse : x[i] / call.divisor;
    x[i] = x[i] == x[i] ? x[i] : tagc_float_of(TAGC_NAN_BITS);
  }
}

/* -- results ------------------------------------------------------------------------------------------------------- */

/* The common part of all results of a call. */
struct result {
  const char *own; /* the own shard */
  bool fits, exceptions, by_inverse;
  float inverse;
};

DEVICE struct result result_of(const struct tagc_cuda_call &call, bool fits, bool exceptions) {
  const bool by_inverse = tagc_divides_by_inverse(call.divisor);
  return {shard_of(call, call.rank), fits, exceptions, by_inverse, by_inverse ? 1 / call.divisor : 1};
}

/* The same after a kernel that has looked at the messages. */
DEVICE struct result result_of(const struct tagc_cuda_call &call) {
  return result_of(call, call.state->fits != 0, call.state->exceptions != 0);
}

/* True if a lane's results are not finite as they are stored, `count` of them. */
DEVICE bool has_nonfinite(const struct tagc_cuda_call &call, uint32_t lane, uint32_t count, const float x[EACH]) {
  bool seen = false;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    seen |= place_of(lane, i) < count && tagc_is_nonfinite(x[i], (enum tagc_dtype)call.dtype);
  return seen;
}

/* The own values of a block. The same lanes read them before they write its results: recv may be the own shard. */
DEVICE struct rows result_fetch(const struct tagc_cuda_call &call, const struct result &result, uint32_t block,
                                uint32_t lane, float *stage) {
  const uint64_t at = (uint64_t)block * BLOCK * size_of(call);
  return elements_fetch(result.own + at, call.dtype, lane, count_of(call, block), stage);
}

/* Writes a block's results: foreign sum, own values, exceptions. True if one of the lane's is not finite. */
DEVICE bool result_store(const struct tagc_cuda_call &call, const struct result &result, uint32_t block, uint32_t lane,
                         const float sum[EACH], const struct rows &own, float *stage) {
  const uint32_t count = count_of(call, block);
  float x[EACH];
  elements_convert(own, call.dtype, x);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    x[i] = sum[i] + call.scale * x[i];
  if (result.exceptions && result.fits)
    add_exceptions(call, block, lane, x);
  finish(call, result.by_inverse, result.inverse, x);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    x[i] = result.fits ? x[i] : tagc_float_of(TAGC_NAN_BITS);
  const uint64_t at = (uint64_t)block * BLOCK * size_of(call);
  elements_store((char *)call.recv + at, call.dtype, lane, count, x, stage);
  return has_nonfinite(call, lane, count, x);
}

/* Enters into the counts what a lane has seen of results. All lanes of a warp call it. */
DEVICE void note_seen(const struct tagc_cuda_call &call, bool seen, uint32_t lane) {
  if (__any_sync(ALL_LANES, seen) && lane == 0)
    atomicOr(&call.counts->nonfinite_seen, 1u);
}

/* -- what a group finds out together ------------------------------------------------------------------------------- */

/* The sum of `x` over earlier threads; *all: over all. All threads of the group call it, any number of times. */
DEVICE uint32_t group_before(uint32_t x, uint32_t *all) {
  __shared__ uint32_t parts[WARPS];
  uint32_t warp_all, sum = 0;
  uint32_t before = warp_before(x, threadIdx.x % LANES, &warp_all);
  __syncthreads(); /* all threads have read the last parts */
  if (threadIdx.x % LANES == 0)
    parts[threadIdx.x / LANES] = warp_all;
  __syncthreads();
  UNROLL_FOR (uint32_t warp = 0; warp < WARPS; warp++) {
    before += warp < threadIdx.x / LANES ? parts[warp] : 0;
    sum += parts[warp];
  }
  *all = sum;
  return before;
}

/* All threads of a group call it after their work. True in the last of `groups`, which then sees the others' work. */
DEVICE bool group_is_last(uint32_t *arrived, uint32_t groups) {
  bool last = false;
  __syncthreads(); /* what the group did comes before the fence of one thread, which holds for all of it */
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(arrived, 1u) == groups - 1;
    __threadfence();
  }
  return __syncthreads_or(last);
}

/* -- statistics ---------------------------------------------------------------------------------------------------- */

/* Stores a group's part of the residual's squared norm, from its lanes' parts: once a launch, by all of its threads. */
DEVICE void add_norm(const struct tagc_cuda_call &call, double sum) {
  __shared__ double parts[WARPS];
  sum = warp_sum(sum);
  if (threadIdx.x % LANES == 0)
    parts[threadIdx.x / LANES] = sum;
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  for (uint32_t i = 1; i < WARPS; i++)
    sum += parts[i];
  call.norms[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

/* The sum of these, for the first thread: once a launch, by all threads of the group. */
DEVICE double all_norms(const struct tagc_cuda_call &call) {
  __shared__ double parts[WARPS];
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < call.groups; i += blockDim.x)
    sum += call.norms[i];
  sum = warp_sum(sum);
  if (threadIdx.x % LANES == 0)
    parts[threadIdx.x / LANES] = sum;
  __syncthreads();
  for (uint32_t i = 1; i < WARPS && threadIdx.x == 0; i++)
    sum += parts[i];
  return sum;
}

#endif
