/* SPDX-License-Identifier: BSD-3-Clause
 * Work that goes on beside the thread that called NCCL: other threads, with that thread's CUDA context.
 */
#ifndef INTERPOSE_BESIDE_H
#define INTERPOSE_BESIDE_H

#include "interpose/call.h"

/* The CUDA context that is current in this thread; NULL: none, or the calls are on host memory. */
void *tagc_beside_context(const struct tagc_nccl *nccl);
/* Makes it current in another thread. */
void tagc_beside_enter(void *context);

struct tagc_beside_task {
  ncclResult_t (*run)(void *argument);
  void *argument;
};

/* Runs tasks that may wait for one another, on this thread and on others, and returns when all are over: the first error in their
 * order, or ncclSuccess. Where a thread cannot be had, this one does its task behind its own. */
ncclResult_t tagc_beside_run(const struct tagc_nccl *nccl, const struct tagc_beside_task *tasks, size_t count);

#endif
