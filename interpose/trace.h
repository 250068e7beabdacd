/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_TRACE=PREFIX: every call that is intercepted, and what the library knows of it, as a file a process (trace_format.h).
 *
 * What     One CALL record for each call of an entry (entries.def) that the program makes, and for none that is made here or by NCCL
 *          itself; with TAGC_MODE=observe the program's bytes go as they came, and only this is done.
 * Names    PREFIX-HOST-pid1234.trace
 * When     Records go into a buffer of TAGC_TRACE_BUFFER bytes, and a thread of its own writes them, when half of it is full or
 *          a fifth of a second has passed. What there is no room for is counted, and the file says how many were lost.
 *          A process that is killed loses what was not written; a forked child writes a file of its own.
 * Harm     None: a file that is there is not touched, and no link is followed; where it cannot be written a warning says why,
 *          once, and the trace ends with the last whole chunk. Calls, errno and signals stay as they are.
 * Ranks    Need not agree on it. Off, it costs a load and a branch a call.
 * Threads  Any; a lock of its own, which is held for a copy, and under which nothing is called.
 */
#ifndef INTERPOSE_TRACE_H
#define INTERPOSE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/trace_format.h"

/* What a call carries with it until its record is written. */
struct tagc_trace_stamp {
  uint64_t number;                  /* 0: the call is not traced */
  uint64_t began_ns;
};

extern atomic_bool tagc_trace_is_on;

static inline bool tagc_trace_on(void) { return atomic_load_explicit(&tagc_trace_is_on, memory_order_relaxed); }

/* Adds a record, which is copied. */
void tagc_trace_add(const struct tagc_trace_record *record);

#endif
