/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_ALLGATHER=auto before the choice: what exact would make of this rank's parameters, shared with all ranks.
 *
 * The samples of two cycles that changes.h takes anyway are encoded and decoded in the vote. Each rank has its own
 * numbers. They travel with the samples of gradients (tune.h), and come out as the most bits and the longest times. A
 * rank without samples of an all-gather makes it plain.
 */
#ifndef INTERPOSE_VOTE_TUNE_ALLGATHERS_H
#define INTERPOSE_VOTE_TUNE_ALLGATHERS_H

#include "interpose/comm/comm.h"
#include "interpose/vote/message.h"

/* Measures an all-gather from its samples in two cycles in a row, of n elements each. Without the lock. */
void tagc_tune_allgather(struct tagc_comm *comm, size_t i, const void *before, const void *after, size_t n);

/* This rank's numbers in a message, the number of its int64, and those of all ranks. The last one returns true if some
 * all-gather could be compressed. With the lock. */
size_t tagc_tune_allgathers_words(const struct tagc_comm *comm);
void tagc_tune_allgathers_pack(const struct tagc_comm *comm, struct tagc_message *message);
bool tagc_tune_allgathers_resolve(struct tagc_comm *comm, struct tagc_message *message);

#endif
