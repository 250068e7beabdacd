/* SPDX-License-Identifier: BSD-3-Clause
 * The residual: its size, its blocks, and how to get rid of it when compression is switched off. See residual.h.
 */
#include "kernels/residual.h"

#include <string.h>

#include "kernels/codec_bits.h"
#include "kernels/fpmode.h"

size_t tagc_residual_shard_bytes(const struct tagc_shape *shape)
{
  return shape->residual == TAGC_STORAGE_FP32 ? shape->n * sizeof(float) : 0;
}

size_t tagc_residual_bytes(const struct tagc_shape *shape)
{
  return (size_t)(shape->nranks - 1) * tagc_residual_shard_bytes(shape);
}

static void *shard_of(const struct tagc_job *job, int shard)
{
  return (char *)job->residual + (size_t)(shard - (shard > job->rank)) * tagc_residual_shard_bytes(&job->shape);
}

float *tagc_residual_floats(const struct tagc_job *job, int shard)
{
  return job->residual && job->shape.residual == TAGC_STORAGE_FP32 ? shard_of(job, shard) : NULL;
}

void tagc_residual_load(const struct tagc_job *job, int shard, uint64_t from, uint32_t count, float *out)
{
  if (job->residual_empty)
    memset(out, 0, count * sizeof *out);
  else
    memcpy(out, (float *)shard_of(job, shard) + from, count * sizeof *out);
}

double tagc_residual_store(const struct tagc_job *job, int shard, uint64_t from, uint32_t count, const float *values)
{
  double norm2 = 0;
  memcpy((float *)shard_of(job, shard) + from, values, count * sizeof *values);
  for (uint32_t i = 0; i < count; i++)
    norm2 += (double)values[i] * values[i];
  return norm2;
}

void tagc_residual_flush(const struct tagc_job *job, void *out)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  const uint64_t n = job->shape.n;
  const enum tagc_dtype dtype = job->shape.dtype;
  for (int shard = 0; shard < job->shape.nranks; shard++) {
    const void *from = tagc_job_shard(job, shard);
    char *to = (char *)out + (size_t)shard * n * tagc_dtype_size(dtype);
    const bool has_residual = shard != job->rank && job->residual && !job->residual_empty;
    float residual[TAGC_RESIDUAL_BLOCK] = {0};
    for (uint64_t at = 0; at < n; at += TAGC_RESIDUAL_BLOCK) {
      const uint32_t count = n - at < TAGC_RESIDUAL_BLOCK ? (uint32_t)(n - at) : TAGC_RESIDUAL_BLOCK;
      if (has_residual)
        tagc_residual_load(job, shard, at, count, residual);
      for (uint32_t i = 0; i < count; i++) {
        float x = job->scale * tagc_load(from, at + i, dtype);
        tagc_store(to, at + i, dtype, has_residual ? x + residual[i] : x);
      }
    }
  }
  tagc_fpmode_leave(mode);
}
