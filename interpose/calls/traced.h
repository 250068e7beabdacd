/* SPDX-License-Identifier: BSD-3-Clause
 * Calls and cycles as records of TAGC_TRACE (trace/trace.h), which is asked first whether there is one.
 *
 * Threads     Any, but where it says whose lock is held.
 */
#ifndef INTERPOSE_CALLS_TRACED_H
#define INTERPOSE_CALLS_TRACED_H

#include "interpose/comm/traced.h"

/* ---- calls (trace_calls.c) --------------------------------------------------------------------------------------- */

/* The program makes a call: stamps it. */
void tagc_trace_enter(struct tagc_call *call);
/* The program gets its thread back; the record comes later. */
void tagc_trace_return(struct tagc_call *call);
/* The way of a call ends: its record is written, and what is left of it has no number any more. */
void tagc_trace_call(struct tagc_call *call, ncclResult_t result);
/* The communicator's lock is held: what its cycle says of a call that is accounted for. */
void tagc_trace_account(const struct tagc_comm *comm, struct tagc_call *call);

/* What a rank sends for a plain call, by the algorithms that NCCL uses between hosts (NCCL 2.28, src/graph/tuning.cc,
 * weighs them): bytes as a mean over the ranks of its host, where they go as in kernels/codec/cost.h. W ranks, n =
 * count elements:
 *   ReduceScatter, AllGather       ring                      (W-1) n
 *   AllReduce                      ring: both of these       2 (W-1)/W n
 *   Broadcast, Reduce              chain along the ring      n, and nothing by its last rank (the one before the root,
 *                                  and the root)
 *   AlltoAll                       all to all                (W-1) n
 *   Gather, Scatter                to, and from the root     n by all but the root, (W-1) n by the root
 *   Send, PutSignal                                          n
 * A tree sends as much for an all-reduce or a broadcast as these do, in sum over the ranks. Where messages go to ranks
 * of which nobody knows where they are, they are shared out between the hosts as all peers are. `rank`: -1 where it is
 * not known. */
struct tagc_traffic tagc_trace_sent(const struct tagc_call *call, int rank, const struct tagc_hosts *hosts);
/* Bytes of the send buffer. */
uint64_t tagc_trace_raw_bytes(const struct tagc_call *call, int rank, int nranks);

/* ---- cycles (trace_cycles.c); with the communicator's lock ------------------------------------------------------- */

void tagc_trace_lock(struct tagc_comm *comm, const struct tagc_slot_info *slots, size_t count);
void tagc_trace_vote(struct tagc_comm *comm, uint64_t cycle);
void tagc_trace_cycle(const struct tagc_comm *comm, uint64_t cycle, uint64_t ended_ns, int side, bool disturbed);

#endif
