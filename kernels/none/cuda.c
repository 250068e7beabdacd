/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of none.cu, precise.cu and levels.cu: see cuda.h.
 */
#include "kernels/none/cuda.h"

#include "kernels/codec/residual.h"
#include "kernels/none/levels.h"

/* A block's entries, and those of a group's blocks, fit 32 bits. */
enum { MOST_LOCAL = 1024 };

bool tagc_none_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out) {
  if (!codec->layout(shape, out) || shape->n > UINT32_MAX)
    return false;
  out->state_bytes = tagc_pad16(sizeof(struct tagc_none_state));
  return true;
}

bool tagc_precise_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out) {
  if (shape->local == 0)
    return tagc_none_cuda_layout(codec, shape, out);
  if (shape->local > MOST_LOCAL || !codec->layout(shape, out))
    return false;
  out->exponent_bytes = TAGC_LEVELS_FLAG_BYTES;
  out->state_bytes = tagc_pad16(sizeof(struct tagc_cuda_state) +
                                (size_t)shape->nranks * tagc_residual_block_count(shape) * sizeof(uint32_t));
  return true;
}

int tagc_none_cuda_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                          const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  struct tagc_cuda_call call = tagc_cuda_call_of(job, counts);
  const struct tagc_cuda_grid grid = tagc_cuda_grid_of_blocks(launcher, &call, call.nranks);
  (void)codec;
  call.norms = ((struct tagc_none_state *)job->state)->norms;
  call.selected = (uint64_t)(job->shape.nranks - 1) * job->shape.n;
  call.groups = grid.x * grid.y;
  return tagc_cuda_launch(launcher, tagc_none_encode_kernel, grid, &call, stream);
}

static int sum_by(enum tagc_cuda_kernel kernel, const struct tagc_cuda_launcher *launcher, const struct tagc_job *job,
                  struct tagc_counts *counts, void *stream) {
  const struct tagc_cuda_call call = tagc_cuda_call_of(job, counts);
  return tagc_cuda_launch(launcher, kernel, tagc_cuda_grid_of_blocks(launcher, &call, 1), &call, stream);
}

int tagc_none_cuda_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                          const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  (void)codec;
  return sum_by(tagc_none_decode_kernel, launcher, job, counts, stream);
}

/* -- precise ------------------------------------------------------------------------------------------------------- */

static struct tagc_levels_call levels_call_of(const struct tagc_job *job, struct tagc_counts *counts) {
  struct tagc_levels_call levels = {
    .call = tagc_cuda_call_of(job, counts),
    .values = job->values,
    .flags = job->exponents,
    .entries = (uint32_t *)((struct tagc_cuda_state *)job->state + 1),
    .local = (uint32_t)job->shape.local,
  };
  levels.call.selected = (uint64_t)(job->shape.nranks - 1) * job->shape.n;
  return levels;
}

int tagc_precise_cuda_prepare(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                              const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  const struct tagc_levels_call levels = levels_call_of(job, counts);
  const struct tagc_cuda_grid grid = tagc_cuda_grid_of_blocks(launcher, &levels.call, levels.call.nranks);
  const struct tagc_cuda_grid shards = tagc_cuda_grid_for(launcher, levels.call.nranks, 1);
  (void)codec;
  if (job->shape.local == 0)
    return 0;
  int error = tagc_cuda_launch(launcher, tagc_hosts_add_kernel, grid, &levels, stream);
  error = error ? error : tagc_cuda_launch(launcher, tagc_hosts_close_kernel, shards, &levels, stream);
  return error ? error : tagc_cuda_launch(launcher, tagc_hosts_list_kernel, grid, &levels, stream);
}

/* In two levels prepare has made the messages. */
int tagc_precise_cuda_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                             const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  return job->shape.local > 0 ? 0 : tagc_none_cuda_encode(launcher, codec, job, counts, stream);
}

static int launch_levels_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_job *job,
                                struct tagc_counts *counts, void *stream) {
  const struct tagc_levels_call levels = levels_call_of(job, counts);
  const struct tagc_cuda_grid blocks = tagc_cuda_grid_of_blocks(launcher, &levels.call, 1);
  const uint64_t groups = (tagc_levels_capacity(job->shape.n) + TAGC_CUDA_THREADS - 1) / TAGC_CUDA_THREADS;
  const struct tagc_cuda_grid entries = tagc_cuda_grid_for(launcher, groups, levels.call.nranks);
  const int error = tagc_cuda_launch(launcher, tagc_hosts_decode_kernel, blocks, &levels, stream);
  return error ? error : tagc_cuda_launch(launcher, tagc_hosts_complete_kernel, entries, &levels, stream);
}

int tagc_precise_cuda_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                             const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  (void)codec;
  return job->shape.local > 0 ? launch_levels_decode(launcher, job, counts, stream)
                              : sum_by(tagc_precise_decode_kernel, launcher, job, counts, stream);
}
