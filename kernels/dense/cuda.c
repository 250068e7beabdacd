/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of dense.cu: see cuda.h.
 */
#include "kernels/dense/cuda.h"

#include "kernels/codec/codecs.h"
#include "kernels/dense/dense.h"

static const struct tagc_dense_format *format_of(const struct tagc_codec *codec) {
  static const struct tagc_codec *const codecs[TAGC_DENSE_CODECS] = {
    [TAGC_DENSE_BF16] = &tagc_codec_bf16, [TAGC_DENSE_Q8] = &tagc_codec_q8, [TAGC_DENSE_Q4] = &tagc_codec_q4,
    [TAGC_DENSE_Q3] = &tagc_codec_q3,     [TAGC_DENSE_Q2] = &tagc_codec_q2,
  };
  for (int i = 0; i < TAGC_DENSE_CODECS; i++)
    if (codecs[i] == codec)
      return &tagc_dense_formats[i];
  return NULL;
}

bool tagc_dense_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out) {
  if (!codec->layout(shape, out))
    return false;
  out->state_bytes = tagc_pad16(sizeof(struct tagc_dense_state));
  return true;
}

static struct tagc_dense_call dense_call_of(const struct tagc_dense_format *format, const struct tagc_job *job,
                                            struct tagc_counts *counts) {
  const struct tagc_dense_parts parts = tagc_dense_parts_of(format, job->shape.n);
  struct tagc_dense_call dense = {
    .call = tagc_cuda_call_of(job, counts),
    .scales_at = parts.scales,
    .codes_at = parts.codes,
    .stochastic = job->stochastic,
  };
  dense.call.norms = ((struct tagc_dense_state *)job->state)->norms;
  dense.call.selected = (uint64_t)(job->shape.nranks - 1) * job->shape.n;
  return dense;
}

int tagc_dense_cuda_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                           const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  const struct tagc_dense_format *format = format_of(codec);
  struct tagc_dense_call dense = dense_call_of(format, job, counts);
  const struct tagc_cuda_grid grid = tagc_cuda_grid_of_blocks(launcher, &dense.call, dense.call.nranks);
  dense.call.groups = grid.x * grid.y;
  return tagc_cuda_launch(launcher, tagc_dense_encode_bf16_kernel + format->codec, grid, &dense, stream);
}

int tagc_dense_cuda_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                           const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  const struct tagc_dense_format *format = format_of(codec);
  const struct tagc_dense_call dense = dense_call_of(format, job, counts);
  const struct tagc_cuda_grid grid = tagc_cuda_grid_of_blocks(launcher, &dense.call, 1);
  return tagc_cuda_launch(launcher, tagc_dense_decode_bf16_kernel + format->codec, grid, &dense, stream);
}
