/* SPDX-License-Identifier: BSD-3-Clause
 * How long calls take: with TAGC_TRACE where they run, as TIMES records (trace/format.h), and with TAGC_BUDGET
 * (budget/retune.h).
 *
 * Plain      On a GPU an event before the call on its stream, and one behind it: what is between them is the call, and
 *            what it waits for, other ranks included. Calls inside a group of several are not timed, for its end
 *            launches them, nor those that are captured. On host memory a plain call is over when it returns: host_ns
 *            of its record tells.
 * Compressed By the marks of the slot's tally, and what the side stream did for the call (device.h); on host memory
 * execute.c has a clock.
 * Reading    What devices know is read when enough has come together, and at the end of the communicator; nobody waits
 *            for it. What has not ended by then, or could not be kept (64 plain calls under way, two of a slot), has no
 *            record.
 * Budget     On memory of the host: how long a call of a slot has kept the program. A device tells in its tally.
 * Cost       Without a trace and a budget two branches a call.
 * Threads    As the calls of a communicator: one at a time. Around NCCL's call, not while the library owns the
 *            communicator.
 */
#ifndef INTERPOSE_EXEC_TIMING_H
#define INTERPOSE_EXEC_TIMING_H

#include "interpose/comm/call.h"

/* A call that goes on as it came. */
struct tagc_timing {
  const struct tagc_call *call; /* NULL: it is not timed */
  int begun;                    /* of the device's timer; -1: not */
  uint64_t began_ns;            /* TAGC_BUDGET: 0: not */
};

/* It is about to. tagc_times_end() when it has been launched, or has failed. */
struct tagc_timing tagc_times_begin(const struct tagc_call *call);
void tagc_times_end(const struct tagc_timing *timing, ncclResult_t status);

/* TAGC_BUDGET: a call that began then is over. Calls that a sample or a vote disturbed do not count. */
void tagc_times_spent(const struct tagc_call *call, uint64_t began_ns);

#endif
