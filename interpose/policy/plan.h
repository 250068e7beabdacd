/* SPDX-License-Identifier: BSD-3-Clause
 * The plan: what happens to a call, and why.
 *
 * Pure functions: no I/O, no lock, no clock, no global. Their inputs are facts that are equal on all ranks of the
 * communicator, so that all ranks decide alike. Local facts (no memory, a group's context) enter only through the vote.
 */
#ifndef INTERPOSE_POLICY_PLAN_H
#define INTERPOSE_POLICY_PLAN_H

#include "env/options.h"
#include "kernels/codec/allgather.h"
#include "kernels/codec/cost.h"
#include "layermap/cycle/cycle.h"
#include "layermap/model/select.h"

enum tagc_reason {
#define REASON(name, words, advice) TAGC_REASON_##name,
#include "interpose/policy/reasons.def"
  TAGC_REASON_COUNT,
  TAGC_REASON_NONE = TAGC_REASON_compressed /* in an answer to "why not?": no reason */
};

/* The name in reasons.def, for programs. */
const char *tagc_reason_name(enum tagc_reason reason);
/* The words of reasons.def, and what the user can do about it; "": nothing, or the words say it. */
const char *tagc_reason_words(enum tagc_reason reason);
const char *tagc_reason_advice(enum tagc_reason reason);

/* Kinds of reductions that matter here. */
enum tagc_op { TAGC_OP_SUM, TAGC_OP_AVG, TAGC_OP_PREMULSUM, TAGC_OP_OTHER };

/* FLUSH: sends plainly what would come late: a gradient with its residual; parameters to which later calls refer. */
enum tagc_action { TAGC_PASS, TAGC_COMPRESS, TAGC_FLUSH };

/* The ranks between which the calls of a communicator are compressed, if at all. */
struct tagc_scope_plan {
  enum tagc_reason reason; /* why all calls pass; TAGC_REASON_NONE: no reason */
  bool two_levels; /* the ranks of a host sum first, and those of equal place on their hosts exchange payloads */
};

/* Is the codec of all slots the one whose sums are exact? */
bool tagc_plan_is_exact(const struct tagc_options *options);

/* `even`: each host has as many ranks; `splits`: every rank can make the sub-communicators that two levels need. Two
 * levels never send more between hosts: payloads for one rank of each other host, not for all ranks. Exact sums of a
 * host take more than two values, so they need three ranks a host; and a user who asks, as they take 16-bit types
 * alone. */
struct tagc_scope_plan tagc_plan_scope(const struct tagc_options *options, const struct tagc_hosts *hosts, bool even,
                                       bool splits);

/* The question whether a slot can be compressed at all. */
struct tagc_slot_question {
  const struct tagc_options *options;
  const struct tagc_codec *codec;
  const struct tagc_slot_info *slot;
  struct tagc_hosts hosts; /* hosts and ranks of the communicator */
  struct tagc_scope_plan scope;
  struct tagc_shape packed; /* of a packed shard (comm/slot.h): its ranks are all of them, or in two levels one a host.
                               n = 0: no codec has its type. It includes the desired residual */
  uint64_t allgather_phase_bytes;   /* of an all-reduce: bytes of a rank's gathered sums; 0: as planned */
  uint64_t shard_count, rest_count; /* of a shard, and of its uncompressed part; if 0, packed is all */
  enum tagc_op op;
  bool layer_known; /* the slot's layer and selection are known; else only its name counts */
  enum tagc_selection selection;
  bool host_memory;       /* the communicator's */
  bool waits_for_sums;    /* else: the host may wait in each call for the bytes of nonzero sums */
  bool symmetric;         /* its buffers lie in symmetric windows, on some rank at least */
  bool gradients;         /* tagc_slot_is_gradient() */
  bool changes;           /* by the contents of calls it is none (changes.h) */
  uint64_t residual_left; /* bytes of TAGC_RESIDUAL_MAX that earlier slots left */
};

/* Does the user want a part of the slot compressed? */
bool tagc_plan_is_selected(const struct tagc_options *options, const struct tagc_slot_info *slot, bool layer_known,
                           enum tagc_selection selection);

/* The shape of a whole shard, and of its part that goes beside the payload (n = 0: none). */
struct tagc_shape tagc_plan_shard(const struct tagc_slot_question *question);
struct tagc_shape tagc_plan_rest(const struct tagc_slot_question *question);

/* An all-reduce is a reduce-scatter, which leaves each rank one shard of the sum, and an all-gather of these. Sums are
 * gathered in fewer bits, too, but in more than gradients: a loss in a sum is not sent later. */
struct tagc_allgather_phase {
  const struct tagc_allgather_codec *codec; /* NULL: plainly */
  struct tagc_allgather_shape shape;
  struct tagc_allgather_layout layout;
  /* With the most bytes that `support` (kernels/allgather/support.h) may take: those of the codec, or half of plain
   * ones. In each call the ranks tell each other how many their nonzero values take, and these are sent, exact, if they
   * fit. 0: never */
  struct tagc_allgather_layout support;
};

/* Is the slot an all-reduce? */
bool tagc_plan_is_all_reduce(const struct tagc_slot_question *question);

/* How its sums are gathered after question->codec: bf16 for bf16, none for none and precise, else q8; plain if that
 * saves nothing. After sparse and lhc on host memory: the nonzero values where they take no more bytes than q8. On a
 * GPU the host waits for their number in each call, so the same only if the question says so.
 * TAGC_SUMS=exact: the nonzero values, on a GPU too, where they take at most half of plain sums; else these. */
struct tagc_allgather_phase tagc_plan_allgather_phase(const struct tagc_slot_question *question);

/* The bytes that a call of the slot sends with this layout; and as a plain call. */
struct tagc_traffic tagc_plan_traffic(const struct tagc_slot_question *question, const struct tagc_layout *layout);
struct tagc_traffic tagc_plan_plain_traffic(const struct tagc_slot_question *question);

/* Why no codec could carry the slot; TAGC_REASON_NONE: one could. Ignores the codec. */
enum tagc_reason tagc_plan_slot_gate(const struct tagc_slot_question *question);

/* The storage of a slot's residual under a codec: that of TAGC_RESIDUAL, and by default int8 for codecs that need one.
 * The loss of a training is the same with all storages (tests/bench/RESULTS.md), and a byte a parameter is little. */
enum tagc_storage tagc_plan_storage(const struct tagc_options *options, const struct tagc_codec *codec);

/* Why it cannot; TAGC_REASON_NONE: it can. Then *layout is filled, and *residual_bytes is its share of
 * TAGC_RESIDUAL_MAX: 0 without a residual, because no room is left and the codec can do without one. */
enum tagc_reason tagc_plan_slot(const struct tagc_slot_question *question, struct tagc_layout *layout,
                                uint64_t *residual_bytes);

/* The same for an all-gather of parameters. Its payloads go by a plain all-gather of bytes, whose ring leaves each host
 * once: it needs no two levels. */
struct tagc_allgather_question {
  const struct tagc_options *options;
  const struct tagc_allgather_codec *codec; /* NULL: TAGC_ALLGATHER=off */
  struct tagc_allgather_shape shape;        /* n = 0: the element type cannot be compressed */
  struct tagc_hosts hosts;
  const struct tagc_slot_info *slot; /* the reduce-scatter of the same unit, and facts about its layer: */
  bool layer_known;
  enum tagc_selection selection;
  bool gradients;
  bool changes;            /* it or its slot does, unlike parameters (changes.h) */
  uint64_t reference_left; /* bytes of TAGC_ALLGATHER_MAX that earlier ones left */
  uint64_t pinned_left;    /* the same of TAGC_ALLGATHER_PINNED, on a GPU */
  bool referred;           /* an earlier one of the same unit and type keeps the reference for both */
};

/* Why it cannot be compressed; TAGC_REASON_NONE: it can, and *layout is filled. */
enum tagc_reason tagc_plan_allgather(const struct tagc_allgather_question *question,
                                     struct tagc_allgather_layout *layout);

/* Is its reference one for which only pinned memory is left? */
bool tagc_plan_is_pinned(const struct tagc_allgather_question *question, const struct tagc_allgather_layout *layout);

/* The facts about one call. */
struct tagc_call_facts {
  const struct tagc_options *options;
  enum tagc_collective collective;
  bool compressible_type;
  enum tagc_op op;
  int nranks;
  uint64_t bytes;                 /* of all shards; of an all-reduce, the send buffer */
  enum tagc_reason config_reason; /* why its configuration wants it plain (coll_config.h) */
  bool agreed;                    /* all ranks have the library and the same options */
  bool device;                    /* a codec exists for the communicator's memory */
  enum tagc_cycle_state state;
  int slot;                     /* -1: none; of an all-gather, its index among those of parameters */
  uint64_t cycle;               /* cycles started since the lock, this one included */
  uint64_t vote_cycle;          /* the cycle in which the vote is, or was, held */
  bool voted;                   /* the vote on the slots of this cycle has taken place */
  enum tagc_reason slot_reason; /* its outcome for the slot: TAGC_REASON_compressed, or why not */
  bool settles;                 /* TAGC_BUDGET: it has a residual, and its codec is about to be chosen anew */
  bool dirty;                   /* the slot has been compressed since the last flush: its residual is alive */
  bool resync_pending; /* since an unexpected call no cycle has begun on time: an all-gather may now be of other data
                          with the sizes of parameters (moments of an optimizer, for a checkpoint) */
  bool calls_skipped;  /* calls of the cycle were left out before it: it may share only the size of a gradient (a
                          parameter that is averaged now and then), and must not get its residual */
  int hosts;           /* of a broadcast: of its communicator, as all ranks agreed; 0: not known */
  enum tagc_reason shape_reason;     /* of a broadcast: why the codec cannot have its count and type */
  enum tagc_reason allgather_reason; /* why no all-gather of the communicator is compressed; TAGC_REASON_NONE */
  bool stale;                        /* an all-gather's codec needs the last call's reference, which does not exist */
};

struct tagc_decision {
  enum tagc_action action;
  enum tagc_reason reason;
};

struct tagc_decision tagc_plan_call(const struct tagc_call_facts *facts);

/* The cycle of the first vote, counted from 1 at the lock: one whole cycle has then been seen, so that the group
 * context of every slot is known. */
#define TAGC_VOTE_CYCLE 2

/* Do the contents of calls decide what is a gradient (changes.h)? Those of all-gathers and reduce-scatters are sampled
 * in two cycles, and the vote is one cycle later. */
bool tagc_plan_watches_changes(const struct tagc_options *options);
#define TAGC_CHANGES_VOTE_CYCLE (TAGC_VOTE_CYCLE + 1)

/* Are they sampled in this cycle? */
bool tagc_plan_samples_changes(uint64_t vote_cycle, uint64_t cycle);

/* The cycle of another vote, after one in `vote_cycle` that lacked some rank's sample of a gradient that might be
 * compressed: twice as far away, because the cause may last. 0: enough votes; the last one stands. */
#define TAGC_LAST_VOTE_CYCLE 16
uint64_t tagc_plan_next_vote(uint64_t vote_cycle);

/* Is a gradient sampled in this cycle, before the vote in `vote_cycle`? */
bool tagc_plan_samples(uint64_t vote_cycle, uint64_t cycle);

/* The first cycle in which anything is compressed. */
uint64_t tagc_plan_first_cycle(const struct tagc_options *options, uint64_t vote_cycle);

/* TAGC_MODE=ab: is this cycle (at or after the first) in a compressed window? The first window is a plain one. */
bool tagc_plan_ab_compressed(const struct tagc_options *options, uint64_t vote_cycle, uint64_t cycle);

#endif
