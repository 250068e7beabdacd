/* SPDX-License-Identifier: BSD-3-Clause
 * Launches of non-blocking communicators: they run on a thread of their own, as NCCL's do.
 *
 * A call on a non-blocking communicator must not wait for other ranks: its thread may have to make their calls, or to
 * watch a timeout. So calls with several exchanges continue in the background. They return ncclInProgress, and so does
 * ncclCommGetAsyncError until they are over. Meanwhile this library refuses what NCCL refuses.
 *
 * Ownership   A launch holds copies of its calls and references to their communicators; a communicator refers to its
 *             last launch until the program has learned its result.
 * Threads     Any. A launch's thread takes no signals, has the caller's CUDA context, and ends with the launch.
 * Errors      If no thread can be started, the caller does the work itself: it may then wait, but nothing is lost.
 */
#ifndef INTERPOSE_ENTRY_BACKGROUND_H
#define INTERPOSE_ENTRY_BACKGROUND_H

#include "interpose/exec/nccl_group.h"

struct tagc_background;

typedef ncclResult_t tagc_launch_function(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count);

/* Starts `run` over copies of the calls, all of non-blocking communicators that are known (call->comm). The copies take
 * over the stamps of the trace. False if that is impossible. */
bool tagc_background_start(const struct tagc_nccl_group *real, tagc_launch_function *run, struct tagc_call *calls,
                           size_t count);

/* The state of the last launch on a communicator: ncclInProgress, its error, or ncclSuccess if there is none (any
 * more). Any handle, any thread. */
ncclResult_t tagc_background_ask(ncclComm_t handle);

/* Prepares the next call on a communicator. False while a launch is under way; forgets an error of the last one. */
bool tagc_background_clear(struct tagc_comm *comm);

/* ncclRedOpDestroy while a launch that may use the op is under way: true, and the launch destroys the op at its end. */
bool tagc_background_defer_destroy(ncclRedOp_t op, ncclComm_t handle);

/* Releases the launch of a communicator that is freed. */
void tagc_background_release(struct tagc_background *launch);

#endif
