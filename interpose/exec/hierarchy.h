/* SPDX-License-Identifier: BSD-3-Clause
 * Two levels: inside a host ranks sum plainly, and what is left goes compressed between hosts.
 *
 * A communicator that is called in two levels has two sub-communicators of ours, made by ncclCommSplit: the ranks of this
 * host in the order of their numbers, and one rank a host, those of this rank's local index (topology.h). They are made once, in the
 * first vote: outside of groups and captures, when everything enqueued before has run, on all ranks in the same order.
 * Where NCCL cannot split, or some rank's communicator is non-blocking, calls stay flat; where it refuses to, which it does on
 * all ranks, everything stays plain. A split that fails later fails the call: the other ranks wait in it, or have lost this one,
 * and up to 2.27 NCCL has aborted the communicator then, so that its next call would leave garbage behind.
 *
 * They live and die with the communicator: who aborts it aborts them, too, for a thread may be inside NCCL on their account;
 * after it is destroyed they are. What NCCL knows of their failure is told when the program asks about the communicator.
 * With NCCL_COMM_SPLIT_SHARE_RESOURCES an abort of one of them is one of all: none is aborted while the communicator is of use.
 *
 * Threads    As those of comm.h. Functions that enqueue are called between the start and the end of a real group.
 */
#ifndef INTERPOSE_EXEC_HIERARCHY_H
#define INTERPOSE_EXEC_HIERARCHY_H

#include "interpose/exec/nccl_group.h"

/* ---- the first vote -------------------------------------------------------------------------------------------------- */

/* Is it known, alike on all ranks, that every call of the communicator passes? Then there is nothing to tell. */
bool tagc_hierarchy_passes_all(const struct tagc_comm *comm);

/* Can this rank make sub-communicators? */
bool tagc_hierarchy_can_split(const struct tagc_comm *comm, const struct tagc_nccl_group *real);

/* Takes over where the ranks are, and whether all can split: comm->hierarchy.topology and comm->hierarchy.scope are
 * equal on all ranks then. The hosts count once: later host_of may be NULL. False without memory. Call it with the lock
 * held. */
bool tagc_hierarchy_locate(struct tagc_comm *comm, const uint32_t *host_of, bool can_split);

/* Makes the sub-communicators of those that want them, have a slot to use them for, and have not tried yet; they are
 * in TAGC_OWNER_LIBRARY. Where NCCL refuses, comm->hierarchy.scope says so. After an error the communicator is of no
 * use. */
ncclResult_t tagc_hierarchy_split(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count);

/* Every call of the communicator passes from now on, as it is not split: alike on all ranks. */
void tagc_hierarchy_disable(struct tagc_comm *comm);

/* Are those there that comm->hierarchy.scope asks for? Equal on all ranks: they are missing where no slot would use
 * them. */
bool tagc_hierarchy_is_ready(const struct tagc_comm *comm);

/* ---- a call ---------------------------------------------------------------------------------------------------------- */

/* Adds the first level to a group: the sums over this host, of the shards whose owners have this rank's local index. */
ncclResult_t tagc_hierarchy_sum(const struct tagc_nccl_group *real, const struct tagc_call *call,
                                const struct tagc_shape *shape, uint8_t *sums);

/* Adds to a group what makes small numbers of all ranks of this host the largest of them, in place. */
ncclResult_t tagc_hierarchy_max(const struct tagc_nccl_group *real, const struct tagc_call *call, int64_t *words,
                                size_t count);

/* Adds first contacts to a group: NCCL connects and allocates then, which must not happen in a step. `words`: so many int64 of
 * device memory. */
size_t tagc_hierarchy_connect_words(const struct tagc_comm *comm);
ncclResult_t tagc_hierarchy_connect(const struct tagc_nccl_group *real, const struct tagc_call *call, int64_t *words);

/* A call of the communicator is captured. Takes and drops the lock. */
void tagc_hierarchy_note_capture(struct tagc_comm *comm);

/* ---- how they fare, and their end ------------------------------------------------------------------------------------ */

/* What NCCL says of the sub-communicators of a handle; ncclSuccess where there are none. */
ncclResult_t tagc_hierarchy_error(ncclComm_t handle);

/* Opens a group of the real library for the end of the communicator and of its sub-communicators, if it has any: NCCL (from 2.22
 * on) tells all of them to stop before it waits for one, whose work may stand in a stream behind that of another one. The status
 * of the group where it was opened, otherwise `status`. NULL: nothing to do. */
bool tagc_hierarchy_open_group(const struct tagc_comm *comm);
ncclResult_t tagc_hierarchy_close_group(const struct tagc_comm *comm, bool opened, ncclResult_t status);

/* Aborts or destroys them, once, whoever comes first. NULL: nothing to do. */
void tagc_hierarchy_end(struct tagc_comm *comm, bool abort);

#endif
