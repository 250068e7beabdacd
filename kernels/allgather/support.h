/* SPDX-License-Identifier: BSD-3-Clause
 * The codec for the sums of an all-reduce whose gradients are sparse: the nonzero elements of a shard, bit for bit.
 *
 * Payload      struct tagc_support_header, then, each part padded with zeros to 16 bytes:
 *                kinds     uint8 x blocks of 256: 0 to 31: so many values, each with its place in the index;
 *                          TAGC_SUPPORT_BITMAP: more, with a bitmap; TAGC_SUPPORT_WHOLE: all 256, without an index
 *                values    the elements other than +0, as they are, in order of position
 *                indexes   of the blocks, one after the other: uint8 x values, the places in order; or 32 bytes, bit i
 *                          of which (from the lowest bit of the first byte on) is element i's; or nothing
 *              The rest is zero. So the index of a block takes min(values, 32) bytes at most. Rows of an embedding that
 *              are whole cost a byte for 256 elements.
 * Damage       A block begins where the indexes and the values of the blocks before it end. Where it leads out of the
 *              payload, or its places do not ascend, it is zero.
 * Exact        Nonzero means any bit: -0, denormals, NaN and Inf come out as they are.
 * Size         Ranks first tell each other the bytes that their payloads need. Then all send as many as the largest
 *              one. So no bound on the support is needed, and no shard is refused for its size. A bound would be no
 *              proof either: of its own shard the owner adds all elements, not only the largest ones.
 * Why sums     An all-reduce of sketch and index themselves would also reach all ranks. With k values a rank and W
 *              ranks it sends 2 x 1.22 x 4 x Wk bytes of sketch: a ring carries one for the union of all supports
 *              twice, and every rank recovers all of it. NCCL has no OR: the index takes 2 x n/8 as a bitmap that is
 *              all-reduced, or W (k + n/256) with a byte a value that all ranks gather. A sum from its owner travels
 *              once, with a byte of index: (4 + 1) Wk at most, and less where supports meet. tests/bench/RESULTS.md
 *              has all of them for 2 to 8 ranks.
 * Example      fp32, n = 300, zero but for 1 at 2, -3 at 255 and -0 at 258:
 *                00 00 00 00  (12 zeros)  50 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00   80 bytes, three values
 *                02 01 (14 zeros)                                                            kinds
 *                00 00 80 3f  00 00 40 c0  00 00 00 80  (4 zeros)                            values
 *                02 ff 02 (13 zeros)                                                         indexes
 */
#ifndef KERNELS_ALLGATHER_SUPPORT_H
#define KERNELS_ALLGATHER_SUPPORT_H

#include "kernels/allgather/steps.h"

enum {
  TAGC_SUPPORT_BITMAP = 32, /* kinds; a smaller one is the number of values */
  TAGC_SUPPORT_WHOLE = 33,
  TAGC_SUPPORT_INDEX_MOST = 32, /* bytes of a block's index */
};

struct tagc_support_header {
  struct tagc_allgather_header common;
  uint64_t needed; /* bytes of the payload that count, a multiple of 16; of a refused one too */
  uint64_t values; /* of all blocks */
};

struct tagc_support_parts {
  size_t kinds, values; /* byte offsets; the indexes are behind the values */
};

static inline TAGC_HD struct tagc_support_parts tagc_support_parts_of(uint64_t n) {
  struct tagc_support_parts at;
  at.kinds = sizeof(struct tagc_support_header);
  at.values = at.kinds + tagc_pad16(tagc_allgather_blocks(n));
  return at;
}

static inline TAGC_HD uint8_t tagc_support_kind(uint32_t values) {
  if (values == TAGC_ALLGATHER_BLOCK)
    return TAGC_SUPPORT_WHOLE;
  return (uint8_t)(values < TAGC_SUPPORT_BITMAP ? values : (uint32_t)TAGC_SUPPORT_BITMAP);
}

/* The bytes of a block's index. */
static inline TAGC_HD uint32_t tagc_support_index_bytes(uint8_t kind) { return kind <= TAGC_SUPPORT_BITMAP ? kind : 0; }

/* The most bytes that a payload with so many values needs, wherever they are. */
static inline uint64_t tagc_support_bytes(uint64_t n, enum tagc_dtype dtype, uint64_t values) {
  const uint64_t bitmaps = TAGC_SUPPORT_INDEX_MOST * tagc_allgather_blocks(n);
  return tagc_support_parts_of(n).values + tagc_pad16(values * tagc_dtype_size(dtype)) +
         tagc_pad16(values < bitmaps ? values : bitmaps);
}

/* The bytes that count of an encoded payload, for every rank to know before the exchange. The caller then sets
 * layout.payload_bytes of all jobs to the largest one of all ranks, if it is not beyond what layout() gave. */
static inline uint64_t tagc_support_needed(const uint8_t *payload) {
  struct tagc_support_header header;
  memcpy(&header, payload, sizeof header);
  return header.needed;
}

#endif
