/* SPDX-License-Identifier: BSD-3-Clause
 * The steps that all codecs share on a GPU: lists of exceptions (exceptions.cuh), flags, flushing, and the count of a
 * gradient's values before it has a codec. See call.h.
 */
#include "kernels/cuda/exceptions.cuh"
#include "kernels/codec/nonzero_index.h"

/* -- what came in -------------------------------------------------------------------------------------------------- */

DEVICE void check(const struct tagc_cuda_call &call) {
  const struct told told = listen(call);
  note_told(call, told, ~0u);
  if (threadIdx.x > 0)
    return;
  call.state->fits = !told.bad;
  call.state->exceptions = told.some;
}

/* -- what a call has seen ------------------------------------------------------------------------------------------ */

DEVICE void pack_flags(const struct tagc_cuda_flags &flags) {
  flags.words[TAGC_FLAG_NONFINITE] = flags.counts->nonfinite_seen;
  flags.words[TAGC_FLAG_SURPLUS] = flags.counts->surplus_seen;
}

/* -- flushing ------------------------------------------------------------------------------------------------------ */

DEVICE void flush(const struct tagc_cuda_flushing &flush) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = flush.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const bool adds = tagc_residual_counts(&call);
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y) {
    const struct kept kept = kept_of(call, shard);
    char *to = (char *)flush.out + call.stride * shard * size_of(call);
    for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS) {
      float x[EACH];
      load(call, shard_of(call, shard), kept, adds && shard != call.rank, block, lane, stages[warp], x);
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        x[i] = x[i] == x[i] ? x[i] : tagc_float_of(TAGC_NAN_BITS); /* the payload of a NaN depends on the processor */
      elements_store(to + (uint64_t)block * BLOCK * size_of(call), call.dtype, lane, count_of(call, block), x,
                     stages[warp]);
    }
  }
}

/* -- counting ------------------------------------------------------------------------------------------------------ */

/* A warp counts a block at a time, and adds up after each shard. */
DEVICE void count(const struct tagc_cuda_counting &counting) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = counting.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (uint32_t place = blockIdx.y; place < call.nranks - 1; place += gridDim.y) {
    const char *from = shard_of(call, shard_at(call, place));
    uint64_t values = 0;
    bool wild = false;
    for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS) {
      float x[EACH];
      uint32_t found = 0;
      load(call, from, {}, false, block, lane, stages[warp], x);
      UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
        found += tagc_is_value(x[i]);
      wild |= has_exception(x);
      values += found;
      const uint64_t at = call.n * place + (uint64_t)block * BLOCK;
      unsigned long long *const first = &counting.words[TAGC_NONZERO_FIRST + at / counting.range];
      if (__any_sync(ALL_LANES, found > 0) && lane == 0 && word_read(first) < ~at) /* few are */
        atomicMax(first, (unsigned long long)~at);
    }
    values = warp_sum(values);
    wild = __any_sync(ALL_LANES, wild);
    if (lane == 0 && values > 0)
      atomicAdd(&counting.words[TAGC_NONZERO_VALUES + place], (unsigned long long)values);
    if (lane == 0 && wild)
      atomicMax(&counting.words[TAGC_NONZERO_EXCEPTIONS], 1ull);
  }
}

/* -- entries ------------------------------------------------------------------------------------------------------- */

ENTRY(tagc_call_check, tagc_cuda_call, 4, check(call));
ENTRY(tagc_call_pack_flags, tagc_cuda_flags, 1, if (threadIdx.x == 0) pack_flags(call));
ENTRY(tagc_call_end, tagc_cuda_flags, 1, if (threadIdx.x == 0) end_call(call));
ENTRY(tagc_call_flush, tagc_cuda_flushing, 3, flush(call));
ENTRY(tagc_call_count, tagc_cuda_counting, 4, count(call));
