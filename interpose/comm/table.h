/* SPDX-License-Identifier: BSD-3-Clause
 * Which handles there are: the agreement of each, from its init on, and its communicator, from its first use on.
 *
 * Threads    Any. The table has a lock of its own.
 */
#ifndef INTERPOSE_COMM_TABLE_H
#define INTERPOSE_COMM_TABLE_H

#include "interpose/comm/comm.h"

/* The communicator of a handle, with a reference. Its first use makes it, and asks for the agreement of its ranks.
 * NULL, and *status: the real library's answer to the handle; ncclSystemError without memory; ncclRemoteError without
 * an agreement; ncclInternalError if it was aborted meanwhile. */
struct tagc_comm *tagc_comm_acquire(ncclComm_t handle, const struct tagc_nccl *nccl, ncclResult_t *status);
/* The same if it has been used already and is still alive; else NULL. */
struct tagc_comm *tagc_comm_find(ncclComm_t handle);

/* A handle was given out, and its former entry ends. False without memory: the program must not get it, for its calls
 * would pass here alone. */
bool tagc_comm_add(ncclComm_t handle, bool nonblocking, const struct tagc_agreement *agreement);
/* The real library has taken the init of a communicator from ids, with `status`. `group`: it waits for the end of the
 * group that this thread has open in that copy; NULL: there is none. When the init is over, this and the next two ask
 * for the agreement before they return (agree.h), and block. */
void tagc_comm_init_is_called(ncclComm_t handle, const struct tagc_nccl *group, ncclResult_t status);
/* The outermost group of this thread has ended, with `status`. */
void tagc_comm_group_is_over(const struct tagc_nccl *nccl, ncclResult_t status);
/* By the real library nothing is under way on a communicator, and nothing has failed. */
void tagc_comm_has_succeeded(ncclComm_t handle);
/* NCCL will store the handle of a child at `where` when the thread's group ends, or when a non-blocking parent is
 * ready. False without memory. */
bool tagc_comm_expect(ncclComm_t parent, ncclComm_t *where, bool nonblocking, const struct tagc_agreement *agreement);
/* Adds the children that NCCL has stored by now. `failed`: it never will store those of `parent`, or with NULL those
 * that this thread expects. False without memory. */
bool tagc_comm_collect(ncclComm_t parent, bool failed);
/* The agreement of the ranks of a communicator, as far as it is known. */
struct tagc_agreement tagc_comm_agreement(ncclComm_t handle);
/* The same; asks for one that is not known yet if the communicator is ready, for children inherit it. Blocks
 * (agree.h). */
struct tagc_agreement tagc_comm_ask_agreement(ncclComm_t handle, const struct tagc_nccl *nccl);
/* The identity (struct tagc_origin) of a child that `function` makes of `parent`: equal where the same `size` bytes are
 * said. 0: not known. */
uint64_t tagc_comm_child_identity(ncclComm_t parent, enum tagc_entry function, const void *said, size_t size);
/* The number of ranks of a communicator that was made here; 0: it is not ready, or none of those. */
int tagc_comm_ranks(ncclComm_t handle, const struct tagc_nccl *nccl);
/* Was the handle announced as non-blocking? Children inherit that. */
bool tagc_comm_is_nonblocking(ncclComm_t handle);
/* A handle has been finalized. The caller releases its communicator, or NULL. */
struct tagc_comm *tagc_comm_drop(ncclComm_t handle);

/* What is known of a handle. NULL for the handle: nothing. */
struct tagc_listed_comm {
  ncclComm_t handle;
  bool nonblocking;
  struct tagc_agreement agreement;
  struct tagc_comm *comm; /* a reference; perhaps NULL */
};

/* Takes a handle off the table, for it may be another's as soon as it is destroyed. The caller releases the
 * communicator when the real library has destroyed it: until then it may use our memory. Its reductions stay until the
 * handle is given out again. */
struct tagc_listed_comm tagc_comm_remove(ncclComm_t handle);
/* The real library has refused: all is as it was. False without memory: the handle is of no use any more. */
bool tagc_comm_restore(const struct tagc_listed_comm *removed);
/* A handle is about to be aborted, or has been revoked, perhaps while another thread uses it. Waits for our own work on
 * it, not for NCCL's. The caller releases its communicator, or NULL, after the real library's abort. (owner.c) */
struct tagc_comm *tagc_comm_abort(ncclComm_t handle);

#endif
