/* SPDX-License-Identifier: BSD-3-Clause
 * Blocks of the codec exact in the registers of a warp, the places of their streams, and their encoder: see exact.cu.
 *
 * Places   A lane holds four rows of four elements of a block of 512: a row is a quad. Rows 0 and 1 are those of the
 *          first block of 256 in lanes.cuh, the others those of the second.
 * Streams  A group takes the next tile of blocks by a ticket, and writes down the bytes of its streams. It then adds up
 *          those before it, of tiles that earlier tickets have taken: their groups run, so none waits for ever (Merrill
 *          and Garland 2016, Single-pass Parallel Prefix Scan with Decoupled Look-back). No sum depends on an order.
 */
#ifndef KERNELS_ALLGATHER_EXACT_CUH
#define KERNELS_ALLGATHER_EXACT_CUH

#include "kernels/allgather/cuda.h"
#include "kernels/allgather/exact_steps.h"
#include "kernels/allgather/lossless.cuh"

namespace exact {

using gathered::block_of;
using gathered::is_kept;
using gathered::payload_of;

enum {
  ALL = TAGC_EXACT_BLOCK,
  ITS = ALL / LANES,   /* elements of a lane */
  ROWS = ITS / ROW,    /* of a lane */
  ROW_APART = ALL / 4, /* elements between a lane's rows */
  WORDS = ALL + 4,     /* room of a warp: a stream that is not stored, or a block's elements */
};

DEVICE uint32_t exact_place(uint32_t lane, uint32_t i) { return i / ROW * ROW_APART + ROW * lane + i % ROW; }

/* -- elements ------------------------------------------------------------------------------------------------------ */

struct both_halves {
  struct rows half[2];
};

/* Elements of a block; zeros beyond `count`. `stage`: the warp's own, for 256. */
DEVICE struct both_halves exact_fetch(const char *from, uint32_t dtype, uint32_t lane, uint32_t count, float *stage) {
  struct both_halves halves;
  const uint32_t size = dtype == TAGC_FLOAT32 ? 4 : 2;
  halves.half[0] = elements_fetch(from, dtype, lane, count < BLOCK ? count : (uint32_t)BLOCK, stage);
  halves.half[1] =
    elements_fetch(from + (size_t)BLOCK * size, dtype, lane, count < BLOCK ? 0 : count - (uint32_t)BLOCK, stage);
  return halves;
}

DEVICE void exact_bits(const struct both_halves &halves, uint32_t dtype, uint32_t bits[ITS]) {
  if (dtype == TAGC_FLOAT32)
    UNROLL_FOR (uint32_t i = 0; i < ITS; i++)
      bits[i] = rows_get<4>(halves.half[i / EACH], i % EACH);
  else
    UNROLL_FOR (uint32_t i = 0; i < ITS; i++)
      bits[i] = rows_get<2>(halves.half[i / EACH], i % EACH);
}

DEVICE struct both_halves exact_halves(const uint32_t bits[ITS], uint32_t dtype) {
  struct both_halves halves = {};
  if (dtype == TAGC_FLOAT32)
    UNROLL_FOR (uint32_t i = 0; i < ITS; i++)
      rows_put<4>(halves.half[i / EACH], i % EACH, bits[i]);
  else
    UNROLL_FOR (uint32_t i = 0; i < ITS; i++)
      rows_put<2>(halves.half[i / EACH], i % EACH, bits[i]);
  return halves;
}

template <uint32_t size>
DEVICE void exact_store_as(char *to, uint32_t lane, uint32_t count, const struct both_halves &halves, float *stage) {
  rows_store<size>(to, lane, count < BLOCK ? count : (uint32_t)BLOCK, halves.half[0], stage);
  if (count > BLOCK)
    rows_store<size>(to + (size_t)BLOCK * size, lane, count - (uint32_t)BLOCK, halves.half[1], stage);
}

DEVICE void exact_store(char *to, uint32_t dtype, uint32_t lane, uint32_t count, const struct both_halves &halves,
                        float *stage) {
  if (dtype == TAGC_FLOAT32)
    exact_store_as<4>(to, lane, count, halves, stage);
  else
    exact_store_as<2>(to, lane, count, halves, stage);
}

/* The part of a block in its shard's digest, in all lanes. */
DEVICE uint64_t exact_block_digest(const uint32_t bits[ITS], uint64_t block, uint32_t lane) {
  uint32_t sum = 0, weighted = 0;
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++) {
    const uint32_t place = exact_place(lane, i), x = tagc_exact_mix(bits[i], place);
    sum += x;
    weighted += x * (2 * place + 1);
  }
  return tagc_exact_block_digest((uint64_t)warp_add(weighted) << 32 | warp_add(sum), block * ALL);
}

/* -- where streams begin ------------------------------------------------------------------------------------------- */

/* A word of a tile: a sum of bytes, and above how many times it was written. Once: the tile's bytes. Twice: with those
 * of all tiles before it. A word says all that there is to know, so no other access needs an order. */
enum { WRITTEN_AT = 62 };

DEVICE uint64_t read_word(const unsigned long long *word) {
  unsigned long long x;
  while ((x = word_read(word)) >> WRITTEN_AT == 0)
    __nanosleep(32);
  return x;
}

/* The bytes of all tiles before `tile`, which has `bytes`, by a whole warp. words[0]: that of the first tile. */
DEVICE uint64_t bytes_before(unsigned long long *words, uint64_t tile, uint64_t bytes, uint32_t lane) {
  const unsigned long long once = 1ull << WRITTEN_AT;
  uint64_t before = 0;
  if (lane == 0)
    atomicAdd(&words[tile], once | (unsigned long long)bytes);
  for (uint64_t at = tile; at > 0; at = at > LANES ? at - LANES : 0) {
    const uint64_t word = at > lane ? read_word(&words[at - 1 - lane]) : 2 * once;
    const uint32_t whole = __ballot_sync(ALL_LANES, word >> WRITTEN_AT == 2);
    before += warp_sum(whole == 0 || lane < (uint32_t)__ffs((int)whole) ? word & (once - 1) : 0);
    if (whole != 0)
      break;
  }
  if (lane == 0)
    atomicAdd(&words[tile], once | (unsigned long long)before);
  return before;
}

/* The group's next tile. All of its threads meet somewhere between two calls. */
DEVICE uint64_t take_ticket(const struct tagc_allgather_call &gather) {
  __shared__ unsigned long long ticket;
  if (threadIdx.x == 0)
    ticket = atomicAdd((unsigned long long *)&gather.work->tickets, 1ull);
  __syncthreads();
  return ticket;
}

/* -- bits ---------------------------------------------------------------------------------------------------------- */

/* Adds `bits` to zeros, with none above their `count`. */
DEVICE void put_bits(uint32_t *words, uint32_t at, uint32_t bits) {
  const uint64_t wide = (uint64_t)bits << at % 32;
  if ((uint32_t)wide != 0)
    atomicOr(&words[at / 32], (uint32_t)wide);
  if (wide >> 32 != 0)
    atomicOr(&words[at / 32 + 1], (uint32_t)(wide >> 32));
}

/* The same for 64 bits. */
DEVICE void put_long(uint32_t *words, uint32_t at, uint64_t bits) {
  const uint32_t middle = __funnelshift_l((uint32_t)bits, (uint32_t)(bits >> 32), at % 32),
                 high = __funnelshift_l((uint32_t)(bits >> 32), 0, at % 32);
  if ((uint32_t)bits << at % 32 != 0)
    atomicOr(&words[at / 32], (uint32_t)bits << at % 32);
  if (middle != 0)
    atomicOr(&words[at / 32 + 1], middle);
  if (high != 0)
    atomicOr(&words[at / 32 + 2], high);
}

/* Where a lane's rows begin, if all rows lie behind one another; below 2^16 each two. */
struct spans {
  uint32_t at[ROWS], all;
};

DEVICE struct spans spans_of(const uint32_t size[ROWS], uint32_t lane) {
  struct spans spans;
  uint32_t low, high;
  const uint32_t first = warp_before(size[0] | size[1] << 16, lane, &low),
                 second = warp_before(size[2] | size[3] << 16, lane, &high);
  spans.at[0] = first & 0xffff;
  spans.at[1] = (low & 0xffff) + (first >> 16);
  const uint32_t half = (low & 0xffff) + (low >> 16);
  spans.at[2] = half + (second & 0xffff);
  spans.at[3] = half + (high & 0xffff) + (second >> 16);
  spans.all = half + (high & 0xffff) + (high >> 16);
  return spans;
}

/* -- encode -------------------------------------------------------------------------------------------------------- */

/* A lane's elements of a block under way. */
struct sending {
  uint32_t z[ITS], k[ITS];
  uint32_t edge, level, others;
};

/* The least edge with at most TAGC_EXACT_TAILS elements above it: the next one that an element wants. Goes from the
 * largest down: mostly two or three ways. */
DEVICE uint32_t find_edge(const uint32_t want[ITS]) {
  uint32_t edge = 1 << 10, reach = 0;
  while (reach <= TAGC_EXACT_TAILS && edge > 0) {
    uint32_t next = 0, more = 0;
    UNROLL_FOR (uint32_t i = 0; i < ITS; i++)
      next = want[i] < edge && want[i] > next ? want[i] : next;
    edge = warp_most(next);
    UNROLL_FOR (uint32_t i = 0; i < ITS; i++)
      more += want[i] == edge;
    reach += warp_add(more);
  }
  return edge < 255 ? edge : 255;
}

DEVICE struct sending cut_block(const uint32_t value[ITS], const uint32_t reference[ITS], uint32_t dtype) {
  struct sending to;
  uint32_t want[ITS], others = 0;
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++) {
    to.z[i] = tagc_exact_difference(value[i], reference[i], dtype);
    want[i] = to.z[i] > 2 ? (uint32_t)(tagc_exact_exponent(reference[i], dtype) + tagc_exact_shift(to.z[i])) : 0;
  }
  to.edge = find_edge(want);
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++) {
    to.k[i] = tagc_exact_lower_bits(to.edge, tagc_exact_exponent(reference[i], dtype), dtype);
    others += to.z[i] >> to.k[i] != 0;
  }
  to.others = warp_add(others);
  to.level = tagc_exact_level(to.others);
  return to;
}

DEVICE uint32_t symbol_of(const struct sending &from, uint32_t i) {
  const uint32_t v = from.z[i] >> from.k[i];
  return v < 3 ? v : 3;
}

DEVICE uint32_t tail_of(const struct sending &from, uint32_t i) {
  const uint32_t v = from.z[i] >> from.k[i];
  return v > 2 ? v - 2 : 0;
}

/* A row's code, and from bit 11 on its length. */
DEVICE uint32_t code_of(const struct tagc_exact_tables &tables, const struct sending &from, uint32_t row) {
  uint32_t quad = 0;
  UNROLL_FOR (uint32_t i = 0; i < ROW; i++)
    quad |= symbol_of(from, ROW * row + i) << 2 * i;
  return tables.code[from.level][quad];
}

/* Parts of a stream, in bits. */
struct measured {
  struct spans symbols, tails, rests;
  uint32_t code[ROWS];
};

DEVICE struct measured measure(const struct tagc_exact_tables &tables, const struct sending &from, uint32_t lane) {
  struct measured at = {};
  uint32_t symbols[ROWS] = {}, tails[ROWS] = {}, rests[ROWS] = {};
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++) {
    const uint32_t tail = tail_of(from, i);
    symbols[i / ROW] += from.level == TAGC_EXACT_LIST && symbol_of(from, i) != 0 ? 11 : 0;
    tails[i / ROW] += tail ? 2 * tagc_exact_top(tail) + 1 : 0;
    rests[i / ROW] += from.k[i];
  }
  UNROLL_FOR (uint32_t row = 0; row < ROWS && from.level > TAGC_EXACT_LIST; row++) {
    at.code[row] = code_of(tables, from, row);
    symbols[row] = at.code[row] >> TAGC_EXACT_CODE_BITS;
  }
  at.symbols = spans_of(symbols, lane);
  if (from.level)
    at.tails = spans_of(tails, lane);
  if (from.edge)
    at.rests = spans_of(rests, lane);
  return at;
}

DEVICE void write_list(const struct sending &from, const struct measured &at, uint32_t *words, uint32_t lane) {
  if (lane == 0)
    put_bits(words, 0, from.others);
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++) {
    uint32_t next = 4 + at.symbols.at[row];
    UNROLL_FOR (uint32_t i = ROW * row; i < ROW * row + ROW; i++)
      if (symbol_of(from, i) != 0) {
        put_bits(words, next, exact_place(lane, i) | symbol_of(from, i) << 9);
        next += 11;
      }
  }
}

DEVICE void write_tails(const struct sending &from, const struct measured &at, uint32_t begin, uint32_t *words) {
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++) {
    uint32_t next = begin + at.tails.at[row];
    UNROLL_FOR (uint32_t i = ROW * row; i < ROW * row + ROW; i++) {
      const uint32_t tail = tail_of(from, i);
      if (tail) {
        const uint32_t behind = tagc_exact_top(tail);
        put_bits(words, next + behind, 1);
        put_bits(words, next + behind + 1, tail ^ 1u << behind);
        next += 2 * behind + 1;
      }
    }
  }
}

DEVICE uint64_t rest_of(const struct sending &from, uint32_t i) { return from.z[i] & ((1u << from.k[i]) - 1); }

/* Four elements have at most 60 bits, those of fp32 124. */
DEVICE void write_rests(const struct sending &from, const struct measured &at, uint32_t begin, uint32_t *words,
                        bool wide) {
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++) {
    const uint32_t next = begin + at.rests.at[row], i = ROW * row, half = from.k[i] + from.k[i + 1];
    const uint64_t first = rest_of(from, i) | rest_of(from, i + 1) << from.k[i],
                   second = rest_of(from, i + 2) | rest_of(from, i + 3) << from.k[i + 2];
    put_long(words, next, wide ? first : first | second << half);
    if (wide)
      put_long(words, next + half, second);
  }
}

/* Writes a block's stream into the warp's room, and returns its head, in all lanes. `sent`: the elements. The lanes
 * meet before they read the stream. */
DEVICE uint32_t encode_block(const struct tagc_exact_tables &tables, const struct sending &from, const char *sent,
                             uint32_t dtype, uint32_t count, uint32_t *words, uint32_t lane) {
  const struct measured at = measure(tables, from, lane);
  const uint32_t stored = count * (dtype == TAGC_FLOAT32 ? 4 : 2), symbols = at.symbols.all + (from.level == 1 ? 4 : 0),
                 bytes = (symbols + at.tails.all + at.rests.all + 7) / 8;
  __syncwarp(); /* the room has been the stage of others */
  if (bytes >= stored) {
    if (lane == 0)
      words[stored / 4] = 0; /* copy_stream() reads whole words */
    copy(words, sent, stored, stored, lane);
    return TAGC_EXACT_STORED << 8 | stored << 12;
  }
  for (uint32_t i = lane; i < bytes / 4 + 1; i += LANES)
    words[i] = 0;
  __syncwarp();
  if (from.level == TAGC_EXACT_LIST)
    write_list(from, at, words, lane);
  UNROLL_FOR (uint32_t row = 0; row < ROWS && from.level > TAGC_EXACT_LIST; row++)
    put_bits(words, at.symbols.at[row], at.code[row] & ((1u << TAGC_EXACT_CODE_BITS) - 1));
  if (at.tails.all)
    write_tails(from, at, symbols, words);
  if (from.edge)
    write_rests(from, at, symbols + at.tails.all, words, dtype == TAGC_FLOAT32);
  return from.edge | from.level << 8 | bytes << 12;
}

/* Copies a stream to any address: bytes up to an aligned one, words, and bytes. */
DEVICE void copy_stream(uint8_t *to, const uint32_t *words, uint32_t bytes, uint32_t lane) {
  const uint8_t *from = (const uint8_t *)words;
  const uint32_t lead = (uint32_t)(-(uintptr_t)to % 4), first = lead < bytes ? lead : bytes, rest = bytes - first,
                 shift = 8 * first, end = first + rest / 4 * 4;
  if (lane < first)
    to[lane] = from[lane];
  for (uint32_t i = lane; i < rest / 4; i += LANES)
    ((uint32_t *)(to + first))[i] = __funnelshift_r(words[i], shift > 0 ? words[i + 1] : 0, shift);
  if (end + lane < bytes)
    to[end + lane] = from[end + lane];
}

/* A warp's block: fetched, encoded, its digest added. Returns the head. */
DEVICE uint32_t send_block(const struct tagc_allgather_call &gather, uint64_t block, uint32_t lane, uint32_t *words,
                           uint64_t *digest, bool *changed) {
  const struct tagc_cuda_call &call = gather.call;
  const uint64_t left = call.n - block * ALL;
  const uint32_t count = left < ALL ? (uint32_t)left : (uint32_t)ALL;
  float *stage = (float *)words;
  uint32_t value[ITS], reference[ITS];
  const char *from = (const char *)call.send + block * ALL * size_of(call);
  const struct both_halves sent = exact_fetch(from, call.dtype, lane, count, stage);
  const struct both_halves was =
    exact_fetch(block_of(gather, gather.reference, call.rank, (uint32_t)(2 * block)), call.dtype, lane, count, stage);
  exact_bits(sent, call.dtype, value);
  exact_bits(was, call.dtype, reference);
  *digest += exact_block_digest(value, block, lane);
  const struct sending to = cut_block(value, reference, call.dtype);
  *changed |= to.others != 0 || to.edge != 0; /* else all differences are 0 */
  return encode_block(gather.kept->tables, to, from, call.dtype, count, words, lane);
}

DEVICE void encode(const struct tagc_allgather_call &gather) {
  __shared__ __align__(16) uint32_t rooms[WARPS][WORDS];
  __shared__ uint32_t sizes[WARPS];
  __shared__ uint64_t begin;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint64_t room = gather.call.message_bytes, tiles = (gather.exact_blocks + WARPS - 1) / WARPS;
  uint8_t *payload = payload_of(gather, gather.call.rank);
  uint64_t digest = 0;
  bool changed = false;
  for (uint64_t tile = take_ticket(gather); tile < tiles; tile = take_ticket(gather)) {
    const uint64_t block = tile * WARPS + warp;
    const bool there = block < gather.exact_blocks;
    const uint32_t head = there ? send_block(gather, block, lane, rooms[warp], &digest, &changed) : 0;
    const uint32_t bytes = head >> 12;
    if (lane == 0)
      sizes[warp] = bytes;
    __syncthreads();
    if (warp == 0) {
      uint32_t all = 0;
      for (uint32_t i = 0; i < WARPS; i++)
        all += sizes[i];
      const uint64_t before = bytes_before(gather.tiles, tile, all, lane);
      if (lane == 0)
        begin = before;
    }
    __syncthreads();
    uint64_t at = gather.streams + begin;
    for (uint32_t i = 0; i < warp; i++)
      at += sizes[i];
    if (there && room >= gather.streams + TAGC_EXACT_SPARE && at + bytes + TAGC_EXACT_SPARE <= room) {
      if (lane == 0) {
        payload[gather.edges + block] = (uint8_t)head;
        ((uint16_t *)(payload + gather.lengths))[block] = (uint16_t)(bytes | (head >> 8 & 15) << 12);
      }
      copy_stream(payload + at, rooms[warp], bytes, lane);
    }
  }
  if (lane == 0) {
    atomicAdd((unsigned long long *)&gather.work->content, (unsigned long long)digest);
    if (changed)
      atomicOr(&gather.work->changed, 1u);
  }
}

} // namespace exact

#endif
