/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_CODEC=auto: which codec a slot gets, if any.
 *
 * Pure functions of numbers that the vote has made equal on all ranks (the slowest rank, the largest error and the
 * densest gradient count), so that all ranks choose alike.
 *
 * A candidate's time is that of a call (tagc_call_ns() of kernels/codec/cost.h) in as many chunks as it would go in
 * (chunking.h): its wire, encoding and decoding, measured on one core or estimated for a GPU, and
 * where but a part of the slot is selected also the rest's wire, and all copies; for an all-reduce also gathering the
 * sums. It must be at least 5% and 50 us faster than the plain call, and its error at most TAGC_CHOOSE_ERROR: what is
 * known to train without measurable loss stays below that.
 * Of those within 5% of the fastest the most exact one is taken; what would be taken if all went in one chunk is kept
 * unless that is 5% faster, for what chunks hide is an estimate: where side stream and wire want the same cores, less
 * is.
 *   bf16, q8, q4   for any gradient
 *   sparse, lhc    for gradients that are sparse by nature, with room for half as many values again: nothing is left
 *                  for later. Not for fp16: a loss scale may change while something is left all the same.
 * Codecs that lose measurably (q2; sparse and lhc on dense gradients) have to be asked for. With TAGC_BUDGET the choice
 * is that of budget.h, over all slots at once: q2 is a candidate then, and errors may be larger.
 */
#ifndef INTERPOSE_POLICY_CHOOSE_H
#define INTERPOSE_POLICY_CHOOSE_H

#include "interpose/policy/plan.h"
#include "kernels/codec/cost.h"
#include "kernels/device/gradient_stats.h"

#define TAGC_CHOOSE_ERROR 0.15 /* q4 on a normal distribution: 0.12 */

/* The codecs that auto chooses from, in the order of the report. NULL: not in this build, or not with these options. */
void tagc_choose_candidates(const struct tagc_options *options, struct tagc_candidate candidates[TAGC_CANDIDATES]);
const char *tagc_choose_name(int candidate);

/* How bytes can travel: through all ranks, one after the other, as a plain call; between those that exchange payloads,
 * as messages; and with two levels in a ring of the ranks of a host, or of those that exchange payloads. */
enum tagc_route {
  TAGC_ROUTE_PLAIN,
  TAGC_ROUTE_SENDS,
  TAGC_ROUTE_ALL_TO_ALL,
  TAGC_ROUTE_INSIDE,
  TAGC_ROUTE_RING,
  TAGC_ROUTES
};

/* What the probe of the wire has found: nanoseconds of a plain reduce-scatter with shards of so many bytes, and of an
 * exchange of messages of so many bytes, by ncclSend and ncclRecv or by ncclAlltoAll (infinite where there is none). */
struct tagc_probe {
  size_t bytes[2]; /* a small one and a large one */
  double ns[TAGC_ROUTES][2];
};

struct tagc_wire {
  struct tagc_link plain;          /* a ring of all ranks */
  struct tagc_link inside;         /* two levels: a ring of the ranks of a host */
  struct tagc_link ring, exchange; /* of those that exchange payloads: a ring of them, and their messages */
  bool all_to_all;                 /* messages go by ncclAlltoAll */
};

struct tagc_wire tagc_choose_wire(const struct tagc_hosts *hosts, bool two_levels, const struct tagc_probe *probe);

struct tagc_choice {
  enum tagc_reason reason;              /* TAGC_REASON_compressed, or why the slot stays plain */
  int candidate;                        /* the one chosen; -1: none */
  uint32_t keep_ppm;                    /* for a codec with a residual; 0: the gradient is not sparse */
  double plain_ns, ns[TAGC_CANDIDATES]; /* estimates; infinite: out of the question */
  uint8_t chunks[TAGC_CANDIDATES]; /* in how many chunks its calls would go (chunking.h), which ns is of; 0: out of the
                                      question */
};

/* The error of a call with this candidate, by what was found: that of an all-reduce has two parts, as the sums are
 * gathered in fewer bits, too, and neither knows of the other. Relative L2; infinite where nothing was found. */
double tagc_choose_error(const struct tagc_slot_question *slot, const struct tagc_gradient_stats *gradient,
                         int candidate);

/* What a call must gain to be worth compressing. */
bool tagc_choose_is_worth_it(double ns, double plain_ns);

/* The choice for a slot; with TAGC_BUDGET none, but the estimates that it is made from: the reason is compressed where
 * there is a choice, and the plain time of slots of every float type is there. Of the question all counts but the
 * codec, how much is kept, and the storage of the residual. `gradient` is NULL where some rank has not seen the slot,
 * `wire` where it could not be measured for want of memory. */
struct tagc_choice tagc_choose(const struct tagc_slot_question *slot, const struct tagc_gradient_stats *gradient,
                               const struct tagc_wire *wire);

/* What the chosen codec is estimated to take of a step, in ns. */
static inline double tagc_choice_ns(const struct tagc_choice *choice) {
  return choice->candidate < 0 ? choice->plain_ns : choice->ns[choice->candidate];
}

#endif
