/* SPDX-License-Identifier: BSD-3-Clause
 * The code of the codec exact: what a block of parameters has become since it was last gathered, bit for bit.
 *
 * Values       are taken as integers in the order of the floats. z is the difference of two of them, modulo 2^16 or
 *              2^32, with its sign in the lowest bit: 0, -1, +1, -2 are 0, 1, 2, 3. So NaN, Inf, -0 and denormals are
 *              numbers like others.
 * Cut          An update changes a small parameter by more such steps than a large one, as its steps are smaller. So
 *              element i sends the lowest k bits of z as they are, k = max(0, edge - exponent of its reference), and
 *              v = z >> k in a code. The edge is the block's: the least with at most TAGC_EXACT_TAILS elements v > 2.
 *              Beside one width a block this is 4.03, 2.16 and 1.08 bits an element instead of 7.2, 5.3 and 3.7, where
 *              the entropy of the differences is 4.52, 2.63 and 1.23 (tests/bench/RESULTS.md).
 * Symbols      s = min(v, 3), four of them a quad: s0 + 4 s1 + 16 s2 + 64 s3.
 * Head         of a block: edge in bits 0 to 7, level in bits 8 to 11, bytes of its stream in bits 12 to 23.
 * Stream       from the lowest bit of the first byte on, padded with zeros to a byte:
 *              level 0     all symbols are 0: nothing
 *              level 1     4 bits: the number of other symbols, up to TAGC_EXACT_LISTED; then 9 bits of position and 2
 *                          of symbol for each
 *              2 to 13     a static Huffman code of quads, by the number of symbols that are not 0
 *              then        tails: of each v > 2, in order, (v - 2) in Elias's gamma code: as many zeros as it has bits
 *                          behind the highest one, a one, and those bits
 *              then        the lowest k bits of each z, in order
 *              level 15    instead of all that: the elements, as they are
 * Digest       of a shard: the sum over its blocks of a hash of the elements and their places.
 * Threads      Reentrant. Failure: none; a damaged stream gives some values, whose digest differs.
 */
#ifndef KERNELS_ALLGATHER_EXACT_H
#define KERNELS_ALLGATHER_EXACT_H

#include "kernels/codec/allgather.h"
#include "kernels/codec/bits.h"

enum {
  TAGC_EXACT_BLOCK = 512,
  TAGC_EXACT_TAILS = 8,
  TAGC_EXACT_LISTED = 12,
  TAGC_EXACT_LIST = 1,
  TAGC_EXACT_LEVELS = 14,
  TAGC_EXACT_STORED = 15,
  TAGC_EXACT_CODE_BITS = 11,
  TAGC_EXACT_QUADS = 256,
  TAGC_EXACT_ROOM = 8192,   /* a stream before its end is known */
  TAGC_EXACT_SPARE = 8,     /* bytes behind the last stream */
  TAGC_EXACT_GRAIN = 64,    /* bytes: payloads are multiples */
  TAGC_EXACT_UNCHANGED = 2, /* a flag of the header: the shard is that of the reference */
};

/* Codes are reversed: their first bit is the lowest. Both: the length from bit 11 on (a code), from bit 8 on (a decoded
 * quad). */
struct tagc_exact_tables {
  uint16_t code[TAGC_EXACT_LEVELS][TAGC_EXACT_QUADS];
  uint16_t quad[TAGC_EXACT_LEVELS][1 << TAGC_EXACT_CODE_BITS];
};

/* For a decoder that takes two quads at once if both codes lie in TAGC_EXACT_CODE_BITS: the quads from bits 0 and 8 on,
 * the bits of both codes from bit 16 on, those of the first from bit 20 on, and 4 or 8, their elements, from bit 24 on.
 */
struct tagc_exact_pairs {
  uint32_t of[TAGC_EXACT_LEVELS][1 << TAGC_EXACT_CODE_BITS];
};

/* Make them at the first call. */
const struct tagc_exact_tables *tagc_exact_get_tables(void);
const struct tagc_exact_pairs *tagc_exact_get_pairs(void);

struct tagc_exact_kernels {
  /* Up to a block's elements. Writes the stream (`to` has TAGC_EXACT_ROOM), sets its head, and returns its bytes. */
  size_t (*encode)(const struct tagc_exact_tables *tables, const void *value, const void *reference, uint32_t count,
                   enum tagc_dtype dtype, uint8_t *to, uint32_t *head);
  /* Reads `bytes` of the stream, and never more. `to` may be the reference. */
  void (*decode)(const struct tagc_exact_pairs *pairs, const uint8_t *stream, size_t bytes, uint32_t head,
                 const void *reference, uint32_t count, enum tagc_dtype dtype, void *to);
  /* The sum of the blocks' parts in a shard's digest, of `count` elements from the shard's `first` on, a block's first:
   * with n, that of all of them is the digest. */
  uint64_t (*digest)(const void *values, uint64_t first, uint64_t count, enum tagc_dtype dtype);
};

extern const struct tagc_exact_kernels tagc_exact_plain, tagc_exact_avx2, tagc_exact_avx512;

/* A payload: the header, the edges, levels and bytes of the blocks, their streams. A call in which no shard has changed
 * has headers alone. */
struct tagc_exact_header {
  struct tagc_allgather_header common;
  uint64_t needed;    /* bytes of a payload for this shard, even of a refused one */
  uint64_t reference; /* digest of the reference of all shards */
  uint64_t content;   /* digest of this shard */
  uint64_t unused[3]; /* zero */
};

struct tagc_exact_parts {
  size_t edges, lengths, streams; /* uint8 and uint16 a block, bytes */
};

static inline TAGC_HD uint64_t tagc_exact_grains(uint64_t bytes) {
  return (bytes + TAGC_EXACT_GRAIN - 1) / TAGC_EXACT_GRAIN * TAGC_EXACT_GRAIN;
}

static inline uint64_t tagc_exact_blocks(uint64_t n) { return (n + TAGC_EXACT_BLOCK - 1) / TAGC_EXACT_BLOCK; }

static inline struct tagc_exact_parts tagc_exact_parts_of(uint64_t n) {
  struct tagc_exact_parts at;
  at.edges = sizeof(struct tagc_exact_header);
  at.lengths = at.edges + tagc_pad16(tagc_exact_blocks(n));
  at.streams = at.lengths + tagc_pad16(tagc_exact_blocks(n) * 2);
  return at;
}

#endif
