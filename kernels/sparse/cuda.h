/* SPDX-License-Identifier: BSD-3-Clause
 * Lists of values by block on a GPU, with the bytes of sparse.h, and the codec `sparse`, which sends them.
 *
 * Out      count: the values of each block, from the bitmap, and those before each tile. pack: reads every element of g
 *          and e once more, and writes the values, the residual, its norm.
 * In       starts: the values before each tile, of each sender. sum: the results.
 * Launches encode 9 (six to choose, two to pack, one to close), decode 3.
 */
#ifndef KERNELS_SPARSE_CUDA_H
#define KERNELS_SPARSE_CUDA_H

#include "kernels/cuda/codecs.h"
#include "kernels/sparse/sparsify_cuda.h"

struct tagc_sparse_message;

enum {
  TAGC_LISTS_TILE = 16,                   /* blocks, taken by a warp */
  TAGC_LISTS_SEGMENT = TAGC_CUDA_THREADS, /* tiles: starts[] count from the start of a segment */
};

/* The parameter of the kernels. */
struct tagc_lists_call {
  struct tagc_choose_call of;                /* of one stripe; In uses `call` alone */
  uint64_t counts_at, offsets_at, values_at; /* offsets in a message */
  uint32_t *starts; /* `tiles` by place: of foreign shards, or of senders (if over 32: sum moves them on) */
  uint32_t *totals; /* `segments` by place */
  double *norms;    /* by place and group: of the values that stay, and of the chosen ones */
  uint32_t tiles, segments;
  uint32_t capacity, exact; /* as in tagc_sparse_message */
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* The bytes of `memory` below. Pure. */
size_t tagc_lists_bytes(uint64_t n, uint32_t nranks);

/* After tagc_choose_enqueue() with one stripe a shard: completes message_out after the exceptions, writes the residual,
 * adds to the norms of the shards, and subtracts values that go back from state->selected. Needs call.norms; for the
 * close of the lists call.groups is tagc_lists_groups(). */
int tagc_lists_pack(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose,
                    const struct tagc_sparse_message *message, void *memory, void *stream);
uint32_t tagc_lists_groups(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call);

/* After tagc_cuda_check(): writes the results. */
int tagc_lists_sum(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call,
                   const struct tagc_sparse_message *message, void *memory, void *stream);

/* See cuda/codecs.h. */
bool tagc_sparse_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);
tagc_cuda_step tagc_sparse_cuda_encode, tagc_sparse_cuda_decode;

#endif
