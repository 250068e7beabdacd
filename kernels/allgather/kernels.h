/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codecs for all-gathers, compiled once per instruction set (variant.h), with the same bits
 * from each. See steps.h for the arithmetic.
 *
 * Threads  Reentrant. Pointers need the alignment of their elements. Failure: none.
 */
#ifndef KERNELS_ALLGATHER_KERNELS_H
#define KERNELS_ALLGATHER_KERNELS_H

#include "kernels/allgather/steps.h"
#include "kernels/allgather/support.h"

/* Squared L2 norms, without values that are not finite. */
struct tagc_allgather_norms {
  double error2, norm2;
};

/* The bits of delta_differ(). */
enum tagc_delta_look { TAGC_DELTA_TINY = 1, TAGC_DELTA_UNFIT = 2, TAGC_DELTA_FAR = 4 };

/* Escapes are moved so many at once. */
enum { TAGC_LOSSLESS_AT_ONCE = 4, TAGC_LOSSLESS_ROOM = TAGC_ALLGATHER_BLOCK + TAGC_LOSSLESS_AT_ONCE };

/* A block has 256 elements. Norms are added to, unless NULL. */
struct tagc_allgather_kernels {
  /* Any number of elements. */
  void (*bf16_encode)(const float *from, uint64_t n, uint16_t *to, struct tagc_allgather_norms *norms);
  void (*bf16_decode)(const uint16_t *from, uint64_t n, float *to);

  /* A block of finite values of the type, below 2^120, and zero below 2^-120. */
  void (*q8_encode)(const float *values, enum tagc_dtype dtype, uint16_t scales[2], uint8_t *codes,
                    struct tagc_allgather_norms *norms);
  void (*q8_decode)(const uint16_t scales[2], const uint8_t *codes, enum tagc_dtype dtype, void *to);

  /* A block of bf16 or fp32. Writes its record, its base, the lower halves of fp32, and its escapes; returns the number
   * of escapes. `escaped` has room for TAGC_LOSSLESS_ROOM: the rest is undefined, but decode may read it. */
  uint32_t (*lossless_encode)(const void *from, enum tagc_dtype dtype, uint8_t *record, uint8_t *base, uint16_t *lows,
                              uint8_t *escaped);
  void (*lossless_decode)(const uint8_t *record, uint8_t base, const uint16_t *lows, const uint8_t *escaped,
                          enum tagc_dtype dtype, void *to);

  /* A block's differences from its reference; returns bits of enum tagc_delta_look. */
  uint32_t (*delta_differ)(const void *from, const void *reference, enum tagc_dtype dtype, float *differences);
  /* Adds to the reference of a block, and writes the result to `to`, too, unless NULL. */
  void (*delta_add)(const float *differences, enum tagc_dtype dtype, void *reference, void *to);
  /* Norms of n elements of `value` and of their difference from `got`. */
  void (*compare)(const void *value, const void *got, uint64_t n, enum tagc_dtype dtype,
                  struct tagc_allgather_norms *norms);

  /* A block: writes its nonzero values (`values` has room for a whole block), its index (room for
   * TAGC_SUPPORT_INDEX_MOST) and its kind; returns the number of values. */
  uint32_t (*support_encode)(const void *from, enum tagc_dtype dtype, void *values, uint8_t *index, uint8_t *kind);
  /* Reads the index and as many values as tagc_support_values() says. */
  void (*support_decode)(uint8_t kind, const uint8_t *index, const void *values, enum tagc_dtype dtype, void *to);
};

extern const struct tagc_allgather_kernels tagc_allgather_plain, tagc_allgather_avx2, tagc_allgather_avx512;

/* The table of the fastest instruction set. */
const struct tagc_allgather_kernels *tagc_allgather_kernels(void);

/* -- what the codecs share on the host (allgather.c) --------------------------------------------------------------- */

/* One block of a shard; padded after `count` elements. */
struct tagc_allgather_place {
  uint64_t number, from;
  uint32_t count;
};

static inline struct tagc_allgather_place tagc_allgather_place(uint64_t number, uint64_t n) {
  const uint64_t from = number * TAGC_ALLGATHER_BLOCK, left = n - from;
  return (struct tagc_allgather_place){number, from,
                                       left < TAGC_ALLGATHER_BLOCK ? (uint32_t)left : TAGC_ALLGATHER_BLOCK};
}

/* Room for the last block of a shard, if incomplete. */
struct tagc_allgather_padded {
  _Alignas(64) uint8_t bytes[TAGC_ALLGATHER_BLOCK * sizeof(float)];
};

/* A block's elements in `shard`, or, if the block is incomplete, their copy in `room`, followed by zeros. */
const void *tagc_allgather_whole(const void *shard, struct tagc_allgather_place place, enum tagc_dtype dtype,
                                 struct tagc_allgather_padded *room);
/* The address to write a block to: in `shard` or, if it is incomplete, in `room`; settle then copies it to `shard`. */
void *tagc_allgather_target(void *shard, struct tagc_allgather_place place, enum tagc_dtype dtype,
                            struct tagc_allgather_padded *room);
void tagc_allgather_settle(void *shard, struct tagc_allgather_place place, enum tagc_dtype dtype,
                           const struct tagc_allgather_padded *room);

/* True if a shape meets what all codecs need: n from 1 to 2^32 - 1, two ranks, sizes that fit in a size_t. */
bool tagc_allgather_shape_fits(const struct tagc_allgather_shape *shape);

/* Begins to decode: sets job->refused and counts it. False: a shard was refused. */
bool tagc_allgather_begin_decode(struct tagc_allgather_job *job);

/* Begins, then decodes all shards but an own one that stays, unless one was refused. */
void tagc_allgather_decode_shards(struct tagc_allgather_job *job,
                                  void (*decode_shard)(const struct tagc_allgather_job *job, int rank));

void tagc_allgather_set_norms(struct tagc_allgather_job *job, struct tagc_allgather_norms norms);

/* Shard `rank` of a buffer like recv, and of recv. */
static inline void *tagc_allgather_part(const struct tagc_allgather_job *job, void *buffer, int rank) {
  const uint64_t stride = job->stride ? job->stride : job->shape.n;
  return (char *)buffer + (size_t)rank * stride * tagc_dtype_size(job->shape.dtype);
}
static inline void *tagc_allgather_shard(const struct tagc_allgather_job *job, int rank) {
  return tagc_allgather_part(job, job->recv, rank);
}

#endif
