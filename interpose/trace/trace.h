/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_TRACE=PREFIX: every intercepted call, and the library's facts about it, as a file a process (format.h).
 *
 * What     One CALL record for each call of an entry (entries.def) by the program, and none for calls by this library
 *          or by NCCL itself. With TAGC_MODE=observe calls pass and are traced; with TAGC_MODE=off they only pass.
 * Names    PREFIX-HOST-pid1234.trace, of at most TAGC_TRACE_MAX bytes; if an earlier run has left that file,
 *          PREFIX-HOST-pid1234-2.trace, and so on
 * When     Records go into a buffer of TAGC_TRACE_BUFFER bytes. A thread writes them when half of it is full or a fifth
 *          of a second has passed. Records without room are counted, and the file says how many were lost. A killed
 *          process loses its unwritten records; a forked child writes its own file (none before Linux 4.14).
 * Harm     None. An existing file is not touched, and no link is followed. If the file cannot be written, one warning
 *          says why, and the trace ends with the last whole chunk. The same happens if the program closes the file's
 *          number, which may be its next file's (env/files.h). Calls, errno and signals stay as they are.
 * Ranks    Need not agree on it. Off, it costs a load and a branch a call.
 * Threads  Any; a lock of its own, held for a copy, under which no function is called.
 *
 * A call's record is written at the end of its way: by its adapter (entries.c, dispatch.c), for held-back calls at the
 * end of their group (group.c), for launches in the background at their end (background.c). The code that takes a call
 * over takes its stamp, and leaves the other copy without a number.
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

/* The trace's part of a call until its record is written. */
struct tagc_trace_stamp {
  uint64_t number; /* 0: the call is not traced */
  uint64_t began_ns;
  uint64_t host_ns;      /* 0: the call has not returned to the program */
  uint32_t comm, thread; /* as in struct tagc_trace_call */
  uint8_t flags;
  bool known; /* the bytes it sends, and its buffer, are known: */
  uint64_t raw_bytes;
  struct tagc_traffic sent, plain;
  ncclResult_t result; /* returned by an adapter */
};

/* Codes of ops beyond ncclRedOp_t's own, and the code for no type or no op. */
enum { TAGC_TRACE_OP_PREMULSUM = 5, TAGC_TRACE_OP_OTHER = 6, TAGC_TRACE_NO_CODE = 255 };

extern atomic_bool tagc_trace_is_on;

static inline bool tagc_trace_on(void) { return atomic_load_explicit(&tagc_trace_is_on, memory_order_relaxed); }

/* Starts the trace, after the options were read. Called once. */
void tagc_trace_start(const struct tagc_options *options);

/* Adds a copy of a record. */
void tagc_trace_add(const struct tagc_trace_record *record);
/* Is this thread in tagc_trace_add()? Then a signal's handler that ends the process has interrupted it. */
bool tagc_trace_is_adding(void);

/* ---- between these files ----------------------------------------------------------------------------------------- */

/* Begins the trace of this process; false without one. */
bool tagc_trace_begin(void);
/* Add the records at the begin of a file (names.c); the PROCESS record again, when the version of NCCL is known. */
void tagc_trace_head(void);
void tagc_trace_process(int nccl_version);
/* A number for a call that is being made, from 1. */
uint64_t tagc_trace_number(void);
/* Sets, before tagc_trace_start(), the function called in a forked child: its trace has none of its parent's
 * communicators. */
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
/* Puts `count` texts behind the record's `size` bytes, cut to fit, sets its kind and length, and adds it. */
void tagc_trace_add_texts(union tagc_trace_room *room, enum tagc_trace_kind kind, size_t size, const char *const *texts,
                          size_t count);

#endif
