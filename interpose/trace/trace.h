/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_TRACE=PREFIX: every call that is intercepted, and what the library knows of it, as a file a process (format.h).
 *
 * What     One CALL record for each call of an entry (entries.def) that the program makes, and for none that is made here or by NCCL
 *          itself; with TAGC_MODE=observe the program's bytes go as they came, and only this is done, with TAGC_MODE=off nothing.
 * Names    PREFIX-HOST-pid1234.trace, of at most TAGC_TRACE_MAX bytes; where that is there from an earlier run
 *          PREFIX-HOST-pid1234-2.trace, and so on
 * When     Records go into a buffer of TAGC_TRACE_BUFFER bytes, and a thread of its own writes them, when half of it is full or
 *          a fifth of a second has passed. What there is no room for is counted, and the file says how many were lost.
 *          A process that is killed loses what was not written; a forked child writes a file of its own (on Linux 4.14 and later;
 *          none on older ones).
 * Harm     None: a file that is there is not touched, and no link is followed; where it cannot be written a warning says why,
 *          once, and the trace ends with the last whole chunk; the same where the program closes the file's number, which
 *          may be its next file's (env/files.h). Calls, errno and signals stay as they are.
 * Ranks    Need not agree on it. Off, it costs a load and a branch a call.
 * Threads  Any; a lock of its own, which is held for a copy, and under which nothing is called.
 *
 * A call's record is written where its way ends: by its adapter (entries.c, dispatch.c), for calls that are held back when their
 * group has ended (group.c), for launches in the background when these are over (background.c). Whoever takes a call over takes its
 * stamp, and leaves the other copy without a number.
 */
#ifndef INTERPOSE_TRACE_H
#define INTERPOSE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/nccl/nccl_newer.h"
#include "interpose/trace/format.h"
#include "kernels/codec/cost.h"

struct tagc_call;
struct tagc_comm;
struct tagc_nccl;
struct tagc_options;
struct tagc_slot_info;

/* What a call carries with it until its record is written. */
struct tagc_trace_stamp {
  uint64_t number;                  /* 0: the call is not traced */
  uint64_t began_ns;
  uint64_t host_ns;                 /* 0: the program's thread is still in it */
  uint32_t comm, group, thread;     /* as in struct tagc_trace_call */
  uint8_t flags;
  bool known;                       /* what it sends, and hands over: */
  uint64_t raw_bytes;
  struct tagc_traffic sent, plain;
  ncclResult_t result;              /* what an adapter returns */
};

/* Codes of ops beyond ncclRedOp_t's own, and what says that a call has no type, or no op. */
enum { TAGC_TRACE_OP_PREMULSUM = 5, TAGC_TRACE_OP_OTHER = 6, TAGC_TRACE_NO_CODE = 255 };

extern atomic_bool tagc_trace_is_on;

static inline bool tagc_trace_on(void) { return atomic_load_explicit(&tagc_trace_is_on, memory_order_relaxed); }

/* The options have been read. Called once. */
void tagc_trace_start(const struct tagc_options *options);

/* Adds a record, which is copied. */
void tagc_trace_add(const struct tagc_trace_record *record);

/* Nanoseconds of the monotonic clock. */
uint64_t tagc_trace_ns(void);

/* ---- calls (trace_calls.c) ------------------------------------------------------------------------------------------- */

/* The program makes a call: stamps it. */
void tagc_trace_enter(struct tagc_call *call);
/* The program gets its thread back; the record comes later. */
void tagc_trace_return(struct tagc_call *call);
/* The way of a call ends: its record is written, and what is left of it has no number any more. */
void tagc_trace_call(struct tagc_call *call, ncclResult_t result);
/* The communicator's lock is held: what its cycle says of a call that is accounted for. */
void tagc_trace_account(const struct tagc_comm *comm, struct tagc_call *call);

/* What a rank sends for a plain call, by the algorithms that NCCL uses between hosts (NCCL 2.28, src/graph/tuning.cc, weighs them):
 * bytes as a mean over the ranks of its host, where they go as in kernels/codec/cost.h. W ranks, n = count elements:
 *   ReduceScatter, AllGather       ring                      (W-1) n
 *   AllReduce                      ring: both of these       2 (W-1)/W n
 *   Broadcast, Reduce              chain along the ring      n, and nothing by its last rank (the one before the root, and the root)
 *   AlltoAll                       all to all                (W-1) n
 *   Gather, Scatter                to, and from the root     n by all but the root, (W-1) n by the root
 *   Send, PutSignal                                          n
 * A tree sends as much for an all-reduce or a broadcast as these do, in sum over the ranks. Where messages go to ranks of which nobody
 * knows where they are, they are shared out between the hosts as all peers are. `rank`: -1 where it is not known. */
struct tagc_traffic tagc_trace_sent(const struct tagc_call *call, int rank, const struct tagc_hosts *hosts);
/* Bytes of the send buffer. */
uint64_t tagc_trace_raw_bytes(const struct tagc_call *call, int rank, int nranks);
/* Bytes of an element. */
size_t tagc_trace_type_size(ncclDataType_t type);

/* ---- communicators (trace_comms.c) ----------------------------------------------------------------------------------- */

/* Where a communicator comes from. */
struct tagc_trace_birth {
  const struct tagc_nccl *nccl;     /* NULL: no record is wanted */
  uint64_t identity;                /* equal on all ranks of the communicator, and on no other one's; 0: not known. Known without a
                                     * trace, too: groups are run in its order (launch.h) */
  uint32_t parent;
  int32_t rank, nranks;             /* -1: NCCL is asked */
  uint16_t function;
};

/* A handle was given out. */
void tagc_trace_born(ncclComm_t handle, bool nonblocking, const struct tagc_trace_birth *birth);
/* The number of a handle; 0: none. */
uint32_t tagc_trace_comm(ncclComm_t handle);
/* The rank in it (-1: not known), and who shares a host (nranks: 0 where it is not known). Asks NCCL where that cannot block. */
int tagc_trace_place(ncclComm_t handle, struct tagc_hosts *hosts);
/* What is known of a communicator by now; a handle that nobody has seen before gets its number here. */
void tagc_trace_introduce(struct tagc_comm *comm);
/* The communicator of that number and handle has ended; `stays`: the handle is still one that may be destroyed. */
void tagc_trace_comm_ends(uint32_t number, ncclComm_t handle, uint16_t function, bool stays);

/* ---- cycles (trace_cycles.c); with the communicator's lock ------------------------------------------------------------- */

void tagc_trace_lock(struct tagc_comm *comm, const struct tagc_slot_info *slots, size_t count);
void tagc_trace_vote(struct tagc_comm *comm, uint64_t cycle);
void tagc_trace_cycle(const struct tagc_comm *comm, uint64_t cycle, uint64_t ended_ns, int side, bool disturbed);

/* ---- between these files ----------------------------------------------------------------------------------------------- */

/* Is there a trace of this process? Begins it. */
bool tagc_trace_begin(void);
/* Records that a file begins with (names.c); the PROCESS record again, when the version of NCCL is known. */
void tagc_trace_head(void);
void tagc_trace_process(int nccl_version);
/* A forked child has none of its parent's communicators. */
void tagc_trace_forget_comms(void);
/* Calls made so far. */
uint64_t tagc_trace_calls(void);
void tagc_trace_forget_calls(void);

/* A record with room for texts behind it. */
union tagc_trace_room {
  struct tagc_trace_record record;
  struct tagc_trace_process process;
  struct tagc_trace_name name;
  struct tagc_trace_options options;
  struct tagc_trace_lock lock;
  struct tagc_trace_slot slot;
  struct tagc_trace_vote vote;
  struct tagc_trace_allgather allgather;
  char bytes[8192];
};
/* Puts `count` texts behind the `size` bytes that the record has, sets its kind and length, and adds it. What does not fit is cut. */
void tagc_trace_add_texts(union tagc_trace_room *room, enum tagc_trace_kind kind, size_t size, const char *const *texts, size_t count);

#endif
