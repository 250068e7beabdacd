/* SPDX-License-Identifier: BSD-3-Clause
 * Blocks of the codec exact in the registers of a warp, the places of their streams, and their encoder: see exact.cu.
 *
 * Places   A lane holds four rows of four elements of a block of 512: a row is four bits of a map. Rows 0 and 1 are
 *          those of the first block of 256 in lanes.cuh, the others those of the second. So a ballot about row r of all
 *          lanes is word r of the map of fours.
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
  UPPER = ALL / 4 / 32 /* words of a bit for each row */
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

/* A lane's rows of a map are 16 bits, four each. */
DEVICE uint32_t row_of(uint32_t rows, uint32_t i) { return rows >> ROW * i & 15; }

/* Bits of four, all at once, that have to move by one to be one behind the other: the odd ones of pairs; the upper
 * pairs, once; and once more. */
struct moves {
  uint32_t pair, upper, again;
};

DEVICE struct moves moves_of(uint32_t marks) {
  const uint32_t low = marks & 0x1111, high = marks >> 1 & 0x1111;
  return {~marks & 0x5555, ~(low & high) & 0x1111, ~(low | high) & 0x1111};
}

/* Of each four bits those with marks, one behind the other; and back. */
DEVICE uint32_t squeeze_fours(uint32_t bits, uint32_t marks) {
  const struct moves moves = moves_of(marks);
  uint32_t x = bits & marks, moved = x & moves.pair << 1;
  x = (x ^ moved) | moved >> 1;
  moved = x & moves.upper * 12;
  x = (x ^ moved) | moved >> 1;
  moved = x & moves.again * 6;
  return (x ^ moved) | moved >> 1;
}

DEVICE uint32_t unsqueeze_fours(uint32_t bits, uint32_t marks) {
  const struct moves moves = moves_of(marks);
  uint32_t x = (bits & ~(moves.again * 7)) | (bits & moves.again * 3) << 1;
  x = (x & ~(moves.upper * 14)) | (x & moves.upper * 6) << 1;
  x = (x & ~(moves.pair * 3)) | (x & moves.pair) << 1;
  return x & marks;
}

/* The number of bits in each of four fours, a byte each. */
DEVICE uint32_t count_fours(uint32_t rows) {
  rows -= rows >> 1 & 0x5555;
  rows = (rows & 0x3333) + (rows >> 2 & 0x3333);
  rows = (rows | rows << 8) & 0x00ff00ff;
  return (rows | rows << 4) & 0x0f0f0f0f;
}

/* Where a lane's bits of each row begin, if those of all rows lie behind one another. */
DEVICE struct spans map_spans(uint32_t rows, uint32_t lane) {
  uint32_t all;
  const uint32_t before = warp_before(count_fours(rows), lane, &all); /* at most 128 a row */
  struct spans spans = {};
  UNROLL_FOR (uint32_t i = 0; i < ROWS; i++) {
    spans.at[i] = spans.all + (before >> 8 * i & 0xff);
    spans.all += all >> 8 * i & 0xff;
  }
  return spans;
}

/* Eight bits from every fourth one; and back. */
DEVICE uint32_t squeeze_every_fourth(uint32_t x) {
  x = (x | x >> 3) & 0x03030303u;
  x = (x | x >> 6) & 0x000f000fu;
  return (x | x >> 12) & 0xff;
}

DEVICE uint32_t unsqueeze_every_fourth(uint32_t x) {
  x = (x | x << 12) & 0x000f000fu;
  x = (x | x << 6) & 0x03030303u;
  return (x | x << 3) & 0x11111111u;
}

/* Are fours not all 0? */
DEVICE uint32_t mark_fours(uint32_t x) {
  x |= x >> 1;
  return squeeze_every_fourth((x | x >> 2) & 0x11111111u);
}

DEVICE uint32_t lanes_below(uint32_t lane) { return (1u << lane) - 1; }

/* A row's numbers below 256, a byte each. */
DEVICE uint32_t byte_of(const uint32_t rows[ROWS], uint32_t i) { return rows[i / ROW] >> 8 * (i % ROW) & 0xff; }

/* Four bytes below 128 are compared at once, by their highest bits. */
constexpr uint32_t EACH_BYTE = 0x01010101, SIGNS = 0x80808080;

/* A bit for each byte: is it larger than the limit? The product brings the four bits together. */
DEVICE uint32_t above(const uint32_t bytes[ROWS], uint32_t limit) {
  uint32_t rows = 0;
  UNROLL_FOR (uint32_t i = 0; i < ROWS; i++)
    rows |= ((((bytes[i] + (127 - limit) * EACH_BYTE) & SIGNS) >> 7) * 0x10204080u >> 28) << ROW * i;
  return rows;
}

/* Of four elements' q lower bits, those that lie in that byte. */
DEVICE uint32_t bits_in_byte(uint32_t q, uint32_t byte) {
  const uint32_t more = (q | SIGNS) - 8 * byte * EACH_BYTE, left = more & ((more & SIGNS) >> 7) * 0x7f,
                 full = (((left + 120 * EACH_BYTE) & SIGNS) >> 7) * 0xff;
  return (left & ~full) | (8 * EACH_BYTE & full);
}

/* The same of all rows. False, in all lanes: there are none. */
DEVICE bool lower_bits(const uint32_t q[ROWS], uint32_t byte, uint32_t its[ROWS]) {
  uint32_t any = 0;
  UNROLL_FOR (uint32_t i = 0; i < ROWS; i++)
    any |= its[i] = bits_in_byte(q[i], byte);
  return __any_sync(ALL_LANES, any != 0);
}

/* Where the rows' lower bits of a byte begin; at most 32 a row. */
DEVICE struct spans lower_spans(const uint32_t its[ROWS], uint32_t lane) {
  uint32_t size[ROWS];
  UNROLL_FOR (uint32_t i = 0; i < ROWS; i++)
    size[i] = its[i] * EACH_BYTE >> 24;
  return spans_of(size, lane);
}

/* -- encode -------------------------------------------------------------------------------------------------------- */

/* The map of a block: the lane's rows; a bit for each row; and a bit for each four of these, twice. */
struct map {
  uint32_t rows, upper[UPPER], second, third;
};

/* A word of `upper`, without an address: so the map stays in registers. */
DEVICE uint32_t upper_word(const struct map &map, uint32_t at) {
  uint32_t word = 0;
  UNROLL_FOR (uint32_t i = 0; i < UPPER; i++)
    word |= map.upper[i] & (0u - (uint32_t)(at == i));
  return word;
}

/* Returns the map's level, and its bits. */
DEVICE uint32_t make_map(const uint32_t v[ROWS], struct map *map, uint32_t *bits) {
  uint32_t fours = 0;
  map->rows = above(v, 0);
  map->second = 0;
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++) {
    map->upper[row] = __ballot_sync(ALL_LANES, row_of(map->rows, row) != 0);
    map->second |= mark_fours(map->upper[row]) << 8 * row;
    fours += (uint32_t)__popc(map->upper[row]);
  }
  map->third = mark_fours(map->second);
  return tagc_exact_level(fours, (uint32_t)__popc(map->second), (uint32_t)__popc(map->third), bits);
}

/* A lane's elements of a block under way. */
struct sending {
  uint32_t z[ITS];
  uint32_t v[ROWS], q[ROWS];
  struct map map;
  uint32_t edge, level, map_bits, bits; /* bits of the stream */
  bool changed;
};

/* Sets all behind z. */
DEVICE void cut_at(struct sending *to, uint32_t edge, const uint32_t reference[ITS], uint32_t dtype) {
  uint32_t bits = 0;
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++) {
    to->v[row] = to->q[row] = 0;
    UNROLL_FOR (uint32_t i = ROW * row; i < ROW * row + ROW; i++) {
      const uint32_t length = tagc_exact_length(to->z[i]),
                     k = tagc_exact_shift(edge, tagc_exact_exponent(reference[i], dtype), dtype),
                     v = length > k ? length - k : 0, q = v ? length - 1 : k;
      to->v[row] |= v << 8 * (i % ROW);
      to->q[row] |= q << 8 * (i % ROW);
      bits += v + q;
    }
  }
  to->edge = edge;
  to->level = make_map(to->v, &to->map, &to->map_bits);
  to->bits = to->map_bits + warp_add(bits);
}

DEVICE struct sending cut_block(const uint32_t value[ITS], const uint32_t reference[ITS], uint32_t dtype) {
  struct sending to = {};
  uint32_t wishes = 0, bits = 0, any = 0; /* the sum of the wishes is below 2^18; above it their number */
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++) {
    to.z[i] = tagc_exact_difference(value[i], reference[i], dtype);
    any |= to.z[i];
    const uint32_t length = tagc_exact_length(to.z[i]);
    const uint32_t wish = tagc_exact_wish(length, tagc_exact_exponent(reference[i], dtype));
    wishes += wish ? wish + (1u << 18) : 0;
    to.v[i / ROW] |= length << 8 * (i % ROW);
    bits += length ? 2 * length - 1 : 0;
  }
  wishes = warp_add(wishes);
  to.changed = __any_sync(ALL_LANES, any != 0);
  const uint32_t edge = tagc_exact_edge(wishes & ((1u << 18) - 1), wishes >> 18);
  uint32_t map_bits;
  make_map(to.v, &to.map, &map_bits);
  const uint32_t without = map_bits + warp_add(bits);
  cut_at(&to, edge, reference, dtype);
  if (edge > 0 && to.bits >= without)
    cut_at(&to, 0, reference, dtype);
  return to;
}

DEVICE void write_map(const struct map &map, uint32_t level, uint32_t *words, uint32_t lane) {
  uint32_t at = 0;
  if (level == TAGC_EXACT_MAP) {
    UNROLL_FOR (uint32_t row = 0; row < ROWS; row++)
      put_bits(words, ROW_APART * row + ROW * lane, row_of(map.rows, row));
    return;
  }
  if (level == TAGC_EXACT_MAP + 1) {
    if (lane < UPPER)
      words[lane] = upper_word(map, lane);
    at = ALL / 4;
  } else {
    if (level == TAGC_EXACT_MAP + 3) {
      if (lane == 0)
        put_bits(words, 0, map.third);
      if (lane < 8 && (map.third >> lane & 1) != 0)
        put_bits(words, 8 + 4 * (uint32_t)__popc(map.third & lanes_below(lane)), map.second >> 4 * lane & 15);
      at = ALL / 64 + 4 * (uint32_t)__popc(map.third);
    } else {
      if (lane == 0)
        words[0] = map.second;
      at = ALL / 16;
    }
    if ((map.second >> lane & 1) != 0)
      put_bits(words, at + 4 * (uint32_t)__popc(map.second & lanes_below(lane)),
               upper_word(map, lane / 8) >> lane % 8 * 4 & 15);
    at += 4 * (uint32_t)__popc(map.second);
  }
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++) {
    if (row_of(map.rows, row) != 0)
      put_bits(words, at + 4 * (uint32_t)__popc(map.upper[row] & lanes_below(lane)), row_of(map.rows, row));
    at += 4 * (uint32_t)__popc(map.upper[row]);
  }
}

/* Returns where the planes end. `rows`: the map's. */
DEVICE uint32_t write_planes(const uint32_t v[ROWS], uint32_t rows, uint32_t at, uint32_t *words, uint32_t lane) {
  for (uint32_t limit = 1; __any_sync(ALL_LANES, rows != 0); limit++) {
    const struct spans spans = map_spans(rows, lane);
    const uint32_t next = above(v, limit), squeezed = squeeze_fours(next, rows);
    UNROLL_FOR (uint32_t i = 0; i < ROWS; i++)
      put_bits(words, at + spans.at[i], row_of(squeezed, i));
    rows = next;
    at += spans.all;
  }
  return at;
}

DEVICE void write_lower_bits(const struct sending &from, uint32_t at, uint32_t *words, uint32_t bytes, uint32_t lane) {
  UNROLL_FOR (uint32_t byte = 0; byte < 4; byte++) {
    uint32_t its[ROWS];
    if (byte >= bytes || !lower_bits(from.q, byte, its))
      break;
    const struct spans spans = lower_spans(its, lane);
    UNROLL_FOR (uint32_t row = 0; row < ROWS; row++) {
      uint32_t bits = 0, count = 0;
      UNROLL_FOR (uint32_t i = 0; i < ROW; i++) {
        const uint32_t each = its[row] >> 8 * i & 0xff;
        bits |= (from.z[ROW * row + i] >> 8 * byte & ((1u << each) - 1)) << count;
        count += each;
      }
      put_bits(words, at + spans.at[row], bits);
    }
    at += spans.all;
  }
}

/* Writes a block's stream into the warp's room, and returns its head, in all lanes. `sent`: the elements. The lanes
 * meet before they read the stream. */
DEVICE uint32_t encode_block(const struct sending &from, const char *sent, uint32_t dtype, uint32_t count,
                             uint32_t *words, uint32_t lane) {
  const uint32_t size = dtype == TAGC_FLOAT32 ? 4 : 2, stored = count * size, bytes = (from.bits + 7) / 8;
  if (!from.changed)
    return 0;
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
  write_map(from.map, from.level, words, lane);
  write_lower_bits(from, write_planes(from.v, from.map.rows, from.map_bits, words, lane), words, size, lane);
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
  *changed |= to.changed;
  return encode_block(to, from, call.dtype, count, words, lane);
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
