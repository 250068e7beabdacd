/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of support.cu: see cuda.h.
 */
#include "kernels/allgather/cuda.h"
#include "kernels/codec/assign_buffer.h"

void tagc_support_assign_gpu_buffers(struct tagc_allgather_call *gather, const struct tagc_allgather_shape *shape,
                                     void *base, size_t *used) {
  const size_t segments = (size_t)shape->nranks * gather->segments, blocks = tagc_allgather_blocks(shape->n);
  gather->support = tagc_assign_buffer(base, used, segments * sizeof *gather->support);
  gather->support_counts = tagc_assign_buffer(base, used, blocks * sizeof *gather->support_counts);
}

/* A group takes a segment. */
static int launch_segments(const struct tagc_cuda_launcher *launcher, enum tagc_cuda_kernel kernel, uint32_t shards,
                           const struct tagc_allgather_call *gather, void *stream) {
  return tagc_cuda_launch(launcher, kernel, tagc_cuda_grid_for(launcher, gather->segments, shards), gather, stream);
}

int tagc_support_cuda_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                             void *stream) {
  const int error = launch_segments(launcher, tagc_support_count_kernel, 1, gather, stream);
  return error ? error : launch_segments(launcher, tagc_support_send_kernel, 1, gather, stream);
}

int tagc_support_cuda_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                             void *stream) {
  static const enum tagc_cuda_kernel kernels[] = {tagc_support_indexes_kernel, tagc_support_values_kernel,
                                                  tagc_support_decode_kernel};
  int error = tagc_cuda_launch(launcher, tagc_allgather_look_kernel, (struct tagc_cuda_grid){1, 1}, gather, stream);
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels && !error; i++)
    error = launch_segments(launcher, kernels[i], gather->call.nranks, gather, stream);
  return error;
}
