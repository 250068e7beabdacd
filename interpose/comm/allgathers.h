/* SPDX-License-Identifier: BSD-3-Clause
 * The all-gathers of parameters in the cycle of a communicator, and their memory.
 *
 * With TAGC_ALLGATHER=off none exist. All-gathers that surely gather the same unit in the same type (for the forward
 * and the backward pass) share the reference and the fate of the first of them.
 * Threads    With the communicator's lock; without it where a function may wait for a device.
 */
#ifndef INTERPOSE_COMM_ALLGATHERS_H
#define INTERPOSE_COMM_ALLGATHERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/comm/chunking.h"
#include "interpose/policy/plan.h"
#include "kernels/device/parameter_stats.h"

struct tagc_call;
struct tagc_comm;

/* Why no all-gather is compressed; TAGC_REASON_NONE: some may be. Equal on all ranks. */
enum tagc_reason tagc_allgathers_reason(void);

struct tagc_allgather {
  struct tagc_allgather_shape shape;   /* n = 0: the element type cannot be compressed */
  struct tagc_allgather_layout layout; /* of the chunks together */
  struct tagc_allgather_chunking chunking;
  const struct tagc_allgather_codec *codec; /* of TAGC_ALLGATHER */
  uint32_t slot;                            /* the reduce-scatter of the same unit */
  uint32_t first;                 /* the first with the same unit and type; it keeps the fields marked "first" */
  bool again;                     /* its parameters are unchanged since an earlier one of this cycle */
  bool repeated;                  /* first: others share it, so it matters whether the shard has changed in between */
  enum tagc_reason reason;        /* of the vote: TAGC_REASON_compressed, or why its calls pass */
  enum tagc_reason reject_reason; /* as in struct tagc_slot */
  bool measured;                  /* TAGC_ALLGATHER=auto: `stats` are known: this rank's, from the vote on all ranks' */
  struct tagc_parameter_stats stats;
  unsigned slow;         /* TAGC_ALLGATHER=auto: so many calls in a row were not worth it */
  bool changes;          /* wholly from cycle to cycle, unlike parameters (policy/changes.h) */
  void *tally;           /* as in struct tagc_slot */
  uint64_t calls;        /* compressed: seeds are made from this */
  void *reference;       /* first: device or pinned memory; NULL: none */
  void *tables;          /* first: device memory beside it; NULL: none */
  bool pinned;           /* first: the reference lies in pinned memory */
  bool referred;         /* first: all ranks have the same reference, or one marked as damaged */
  bool damaged;          /* first: this rank's reference differs from the others', as a call has failed here */
  unsigned refused;      /* refused calls in a row */
  unsigned rest, rested; /* payloads of any size: so many calls stay plain now, and did the last time */
  struct tagc_allgather_sizes sizes; /* payloads of any size: those of the next call */
  uint64_t reference_digest;         /* first: of the reference, as all ranks should have it */
  bool digest_known; /* first: the last call was compressed, and `digest` is that of this rank's shard in it */
  uint64_t digest;
};

/* After so many refusals in a row, a codec that refers to earlier calls is given up for good: the all-gather and those
 * that share its reference stay plain. One with payloads of any size rests instead, for 2, 4, ... calls. */
enum { TAGC_ALLGATHER_JUMPS = 3, TAGC_ALLGATHER_LONGEST_REST = 64 };

/* The all-gather of a call; NULL: none. */
struct tagc_allgather *tagc_allgather_of(const struct tagc_comm *comm, const struct tagc_call *call);
/* The all-gather that keeps the shared fields. */
struct tagc_allgather *tagc_allgather_first(const struct tagc_comm *comm, const struct tagc_allgather *allgather);

/* Makes the all-gathers at a lock. False without memory. */
bool tagc_allgathers_make(struct tagc_comm *comm);

/* Marks all references as old: the next call of each begins anew. */
void tagc_allgathers_forget(struct tagc_comm *comm);

/* Does the call's all-gather still await a vote, for which its buffers must be checked now? */
bool tagc_allgathers_await_vote(const struct tagc_comm *comm, const struct tagc_call *call);

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Bytes of the communicator's workspace that the largest call needs. */
size_t tagc_allgathers_workspace(const struct tagc_comm *comm);
/* Reserves references and tallies. False if memory is lacking. Without the lock. */
bool tagc_allgathers_reserve(struct tagc_comm *comm, void *stream);
/* Gives back the memory of those that stay plain. True if others exist. Without the lock. */
bool tagc_allgathers_trim(struct tagc_comm *comm);
/* Gives back the memory of all of them behind the last work on it. Without the lock. */
void tagc_allgathers_release(struct tagc_comm *comm, struct tagc_allgather *allgathers, size_t count);

#endif
