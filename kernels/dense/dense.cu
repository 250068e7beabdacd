/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of the dense codecs: see cuda.h for their calls, and dense.c for the same on the host, to the bit.
 *
 * Grid      Encode: groups of eight warps in x, shards in y (the own shard is only checked). Decode: x. A warp takes
 *           block after block. All lanes of a warp decide alike.
 * Launches  One to encode: its first group empties the lists of exceptions, its last one closes them (exceptions.cuh).
 *           One to decode: each group checks the lists, which are empty as a rule, by itself.
 * Order     Exceptions are appended in any order, with one atomic addition for each block that has any; the last group
 *           sorts them. Warps share nothing else but sums for statistics.
 */
#include "kernels/cuda/exceptions.cuh"
#include "kernels/dense/codecs.cuh"
#include "kernels/dense/cuda.h"

/* -- encode -------------------------------------------------------------------------------------------------------- */

/* Pads the scales to 16 bytes, and bf16's codes. */
template <enum tagc_dense_codec codec>
DEVICE void pad(const struct tagc_dense_call &dense, uint8_t *message, uint32_t lane) {
  const struct tagc_cuda_call &call = dense.call;
  const uint64_t used = codec == TAGC_DENSE_BF16 ? call.n : (uint64_t)call.blocks * steps<codec>::SCALES;
  uint16_t *end = (uint16_t *)(message + (codec == TAGC_DENSE_BF16 ? dense.codes_at : dense.scales_at)) + used;
  if (lane < (8 - used % 8) % 8)
    end[lane] = 0;
}

/* Counts a block's values that neither travel nor stay. `aside`: its original values, if they are not x; `silent`: the
 * bits of halves. */
DEVICE void count_lost(const struct tagc_cuda_call &call, const float x[EACH], const float *aside, uint32_t silent,
                       uint32_t lane) {
  uint32_t lost = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    lost += tagc_dense_loses(aside ? aside[LANES * i + lane] : x[i], silent >> i / ROW & 1);
  add_lost(call, lost, lane);
}

/* Returns the lane's part of the squared norm of a foreign shard's residual. */
template <enum tagc_dense_codec codec>
DEVICE double encode_shard(const struct tagc_dense_call &dense, uint32_t shard, uint32_t first, uint32_t stride,
                           uint32_t lane, struct scratch *scratch) {
  const struct tagc_cuda_call &call = dense.call;
  const char *from = shard_of(call, shard);
  const bool adds = tagc_residual_counts(&call);
  uint8_t *message = call.message_out + call.message_bytes * shard;
  const struct kept kept = kept_of(call, shard);
  double norm2 = 0;
  struct sent to = {};
  to.rotation_key = tagc_rotation_key(call.seed, shard);
  to.chance_key = tagc_chance_key(call.seed, TAGC_CHANCE_SENT, call.rank, shard);
  to.stochastic = dense.stochastic;
  for (uint32_t block = first; block < call.blocks; block += stride) {
    float x[EACH], left[EACH];
    bool unusual = false;
    load(call, from, kept, adds, block, lane, scratch->stage, x);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      unusual |= tagc_dense_unusual(x[i]);
    unusual = __any_sync(ALL_LANES, unusual);
    if (unusual) {
      await_open(call, lane);
      append(call, (struct tagc_exceptions *)message, block, lane, x);
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
        scratch->aside[LANES * i + lane] = x[i];
        x[i] = tagc_dense_strip(x[i]);
      }
    }
    to.scales = (uint16_t *)(message + dense.scales_at) + (uint64_t)block * steps<codec>::SCALES;
    to.codes = message + dense.codes_at + (uint64_t)block * steps<codec>::BYTES;
    to.block = block;
    to.count = count_of(call, block);
    const uint32_t silent = steps<codec>::encode(to, x, lane, scratch->stage, left);
    if (block == call.blocks - 1)
      pad<codec>(dense, message, lane);
    if (call.storage == TAGC_STORAGE_NONE) {
      if (silent || unusual)
        count_lost(call, x, unusual ? scratch->aside : NULL, silent, lane);
      continue;
    }
    if (unusual)
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        left[i] = tagc_dense_mend(scratch->aside[LANES * i + lane], left[i]);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      left[i] = place_of(lane, i) < to.count ? left[i] : 0;
    norm2 += kept_store(call, kept, block, lane, to.count, left, scratch->stage);
  }
  return norm2;
}

template <enum tagc_dense_codec codec> DEVICE void encode(const struct tagc_dense_call &dense) {
  __shared__ __align__(16) struct scratch scratch[WARPS];
  const struct tagc_cuda_call &call = dense.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint32_t first = blockIdx.x * WARPS + warp, stride = gridDim.x * WARPS;
  double sum = 0;
  if (warp == 0)
    open_once(call, lane);
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y) {
    if (shard == call.rank)
      look_at_own(call, first, stride, lane, scratch[warp].stage);
    else
      sum += encode_shard<codec>(dense, shard, first, stride, lane, &scratch[warp]);
  }
  add_norm(call, sum);
  if (closes(call))
    close(call, 0, 0, 1);
}

/* -- decode -------------------------------------------------------------------------------------------------------- */

template <enum tagc_dense_codec codec> DEVICE void decode(const struct tagc_dense_call &dense) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = dense.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, stride = gridDim.x * WARPS;
  float *stage = stages[warp];
  const uint64_t rotation_key = tagc_rotation_key(call.seed, call.rank);
  const struct told told = listen(call);
  const struct result result = result_of(call, !told.bad, told.some > 0);
  bool seen = false;
  if (blockIdx.x == 0)
    note_told(call, told, TAGC_ANYWHERE_EXCEPTION); /* there is room for all values, whatever messages claim */
  for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += stride) {
    const struct rows own = result_fetch(call, result, block, lane, stage);
    float sum[EACH] = {0, 0, 0, 0, 0, 0, 0, 0};
    UNROLL_4_FOR (uint32_t i = 0; i < call.nranks - 1; i++) { /* no branches: several loads are under way at once */
      const uint8_t *message = call.message_in + call.message_bytes * (i + (i >= call.rank));
      const uint16_t *scales = (const uint16_t *)(message + dense.scales_at) + (uint64_t)block * steps<codec>::SCALES;
      const uint8_t *codes = message + dense.codes_at + (uint64_t)block * steps<codec>::BYTES;
      steps<codec>::add(sum, scales, codes, lane, count_of(call, block), stage);
    }
    if (steps<codec>::ROTATES)
      turn_back(sum, signs_of(rotation_key, block, lane), lane);
    seen |= result_store(call, result, block, lane, sum, own, stage);
  }
  note_seen(call, seen, lane);
  if (call.ends && closes(call))
    end_decoded(call);
}

/* -- entries ------------------------------------------------------------------------------------------------------- */

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
enum { ROTATE_GROUPS = 2, TURN_GROUPS = 3 };
#else
enum { ROTATE_GROUPS = 3, TURN_GROUPS = 4 };
#endif

ENTRY(tagc_dense_encode_bf16, tagc_dense_call, 3, encode<TAGC_DENSE_BF16>(call));
ENTRY(tagc_dense_encode_q8, tagc_dense_call, 3, encode<TAGC_DENSE_Q8>(call));
ENTRY(tagc_dense_encode_q4, tagc_dense_call, ROTATE_GROUPS, encode<TAGC_DENSE_Q4>(call));
ENTRY(tagc_dense_encode_q3, tagc_dense_call, 3, encode<TAGC_DENSE_Q3>(call));
ENTRY(tagc_dense_encode_q2, tagc_dense_call, ROTATE_GROUPS, encode<TAGC_DENSE_Q2>(call));
ENTRY(tagc_dense_decode_bf16, tagc_dense_call, 3, decode<TAGC_DENSE_BF16>(call));
ENTRY(tagc_dense_decode_q8, tagc_dense_call, 4, decode<TAGC_DENSE_Q8>(call));
ENTRY(tagc_dense_decode_q4, tagc_dense_call, TURN_GROUPS, decode<TAGC_DENSE_Q4>(call));
ENTRY(tagc_dense_decode_q3, tagc_dense_call, 3, decode<TAGC_DENSE_Q3>(call)); /* with 4 it spills */
ENTRY(tagc_dense_decode_q2, tagc_dense_call, TURN_GROUPS, decode<TAGC_DENSE_Q2>(call));
