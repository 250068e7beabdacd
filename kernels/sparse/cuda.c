/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of sparse.cu: see cuda.h. The codec's state: that of the kernels (cuda/call.h), norms, and
 * memory for choosing and for lists.
 */
#include "kernels/sparse/cuda.h"

#include "kernels/codec/assign_buffer.h"
#include "kernels/sparse/sparse.h"
#include "kernels/sparse/sparsify.h"

enum { WARPS = TAGC_CUDA_THREADS / 32 };

/* -- lists --------------------------------------------------------------------------------------------------------- */

static uint64_t count_parts(uint64_t all, uint64_t each) { return (all + each - 1) / each; }

static size_t assign_lists(struct tagc_lists_call *out, uint64_t n, uint32_t nranks, void *base) {
  size_t used = 0;
  out->tiles = (uint32_t)count_parts(n, (uint64_t)TAGC_LISTS_TILE * TAGC_SPARSE_BLOCK);
  out->segments = (uint32_t)count_parts(out->tiles, TAGC_LISTS_SEGMENT);
  out->starts = tagc_assign_buffer(base, &used, (nranks - 1) * (size_t)out->tiles * sizeof *out->starts);
  out->totals = tagc_assign_buffer(base, &used, (nranks - 1) * (size_t)out->segments * sizeof *out->totals);
  const size_t places = nranks - 1, rows = places < TAGC_CUDA_ROWS ? places : TAGC_CUDA_ROWS;
  out->norms = tagc_assign_buffer(base, &used, 2 * places * (TAGC_CUDA_GROUPS / rows) * sizeof *out->norms);
  return used;
}

size_t tagc_lists_bytes(uint64_t n, uint32_t nranks) {
  struct tagc_lists_call lists;
  return assign_lists(&lists, n, nranks, NULL);
}

static struct tagc_lists_call lists_of(const struct tagc_choose_call *of, const struct tagc_sparse_message *message,
                                       void *memory) {
  struct tagc_lists_call lists = {
    .of = *of,
    .counts_at = message->counts,
    .offsets_at = message->offsets,
    .values_at = message->values,
    .capacity = message->capacity,
    .exact = message->exact,
  };
  assign_lists(&lists, of->call.n, of->call.nranks, memory);
  return lists;
}

static struct tagc_cuda_grid grid_of_segments(const struct tagc_cuda_launcher *launcher,
                                              const struct tagc_lists_call *lists) {
  return tagc_cuda_grid_for(launcher, lists->segments, lists->of.call.nranks - 1);
}

static struct tagc_cuda_grid grid_of_tiles(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call,
                                           uint32_t rows) {
  return tagc_cuda_grid_for(launcher, count_parts(call->blocks, TAGC_LISTS_TILE * WARPS), rows);
}

uint32_t tagc_lists_groups(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call) {
  const struct tagc_cuda_grid grid = grid_of_tiles(launcher, call, call->nranks - 1);
  return grid.x * grid.y;
}

int tagc_lists_pack(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose,
                    const struct tagc_sparse_message *message, void *memory, void *stream) {
  const struct tagc_lists_call lists = lists_of(choose, message, memory);
  const int error =
    tagc_cuda_launch(launcher, tagc_sparse_out_starts_kernel, grid_of_segments(launcher, &lists), &lists, stream);
  if (error)
    return error;
  return tagc_cuda_launch(launcher, tagc_sparse_out_kernel,
                          grid_of_tiles(launcher, &choose->call, choose->call.nranks - 1), &lists, stream);
}

int tagc_lists_sum(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call,
                   const struct tagc_sparse_message *message, void *memory, void *stream) {
  const struct tagc_choose_call of = {.call = *call};
  const struct tagc_lists_call lists = lists_of(&of, message, memory);
  const int error =
    tagc_cuda_launch(launcher, tagc_sparse_in_starts_kernel, grid_of_segments(launcher, &lists), &lists, stream);
  return error ? error
               : tagc_cuda_launch(launcher, tagc_sparse_in_kernel, grid_of_tiles(launcher, call, 1), &lists, stream);
}

/* -- the codec ----------------------------------------------------------------------------------------------------- */

struct parts {
  struct tagc_cuda_state *state;
  double *norms;
  struct tagc_choose_shard *shards;
  uint32_t *counts, *bitmap;
  size_t bitmap_words; /* of a shard */
  void *choosing, *lists;
};

static size_t sparse_assign_gpu_state(struct parts *out, const struct tagc_shape *shape, const struct tagc_grid *grid,
                                      void *base) {
  const uint32_t nranks = (uint32_t)shape->nranks;
  size_t used = 0;
  out->bitmap_words = ((size_t)grid->lines + 15) / 16 * 16;
  out->state = tagc_assign_buffer(base, &used, sizeof *out->state);
  out->norms = tagc_assign_buffer(base, &used, TAGC_CUDA_GROUPS * sizeof *out->norms);
  out->shards = tagc_assign_buffer(base, &used, (nranks - 1) * sizeof *out->shards);
  out->counts = tagc_assign_buffer(base, &used, (nranks - 1) * sizeof *out->counts);
  out->bitmap = tagc_assign_buffer(base, &used, nranks * out->bitmap_words * sizeof *out->bitmap);
  out->choosing = tagc_assign_buffer(base, &used, tagc_choose_bytes(grid, nranks - 1));
  out->lists = tagc_assign_buffer(base, &used, tagc_lists_bytes(shape->n, nranks));
  return used;
}

bool tagc_sparse_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out) {
  struct tagc_grid grid;
  struct parts parts;
  if (!codec->layout(shape, out))
    return false;
  tagc_grid_fill(&grid, shape->n, shape->keep_ppm, 1);
  out->state_bytes = sparse_assign_gpu_state(&parts, shape, &grid, NULL);
  return true;
}

/* The common part of encode and decode. Returns the memory of the lists. */
static void *sparse_begin(const struct tagc_job *job, struct tagc_counts *counts, struct tagc_choose_call *choose,
                          struct tagc_sparse_message *message) {
  struct parts parts;
  *choose = (struct tagc_choose_call){.call = tagc_cuda_call_of(job, counts)};
  tagc_grid_fill(&choose->grid, job->shape.n, job->shape.keep_ppm, 1);
  tagc_sparse_message_fill(message, job->shape.n, choose->grid.stripe_capacity, false);
  sparse_assign_gpu_state(&parts, &job->shape, &choose->grid, job->state);
  choose->call.norms = parts.norms;
  choose->bitmap = parts.bitmap;
  choose->bitmap_words = parts.bitmap_words;
  choose->shards = parts.shards;
  choose->counts = parts.counts;
  choose->memory = parts.choosing;
  return parts.lists;
}

int tagc_sparse_cuda_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                            const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  struct tagc_choose_call choose;
  struct tagc_sparse_message message;
  void *lists = sparse_begin(job, counts, &choose, &message);
  (void)codec;
  choose.call.groups = tagc_lists_groups(launcher, &choose.call);
  int error = tagc_choose_enqueue(launcher, &choose, stream);
  if (!error)
    error = tagc_lists_pack(launcher, &choose, &message, lists, stream);
  return error ? error : tagc_choose_close(launcher, &choose, stream);
}

int tagc_sparse_cuda_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                            const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  struct tagc_choose_call choose;
  struct tagc_sparse_message message;
  void *lists = sparse_begin(job, counts, &choose, &message);
  (void)codec;
  const int error = tagc_cuda_check(launcher, &choose.call, stream);
  return error ? error : tagc_lists_sum(launcher, &choose.call, &message, lists, stream);
}
