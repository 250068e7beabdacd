/* SPDX-License-Identifier: BSD-3-Clause
 * Launches of non-blocking communicators: they run on a thread of their own, as NCCL's do.
 *
 * A call on a non-blocking communicator must not wait for other ranks: the thread that made it may have to make theirs,
 * or to watch the clock. So what takes several exchanges goes on in the background; the call returns ncclInProgress,
 * and ncclCommGetAsyncError says so until it is over. What NCCL refuses meanwhile is refused here, too.
 *
 * Ownership   A launch holds copies of its calls and references to their communicators; a communicator refers to its
 *             last launch until the program has been told how that ended.
 * Threads     Any. The thread of a launch takes no signals, has the CUDA context of the one that made the calls, and
 *             ends with the launch.
 * Errors      Where a thread cannot be had, the caller does the work itself: it may then wait, but nothing is lost.
 */
#ifndef INTERPOSE_ENTRY_BACKGROUND_H
#define INTERPOSE_ENTRY_BACKGROUND_H

#include "interpose/exec/nccl_group.h"

struct tagc_background;

typedef ncclResult_t tagc_launch_function(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count);

/* Starts `run` over copies of the calls, all of non-blocking communicators that are known (call->comm); these have the
 * traces' stamps from then on. False where that is impossible. */
bool tagc_background_start(const struct tagc_nccl_group *real, tagc_launch_function *run, struct tagc_call *calls,
                           size_t count);

/* How the last launch on a communicator stands: ncclInProgress, its error, or ncclSuccess when there is none (any
 * more). Any handle may be asked for, by any thread. */
ncclResult_t tagc_background_ask(ncclComm_t handle);

/* The next call on a communicator comes. False while a launch is under way; an error of the last one is forgotten
 * now. */
bool tagc_background_clear(struct tagc_comm *comm);

/* ncclRedOpDestroy while a launch that may use the op is under way: true, and the op is destroyed after it. */
bool tagc_background_defer_destroy(ncclRedOp_t op, ncclComm_t handle);

/* A communicator is freed. */
void tagc_background_release(struct tagc_background *launch);

#endif
