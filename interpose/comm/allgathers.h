/* SPDX-License-Identifier: BSD-3-Clause
 * The all-gathers of parameters in the cycle of a communicator: what is known of each, and its memory.
 *
 * There are none with TAGC_ALLGATHER=off. Those that surely gather the same unit in the same type (for the forward and
 * for the backward pass) share the reference and the fate of the first of them.
 * Threads    With the communicator's lock; without it where a device may have to be waited for.
 */
#ifndef INTERPOSE_COMM_ALLGATHERS_H
#define INTERPOSE_COMM_ALLGATHERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/comm/chunking.h"
#include "interpose/policy/plan.h"

struct tagc_call;
struct tagc_comm;

struct tagc_allgather {
  struct tagc_allgather_shape shape;   /* n = 0: the element type cannot be compressed */
  struct tagc_allgather_layout layout; /* of the chunks together */
  struct tagc_allgather_chunking chunking;
  const struct tagc_allgather_codec *codec; /* of TAGC_ALLGATHER */
  uint32_t slot;                            /* the reduce-scatter of the same unit */
  uint32_t first;          /* of those that gather the same unit in the same type: what is marked so is kept there */
  bool again;              /* nothing has changed its parameters since an earlier one of this cycle */
  bool repeated;           /* first: there are others: whether its shard has changed in between is of interest */
  enum tagc_reason reason; /* of the vote: TAGC_REASON_compressed, or why its calls pass */
  enum tagc_reason reject_reason; /* as in struct tagc_slot */
  void *tally;                    /* as in struct tagc_slot */
  uint64_t calls;                 /* compressed: seeds are made from this */
  void *reference;                /* first: device memory; NULL: none */
  bool referred;                  /* first: all ranks have the same reference, or one that is damaged and says so */
  bool damaged;                   /* first: this rank's is not what the others have, as a call has failed here */
  unsigned refused;               /* so many calls in a row */
  bool digest_known;              /* first: of this rank's shard in the last call, which was compressed: */
  uint64_t digest;
};

/* If the codec of one refers to earlier calls, so many refusals in a row make it plain for good, and those that share
 * its reference. */
enum { TAGC_ALLGATHER_JUMPS = 3 };

/* The one of a call, NULL: none. */
struct tagc_allgather *tagc_allgather_of(const struct tagc_comm *comm, const struct tagc_call *call);
/* The one that keeps what is shared. */
struct tagc_allgather *tagc_allgather_first(const struct tagc_comm *comm, const struct tagc_allgather *allgather);

/* At a lock. False without memory. */
bool tagc_allgathers_make(struct tagc_comm *comm);

/* What they refer to may be old: the next call of each begins anew. */
void tagc_allgathers_forget(struct tagc_comm *comm);

/* Is there still a vote to come on the call's all-gather, for which its buffers are to be looked at now? */
bool tagc_allgathers_await_vote(const struct tagc_comm *comm, const struct tagc_call *call);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What the largest call takes of the communicator's workspace. */
size_t tagc_allgathers_workspace(const struct tagc_comm *comm);
/* References and tallies. False where memory lacks. Without the lock. */
bool tagc_allgathers_reserve(struct tagc_comm *comm, void *stream);
/* Gives back what was reserved for those that stay plain; are there others? Without the lock. */
bool tagc_allgathers_trim(struct tagc_comm *comm);
/* Gives back the memory of all of them, behind the last work on it. Without the lock. */
void tagc_allgathers_release(struct tagc_comm *comm, struct tagc_allgather *allgathers, size_t count);

#endif
