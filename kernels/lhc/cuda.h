/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` on a GPU: the work of lhc.cu, and its launch from the host. Exponents, sketches, messages, residuals
 * and results are those of codec.c, bit for bit; calls are those of cuda/call.h; sparsify_cuda.h chooses.
 *
 * Launches   prepare 7 (clear, six to choose), encode 2 (send, close), decode 4 (check, open, recover, result),
 *            whatever the size. Of its own state, decode needs nothing from prepare. Small shards have lists instead of
 *            sketches (sparse/cuda.h): 6, 3 and 3.
 * send       Reads g and e a second time, with the bitmap. A chosen value costs 3 or 4 atomic additions, which the
 *            second-level cache performs (a stripe's counters have 260 KB at most). The residual is written once, with
 *            the errors of quantising.
 * recover    One launch for all rounds and all stripes. Its groups, of 1,024 threads, are shared out to the stripes:
 *            `parts` each, 2,048 values a group or more. The groups of a stripe meet after every step (4 steps, then a
 *            round each, 20 to 23 as a rule). A meeting also adds up their work, so that a round that finds nothing to
 *            do next ends the stripe. Groups that meet must run at once: a cooperative launch. It waits until all of it
 *            has room, which NCCL's kernels may deny it forever, so it takes a quarter of what fits at most
 *            (groups_of_stripe()). If that is less than two groups a stripe, or the driver refuses, an ordinary launch
 *            has one group a stripe. A round costs its latencies (two loads one after the other, three atomic
 *            operations, the meeting), and its due elements. Each element is looked at in one round alone, because the
 *            first thread to find it due puts it into a queue.
 * Rounds     An element that is alone in a cell becomes due in the next round: `due` holds the least (round << 32 |
 *            value) ever found for it, by an atomic minimum. A round takes the elements that are due in exactly that
 *            round, each by its own thread. So none is taken twice, though several of its cells may be single. In round
 *            r + 1 the host takes the remaining elements that were alone in a cell at some moment of round r, from the
 *            cells that were reached in it. Here, too, each subtraction reaches a cell once, and its result shows
 *            whether one element is left. In another order of subtractions another element may be the last one for a
 *            moment. But that is one that round r itself takes: it is due in r since the meeting before, and the
 *            minimum stays. A cell that ends the round with one element shows so in any order, with the same word. So
 *            after each round the same elements are taken, and the cells, being sums, are equal. The estimates are then
 *            equal, too, even after the last round. If sketches do not belong to their bitmaps (which no sender of ours
 *            causes), an element's cells may disagree about its value: the host takes the first value it meets, this
 *            code the least; the elements are the same. The thread that is first to find an element puts it into the
 *            queue. So each is there once at most, those of a round are neighbours, and a stripe's capacity is room
 *            enough for any input.
 * Guards     One warp cuts masks beyond a stripe's capacity as the host does. So indices of elements are smaller than
 *            the capacity, but for sums of 256 and more words in one cell, which are checked. Exponents out of range
 *            have a unit of zero.
 */
#ifndef KERNELS_LHC_CUDA_H
#define KERNELS_LHC_CUDA_H

#include "kernels/lhc/codec.h"
#include "kernels/cuda/codecs.h"
#include "kernels/sparse/cuda.h"

/* The meetings of a stripe's groups, each once a call. */
enum {
  TAGC_LHC_COUNTED, /* values of the support, by warp */
  TAGC_LHC_LISTED,
  TAGC_LHC_BUILT,
  TAGC_LHC_FOUND,                                     /* the elements that are alone at first */
  TAGC_LHC_ROUND,                                     /* the first */
  TAGC_LHC_QUEUED = TAGC_LHC_ROUND + TAGC_LHC_ROUNDS, /* no meeting: elements in the queue */
  TAGC_LHC_WORDS,
};

enum {
  TAGC_LHC_GROUP_VALUES = 2048
}; /* values of the support a group: few groups meet, and few values wait in a thread */

/* A line of the own shard: its elements in the support, and the index of the first one's sum. */
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
  double *norms; /* by place and group: of the values that stay, and of the chosen ones */
  /* recover; the members hold one stripe after the other */
  unsigned long long *meetings; /* TAGC_LHC_WORDS: arrived groups, and << 32 the sum of their words */
  unsigned long long *cells;    /* hashes * part_cells: as in receive.inc.c */
  unsigned long long *due;      /* union_capacity */
  uint32_t *elements;           /* union_capacity: ids, later replaced by values */
  uint32_t *queue;              /* union_capacity: indices of due elements, each once, round by round */
  uint32_t *counts;             /* most_parts * 32: of the lines of a warp */
  struct tagc_lhc_line *lines;  /* of the shard */
  uint32_t parts, most_parts;   /* groups of a stripe */
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* See cuda/codecs.h. */
bool tagc_lhc_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);
tagc_cuda_step tagc_lhc_cuda_prepare, tagc_lhc_cuda_encode, tagc_lhc_cuda_decode;

#endif
