/* SPDX-License-Identifier: BSD-3-Clause
 * The kernels of the codec exact: see cuda.h for their calls, exact.h for the format, and exact.c for the same on the
 * host, to the bit. Only a damaged stream may give other values than on the host: its digest tells in both places.
 *
 * Encode   open clears the counters; encode writes streams, a warp a block (exact.cuh); close writes the header.
 * Decode   look reads the headers. decode takes tiles of 64 blocks. As a code begins where the one before ends, a lane
 *          reads the symbols of one block, and of 64 blocks at once; the rest of a block is a warp's work. settle
 *          compares digests.
 * Refer    of a plain call: begin makes the tables of codes; digest and refer make the digest of the reference.
 */
#include "kernels/allgather/exact.cuh"

namespace exact {

enum { QUADS = TAGC_EXACT_QUADS, CODE_BITS = TAGC_EXACT_CODE_BITS, SYMBOL_WORDS = ALL / 16, TILE = TAGC_EXACT_TILE };

DEVICE struct tagc_exact_header *exact_header(const struct tagc_allgather_call &gather, uint32_t rank) {
  return (struct tagc_exact_header *)payload_of(gather, rank);
}

DEVICE unsigned long long *digest_of(const struct tagc_allgather_call &gather, uint32_t rank) {
  return (unsigned long long *)(gather.kept + 1) + rank;
}

/* -- the tables ---------------------------------------------------------------------------------------------------- */

/* Canonical codes of a level, their first bit the highest: those of a length begin at `first` as numbers, and at `from`
 * in the list of quads by length. */
struct canon {
  uint32_t first[CODE_BITS + 1], from[CODE_BITS + 1], count[CODE_BITS + 1];
  uint32_t counts[CODE_BITS + 1][WARPS];
  uint8_t sorted[QUADS];
};

/* The number of earlier quads with the same length, a thread a quad. */
DEVICE uint32_t rank_lengths(uint32_t length, struct canon *canon) {
  const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
  uint32_t rank = 0;
  for (uint32_t bits = 1; bits <= CODE_BITS; bits++) {
    const uint32_t same = __ballot_sync(ALL_LANES, length == bits);
    rank = length == bits ? (uint32_t)__popc(same & ((1u << lane) - 1)) : rank;
    if (lane == 0)
      canon->counts[bits][warp] = (uint32_t)__popc(same);
  }
  __syncthreads();
  for (uint32_t before = 0; before < warp; before++)
    rank += canon->counts[length][before];
  return rank;
}

DEVICE void find_firsts(struct canon *canon) {
  uint32_t first = 0, from = 0;
  for (uint32_t bits = 1; bits <= CODE_BITS; bits++, first <<= 1) {
    uint32_t count = 0;
    for (uint32_t warp = 0; warp < WARPS; warp++)
      count += canon->counts[bits][warp];
    canon->first[bits] = first;
    canon->from[bits] = from;
    canon->count[bits] = count;
    first += count;
    from += count;
  }
}

/* The quad of which `bits` have the code, with its length from bit 8 on. */
DEVICE uint32_t find_quad(const struct canon &canon, uint32_t bits) {
  const uint32_t number = __brev(bits) >> (32 - CODE_BITS);
  uint32_t length = 1;
  while (length < CODE_BITS && (number >> (CODE_BITS - length)) - canon.first[length] >= canon.count[length])
    length++;
  const uint32_t at = canon.from[length] + (number >> (CODE_BITS - length)) - canon.first[length];
  return canon.sorted[at % QUADS] | length << 8;
}

/* Again at once: the next table writes what this one reads last only behind a barrier of its own. */
DEVICE void make_table(const struct tagc_exact_opening &opening, uint32_t level) {
  __shared__ struct canon canon;
  struct tagc_exact_tables &tables = opening.call.kept->tables;
  const uint32_t quad = threadIdx.x, length = opening.lengths[level][quad / 8] >> quad % 8 * 4 & 15;
  const uint32_t rank = rank_lengths(length, &canon);
  if (threadIdx.x == 0)
    find_firsts(&canon);
  __syncthreads();
  const uint32_t code = canon.first[length] + rank;
  canon.sorted[canon.from[length] + rank] = (uint8_t)quad;
  tables.code[level][quad] = (uint16_t)(__brev(code) >> (32 - length) | length << CODE_BITS);
  __syncthreads();
  for (uint32_t bits = threadIdx.x; bits < 1 << CODE_BITS; bits += blockDim.x)
    tables.quad[level][bits] = (uint16_t)find_quad(canon, bits);
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

DEVICE void begin(const struct tagc_exact_opening &opening) {
  for (uint32_t rank = threadIdx.x; rank < opening.call.call.nranks && blockIdx.x == 0; rank += blockDim.x)
    *digest_of(opening.call, rank) = 0;
  for (uint32_t level = TAGC_EXACT_LIST + 1 + blockIdx.x; level < TAGC_EXACT_LEVELS; level += gridDim.x)
    make_table(opening, level);
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

/* -- symbols, a lane a block --------------------------------------------------------------------------------------- */

/* 64 bits of a payload from that bit on: all of a stream, as spare bytes follow. */
DEVICE uint64_t peek(const struct tagc_allgather_call &gather, const uint8_t *payload, uint64_t bit) {
  const uint32_t *words = (const uint32_t *)payload;
  const uint64_t at = bit / 32, last = gather.call.message_bytes / 4 - 1;
  const uint32_t low = words[at], middle = words[at + 1], high = words[at + 2 < last ? at + 2 : last];
  return (uint64_t)__funnelshift_r(middle, high, (uint32_t)bit % 32) << 32 |
         __funnelshift_r(low, middle, (uint32_t)bit % 32);
}

/* A block whose stream is read. Bits are counted from the start of the payload. */
struct reading {
  uint64_t at, end;
  uint32_t head;
};

/* The tile's blocks in shared memory: their symbols, a byte a quad, so far apart that lanes use different banks. */
struct tile_symbols {
  uint32_t word[TILE][SYMBOL_WORDS + 1];
  struct reading reading[TILE];
};

DEVICE void read_list(const struct tagc_allgather_call &gather, const uint8_t *payload, struct reading *r,
                      uint32_t *symbols) {
  uint32_t left = (uint32_t)peek(gather, payload, r->at) & 15;
  r->at = min(r->at + 4, r->end);
  for (; left > 0; left--) {
    const uint32_t both = (uint32_t)peek(gather, payload, r->at) & 2047, place = both & 511, shift = 2 * (place % 16);
    symbols[place / 16] = (symbols[place / 16] & ~(3u << shift)) | both >> 9 << shift;
    r->at = min(r->at + 11, r->end);
  }
}

DEVICE void read_quads(const struct tagc_allgather_call &gather, const uint8_t *payload, struct reading *r,
                       uint32_t *symbols) {
  const uint16_t *table = gather.kept->tables.quad[r->head >> 8 & 15];
  for (uint32_t i = 0; i < SYMBOL_WORDS; i++) {
    uint64_t bits = peek(gather, payload, r->at);
    uint32_t four = 0, count = 0;
    UNROLL_FOR (uint32_t j = 0; j < 4; j++) {
      const uint32_t its = table[bits & ((1 << CODE_BITS) - 1)];
      four |= (its & 0xff) << 8 * j;
      bits >>= its >> 8;
      count += its >> 8;
    }
    symbols[i] = four;
    r->at = min(r->at + count, r->end);
  }
}

DEVICE void read_symbols(const struct tagc_allgather_call &gather, const uint8_t *payload, struct reading *r,
                         uint32_t *symbols) {
  const uint32_t level = r->head >> 8 & 15;
  if (level > TAGC_EXACT_LIST && level < TAGC_EXACT_LEVELS) {
    read_quads(gather, payload, r, symbols);
    return;
  }
  for (uint32_t i = 0; i < SYMBOL_WORDS; i++)
    symbols[i] = 0;
  if (level == TAGC_EXACT_LIST)
    read_list(gather, payload, r, symbols);
}

/* -- the rest, a warp a block -------------------------------------------------------------------------------------- */

/* Reads the values behind symbols of 3, one after the other: at most eight, mostly. `list`: the warp's shared memory
 * for a block's. `quad`: the symbols of the lane's rows. Returns where the lane's values begin. */
DEVICE struct spans read_tails(const struct tagc_allgather_call &gather, const uint8_t *payload, struct reading *r,
                               uint32_t lane, const uint32_t quad[ROWS], uint32_t *list) {
  uint32_t size[ROWS];
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++)
    size[row] = (uint32_t)__popc(quad[row] & quad[row] >> 1 & 0x55);
  const struct spans spans = spans_of(size, lane);
  __syncwarp(); /* all have read what was there */
  for (uint32_t i = 0; i < spans.all; i++) {
    const uint64_t bits = peek(gather, payload, r->at);
    const uint32_t zeros = (uint32_t)__ffs((int)((uint32_t)bits | 1u << 31)) - 1;
    const uint32_t rest = (uint32_t)(bits >> (zeros + 1)) & ((1u << zeros) - 1);
    r->at = min(r->at + 2 * zeros + 1, r->end);
    if (lane == 0)
      list[i] = 2 + (1u << zeros | rest);
  }
  __syncwarp();
  return spans;
}

/* Where the lower bits of the lane's rows begin. */
DEVICE struct spans find_rests(const uint32_t bits[ITS], uint32_t edge, uint32_t dtype, uint32_t lane) {
  uint32_t size[ROWS] = {};
  UNROLL_FOR (uint32_t i = 0; i < ITS; i++)
    size[i / ROW] += tagc_exact_lower_bits(edge, tagc_exact_exponent(bits[i], dtype), dtype);
  return spans_of(size, lane);
}

/* Adds the differences of a row. Four elements have at most 60 lower bits, those of fp32 124. `at`: bits behind the
 * tails. `tail`: the value of the row's first symbol of 3. */
DEVICE void add_row(const struct tagc_allgather_call &gather, const uint8_t *payload, const struct reading &r,
                    uint32_t at, uint32_t quad, const uint32_t *tail, uint32_t bits[ROW]) {
  const uint32_t dtype = gather.call.dtype, edge = r.head & 0xff, left = (uint32_t)(r.end - r.at);
  uint64_t rests = edge ? peek(gather, payload, r.at + min(at, left)) : 0;
  UNROLL_FOR (uint32_t i = 0; i < ROW; i++) {
    const uint32_t k = tagc_exact_lower_bits(edge, tagc_exact_exponent(bits[i], dtype), dtype);
    uint32_t v = quad >> 2 * i & 3;
    if (v == 3)
      v = *tail++;
    if (i == ROW / 2 && dtype == TAGC_FLOAT32 && edge)
      rests = peek(gather, payload, r.at + min(at, left));
    bits[i] = tagc_exact_sum(bits[i], v << k | ((uint32_t)rests & ((1u << k) - 1)), dtype);
    rests >>= k;
    at += k;
  }
}

/* Adds the differences that a stream holds to the elements of its reference. */
DEVICE void add_stream(const struct tagc_allgather_call &gather, const uint8_t *payload, struct reading r,
                       const uint32_t *symbols, uint32_t lane, uint32_t *list, uint32_t bits[ITS]) {
  struct spans rests = {};
  uint32_t quad[ROWS];
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++)
    quad[row] = symbols[row * (SYMBOL_WORDS / ROWS) + lane / 4] >> lane % 4 * 8 & 0xff;
  const struct spans tails = read_tails(gather, payload, &r, lane, quad, list);
  if (r.head & 0xff)
    rests = find_rests(bits, r.head & 0xff, gather.call.dtype, lane);
  UNROLL_FOR (uint32_t row = 0; row < ROWS; row++)
    add_row(gather, payload, r, rests.at[row], quad[row], list + tails.at[row], bits + ROW * row);
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

/* Finds the tile's streams, and reads their symbols. */
DEVICE void open_tile(const struct tagc_allgather_call &gather, uint32_t rank, uint64_t tile, uint64_t tiles,
                      struct tile_symbols *symbols) {
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
  struct reading r = {8 * from, 8 * end, payload[gather.edges + block] | (uint32_t)(length >> 12) << 8};
  read_symbols(gather, payload, &r, symbols->word[threadIdx.x]);
  symbols->reading[threadIdx.x] = r;
}

/* Decodes a block whose symbols are read; `bits` are those of its reference. */
DEVICE void read_block(const struct tagc_allgather_call &gather, uint32_t rank, uint32_t count, uint32_t lane,
                       const struct reading &r, const uint32_t *symbols, float *stage, uint32_t bits[ITS]) {
  const uint8_t *payload = payload_of(gather, rank);
  if ((r.head >> 8 & 15) < TAGC_EXACT_LEVELS)
    add_stream(gather, payload, r, symbols, lane, (uint32_t *)stage, bits);
  else if (r.end - r.at >= 8ull * count * size_of(gather.call))
    exact_bits(exact_fetch((const char *)payload + r.at / 8, gather.call.dtype, lane, count, stage), gather.call.dtype,
               bits);
}

/* Returns the block's part of the shard's digest. */
DEVICE uint64_t receive_block(const struct tagc_allgather_call &gather, uint32_t rank, uint64_t block,
                              enum source source, const struct reading &r, const uint32_t *symbols, uint32_t lane,
                              float *stage) {
  const struct tagc_cuda_call &call = gather.call;
  const uint64_t left = call.n - block * ALL;
  const uint32_t count = left < ALL ? (uint32_t)left : (uint32_t)ALL;
  char *kept = block_of(gather, gather.reference, rank, (uint32_t)(2 * block));
  const char *from = source == FROM_SEND ? (const char *)call.send + block * ALL * size_of(call) : kept;
  uint32_t bits[ITS];
  exact_bits(exact_fetch(from, call.dtype, lane, count, stage), call.dtype, bits);
  if (source == FROM_STREAM)
    read_block(gather, rank, count, lane, r, symbols, stage, bits);
  const struct both_halves halves = exact_halves(bits, call.dtype);
  if (source != FROM_REFERENCE)
    exact_store(kept, call.dtype, lane, count, halves, stage);
  if (!is_kept(gather, rank))
    exact_store(block_of(gather, call.recv, rank, (uint32_t)(2 * block)), call.dtype, lane, count, halves, stage);
  return exact_block_digest(bits, block, lane);
}

DEVICE void decode(const struct tagc_allgather_call &gather) {
  __shared__ struct tile_symbols symbols;
  __shared__ __align__(16) float stages[WARPS][ALL]; /* also for tails */
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
      open_tile(gather, rank, tile, tiles, &symbols);
    __syncthreads();
    for (uint32_t i = warp; i < TILE && i < left; i += WARPS)
      digest +=
        receive_block(gather, rank, tile * TILE + i, source, symbols.reading[i], symbols.word[i], lane, stages[warp]);
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
ENTRY(tagc_exact_decode, tagc_allgather_call, 3, exact::decode(call));
ENTRY(tagc_exact_settle, tagc_allgather_call, 1, exact::settle(call));
ENTRY(tagc_exact_begin, tagc_exact_opening, 2, exact::begin(call));
ENTRY(tagc_exact_digest, tagc_allgather_call, 3, exact::digest_shards(call));
ENTRY(tagc_exact_refer, tagc_allgather_call, 1, exact::refer(call));
