/* SPDX-License-Identifier: BSD-3-Clause
 * Choosing the largest values of the foreign shards on a GPU: the choice of sparsify.h, to the bit.
 *
 * How        begin: empty lists of exceptions; between which magnitudes the threshold of each foreign shard is, as a
 *            guess from a sample; whether the own shard has exceptions. scan: every element of g and e once: exponents,
 *            exceptions, a bit for each value above, and one for each between these (candidates), of which there are so
 *            many in each fine bin. The last group of a shard knows then the boundary bin of each stripe; coarse and
 *            fine: where the guess was bad, the long way (kernels that end at once otherwise). mark: looks at the
 *            candidates again (the long way: at all): bits of what is above the boundary bin, and apart from them of
 *            what is in it; fill: of these, as many as fit, in order of place. Then each codec reads g and e once more,
 *            with the bitmap. Six launches.
 * Tiles      Lines of a stripe that one group takes: ranks in the boundary bin are counted by tile.
 * Order      Nothing depends on the order in which groups run, and none waits for another.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_CUDA_H
#define KERNELS_SPARSE_SPARSIFY_CUDA_H

#include "kernels/cuda/call.h"
#include "kernels/sparse/sparsify_bits.h"

/* Of a foreign shard, zero when choosing begins. */
struct tagc_choose_shard {
  double left, chosen; /* squared norms, added to by the codec: of what stays, but for what rounding leaves over, and of
                        * what was chosen */
  uint32_t full;       /* some stripe has as many values as fit */
  uint32_t unused[3];
};

/* What a call chooses from, and what it leaves. Foreign shards are numbered by place: in the order of their owners,
 * without the own one. */
struct tagc_choose_call {
  struct tagc_cuda_call call;
  struct tagc_grid grid;
  uint8_t *exponents; /* exponent_bytes a shard, the own one included; NULL: none */
  uint64_t exponent_bytes;
  uint32_t *bitmap;      /* of shard 0; stripe_lines words a stripe, a word a line */
  uint64_t bitmap_words; /* from shard to shard, the own one included (its part is not touched) */
  struct tagc_choose_shard *shards;
  uint32_t *counts; /* by place and stripe: values that were chosen */
  void *memory;     /* for what is between: tagc_choose_bytes() */
};

/* -- what the kernels get ------------------------------------------------------------------------------------------ */

enum {
  TAGC_CHOOSE_TILE = 1024,   /* lines */
  TAGC_CHOOSE_SPAN = 64,     /* tiles whose counts are added up */
  TAGC_CHOOSE_SAMPLED = 512, /* lines of a shard that a guess is made from, at most */
};

/* Of a stripe of a foreign shard. */
struct tagc_choose_part {
  struct tagc_sparsify_choice choice;
  uint32_t long_way;
  uint32_t coarse; /* the long way: the coarse bin that the boundary is in, or TAGC_SPARSIFY_NO_BIN */
  uint32_t unused;
};

/* What a guess is made from: every step-th line from step / 2 on; and between which numbers of the sample's values the
 * threshold is to be. */
struct tagc_choose_sampling {
  uint32_t step, lines;
  uint32_t fewest, most;
};

/* Of a foreign shard: magnitudes, as bits. */
struct tagc_choose_guess {
  uint32_t least; /* smaller ones are not chosen */
  uint32_t sure;  /* these are, and larger ones; at most TAGC_SPARSIFY_NEAR - 1 fine bins above */
};

/* Parts are numbered by place and stripe. */
struct tagc_choosing {
  struct tagc_choose_call of;
  struct tagc_choose_part *parts;
  uint32_t *histograms; /* TAGC_SPARSIFY_NEAR bins a part, of which the last has what is sure; the long way: coarse
                         * bins, and behind them fine ones */
  struct tagc_choose_sampling sample; /* of each shard */
  struct tagc_choose_guess *guesses;  /* by place */
  uint64_t cleared;                   /* bytes from `histograms` on that are zero when choosing begins */
  uint32_t *arrived;                  /* three a place: groups that have done their part of scan, coarse, fine */
  uint32_t *long_ways;                /* one: whether any part goes the long way */
  uint32_t *edges;       /* bits of candidates, and then of what is in the boundary bin: tiles * TAGC_CHOOSE_TILE words
                          * a part */
  uint32_t *edge_counts; /* `tiles` a part */
  uint32_t *edge_sums;   /* `spans` a part: of the counts of TAGC_CHOOSE_SPAN tiles each; zero when choosing begins */
  uint32_t *own;         /* by group of the first kernel: whether it has seen an exception in the own shard */
  uint32_t own_groups;
  uint32_t tiles, spans; /* of a stripe */
  uint32_t places;
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* Pure. */
size_t tagc_choose_bytes(const struct tagc_grid *grid, uint32_t places);

/* tagc_cuda_open(), and everything up to the bitmap. Adds to call.state->selected. */
int tagc_choose_enqueue(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose, void *stream);

/* When the codec has added to the norms: tagc_cuda_close(), with TAGC_ANYWHERE_SURPLUS by the rule of
 * tagc_sparsify_surplus(). Where the sums are near the limit, it may differ from the host's, whose order is another. */
int tagc_choose_close(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose, void *stream);

#endif
