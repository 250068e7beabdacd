/* SPDX-License-Identifier: BSD-3-Clause
 * What is known of a communicator: its cycle, its slots with their residuals, its memory and its accounts.
 *
 * Ownership   A table keyed by handle holds one reference, every call under way another; the last one frees. A handle
 *             that is destroyed leaves the table at once, so a recycled handle starts anew.
 * Threads     The table has a lock of its own. The calls on a communicator are made one at a time (NCCL's rule); `owner`
 *             sees to it for our own work, and keeps an abort from another thread apart from it. `lock` guards what
 *             is observed and decided; it is never held across a real NCCL call.
 * Errors      A communicator that cannot be set up for lack of memory makes its call fail with ncclSystemError, as NCCL
 *             does: to pass alone, when the other ranks do not, would hang them. When a birth could not be entered into the
 *             table, its call fails, and so does every use of a handle that is not listed: it might be that one.
 */
#ifndef INTERPOSE_COMM_COMM_H
#define INTERPOSE_COMM_COMM_H

#include <pthread.h>
#include <stdatomic.h>

#include "interpose/agree/agree.h"
#include "interpose/comm/allgathers.h"
#include "interpose/comm/call.h"
#include "interpose/comm/progress.h"
#include "interpose/policy/registered_memory.h"
#include "interpose/policy/topology.h"
#include "interpose/stats/ledger.h"
#include "kernels/codec/device.h"
#include "kernels/codec/chunks.h"
#include "layermap/model/parts.h"
#include "layermap/model/select.h"

struct tagc_slot {
  struct tagc_shape shape;          /* of what is compressed. n = 0: the element type cannot be */
  struct tagc_layout layout;        /* of the pieces together */
  struct tagc_chunks pieces;        /* in which its calls are compressed (chunking.h) */
  struct tagc_layout piece[TAGC_CHUNKS];
  const struct tagc_codec *codec;
  bool all_reduce;                  /* of which the shape has one shard, and all but the last few elements: the tail */
  struct tagc_allgather_phase allgather_phase;   /* then: how its sums are gathered */
  struct tagc_allgather_chunks allgather_phase_chunks;
  enum tagc_op op;
  bool sorted;                      /* its layer is known, and with it: */
  enum tagc_selection selection;
  struct tagc_parts *parts;         /* selected in part (partial.h); else NULL */
  bool owns_parts;                  /* and not another slot, which is like it */
  uint64_t shard;                   /* with parts: elements of a whole shard */
  enum tagc_reason reason;          /* of the vote: TAGC_REASON_compressed, or why its calls pass */
  const struct tagc_codec *held;    /* the codec that memory is held for; NULL: none is */
  void *residual;                   /* device memory, NULL: none */
  uint64_t residual_bytes;          /* of it */
  bool residual_empty;              /* its content is void */
  void *tally;                      /* of a device that counts by itself; NULL: none */
  uint64_t residual_cycle;          /* the cycle that changed it last */
  bool dirty;                       /* compressed since the last flush */
  uint64_t compressed_calls;        /* seeds are made from this */
  bool state_due;                   /* it is to be sampled for the trace (loss_samples.h) */
  unsigned surplus_calls;           /* the last so many had more values than room for them on some rank */
  enum tagc_reason barred;          /* what was seen of its calls before the vote that no codec can do with; compressed: nothing */
  struct tagc_home home;            /* where its gradients lie, for reports */
  bool looked, seen;                /* TAGC_CODEC=auto: its gradient was to be looked at, and was (ledger.h: its own survey) */
  bool known;                       /* and all ranks have had a look by the last vote */
};

/* Sub-communicators of a communicator in two levels: the ranks of this host, and those of this local index. */
enum tagc_level { TAGC_LEVEL_HOST, TAGC_LEVEL_BETWEEN, TAGC_LEVELS };

/* How calls in two levels, and those that go on as they came, are kept in the order in which they are made (hierarchy.h). */
struct tagc_order {
  bool kept;
  bool levels_known, behind_known;  /* are the streams known? */
  cudaStream_t levels;              /* that of the last call in two levels */
  cudaStream_t behind;              /* the last one that was made to wait for that call, or its own */
  bool plain_unfenced;              /* since then calls have gone on as they came on its stream */
  bool plain_fenced;                /* and on others: */
  void *plain_fence;                /* set behind the last one of these */
};

/* Who works on the communicator. Changed by compare-and-swap alone. */
enum tagc_owner { TAGC_OWNER_NONE, TAGC_OWNER_LIBRARY, TAGC_OWNER_NCCL, TAGC_OWNER_ABORTED };

struct tagc_comm {
  ncclComm_t handle;
  const struct tagc_nccl *nccl;     /* the copy of NCCL that made it */
  atomic_int references;
  atomic_int owner;                 /* enum tagc_owner */
  atomic_bool abort_over;           /* the real library has aborted it, and launches nothing more of it */
  atomic_bool in_driver;            /* our thread is inside the device's driver, and reads or writes the program's buffers */
  int rank, nranks;
  uint32_t trace;                   /* its number in the trace of this process; 0: none */
  atomic_int strands;               /* of launches, at work on other threads (beside.h) */
  bool nonblocking;                 /* known from its configuration, or from an answer of the real library */
  atomic_bool returns_at_once;      /* non-blocking, and the real library has said so itself: its own settings may overrule all */
  bool agreed;                      /* all ranks have the library and the same options */
  uint32_t host;                    /* with `agreed`: the number of this rank's host */
  uint64_t identity;                /* struct tagc_origin */
  bool shares;                      /* the connections of its parent */
  const struct tagc_device *device; /* NULL: no codec for its memory */

  /* Since the first vote (hierarchy.h). */
  struct tagc_topology topology;
  bool located;                     /* it is known */
  bool captured;                    /* some call of it was captured into a CUDA graph */
  bool split;                       /* they have tried to, once and for all; all ranks or none */
  _Atomic(ncclComm_t) level[TAGC_LEVELS];   /* NULL: not there */
  atomic_int askers;                /* threads that ask NCCL about these */
  struct tagc_scope_plan settled;   /* what follows from where the ranks are */
  struct tagc_scope_plan scope;     /* of the last vote */

  pthread_mutex_t lock;
  struct tagc_cycle *cycle;
  uint64_t lock_number;             /* how often a cycle was locked */
  uint64_t cycle_number;            /* cycles started since the lock */
  bool on_track;                    /* the last call was */
  bool strayed;                     /* since some call was not, no cycle has begun behind one that was */
  struct tagc_layers *layers;       /* of the slots; NULL: nobody asked for them */
  bool selection_told;              /* what TAGC_LAYERS and TAGC_SKIP name in vain has been said, once and for all */
  struct tagc_slot *slots;
  size_t slot_count;
  struct tagc_allgather *allgathers; /* of parameters, in the order of their calls; none with TAGC_ALLGATHER=off */
  size_t allgather_count;
  uint64_t vote_cycle;              /* the vote on this lock is due in this cycle, or was held in it */
  bool voted;
  uint32_t votes;                   /* on this lock so far */
  bool all_to_all;                  /* messages go by ncclAlltoAll: the vote has found it faster */
  bool keeps_residuals;             /* some slot has one; all ranks alike */
  bool nonfinite;                   /* some rank's gradient of this cycle was not finite */
  uint8_t *workspace;               /* device memory for the payloads of a call */
  size_t workspace_bytes;
  _Atomic(void *) lane;             /* where calls in pieces are encoded and decoded; NULL: none is */
  void *health;                     /* of the device (device.h); NULL: not needed */
  void *fence;                      /* set behind the last work on our memory, whatever stream it was on */
  bool unfenced;                    /* an abort was over before that could be done: nobody knows when the memory is free */
  struct tagc_order order;
  uint64_t cycle_began_ns;          /* monotonic clock; 0: none has begun */
  bool cycle_disturbed;             /* it is no measurement of a step */
  struct tagc_traffic cycle_began, cycle_began_gathers;   /* ledger->sent then, and ledger->gather_sent */
  struct tagc_ledger *ledger;
  struct tagc_live live;
  void *timer;                      /* of its plain calls (timing.h); NULL: none yet */
  uint64_t state_cycle;             /* in which the last slot was sampled (loss_samples.h), ... */
  double state_ms;                  /* ... and how long that has taken in it */
  struct tagc_background *background;   /* non-blocking: the last launch, until the program knows how it ended */
};

/* The communicator of a handle, made at its first use, with a reference; the agreement of the ranks is asked for then.
 * NULL, and *status: what the real library said of the handle; ncclSystemError without memory; ncclRemoteError where the
 * agreement, or the birth, is lost; ncclInternalError where it was aborted while the agreement was asked for. */
struct tagc_comm *tagc_comm_acquire(ncclComm_t handle, const struct tagc_nccl *nccl, ncclResult_t *status);
/* The same, where it has been used already and is still alive; otherwise NULL. */
struct tagc_comm *tagc_comm_find(ncclComm_t handle);
void tagc_comm_retain(struct tagc_comm *comm);
void tagc_comm_release(struct tagc_comm *comm);
/* Of every communicator that is freed: `end` frees first what the rooms above keep in it. Set once, before there is one. */
void tagc_comm_at_end(void (*end)(struct tagc_comm *comm));
bool tagc_comm_is_aborted(const struct tagc_comm *comm);

/* TAGC_CODEC=auto: why slot i has its codec; otherwise NULL. */
static inline struct tagc_grounds *tagc_comm_grounds(const struct tagc_comm *comm, size_t i)
{
  return tagc_ledger_row(comm->ledger, (int)i)->grounds;
}

/* For the table (table.c). */
/* Where the communicator's buffers are; NULL: where no codec runs. Whether there is one at all is equal on all ranks: they have the same
 * NCCL, and have told one another of their drivers (agree.c). What goes wrong here alone is therefore an error. */
ncclResult_t tagc_comm_find_device(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device **device);
/* With one reference. NULL without memory. */
struct tagc_comm *tagc_comm_create(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device *device, int rank,
                                   int nranks);

/* A handle was given out; whatever was known under it is forgotten. False without memory: the caller must not get it, for it
 * would pass through here alone. */
bool tagc_comm_born(ncclComm_t handle, bool nonblocking, const struct tagc_agreement *agreement);
/* The real library has taken the call that initialises a communicator from ids, with `status`; `group`: it waits for the end of the
 * group that this thread has open in that copy (NULL: there is none). When the init is over, the agreement is asked for before the
 * program hears of it (agree.h): this and the next two block then. */
void tagc_comm_init_is_called(ncclComm_t handle, const struct tagc_nccl *group, ncclResult_t status);
/* The outermost group of this thread has ended, with `status`. */
void tagc_comm_group_is_over(const struct tagc_nccl *nccl, ncclResult_t status);
/* The real library says of a communicator that nothing is under way, and nothing has failed. */
void tagc_comm_has_succeeded(ncclComm_t handle);
/* A child's handle will be stored at `where`: when the thread's group ends, or when a non-blocking parent is ready. False
 * without memory. */
bool tagc_comm_expect(ncclComm_t parent, ncclComm_t *where, bool nonblocking, const struct tagc_agreement *agreement);
/* Takes note of the children that have been stored by now. `failed`: those of `parent` never will be; with NULL for the
 * parent, those that this thread expects. False without memory. */
bool tagc_comm_collect(ncclComm_t parent, bool failed);
/* What the ranks of a communicator have agreed on, as far as it is known. */
struct tagc_agreement tagc_comm_agreement(ncclComm_t handle);
/* The same, asked for where it is not known yet and the communicator is ready: children inherit it. Blocks (agree.h). */
struct tagc_agreement tagc_comm_settle(ncclComm_t handle, const struct tagc_nccl *nccl);
/* A child of `parent` is asked for by `function`: its identity (struct tagc_origin), equal where the same `size` bytes are said.
 * 0: not known. */
uint64_t tagc_comm_child_identity(ncclComm_t parent, enum tagc_entry function, const void *said, size_t size);
/* How many ranks a communicator has that was born here; 0 where it is not ready, or none of those. */
int tagc_comm_ranks(ncclComm_t handle, const struct tagc_nccl *nccl);
/* Was the handle announced as non-blocking? Split and shrunk communicators inherit it. */
bool tagc_comm_is_nonblocking(ncclComm_t handle);
/* A handle has been finalized. What is returned, perhaps NULL, is the caller's to release. */
struct tagc_comm *tagc_comm_forget(ncclComm_t handle);

/* What was known of a handle that is about to be destroyed. NULL for the handle: nothing. */
struct tagc_leave {
  ncclComm_t handle;
  bool nonblocking;
  struct tagc_agreement agreement;
  struct tagc_comm *comm;           /* a reference; perhaps NULL */
};

/* Takes the handle off the table, for it may be another's as soon as it is destroyed. When the real library has done so, the
 * caller releases the communicator: until then it may still work on our memory. Its reductions are forgotten when the
 * handle is given out again. */
struct tagc_leave tagc_comm_take_leave(ncclComm_t handle);
/* The real library has refused: all is as it was. False without memory: the handle can no longer be used. */
bool tagc_comm_stay(const struct tagc_leave *leave);
/* A handle is about to be aborted, or has been revoked, perhaps while another thread uses it: waits for our own work on it,
 * not for NCCL's. What is returned, perhaps NULL, is released after the real library's abort. */
struct tagc_comm *tagc_comm_abort(ncclComm_t handle);

/* The real library has answered ncclInProgress to a call on the communicator, `alone` or in a group with others: one
 * non-blocking communicator is enough to make a group say so. */
static inline void tagc_comm_is_in_progress(struct tagc_comm *comm, bool alone)
{
  if (alone)
    comm->nonblocking = true;
  if (comm->nonblocking)
    comm->returns_at_once = true;
}

/* Changes the owner of different communicators; false when one of them has been aborted: those before it have then
 * changed, too (but from NONE none has). From NONE it waits while another thread works on a communicator, as the calls of
 * two threads on one communicator must be made one after the other. */
bool tagc_comms_enter(struct tagc_comm *const *comms, size_t count, enum tagc_owner from, enum tagc_owner to);
/* Makes them idle again, but for those that have been aborted. */
void tagc_comms_leave(struct tagc_comm *const *comms, size_t count);

/* What is enqueued on a device may wait inside its driver, for memory or for room in a queue, until work is done that nothing but an
 * abort may end. So between these two, communicators that are ours are NCCL's: an abort goes ahead. Both give false where some
 * communicator has been aborted; the second one follows the first one in any case. On host memory nothing happens. */
bool tagc_comms_enter_driver(struct tagc_comm *const *comms, size_t count);
bool tagc_comms_leave_driver(struct tagc_comm *const *comms, size_t count);
/* Between the two: can the program's streams be used, and can they not be gone? For an abort that is not over waits for us. */
bool tagc_comm_has_streams(const struct tagc_comm *comm);
/* After the real library's abort, before the program may free its buffers: waits until our thread has left the driver, but for no more
 * than a second, as it may be kept there by another communicator that is to be aborted next. NULL: nothing to do. */
void tagc_comm_abort_is_over(struct tagc_comm *comm);
/* Until an abort is over, NCCL's own thread may be at memory that a non-blocking communicator was called with; the abort waits for
 * that, and not for us. Waits for its end, a second at most, out of the driver. False where it has not come. */
bool tagc_comm_await_abort(const struct tagc_comm *comm);

/* The cycle of the next vote: the first one on this lock, or with TAGC_BUDGET another one. 0: none. */
static inline uint64_t tagc_comm_next_vote(const struct tagc_comm *comm)
{
  return comm->voted ? tagc_retune_next(comm->ledger->retune) : comm->vote_cycle;
}

/* Is there still a vote to come on the lock under which the call was observed? Call it with the lock held. */
bool tagc_comm_awaits_vote(const struct tagc_comm *comm, const struct tagc_call *call);

/* Before the vote: a call of a slot is of a kind that cannot be compressed, for a reason that other ranks may not have. They hear of it
 * in the vote. Call it with the lock held. */
void tagc_comm_bar(struct tagc_comm *comm, const struct tagc_call *call, enum tagc_reason reason);

/* Enters what a device has counted by itself for a call of a slot into its accounts, or, with -1, into those of former slots; false where
 * no other one is known by now. Call it without the lock. */
bool tagc_comm_read_tally(struct tagc_comm *comm, void *tally, int slot);

/* The same for an all-gather of parameters, by its place among them. */
bool tagc_comm_read_gather_tally(struct tagc_comm *comm, void *tally, int allgather);

/* An element type in the codecs' terms; false where it is none that can be compressed. */
bool tagc_comm_dtype(ncclDataType_t type, enum tagc_dtype *out);

/* User-defined reductions: pre-multiplied sums by handle and communicator. */
bool tagc_op_created(ncclRedOp_t op, ncclComm_t handle, ncclDataType_t type, const void *scalar, ncclScalarResidence_t where);
void tagc_op_destroyed(ncclRedOp_t op, ncclComm_t handle);
/* NCCL frees the ops of a communicator with it. */
void tagc_op_forget(ncclComm_t handle);
/* The kind of a reduction, and the scalar of a pre-multiplied sum (1 otherwise). One that lies in device memory is read where
 * the host can (`host_reads`); elsewhere it is *hidden. Ranks may keep theirs in different places, so the kind is the same. */
enum tagc_op tagc_op_kind(ncclRedOp_t op, ncclComm_t handle, ncclDataType_t type, bool host_reads, float *scale, bool *hidden);

#endif
