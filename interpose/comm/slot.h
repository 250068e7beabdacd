/* SPDX-License-Identifier: BSD-3-Clause
 * Queries about a slot of a communicator, for its calls, its all-gathers and the vote.
 *
 * Threads     With the communicator's lock; tagc_slot_reject_reason() without it, as the device may wait.
 */
#ifndef INTERPOSE_COMM_SLOT_H
#define INTERPOSE_COMM_SLOT_H

#include "interpose/comm/allgathers.h"
#include "interpose/comm/memory.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/votes.h"
#include "interpose/policy/registered_memory.h"

struct tagc_call;
struct tagc_comm;

/* What calls leave behind; exec/ writes it. */
struct tagc_slot_state {
  uint64_t calls;          /* compressed so far: seeds are made from this */
  bool residual_empty;     /* the residual's content is void */
  uint64_t residual_cycle; /* the last cycle that changed it */
  uint64_t void_before;    /* calls with smaller numbers leave a void residual */
  bool dirty;              /* compressed since the last flush */
  unsigned surplus_calls;  /* calls in a row that had more values than room on some rank */
  bool sample_due;         /* for the trace (exec/loss_samples.h) */
};

/* The stages of TAGC_SPARSITY, of which a slot has one at a time: its keep_ppm, and the layouts that follow. A stage
 * follows from the cycle alone, so all ranks change it in the same call (exec/reduce_scatter.c).
 * Residual    It lies chunk by chunk. All stages have the same chunks, so it stays as it is.
 * Memory      The workspace has room for the largest stage.
 * Plain       Calls pass in a stage whose payload would not be smaller. The first one also sends the residual. */
struct tagc_slot_stages {
  uint32_t now;                         /* that of keep_ppm and the layouts */
  enum tagc_reason reason[TAGC_STAGES]; /* TAGC_REASON_compressed, or why its calls pass; for a compressed slot */
};

/* Counts of elements follow from one another:
 *   call->count    of the call, as the program gives it to NCCL: one shard, or of an all-reduce all shards and the tail
 *   shard_count    of a shard, which one rank of the communicator owns: count, or of an all-reduce count / nranks
 *   packed.n       of a packed shard: the selected elements of a shard, of the largest one. Codecs know no other n
 *   rest count     likewise the others; 0: all are selected, and packed.n is shard_count
 *   chunks         cut packed.n where a call goes in several; the job of each has an n of its own
 * The tail of an all-reduce is the last count - shard_count * nranks elements. */
struct tagc_slot {
  /* Set at the lock by calls/lock.c. */
  bool all_reduce;
  enum tagc_op op;
  uint64_t shard_count;
  struct tagc_slot_selection selected;
  struct tagc_home home; /* memory of its gradients, for reports */

  /* Set in the vote by vote/proposal.c. */
  enum tagc_reason reason; /* TAGC_REASON_compressed, or why its calls pass; some may pass all the same: see stages */
  const struct tagc_codec *codec;
  struct tagc_shape packed;  /* of a packed shard, for the ranks that exchange. n = 0: no codec has its type */
  struct tagc_layout layout; /* of the chunks together */
  struct tagc_slot_stages stages;
  struct tagc_chunking chunking;
  struct tagc_allgather_phase allgather_phase; /* for an all-reduce: how its sums are gathered */
  struct tagc_allgather_chunking allgather_phase_chunking;
  struct tagc_slot_sample sample;

  struct tagc_slot_memory memory;
  struct tagc_slot_state state;
};

/* Does the slot count as a gradient: by TAGC_LAYERMAP, else by the contents of its calls if they prove something, else
 * by its cycle, because a model explains all slots, or because all ranks know them as shards of gradients? */
bool tagc_slot_is_gradient(const struct tagc_comm *comm, size_t i);

/* Shards (shards.c): the gradients that communicators of this process reduce-scatter. HSDP all-reduces exactly these
 * between its replicas, on another communicator, and nothing there tells gradients from activations
 * (torch/distributed/fsdp/_runtime_utils.py, _reduce_grad; _fully_shard/_fsdp_collectives.py, foreach_reduce). What
 * other communicators carry is no fact that all ranks of this one share: it enters through the vote alone. */
/* Takes down the gradients of the communicator's lock, instead of those of the lock before. Without memory they stay
 * unknown. With the lock; the list has its own, and any thread may look. */
void tagc_shards_set(const struct tagc_comm *comm);
void tagc_shards_drop(const struct tagc_comm *comm);
/* Could the slots be shards? They are all-reduces, of several counts or in a cycle with other calls: else nothing tells
 * where a step begins, and like units would share a residual. */
bool tagc_shards_may_be(const struct tagc_comm *comm);
/* Are they? A communicator reduce-scatters just these counts, each as often, or each so many times (accumulation). One
 * count proves nothing; then the newest call of each slot must have summed a shard where it was just written. */
bool tagc_shards_are(const struct tagc_comm *comm);
/* Remembers a reduce-scatter as the newest one of this process. With the lock of its communicator. */
void tagc_shards_note(const struct tagc_call *call);
/* True if the newest one was of a gradient, and this all-reduce sums, in place, just what it writes: both FSDPs do. */
bool tagc_shards_sums(const struct tagc_call *call);

/* The shape of a whole shard, and the number of its elements that go uncompressed beside the payload. */
struct tagc_shape tagc_slot_shard(const struct tagc_slot *slot);
uint64_t tagc_slot_rest_count(const struct tagc_slot *slot);

/* Could any codec have the slot's calls, by their type and reduction? */
static inline bool tagc_slot_has_codecs(const struct tagc_slot *slot) {
  return slot->packed.n && slot->op != TAGC_OP_OTHER;
}

/* The stage of a communicator's cycle: cycles count from the first lock. */
uint32_t tagc_slot_stage(const struct tagc_comm *comm, uint64_t cycle);
/* Why a call of the slot in this cycle passes; TAGC_REASON_compressed: it does not. */
enum tagc_reason tagc_slot_reason(const struct tagc_comm *comm, const struct tagc_slot *slot, uint64_t cycle);

/* The plan's question about slot i; the caller adds the room for its residual. */
struct tagc_slot_question tagc_slot_question(const struct tagc_comm *comm, size_t i);

/* All slots pass, as if the vote had decided that they are no gradients. */
void tagc_comm_pass_slots(struct tagc_comm *comm);

/* Drops the unsent values of slot i, and counts the drop. */
void tagc_slot_drop_residual(struct tagc_comm *comm, size_t i);
/* Drops those that a cycle with NaN or Inf has left, once it has ended. */
void tagc_slots_drop_nonfinite(struct tagc_comm *comm);

/* The reason why no codec can handle the call, if other ranks may not see it; TAGC_REASON_NONE: none. */
enum tagc_reason tagc_slot_reject_reason(const struct tagc_call *call);

#endif
