/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/launch.h"

#include <stdlib.h>

#include "interpose/comm.h"
#include "interpose/execute.h"
#include "interpose/vote.h"

/* The functions that more than forwarding needs. An NCCL that lacks one of them gets every call as it came. */
static bool find_real(struct tagc_exchange *real, const void *caller)
{
  real->start = TAGC_REAL(ncclGroupStart, caller);
  real->end = TAGC_REAL(ncclGroupEnd, caller);
  real->reduce_scatter = TAGC_REAL(ncclReduceScatter, caller);
  real->all_reduce = TAGC_REAL(ncclAllReduce, caller);
  real->send = TAGC_REAL(ncclSend, caller);
  real->receive = TAGC_REAL(ncclRecv, caller);
  return real->start && real->end && real->reduce_scatter && real->all_reduce && real->send && real->receive;
}

static ncclResult_t inside(ncclResult_t (*function)(void))
{
  tagc_real_depth++;
  ncclResult_t status = function();
  tagc_real_depth--;
  return status;
}

/* Is this the first call of its communicator in the launch, and is the vote due before it? */
static bool votes_first(const struct tagc_call *calls, size_t i)
{
  for (size_t j = 0; j < i; j++)
    if (calls[j].comm == calls[i].comm)
      return false;
  return tagc_vote_due(calls[i].comm, &calls[i]);
}

static ncclResult_t vote(struct tagc_call *calls, size_t count)
{
  struct tagc_call *one[1], **due = count > 1 ? malloc(count * sizeof(*due)) : one;
  size_t n = 0;
  if (!due)
    return ncclSystemError;
  for (size_t i = 0; i < count; i++)
    if (votes_first(calls, i))
      due[n++] = &calls[i];
  ncclResult_t status = tagc_vote_hold(due, n);
  if (due != one)
    free(due);
  return status;
}

/* Asks the plan about every call and enters it into the accounts. Returns how many stay plain. */
static size_t decide(struct tagc_call *calls, size_t count)
{
  size_t plain = 0;
  for (size_t i = 0; i < count; i++) {
    struct tagc_comm *comm = calls[i].comm;
    pthread_mutex_lock(&comm->lock);
    tagc_comm_decide(comm, &calls[i]);
    plain += calls[i].decision.action == TAGC_PASS;
    tagc_comm_account(comm, &calls[i]);
    pthread_mutex_unlock(&comm->lock);
  }
  return plain;
}

static ncclResult_t forward_plain(struct tagc_call *calls, size_t count)
{
  ncclResult_t status = ncclSuccess;
  for (size_t i = 0; i < count && status == ncclSuccess; i++)
    if (calls[i].decision.action == TAGC_PASS)
      status = tagc_forward(&calls[i]);
  return status;
}

/* The calls that stay plain, in a group as they came in one. */
static ncclResult_t run_plain(const struct tagc_exchange *real, struct tagc_call *calls, size_t count, bool in_group)
{
  if (count == 1 && !in_group)
    return forward_plain(calls, count);
  ncclResult_t status = in_group ? ncclSuccess : inside(real->start);
  if (status != ncclSuccess)
    return status;
  status = forward_plain(calls, count);
  ncclResult_t ended = inside(real->end);
  return status == ncclSuccess ? ended : status;
}

ncclResult_t tagc_launch_run(struct tagc_call *calls, size_t count, bool in_group)
{
  struct tagc_exchange real;
  bool due = false;
  ncclResult_t status = ncclSuccess;
  if (!find_real(&real, calls[0].caller)) {
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
      status = tagc_forward(&calls[i]);
    ncclResult_t ended = in_group && real.end ? inside(real.end) : ncclSuccess;
    return status == ncclSuccess ? ended : status;
  }
  for (size_t i = 0; i < count; i++)
    due |= votes_first(calls, i);
  if (due) {
    if (in_group)
      status = inside(real.end);
    if (status == ncclSuccess)
      status = vote(calls, count);
    if (status != ncclSuccess)
      return status;
  }
  bool open = in_group && !due;
  if (decide(calls, count))
    status = run_plain(&real, calls, count, open);
  else if (open)
    status = inside(real.end);
  return status == ncclSuccess ? tagc_execute(&real, calls, count) : status;
}
