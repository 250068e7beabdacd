/* SPDX-License-Identifier: BSD-3-Clause
 * The table of handles: the agreement of each from its init on, its communicator from its first use on.
 *
 * Threads    Any. The table has its own lock.
 */
#ifndef INTERPOSE_COMM_TABLE_H
#define INTERPOSE_COMM_TABLE_H

#include "interpose/comm/comm.h"

/* Returns the communicator of a handle, with a reference. Its first use makes it and asks for the agreement of its
 * ranks. NULL, and *status: the real library's answer to the handle; ncclSystemError without memory; ncclRemoteError
 * without an agreement; ncclInternalError if it was aborted meanwhile. */
struct tagc_comm *tagc_comm_acquire(ncclComm_t handle, const struct tagc_nccl *nccl, ncclResult_t *status);
/* The same if it was used before and is still alive; else NULL. */
struct tagc_comm *tagc_comm_find(ncclComm_t handle);

/* NCCL gave out a handle; its former entry ends. False without memory: the program must not get the handle, for its
 * calls would pass on this rank alone. */
bool tagc_comm_add(ncclComm_t handle, bool nonblocking, const struct tagc_agreement *agreement);
/* The real library has taken the init of a communicator from ids, with `status`. `group`: the init waits for the end of
 * the group that this thread has open in that copy; NULL: no group. When the init is over, this and the next two ask
 * for the agreement before they return (agree.h), and block. */
void tagc_comm_init_is_called(ncclComm_t handle, const struct tagc_nccl *group, ncclResult_t status);
/* This thread's outermost group has ended, with `status`. */
void tagc_comm_group_is_over(const struct tagc_nccl *nccl, ncclResult_t status);
/* The real library reports that nothing is under way on a communicator, and nothing has failed. */
void tagc_comm_has_succeeded(ncclComm_t handle);
/* NCCL will store a child's handle at `where` when this thread's group ends (`grouped`), or a non-blocking parent is
 * ready. False without memory. */
bool tagc_comm_expect(ncclComm_t parent, ncclComm_t *where, bool grouped, bool nonblocking,
                      const struct tagc_agreement *agreement);
/* NCCL's work on `parent`, or with NULL that of this thread's group, has ended with `status`: adds the children that it
 * has stored, and expects the others no more. After a failure it has stored none, and their memory is not read. False
 * without memory. */
bool tagc_comm_children_done(ncclComm_t parent, ncclResult_t status);
/* Is some child of the parent expected? */
bool tagc_comm_expects(ncclComm_t parent);
/* Adds a handle that the program uses, if it is a child that is expected. False without memory. */
bool tagc_comm_add_expected(ncclComm_t handle);
/* The agreement of a communicator's ranks, as far as it is known. */
struct tagc_agreement tagc_comm_agreement(ncclComm_t handle);
/* The same, but asks for an unknown one (children inherit it) if the communicator is ready. Blocks (agree.h). */
struct tagc_agreement tagc_comm_ask_agreement(ncclComm_t handle, const struct tagc_nccl *nccl);
/* The identity (struct tagc_origin) of a child that `function` makes of `parent`: equal for equal `said`. 0:
 * unknown. */
uint64_t tagc_comm_child_identity(ncclComm_t parent, enum tagc_entry function, const void *said, size_t size);
/* The number of ranks of a communicator that was made here; 0: not ready, or not made here. */
int tagc_comm_ranks(ncclComm_t handle, const struct tagc_nccl *nccl);
/* The program has made a device communicator of it: its kernels send what nobody here sees. For reports. */
void tagc_comm_has_device_comm(ncclComm_t handle);
/* Was the handle announced as non-blocking? Children inherit that. */
bool tagc_comm_is_nonblocking(ncclComm_t handle);
/* Removes a handle that was finalized. The caller releases the returned communicator, or NULL. */
struct tagc_comm *tagc_comm_drop(ncclComm_t handle);

/* An entry of the table. NULL for the handle: none. */
struct tagc_listed_comm {
  ncclComm_t handle;
  bool nonblocking;
  bool device_comm;  /* kernels of the program send on it */
  bool uneven;       /* its ranks have made different numbers of children */
  uint32_t children; /* made so far */
  struct tagc_agreement agreement;
  struct tagc_comm *comm; /* holds a reference; may be NULL */
};

/* What is listed of a handle, without a reference to its communicator (NULL). */
struct tagc_listed_comm tagc_comm_listed(ncclComm_t handle);

/* Takes a handle off the table: once destroyed, its address may be another's. The caller releases the communicator when
 * the real library has destroyed it, as it uses our memory until then. Its reductions stay until it is given out
 * again. */
struct tagc_listed_comm tagc_comm_remove(ncclComm_t handle);
/* Undoes the removal: the real library has refused. False without memory: the handle is unusable. */
bool tagc_comm_restore(const struct tagc_listed_comm *removed);
/* A handle is about to be aborted, or was revoked, perhaps while another thread uses it. Waits for our own work on it,
 * not for NCCL's. The caller releases the returned communicator, or NULL, after the real library's abort. (owner.c) */
struct tagc_comm *tagc_comm_abort(ncclComm_t handle);

#endif
