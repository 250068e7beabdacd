/* SPDX-License-Identifier: BSD-3-Clause
 * A launch: one call, or all that a group has held back when its outermost end comes.
 *
 * A communicator needs only forwarding if the plan passes all of its calls and no vote is due. If all communicators do,
 * the calls go into the program's own group, as they came. Otherwise that group ends first. Then run
 *
 *   each communicator that needs more       its calls, as rounds.h says
 *   all the others together                 in one group of the real library
 *
 * side by side, on threads, if the host waits for other ranks: on host memory, in a vote, in an all-gather that may
 * have to be repeated. Otherwise nothing waits, and this thread enqueues them one after the other, by the identities of
 * the communicators (struct tagc_origin), as NCCL does from 2.26 on by its own hashes. So do communicators whose calls
 * share a stream. The fate of a call follows from its own communicator alone, never from the rest of the group.
 * README.md says why no rank waits for ever.
 */
#ifndef INTERPOSE_ENTRY_LAUNCH_H
#define INTERPOSE_ENTRY_LAUNCH_H

#include "interpose/comm/call.h"

/* Called when the program's own group has ended. */
typedef void tagc_launch_ended(void *group);

/* Runs the observed calls of a launch, and changes their order. `ended`: the program's outermost real group is open,
 * and this function ends it exactly once; NULL: no group. Returns the first error of the real library. */
ncclResult_t tagc_launch_run(struct tagc_call *calls, size_t count, tagc_launch_ended *ended, void *group);

#endif
