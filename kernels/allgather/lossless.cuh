/* SPDX-License-Identifier: BSD-3-Clause
 * The shared parts of the kernels for all-gathers, and the codec lossless: see allgather.cu.
 */
#ifndef KERNELS_ALLGATHER_LOSSLESS_CUH
#define KERNELS_ALLGATHER_LOSSLESS_CUH

#include "kernels/allgather/cuda.h"
#include "kernels/cuda/call.cuh"
#include "kernels/sparse/lines.cuh"

namespace gathered {

DEVICE uint8_t *payload_of(const struct tagc_allgather_call &gather, uint32_t rank) {
  return gather.call.message_out + gather.call.message_bytes * rank;
}

DEVICE struct tagc_allgather_header *header_of(const struct tagc_allgather_call &gather, uint32_t rank) {
  return (struct tagc_allgather_header *)payload_of(gather, rank);
}

/* A block of a buffer of shards. */
DEVICE char *block_of(const struct tagc_allgather_call &gather, void *shards, uint32_t rank, uint32_t block) {
  return (char *)shards + (gather.call.stride * rank + (uint64_t)block * BLOCK) * size_of(gather.call);
}

DEVICE const char *sent_block(const struct tagc_allgather_call &gather, uint32_t block) {
  return (const char *)gather.call.send + (uint64_t)block * BLOCK * size_of(gather.call);
}

/* True if the shard is left as it is. */
DEVICE bool is_kept(const struct tagc_allgather_call &gather, uint32_t rank) {
  return gather.keep_own && rank == gather.call.rank;
}

DEVICE void refuse(const struct tagc_allgather_call &gather) {
  header_of(gather, gather.call.rank)->flags = TAGC_ALLGATHER_REFUSED;
}

/* -- lossless ------------------------------------------------------------------------------------------------------ */

/* The half with sign and exponent, and the lower 16 bits of an element of 32. */
struct apart {
  uint32_t half, low;
};

DEVICE struct apart take_apart(uint32_t bits, bool wide) { return {wide ? bits >> 16 : bits, bits & 0xffff}; }

/* The least of the groups' largest exponents, in all lanes; a group: places equal modulo 8. */
DEVICE uint32_t least_group(const uint32_t exponent[EACH]) {
  uint32_t least = 0xff;
  UNROLL_FOR (uint32_t i = 0; i < ROW; i++) {
    uint32_t most = exponent[i] > exponent[ROW + i] ? exponent[i] : exponent[ROW + i];
    UNROLL_FOR (int by = 2; by < LANES; by *= 2) {
      const uint32_t other = __shfl_xor_sync(ALL_LANES, most, by);
      most = other > most ? other : most;
    }
    least = most < least ? most : least;
  }
  const uint32_t other = __shfl_xor_sync(ALL_LANES, least, 1);
  return other < least ? other : least;
}

DEVICE uint32_t count_escapes(const uint32_t exponent[EACH], uint32_t base) {
  uint32_t count = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    count += tagc_lossless_code(exponent[i], base) == TAGC_LOSSLESS_ESCAPE;
  return count;
}

/* A lane's elements; the shard's last one beyond its end. */
DEVICE struct rows fetch_whole(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane, bool wide,
                               float *stage) {
  const uint32_t count = count_of(gather.call, block);
  const char *from = sent_block(gather, block);
  struct rows rows = wide ? rows_fetch<4>(from, lane, count, stage) : rows_fetch<2>(from, lane, count, stage);
  if (count == BLOCK)
    return rows;
  const uint32_t last = wide ? ((const uint32_t *)from)[count - 1] : ((const uint16_t *)from)[count - 1];
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
    if (place_of(lane, i) >= count) { /* there are zeros */
      if (wide)
        rows_put<4>(rows, i, last);
      else
        rows_put<2>(rows, i, last);
    }
  return rows;
}

struct lossless {
  /* Writes the record, the base, the lower halves, and, in place of its start, the block's number of escapes. */
  static __device__ __forceinline__ void encode(const struct tagc_allgather_call &gather, uint32_t block, uint32_t lane,
                                                struct scratch *scratch) {
    const bool wide = gather.call.dtype == TAGC_FLOAT32;
    uint8_t *payload = payload_of(gather, gather.call.rank);
    uint8_t *record = payload + gather.blocks + (uint64_t)block * TAGC_LOSSLESS_RECORD;
    const struct rows rows = fetch_whole(gather, block, lane, wide, scratch->stage);
    struct rows rests = {}, lows = {};
    uint32_t exponent[EACH], bits[3] = {0, 0, 0};
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const struct apart apart = take_apart(wide ? rows_get<4>(rows, i) : rows_get<2>(rows, i), wide);
      exponent[i] = tagc_lossless_exponent(apart.half);
      rows_put<1>(rests, i, tagc_lossless_rest(apart.half));
      rows_put<2>(lows, i, apart.low);
    }
    const uint32_t m = least_group(exponent);
    const uint32_t both = warp_add(count_escapes(exponent, m) | count_escapes(exponent, m + 1) << 16);
    const uint32_t base = tagc_lossless_base(m, both & 0xffff, both >> 16);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      UNROLL_FOR (uint32_t plane = 0; plane < 3; plane++)
        bits[plane] |= (tagc_lossless_code(exponent[i], base) >> plane & 1) << i;
    UNROLL_FOR (uint32_t plane = 0; plane < 3; plane++)
      UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
        const uint32_t word = line_word(bits[plane], lane, half);
        if (lane % 8 == 2 * plane + half)
          ((uint32_t *)(record + plane * TAGC_LOSSLESS_PLANE))[half * (LANES / 8) + lane / 8] = word;
      }
    rows_write<1>((char *)record + TAGC_LOSSLESS_RESTS, lane, rests);
    if (wide)
      rows_write<2>((char *)payload + gather.lows + (uint64_t)block * BLOCK * 2, lane, lows);
    if (lane == 0) {
      payload[gather.bases + block] = (uint8_t)base;
      ((uint32_t *)(payload + gather.starts))[block] = base == m ? both & 0xffff : both >> 16;
    }
  }

  static __device__ __forceinline__ void decode(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t block,
                                                uint32_t lane, float *stage) {
    const bool wide = gather.call.dtype == TAGC_FLOAT32;
    const uint32_t count = count_of(gather.call, block), shift = lane % 8 * ROW;
    const uint8_t *payload = payload_of(gather, rank);
    const uint8_t *record = payload + gather.blocks + (uint64_t)block * TAGC_LOSSLESS_RECORD;
    const struct rows rests = rows_read<1>((const char *)record + TAGC_LOSSLESS_RESTS, lane);
    struct rows lows = {}, to = {};
    if (wide)
      lows = rows_read<2>((const char *)payload + gather.lows + (uint64_t)block * BLOCK * 2, lane);
    uint32_t bits[3] = {0, 0, 0}, exponent[EACH];
    UNROLL_FOR (uint32_t plane = 0; plane < 3; plane++)
      UNROLL_FOR (uint32_t half = 0; half < 2; half++) {
        const uint32_t word = ((const uint32_t *)(record + plane * TAGC_LOSSLESS_PLANE))[half * (LANES / 8) + lane / 8];
        bits[plane] |= (word >> shift & ((1u << ROW) - 1)) << ROW * half;
      }
    const uint32_t base = payload[gather.bases + block], escapes = bits[0] & bits[1] & bits[2];
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      exponent[i] = base - (bits[0] >> i & 1) - 2 * (bits[1] >> i & 1) - 4 * (bits[2] >> i & 1);
    if (__any_sync(ALL_LANES, escapes != 0))
      take_escapes(gather, payload, block, lane, escapes, exponent);
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
      const uint32_t half = tagc_lossless_half(exponent[i], rows_get<1>(rests, i));
      if (wide)
        rows_put<4>(to, i, half << 16 | rows_get<2>(lows, i));
      else
        rows_put<2>(to, i, half);
    }
    char *at = block_of(gather, gather.call.recv, rank, block);
    if (wide)
      rows_store<4>(at, lane, count, to, stage);
    else
      rows_store<2>(at, lane, count, to, stage);
  }

  /* Inserts the escaped exponents of a block, in order of position: `escapes` has a bit for each of the lane's. Those
   * that lead out of the list are zero. */
  static __device__ __forceinline__ void take_escapes(const struct tagc_allgather_call &gather, const uint8_t *payload,
                                                      uint32_t block, uint32_t lane, uint32_t escapes,
                                                      uint32_t exponent[EACH]) {
    const uint32_t said = ((const uint32_t *)(payload + gather.starts))[block], row = (1u << ROW) - 1;
    const uint32_t start = said < gather.escapes ? said : gather.escapes,
                   end = (uint32_t)(gather.bases - gather.escaped);
    uint32_t all;
    const uint32_t before =
      warp_before((uint32_t)__popc(escapes & row) | (uint32_t)__popc(escapes >> ROW) << 16, lane, &all);
    uint32_t at[2] = {start + (before & 0xffff), start + (all & 0xffff) + (before >> 16)};
    UNROLL_FOR (uint32_t i = 0; i < EACH; i++)
      if (escapes >> i & 1) {
        exponent[i] = at[i / ROW] < end ? payload[gather.escaped + at[i / ROW]] : 0;
        at[i / ROW]++;
      }
  }
};

/* Counts the escapes before each block in its segment, and those of each segment. */
DEVICE void count_starts(const struct tagc_allgather_call &gather) {
  uint32_t *starts = (uint32_t *)(payload_of(gather, gather.call.rank) + gather.starts);
  for (uint32_t segment = blockIdx.x; segment < gather.segments; segment += gridDim.x) {
    const uint32_t block = segment * TAGC_ALLGATHER_SEGMENT + threadIdx.x;
    uint32_t all;
    const uint32_t before = group_before(block < gather.call.blocks ? starts[block] : 0, &all);
    if (block < gather.call.blocks)
      starts[block] = before;
    if (threadIdx.x == 0)
      gather.totals[segment] = all;
  }
}

/* Writes the escapes of four blocks of a segment, eight lanes each, at their places: `offset` is the segment's. */
DEVICE void send_escapes(const struct tagc_allgather_call &gather, uint32_t block, uint32_t offset, uint32_t lane) {
  const bool wide = gather.call.dtype == TAGC_FLOAT32, there = block < gather.call.blocks;
  uint8_t *payload = payload_of(gather, gather.call.rank);
  uint32_t *starts = (uint32_t *)(payload + gather.starts);
  const uint32_t *planes = (const uint32_t *)(payload + gather.blocks + (uint64_t)block * TAGC_LOSSLESS_RECORD);
  const uint32_t word = lane % 8, step = TAGC_LOSSLESS_PLANE / 4;
  const uint32_t mask = there ? planes[word] & planes[step + word] & planes[2 * step + word] : 0;
  const uint32_t start = there ? offset + starts[block] : 0;
  uint32_t all;
  const uint32_t before = warp_before((uint32_t)__popc(mask), lane, &all);
  uint32_t at = start + before - __shfl_sync(ALL_LANES, before, (int)(lane / 8 * 8));
  __syncwarp(); /* all lanes have read the block's start */
  if (there && word == 0)
    starts[block] = start;
  for (uint32_t left = mask; left; left &= left - 1, at++) {
    const uint64_t position = (uint64_t)block * BLOCK + word * 32 + (uint32_t)__ffs((int)left) - 1;
    const uint64_t i = position < gather.call.n ? position : gather.call.n - 1;
    const uint32_t bits = wide ? ((const uint32_t *)gather.call.send)[i] : ((const uint16_t *)gather.call.send)[i];
    if (at < gather.escapes)
      payload[gather.escaped + at] = (uint8_t)tagc_lossless_exponent(take_apart(bits, wide).half);
  }
}

/* Writes the escapes, and zeros after the last; refuses the shard if they do not fit. */
DEVICE void list_escapes(const struct tagc_allgather_call &gather) {
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  uint8_t *payload = payload_of(gather, gather.call.rank);
  uint32_t total = 0;
  for (uint32_t segment = blockIdx.x; segment < gather.segments; segment += gridDim.x) {
    uint32_t mine = 0, upto = 0, offset;
    for (uint32_t i = threadIdx.x; i < gather.segments; i += blockDim.x) {
      mine += gather.totals[i];
      upto += i < segment ? gather.totals[i] : 0;
    }
    group_before(mine, &total);
    group_before(upto, &offset);
    for (uint32_t i = lane / 8; i < LANES; i += LANES / 8)
      send_escapes(gather, segment * TAGC_ALLGATHER_SEGMENT + warp * LANES + i, offset, lane);
  }
  const uint64_t end = gather.bases - gather.escaped;
  for (uint64_t i = (uint64_t)total + blockIdx.x * blockDim.x + threadIdx.x; i < end; i += gridDim.x * blockDim.x)
    payload[gather.escaped + i] = 0;
  if (blockIdx.x > 0 || threadIdx.x > 0)
    return;
  if (total > gather.escapes)
    refuse(gather);
  if (gather.call.counts)
    gather.call.counts->selected += total;
}

} // namespace gathered

#endif
