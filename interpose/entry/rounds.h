/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of one communicator in a launch, by one rank or by several of this thread.
 *
 * What is never compressed goes first, in one group, as NCCL fuses it. The others run in rounds: the first one of each
 * rank, then the second one, and so on, whether a rank makes them in a group or one by one; in a round first the vote,
 * if it is due, then the call.
 *
 * Must be outside a group. Errors: the first one of the real library; ncclInternalError where a communicator was
 * aborted meanwhile; ncclSystemError without memory.
 */
#ifndef INTERPOSE_ENTRY_ROUNDS_H
#define INTERPOSE_ENTRY_ROUNDS_H

#include "interpose/exec/nccl_group.h"

/* What may have a round: a collective that may be compressed, as far as its communicator knows. */
bool tagc_rounds_takes(const struct tagc_call *call);

/* Before its turn: what a call will ask of its launch. Fills call->rounds and call->meets. */
void tagc_rounds_foresee(struct tagc_call *call);

/* The turn of a call has come that needs no round. The plan is not asked about sends and receives. */
void tagc_rounds_decide(struct tagc_call *call);

/* Runs the calls of one communicator. */
ncclResult_t tagc_rounds_run(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count);

/* Runs calls of any communicators as they came, in one group. Returns when NCCL has launched them. */
ncclResult_t tagc_rounds_pass(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count);

/* Before and after a call goes on as it came. */
void tagc_rounds_before_plain(struct tagc_call *call);
void tagc_rounds_after_plain(const struct tagc_call *call);

#endif
