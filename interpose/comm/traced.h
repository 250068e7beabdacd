/* SPDX-License-Identifier: BSD-3-Clause
 * Communicators and times of calls as records of TAGC_TRACE (trace/trace.h). Ask tagc_trace_on() first.
 *
 * Threads     Any, unless a comment names a lock.
 */
#ifndef INTERPOSE_COMM_TRACED_H
#define INTERPOSE_COMM_TRACED_H

#include "interpose/agree/agree.h"
#include "interpose/comm/call.h"
#include "interpose/trace/trace.h"
#include "layermap/cycle/cycle.h"

/* TAGC_TRACE's state of a communicator. */
struct tagc_comm_trace {
  uint32_t number;       /* in the trace of this process; 0: none */
  void *timer;           /* for its plain calls (exec/timing.h); NULL: none yet */
  uint64_t sample_cycle; /* the cycle of the last sampled slot (exec/loss_samples.h), ... */
  double sample_ms;      /* ... and the time that sampling has taken in it */
};

/* ---- communicators (trace_comms.c) ------------------------------------------------------------------------------- */

/* For tagc_trace_at_restart(): forgets all communicators. */
void tagc_trace_forget_comms(void);
/* NCCL gave out a handle. */
void tagc_trace_comm_begins(ncclComm_t handle, bool nonblocking, const struct tagc_origin *origin);
/* The number of a handle; 0: none. */
uint32_t tagc_trace_comm(ncclComm_t handle);
/* The rank in the communicator (-1: unknown), and the hosts (nranks: 0 if unknown). Asks NCCL if that cannot block. */
int tagc_trace_place(ncclComm_t handle, struct tagc_hosts *hosts);
/* Records the facts known about a communicator; an unseen handle gets its number here. */
void tagc_trace_introduce(struct tagc_comm *comm);
/* The communicator of that number and handle has ended; `stays`: the program may still destroy the handle. */
void tagc_trace_comm_ends(uint32_t number, ncclComm_t handle, uint16_t function, bool stays);

/* ---- times (accounts.c) ------------------------------------------------------------------------------------------ */

/* Milliseconds. */
struct tagc_times {
  double sum, encode, exchange, decode;
  double hidden;       /* the hidden part of encode and decode */
  bool hidden_unknown; /* then encode and decode are only what the stream shows of them */
};

/* The device times of one call; call: its number, 0: not traced. */
void tagc_times_add(const struct tagc_comm *comm, uint64_t call, const struct tagc_times *times);

/* Reads the timer of a communicator's plain calls, if enough is known to be worth it. */
void tagc_times_read(struct tagc_comm *comm);

/* The communicator is being freed: reads the rest, and frees the timer. */
void tagc_times_finish(struct tagc_comm *comm);

#endif
