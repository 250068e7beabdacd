/* SPDX-License-Identifier: BSD-3-Clause
 * The payloads of the codecs for all-gathers, and the arithmetic that the host and GPU kernels share.
 *
 * Blocks     of 256 elements. An incomplete last block is padded: with zeros (q8, delta), with its last element
 *            (lossless). Every payload begins with a struct tagc_allgather_header; each part is padded with zeros to 16
 *            bytes. After the header of a refused shard everything is ignored. Numbers are little-endian.
 * bf16       n x bf16 (bf16.c).
 * q8         exceptions | scales | codes (q8.c).
 * lossless   starts | escapes | bases | blocks | lows (lossless.c).
 * delta      scales | codes (delta.c).
 * support    kinds | values | indexes (support.h).
 * Threads    Pure functions. Failure: none.
 */
#ifndef KERNELS_ALLGATHER_STEPS_H
#define KERNELS_ALLGATHER_STEPS_H

#include "kernels/codec/allgather.h"
#include "kernels/codec/bits.h"
#include "kernels/codec/blocks.h"
#include "kernels/codec/exceptions.h"
#include "kernels/codec/lossless.h"

enum { TAGC_ALLGATHER_BLOCK = 256, TAGC_ALLGATHER_HALF = 128 };

static inline TAGC_HD uint64_t tagc_allgather_blocks(uint64_t n) {
  return (n + TAGC_ALLGATHER_BLOCK - 1) / TAGC_ALLGATHER_BLOCK;
}

/* -- all that lose something --------------------------------------------------------------------------------------- */

/* The storable value nearest to a finite one: scales are rounded up, but the largest fp16 must not become infinite. */
static inline TAGC_HD float tagc_allgather_within(float x, enum tagc_dtype dtype) {
  if (dtype != TAGC_FLOAT16)
    return x;
  return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
}

/* -- bf16 ---------------------------------------------------------------------------------------------------------- */

/* Nearest even; infinities stay, and every NaN becomes the one of TAGC_NAN_BITS. */
static inline TAGC_HD uint16_t tagc_allgather_to_bf16(float x) {
  return tagc_to_bf16(x == x ? x : tagc_float_of(TAGC_NAN_BITS));
}

/* -- q8 ------------------------------------------------------------------------------------------------------------ */

enum { TAGC_Q8_LOST = TAGC_NAN_BITS >> 16 }; /* the scale of a shard with too many exceptions */

/* Byte offsets of the parts in the payload. Exceptions: as in exceptions.h, `anywhere` zero. */
struct tagc_q8_gather {
  size_t exceptions, scales, codes, bytes;
};

static inline struct tagc_q8_gather tagc_q8_gather_of(uint64_t n) {
  const uint64_t blocks = tagc_allgather_blocks(n);
  struct tagc_q8_gather at;
  at.exceptions = sizeof(struct tagc_allgather_header);
  at.scales = at.exceptions + tagc_exceptions_bytes(n);
  at.codes = at.scales + tagc_pad16(blocks * 2 * sizeof(uint16_t));
  at.bytes = at.codes + blocks * TAGC_ALLGATHER_BLOCK;
  return at;
}

/* Scale: tagc_scale_up(the largest magnitude of the half block, 127). Code: tagc_code(x * tagc_scale_inverse(scale),
 * 127), where x is tagc_dense_strip(value). Value: tagc_allgather_within(code * tagc_from_bf16(scale), dtype), then
 * stored as the type; exceptions are stored last. */

/* -- lossless ------------------------------------------------------------------------------------------------------ */

enum {
  TAGC_LOSSLESS_PLANE = 32, /* bytes: bit i of a plane is element i's */
  TAGC_LOSSLESS_RESTS = 3 * TAGC_LOSSLESS_PLANE,
  TAGC_LOSSLESS_RECORD = TAGC_LOSSLESS_RESTS + TAGC_ALLGATHER_BLOCK,
};

/* Byte offsets in the payload; escapes: the room for them. */
struct tagc_lossless_gather {
  size_t starts, escaped, bases, blocks, lows, bytes;
  uint32_t escapes;
};

static inline struct tagc_lossless_gather tagc_lossless_gather_of(uint64_t n, enum tagc_dtype dtype) {
  const uint64_t blocks = tagc_allgather_blocks(n);
  struct tagc_lossless_gather at;
  at.starts = sizeof(struct tagc_allgather_header);
  at.escapes = (uint32_t)((n + 11) / 12 + TAGC_ALLGATHER_BLOCK);
  at.escaped = at.starts + tagc_pad16(blocks * sizeof(uint32_t));
  at.bases = at.escaped + tagc_pad16(at.escapes);
  at.blocks = at.bases + tagc_pad16(blocks);
  at.lows = at.blocks + blocks * TAGC_LOSSLESS_RECORD;
  at.bytes = at.lows + (dtype == TAGC_FLOAT32 ? blocks * TAGC_ALLGATHER_BLOCK * sizeof(uint16_t) : 0);
  return at;
}

/* The base of a block: elements equal modulo 8 are a group; m is the least of the groups' largest exponents. Most
 * values come up to it, whatever a few of them are. The base is m or (m + 1) modulo 256: the one with fewer escapes; if
 * equal, m. (Normal values: as good as the best of all 256, one escape in 47.) */
static inline TAGC_HD uint32_t tagc_lossless_base(uint32_t m, uint32_t escapes_of_m, uint32_t escapes_of_next) {
  return escapes_of_next < escapes_of_m ? (m + 1) & 0xff : m;
}

/* -- delta --------------------------------------------------------------------------------------------------------- */

#define TAGC_DELTA_HUGE_BITS 0x5b800000u /* 2^56: sums of squares of smaller ones stay below 2^120 */

struct tagc_delta_gather {
  size_t scales, codes, bytes;
};

static inline struct tagc_delta_gather tagc_delta_gather_of(uint64_t n) {
  const uint64_t blocks = tagc_allgather_blocks(n);
  struct tagc_delta_gather at;
  at.scales = sizeof(struct tagc_allgather_header);
  at.codes = at.scales + tagc_pad16(blocks * 2 * sizeof(uint16_t));
  at.bytes = at.codes + blocks * TAGC_ALLGATHER_BLOCK / 2;
  return at;
}

/* Differences d = value - reference, in fp32, are encoded as in q4.c, to nearest; the rotation's key is that of the
 * sender's shard, tagc_rotation_key(seed, rank). Tiny ones are encoded as zero (tagc_dense_strip()). The new reference,
 * and the result: tagc_allgather_within(reference + decoded difference, dtype), rounded to the type. */

/* True if 4 bits cannot carry the difference, so that the shard is refused: it, or the value, is huge or not finite. */
static inline TAGC_HD bool tagc_delta_unfit(float value, float difference) {
  return (tagc_bits_of(value) & 0x7fffffffu) >= TAGC_DELTA_HUGE_BITS ||
         (tagc_bits_of(difference) & 0x7fffffffu) >= TAGC_DELTA_HUGE_BITS;
}

/* True if a block is far from its reference. The arguments: sums of squares, sixteen each, over every sixteenth element
 * in order, from 0, and the tree over these (lane t += lane t + 8, then 4, 2, 1). */
static inline TAGC_HD bool tagc_delta_far(float differences2, float values2) { return differences2 * 16.0f > values2; }

/* True if a shard with `far` far blocks is refused. */
static inline TAGC_HD bool tagc_delta_refuses(uint64_t far, uint64_t blocks) { return far * 4 > blocks; }

#endif
