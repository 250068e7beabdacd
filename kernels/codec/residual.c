/* SPDX-License-Identifier: BSD-3-Clause
 * The residual: its size, its blocks, and the flush when compression is switched off. See residual.h.
 */
#include "kernels/codec/residual.h"

#include <string.h>

#include "kernels/codec/bits.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/residual_blocks.h"
#include "kernels/codec/variant.h"

enum { BLOCK = TAGC_RESIDUAL_BLOCK };

static const struct tagc_residual_blocks *blocks_of(enum tagc_storage storage) {
  return &(*TAGC_OF_VARIANT(tagc_residual))[storage];
}

size_t tagc_residual_width(enum tagc_storage storage) {
  static const uint8_t width[] = {
    [TAGC_STORAGE_FP32] = 4,
    [TAGC_STORAGE_BF16] = 2,
    [TAGC_STORAGE_INT8] = 1,
  };
  return width[storage];
}

size_t tagc_residual_scale_bytes(const struct tagc_shape *shape) {
  return shape->residual == TAGC_STORAGE_INT8 ? tagc_pad16((shape->n + BLOCK - 1) / BLOCK * sizeof(uint16_t)) : 0;
}

size_t tagc_residual_shard_bytes(const struct tagc_shape *shape) {
  const size_t values = shape->n * tagc_residual_width(shape->residual);
  return shape->residual == TAGC_STORAGE_FP32 ? values : tagc_residual_scale_bytes(shape) + tagc_pad16(values);
}

size_t tagc_residual_bytes(const struct tagc_shape *shape) {
  return (size_t)(shape->nranks - 1) * tagc_residual_shard_bytes(shape);
}

static char *shard_of(const struct tagc_job *job, int shard) {
  return (char *)job->residual + (size_t)(shard - (shard > job->rank)) * tagc_residual_shard_bytes(&job->shape);
}

float *tagc_residual_floats(const struct tagc_job *job, int shard) {
  return job->residual && job->shape.residual == TAGC_STORAGE_FP32 ? (float *)shard_of(job, shard) : NULL;
}

static struct tagc_residual_place residual_place_of(const struct tagc_job *job, int shard, uint64_t from) {
  char *base = shard_of(job, shard);
  return (struct tagc_residual_place){
    .values = base + tagc_residual_scale_bytes(&job->shape) + from * tagc_residual_width(job->shape.residual),
    .scale = (uint16_t *)base + from / BLOCK,
  };
}

/* The incomplete block at the end goes through a copy, because block functions work on whole blocks. */
void tagc_residual_load(const struct tagc_job *job, int shard, uint64_t from, uint32_t count, float *out) {
  const struct tagc_residual_blocks *blocks = blocks_of(job->shape.residual);
  struct tagc_residual_place place = residual_place_of(job, shard, from);
  if (job->residual_empty) {
    memset(out, 0, count * sizeof *out);
  } else if (count == BLOCK) {
    blocks->load(place, out);
  } else {
    float kept[BLOCK] = {0}, values[BLOCK];
    memcpy(kept, place.values, count * tagc_residual_width(job->shape.residual));
    place.values = kept;
    blocks->load(place, values);
    memcpy(out, values, count * sizeof *out);
  }
}

/* An int8 block with a scale of zero keeps nothing. */
static void count_lost_residual(const struct tagc_job *job, const uint16_t *scale, uint32_t count,
                                const float *values) {
  if (job->shape.residual != TAGC_STORAGE_INT8 || *scale != 0 || !job->stats)
    return;
  for (uint32_t i = 0; i < count; i++)
    job->stats->lost += values[i] != 0;
}

static double store_residual_block(const struct tagc_job *job, int shard, uint64_t from,
                                   struct tagc_residual_place place, uint32_t count, const float *values) {
  const struct tagc_residual_blocks *blocks = blocks_of(job->shape.residual);
  const uint64_t noise = tagc_chance_key(job->seed, TAGC_CHANCE_KEPT, (uint32_t)job->rank, (uint32_t)shard) + from / 4;
  if (count == BLOCK)
    return blocks->store(place, values, noise);
  float kept[BLOCK], whole[BLOCK] = {0};
  void *end = place.values;
  memcpy(whole, values, count * sizeof *values);
  place.values = kept;
  double norm2 = blocks->store(place, whole, noise);
  memcpy(end, kept, count * tagc_residual_width(job->shape.residual));
  return norm2;
}

double tagc_residual_store(const struct tagc_job *job, int shard, uint64_t from, uint32_t count, const float *values) {
  const struct tagc_residual_place place = residual_place_of(job, shard, from);
  const double norm2 = store_residual_block(job, shard, from, place, count, values);
  count_lost_residual(job, place.scale, count, values);
  return norm2;
}

static uint32_t residual_block_at(const struct tagc_job *job, uint64_t from) {
  return job->shape.n - from < BLOCK ? (uint32_t)(job->shape.n - from) : BLOCK;
}

void tagc_residual_load_shard(const struct tagc_job *job, int shard, float *out) {
  for (uint64_t from = 0; from < job->shape.n; from += BLOCK)
    tagc_residual_load(job, shard, from, residual_block_at(job, from), out + from);
}

double tagc_residual_store_shard(const struct tagc_job *job, int shard, const float *values) {
  double norm2 = 0;
  for (uint64_t from = 0; from < job->shape.n; from += BLOCK)
    norm2 += tagc_residual_store(job, shard, from, residual_block_at(job, from), values + from);
  return norm2;
}

void tagc_residual_flush(const struct tagc_job *job, void *out) {
  tagc_fpmode mode = tagc_fpmode_enter();
  const uint64_t n = job->shape.n;
  const enum tagc_dtype dtype = job->shape.dtype;
  for (int shard = 0; shard < job->shape.nranks; shard++) {
    const void *from = tagc_job_shard(job, shard);
    char *to = (char *)out + tagc_job_shard_at(job, shard);
    const bool has_residual = shard != job->rank && job->residual && !job->residual_empty;
    float residual[BLOCK] = {0};
    for (uint64_t at = 0; at < n; at += BLOCK) {
      const uint32_t count = residual_block_at(job, at);
      if (has_residual)
        tagc_residual_load(job, shard, at, count, residual);
      for (uint32_t i = 0; i < count; i++) {
        float x = job->scale * tagc_load(from, at + i, dtype);
        x = has_residual ? x + residual[i] : x;
        tagc_store(to, at + i, dtype, x == x ? x : tagc_float_of(TAGC_NAN_BITS)); /* the same on every device */
      }
    }
  }
  tagc_fpmode_leave(mode);
}
