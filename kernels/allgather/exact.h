/* SPDX-License-Identifier: BSD-3-Clause
 * The code of the codec exact: what a block of parameters has become since it was last gathered, bit for bit.
 *
 * Values       are taken as integers in the order of the floats. z is the difference of two of them, modulo 2^16 or
 *              2^32, with its sign in the lowest bit: 0, -1, +1, -2 are 0, 1, 2, 3. So NaN, Inf, -0 and denormals are
 *              numbers like others.
 * Lengths      z has L bits from its highest one on. An update changes a small parameter by more such steps than a
 *              large one, as its steps are smaller. So k = max(0, edge - exponent of the reference) bits of an element
 *              are foreseen, at most 15 (fp32: 31), and v = max(0, L - k) says how many more there are. k = 0 if that
 *              exponent is 0: zeros stay zeros, mostly.
 * Edge         of a block: over the elements with L > 1 and an exponent above 0 the mean of exponent + L (at most
 *              255), rounded down; one more if these are 400 or more, one less if they are below 64. It is 0 if there
 *              are none, or if the stream then has as few bits or fewer.
 * Head         of a block: edge in bits 0 to 7, level in bits 8 to 11, bytes of its stream in bits 12 to 23.
 * Stream       from the lowest bit of the first byte on, padded with zeros to a byte:
 *              map         of v > 0. Level 1: 512 bits. Level 2: a bit for each four elements, then those fours that
 *                          are not all 0. Level 3: the same of those 128 bits, before the fours. Level 4: and of
 *                          those 32. The level with the fewest bits, the least of equal ones
 *              planes      v > 1 for each element with v > 0, then v > 2 for each with v > 1, and so on, as long as
 *                          there are any
 *              lower bits  the lowest q bits of each z, in order: first those of its lowest byte, of all elements,
 *                          then of the next byte. q = k, or L - 1 if v > 0, as the highest one is known
 *              Level 0: nothing has changed, and there is no stream. Level 15: the elements, as they are.
 * Speed        Whole masks of elements are moved at once, and nothing is read one after the other.
 * Digest       of a shard: the sum over its blocks of a hash of the elements and their places.
 * Threads      Reentrant. Failure: none; a damaged stream gives some values, whose digest differs. A block whose stream
 *              is too short for what it says, or whose level is none of these, keeps its reference.
 */
#ifndef KERNELS_ALLGATHER_EXACT_H
#define KERNELS_ALLGATHER_EXACT_H

#include "kernels/codec/allgather.h"
#include "kernels/codec/bits.h"

enum {
  TAGC_EXACT_BLOCK = 512,
  TAGC_EXACT_MAP = 1, /* the first level with a map, and the last one */
  TAGC_EXACT_MAP_MOST = 4,
  TAGC_EXACT_STORED = 15,
  TAGC_EXACT_ROOM = 8192,   /* a stream before its end is known */
  TAGC_EXACT_SPARE = 16,    /* bytes behind the last stream, which a decoder may read */
  TAGC_EXACT_GRAIN = 64,    /* bytes: payloads are multiples */
  TAGC_EXACT_UNCHANGED = 2, /* a flag of the header: the shard is that of the reference */
};

struct tagc_exact_kernels {
  /* Up to a block's elements. Writes the stream (`to` has TAGC_EXACT_ROOM), sets its head, and returns its bytes. */
  size_t (*encode)(const void *value, const void *reference, uint32_t count, enum tagc_dtype dtype, uint8_t *to,
                   uint32_t *head);
  /* Uses `bytes` of the stream, and reads at most TAGC_EXACT_SPARE more. `to` may be the reference. */
  void (*decode)(const uint8_t *stream, size_t bytes, uint32_t head, const void *reference, uint32_t count,
                 enum tagc_dtype dtype, void *to);
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
