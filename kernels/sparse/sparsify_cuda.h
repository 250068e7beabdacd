/* SPDX-License-Identifier: BSD-3-Clause
 * Choosing the largest values of the foreign shards on a GPU: the choice of sparsify.h, to the bit.
 *
 * How        Six launches:
 *              begin        empties the lists of exceptions. Guesses from a sample between which magnitudes the
 *                           threshold of each foreign shard is. Looks for exceptions in the own shard.
 *              scan         reads every element of g and e once: exponents, exceptions, a bit for each value above, and
 *                           one for each value between these magnitudes (a candidate), which it counts by fine bin. The
 *                           last group of a shard then knows the boundary bin of each stripe.
 *              coarse, fine the long way, if the guess was bad; else they end at once.
 *              mark         looks at the candidates again (the long way: at all values): bits for those above the
 *                           boundary bin, and apart from them for those in it.
 *              fill         takes as many of the latter as fit, in order of place.
 *            Then each codec reads g and e once more, with the bitmap.
 * Tiles      Lines of a stripe that one group takes: ranks in the boundary bin are counted by tile.
 * Order      Nothing depends on the order in which groups run, and none waits for another.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_CUDA_H
#define KERNELS_SPARSE_SPARSIFY_CUDA_H

#include "kernels/cuda/call.h"
#include "kernels/sparse/sparsify_bits.h"

/* A foreign shard; zero when choosing begins. */
struct tagc_choose_shard {
  double left, chosen; /* squared norms, by the codec: of values that stay, before rounding, and of chosen ones */
  uint32_t full;       /* some stripe has as many values as fit */
  uint32_t arrived;    /* groups that have added their norms */
  uint32_t unused[2];
};

/* The input and output of a choice. Foreign shards are numbered by place: in the order of their owners. */
struct tagc_choose_call {
  struct tagc_cuda_call call;
  struct tagc_grid grid;
  uint8_t *exponents; /* exponent_bytes a shard, the own one included; NULL: none */
  uint64_t exponent_bytes;
  uint32_t *bitmap;      /* of shard 0; stripe_lines words a stripe, a word a line */
  uint64_t bitmap_words; /* from shard to shard, the own one included (untouched) */
  struct tagc_choose_shard *shards;
  uint32_t *counts; /* by place and stripe: chosen values */
  void *memory;     /* tagc_choose_bytes() between the kernels */
};

/* -- what the kernels get ------------------------------------------------------------------------------------------ */

enum {
  TAGC_CHOOSE_TILE = 1024,   /* lines */
  TAGC_CHOOSE_SPAN = 64,     /* tiles whose counts are added up */
  TAGC_CHOOSE_SAMPLED = 512, /* most lines of a shard in a guess's sample */
};

/* A stripe of a foreign shard. */
struct tagc_choose_part {
  struct tagc_sparsify_choice choice;
  uint32_t long_way;
  uint32_t coarse; /* the long way: the boundary's coarse bin, or TAGC_SPARSIFY_NO_BIN */
  uint32_t unused;
};

/* A guess's sample: every step-th line from step / 2 on; the threshold should lie between these counts of values. */
struct tagc_choose_sampling {
  uint32_t step, lines;
  uint32_t fewest, most;
};

/* The guess for a foreign shard: magnitudes, as bits. */
struct tagc_choose_guess {
  uint32_t least; /* smaller ones are not chosen */
  uint32_t sure;  /* this and larger ones are; at most TAGC_SPARSIFY_NEAR - 1 fine bins above */
};

/* Parts are numbered by place and stripe. */
struct tagc_choosing {
  struct tagc_choose_call of;
  struct tagc_choose_part *parts;
  uint32_t *histograms; /* TAGC_SPARSIFY_NEAR bins a part, the last for sure ones; long way: coarse, then fine ones */
  struct tagc_choose_sampling sample; /* of each shard */
  struct tagc_choose_guess *guesses;  /* by place */
  uint64_t cleared;                   /* bytes from `histograms` on that are zero when choosing begins */
  uint32_t *arrived;                  /* three a place: groups that have finished scan, coarse, fine */
  uint32_t *long_ways;                /* one word: not 0 if any part goes the long way */
  uint32_t *edges;       /* bits of candidates, then of the boundary bin: tiles * TAGC_CHOOSE_TILE words a part */
  uint32_t *edge_counts; /* `tiles` a part */
  uint32_t *edge_sums;   /* `spans` a part: sums over TAGC_CHOOSE_SPAN tiles each; zero when choosing begins */
  uint32_t *own;         /* by group of `begin`: 1 if it saw an exception in the own shard */
  uint32_t own_groups;
  uint32_t tiles, spans; /* of a stripe */
  uint32_t places;
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* Pure. */
size_t tagc_choose_bytes(const struct tagc_grid *grid, uint32_t places);

/* Opens the call (cuda/exceptions.cuh), and all steps up to the bitmap. Adds to call.state->selected. */
int tagc_choose_enqueue(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose, void *stream);

/* After the codec has added to the norms: closes the call, with TAGC_ANYWHERE_SURPLUS by the rule of
 * tagc_sparsify_surplus(). Near the limit it may differ from the host's, which sums in another order. */
int tagc_choose_close(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose, void *stream);

#endif
