/* SPDX-License-Identifier: BSD-3-Clause
 * Is a stream being captured into a CUDA graph?
 *
 * A captured call happens once, while the graph that it becomes part of is launched again and again: it tells nothing
 * of the steps, may not allocate, ask or wait, and so passes, outside of any cycle. NCCL captures a call on all ranks
 * or on none, so that ranks decide alike.
 * Threads: any. Cost: one load in processes that have no CUDA driver; a call of the driver otherwise.
 */
#ifndef INTERPOSE_NCCL_CAPTURE_H
#define INTERPOSE_NCCL_CAPTURE_H

#include <stdbool.h>

#include "interpose/nccl/nccl_newer.h"

/* Looks for the driver among the libraries that are loaded. Call it when a communicator is first used: NCCL has loaded
 * the driver by then, if there is one. */
void tagc_capture_find_driver(void);

bool tagc_capture_is_active(cudaStream_t stream);

#endif
