/* SPDX-License-Identifier: BSD-3-Clause
 * Which handles there are: the agreement of each, from its init on, and its communicator, from its first use on.
 *
 * Threads    Any. The table has a lock of its own.
 */
#ifndef INTERPOSE_COMM_TABLE_H
#define INTERPOSE_COMM_TABLE_H

#include "interpose/comm/comm.h"

/* The communicator of a handle, made at its first use, with a reference; the agreement of the ranks is asked for then.
 * NULL, and *status: what the real library said of the handle; ncclSystemError without memory; ncclRemoteError where
 * the agreement, or its entry, is lost; ncclInternalError where it was aborted while the agreement was asked for. */
struct tagc_comm *tagc_comm_acquire(ncclComm_t handle, const struct tagc_nccl *nccl, ncclResult_t *status);
/* The same, where it has been used already and is still alive; otherwise NULL. */
struct tagc_comm *tagc_comm_find(ncclComm_t handle);

/* A handle was given out; whatever was known under it is forgotten. False without memory: the caller must not get it, for it
 * would pass through here alone. */
bool tagc_comm_add(ncclComm_t handle, bool nonblocking, const struct tagc_agreement *agreement);
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
struct tagc_agreement tagc_comm_ask_agreement(ncclComm_t handle, const struct tagc_nccl *nccl);
/* A child of `parent` is asked for by `function`: its identity (struct tagc_origin), equal where the same `size` bytes are said.
 * 0: not known. */
uint64_t tagc_comm_child_identity(ncclComm_t parent, enum tagc_entry function, const void *said, size_t size);
/* How many ranks a communicator has that was made here; 0 where it is not ready, or none of those. */
int tagc_comm_ranks(ncclComm_t handle, const struct tagc_nccl *nccl);
/* Was the handle announced as non-blocking? Split and shrunk communicators inherit it. */
bool tagc_comm_is_nonblocking(ncclComm_t handle);
/* A handle has been finalized. What is returned, perhaps NULL, is the caller's to release. */
struct tagc_comm *tagc_comm_drop(ncclComm_t handle);

/* What was known of a handle that is about to be destroyed. NULL for the handle: nothing. */
struct tagc_listed_comm {
  ncclComm_t handle;
  bool nonblocking;
  struct tagc_agreement agreement;
  struct tagc_comm *comm;           /* a reference; perhaps NULL */
};

/* Takes the handle off the table, for it may be another's as soon as it is destroyed. When the real library has done so, the
 * caller releases the communicator: until then it may still work on our memory. Its reductions are forgotten when the
 * handle is given out again. */
struct tagc_listed_comm tagc_comm_remove(ncclComm_t handle);
/* The real library has refused: all is as it was. False without memory: the handle can no longer be used. */
bool tagc_comm_restore(const struct tagc_listed_comm *removed);
/* A handle is about to be aborted, or has been revoked, perhaps while another thread uses it: waits for our own work on it,
 * not for NCCL's. What is returned, perhaps NULL, is released after the real library's abort. (owner.c) */
struct tagc_comm *tagc_comm_abort(ncclComm_t handle);

#endif
