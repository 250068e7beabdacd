/* SPDX-License-Identifier: BSD-3-Clause
 * Is a stream being captured into a CUDA graph?
 *
 * A captured call happens once, while its graph is launched again and again: it says nothing about steps, and must not
 * allocate, query or wait. So it passes, outside of any cycle. NCCL captures a call on all ranks or on none, so ranks
 * decide alike.
 * Threads: any. Cost: one load in processes without a CUDA driver; otherwise a call of the driver.
 */
#ifndef INTERPOSE_NCCL_CAPTURE_H
#define INTERPOSE_NCCL_CAPTURE_H

#include <stdbool.h>

#include "interpose/nccl/nccl_newer.h"

/* Finds the driver among the loaded libraries, at the first use of a communicator: NCCL has loaded it by then. */
void tagc_capture_find_driver(void);

bool tagc_capture_is_active(cudaStream_t stream);

#endif
