/* SPDX-License-Identifier: BSD-3-Clause
 * The first and the last step of sending: lists of exceptions and their flags. See call.h; larger kernels include it.
 */
#ifndef KERNELS_CUDA_EXCEPTIONS_CUH
#define KERNELS_CUDA_EXCEPTIONS_CUH

#include "kernels/cuda/call.cuh"

/* -- open ---------------------------------------------------------------------------------------------------------- */

DEVICE void open(const struct tagc_cuda_call &call) {
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y) {
    uint4 *list = (uint4 *)list_of(call.message_out, call, shard);
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < call.list_bytes / 16; i += gridDim.x * blockDim.x)
      if (shard != call.rank)
        list[i] = make_uint4(0, 0, 0, 0);
  }
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
    *call.state = {};
    call.state->selected = call.selected;
    call.counts->dropped += !call.continues && tagc_residual_dropped(&call);
  }
}

/* -- close --------------------------------------------------------------------------------------------------------- */

/* Sorts entries by position: a bitonic sort whose steps all move smaller ones down. The elements that a power of two
 * would have beyond `count` are in place already. */
DEVICE void sort(struct tagc_exception *entry, uint32_t count) {
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

/* `found`: bits to add to state->found; the same in all groups. */
DEVICE void close(const struct tagc_cuda_call &call, uint32_t found) {
  __shared__ uint64_t nonfinite[WARPS];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  uint64_t exceptions = 0;
  for (uint32_t shard = threadIdx.x; shard < call.nranks; shard += blockDim.x)
    exceptions += shard == call.rank ? 0 : list_of(call.message_out, call, shard)->count;
  const uint32_t listed = __syncthreads_or(exceptions > 0) ? TAGC_ANYWHERE_EXCEPTION : 0;
  const uint32_t anywhere = listed | found | call.state->found;
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
  const double sum = all_norms(call);
  exceptions = warp_sum(exceptions);
  if (lane == 0)
    nonfinite[warp] = exceptions;
  __syncthreads();
  if (threadIdx.x > 0)
    return;
  for (uint32_t i = 1; i < WARPS; i++)
    exceptions += nonfinite[i];
  call.state->anywhere = anywhere;
  call.counts->selected += call.state->selected;
  call.counts->nonfinite += exceptions;
  call.counts->residual_norm2 = sum + (call.continues ? call.counts->residual_norm2 : 0);
}

#endif
