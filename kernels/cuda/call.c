/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the steps that all codecs share on a GPU: see call.h and kernels.h.
 */
#include "kernels/cuda/call.h"

#include "kernels/codec/exceptions.h"
#include "kernels/codec/residual.h"

enum {
  WARPS = TAGC_CUDA_THREADS / 32,
  GROUPS_A_PROCESSOR = 32, /* several times as many as run at once, so that no processor is idle for long */
};

int tagc_cuda_find(struct tagc_cuda_launcher *launcher, int (*get)(void **function, void *module, const char *name),
                   void *module, const char **missing) {
  static const char *const names[] = {
#define NAME(name) #name,
    TAGC_CUDA_KERNELS(NAME)
#undef NAME
  };
  for (int i = 0; i < TAGC_CUDA_KERNEL_COUNT; i++) {
    const int error = get(&launcher->function[i], module, names[i]);
    *missing = names[i];
    if (error)
      return error;
  }
  *missing = NULL;
  return 0;
}

struct tagc_cuda_grid tagc_cuda_grid_for(const struct tagc_cuda_launcher *launcher, uint64_t groups, uint32_t rows) {
  uint64_t most = (uint64_t)launcher->processors * GROUPS_A_PROCESSOR;
  struct tagc_cuda_grid grid = {.y = rows < TAGC_CUDA_ROWS ? rows : TAGC_CUDA_ROWS};
  if (most > TAGC_CUDA_GROUPS)
    most = TAGC_CUDA_GROUPS;
  if (launcher->most && most > launcher->most)
    most = launcher->most;
  if (launcher->most && grid.y > most)
    grid.y = (uint32_t)most;
  most = most > grid.y ? most / grid.y : 1;
  grid.x = (uint32_t)(groups < most ? groups : most);
  return grid;
}

uint32_t tagc_cuda_beside(uint32_t processors) { return processors < 4 ? 1 : processors / 4; }

static unsigned threads_of(enum tagc_cuda_kernel kernel) {
  return kernel >= tagc_lhc_list_kernel && kernel <= tagc_lhc_recover_kernel ? TAGC_CUDA_MANY_THREADS
                                                                             : TAGC_CUDA_THREADS;
}

int tagc_cuda_launch(const struct tagc_cuda_launcher *launcher, enum tagc_cuda_kernel kernel,
                     struct tagc_cuda_grid grid, const void *call, void *stream) {
  void *parameters[] = {(void *)(uintptr_t)call};
  return launcher->launch(launcher->function[kernel], grid.x, grid.y, 1, threads_of(kernel), 1, 1, 0, stream,
                          parameters, NULL);
}

struct tagc_cuda_call tagc_cuda_call_of(const struct tagc_job *job, struct tagc_counts *counts) {
  const struct tagc_shape *shape = &job->shape;
  return (struct tagc_cuda_call){
    .send = job->send,
    .recv = job->recv,
    .residual = job->residual,
    .message_out = job->message_out,
    .message_in = job->message_in,
    .state = job->state,
    .counts = counts,
    .health = job->health,
    .seed = job->seed,
    .n = shape->n,
    .stride = job->stride ? job->stride : shape->n,
    .message_bytes = job->layout.message_bytes,
    .residual_bytes = tagc_residual_shard_bytes(shape),
    .residual_at = tagc_residual_scale_bytes(shape),
    .cycle = job->cycle,
    .residual_cycle = job->residual_cycle,
    .blocks = (uint32_t)tagc_residual_block_count(shape),
    .capacity = (uint32_t)tagc_exceptions_capacity(shape->n),
    .list_bytes = (uint32_t)tagc_exceptions_bytes(shape->n),
    .rank = (uint32_t)job->rank,
    .nranks = (uint32_t)shape->nranks,
    .dtype = shape->dtype,
    .storage = job->residual ? shape->residual : TAGC_STORAGE_NONE,
    .scale = job->scale,
    .divisor = job->divisor,
    .residual_empty = job->residual_empty,
    .continues = job->continues,
    .ends = job->ends,
  };
}

static uint64_t groups_for(uint64_t work, uint64_t each) { return (work + each - 1) / each; }

struct tagc_cuda_grid tagc_cuda_grid_of_blocks(const struct tagc_cuda_launcher *launcher,
                                               const struct tagc_cuda_call *call, uint32_t rows) {
  return tagc_cuda_grid_for(launcher, groups_for(call->blocks, WARPS), rows);
}

int tagc_cuda_check(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call, void *stream) {
  return tagc_cuda_launch(launcher, tagc_call_check_kernel, (struct tagc_cuda_grid){1, 1}, call, stream);
}

int tagc_cuda_pack_flags(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_flags *flags, void *stream) {
  return tagc_cuda_launch(launcher, tagc_call_pack_flags_kernel, (struct tagc_cuda_grid){1, 1}, flags, stream);
}

int tagc_cuda_end_call(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_flags *flags, void *stream) {
  return tagc_cuda_launch(launcher, tagc_call_end_kernel, (struct tagc_cuda_grid){1, 1}, flags, stream);
}

int tagc_cuda_flush(const struct tagc_cuda_launcher *launcher, const struct tagc_job *job, void *out, void *stream) {
  const struct tagc_cuda_flushing flush = {.call = tagc_cuda_call_of(job, NULL), .out = out};
  const struct tagc_cuda_grid grid = tagc_cuda_grid_of_blocks(launcher, &flush.call, flush.call.nranks);
  return tagc_cuda_launch(launcher, tagc_call_flush_kernel, grid, &flush, stream);
}

int tagc_cuda_count(const struct tagc_cuda_launcher *launcher, const struct tagc_job *job, uint64_t range,
                    uint64_t *words, void *stream) {
  const struct tagc_cuda_counting counting = {
    .call = tagc_cuda_call_of(job, NULL),
    .words = (unsigned long long *)words,
    .range = range,
  };
  const struct tagc_cuda_grid grid = tagc_cuda_grid_of_blocks(launcher, &counting.call, counting.call.nranks - 1);
  return tagc_cuda_launch(launcher, tagc_call_count_kernel, grid, &counting, stream);
}
