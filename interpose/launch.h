/* SPDX-License-Identifier: BSD-3-Clause
 * A launch: one reduce-scatter called alone, or all reduce-scatters of a group that holds nothing else.
 *
 * When none of them needs more, they are forwarded as they came. Otherwise they run in rounds: the first call of every
 * communicator, then the second of each, and so on; in a round first the votes that are due, then the calls that stay
 * plain, then the others. So what happens on a communicator happens in the order of its calls, whether a rank made them in
 * a group or one by one.
 */
#ifndef INTERPOSE_LAUNCH_H
#define INTERPOSE_LAUNCH_H

#include "interpose/call.h"

/* Runs the observed calls of a launch. `in_group`: the program's outermost real group is open and empty, and is ended
 * here, exactly once. Returns the first error of the real library. */
ncclResult_t tagc_launch_run(struct tagc_call *calls, size_t count, bool in_group);

#endif
