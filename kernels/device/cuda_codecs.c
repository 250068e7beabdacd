/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/codecs.h"

#include "kernels/codec/codecs.h"
#include "kernels/dense/cuda.h"
#include "kernels/lhc/cuda.h"
#include "kernels/none/cuda.h"
#include "kernels/sparse/cuda.h"

/* The last members: ends; passes, launches, rounds; {element, value} ops to encode, and to decode (cost.h). */
static const struct tagc_cuda_codec codecs[] = {
  {&tagc_codec_none,
   tagc_none_cuda_layout,
   NULL,
   NULL,
   tagc_none_cuda_encode,
   tagc_none_cuda_decode,
   true,
   {1, 2, 0, {30, 0}, {18, 0}}},
  {&tagc_codec_precise,
   tagc_precise_cuda_layout,
   NULL,
   tagc_precise_cuda_prepare,
   tagc_precise_cuda_encode,
   tagc_precise_cuda_decode,
   true,
   {1, 2, 0, {30, 0}, {40, 0}}},
  {&tagc_codec_bf16,
   tagc_dense_cuda_layout,
   NULL,
   NULL,
   tagc_dense_cuda_encode,
   tagc_dense_cuda_decode,
   true,
   {1, 2, 0, {47, 0}, {18, 0}}},
  {&tagc_codec_q8,
   tagc_dense_cuda_layout,
   NULL,
   NULL,
   tagc_dense_cuda_encode,
   tagc_dense_cuda_decode,
   true,
   {1, 2, 0, {50, 0}, {18, 0}}},
  {&tagc_codec_q4,
   tagc_dense_cuda_layout,
   NULL,
   NULL,
   tagc_dense_cuda_encode,
   tagc_dense_cuda_decode,
   true,
   {1, 2, 0, {73, 0}, {25, 0}}},
  {&tagc_codec_q3,
   tagc_dense_cuda_layout,
   NULL,
   NULL,
   tagc_dense_cuda_encode,
   tagc_dense_cuda_decode,
   true,
   {1, 2, 0, {80, 0}, {21, 0}}},
  {&tagc_codec_q2,
   tagc_dense_cuda_layout,
   NULL,
   NULL,
   tagc_dense_cuda_encode,
   tagc_dense_cuda_decode,
   true,
   {1, 2, 0, {88, 0}, {28, 0}}},
  {&tagc_codec_lhc,
   tagc_lhc_cuda_layout,
   tagc_lhc_cuda_measure,
   tagc_lhc_cuda_prepare,
   tagc_lhc_cuda_encode,
   tagc_lhc_cuda_decode,
   false,
   {2, 17, 76, {240, 1350}, {75, 4400}}},
  {&tagc_codec_sparse,
   tagc_sparse_cuda_layout,
   NULL,
   NULL,
   tagc_sparse_cuda_encode,
   tagc_sparse_cuda_decode,
   false,
   {2, 13, 40, {300, 1750}, {17, 80}}},
};

const struct tagc_cuda_codec *tagc_cuda_codec_of(const struct tagc_codec *codec) {
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
    if (codecs[i].codec == codec)
      return &codecs[i];
  return NULL;
}

bool tagc_cuda_codec_cost(const struct tagc_codec *codec, const struct tagc_shape *shape,
                          const struct tagc_gpu_rates *rates, struct tagc_gpu_cost *out) {
  const struct tagc_cuda_codec *its = tagc_cuda_codec_of(codec);
  struct tagc_layout layout;
  if (!its || !its->layout(codec, shape, &layout))
    return false;
  *out = tagc_layout_gpu_cost(shape, &layout, &its->work, rates);
  if (shape->local > 0) /* precise: three more kernels, and the host waits for the second half of the call */
    out->call_ns += 3 * TAGC_GPU_LAUNCH_NS + TAGC_GPU_WAIT_NS;
  return true;
}
