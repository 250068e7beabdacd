/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_TRACE: how long calls take where they run, as TIMES records (trace/format.h).
 *
 * Plain      On a GPU an event before the call on its stream, and one behind it: what is between them is the call, and what it
 *            waits for, other ranks included. Calls inside a group of several are not timed, for its end launches them, nor those
 *            that are captured. On host memory a plain call is over when it returns: host_ns of its record tells.
 * Compressed By the marks of the slot's tally, and what the lane did for the call (device.h); on host memory execute.c has a clock.
 * Reading    What devices know is read when enough has come together, and at the end of the communicator; nobody waits for it. What
 *            has not ended by then, or could not be kept (64 plain calls under way, two of a slot), has no record.
 * Cost       Without a trace a branch a call.
 * Threads    As the calls of a communicator: one at a time. Around NCCL's call, not inside the phases of a launch.
 */
#ifndef INTERPOSE_EXEC_TIMING_H
#define INTERPOSE_EXEC_TIMING_H

#include "interpose/comm/call.h"

/* A call is about to go on as it came. What is returned goes into tagc_times_end() when it has been launched, or has failed. */
int tagc_times_begin(const struct tagc_call *call);
void tagc_times_end(const struct tagc_call *call, int begun, ncclResult_t status);

#endif
