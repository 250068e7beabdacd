/* SPDX-License-Identifier: BSD-3-Clause
 * The residual outside codecs: its size, and how to get rid of it when compression is switched off. See residual.h.
 */
#include "kernels/residual.h"

#include "kernels/codec_bits.h"
#include "kernels/fpmode.h"

size_t tagc_residual_bytes(const struct tagc_shape *shape)
{
  return (size_t)(shape->nranks - 1) * shape->n * sizeof(float);
}

void tagc_residual_flush(const struct tagc_job *job, void *out)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  const uint64_t n = job->shape.n;
  const enum tagc_dtype dtype = job->shape.dtype;
  for (int shard = 0; shard < job->shape.nranks; shard++) {
    const void *from = tagc_job_shard(job, shard);
    char *to = (char *)out + (size_t)shard * n * tagc_dtype_size(dtype);
    const float *residual = shard == job->rank || job->residual_empty ? NULL : tagc_job_residual(job, shard);
    for (uint64_t i = 0; i < n; i++) {
      float x = job->scale * tagc_load(from, i, dtype);
      tagc_store(to, i, dtype, residual ? x + residual[i] : x);
    }
  }
  tagc_fpmode_leave(mode);
}
