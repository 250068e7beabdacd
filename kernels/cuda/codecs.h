/* SPDX-License-Identifier: BSD-3-Clause
 * The codecs that run on GPUs: messages, residuals and results are those of the host, bit for bit.
 *
 * Functions take a job as call.h describes it, enqueue the work of the codec's function of that name on `stream`, and
 * return the driver's error, or 0.
 */
#ifndef KERNELS_CUDA_CODECS_H
#define KERNELS_CUDA_CODECS_H

#include "kernels/codec/cost.h"
#include "kernels/cuda/call.h"

typedef int tagc_cuda_step(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                           const struct tagc_job *job, struct tagc_counts *counts, void *stream);

struct tagc_cuda_codec {
  const struct tagc_codec *codec;
  /* codec->layout() with the state that the kernels need. */
  bool (*layout)(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);
  tagc_cuda_step *measure; /* NULL: the codec has none */
  tagc_cuda_step *prepare; /* NULL: nothing to prepare */
  tagc_cuda_step *encode, *decode;
  bool ends; /* its decode obeys job->ends */
  struct tagc_gpu_work work;
};

/* NULL if the codec does not run on GPUs. */
const struct tagc_cuda_codec *tagc_cuda_codec_of(const struct tagc_codec *codec);

/* The cost of a call on a GPU. False if the codec does not run this shape. Pure. */
bool tagc_cuda_codec_cost(const struct tagc_codec *codec, const struct tagc_shape *shape,
                          const struct tagc_gpu_rates *rates, struct tagc_gpu_cost *out);

#endif
