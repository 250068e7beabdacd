/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that compresses nothing, on a GPU: codec.c's bytes. A warp takes block after block.
 */
#include "kernels/cuda/exceptions.cuh"
#include "kernels/none/cuda.h"

/* Sends scale*g + e of a block, rounded; the residual keeps the error. Returns the lane's part of its squared norm. */
DEVICE double encode_block(const struct tagc_cuda_call &call, uint32_t shard, uint32_t block, uint32_t lane, char *to,
                           const struct kept &kept, bool adds, float *stage) {
  const uint32_t count = count_of(call, block);
  float x[EACH], sent[EACH];
  load(call, shard_of(call, shard), kept, adds, block, lane, stage, x);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    x[i] = adds ? x[i] : x[i] + 0.0f; /* with an empty residual, -0 becomes 0 */
    x[i] = x[i] == x[i] ? x[i] : tagc_float_of(TAGC_NAN_BITS);
    sent[i] = call.dtype == TAGC_FLOAT32   ? x[i]
              : call.dtype == TAGC_FLOAT16 ? tagc_from_fp16(tagc_to_fp16(x[i]))
                                           : tagc_from_bf16(tagc_to_bf16(x[i]));
  }
  elements_store(to, call.dtype, lane, count, sent, stage);
  if (call.storage == TAGC_STORAGE_NONE)
    return 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    x[i] = x[i] - sent[i];
    x[i] = tagc_is_exception(tagc_bits_of(x[i])) || place_of(lane, i) >= count ? 0.0f : x[i];
  }
  return kept_store(call, kept, block, lane, count, x, stage);
}

/* Copies a block unchanged. */
DEVICE void copy_block(const struct tagc_cuda_call &call, uint32_t shard, uint32_t block, uint32_t lane, char *to,
                       float *stage) {
  const uint32_t count = count_of(call, block), size = size_of(call);
  const char *from = shard_of(call, shard) + (uint64_t)block * BLOCK * size;
  const struct rows rows = elements_fetch(from, call.dtype, lane, count, stage);
  if (size == 4)
    rows_store<4>(to, lane, count, rows, stage);
  else
    rows_store<2>(to, lane, count, rows, stage);
}

/* Pads the message after its last element. */
DEVICE void pad(const struct tagc_cuda_call &call, uint8_t *message, uint32_t lane) {
  const uint64_t used = call.n * size_of(call);
  if (lane < call.message_bytes - used)
    message[used + lane] = 0;
}

/* Without lists, the state that decode reads must say so. */
DEVICE void close_none(const struct tagc_cuda_call &call) {
  const double sum = all_norms(call);
  if (threadIdx.x > 0)
    return;
  *call.state = {};
  call.state->fits = 1;
  call.counts->selected += call.selected;
  call.counts->dropped += !call.continues && tagc_residual_dropped(&call);
  call.counts->residual_norm2 = sum + (call.continues ? call.counts->residual_norm2 : 0);
  begin_flags(call);
}

DEVICE void encode_none(const struct tagc_cuda_call &call) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const bool adds = tagc_residual_counts(&call), as_is = call.scale == 1 && call.storage == TAGC_STORAGE_NONE;
  double sum = 0;
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y) {
    if (shard == call.rank)
      continue;
    uint8_t *message = call.message_out + call.message_bytes * shard;
    const struct kept kept = kept_of(call, shard);
    for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS) {
      char *to = (char *)message + (uint64_t)block * BLOCK * size_of(call);
      if (as_is)
        copy_block(call, shard, block, lane, to, stages[warp]);
      else
        sum += encode_block(call, shard, block, lane, to, kept, adds, stages[warp]);
      if (block == call.blocks - 1)
        pad(call, message, lane);
    }
  }
  add_norm(call, sum);
  if (closes(call))
    close_none(call);
}

DEVICE void decode_none(const struct tagc_cuda_call &call) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  float *stage = stages[warp];
  const struct result result = result_of(call);
  bool seen = false;
  for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS) {
    const struct rows own = result_fetch(call, result, block, lane, stage);
    float sum[EACH] = {0, 0, 0, 0, 0, 0, 0, 0}, x[EACH];
    for (uint32_t sender = 0; sender < call.nranks; sender++) {
      if (sender == call.rank)
        continue;
      const uint8_t *from = call.message_in + call.message_bytes * sender + (uint64_t)block * BLOCK * size_of(call);
      elements_convert(elements_fetch(from, call.dtype, lane, count_of(call, block), stage), call.dtype, x);
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        sum[i] += x[i];
    }
    seen |= result_store(call, result, block, lane, sum, own, stage);
  }
  note_seen(call, seen, lane); /* of this shard only: no message has flags */
  if (call.ends && closes(call))
    end_decoded(call);
}

ENTRY(tagc_none_encode, tagc_cuda_call, 3, encode_none(call));
ENTRY(tagc_none_decode, tagc_cuda_call, 3, decode_none(call));
