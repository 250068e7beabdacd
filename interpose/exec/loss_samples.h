/* SPDX-License-Identifier: BSD-3-Clause
 * The losses of slots' codecs and their residuals over time: for TAGC_TRACE as STATE records (trace/format.h), for
 * TAGC_METRICS the last one in the ledger.
 *
 * When     At the first compressed call of a slot, at the 2nd, 4th, ... 64th, and then at one in 64 (with more than 64
 *          slots, in as many), in turns, one slot a cycle. At the vote, with TAGC_CODEC=auto: the ranks' samples.
 * Cost     On host memory the codec is tried on two runs of elements of the gradient, for at most 0.15 ms a cycle plus
 *          the overrun of the last such trial; slots without time left are sampled in a later cycle. On a GPU nothing
 *          is tried: the host would have to wait for it.
 * Harm     None: nothing that is sent depends on it. Without a trace and metrics it costs two branches a call.
 */
#ifndef INTERPOSE_EXEC_LOSS_SAMPLES_H
#define INTERPOSE_EXEC_LOSS_SAMPLES_H

#include "interpose/comm/call.h"
#include "kernels/codec/codec.h"

/* Samples a compressed call, after it was made: its send buffer, or the part that the codec gets, is unchanged. Of an
 * all-reduce in place it is not, and no error is known. */
void tagc_loss_sample_slot(const struct tagc_call *call, const struct tagc_job *job);
/* The same for an all-gather, whose codec has counted the loss of its shard. */
void tagc_loss_sample_allgather(const struct tagc_call *call);
/* After the vote; with the communicator's lock. */
void tagc_loss_sample_vote(const struct tagc_comm *comm);

#endif
