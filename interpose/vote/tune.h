/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_CODEC=auto between the first call and the choice: what this rank knows of its gradients, and how the ranks come
 * to know the same.
 *
 * In the cycle before the vote each slot's gradient is sampled once, just before its plain call is forwarded. The
 * numbers are this rank's own; in the vote they go through one min all-reduce, and come out as those of the slowest
 * rank, the largest error and the densest gradient. From there on they are equal on all ranks.
 *
 * With TAGC_BUDGET there are votes after the first one, and such a sample in the cycle before each (budget/retune.h).
 *
 * One step may not be like the others: NaN or Inf in a gradient, nothing but zeros, a call that is not there in other
 * steps. Where that keeps the ranks from judging a slot, the vote is put off a few times.
 */
#ifndef INTERPOSE_VOTE_TUNE_H
#define INTERPOSE_VOTE_TUNE_H

#include "interpose/comm/comm.h"
#include "interpose/vote/message.h"

/* A reduce-scatter is about to be forwarded as it came: samples its gradient, where that is wanted. Takes and drops the
 * communicator's lock, and keeps an abort waiting while it reads. Not while the library owns it. */
void tagc_tune_sample(const struct tagc_call *call);

/* Would that wait for the device? Takes and drops the lock. */
bool tagc_tune_waits(const struct tagc_call *call);

/* The samples of a communicator in a message (message.h), and the most int64 that it or that of the probe takes.
 * can_probe: this rank has the memory to probe the wire. Call them, and the next two, with the lock held. */
size_t tagc_tune_words(const struct tagc_comm *comm);
void tagc_tune_pack(const struct tagc_comm *comm, bool can_probe, struct tagc_message *message);

/* Is the vote to be put off, as some slot that might be compressed was not sampled as it usually is by all ranks? Then
 * comm->vote.cycle says until when, and such slots are sampled anew; samples of the others stay as they are. A function
 * of numbers that are equal on all ranks. */
bool tagc_tune_postpone(struct tagc_comm *comm, struct tagc_message message);

/* Takes over the numbers of all ranks. True where the wire is to be probed: all ranks have the memory, and have sampled
 * some slot. */
bool tagc_tune_resolve(struct tagc_comm *comm, struct tagc_message message);

#endif
