/* SPDX-License-Identifier: BSD-3-Clause
 * Calls and cycles as records of TAGC_TRACE (trace/trace.h). Functions first check if there is a trace.
 *
 * Threads     Any, unless a comment names a lock.
 */
#ifndef INTERPOSE_CALLS_TRACED_H
#define INTERPOSE_CALLS_TRACED_H

#include "interpose/comm/traced.h"

/* ---- calls (trace_calls.c) --------------------------------------------------------------------------------------- */

/* Stamps a call that the program makes. */
void tagc_trace_enter(struct tagc_call *call);
/* The call returns to the program; the record comes later. */
void tagc_trace_return(struct tagc_call *call);
/* The call ends: writes its record, and clears its number. */
void tagc_trace_call(struct tagc_call *call, ncclResult_t result);
/* Notes the cycle's findings about a call that is accounted for. The communicator's lock is held. */
void tagc_trace_account(const struct tagc_comm *comm, struct tagc_call *call);

/* The bytes that a rank sends for a plain call, by the algorithms that NCCL uses between hosts (NCCL 2.28,
 * src/graph/tuning.cc, weighs them): a mean over the ranks of its host, split as in kernels/codec/cost.h. W ranks, n =
 * count elements:
 *   ReduceScatter, AllGather       ring                      (W-1) n
 *   AllReduce                      ring: both of these       2 (W-1)/W n
 *   Broadcast, Reduce              chain along the ring      n, and nothing by its last rank (the one before the root,
 *                                  and the root)
 *   AlltoAll                       all to all                (W-1) n
 *   Gather, Scatter                to, and from the root     n by all but the root, (W-1) n by the root
 *   Send, PutSignal                                          n
 * Summed over the ranks, a tree sends as much for an all-reduce or a broadcast. Messages to ranks on unknown hosts are
 * divided among the hosts as if they went to all peers. `rank`: -1 if not known. */
struct tagc_traffic tagc_trace_sent(const struct tagc_call *call, int rank, const struct tagc_hosts *hosts);
/* The bytes of the send buffer. */
uint64_t tagc_trace_raw_bytes(const struct tagc_call *call, int rank, int nranks);

/* ---- cycles (trace_cycles.c); with the communicator's lock ------------------------------------------------------- */

void tagc_trace_lock(struct tagc_comm *comm, const struct tagc_slot_info *slots, size_t count);
void tagc_trace_vote(struct tagc_comm *comm, uint64_t cycle);
void tagc_trace_cycle(const struct tagc_comm *comm, uint64_t cycle, uint64_t ended_ns, int side, bool disturbed);

#endif
