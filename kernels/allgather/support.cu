/* SPDX-License-Identifier: BSD-3-Clause
 * GPU kernels of support, the codec for sums that are mostly zero (support.h): the host's bytes.
 *
 * Places    A block belongs to a warp, and a lane has the elements lane, lane + 32, ... of it: so votes of the warp are
 *           the words of a bitmap. A block's values and index begin where those of all earlier blocks end. So a group
 *           takes a segment of as many blocks as it has threads, a kernel before it counts those of each segment, and
 *           each group adds up the counts of the earlier segments. No group waits for another one.
 * Launches  encode: count, send. decode: look (allgather.cu), indexes, values, decode. The indexes' places follow from
 *           the kinds alone, the number of values of a block with a bitmap from its index.
 * Bounds    Nothing is read or written outside a payload or a shard, whatever a payload says.
 */
#include "kernels/allgather/lossless.cuh"

namespace support {

using gathered::block_of;
using gathered::header_of;
using gathered::is_kept;
using gathered::payload_of;
using gathered::refuse;
using gathered::sent_block;

enum { WORDS = BLOCK / LANES, SEGMENT = TAGC_ALLGATHER_SEGMENT };

DEVICE uint32_t element(const void *from, uint64_t i, uint32_t dtype) {
  return dtype == TAGC_FLOAT32 ? ((const uint32_t *)from)[i] : ((const uint16_t *)from)[i];
}

DEVICE void put_element(void *to, uint64_t i, uint32_t dtype, uint32_t bits) {
  if (dtype == TAGC_FLOAT32)
    ((uint32_t *)to)[i] = bits;
  else
    ((uint16_t *)to)[i] = (uint16_t)bits;
}

/* The lane's elements of a block of the own shard; zeros beyond its end. */
DEVICE void fetch(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane, uint32_t bits[WORDS]) {
  const uint32_t count = count_of(gather.call, block);
  const char *from = sent_block(gather, block);
  UNROLL_FOR (uint32_t i = 0; i < WORDS; i++)
    bits[i] = i * LANES + lane < count ? element(from, i * LANES + lane, gather.call.dtype) : 0;
}

/* The lanes before this one. */
DEVICE uint32_t earlier(uint32_t lane) { return (1u << lane) - 1; }

/* The sum of what earlier segments, and all segments, have; all threads of the group call it. */
DEVICE struct tagc_support_total add_up(const struct tagc_support_total *totals, uint32_t segment, uint32_t segments,
                                        struct tagc_support_total *all) {
  struct tagc_support_total mine = {0, 0}, upto = {0, 0}, before;
  for (uint32_t i = threadIdx.x; i < segments; i += blockDim.x) {
    const struct tagc_support_total its = totals[i];
    mine.values += its.values;
    mine.indexes += its.indexes;
    upto.values += i < segment ? its.values : 0;
    upto.indexes += i < segment ? its.indexes : 0;
  }
  group_before(mine.values, &all->values);
  group_before(mine.indexes, &all->indexes);
  group_before(upto.values, &before.values);
  group_before(upto.indexes, &before.indexes);
  return before;
}

/* -- encode -------------------------------------------------------------------------------------------------------- */

/* Writes the kinds, and counts the values of each block and segment. */
DEVICE void count(const struct tagc_allgather_call &gather) {
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  uint8_t *payload = payload_of(gather, gather.call.rank);
  for (uint32_t segment = blockIdx.x; segment < gather.segments; segment += gridDim.x) {
    const uint32_t first = segment * SEGMENT + warp * LANES, block = first + lane;
    uint32_t values = 0;
    struct tagc_support_total all;
    for (uint32_t i = 0; i < LANES && first + i < gather.call.blocks; i++) {
      uint32_t bits[WORDS], some = 0;
      fetch(gather, first + i, lane, bits);
      UNROLL_FOR (uint32_t word = 0; word < WORDS; word++)
        some += (uint32_t)__popc(__ballot_sync(ALL_LANES, bits[word] != 0));
      values = lane == i ? some : values;
    }
    if (block < gather.call.blocks) {
      payload[gather.kinds + block] = tagc_support_kind(values);
      gather.support_counts[block] = (uint16_t)values;
    }
    group_before(values, &all.values);
    group_before(tagc_support_index_bytes(tagc_support_kind(values)), &all.indexes);
    if (threadIdx.x == 0)
      gather.support[segment] = all;
  }
  for (uint64_t i = gather.kinds + gather.call.blocks + threadIdx.x; blockIdx.x == 0 && i < gather.values;
       i += blockDim.x)
    payload[i] = 0;
}

/* Where the values of a segment's blocks begin, and their indexes. */
struct places {
  uint32_t value[SEGMENT], index[SEGMENT];
};

/* Writes a block's values and index. */
DEVICE void send_block(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane, uint8_t *values,
                       uint8_t *index) {
  const uint32_t count = gather.support_counts[block];
  uint32_t bits[WORDS], done = 0, byte = 0;
  fetch(gather, block, lane, bits);
  UNROLL_FOR (uint32_t i = 0; i < WORDS; i++) {
    const uint32_t word = __ballot_sync(ALL_LANES, bits[i] != 0), at = done + (uint32_t)__popc(word & earlier(lane));
    if (bits[i] != 0) {
      put_element(values, at, gather.call.dtype, bits[i]);
      if (count < TAGC_SUPPORT_BITMAP)
        index[at] = (uint8_t)(i * LANES + lane);
    }
    byte = lane / 4 == i ? word >> lane % 4 * 8 : byte;
    done += (uint32_t)__popc(word);
  }
  if (tagc_support_kind(count) == TAGC_SUPPORT_BITMAP)
    index[lane] = (uint8_t)byte;
}

/* Zeros from the byte `at` on, up to `end`, by all threads of the grid; both are multiples of 16 but for `at`. */
DEVICE void clear(uint8_t *payload, uint64_t at, uint64_t end) {
  const uint64_t first = blockIdx.x * blockDim.x + threadIdx.x, step = (uint64_t)gridDim.x * blockDim.x;
  const uint64_t whole = tagc_pad16(at);
  if (first < whole - at)
    payload[at + first] = 0;
  for (uint64_t i = whole / 16 + first; i < end / 16; i += step)
    ((uint4 *)payload)[i] = make_uint4(0, 0, 0, 0);
}

/* Writes the values, the indexes, the zeros between and after them, and the header; zeroes the state. */
DEVICE void send(const struct tagc_allgather_call &gather) {
  __shared__ struct places places;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, size = size_of(gather.call);
  uint8_t *payload = payload_of(gather, gather.call.rank);
  struct tagc_support_total all = {0, 0};
  uint64_t end = 0, indexes = 0, needed = 0;
  for (uint32_t segment = blockIdx.x; segment < gather.segments; segment += gridDim.x) {
    const uint32_t first = segment * SEGMENT, block = first + threadIdx.x;
    const struct tagc_support_total before = add_up(gather.support, segment, gather.segments, &all);
    const uint32_t count = block < gather.call.blocks ? gather.support_counts[block] : 0;
    uint32_t unused;
    end = gather.values + (uint64_t)all.values * size;
    indexes = tagc_pad16(end);
    needed = indexes + tagc_pad16(all.indexes);
    places.value[threadIdx.x] = before.values + group_before(count, &unused);
    places.index[threadIdx.x] =
      before.indexes + group_before(tagc_support_index_bytes(tagc_support_kind(count)), &unused);
    __syncthreads();
    for (uint32_t i = warp; i < SEGMENT && first + i < gather.call.blocks && needed <= gather.call.message_bytes;
         i += WARPS)
      send_block(gather, first + i, lane, payload + gather.values + (uint64_t)places.value[i] * size,
                 payload + indexes + places.index[i]);
    __syncthreads(); /* all threads have read the places */
  }
  const bool fits = needed <= gather.call.message_bytes;
  if (fits) {
    clear(payload, end, indexes);
    clear(payload, indexes + all.indexes, gather.call.message_bytes);
  }
  if (blockIdx.x > 0 || threadIdx.x > 0)
    return;
  struct tagc_support_header *header = (struct tagc_support_header *)payload;
  *gather.state = {};
  *header = {};
  header->needed = needed;
  header->values = all.values;
  if (!fits)
    refuse(gather);
}

/* -- decode -------------------------------------------------------------------------------------------------------- */

/* A shard's payload. */
struct shard {
  const uint8_t *payload;
  struct tagc_support_total *totals;
  uint64_t indexes, values_end; /* byte offsets; of all values */
};

DEVICE struct shard shard_of(const struct tagc_allgather_call &gather, uint32_t rank) {
  struct shard shard = {payload_of(gather, rank), gather.support + (uint64_t)rank * gather.segments, 0, 0};
  const uint64_t said = ((const struct tagc_support_header *)shard.payload)->values,
                 values = said < gather.call.n ? said : gather.call.n;
  shard.indexes = gather.values + tagc_pad16(values * size_of(gather.call));
  shard.values_end = shard.indexes < gather.call.message_bytes ? shard.indexes : gather.call.message_bytes;
  return shard;
}

/* The kind of the thread's block. */
DEVICE uint32_t kind_of(const struct tagc_allgather_call &gather, const struct shard &shard, uint32_t segment) {
  const uint32_t block = segment * SEGMENT + threadIdx.x;
  return block < gather.call.blocks ? shard.payload[gather.kinds + block] : 0;
}

/* Counts the bytes of the indexes of each segment. */
DEVICE void count_indexes(const struct tagc_allgather_call &gather) {
  if (gather.state->refused)
    return;
  for (uint32_t rank = blockIdx.y; rank < gather.call.nranks; rank += gridDim.y)
    for (uint32_t segment = blockIdx.x; segment < gather.segments && !is_kept(gather, rank); segment += gridDim.x) {
      const struct shard shard = shard_of(gather, rank);
      uint32_t all;
      group_before(tagc_support_index_bytes((uint8_t)kind_of(gather, shard, segment)), &all);
      if (threadIdx.x == 0)
        shard.totals[segment] = {0, all};
    }
}

/* A block with the offset of its index in the payload; of kind 0 if that leads out of it. */
struct found {
  uint32_t kind, count;
  uint64_t index;
};

/* The thread's block. All threads of the group call it. */
DEVICE struct found find(const struct tagc_allgather_call &gather, const struct shard &shard, uint32_t segment) {
  const uint64_t room = gather.call.message_bytes;
  const uint32_t lane = threadIdx.x % LANES, kind = kind_of(gather, shard, segment),
                 bytes = tagc_support_index_bytes((uint8_t)kind);
  uint32_t upto = 0, before, unused;
  for (uint32_t i = threadIdx.x; i < segment; i += blockDim.x)
    upto += shard.totals[i].indexes;
  group_before(upto, &before);
  struct found found = {kind, kind, shard.indexes + before + group_before(bytes, &unused)};
  if (found.index > room || bytes > room - found.index)
    found.kind = 0;
  found.count = found.kind < TAGC_SUPPORT_BITMAP ? found.kind : (uint32_t)BLOCK;
  for (uint32_t left = __ballot_sync(ALL_LANES, found.kind == TAGC_SUPPORT_BITMAP); left; left &= left - 1) {
    const uint32_t owner = (uint32_t)__ffs((int)left) - 1;
    const uint64_t index = __shfl_sync(ALL_LANES, found.index, (int)owner);
    const uint32_t count = warp_add((uint32_t)__popc(shard.payload[index + lane]));
    found.count = lane == owner ? count : found.count;
  }
  return found;
}

/* Counts the values of each segment. */
DEVICE void count_values(const struct tagc_allgather_call &gather) {
  if (gather.state->refused)
    return;
  for (uint32_t rank = blockIdx.y; rank < gather.call.nranks; rank += gridDim.y)
    for (uint32_t segment = blockIdx.x; segment < gather.segments && !is_kept(gather, rank); segment += gridDim.x) {
      const struct shard shard = shard_of(gather, rank);
      const struct found found = find(gather, shard, segment);
      uint32_t all;
      group_before(found.count, &all);
      if (threadIdx.x == 0)
        shard.totals[segment].values = all;
    }
}

/* A segment's blocks. */
struct blocks {
  uint64_t value[SEGMENT], index[SEGMENT]; /* offsets in the payload */
  uint32_t kind[SEGMENT];
};

/* Whole, or with a bitmap, or zero. */
DEVICE void decode_bits(const struct tagc_allgather_call &gather, uint32_t kind, const uint8_t *index,
                        const uint8_t *values, void *to, uint32_t count, uint32_t lane) {
  const uint32_t byte = kind == TAGC_SUPPORT_BITMAP ? index[lane] : kind > TAGC_SUPPORT_BITMAP ? 0xff : 0;
  uint32_t done = 0;
  UNROLL_FOR (uint32_t i = 0; i < WORDS; i++) {
    const bool set = __shfl_sync(ALL_LANES, byte, (int)(i * 4 + lane / 8)) >> lane % 8 & 1;
    const uint32_t word = __ballot_sync(ALL_LANES, set), at = done + (uint32_t)__popc(word & earlier(lane));
    if (i * LANES + lane < count)
      put_element(to, i * LANES + lane, gather.call.dtype, set ? element(values, at, gather.call.dtype) : 0);
    done += (uint32_t)__popc(word);
  }
}

/* Each lane has a place, if there are as many. The zeros are there. */
DEVICE void decode_places(const struct tagc_allgather_call &gather, uint32_t kind, const uint8_t *index,
                          const uint8_t *values, void *to, uint32_t count, uint32_t lane) {
  const uint32_t place = lane < kind ? index[lane] : 0, before = __shfl_up_sync(ALL_LANES, place, 1);
  const bool ascend = __all_sync(ALL_LANES, lane == 0 || lane >= kind || before < place);
  if (ascend && lane < kind && place < count)
    put_element(to, place, gather.call.dtype, element(values, lane, gather.call.dtype));
}

DEVICE void decode_block(const struct tagc_allgather_call &gather, const struct shard &shard, uint32_t rank,
                         uint32_t block, const struct blocks &blocks, uint32_t lane) {
  const uint32_t kind = blocks.kind[block % SEGMENT], count = count_of(gather.call, block);
  const uint8_t *index = shard.payload + blocks.index[block % SEGMENT],
                *values = shard.payload + blocks.value[block % SEGMENT];
  char *to = block_of(gather, gather.call.recv, rank, block);
  decode_bits(gather, kind < TAGC_SUPPORT_BITMAP ? 0 : kind, index, values, to, count, lane);
  __syncwarp();
  if (kind < TAGC_SUPPORT_BITMAP)
    decode_places(gather, kind, index, values, to, count, lane);
}

/* Finds the thread's block and its values. All threads of the group call it. */
DEVICE void place_blocks(const struct tagc_allgather_call &gather, const struct shard &shard, uint32_t segment,
                         struct blocks *blocks) {
  const struct found found = find(gather, shard, segment);
  const uint32_t size = size_of(gather.call);
  uint32_t upto = 0, before, unused;
  for (uint32_t i = threadIdx.x; i < segment; i += blockDim.x)
    upto += shard.totals[i].values;
  group_before(upto, &before);
  const uint64_t value = gather.values + ((uint64_t)before + group_before(found.count, &unused)) * size;
  const bool fits = value <= shard.values_end && found.count * size <= shard.values_end - value;
  blocks->kind[threadIdx.x] = fits ? found.kind : 0;
  blocks->index[threadIdx.x] = found.index;
  blocks->value[threadIdx.x] = value;
}

DEVICE void decode(const struct tagc_allgather_call &gather) {
  __shared__ struct blocks blocks;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  if (gather.state->refused)
    return;
  for (uint32_t rank = blockIdx.y; rank < gather.call.nranks; rank += gridDim.y)
    for (uint32_t segment = blockIdx.x; segment < gather.segments && !is_kept(gather, rank); segment += gridDim.x) {
      const struct shard shard = shard_of(gather, rank);
      const uint32_t first = segment * SEGMENT;
      place_blocks(gather, shard, segment, &blocks);
      __syncthreads();
      for (uint32_t i = warp; i < SEGMENT && first + i < gather.call.blocks; i += WARPS)
        decode_block(gather, shard, rank, first + i, blocks, lane);
      __syncthreads(); /* all threads have read the blocks */
    }
}

} // namespace support

/* -- entries ------------------------------------------------------------------------------------------------------- */

ENTRY(tagc_support_count, tagc_allgather_call, 4, support::count(call));
ENTRY(tagc_support_send, tagc_allgather_call, 4, support::send(call));
ENTRY(tagc_support_indexes, tagc_allgather_call, 4, support::count_indexes(call));
ENTRY(tagc_support_values, tagc_allgather_call, 4, support::count_values(call));
ENTRY(tagc_support_decode, tagc_allgather_call, 4, support::decode(call));
