/* SPDX-License-Identifier: BSD-3-Clause
 * The residual (error feedback): the unsent values of a gradient, kept by the sender for its foreign shards.
 *
 * Layout   The foreign shards in rank order, each tagc_residual_shard_bytes() long; little-endian:
 *            fp32   n floats
 *            bf16   n uint16, padded to 16 bytes
 *            int8   scales uint16 (bf16) x ceil(n/256) | codes int8 x n, each part padded to 16 bytes. Position i is
 *                   code i times the scale of its block i/256: amax/127 of the block, rounded up; 0 where amax <
 *                   2^-110.
 *          Nobody reads the padding.
 * Chance   bf16 and int8 round up or down by chance, with the right mean: small values survive in the mean of many
 *          calls instead of being rounded away in each. Key = mix(mix(seed ^ 0x7e51) + (rank << 32 | shard)) + 64 *
 *          block; position i of a block takes bits 16 (i%4) to 16 (i%4) + 15 of mix(key + i/4) (tagc_mix64).
 * Threads  Reentrant; the job is the caller's.
 */
#ifndef KERNELS_CODEC_RESIDUAL_H
#define KERNELS_CODEC_RESIDUAL_H

#include "kernels/codec/codec.h"

enum { TAGC_RESIDUAL_BLOCK = 256 };

/* The blocks of a shard. Pure. */
static inline uint64_t tagc_residual_block_count(const struct tagc_shape *shape) {
  return (shape->n + TAGC_RESIDUAL_BLOCK - 1) / TAGC_RESIDUAL_BLOCK;
}

/* The residual's bytes for one foreign shard, and for all of them; 0 without a residual. Pure. */
size_t tagc_residual_shard_bytes(const struct tagc_shape *shape);
size_t tagc_residual_bytes(const struct tagc_shape *shape);

/* Bytes of one value, and of the scales before a shard's values. Pure. */
size_t tagc_residual_width(enum tagc_storage storage);
size_t tagc_residual_scale_bytes(const struct tagc_shape *shape);

/* The residual of a foreign shard if stored as fp32, which needs no conversion. NULL: none, or another storage. */
float *tagc_residual_floats(const struct tagc_job *job, int shard);

/* Reads a block of a foreign shard's residual: positions [from, from + count). `from` is a multiple of
 * TAGC_RESIDUAL_BLOCK; `count` is that number, or less at the end of the shard. Zeros if job->residual_empty. */
void tagc_residual_load(const struct tagc_job *job, int shard, uint64_t from, uint32_t count, float *out);

/* Stores a block of finite values below 2^120; blocks may come in any order and more than once. Returns the squared
 * L2 norm of the stored values. Storage narrower than fp32 rounds by chance (keyed by seed, rank and position):
 * values below its unit survive in the mean. An int8 block without a unit loses values; job->stats, unless NULL,
 * counts them. */
double tagc_residual_store(const struct tagc_job *job, int shard, uint64_t from, uint32_t count, const float *values);

/* The same for all blocks of a foreign shard. */
void tagc_residual_load_shard(const struct tagc_job *job, int shard, float *out);
double tagc_residual_store_shard(const struct tagc_job *job, int shard, const float *values);

/* Writes scale*g + e, rounded once to the shape's type, to `out` (nranks x n elements, with the stride of send, not
 * overlapping it). A plain reduce-scatter (sum, or average) sends this when compression is switched off: nothing stays
 * behind. The own shard is scale*g. Reads job->{shape, rank, send, stride, scale, residual, residual_empty}. */
void tagc_residual_flush(const struct tagc_job *job, void *out);

#endif
