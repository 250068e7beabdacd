/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_CODEC=auto: which codec a slot gets, if any.
 *
 * Pure functions of numbers that the vote has made equal on all ranks (those of the slowest rank, the largest error and
 * the densest gradient), so that all ranks choose alike.
 *
 * A candidate's time is that of a call (tagc_call_ns() of kernels/codec/cost.h) in its number of chunks (chunking.h):
 * its wire, encoding and decoding, measured on one core or estimated for a GPU. If only a part of the slot is selected,
 * the rest's wire and all copies count, too; for an all-reduce also gathering the sums. The time must be at least 5%
 * and 50 us less than the plain call's, and the error at most TAGC_CHOOSE_ERROR: codecs known to train without
 * measurable loss stay below that. Among those within 5% of the fastest the most exact one is taken. The choice for a
 * single chunk stays unless chunks make another one 5% faster: the time that chunks hide is an estimate, and is less if
 * side stream and wire want the same cores.
 *   bf16, q8, q4   for any gradient
 *   sparse, lhc    for gradients that are sparse by nature, with room for half as many values again: nothing is left
 *                  for later. Not for fp16: a loss scale may change while a residual remains all the same.
 * Codecs with a measurable loss (q3, q2; sparse and lhc on dense gradients) must be requested. With TAGC_BUDGET
 * budget.h makes the choice for all slots at once: q3 and q2 are then candidates, and errors may be larger.
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

/* False for the candidates of a budget alone, if there is none. */
bool tagc_choose_is_open(const struct tagc_options *options, int candidate);

/* The routes of bytes: through all ranks, one after the other, as a plain call; as messages between the ranks that
 * exchange payloads; and in two levels in a ring of the ranks of a host, or of those that exchange payloads. */
enum tagc_route {
  TAGC_ROUTE_PLAIN,
  TAGC_ROUTE_SENDS,
  TAGC_ROUTE_ALL_TO_ALL,
  TAGC_ROUTE_INSIDE,
  TAGC_ROUTE_RING,
  TAGC_ROUTES
};

/* The results of the probe: nanoseconds of a plain reduce-scatter with shards of so many bytes, and of an exchange of
 * messages of so many bytes, by ncclSend and ncclRecv or by ncclAlltoAll (infinite if this NCCL lacks it). */
struct tagc_probe {
  size_t bytes[2]; /* a small one and a large one */
  double ns[TAGC_ROUTES][2];
};

struct tagc_wire {
  struct tagc_link plain;          /* a ring of all ranks */
  struct tagc_link inside;         /* two levels: a ring of the ranks of a host */
  struct tagc_link ring, exchange; /* of the ranks that exchange payloads: a ring, and their messages */
  bool all_to_all;                 /* messages go by ncclAlltoAll */
};

struct tagc_wire tagc_choose_wire(const struct tagc_hosts *hosts, bool two_levels, const struct tagc_probe *probe);

struct tagc_choice {
  enum tagc_reason reason;              /* TAGC_REASON_compressed, or why the slot stays plain */
  int candidate;                        /* the chosen one; -1: none */
  uint32_t keep_ppm;                    /* for a codec with a residual; 0: the gradient is not sparse */
  double plain_ns, ns[TAGC_CANDIDATES]; /* estimates; infinite: ruled out */
  uint8_t chunks[TAGC_CANDIDATES];      /* number of chunks of its calls (chunking.h), for which ns is; 0: ruled out */
  bool waits_for_sums[TAGC_CANDIDATES]; /* on a GPU: of all-reduces, for which ns is (plan.h) */
};

/* The error of a call with this candidate, by the sample. That of an all-reduce has two independent parts, because its
 * sums are gathered in fewer bits, too; exactly if they are sparse, or with TAGC_SUMS=exact. Relative L2; infinite
 * without a finding. */
double tagc_choose_error(const struct tagc_slot_question *slot, const struct tagc_gradient_stats *gradient,
                         int candidate);

/* Is a call with this time worth compressing? */
bool tagc_choose_is_worth_it(double ns, double plain_ns);

/* The choice for a slot. With TAGC_BUDGET it makes only the estimates: the reason is compressed if a choice exists, and
 * slots of every float type get a plain time. Of the question it ignores the codec, keep_ppm and the storage of the
 * residual. `gradient` is NULL if some rank has not seen the slot, `wire` if memory was lacking to measure it. */
struct tagc_choice tagc_choose(const struct tagc_slot_question *slot, const struct tagc_gradient_stats *gradient,
                               const struct tagc_wire *wire);

#endif
