/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_CODEC=auto between the first call and the choice: samples of this rank's gradients, shared with all ranks.
 *
 * In the cycle before the vote each slot's gradient is sampled once, just before its plain call is forwarded. These
 * numbers are this rank's own. In the vote one min all-reduce turns them into those of the slowest rank, the largest
 * error and the densest gradient. From then on they are equal on all ranks.
 *
 * With TAGC_BUDGET there are votes after the first one, and such a sample in the cycle before each (budget/retune.h).
 *
 * A step may be unusual: NaN or Inf in a gradient, nothing but zeros, a call that other steps do not have. If that
 * keeps the ranks from judging a slot, the vote is postponed a few times.
 */
#ifndef INTERPOSE_VOTE_TUNE_H
#define INTERPOSE_VOTE_TUNE_H

#include "interpose/comm/comm.h"
#include "interpose/vote/message.h"

/* Samples the gradient of a reduce-scatter that is about to be forwarded, if that is due. Takes and drops the
 * communicator's lock, and makes an abort wait while it reads. Not while the library owns the communicator. */
void tagc_tune_sample(const struct tagc_call *call);

/* Would that wait for the device? Takes and drops the lock. */
bool tagc_tune_waits(const struct tagc_call *call);

/* The samples of a communicator in a message (message.h), and the most int64 that it or the probe's message takes.
 * can_probe: this rank has the memory to probe the wire. Call them, and the next two, with the lock held. */
size_t tagc_tune_words(const struct tagc_comm *comm);
void tagc_tune_pack(const struct tagc_comm *comm, bool can_probe, struct tagc_message *message);

/* Postpones the vote if some rank has no usual sample of a slot that might be compressed. Then comm->vote.cycle is the
 * new cycle, and such slots are sampled anew; other samples stay. Equal on all ranks. */
bool tagc_tune_postpone(struct tagc_comm *comm, struct tagc_message message);

/* Takes over the numbers of all ranks. True if the wire should be probed: all ranks have the memory, and a sample
 * of a gradient or of parameters. */
bool tagc_tune_resolve(struct tagc_comm *comm, struct tagc_message message);

#endif
