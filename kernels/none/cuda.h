/* SPDX-License-Identifier: BSD-3-Clause
 * The codec that compresses nothing on a GPU: the control that shows the cost of the exchange, and the simplest example
 * of a codec there; and `precise`, with another decode. Encode and decode are one kernel each; in two levels three make
 * the messages, in prepare, and two decode them.
 */
#ifndef KERNELS_NONE_CUDA_H
#define KERNELS_NONE_CUDA_H

#include "kernels/cuda/codecs.h"

/* The job's state. */
struct tagc_none_state {
  struct tagc_cuda_state state;
  double norms[TAGC_CUDA_GROUPS];
};

/* The parameter of the kernels in two levels (levels.h). */
struct tagc_levels_call {
  struct tagc_cuda_call call;
  const void *values; /* of hosts whose messages hold no sums, if any */
  uint8_t *flags;     /* the job's exponents */
  uint32_t *entries;  /* of each block of each shard; later, of the blocks before it */
  uint32_t local, unused;
};

/* See cuda/codecs.h. */
bool tagc_none_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);
bool tagc_precise_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);
tagc_cuda_step tagc_none_cuda_encode, tagc_none_cuda_decode;
tagc_cuda_step tagc_precise_cuda_prepare, tagc_precise_cuda_encode, tagc_precise_cuda_decode;

#endif
