/* SPDX-License-Identifier: BSD-3-Clause
 * Executes the plan's decisions, over several communicators at once: prepare, {exponents}, encode, {payloads}, decode.
 * Braces are groups of the real NCCL.
 */
#ifndef INTERPOSE_EXEC_EXECUTE_H
#define INTERPOSE_EXEC_EXECUTE_H

#include "interpose/exec/nccl_group.h"

/* Runs calls of different communicators that are to be compressed or flushed; not inside a real group. Returns the
 * first error of the real library; ncclInternalError if a communicator was aborted meanwhile; ncclSystemError without
 * memory. After an error nothing has been decoded, except chunks that had already arrived. Residuals that were partly
 * under way are dropped, and counted. */
ncclResult_t tagc_execute(const struct tagc_nccl_group *real, struct tagc_call *const *calls, size_t count);

/* Does the host wait for other ranks in this call, if it is compressed, even on a GPU? */
bool tagc_execute_waits(const struct tagc_call *call);

#endif
