/* SPDX-License-Identifier: BSD-3-Clause
 * Choosing the largest values of the foreign shards on a GPU: the choice of sparsify.h, to the bit.
 *
 * How        sample: a guess of the threshold of each foreign shard; scan: every element of g and e once: exponents, how many
 *            there are in each fine bin above the guess, which they are (candidates, in any order), and exceptions, to their
 *            lists; choose: the boundary bin of each chunk; count: where the guess was bad, coarse and fine bins of all
 *            elements (kernels that end at once otherwise); mark: bits of what is above the boundary bin, and apart from them of
 *            what is in it; fill: of these, as many as fit, in order of place. Then each codec reads g and e once more, with
 *            the bitmap.
 * Order      Nothing depends on the order in which groups run.
 */
#ifndef KERNELS_SPARSIFY_CUDA_H
#define KERNELS_SPARSIFY_CUDA_H

#include "kernels/cuda_call.h"
#include "kernels/sparsify.h"

/* Of a foreign shard, zero when choosing begins. */
struct tagc_choose_shard {
  double left, chosen;             /* squared norms, added to by the codec: of what stays, but for what rounding leaves over, and of
                                    * what was chosen */
  uint32_t full;                   /* some chunk has as many values as fit */
  uint32_t unused[3];
};

/* What a call chooses from, and what it leaves. Foreign shards are numbered by place: in the order of their owners, without the
 * own one. */
struct tagc_choose_call {
  struct tagc_cuda_call call;
  struct tagc_grid grid;
  uint8_t *exponents;              /* exponent_bytes a shard, the own one included; NULL: none */
  uint64_t exponent_bytes;
  uint32_t *bitmap;                /* of shard 0; chunk_lines words a chunk, a word a line */
  uint64_t bitmap_words;           /* from shard to shard, the own one included (its part is not touched) */
  struct tagc_choose_shard *shards;
  uint32_t *counts;                /* by place and chunk: values that were chosen */
  void *memory;                    /* for what is between: tagc_choose_bytes() */
};

/* Pure. */
size_t tagc_choose_bytes(const struct tagc_grid *grid, uint32_t places);

/* After tagc_cuda_open(): everything up to the bitmap. Adds to call.state->selected. */
int tagc_choose_enqueue(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose, void *stream);

/* When the codec has added to the norms, before tagc_cuda_close(): TAGC_ANYWHERE_SURPLUS, by the rule of
 * tagc_sparsify_surplus(). Where the sums are near the limit, it may differ from the host's, whose order is another. */
int tagc_choose_surplus(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose, void *stream);

#endif
