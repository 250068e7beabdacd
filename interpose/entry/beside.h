/* SPDX-License-Identifier: BSD-3-Clause
 * Work beside the thread that called NCCL: other threads, with that thread's CUDA context.
 */
#ifndef INTERPOSE_ENTRY_BESIDE_H
#define INTERPOSE_ENTRY_BESIDE_H

#include "interpose/exec/nccl_group.h"

/* The CUDA context for another thread that runs these calls of this thread: its current one, or, for a green context,
 * the primary one. NULL: none, or the calls are on host memory. */
void *tagc_beside_context(const struct tagc_call *calls, size_t count);
/* Other streams wait for the default stream, which the current context decides. */
bool tagc_beside_is_default(cudaStream_t stream);
/* Makes it current in another thread. */
void tagc_beside_enter(void *context);

/* Calls that run one after the other. */
struct tagc_strand {
  struct tagc_call *calls;
  size_t count;
};

typedef ncclResult_t tagc_strand_function(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count);

/* Runs strands that may wait for one another, each on a thread. Their calls lie in a row from strands[0].calls on.
 * Returns when all are over, or as soon as one has failed. The others then go on until their communicators are aborted:
 * the ranks that they wait for may wait for that abort. Threads work on copies of the calls, which are copied back when
 * all are over. ncclSystemError without memory or without a thread: this thread could not run two strands at a time. */
ncclResult_t tagc_beside_run(const struct tagc_nccl_group *real, const struct tagc_strand *strands, size_t count,
                             tagc_strand_function *run);

#endif
