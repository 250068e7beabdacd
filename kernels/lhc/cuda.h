/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` on a GPU: the work of lhc.cu, and its launch from the host. Exponents, sketches, messages, residuals
 * and results are those of codec.c, bit for bit; calls are those of cuda/call.h; sparsify_cuda.h chooses.
 *
 * Launches   measure 1, prepare 7 (clear, six to choose), encode 2 (send, close), decode 4 (check, open, recover,
 *            result). If groups share a stripe, decode has list, build, look, and the first rounds, too: 9 or 29 in
 *            all. Of its own state, decode needs nothing from prepare. Small shards have lists instead of sketches
 *            (sparse/cuda.h): 0, 6, 3 and 3.
 * measure    Reads g and e; a warp takes a block of 1,024 positions.
 * send       Reads g and e a second time, with the bitmap. A chosen value costs 3, 4 or 12 atomic additions, which the
 *            second-level cache performs (a stripe's counters have 260 KB at most). The residual is written once, with
 *            the errors of quantising.
 * recover    Its steps are list (the elements of the bitmaps, which open has counted by warp), build (the cells), look
 *            (finds the first round's elements), and the rounds. All groups of a stripe must end a step before the
 *            next one. No group waits for another, so nothing can deadlock, whatever else runs on the GPU: the end of
 *            an ordinary launch is the meeting. Groups have 1,024 threads, and 2,048 values or more. `parts` of them
 *            share a stripe, as many as there are for two a processor. A word of each round has how many elements it
 *            queued. The next launch adds these words up, and does nothing in a stripe that has ended. After 2 or 22
 *            rounds a last launch has one group a stripe, which meets at its own barrier and goes on to the end. If
 *            `parts` is 1, it takes all steps.
 *            A round costs its latencies (two loads one after the other, three atomic operations, the meeting), and
 *            its due elements. Each element is looked at in one round alone, because the first thread to find it due
 *            puts it into a queue. With many groups a round is also a launch; one group takes a turn for each 1,024
 *            elements. A full sketch of random elements takes 15 to 27 rounds, counted on the host. Of 49,152 elements
 *            the first four take 8,600, 5,000, 3,600 and 2,800; those up to the 22nd take 1,250 to 2,300 each, and
 *            leave 2% or 3%. So 22 rounds are launches there. Of 16,384 elements all rounds from the third to the 13th
 *            take at most about a turn, and of 4,200 less than half of one, so 2 are launches below 16,384.
 * Rounds     An element that is alone in a cell becomes due in the next round: `due` holds the least (round << 32 |
 *            value) ever found for it, by an atomic minimum. A round takes the elements that are due in exactly that
 *            round, each by its own thread. So none is taken twice, though several of its cells may be single. In round
 *            r + 1 the host takes the remaining elements that were alone in a cell at some moment of round r, from the
 *            cells that were reached in it. Here, too, each subtraction reaches a cell once, and its result shows
 *            whether one element is left. In another order of subtractions another element may be the last one for a
 *            moment. But that is one that round r itself takes: it is due in r since the round before, and the
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

/* The words of a stripe, which groups add up. */
enum {
  TAGC_LHC_LISTED, /* elements of the support */
  TAGC_LHC_QUEUED, /* elements that look has queued; then those of each round */
  TAGC_LHC_WORDS = TAGC_LHC_QUEUED + 1 + TAGC_LHC_ROUNDS,
};

enum { TAGC_LHC_GROUP_VALUES = 2048 }; /* values of the support a group, so that few of them wait in a thread */

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
  unsigned long long *words;   /* TAGC_LHC_WORDS */
  unsigned long long *cells;   /* stripe_counters: as in receive.inc.c, and checks, unused */
  unsigned long long *due;     /* union_capacity */
  uint32_t *elements;          /* union_capacity: ids, later replaced by values */
  uint32_t *queue;             /* union_capacity: indices of due elements, each once, round by round */
  uint32_t *counts;            /* most_parts * 32: of the lines of a warp */
  struct tagc_lhc_line *lines; /* of the shard */
  uint32_t parts, most_parts;  /* groups of a stripe */
  uint32_t round;              /* of take; recover begins with it */
  uint32_t measured;           /* 1: the exponents are known, and stay */
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* See cuda/codecs.h. */
bool tagc_lhc_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);
tagc_cuda_step tagc_lhc_cuda_measure, tagc_lhc_cuda_prepare, tagc_lhc_cuda_encode, tagc_lhc_cuda_decode;

#endif
