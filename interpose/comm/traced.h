/* SPDX-License-Identifier: BSD-3-Clause
 * Communicators, and the times of calls, as records of TAGC_TRACE (trace/trace.h), which is asked first whether there
 * is one.
 *
 * Threads     Any, but where it says whose lock is held.
 */
#ifndef INTERPOSE_COMM_TRACED_H
#define INTERPOSE_COMM_TRACED_H

#include "interpose/agree/agree.h"
#include "interpose/comm/call.h"
#include "interpose/trace/trace.h"
#include "layermap/cycle/cycle.h"

/* What TAGC_TRACE keeps of a communicator. */
struct tagc_comm_trace {
  uint32_t number;       /* its own in the trace of this process; 0: none */
  void *timer;           /* of its plain calls (exec/timing.h); NULL: none yet */
  uint64_t sample_cycle; /* in which the last slot was sampled (exec/loss_samples.h), ... */
  double sample_ms;      /* ... and how long that has taken in it */
};

/* ---- communicators (trace_comms.c) ------------------------------------------------------------------------------- */

/* For tagc_trace_at_restart(): nothing is known of any communicator any more. */
void tagc_trace_forget_comms(void);
/* A handle was given out. */
void tagc_trace_comm_begins(ncclComm_t handle, bool nonblocking, const struct tagc_origin *origin);
/* The number of a handle; 0: none. */
uint32_t tagc_trace_comm(ncclComm_t handle);
/* The rank in it (-1: not known), and who shares a host (nranks: 0 where it is not known). Asks NCCL where that cannot
 * block. */
int tagc_trace_place(ncclComm_t handle, struct tagc_hosts *hosts);
/* What is known of a communicator by now; a handle that nobody has seen before gets its number here. */
void tagc_trace_introduce(struct tagc_comm *comm);
/* The communicator of that number and handle has ended; `stays`: the handle is still one that may be destroyed. */
void tagc_trace_comm_ends(uint32_t number, ncclComm_t handle, uint16_t function, bool stays);

/* ---- times (accounts.c) ------------------------------------------------------------------------------------------ */

/* Milliseconds. */
struct tagc_times {
  double sum, encode, exchange, decode;
  double hidden;       /* of encode and decode */
  bool hidden_unknown; /* then encode and decode are what the stream has seen of them */
};

/* A call of the communicator took so long on its device; call: its number, 0: it is not traced. */
void tagc_times_add(const struct tagc_comm *comm, uint64_t call, const struct tagc_times *times);

/* Reads what the timer of a communicator's plain calls knows by now, if that is enough to be worth it. */
void tagc_times_read(struct tagc_comm *comm);

/* The communicator is freed: reads the rest, and frees the timer. */
void tagc_times_finish(struct tagc_comm *comm);

#endif
