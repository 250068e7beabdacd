/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of none.cu and precise.cu: see cuda.h.
 */
#include "kernels/none/cuda.h"

bool tagc_none_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out) {
  if (shape->local > 0 || !codec->layout(shape, out) || shape->n > UINT32_MAX)
    return false;
  out->state_bytes = tagc_pad16(sizeof(struct tagc_none_state));
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

int tagc_precise_cuda_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                             const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  (void)codec;
  return sum_by(tagc_precise_decode_kernel, launcher, job, counts, stream);
}
