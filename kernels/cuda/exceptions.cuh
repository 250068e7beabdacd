/* SPDX-License-Identifier: BSD-3-Clause
 * The first and the last step of sending and of receiving: lists of exceptions and their flags. See call.h; larger
 * kernels include it.
 */
#ifndef KERNELS_CUDA_EXCEPTIONS_CUH
#define KERNELS_CUDA_EXCEPTIONS_CUH

#include "kernels/cuda/call.cuh"

/* -- open ---------------------------------------------------------------------------------------------------------- */

/* Empties the lists of exceptions, by threads `first`, `first` + `stride`... of each of `rows` rows of shards. */
DEVICE void clear_lists(const struct tagc_cuda_call &call, uint32_t row, uint32_t rows, uint32_t first,
                        uint32_t stride) {
  for (uint32_t shard = row; shard < call.nranks; shard += rows) {
    uint4 *list = (uint4 *)list_of(call.message_out, call, shard);
    for (uint32_t i = first; i < call.list_bytes / 16; i += stride)
      if (shard != call.rank)
        list[i] = make_uint4(0, 0, 0, 0);
  }
}

DEVICE void begin_state(const struct tagc_cuda_call &call) {
  *call.state = {};
  call.state->selected = call.selected;
  call.counts->dropped += !call.continues && tagc_residual_dropped(&call);
}

/* By a kernel before the one that encodes. */
DEVICE void open(const struct tagc_cuda_call &call) {
  clear_lists(call, blockIdx.y, gridDim.y, blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
    begin_state(call);
}

/* By a warp of each group of the kernel that encodes: the first to come does it. The others go on, and wait only where
 * they have something to write there: await_open(). */
DEVICE void open_once(const struct tagc_cuda_call &call, uint32_t lane) {
  struct tagc_cuda_gate *gate = &call.counts->gate;
  const unsigned before = lane == 0 ? atomicAdd(&gate->begun, 1u) : 0;
  if (__shfl_sync(ALL_LANES, before, 0) > 0)
    return;
  clear_lists(call, 0, 1, lane, LANES);
  if (lane == 0)
    begin_state(call);
  __syncwarp();
  if (lane == 0)
    word_add(&gate->opened, 1);
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

/* Decode adds its flags to those of the call's chunks before. */
DEVICE void begin_flags(const struct tagc_cuda_call &call) {
  if (!call.continues)
    call.counts->nonfinite_seen = call.counts->surplus_seen = 0;
}

/* `found`: bits to add to state->found; the same in all of `groups`, of which this is one. */
DEVICE void close(const struct tagc_cuda_call &call, uint32_t found, uint32_t group, uint32_t groups) {
  __shared__ uint64_t nonfinite[WARPS];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  uint64_t exceptions = 0;
  for (uint32_t shard = threadIdx.x; shard < call.nranks; shard += blockDim.x)
    exceptions += shard == call.rank ? 0 : list_of(call.message_out, call, shard)->count;
  const uint32_t listed = __syncthreads_or(exceptions > 0) ? TAGC_ANYWHERE_EXCEPTION : 0;
  const uint32_t before = tagc_nonfinite_before(&call) ? TAGC_ANYWHERE_EXCEPTION : 0;
  const uint32_t anywhere = listed | found | call.state->found | before;
  for (uint32_t shard = group * blockDim.x + threadIdx.x; shard < call.nranks; shard += groups * blockDim.x)
    if (shard != call.rank)
      list_of(call.message_out, call, shard)->anywhere = anywhere;
  for (uint32_t i = group; listed && i < call.nranks - 1; i += groups) { /* one after the other: rarely */
    struct tagc_exceptions *list = list_of(call.message_out, call, shard_at(call, i));
    if (list->count <= call.capacity)
      sort(list->entry, list->count);
    else
      for (uint32_t at = threadIdx.x; at < call.capacity; at += blockDim.x)
        list->entry[at] = {0, 0};
  }
  if (group > 0)
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
  begin_flags(call);
}

/* At the end of a kernel that is alone in its step, by all threads of its groups: true in the last one. */
DEVICE bool closes(const struct tagc_cuda_call &call) {
  struct tagc_cuda_gate *gate = &call.counts->gate;
  if (!group_is_last(&gate->arrived, gridDim.x * gridDim.y))
    return false;
  if (threadIdx.x == 0)
    *gate = {};
  return true;
}

/* -- what came in -------------------------------------------------------------------------------------------------- */

/* What the senders' lists say. */
struct told {
  uint32_t some, bad; /* 1: some list has an entry; some list is too long, or not in order */
};

/* True if a list is not in order: a warp looks at a sender, as there may be many. */
DEVICE bool out_of_order(const struct tagc_cuda_call &call) {
  const uint32_t lane = threadIdx.x % LANES;
  bool bad = false;
  for (uint32_t sender = threadIdx.x / LANES; sender < call.nranks; sender += WARPS) {
    const struct tagc_exceptions *list = list_of(call.message_in, call, sender);
    for (uint32_t i = lane; sender != call.rank && i < list->count; i += LANES) {
      const uint32_t position = list->entry[i].position;
      bad |= position >= call.n || (i > 0 && position <= list->entry[i - 1].position);
    }
  }
  return __syncthreads_or(bad);
}

/* Checks the senders' lists before anybody trusts them: all threads of a group call it. Groups need no other's word, as
 * lists are empty as a rule. */
DEVICE struct told listen(const struct tagc_cuda_call &call) {
  uint32_t most = 0;
  for (uint32_t sender = threadIdx.x; sender < call.nranks; sender += blockDim.x) {
    const uint32_t count = sender == call.rank ? 0 : list_of(call.message_in, call, sender)->count;
    most = count > most ? count : most;
  }
  if (!__syncthreads_or(most > 0))
    return {0, 0};
  return {1, __syncthreads_or(most > call.capacity) || out_of_order(call) ? 1u : 0u};
}

/* Adds that to the counts, and what the senders know of all shards, as far as it is in `heeded`. All threads of one
 * group of a launch call it; others may add what they see of results. */
DEVICE void note_told(const struct tagc_cuda_call &call, const struct told &told, uint32_t heeded) {
  uint32_t anywhere = 0;
  for (uint32_t sender = threadIdx.x; sender < call.nranks; sender += blockDim.x)
    anywhere |= sender == call.rank ? call.state->anywhere : list_of(call.message_in, call, sender)->anywhere;
  const bool exception = __syncthreads_or(anywhere & heeded & TAGC_ANYWHERE_EXCEPTION);
  const bool surplus = __syncthreads_or(anywhere & heeded & TAGC_ANYWHERE_SURPLUS);
  if (threadIdx.x > 0)
    return;
  call.counts->overflowed += told.bad;
  call.counts->surplus_seen |= surplus;
  if (exception || told.bad > 0)
    atomicOr(&call.counts->nonfinite_seen, 1u);
}

/* end_call of device.h. */
DEVICE void end_call(const struct tagc_cuda_flags &flags) {
  struct tagc_counts *counts = flags.counts;
  const bool nonfinite = flags.words ? flags.words[TAGC_FLAG_NONFINITE] != 0 : counts->nonfinite_seen != 0;
  const bool surplus = flags.words ? flags.words[TAGC_FLAG_SURPLUS] != 0 : counts->surplus_seen != 0;
  if (nonfinite && flags.health)
    flags.health->nonfinite[flags.cycle % TAGC_HEALTH_CYCLES] = flags.cycle;
  counts->surplus_calls = surplus ? counts->surplus_calls + 1 : 0;
  counts->denser |= counts->surplus_calls >= TAGC_SURPLUS_CALLS;
}

/* The same by one group of a kernel that decodes, once all flags are in the counts. */
DEVICE void end_decoded(const struct tagc_cuda_call &call) {
  if (call.ends && threadIdx.x == 0)
    end_call({call.counts, call.health, NULL, call.cycle});
}

#endif
