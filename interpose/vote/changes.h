/* SPDX-License-Identifier: BSD-3-Clause
 * The contents of all-gathers and reductions, which prove or refute gradients (interpose/policy/changes.h).
 *
 * In the two cycles before the vote (one for all-reduces) each rank keeps a sample of what it sends in each call, in
 * device memory. A copy on the stream of the call, right before it, takes the sample; nobody waits for it. In the vote
 * each rank reads them all, and one min all-reduce makes the changes, or the differences of ranks, equal on all ranks.
 * Later cycles are not sampled.
 *
 * Parameters may stand still: a learning rate of 0, steps that a loss scale skips. If that alone is missing, and no
 * slot is a gradient otherwise, the vote is postponed a few times. So it is if too few values of all-reduces are known,
 * or all are equal.
 */
#ifndef INTERPOSE_VOTE_CHANGES_H
#define INTERPOSE_VOTE_CHANGES_H

#include "interpose/comm/comm.h"
#include "interpose/vote/message.h"

/* Keeps a sample of a call that is about to be forwarded, if that is due. Takes and drops the communicator's lock. Not
 * while the library owns the communicator. */
void tagc_changes_sample(const struct tagc_call *call);

/* Would that set up a device, which may take long? Takes and drops the lock. */
bool tagc_changes_waits(const struct tagc_call *call);

/* Compares the samples, and gives their memory back. The host waits for the samples on the stream. Without the lock. */
void tagc_changes_read(struct tagc_comm *comm, void *stream);

/* This rank's changes in a message, and the number of its int64. Call them, and the next, with the lock held. */
size_t tagc_changes_words(const struct tagc_comm *comm);
void tagc_changes_pack(const struct tagc_comm *comm, struct tagc_message *message);

/* Judges the changes that all ranks found, or postpones the vote: then comm->vote.cycle is the new cycle. False without
 * memory. */
bool tagc_changes_resolve(struct tagc_comm *comm, struct tagc_message *message);

#endif
