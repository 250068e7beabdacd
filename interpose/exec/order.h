/* SPDX-License-Identifier: BSD-3-Clause
 * The order of calls in two levels and of plain calls.
 *
 * NCCL runs the calls on a communicator one after the other, on whatever streams they are made. A kernel waits for its
 * peers: if GPUs ran several kernels in different orders, they could wait for one another for ever. NCCL keeps no order
 * between three communicators, so fences do: a call in two levels runs after all plain calls before it, and plain calls
 * run after it. Captured calls cannot be ordered: their communicator stays flat, as far as its votes see them.
 *
 * So each plain call waits for the last call in two levels, and sets a fence: two requests to the driver. Streams are
 * not compared to save them: a handle may be that of a new stream. The next call in two levels could not set the fence
 * later: by then the stream may have gone on, even to wait for that call, or be gone.
 *
 * Threads    As the calls of a communicator: one at a time.
 */
#ifndef INTERPOSE_EXEC_ORDER_H
#define INTERPOSE_EXEC_ORDER_H

#include "interpose/comm/comm.h"

/* Starts or stops keeping the order of a communicator. */
void tagc_order_keep(struct tagc_comm *comm, bool keep);
/* The communicator of a handle if its order is kept, with a reference; else NULL. */
struct tagc_comm *tagc_order_find(ncclComm_t handle);
/* Before a plain call, and when it has been launched. They do nothing if the order is not kept (NULL is allowed). */
void tagc_order_before_plain(struct tagc_comm *comm, cudaStream_t stream);
void tagc_order_after_plain(struct tagc_comm *comm, cudaStream_t stream);
/* Before a call in two levels, which waits for comm->sync.fence itself; false: the device has failed, now or after an
 * earlier plain call. And after that fence was set behind it. */
bool tagc_order_before_call(struct tagc_comm *comm, cudaStream_t stream);
void tagc_order_after_call(struct tagc_comm *comm);

#endif
