/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_TRACE: what the codecs of slots lose, and what is left for later, over time: STATE records (trace/format.h).
 *
 * When     At the first compressed call of a slot, at the 2nd, 4th, ... 64th, and then at one in 64 (of more than 64
 *          slots in as many), in turns, so that one slot a cycle is due. At the vote, with TAGC_CODEC=auto, what the
 *          ranks have found.
 * Cost     On memory of the host the codec is tried on two runs of elements of the gradient, for at most 0.15 ms a
 *          cycle and what the last such trial takes longer; slots that find the time spent have theirs in a later
 *          cycle. On a GPU nothing is tried: that would be waited for.
 * Harm     None: nothing that is sent depends on it. Without a trace a branch a call.
 */
#ifndef INTERPOSE_EXEC_LOSS_SAMPLES_H
#define INTERPOSE_EXEC_LOSS_SAMPLES_H

#include "interpose/comm/call.h"
#include "kernels/codec/codec.h"

/* A compressed call has been made: its send buffer, or what of it goes through the codec, is as it was. */
void tagc_loss_sample_slot(const struct tagc_call *call, const struct tagc_job *job);
/* The same of an all-gather, whose codec has counted what its shard lost. */
void tagc_loss_sample_allgather(const struct tagc_call *call);
/* The vote is over; with the communicator's lock. */
void tagc_loss_sample_vote(const struct tagc_comm *comm);

#endif
