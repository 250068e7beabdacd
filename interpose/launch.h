/* SPDX-License-Identifier: BSD-3-Clause
 * A launch: one call, or all that a group has held back when its outermost end comes.
 *
 * A communicator needs no more than forwarding where the plan passes all of its calls and no vote is due. Where that is so of all,
 * the calls go into the program's own group. Otherwise the launch has this order:
 *
 *   1. the program's own group: what was forwarded at once, and the calls of communicators that need no more. It ends here
 *   2. the other communicators one after the other, by their identities (struct tagc_trace_birth)
 *
 * Ranks that are members of several communicators so have them in the same order, as those of NCCL (from 2.26 on) have by their
 * hashes; HACKING.md says why no rank waits for ever. What happens to a call follows from facts of its own communicator alone, and
 * never from what else is in the group.
 *
 * The calls of one communicator run in rounds: its first one, then its second one, and so on, whether a rank makes them in a group or one
 * by one; in a round first the vote, if it is due, then the call. Handles of one communicator, of which this thread has several ranks,
 * go through each round together.
 */
#ifndef INTERPOSE_LAUNCH_H
#define INTERPOSE_LAUNCH_H

#include "interpose/call.h"

/* Told when the program's own group has ended. */
typedef void tagc_launch_ended(void *group);

/* Runs the observed calls of a launch, whose order it changes. `ended`: the program's outermost real group is open, and is ended here,
 * exactly once; NULL: there is none. Returns the first error of the real library. */
ncclResult_t tagc_launch_run(struct tagc_call *calls, size_t count, tagc_launch_ended *ended, void *group);

#endif
