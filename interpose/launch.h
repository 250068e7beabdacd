/* SPDX-License-Identifier: BSD-3-Clause
 * A launch: one reduce-scatter called alone, or all reduce-scatters of a group that holds nothing else.
 *
 * It runs in this order over all its communicators: the votes that are due, the calls that stay plain, the others. The
 * order is the same on all ranks of a communicator, because each part keeps the order of the calls.
 */
#ifndef INTERPOSE_LAUNCH_H
#define INTERPOSE_LAUNCH_H

#include "interpose/call.h"

/* Runs the observed calls of a launch. `in_group`: the program's outermost real group is open and empty, and is ended
 * here, exactly once. Returns the first error of the real library. */
ncclResult_t tagc_launch_run(struct tagc_call *calls, size_t count, bool in_group);

#endif
