/* SPDX-License-Identifier: BSD-3-Clause
 * A communicator: its cycle, its slots with their residuals, its memory and its accounts.
 *
 * Ownership   The table (table.h) holds one reference, every call under way another; the last one frees. A handle
 *             leaves the table before it is destroyed, so a recycled handle starts anew.
 * Threads     Calls on a communicator are made one at a time (NCCL's rule). Its owner (owner.h) ensures that for our
 *             own work, and separates it from an abort by another thread. `lock` guards what is observed and decided.
 *             No thread holds it across a real NCCL call.
 * Errors      Without memory for a communicator its call fails with ncclSystemError, as in NCCL: passing on one rank
 *             alone would hang the others. Without memory for an entry of the table its init fails, and so does every
 *             use of an unlisted handle: it might be that one.
 */
#ifndef INTERPOSE_COMM_COMM_H
#define INTERPOSE_COMM_COMM_H

#include <pthread.h>

#include "interpose/agree/agree.h"
#include "interpose/broadcast/references.h"
#include "interpose/comm/call.h"
#include "interpose/comm/observed.h"
#include "interpose/comm/owner.h"
#include "interpose/comm/placement.h"
#include "interpose/comm/progress.h"
#include "interpose/comm/slot.h"
#include "interpose/comm/sync.h"
#include "interpose/comm/traced.h"
#include "interpose/stats/ledger.h"
#include "kernels/codec/device.h"

struct tagc_comm {
  ncclComm_t handle;
  const struct tagc_nccl *nccl; /* the copy of NCCL that made it */
  atomic_int references;
  struct tagc_ownership ownership;
  int rank, nranks;
  struct tagc_agreement agreement;
  bool nonblocking;                 /* from its configuration, or from an answer of the real library */
  atomic_bool returns_at_once;      /* non-blocking, confirmed by the real library: its own settings may overrule all */
  const struct tagc_device *device; /* NULL: no codec for its memory */
  atomic_int strands;               /* of launches, at work on other threads (entry/beside.h) */
  struct tagc_background *background; /* non-blocking: the last launch, until the program knows how it ended */
  struct tagc_hierarchy hierarchy;
  struct tagc_sync sync;

  pthread_mutex_t lock;
  struct tagc_observed observed;
  struct tagc_layers *layers; /* of the slots; NULL: not needed */
  struct tagc_model *model;   /* TAGC_LAYERMAP=torch: all ranks have this map, since a vote; NULL: none */
  bool selection_told;        /* names in TAGC_LAYERS and TAGC_SKIP without a match were logged, once and for all */
  struct tagc_slot *slots;
  size_t slot_count;
  struct tagc_allgather *allgathers; /* of parameters, in call order; none with TAGC_ALLGATHER=off */
  size_t allgather_count;
  struct tagc_references broadcasts; /* TAGC_BROADCAST: what later ones refer to; with the calls of the communicator */
  struct tagc_comm_vote vote;
  struct tagc_comm_changes changes;
  struct tagc_comm_memory memory;

  struct tagc_ledger *ledger;
  struct tagc_progress progress;
  struct tagc_comm_trace trace;
};

void tagc_comm_retain(struct tagc_comm *comm);
void tagc_comm_release(struct tagc_comm *comm);
/* Sets `end`, which frees what the rooms above keep in a communicator before that is freed. Once, before any exists. */
void tagc_comm_at_end(void (*end)(struct tagc_comm *comm));

/* Do all ranks have the library and the same options? */
static inline bool tagc_comm_agreed(const struct tagc_comm *comm) { return comm->agreement.state == TAGC_AGREED_YES; }

/* TAGC_CODEC=auto: the reasons for slot i's codec; otherwise NULL. */
static inline struct tagc_decision_inputs *tagc_comm_decision_inputs(const struct tagc_comm *comm, size_t i) {
  return tagc_ledger_row(comm->ledger, (int)i)->inputs;
}

/* The real library has answered ncclInProgress to a call on the communicator, `alone` or in a group, where one
 * non-blocking one is enough. */
static inline void tagc_comm_is_in_progress(struct tagc_comm *comm, bool alone) {
  if (alone)
    comm->nonblocking = true;
  if (comm->nonblocking)
    comm->returns_at_once = true;
}

/* For the table (table.c). */
/* The device of the communicator's buffers; NULL: no codec runs there. All ranks have one or none: they have the same
 * NCCL and have exchanged facts about their drivers (agree.c). A failure on this rank alone is therefore an error. */
ncclResult_t tagc_comm_find_device(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device **device);
/* Returns it with one reference; NULL without memory. */
struct tagc_comm *tagc_comm_create(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device *device,
                                   int rank, int nranks);

/* Enters a device's counts for a call of a slot into its accounts; with -1 into those of former slots. False: no
 * further calls are known yet. Without the lock. */
bool tagc_comm_read_tally(struct tagc_comm *comm, void *tally, int slot);

/* The same for an all-gather of parameters, by its index. */
bool tagc_comm_read_allgather_tally(struct tagc_comm *comm, void *tally, int allgather);

/* Converts an element type; false if no codec compresses it. */
bool tagc_comm_dtype(ncclDataType_t type, enum tagc_dtype *out);

#endif
