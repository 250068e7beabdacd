/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_CODEC=auto between the first call and the choice: what this rank has seen of its gradients, and how the ranks come to
 * see the same.
 *
 * In the cycle before the vote each slot's gradient is looked at once, just before its plain call is forwarded. The numbers
 * are this rank's own; in the vote they go through one min all-reduce, and come out as those of the slowest rank, the
 * largest error and the densest gradient. From there on they are equal on all ranks.
 *
 * With TAGC_BUDGET there are votes after the first one, and such a look in the cycle before each (budget/retune.h).
 *
 * One step may not be like the others: NaN or Inf in a gradient, nothing but zeros, a call that is not there in other steps.
 * Where that keeps the ranks from judging a slot, the vote is put off a few times.
 */
#ifndef INTERPOSE_VOTE_TUNE_H
#define INTERPOSE_VOTE_TUNE_H

#include "interpose/comm/comm.h"
#include "interpose/policy/choose.h"

/* A reduce-scatter is about to be forwarded as it came: its gradient is looked at, where that is wanted. Takes and drops the
 * communicator's lock, and keeps an abort waiting while it reads. Not inside the phases of a launch. */
void tagc_auto_look(const struct tagc_call *call);

/* Would that wait for the device? Takes and drops the lock. */
bool tagc_auto_waits(const struct tagc_call *call);

/* What ranks tell one another: so many int64, for a min all-reduce. */
size_t tagc_auto_words(const struct tagc_comm *comm);

/* Fills the words. `probes`: this rank has the memory to probe the wire. Call it with the lock held. */
void tagc_auto_tell(const struct tagc_comm *comm, bool probes, int64_t *words);

/* Is the vote to be put off, as some slot that might be compressed was not seen as it usually is by all ranks? Then
 * comm->vote_cycle says until when, and such slots are looked at anew; looks at the others stay as they are. A function of
 * what is equal on all ranks. Call it with the lock held. */
bool tagc_auto_postpone(struct tagc_comm *comm, const int64_t *words);

/* Takes over what has come out. True where the wire is to be probed: all ranks have the memory, and have seen some slot. Call
 * it with the lock held. */
bool tagc_auto_hear(struct tagc_comm *comm, const int64_t *words);

/* The times of the probe, likewise: TAGC_AUTO_PROBE_WORDS. */
enum { TAGC_AUTO_PROBE_WORDS = 2 * TAGC_ROUTES };
void tagc_auto_tell_probe(const struct tagc_probe *probe, int64_t *words);
void tagc_auto_hear_probe(struct tagc_probe *probe, const int64_t *words);

#endif
