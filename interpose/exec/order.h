/* SPDX-License-Identifier: BSD-3-Clause
 * The order of calls in two levels and of plain calls, which go on as they came.
 *
 * NCCL runs the calls on a communicator one after the other, on whatever streams they are made. A kernel waits for its
 * peers: if GPUs ran several kernels in different orders, they could wait for one another for ever. NCCL knows no order
 * between three communicators, so fences keep it: a call in two levels runs after all plain calls before it, and plain
 * calls run after it. Calls that a CUDA graph has captured are out of reach: their communicator stays flat, as far as
 * its votes know of them.
 *
 * A stream keeps its own order. So plain calls cost nothing on the stream of the calls in two levels. On another stream
 * the first of them waits, and each sets the fence. The next call in two levels cannot set it later: by then the stream
 * may have gone on, even to wait for that call, or be gone.
 *
 * Threads    As the calls of a communicator: one at a time.
 */
#ifndef INTERPOSE_EXEC_ORDER_H
#define INTERPOSE_EXEC_ORDER_H

#include "interpose/comm/comm.h"

/* From now on, or no more. */
void tagc_order_keep(struct tagc_comm *comm, bool keep);
/* The communicator of a handle if it is one of those, with a reference; else NULL. */
struct tagc_comm *tagc_order_find(ncclComm_t handle);
/* Before a call goes on as it came, and when it has been launched. Nothing where the order is not kept (NULL is
 * allowed). */
void tagc_order_before_plain(struct tagc_comm *comm, cudaStream_t stream);
void tagc_order_after_plain(struct tagc_comm *comm, cudaStream_t stream);
/* Before a call in two levels, which waits for comm->sync.fence itself, and when that is set behind it, or could not
 * be. */
bool tagc_order_before_call(struct tagc_comm *comm, cudaStream_t stream);
void tagc_order_after_call(struct tagc_comm *comm, cudaStream_t stream, bool fenced);

#endif
