/* SPDX-License-Identifier: BSD-3-Clause
 * The vote's state of a communicator and of its slots; vote/ writes it.
 *
 * Threads    With the communicator's lock; between its calls, without.
 */
#ifndef INTERPOSE_COMM_VOTES_H
#define INTERPOSE_COMM_VOTES_H

#include "interpose/policy/changes.h"
#include "interpose/policy/plan.h"

struct tagc_call;
struct tagc_comm;

/* Per lock. */
struct tagc_comm_vote {
  uint64_t cycle; /* the first vote is due in this cycle, or was held in it */
  bool held;
  bool asks_shards;       /* all-reduces that nothing proves: the ranks ask first if they are shards of gradients */
  bool are_shards;        /* they are: their sums are gradients (slot.h) */
  bool asks_map;          /* TAGC_LAYERMAP=torch: before all else the ranks compare what their PyTorch says */
  unsigned map_postponed; /* times, as a rank had no answer yet */
  uint64_t map_cycle;     /* they ask after this one */
  bool map_told;          /* why there is no such map was logged, once and for all */
  uint32_t count;         /* votes so far */
  bool all_to_all;        /* messages go by ncclAlltoAll, which the vote found faster */
  bool keeps_residuals;   /* some slot has one; all ranks alike */
};

/* Per lock: samples of what is gathered and reduced, in the cycles before the vote (vote/changes.h). */
struct tagc_comm_changes {
  bool watched;  /* contents decide; equal on all ranks */
  bool judged;   /* the vote has compared them */
  void *samples; /* device memory, two for each place; NULL: none yet */
  struct tagc_change_place {
    uint64_t cycles[2];               /* when the samples were taken; 0: never */
    enum tagc_change change;          /* of this rank */
    float values[TAGC_CHANGE_VALUES]; /* of this rank, in the newest sample */
  } * places; /* of each all-gather of tagc_cycle_allgathers(), then of each slot; NULL: no memory */
};

/* Per slot: facts about its calls before the vote. */
struct tagc_slot_sample {
  bool symmetric;                 /* its buffers lie in symmetric windows: of this rank, since the vote of some rank */
  enum tagc_reason reject_reason; /* why no codec can handle them; TAGC_REASON_NONE: one can */
  bool sums_shard;       /* the newest of them summed a shard where a gradient's reduce-scatter writes it (slot.h) */
  bool tried, taken;     /* TAGC_CODEC=auto: its gradient should be sampled, and was (ledger.h: its own gradient) */
  bool agreed;           /* and all ranks had a sample by the last vote */
  enum tagc_proof proof; /* of the calls of its count, or of all all-reduces; equal on all ranks */
};

/* Are the changes those from rank to rank, of all-reduces, instead of those from cycle to cycle? */
bool tagc_comm_compares_ranks(const struct tagc_comm *comm);

/* The cycle of the first vote if nothing postpones it but the map. */
uint64_t tagc_comm_first_vote(const struct tagc_comm *comm);
/* The cycle of the next vote: the first one on this lock, or with TAGC_BUDGET another one. 0: none. */
uint64_t tagc_comm_next_vote(const struct tagc_comm *comm);

/* Does the call's lock still await a vote? Call it with the lock held. */
bool tagc_comm_awaits_vote(const struct tagc_comm *comm, const struct tagc_call *call);

/* Before the vote: a call of a slot or an all-gather cannot be compressed, for a reason that other ranks may not have.
 * The vote informs them. Call it with the lock held. */
void tagc_comm_reject(struct tagc_comm *comm, const struct tagc_call *call, enum tagc_reason reason);

#endif
