/* SPDX-License-Identifier: BSD-3-Clause
 * Two levels: the ranks of a host sum plainly, and the sums go compressed between hosts.
 *
 * A communicator in two levels has two sub-communicators of ours, made by ncclCommSplit. Intra-node: the ranks of this
 * host in the order of their numbers. Inter-node: one rank a host, those of this rank's local index (topology.h). The
 * first vote makes them, once: outside of groups and captures, behind all earlier work, on all ranks in the same order.
 * If NCCL cannot split, or some rank's communicator is non-blocking, calls stay flat. If NCCL refuses to split, which
 * it does on all ranks, all calls pass. A split that fails later fails the call: the other ranks wait in it, or have
 * lost this one. Up to 2.27 NCCL has then also aborted the communicator, whose next call would leave garbage.
 *
 * With TAGC_CODEC=precise the ranks of a host exchange their values instead, and the codec adds them without error
 * (kernels/none/levels.h): the bits of flat calls. On a GPU its host waits in each call, to know whether values must
 * follow (README.md).
 *
 * The sub-communicators live as long as the communicator. An abort of it aborts them first, because a thread may be
 * inside NCCL on their account; a destroy ends them afterwards. Their errors are returned when the program asks about
 * the communicator. If they share its connections (splitShare), an abort of one aborts all, so none is aborted before
 * the communicator.
 *
 * Threads    As in comm.h. Functions that enqueue are called between the start and the end of a real group.
 */
#ifndef INTERPOSE_EXEC_HIERARCHY_H
#define INTERPOSE_EXEC_HIERARCHY_H

#include "interpose/exec/nccl_group.h"

/* ---- the first vote ---------------------------------------------------------------------------------------------- */

/* Do all ranks know that every call of the communicator passes? Then no vote is needed. */
bool tagc_hierarchy_passes_all(const struct tagc_comm *comm);

/* Can this rank make sub-communicators? */
bool tagc_hierarchy_can_split(const struct tagc_comm *comm, const struct tagc_nccl_group *real);

/* Sets comm->hierarchy from the ranks' hosts and whether all can split: it is then equal on all ranks. The hosts count
 * once: later host_of may be NULL. False without memory. With the lock. */
bool tagc_hierarchy_locate(struct tagc_comm *comm, const uint32_t *host_of, bool can_split);

/* Makes the sub-communicators of those that want them, have a slot to use them for, and have not tried yet. The library
 * owns the communicators. If NCCL refuses, the scope says so. After an error the communicator is unusable. */
ncclResult_t tagc_hierarchy_split(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count);

/* On all ranks: gives up splitting the communicator, and every call of it passes from now on. */
void tagc_hierarchy_disable(struct tagc_comm *comm);

/* Do the scope's sub-communicators exist? Equal on all ranks: they are missing if no slot would use them. */
bool tagc_hierarchy_is_ready(const struct tagc_comm *comm);

/* ---- a call ------------------------------------------------------------------------------------------------------ */

/* Adds the first level to a group: the sums over this host, of the shards whose owners have this rank's local index. */
ncclResult_t tagc_hierarchy_sum(const struct tagc_nccl_group *real, const struct tagc_call *call,
                                const struct tagc_shape *shape, uint8_t *sums);

/* The first level with exact sums: adds to a group the exchange of the values of this host's ranks for those shards.
 * `from`: the scaled values of all shards. `values`: a part for each local rank, which has a shard for every host; the
 * own part is copied before, by the device. */
bool tagc_hierarchy_copy_own(const struct tagc_call *call, const struct tagc_shape *shape, const uint8_t *from,
                             uint8_t *values);
ncclResult_t tagc_hierarchy_gather(const struct tagc_nccl_group *real, const struct tagc_call *call,
                                   const struct tagc_shape *shape, const uint8_t *from, uint8_t *values);

/* Adds the exchange of values with another host, whose messages lack sums: sends them if its own does `out`, receives
 * them at the same places of `in` if the other one's does. Both sides know both. */
ncclResult_t tagc_hierarchy_exchange_values(const struct tagc_nccl_group *real, const struct tagc_call *call,
                                            const struct tagc_shape *shape, int host, const uint8_t *out, uint8_t *in);

/* Adds to a group a max all-reduce of `count` words among the ranks of this host, in place. */
ncclResult_t tagc_hierarchy_max(const struct tagc_nccl_group *real, const struct tagc_call *call, int64_t *words,
                                size_t count);

/* Adds first contacts to a group: NCCL then connects and allocates, but not in a step. `words`: device memory. */
size_t tagc_hierarchy_connect_words(const struct tagc_comm *comm);
ncclResult_t tagc_hierarchy_connect(const struct tagc_nccl_group *real, const struct tagc_call *call, int64_t *words);

/* Notes that a call of the communicator is captured. Takes and drops the lock. */
void tagc_hierarchy_note_capture(struct tagc_comm *comm);

/* ---- how they fare, and their end -------------------------------------------------------------------------------- */

/* The error of a handle's sub-communicators; ncclSuccess if it has none. */
ncclResult_t tagc_hierarchy_error(ncclComm_t handle);

/* Opens a group of the real library for the end of the communicator and of its sub-communicators, if it has any. From
 * 2.22 on NCCL stops all of them before it waits for one, whose work may stand in a stream behind another's. Closing
 * returns the status of the group if it was opened, else `status`. NULL: nothing to do. */
bool tagc_hierarchy_open_group(const struct tagc_comm *comm);
ncclResult_t tagc_hierarchy_close_group(const struct tagc_comm *comm, bool opened, ncclResult_t status);

/* Aborts or destroys them, once, whichever thread comes first. NULL: nothing to do. */
void tagc_hierarchy_end(struct tagc_comm *comm, bool abort);

#endif
