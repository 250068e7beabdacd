/* SPDX-License-Identifier: BSD-3-Clause
 * The times of calls: for TAGC_TRACE as TIMES records (trace/format.h), for TAGC_BUDGET (budget/retune.h), and for
 * TAGC_METRICS as sums.
 *
 * Plain      On a GPU, events on the stream before and behind the call: the time between them includes all that the
 *            call waits for, even other ranks. Calls inside a group of several are not timed, for its end launches
 *            them; nor are captured ones. On host memory a plain call is over when it returns: host_ns of its record is
 *            its time.
 * Compressed By the marks of the slot's tally, and the side stream's work for the call (device.h); on host memory by a
 *            clock of execute.c.
 * Reading    Times of devices are read when enough have come together, and at the end of the communicator; nobody waits
 *            for them. A call that has not ended by then, or had no room (64 plain calls, two of a slot), has no
 *            record.
 * Budget     On host memory: how long a call of a slot has kept the program. A device uses its tally.
 * Metrics    The times of plain calls add up in the ledger, as far as they are measured: on a GPU as above, on host
 *            memory by the clock. A compressed call has its times there in any case.
 * Cost       Without a trace, a budget and metrics three branches a call.
 * Threads    As the calls of a communicator: one at a time. Not while the library owns the communicator.
 */
#ifndef INTERPOSE_EXEC_TIMING_H
#define INTERPOSE_EXEC_TIMING_H

#include "interpose/comm/call.h"

/* The timing of a plain call. */
struct tagc_timing {
  const struct tagc_call *call; /* NULL: not timed */
  int begun;                    /* number in the device's timer; -1: none */
  uint64_t began_ns;            /* for TAGC_BUDGET and TAGC_METRICS; 0: none */
};

/* The call is about to be made. Call tagc_times_end() when it has been launched, or has failed. */
struct tagc_timing tagc_times_begin(const struct tagc_call *call);
void tagc_times_end(const struct tagc_timing *timing, ncclResult_t status);

/* TAGC_BUDGET: a call that began at `began_ns` is over. Calls that a sample or a vote disturbed do not count. */
void tagc_times_spent(const struct tagc_call *call, uint64_t began_ns);

#endif
