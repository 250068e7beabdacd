/* SPDX-License-Identifier: BSD-3-Clause
 * Carries out what the plan decided, over several communicators at once: prepare, {exponents}, encode, {payloads},
 * decode. Braces are groups of the real NCCL.
 */
#ifndef INTERPOSE_EXEC_EXECUTE_H
#define INTERPOSE_EXEC_EXECUTE_H

#include "interpose/exec/nccl_group.h"

/* Runs calls of different communicators whose decision is to compress or to flush; must be outside a real group. The
 * first error of the real library; ncclInternalError when a communicator was aborted meanwhile; ncclSystemError without
 * memory. After an error nothing has been decoded, but for pieces that had come where the call was cut; and residuals
 * of which a part was under way are given up, and counted. */
ncclResult_t tagc_execute(const struct tagc_nccl_group *real, struct tagc_call *const *calls, size_t count);

#endif
