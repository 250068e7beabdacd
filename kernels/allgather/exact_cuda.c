/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of exact.cu: see cuda.h.
 */
#include "kernels/allgather/cuda.h"
#include "kernels/codec/assign_buffer.h"

enum { WARPS = TAGC_CUDA_THREADS / 32 };

static uint64_t tiles_of(uint64_t n, uint64_t blocks_a_tile) {
  return (tagc_exact_blocks(n) + blocks_a_tile - 1) / blocks_a_tile;
}

void tagc_exact_assign_gpu_buffers(struct tagc_allgather_call *gather, const struct tagc_allgather_shape *shape,
                                   void *base, size_t *used) {
  const uint64_t sent = tiles_of(shape->n, WARPS),
                 received = (uint64_t)shape->nranks * tiles_of(shape->n, TAGC_EXACT_TILE);
  gather->exact_blocks = tagc_exact_blocks(shape->n);
  gather->tile_count = sent > received ? sent : received;
  gather->work = tagc_assign_buffer(base, used, sizeof *gather->work);
  gather->tiles = tagc_assign_buffer(base, used, gather->tile_count * sizeof *gather->tiles);
}

size_t tagc_exact_gpu_tables_bytes(const struct tagc_allgather_shape *shape) {
  return sizeof(struct tagc_exact_kept) + (size_t)shape->nranks * sizeof(uint64_t);
}

void tagc_exact_place_parts(struct tagc_allgather_call *gather, const struct tagc_allgather_job *job) {
  const struct tagc_exact_parts at = tagc_exact_parts_of(job->shape.n);
  gather->edges = at.edges;
  gather->lengths = at.lengths;
  gather->streams = at.streams;
  gather->kept = job->tables;
}

static int launch_exact(const struct tagc_cuda_launcher *launcher, enum tagc_cuda_kernel kernel, uint64_t groups,
                        const void *parameter, void *stream) {
  return tagc_cuda_launch(launcher, kernel, tagc_cuda_grid_for(launcher, groups, 1), parameter, stream);
}

/* Groups that clear the words of all tiles. */
static uint64_t clearing(const struct tagc_allgather_call *gather) {
  return (gather->tile_count + TAGC_CUDA_THREADS - 1) / TAGC_CUDA_THREADS;
}

int tagc_exact_cuda_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                           void *stream) {
  int error = launch_exact(launcher, tagc_exact_open_kernel, clearing(gather), gather, stream);
  if (!error)
    error = launch_exact(launcher, tagc_exact_encode_kernel, tiles_of(gather->call.n, WARPS), gather, stream);
  return error ? error : launch_exact(launcher, tagc_exact_close_kernel, 1, gather, stream);
}

int tagc_exact_cuda_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                           void *stream) {
  const uint64_t tiles = gather->call.nranks * tiles_of(gather->call.n, TAGC_EXACT_TILE);
  int error = launch_exact(launcher, tagc_exact_look_kernel, clearing(gather), gather, stream);
  if (!error)
    error = launch_exact(launcher, tagc_exact_decode_kernel, tiles, gather, stream);
  return error ? error : launch_exact(launcher, tagc_exact_settle_kernel, 1, gather, stream);
}

int tagc_exact_cuda_refer(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                          void *stream) {
  int error = launch_exact(launcher, tagc_exact_begin_kernel, 1, gather, stream);
  if (!error)
    error = tagc_cuda_launch(launcher, tagc_exact_digest_kernel,
                             tagc_cuda_grid_for(launcher, tiles_of(gather->call.n, WARPS), gather->call.nranks), gather,
                             stream);
  return error ? error : launch_exact(launcher, tagc_exact_refer_kernel, 1, gather, stream);
}
