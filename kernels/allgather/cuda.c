/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of allgather.cu: see cuda.h.
 */
#include "kernels/allgather/cuda.h"

#include "kernels/codec/assign_buffer.h"

enum { WARPS = TAGC_CUDA_THREADS / 32, CLEARED_BYTES = 16 * TAGC_CUDA_THREADS };

static struct tagc_cuda_grid grid_of(const struct tagc_cuda_launcher *launcher,
                                     const struct tagc_allgather_call *gather, uint32_t rows) {
  return tagc_cuda_grid_of_blocks(launcher, &gather->call, rows);
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

static uint32_t segments_of(uint64_t blocks) {
  return (uint32_t)((blocks + TAGC_ALLGATHER_SEGMENT - 1) / TAGC_ALLGATHER_SEGMENT);
}

/* Divides a job's state; returns its bytes. */
static size_t assign_gpu_buffers(struct tagc_allgather_call *gather, const struct tagc_allgather_codec *codec,
                                 const struct tagc_allgather_shape *shape, void *base) {
  size_t used = 0;
  const bool counts = codec == &tagc_allgather_lossless || codec == &tagc_allgather_support;
  gather->segments = counts ? segments_of(tagc_allgather_blocks(shape->n)) : 0;
  gather->state = tagc_assign_buffer(base, &used, sizeof *gather->state);
  gather->totals = tagc_assign_buffer(base, &used, gather->segments * sizeof *gather->totals);
  if (codec == &tagc_allgather_exact)
    tagc_exact_assign_gpu_buffers(gather, shape, base, &used);
  if (codec == &tagc_allgather_support)
    tagc_support_assign_gpu_buffers(gather, shape, base, &used);
  return used;
}

bool tagc_allgather_cuda_layout(const struct tagc_allgather_codec *codec, const struct tagc_allgather_shape *shape,
                                struct tagc_allgather_layout *out) {
  struct tagc_allgather_call gather;
  if (!tagc_allgather_cuda_of(codec) || !codec->layout(shape, out))
    return false;
  out->state_bytes = assign_gpu_buffers(&gather, codec, shape, NULL);
  if (codec == &tagc_allgather_exact)
    out->tables_bytes = tagc_exact_gpu_tables_bytes(shape);
  return true;
}

static void place_parts(struct tagc_allgather_call *gather, const struct tagc_allgather_codec *codec,
                        const struct tagc_allgather_job *job) {
  const struct tagc_q8_gather q8 = tagc_q8_gather_of(job->shape.n);
  const struct tagc_delta_gather delta = tagc_delta_gather_of(job->shape.n);
  const struct tagc_lossless_gather lossless = tagc_lossless_gather_of(job->shape.n, job->shape.dtype);
  gather->padding[0] = gather->padding[1] = job->layout.payload_bytes - 16; /* bf16: the end of the values */
  gather->codes = sizeof(struct tagc_allgather_header);
  if (codec == &tagc_allgather_q8) {
    gather->exceptions = q8.exceptions;
    gather->scales = q8.scales;
    gather->codes = q8.codes;
    gather->padding[0] = gather->padding[1] = q8.codes - 16;
    gather->call.capacity = (uint32_t)tagc_exceptions_capacity(job->shape.n);
    gather->call.list_bytes = (uint32_t)tagc_exceptions_bytes(job->shape.n);
  } else if (codec == &tagc_allgather_delta) {
    gather->scales = delta.scales;
    gather->codes = delta.codes;
    gather->padding[0] = gather->padding[1] = delta.codes - 16;
  } else if (codec == &tagc_allgather_lossless) {
    gather->starts = lossless.starts;
    gather->escaped = lossless.escaped;
    gather->bases = lossless.bases;
    gather->blocks = lossless.blocks;
    gather->lows = lossless.lows;
    gather->escapes = lossless.escapes;
    gather->padding[0] = lossless.escaped - 16;
    gather->padding[1] = lossless.blocks - 16;
  } else if (codec == &tagc_allgather_exact) {
    tagc_exact_place_parts(gather, job);
  } else if (codec == &tagc_allgather_support) {
    gather->kinds = tagc_support_parts_of(job->shape.n).kinds;
    gather->values = tagc_support_parts_of(job->shape.n).values;
  }
}

struct tagc_allgather_call tagc_allgather_call_of(const struct tagc_allgather_codec *codec,
                                                  const struct tagc_allgather_job *job, struct tagc_counts *counts) {
  struct tagc_allgather_call gather = {
    .call =
      {
        .send = job->send,
        .recv = job->recv,
        .message_out = job->payloads,
        .message_in = job->payloads,
        .counts = counts,
        .seed = job->seed,
        .n = job->shape.n,
        .stride = job->stride ? job->stride : job->shape.n,
        .message_bytes = job->layout.payload_bytes,
        .blocks = (uint32_t)tagc_allgather_blocks(job->shape.n),
        .rank = (uint32_t)job->rank,
        .nranks = (uint32_t)job->shape.nranks,
        .dtype = job->shape.dtype,
        .scale = 1,
        .divisor = 1,
      },
    .reference = job->reference,
    .keep_own = job->keep_own,
  };
  assign_gpu_buffers(&gather, codec, &job->shape, job->state);
  place_parts(&gather, codec, job);
  return gather;
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

static int open_payload(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                        void *stream) {
  const uint64_t groups = ((uint64_t)gather->call.list_bytes + CLEARED_BYTES) / CLEARED_BYTES;
  return tagc_cuda_launch(launcher, tagc_allgather_open_kernel, tagc_cuda_grid_for(launcher, groups, 1), gather,
                          stream);
}

/* Encodes this rank's shard. */
static int launch_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                         void *stream, enum tagc_cuda_kernel kernel) {
  const int error = open_payload(launcher, gather, stream);
  return error ? error : tagc_cuda_launch(launcher, kernel, grid_of(launcher, gather, 1), gather, stream);
}

/* Decodes all shards, by a kernel that does nothing if one was refused. */
static int decode_shards(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                         void *stream, enum tagc_cuda_kernel kernel) {
  const int error =
    tagc_cuda_launch(launcher, tagc_allgather_look_kernel, (struct tagc_cuda_grid){1, 1}, gather, stream);
  return error ? error
               : tagc_cuda_launch(launcher, kernel, grid_of(launcher, gather, gather->call.nranks), gather, stream);
}

static int launch_bf16_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                              void *stream) {
  return launch_encode(launcher, gather, stream, tagc_allgather_encode_bf16_kernel);
}

/* The same for codecs that refuse nothing. */
static int decode_all(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather, void *stream,
                      enum tagc_cuda_kernel kernel) {
  return tagc_cuda_launch(launcher, kernel, grid_of(launcher, gather, gather->call.nranks), gather, stream);
}

static int launch_bf16_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                              void *stream) {
  return decode_all(launcher, gather, stream, tagc_allgather_decode_bf16_kernel);
}

static int launch_q8_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                            void *stream) {
  const int error = launch_encode(launcher, gather, stream, tagc_allgather_encode_q8_kernel);
  return error ? error
               : tagc_cuda_launch(launcher, tagc_allgather_list_kernel, (struct tagc_cuda_grid){1, 1}, gather, stream);
}

static int launch_q8_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                            void *stream) {
  const int error = decode_all(launcher, gather, stream, tagc_allgather_decode_q8_kernel);
  const uint64_t groups = (gather->call.nranks + WARPS - 1) / WARPS;
  return error ? error
               : tagc_cuda_launch(launcher, tagc_allgather_put_kernel, tagc_cuda_grid_for(launcher, groups, 1), gather,
                                  stream);
}

static int launch_lossless_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                                  void *stream) {
  const struct tagc_cuda_grid grid = tagc_cuda_grid_for(launcher, gather->segments, 1);
  int error = launch_encode(launcher, gather, stream, tagc_allgather_encode_lossless_kernel);
  if (!error)
    error = tagc_cuda_launch(launcher, tagc_allgather_starts_kernel, grid, gather, stream);
  return error ? error : tagc_cuda_launch(launcher, tagc_allgather_escapes_kernel, grid, gather, stream);
}

static int launch_lossless_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                                  void *stream) {
  return decode_shards(launcher, gather, stream, tagc_allgather_decode_lossless_kernel);
}

static int launch_delta_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                               void *stream) {
  const int error = launch_encode(launcher, gather, stream, tagc_allgather_encode_delta_kernel);
  return error ? error
               : tagc_cuda_launch(launcher, tagc_allgather_weigh_kernel, (struct tagc_cuda_grid){1, 1}, gather, stream);
}

static int launch_delta_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                               void *stream) {
  return decode_shards(launcher, gather, stream, tagc_allgather_decode_delta_kernel);
}

const struct tagc_allgather_cuda *tagc_allgather_cuda_of(const struct tagc_allgather_codec *codec) {
  static const struct tagc_allgather_cuda codecs[] = {
    {&tagc_allgather_bf16, launch_bf16_encode, launch_bf16_decode, NULL, 0, 0},
    {&tagc_allgather_q8, launch_q8_encode, launch_q8_decode, NULL, 0, 0},
    {&tagc_allgather_lossless, launch_lossless_encode, launch_lossless_decode, NULL, 0, 0},
    {&tagc_allgather_delta, launch_delta_encode, launch_delta_decode, NULL, 0, 0},
    {&tagc_allgather_exact, tagc_exact_cuda_encode, tagc_exact_cuda_decode, tagc_exact_cuda_refer, 310, 180},
    {&tagc_allgather_support, tagc_support_cuda_encode, tagc_support_cuda_decode, NULL, 0, 0},
  };
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
    if (codecs[i].codec == codec)
      return &codecs[i];
  return NULL;
}
