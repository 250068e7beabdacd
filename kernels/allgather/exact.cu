/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of the codec exact: see cuda.h for their calls, exact.h for the format, and exact.c for the same on the
 * host, to the bit. Only a damaged stream may give other values than on the host: its digest tells in both places.
 *
 * Encode   open clears the counters; encode writes streams, a warp a block (exact.cuh); close writes the header.
 * Decode   look reads the headers. decode takes tiles of 64 blocks: a group finds where their streams begin, and each
 *          block is a warp's work. settle compares digests.
 * Refer    of a plain call: begin clears, digest and refer make the digest of the reference.
 */
#include "kernels/allgather/exact.cuh"

namespace exact {

enum { TILE = TAGC_EXACT_TILE };

DEVICE struct tagc_exact_header *exact_header(const struct tagc_allgather_call &gather, uint32_t rank) {
  return (struct tagc_exact_header *)payload_of(gather, rank);
}

DEVICE unsigned long long *digest_of(const struct tagc_allgather_call &gather, uint32_t rank) {
  return (unsigned long long *)(gather.kept + 1) + rank;
}

DEVICE void clear_tiles(const struct tagc_allgather_call &gather) {
  const uint64_t first = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
  for (uint64_t i = first; i < gather.tile_count; i += (uint64_t)gridDim.x * blockDim.x)
    gather.tiles[i] = 0;
  if (first == 0)
    gather.work->tickets = 0;
}

DEVICE void open(const struct tagc_allgather_call &gather) {
  clear_tiles(gather);
  if (blockIdx.x > 0 || threadIdx.x > 0)
    return;
  *gather.state = {};
  gather.work->content = 0;
  gather.work->changed = 0;
}

DEVICE void begin(const struct tagc_allgather_call &gather) {
  for (uint32_t rank = threadIdx.x; rank < gather.call.nranks; rank += blockDim.x)
    *digest_of(gather, rank) = 0;
}

/* -- headers ------------------------------------------------------------------------------------------------------- */

DEVICE void close(const struct tagc_allgather_call &gather) {
  const uint64_t room = gather.call.message_bytes, tiles = (gather.exact_blocks + WARPS - 1) / WARPS;
  const bool changed = gather.work->changed;
  struct tagc_exact_header header = {};
  if (threadIdx.x > 0)
    return;
  const uint64_t bytes = gather.tiles[tiles - 1] & ((1ull << WRITTEN_AT) - 1);
  header.needed = changed ? tagc_exact_grains(gather.streams + bytes + TAGC_EXACT_SPARE) : sizeof header;
  header.common.flags = header.needed > room ? TAGC_ALLGATHER_REFUSED : changed ? 0 : TAGC_EXACT_UNCHANGED;
  header.reference = gather.kept->digest;
  if (room > sizeof header)
    header.content = gather.call.n + gather.work->content;
  *exact_header(gather, gather.call.rank) = header;
}

DEVICE void look(const struct tagc_allgather_call &gather) {
  clear_tiles(gather);
  if (blockIdx.x > 0)
    return;
  __shared__ unsigned long long needed;
  bool refused = false;
  if (threadIdx.x == 0)
    needed = sizeof(struct tagc_exact_header);
  __syncthreads();
  for (uint32_t rank = threadIdx.x; rank < gather.call.nranks; rank += blockDim.x) {
    const struct tagc_exact_header *header = exact_header(gather, rank);
    refused |= header->common.flags & TAGC_ALLGATHER_REFUSED || header->reference != exact_header(gather, 0)->reference;
    atomicMax(&needed, (unsigned long long)header->needed);
    *digest_of(gather, rank) = 0;
  }
  refused = __syncthreads_or(refused);
  if (threadIdx.x > 0)
    return;
  gather.state->refused = refused;
  gather.state->failed = 0;
  gather.state->needed = needed;
  if (gather.call.counts)
    gather.call.counts->overflowed += refused;
}

/* The digest of all shards, in their order: a thread's work. */
DEVICE void settle(const struct tagc_allgather_call &gather) {
  const bool has_digests = gather.call.message_bytes > sizeof(struct tagc_exact_header);
  bool failed = false;
  if (gather.state->refused)
    return;
  for (uint32_t rank = threadIdx.x; rank < gather.call.nranks; rank += blockDim.x) {
    const struct tagc_exact_header *header = exact_header(gather, rank);
    failed |= has_digests ? gather.call.n + *digest_of(gather, rank) != header->content
                          : !(header->common.flags & TAGC_EXACT_UNCHANGED);
  }
  failed = __syncthreads_or(failed);
  if (threadIdx.x > 0)
    return;
  gather.state->failed = failed;
  uint64_t digest = 0;
  for (uint32_t rank = 0; rank < gather.call.nranks && has_digests; rank++)
    digest = tagc_exact_add_digest(digest, exact_header(gather, rank)->content);
  if (has_digests)
    gather.kept->digest = digest;
}

/* -- streams, a warp a block --------------------------------------------------------------------------------------- */

/* 32 bits of a payload from that bit on: all of a stream, as spare bytes follow. */
DEVICE uint32_t peek(const uint8_t *payload, uint64_t bit) {
  const uint32_t *words = (const uint32_t *)payload + bit / 32;
  return __funnelshift_r(words[0], words[1], (uint32_t)bit % 32);
}

/* A block whose stream is read. Bits are counted from the start of the payload. */
struct reading {
  uint64_t at, end;
  uint32_t head;
};

DEVICE bool has_bits(const struct reading &r, uint32_t count) { return count <= r.end - r.at; }

/* A lane's four bits of a word of fours, if they are marked. */
DEVICE uint32_t read_four(const uint8_t *payload, uint64_t at, uint32_t marks, uint32_t lane) {
  return marks >> lane & 1 ? peek(payload, at + 4 * (uint32_t)__popc(marks & lanes_below(lane))) & 15 : 0;
}

/* The rows of fours, from the map of fours, `upper`. */
DEVICE bool read_rows(const uint8_t *payload, struct reading *r, const uint32_t upper[UPPER], uint32_t *rows,
                      uint32_t lane) {
  uint32_t fours = 0;
  UNROLL_FOR (uint32_t i = 0; i < UPPER; i++)
    fours += (uint32_t)__popc(upper[i]);
  if (!has_bits(*r, 4 * fours))
    return false;
  *rows = 0;
  UNROLL_FOR (uint32_t i = 0; i < ROWS; i++) {
    *rows |= read_four(payload, r->at, upper[i], lane) << ROW * i;
    r->at += 4 * (uint32_t)__popc(upper[i]);
  }
  return true;
}

/* The map of fours from the one above it. */
DEVICE bool read_upper(const uint8_t *payload, struct reading *r, uint32_t second, uint32_t upper[UPPER],
                       uint32_t lane) {
  if (!has_bits(*r, 4 * (uint32_t)__popc(second)))
    return false;
  const uint32_t four = read_four(payload, r->at, second, lane);
  r->at += 4 * (uint32_t)__popc(second);
  UNROLL_FOR (uint32_t i = 0; i < UPPER; i++)
    upper[i] = 0;
  UNROLL_FOR (uint32_t bit = 0; bit < 4; bit++) {
    const uint32_t all = __ballot_sync(ALL_LANES, four >> bit & 1);
    UNROLL_FOR (uint32_t i = 0; i < UPPER; i++)
      upper[i] |= unsqueeze_every_fourth(all >> 8 * i & 0xff) << bit;
  }
  return true;
}

DEVICE bool read_second(const uint8_t *payload, struct reading *r, uint32_t *second, uint32_t lane) {
  if (!has_bits(*r, ALL / 64))
    return false;
  const uint32_t third = peek(payload, r->at) & 0xff;
  r->at += ALL / 64;
  if (!has_bits(*r, 4 * (uint32_t)__popc(third)))
    return false;
  const uint32_t four = read_four(payload, r->at, third, lane);
  r->at += 4 * (uint32_t)__popc(third);
  *second = 0;
  UNROLL_FOR (uint32_t bit = 0; bit < 4; bit++)
    *second |= unsqueeze_every_fourth(__ballot_sync(ALL_LANES, four >> bit & 1) & 0xff) << bit;
  return true;
}

/* The map's rows of a lane. False, in all lanes: the stream is too short. */
DEVICE bool read_map(const uint8_t *payload, struct reading *r, uint32_t *rows, uint32_t lane) {
  const uint32_t level = r->head >> 8 & 15;
  uint32_t upper[UPPER], second;
  if (level < TAGC_EXACT_MAP || level > TAGC_EXACT_MAP_MOST)
    return false;
  if (level == TAGC_EXACT_MAP) {
    if (!has_bits(*r, ALL))
      return false;
    *rows = 0;
    UNROLL_FOR (uint32_t i = 0; i < ROWS; i++)
      *rows |= (peek(payload, r->at + ROW_APART * i + ROW * lane) & 15) << ROW * i;
    r->at += ALL;
    return true;
  }
  if (level == TAGC_EXACT_MAP + 1) {
    if (!has_bits(*r, ALL / 4))
      return false;
    UNROLL_FOR (uint32_t i = 0; i < UPPER; i++)
      upper[i] = peek(payload, r->at + 32 * i);
    r->at += ALL / 4;
    return read_rows(payload, r, upper, rows, lane);
  }
  if (level == TAGC_EXACT_MAP + 2) {
    if (!has_bits(*r, ALL / 16))
      return false;
    second = peek(payload, r->at);
    r->at += ALL / 16;
  } else if (!read_second(payload, r, &second, lane)) {
    return false;
  }
  return read_upper(payload, r, second, upper, lane) && read_rows(payload, r, upper, rows, lane);
}

/* Sets v. `rows`: the map's. */
DEVICE bool read_planes(const uint8_t *payload, struct reading *r, uint32_t rows, uint32_t most, uint32_t v[ROWS],
                        uint32_t lane) {
  UNROLL_FOR (uint32_t i = 0; i < ROWS; i++)
    v[i] = row_of(rows, i) * 0x00204081u & EACH_BYTE;
  for (uint32_t limit = 1; limit <= most && __any_sync(ALL_LANES, rows != 0); limit++) {
    const struct spans spans = map_spans(rows, lane);
    uint32_t bits = 0;
    if (!has_bits(*r, spans.all))
      return false;
    if (rows != 0)
      UNROLL_FOR (uint32_t i = 0; i < ROWS; i++)
        bits |= (peek(payload, r->at + spans.at[i]) & 15) << ROW * i;
    rows = unsqueeze_fours(bits, rows);
    UNROLL_FOR (uint32_t i = 0; i < ROWS; i++)
      v[i] += row_of(rows, i) * 0x00204081u & EACH_BYTE;
    r->at += spans.all;
  }
  return true;
}

/* Sets q from v and the elements of the reference. False: the stream has fewer lower bits. */
DEVICE bool count_lower_bits(const struct reading &r, const uint32_t bits[ITS], uint32_t dtype, const uint32_t v[ROWS],
                             uint32_t q[ROWS]) {
  uint32_t count = 0;
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++) {
    const uint32_t more = byte_of(v, i),
                   k = tagc_exact_shift(r.head & 0xff, tagc_exact_exponent(bits[i], dtype), dtype),
                   its = more ? k + more - 1 : k;
    q[i / ROW] = (i % ROW ? q[i / ROW] : 0) | its << 8 * (i % ROW);
    count += its;
  }
  return has_bits(r, warp_add(count));
}

/* Sets z to the lower bits. */
DEVICE void read_lower_bits(const uint8_t *payload, struct reading *r, const uint32_t q[ROWS], uint32_t bytes,
                            uint32_t z[ITS], uint32_t lane) {
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++)
    z[i] = 0;
  for (uint32_t byte = 0; byte < bytes; byte++) {
    uint32_t its[ROWS];
    if (!lower_bits(q, byte, its))
      return; /* no higher byte has any */
    const struct spans spans = lower_spans(its, lane);
    UNROLL_FOR (uint32_t row = 0; row < ROWS; row++) {
      uint32_t four = peek(payload, r->at + spans.at[row]);
      UNROLL_FOR (uint32_t i = 0; i < ROW; i++) {
        const uint32_t each = its[row] >> 8 * i & 0xff;
        z[ROW * row + i] |= (four & ((1u << each) - 1)) << 8 * byte;
        four >>= each;
      }
    }
    r->at += spans.all;
  }
}

/* Adds the differences that a stream holds to the elements of its reference. */
DEVICE void add_stream(const uint8_t *payload, struct reading r, uint32_t dtype, uint32_t lane, uint32_t bits[ITS]) {
  const uint32_t size = dtype == TAGC_FLOAT32 ? 4 : 2;
  uint32_t rows, v[ROWS], q[ROWS], z[ITS];
  if (!read_map(payload, &r, &rows, lane) || !read_planes(payload, &r, rows, 8 * size, v, lane) ||
      !count_lower_bits(r, bits, dtype, v, q))
    return;
  read_lower_bits(payload, &r, q, size, z, lane);
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++) {
    const uint32_t highest = byte_of(v, i) ? 1u << byte_of(q, i) % 32 : 0;
    bits[i] = tagc_exact_sum(bits[i], z[i] | highest, dtype);
  }
}

/* -- tiles --------------------------------------------------------------------------------------------------------- */

/* Where a shard comes from. */
enum source { FROM_REFERENCE, FROM_SEND, FROM_STREAM };

DEVICE enum source source_of(const struct tagc_allgather_call &gather, uint32_t rank) {
  const bool has_room = gather.call.message_bytes >= gather.streams + TAGC_EXACT_SPARE;
  if (exact_header(gather, rank)->common.flags & TAGC_EXACT_UNCHANGED)
    return FROM_REFERENCE;
  return rank == gather.call.rank ? FROM_SEND : has_room ? FROM_STREAM : FROM_REFERENCE;
}

/* Finds the tile's streams. */
DEVICE void open_tile(const struct tagc_allgather_call &gather, uint32_t rank, uint64_t tile, uint64_t tiles,
                      struct reading *readings) {
  __shared__ uint64_t begin;
  __shared__ uint32_t halves[TILE / LANES];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint8_t *payload = payload_of(gather, rank);
  const uint64_t block = tile * TILE + threadIdx.x, room = gather.call.message_bytes - TAGC_EXACT_SPARE;
  const bool there = threadIdx.x < TILE && block < gather.exact_blocks;
  const uint32_t length = there ? ((const uint16_t *)(payload + gather.lengths))[block] : 0;
  uint32_t before = 0, all;
  if (warp < TILE / LANES) {
    before = warp_before(length & 0xfff, lane, &all);
    if (lane == 0)
      halves[warp] = all;
  }
  __syncthreads();
  if (warp == 0) {
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < TILE / LANES; i++)
      bytes += halves[i];
    const uint64_t its = gather.streams + bytes_before(gather.tiles + rank * tiles, tile, bytes, lane);
    if (lane == 0)
      begin = its;
  }
  __syncthreads();
  if (!there)
    return;
  for (uint32_t i = 0; i < warp; i++)
    before += halves[i];
  const uint64_t from = min(begin + before, room), end = min(from + (length & 0xfff), room);
  readings[threadIdx.x] = {8 * from, 8 * end, payload[gather.edges + block] | (uint32_t)(length >> 12) << 8};
}

/* Decodes a block; `bits` are those of its reference. */
DEVICE void read_block(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t count, uint32_t lane,
                       const struct reading &r, float *stage, uint32_t bits[ITS]) {
  const uint8_t *payload = payload_of(gather, rank);
  if ((r.head >> 8 & 15) != TAGC_EXACT_STORED)
    add_stream(payload, r, gather.call.dtype, lane, bits);
  else if (r.end - r.at >= 8ull * count * size_of(gather.call))
    exact_bits(exact_fetch((const char *)payload + r.at / 8, gather.call.dtype, lane, count, stage), gather.call.dtype,
               bits);
}

/* Returns the block's part of the shard's digest. */
DEVICE uint64_t receive_block(const struct tagc_allgather_call &gather, uint32_t rank, uint64_t block,
                              enum source source, const struct reading &r, uint32_t lane, float *stage) {
  const struct tagc_cuda_call &call = gather.call;
  const uint64_t left = call.n - block * ALL;
  const uint32_t count = left < ALL ? (uint32_t)left : (uint32_t)ALL;
  char *kept = block_of(gather, gather.reference, rank, (uint32_t)(2 * block));
  const char *from = source == FROM_SEND ? (const char *)call.send + block * ALL * size_of(call) : kept;
  uint32_t bits[ITS];
  exact_bits(exact_fetch(from, call.dtype, lane, count, stage), call.dtype, bits);
  if (source == FROM_STREAM)
    read_block(gather, rank, count, lane, r, stage, bits);
  const struct both_halves halves = exact_halves(bits, call.dtype);
  if (source != FROM_REFERENCE)
    exact_store(kept, call.dtype, lane, count, halves, stage);
  if (!is_kept(gather, rank))
    exact_store(block_of(gather, call.recv, rank, (uint32_t)(2 * block)), call.dtype, lane, count, halves, stage);
  return exact_block_digest(bits, block, lane);
}

DEVICE void decode(const struct tagc_allgather_call &gather) {
  __shared__ struct reading readings[TILE];
  __shared__ __align__(16) float stages[WARPS][ALL];
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  const uint64_t tiles = (gather.exact_blocks + TILE - 1) / TILE, all = tiles * gather.call.nranks;
  if (gather.state->refused)
    return;
  for (uint64_t ticket = take_ticket(gather); ticket < all; ticket = take_ticket(gather)) {
    const uint32_t rank = (uint32_t)(ticket / tiles);
    const uint64_t tile = ticket % tiles, left = gather.exact_blocks - tile * TILE;
    const enum source source = source_of(gather, rank);
    uint64_t digest = 0;
    if (source == FROM_STREAM)
      open_tile(gather, rank, tile, tiles, readings);
    __syncthreads();
    for (uint32_t i = warp; i < TILE && i < left; i += WARPS)
      digest += receive_block(gather, rank, tile * TILE + i, source, readings[i], lane, stages[warp]);
    if (lane == 0)
      atomicAdd(digest_of(gather, rank), (unsigned long long)digest);
  }
}

/* -- a new reference ----------------------------------------------------------------------------------------------- */

DEVICE void digest_shards(const struct tagc_allgather_call &gather) {
  __shared__ __align__(16) float stages[WARPS][BLOCK];
  const struct tagc_cuda_call &call = gather.call;
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  for (uint32_t rank = blockIdx.y; rank < call.nranks; rank += gridDim.y) {
    uint64_t digest = 0;
    for (uint64_t block = blockIdx.x * WARPS + warp; block < gather.exact_blocks; block += gridDim.x * WARPS) {
      const uint64_t left = call.n - block * ALL;
      const char *from = block_of(gather, gather.reference, rank, (uint32_t)(2 * block));
      uint32_t bits[ITS];
      exact_bits(exact_fetch(from, call.dtype, lane, left < ALL ? (uint32_t)left : (uint32_t)ALL, stages[warp]),
                 call.dtype, bits);
      digest += exact_block_digest(bits, block, lane);
    }
    if (lane == 0)
      atomicAdd(digest_of(gather, rank), (unsigned long long)digest);
  }
}

DEVICE void refer(const struct tagc_allgather_call &gather) {
  uint64_t digest = 0;
  if (threadIdx.x > 0)
    return;
  for (uint32_t rank = 0; rank < gather.call.nranks; rank++)
    digest = tagc_exact_add_digest(digest, gather.call.n + *digest_of(gather, rank));
  gather.kept->digest = digest;
}

} // namespace exact

/* -- entries ------------------------------------------------------------------------------------------------------- */

ENTRY(tagc_exact_open, tagc_allgather_call, 4, exact::open(call));
ENTRY(tagc_exact_encode, tagc_allgather_call, 2, exact::encode(call));
ENTRY(tagc_exact_close, tagc_allgather_call, 1, exact::close(call));
ENTRY(tagc_exact_look, tagc_allgather_call, 4, exact::look(call));
ENTRY(tagc_exact_decode, tagc_allgather_call, 2, exact::decode(call));
ENTRY(tagc_exact_settle, tagc_allgather_call, 1, exact::settle(call));
ENTRY(tagc_exact_begin, tagc_allgather_call, 1, exact::begin(call));
ENTRY(tagc_exact_digest, tagc_allgather_call, 3, exact::digest_shards(call));
ENTRY(tagc_exact_refer, tagc_allgather_call, 1, exact::refer(call));
