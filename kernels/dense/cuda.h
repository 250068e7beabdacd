/* SPDX-License-Identifier: BSD-3-Clause
 * The dense codecs on a GPU: the work of dense.cu, and its launch from the host. Messages, residuals and results are
 * those of dense.h, bit for bit; calls are those of cuda/call.h.
 */
#ifndef KERNELS_DENSE_CUDA_H
#define KERNELS_DENSE_CUDA_H

#include "kernels/cuda/codecs.h"

/* The parameter of the kernels. */
struct tagc_dense_call {
  struct tagc_cuda_call call;
  uint64_t scales_at, codes_at; /* offsets in a message */
  uint32_t stochastic, unused;
};

/* The job's state. */
struct tagc_dense_state {
  struct tagc_cuda_state state;
  double norms[TAGC_CUDA_GROUPS];
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* See cuda/codecs.h. */
bool tagc_dense_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);
tagc_cuda_step tagc_dense_cuda_encode, tagc_dense_cuda_decode;

#endif
