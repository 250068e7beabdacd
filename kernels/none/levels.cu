/* SPDX-License-Identifier: BSD-3-Clause
 * `precise` in two levels on a GPU: the messages and the bits of levels.c, which explains them.
 *
 * Encode    Three kernels. The first adds the values of the host's ranks, and counts the entries of each block. The
 *           second adds these counts up, closes the messages, and says which of them have no room for their entries.
 *           The third writes the entries, whose places are known by then: in the order of their elements.
 * Decode    Two kernels. The first adds the sums of all hosts in fp64, and in integers where that has an error. The
 *           second does the elements that have entries once more, a thread each.
 */
#include "kernels/none/cuda.h"
#include "kernels/none/levels.h"
#include "kernels/none/precise.cuh"

/* -- encode -------------------------------------------------------------------------------------------------------- */

DEVICE const char *own_values_of(const struct tagc_levels_call &levels, uint32_t shard, uint32_t local) {
  return shard_of(levels.call, local * levels.call.nranks + shard);
}

DEVICE struct tagc_levels_message message_to(const struct tagc_levels_call &levels, uint32_t shard) {
  return tagc_levels_parts(levels.call.n, levels.call.message_out + levels.call.message_bytes * shard);
}

/* Adds a block in fp32. Returns the mask of the lane's elements for which that may have an error (sums.c). */
DEVICE uint32_t add_block(const struct tagc_levels_call &levels, uint32_t shard, uint32_t block, uint32_t lane,
                          struct precise_sums<float> &sums, float *stage) {
  const struct tagc_cuda_call &call = levels.call;
  const uint32_t span = tagc_exact_span_in(24, levels.local, (enum tagc_dtype)call.dtype), finite = LARGEST_FINITE;
  uint32_t unsafe = 0;
  begin_sums(sums);
  UNROLL_4_FOR (uint32_t local = 0; local < levels.local; local++) {
    const char *from = own_values_of(levels, shard, local) + (uint64_t)block * BLOCK * size_of(call);
    float x[EACH];
    elements_convert(elements_fetch(from, call.dtype, lane, count_of(call, block), stage), call.dtype, x);
    add_to_sums(sums, x);
  }
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    const bool safe = is_narrow(sums, i, span) && (tagc_bits_of(sums.sum[i]) & 0x7fffffffu) <= finite;
    unsafe |= (uint32_t)!safe << i;
  }
  return unsafe;
}

/* tagc_levels_add() without the list. Returns the number of terms. */
DEVICE uint32_t split_element(const struct tagc_levels_call &levels, uint32_t shard, uint64_t at, float *head,
                              float *term) {
  struct tagc_levels_sum sum = {0, true};
  for (uint32_t local = 0; local < levels.local; local++)
    tagc_levels_next(&sum, tagc_load(own_values_of(levels, shard, local), at, (enum tagc_dtype)levels.call.dtype));
  return tagc_levels_split(&sum, levels.local, head, term);
}

DEVICE void add_values(const struct tagc_levels_call &levels) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = levels.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y) {
    float *to = message_to(levels, shard).sums;
    for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS) {
      struct precise_sums<float> sums;
      uint32_t entries = 0;
      for (uint32_t left = add_block(levels, shard, block, lane, sums, stages[warp]); left != 0; left &= left - 1) {
        const uint32_t bit = left & (0 - left);
        float head, term;
        entries += split_element(levels, shard, (uint64_t)block * BLOCK + place_of_bit(lane, bit), &head, &term);
        UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
          sums.sum[i] = bit == 1u << i ? head : sums.sum[i];
      }
      elements_store(to + (uint64_t)block * BLOCK, TAGC_FLOAT32, lane, count_of(call, block), sums.sum, stages[warp]);
      entries = warp_add(entries);
      if (lane == 0)
        levels.entries[(uint64_t)shard * call.blocks + block] = entries;
    }
  }
}

/* Replaces the counts of a shard's blocks by those before each. Returns their sum; more than the capacity is full. */
DEVICE uint64_t add_entries(const struct tagc_levels_call &levels, uint32_t shard, uint32_t capacity) {
  const struct tagc_cuda_call &call = levels.call;
  uint64_t before = 0;
  for (uint32_t from = 0; from < call.blocks; from += blockDim.x) {
    const uint32_t block = from + threadIdx.x;
    uint32_t *const its = &levels.entries[(uint64_t)shard * call.blocks + block];
    uint32_t all;
    const uint32_t mine = group_before(block < call.blocks ? *its : 0, &all);
    if (block < call.blocks)
      *its = (uint32_t)(before > capacity ? capacity : before) + mine;
    before += all;
  }
  return before;
}

DEVICE void close_message(const struct tagc_levels_call &levels, uint32_t shard) {
  const struct tagc_cuda_call &call = levels.call;
  const struct tagc_levels_message message = message_to(levels, shard);
  const uint64_t entries = add_entries(levels, shard, message.capacity);
  const bool full = entries > message.capacity; /* all values follow, and tell their exceptions themselves */
  uint32_t *const pad = (uint32_t *)(message.sums + call.n);
  for (uint32_t i = (full ? message.capacity : (uint32_t)entries) + threadIdx.x; i < message.capacity;
       i += blockDim.x) {
    message.places[i] = 0;
    message.terms[i] = 0;
  }
  if (threadIdx.x < TAGC_LEVELS_FLAG_BYTES)
    levels.flags[(uint64_t)shard * TAGC_LEVELS_FLAG_BYTES + threadIdx.x] =
      threadIdx.x == 0 && full && shard != call.rank;
  if (threadIdx.x < message.places - pad)
    pad[threadIdx.x] = 0;
  if (threadIdx.x < TAGC_LEVELS_HEAD_BYTES / sizeof(uint32_t))
    message.count[threadIdx.x] = threadIdx.x ? 0 : full ? TAGC_LEVELS_FULL : (uint32_t)entries;
}

DEVICE void close_messages(const struct tagc_levels_call &levels) {
  const struct tagc_cuda_call &call = levels.call;
  for (uint32_t shard = blockIdx.x; shard < call.nranks; shard += gridDim.x)
    close_message(levels, shard);
  if (blockIdx.x > 0 || threadIdx.x > 0)
    return;
  *call.state = {};
  call.state->fits = 1;
  call.counts->selected += call.selected;
  call.counts->residual_norm2 = 0;
  begin_flags(call);
}

/* Writes the entries of a block, the first of which is entry `at`: a half of the block after the other. */
DEVICE void list_block(const struct tagc_levels_call &levels, const struct tagc_levels_message &message, uint32_t shard,
                       uint32_t block, uint32_t lane, uint32_t at, float *stage) {
  struct precise_sums<float> sums;
  float term[EACH];
  uint32_t terms[EACH];
  const uint32_t unsafe = add_block(levels, shard, block, lane, sums, stage);
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    terms[i] = 0;
    if (unsafe >> i & 1)
      terms[i] = split_element(levels, shard, (uint64_t)block * BLOCK + place_of(lane, i), &sums.sum[i], &term[i]);
  }
  UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
    uint32_t mine = 0, all;
    UNROLL_FOR (uint32_t i = half * ROW; i < (half + 1) * ROW; i++)
      mine += terms[i];
    uint32_t to = at + warp_before(mine, lane, &all);
    UNROLL_FOR (uint32_t i = half * ROW; i < (half + 1) * ROW; i++)
      for (uint32_t local = 0; local < terms[i]; local++, to++) {
        const uint32_t place = block * BLOCK + place_of(lane, i);
        message.places[to] = place;
        message.terms[to] =
          terms[i] == 1 ? term[i]
                        : tagc_load(own_values_of(levels, shard, local), place, (enum tagc_dtype)levels.call.dtype);
      }
    at += all;
  }
}

DEVICE void list_entries(const struct tagc_levels_call &levels) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = levels.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (uint32_t shard = blockIdx.y; shard < call.nranks; shard += gridDim.y) {
    const struct tagc_levels_message message = message_to(levels, shard);
    const uint32_t *before = levels.entries + (uint64_t)shard * call.blocks, all = *message.count;
    if (all == TAGC_LEVELS_FULL)
      continue;
    for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS)
      if (before[block] < (block + 1 < call.blocks ? before[block + 1] : all))
        list_block(levels, message, shard, block, lane, before[block], stages[warp]);
  }
}

/* -- decode -------------------------------------------------------------------------------------------------------- */

DEVICE struct tagc_levels_message message_from(const struct tagc_levels_call &levels, uint32_t host) {
  const struct tagc_cuda_call &call = levels.call;
  const uint8_t *messages = host == call.rank ? call.message_out : call.message_in;
  return tagc_levels_parts(call.n, messages + call.message_bytes * host);
}

/* The values of a host's rank for this rank's shard. */
DEVICE const char *values_of(const struct tagc_levels_call &levels, uint32_t host, uint32_t local) {
  const struct tagc_cuda_call &call = levels.call;
  if (host == call.rank)
    return own_values_of(levels, host, local);
  return (const char *)levels.values + call.stride * (local * call.nranks + host) * size_of(call);
}

/* One element of all ranks in integers. */
DEVICE float sum_of_all(const struct tagc_levels_call &levels, uint64_t at, struct tagc_exact *exact) {
  begin_exact(exact);
  for (uint32_t host = 0; host < levels.call.nranks; host++) {
    const struct tagc_levels_message message = message_from(levels, host);
    if (*message.count == TAGC_LEVELS_FULL) {
      for (uint32_t local = 0; local < levels.local; local++)
        tagc_exact_add(exact, tagc_load(values_of(levels, host, local), at, (enum tagc_dtype)levels.call.dtype));
      continue;
    }
    const uint32_t entries = tagc_levels_entries(&message);
    tagc_exact_add(exact, message.sums[at]);
    for (uint32_t e = tagc_levels_entry_from(&message, at); e < entries && message.places[e] == at; e++)
      tagc_exact_add(exact, message.terms[e]);
  }
  return rounded_exact(exact, levels.call);
}

/* Adds what a host has of a block, without its entries. */
DEVICE void add_host(const struct tagc_levels_call &levels, uint32_t host, uint32_t block, uint32_t lane,
                     struct precise_sums<double> &sums, float *stage) {
  const struct tagc_cuda_call &call = levels.call;
  const struct tagc_levels_message message = message_from(levels, host);
  const uint64_t first = (uint64_t)block * BLOCK;
  const uint32_t count = count_of(call, block);
  float x[EACH];
  if (*message.count != TAGC_LEVELS_FULL) {
    elements_convert(elements_fetch(message.sums + first, TAGC_FLOAT32, lane, count, stage), TAGC_FLOAT32, x);
    add_to_sums(sums, x);
    return;
  }
  for (uint32_t local = 0; local < levels.local; local++) {
    const char *from = values_of(levels, host, local) + first * size_of(call);
    elements_convert(elements_fetch(from, call.dtype, lane, count, stage), call.dtype, x);
    add_to_sums(sums, x);
  }
}

/* Do the terms that this thread looks at have exceptions? */
DEVICE bool has_exceptional_terms(const struct tagc_levels_call &levels) {
  bool seen = false;
  for (uint32_t host = 0; host < levels.call.nranks; host++) {
    const struct tagc_levels_message message = message_from(levels, host);
    const uint32_t entries = *message.count == TAGC_LEVELS_FULL ? 0 : tagc_levels_entries(&message);
    for (uint32_t e = blockIdx.x * blockDim.x + threadIdx.x; e < entries; e += gridDim.x * blockDim.x)
      seen |= tagc_is_exception(tagc_bits_of(message.terms[e]));
  }
  return seen;
}

DEVICE void decode_hosts(const struct tagc_levels_call &levels) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = levels.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const struct tagc_exact_quotient by = tagc_exact_quotient_of((uint32_t)call.divisor);
  const uint32_t span = tagc_exact_span(call.nranks * levels.local, TAGC_FLOAT32);
  bool seen = has_exceptional_terms(levels);
  for (uint32_t block = blockIdx.x * WARPS + warp; block < call.blocks; block += gridDim.x * WARPS) {
    const uint32_t count = count_of(call, block);
    struct precise_sums<double> sums;
    float x[EACH];
    uint32_t wrong = 0;
    begin_sums(sums);
    for (uint32_t host = 0; host < call.nranks; host++)
      add_host(levels, host, block, lane, sums, stages[warp]);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      x[i] = nearest_sum(sums.sum[i], by, call.dtype);
      wrong |= (uint32_t)(place_of(lane, i) < count && !is_exact(sums, i, span, by, x[i])) << i;
      seen |= sums.most[i] >= TAGC_EXCEPTION_BITS;
    }
    if (__any_sync(ALL_LANES, wrong != 0))
      mend_results(lane, wrong, x, stages[warp], [&](uint32_t bit, struct tagc_exact *exact) {
        return sum_of_all(levels, (uint64_t)block * BLOCK + place_of_bit(lane, bit), exact);
      });
    seen |= has_nonfinite(call, lane, count, x);
    elements_store((char *)call.recv + (uint64_t)block * BLOCK * size_of(call), call.dtype, lane, count, x,
                   stages[warp]);
  }
  note_seen(call, seen, lane);
}

DEVICE bool has_entry(const struct tagc_levels_call &levels, uint32_t host, uint32_t at) {
  const struct tagc_levels_message message = message_from(levels, host);
  const uint32_t e = tagc_levels_entry_from(&message, at);
  return *message.count != TAGC_LEVELS_FULL && e < tagc_levels_entries(&message) && message.places[e] == at;
}

/* A thread takes the first entry of an element, of the first host that has some. */
DEVICE void complete_results(const struct tagc_levels_call &levels) {
  __shared__ struct tagc_exact rooms[TAGC_CUDA_THREADS];
  const struct tagc_cuda_call &call = levels.call;
  bool seen = false;
  for (uint32_t host = blockIdx.y; host < call.nranks; host += gridDim.y) {
    const struct tagc_levels_message message = message_from(levels, host);
    const uint32_t entries = *message.count == TAGC_LEVELS_FULL ? 0 : tagc_levels_entries(&message);
    for (uint32_t e = blockIdx.x * blockDim.x + threadIdx.x; e < entries; e += gridDim.x * blockDim.x) {
      const uint32_t at = message.places[e];
      bool first = at < call.n && (e == 0 || at != message.places[e - 1]);
      for (uint32_t earlier = 0; first && earlier < host; earlier++)
        first = !has_entry(levels, earlier, at);
      if (first)
        seen |=
          tagc_store_result(call.recv, at, (enum tagc_dtype)call.dtype, sum_of_all(levels, at, &rooms[threadIdx.x]), 1);
    }
  }
  note_seen(call, seen, threadIdx.x % LANES);
  if (call.ends && closes(call))
    end_decoded(call);
}

ENTRY(tagc_hosts_add, tagc_levels_call, 2, add_values(call));
ENTRY(tagc_hosts_close, tagc_levels_call, 2, close_messages(call));
ENTRY(tagc_hosts_list, tagc_levels_call, 2, list_entries(call));
ENTRY(tagc_hosts_decode, tagc_levels_call, 2, decode_hosts(call));
ENTRY(tagc_hosts_complete, tagc_levels_call, 2, complete_results(call));
