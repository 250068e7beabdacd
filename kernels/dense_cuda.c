/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of dense.cu: see dense_cuda.h.
 */
#include "kernels/dense_cuda.h"

#include <string.h>

#include "kernels/codecs.h"
#include "kernels/dense.h"
#include "kernels/residual.h"

enum {
  WARPS = TAGC_DENSE_CUDA_THREADS / 32,
  MOST_ROWS = 1024,                /* of groups: shards in y */
  GROUPS_A_PROCESSOR = 32,         /* several times as many as run at once, so that none of them is idle for long */
  CLEARED_BYTES = 16 * TAGC_DENSE_CUDA_THREADS,
};

struct grid {
  uint32_t x, y;
};

int tagc_dense_cuda_find(struct tagc_dense_launcher *launcher, int (*get)(void **function, void *module, const char *name),
                         void *module, const char **missing)
{
  static const char *const names[] = {
#define NAME(name) #name,
    TAGC_DENSE_KERNELS(NAME)
#undef NAME
  };
  for (int i = 0; i < TAGC_DENSE_KERNEL_COUNT; i++) {
    const int error = get(&launcher->function[i], module, names[i]);
    *missing = names[i];
    if (error)
      return error;
  }
  *missing = NULL;
  return 0;
}

/* NULL for other codecs. */
static const struct tagc_dense_format *format_of(const struct tagc_codec *codec)
{
  static const struct tagc_codec *const codecs[TAGC_DENSE_CODECS] = {
    [TAGC_DENSE_BF16] = &tagc_codec_bf16,
    [TAGC_DENSE_Q8] = &tagc_codec_q8,
    [TAGC_DENSE_Q4] = &tagc_codec_q4,
    [TAGC_DENSE_Q2] = &tagc_codec_q2,
  };
  for (int i = 0; i < TAGC_DENSE_CODECS; i++)
    if (codecs[i] == codec)
      return &tagc_dense_formats[i];
  return NULL;
}

bool tagc_dense_cuda_knows(const struct tagc_codec *codec) { return format_of(codec) != NULL; }

bool tagc_dense_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out)
{
  if (!tagc_dense_cuda_knows(codec) || !codec->layout(shape, out))
    return false;
  out->state_bytes = tagc_pad16(sizeof(struct tagc_dense_state));
  return true;
}

/* As many groups as there is work for, and not many more than the device runs at once. */
static struct grid grid_of(const struct tagc_dense_launcher *launcher, uint64_t groups, uint32_t rows)
{
  uint64_t most = (uint64_t)launcher->processors * GROUPS_A_PROCESSOR;
  struct grid grid = { .y = rows < MOST_ROWS ? rows : MOST_ROWS };
  if (most > TAGC_DENSE_CUDA_GROUPS)
    most = TAGC_DENSE_CUDA_GROUPS;
  most = most > grid.y ? most / grid.y : 1;
  grid.x = (uint32_t)(groups < most ? groups : most);
  return grid;
}

static uint64_t groups_for(uint64_t work, uint64_t each) { return (work + each - 1) / each; }

static struct tagc_dense_call call_of(const struct tagc_dense_format *format, const struct tagc_job *job,
                                      struct tagc_dense_counts *counts)
{
  const struct tagc_shape *shape = &job->shape;
  const struct tagc_dense_parts parts = tagc_dense_parts_of(format, shape->n);
  return (struct tagc_dense_call){
    .send = job->send,
    .recv = job->recv,
    .residual = job->residual,
    .message_out = job->message_out,
    .message_in = job->message_in,
    .state = job->state,
    .counts = counts,
    .seed = job->seed,
    .n = shape->n,
    .message_bytes = job->layout.message_bytes,
    .scales_at = parts.scales,
    .codes_at = parts.codes,
    .residual_bytes = tagc_residual_shard_bytes(shape),
    .residual_at = tagc_residual_scale_bytes(shape),
    .blocks = (uint32_t)((shape->n + TAGC_DENSE_BLOCK - 1) / TAGC_DENSE_BLOCK),
    .capacity = (uint32_t)tagc_exceptions_capacity(shape->n),
    .list_bytes = (uint32_t)tagc_exceptions_bytes(shape->n),
    .rank = (uint32_t)job->rank,
    .nranks = (uint32_t)shape->nranks,
    .dtype = shape->dtype,
    .storage = job->residual ? shape->residual : TAGC_STORAGE_NONE,
    .scale = job->scale,
    .divisor = job->divisor,
    .residual_empty = job->residual_empty,
    .stochastic = job->stochastic,
  };
}

static int launch(const struct tagc_dense_launcher *launcher, enum tagc_dense_kernel kernel, struct grid grid,
                  struct tagc_dense_call *call, void *stream)
{
  void *parameters[] = { call };
  return launcher->launch(launcher->function[kernel], grid.x, grid.y, 1, TAGC_DENSE_CUDA_THREADS, 1, 1, 0, stream,
                          parameters, NULL);
}

int tagc_dense_cuda_encode(const struct tagc_dense_launcher *launcher, const struct tagc_codec *codec,
                           const struct tagc_job *job, struct tagc_dense_counts *counts, void *stream)
{
  const struct tagc_dense_format *format = format_of(codec);
  struct tagc_dense_call call = call_of(format, job, counts);
  const struct grid clear = grid_of(launcher, groups_for(call.list_bytes, CLEARED_BYTES), call.nranks);
  const struct grid encode = grid_of(launcher, groups_for(call.blocks, WARPS), call.nranks);
  const struct grid close = grid_of(launcher, call.nranks - 1, 1);
  call.groups = encode.x * encode.y;
  int error = launch(launcher, tagc_dense_open_kernel, clear, &call, stream);
  if (!error)
    error = launch(launcher, tagc_dense_encode_bf16_kernel + format->codec, encode, &call, stream);
  if (!error)
    error = launch(launcher, tagc_dense_close_kernel, close, &call, stream);
  return error;
}

int tagc_dense_cuda_decode(const struct tagc_dense_launcher *launcher, const struct tagc_codec *codec,
                           const struct tagc_job *job, struct tagc_dense_counts *counts, void *stream)
{
  const struct tagc_dense_format *format = format_of(codec);
  struct tagc_dense_call call = call_of(format, job, counts);
  const struct grid decode = grid_of(launcher, groups_for(call.blocks, WARPS), 1);
  const int error = launch(launcher, tagc_dense_check_kernel, (struct grid){ 1, 1 }, &call, stream);
  return error ? error : launch(launcher, tagc_dense_decode_bf16_kernel + format->codec, decode, &call, stream);
}
