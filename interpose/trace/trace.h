/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_TRACE=PREFIX: every call that is intercepted, and what the library knows of it, as a file a process (format.h).
 *
 * What     One CALL record for each call of an entry (entries.def) that the program makes, and for none that is made
 *          here or by NCCL itself; with TAGC_MODE=observe the program's bytes go as they came, and only this is done,
 *          with TAGC_MODE=off nothing.
 * Names    PREFIX-HOST-pid1234.trace, of at most TAGC_TRACE_MAX bytes; where that is there from an earlier run
 *          PREFIX-HOST-pid1234-2.trace, and so on
 * When     Records go into a buffer of TAGC_TRACE_BUFFER bytes, and a thread of its own writes them, when half of it is
 *          full or a fifth of a second has passed. What there is no room for is counted, and the file says how many
 *          were lost. A process that is killed loses what was not written; a forked child writes a file of its own (on
 *          Linux 4.14 and later; none on older ones).
 * Harm     None: a file that is there is not touched, and no link is followed; where it cannot be written a warning
 *          says why, once, and the trace ends with the last whole chunk; the same where the program closes the file's
 *          number, which may be its next file's (env/files.h). Calls, errno and signals stay as they are.
 * Ranks    Need not agree on it. Off, it costs a load and a branch a call.
 * Threads  Any; a lock of its own, which is held for a copy, and under which nothing is called.
 *
 * A call's record is written where its way ends: by its adapter (entries.c, dispatch.c), for calls that are held back
 * when their group has ended (group.c), for launches in the background when these are over (background.c). Whoever
 * takes a call over takes its stamp, and leaves the other copy without a number.
 */
#ifndef INTERPOSE_TRACE_TRACE_H
#define INTERPOSE_TRACE_TRACE_H

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
  uint64_t number; /* 0: the call is not traced */
  uint64_t began_ns;
  uint64_t host_ns;      /* 0: the program's thread is still in it */
  uint32_t comm, thread; /* as in struct tagc_trace_call */
  uint8_t flags;
  bool known; /* what it sends, and hands over: */
  uint64_t raw_bytes;
  struct tagc_traffic sent, plain;
  ncclResult_t result; /* what an adapter returns */
};

/* Codes of ops beyond ncclRedOp_t's own, and what says that a call has no type, or no op. */
enum { TAGC_TRACE_OP_PREMULSUM = 5, TAGC_TRACE_OP_OTHER = 6, TAGC_TRACE_NO_CODE = 255 };

extern atomic_bool tagc_trace_is_on;

static inline bool tagc_trace_on(void) { return atomic_load_explicit(&tagc_trace_is_on, memory_order_relaxed); }

/* The options have been read. Called once. */
void tagc_trace_start(const struct tagc_options *options);

/* Adds a record, which is copied. */
void tagc_trace_add(const struct tagc_trace_record *record);

/* ---- between these files ----------------------------------------------------------------------------------------- */

/* Is there a trace of this process? Begins it. */
bool tagc_trace_begin(void);
/* Records that a file begins with (names.c); the PROCESS record again, when the version of NCCL is known. */
void tagc_trace_head(void);
void tagc_trace_process(int nccl_version);
/* The number of a call that is made now, from 1. */
uint64_t tagc_trace_number(void);
/* What is called when a trace begins anew, in a forked child: that has none of its parent's communicators. Set once,
 * before tagc_trace_start(). */
void tagc_trace_at_restart(void (*forget)(void));

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
/* Puts `count` texts behind the `size` bytes that the record has, sets its kind and length, and adds it. What does not
 * fit is cut. */
void tagc_trace_add_texts(union tagc_trace_room *room, enum tagc_trace_kind kind, size_t size, const char *const *texts,
                          size_t count);

#endif
