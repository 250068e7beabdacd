/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` on a GPU: what lhc.cu computes, and how the host launches it. Exponents, sketches, messages,
 * residuals and results are those of codec.c, bit for bit; calls are those of cuda/call.h, choosing is
 * sparsify_cuda.h's.
 *
 * Launches   prepare 7 (clear, six to choose), encode 2 (send, close), decode 4 (check, open, recover, result),
 *            whatever the size; decode needs nothing of its own state that prepare left. Small shards, which have lists
 *            in place of sketches (cuda.h): 6, 3 and 3.
 * send       Reads g and e a second time, with the bitmap: 3 or 4 atomic additions for a chosen value, which the
 *            second-level cache performs (a stripe's counters have 260 KB at most); the residual is written once, what
 *            quantising leaves over included.
 * recover    One launch for all rounds and all stripes. Its groups, of 1,024 threads, are shared out to the stripes,
 *            `parts` each, 2,048 values a group or more, and those of a stripe meet after every step (4 steps, then a
 *            round each, 20 to 23 as a rule), which also adds up what they have done, so that a round that finds
 *            nothing to do next ends the stripe. Groups that meet must run at once: a cooperative launch, which waits
 *            until all of it has room, and never gets it where NCCL's kernels keep it: so a quarter of what fits at
 *            most (parts_of). Where that is less than two groups a stripe, or the driver refuses it, a stripe has one
 *            group, and an ordinary launch does. A round costs its latencies (two loads one after the other, three
 *            atomic operations, the meeting), and what is due in it: an element is looked at in one round alone,
 *            because who finds it due first puts it into a queue.
 * Rounds     An element that is alone in a cell becomes due in the next round: `due` holds the least (round << 32 |
 *            value) that was ever found for it, by an atomic minimum. A round takes the elements that are due in
 *            exactly that round, each by its own thread; so none is taken twice, though several of its cells may be
 *            single. The host takes in round r + 1 what is not taken yet and was alone in a cell at some moment of
 *            round r, from the cells that were reached in it. Here, too: a cell is reached by each subtraction once,
 *            whose result says whether one is left. In another order of subtractions another element may be the last
 *            one for a moment, but only one that is taken in round r itself: it is due in r already, by the meeting
 *            before, and the minimum stays. A cell that ends the round with one element says so in any order, with the
 *            same word. So after each round the same elements are taken, the cells are equal as sums are, and so is
 *            what estimates are made of, be it after the last round. Where sketches do not belong to their bitmaps
 *            (which no sender of ours makes) an element's cells may disagree about its value: the host takes the first
 *            one it meets, this code the least; the elements are the same. Who finds nothing said about an element
 *            before puts it into the queue: so each is there once at most, those of a round are neighbours, and a
 *            stripe's capacity is room enough whatever arrives.
 * Guards     Masks beyond a stripe's capacity are cut as the host does it, by one warp; so indices of elements are
 *            smaller than the capacity, but for sums of 256 and more words in one cell, which are looked at. Exponents
 *            out of range have a unit of zero.
 */
#ifndef KERNELS_LHC_CUDA_H
#define KERNELS_LHC_CUDA_H

#include "kernels/lhc/codec.h"
#include "kernels/cuda/codecs.h"
#include "kernels/sparse/cuda.h"

/* Where the groups of a stripe meet, each once a call. */
enum {
  TAGC_LHC_COUNTED, /* values of the support, by warp */
  TAGC_LHC_LISTED,
  TAGC_LHC_BUILT,
  TAGC_LHC_FOUND,                                     /* those that are alone at first */
  TAGC_LHC_ROUND,                                     /* the first */
  TAGC_LHC_QUEUED = TAGC_LHC_ROUND + TAGC_LHC_ROUNDS, /* no meeting: elements in the queue */
  TAGC_LHC_WORDS,
};

enum {
  TAGC_LHC_GROUP_VALUES = 2048
}; /* of the support, a group: so many that few groups meet, and few wait in a thread */

/* A line of the own shard: which of its elements are in the support, and where the sum of the first is. */
struct tagc_lhc_line {
  uint32_t mask, first;
};

/* The parameter of the kernels. */
struct tagc_lhc_call {
  struct tagc_cuda_call call;
  struct tagc_lhc_geometry geo;
  uint8_t *exponents;
  int32_t *sketch_out, *sketch_in;
  uint64_t exponent_bytes, sketch_count, bitmap_at; /* of a shard; in a message */
  /* send */
  struct tagc_choose_shard *shards;
  double *norms;     /* by place and group: of what stays, and of what was chosen */
  uint32_t *arrived; /* by place: groups that have added theirs; zero at first */
  /* recover; all of one stripe after the other */
  unsigned long long *meetings; /* TAGC_LHC_WORDS: groups that have come, and << 32 the sum of what they say */
  unsigned long long *cells;    /* hashes * part_cells: as in receive.inc.c */
  unsigned long long *due;      /* union_capacity */
  uint32_t *elements;           /* union_capacity: ids, of which values take the place */
  uint32_t *queue;  /* union_capacity: indices of elements that are due, each once, one round after the other */
  uint32_t *counts; /* most_parts * 32: of the lines of a warp */
  struct tagc_lhc_line *lines; /* of the shard */
  uint32_t parts, most_parts;  /* groups of a stripe */
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* See cuda/codecs.h. */
bool tagc_lhc_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);
tagc_cuda_step tagc_lhc_cuda_prepare, tagc_lhc_cuda_encode, tagc_lhc_cuda_decode;

#endif
