/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/launch.h"

#include <stdlib.h>

#include "interpose/comm.h"
#include "interpose/execute.h"
#include "interpose/vote.h"

/* The functions that more than forwarding needs. An NCCL that lacks one of them gets every call as it came (those of
 * groups it has had for as long as it has reduce-scatters). */
static bool find_real(struct tagc_exchange *real, const struct tagc_nccl *nccl)
{
  real->start = TAGC_REAL(ncclGroupStart, nccl);
  real->end = TAGC_REAL(ncclGroupEnd, nccl);
  real->reduce_scatter = TAGC_REAL(ncclReduceScatter, nccl);
  real->all_reduce = TAGC_REAL(ncclAllReduce, nccl);
  real->send = TAGC_REAL(ncclSend, nccl);
  real->receive = TAGC_REAL(ncclRecv, nccl);
  return real->start && real->end && real->reduce_scatter && real->all_reduce && real->send && real->receive;
}

static ncclResult_t inside(ncclResult_t (*function)(void))
{
  tagc_real_depth++;
  ncclResult_t status = function();
  tagc_real_depth--;
  return status;
}

static void decide(struct tagc_call *call)
{
  pthread_mutex_lock(&call->comm->lock);
  tagc_comm_decide(call->comm, call);
  pthread_mutex_unlock(&call->comm->lock);
}

/* Does any call need more than forwarding? The plan is asked about each of them. */
static bool needs_rounds(struct tagc_call *calls, size_t count)
{
  bool needs = false;
  for (size_t i = 0; i < count; i++) {
    decide(&calls[i]);
    needs |= calls[i].decision.action != TAGC_PASS || tagc_vote_is_due(&calls[i]);
  }
  return needs;
}

/* Hands over the plain ones of the calls, in the group that is open. */
static ncclResult_t forward_plain(struct tagc_call *const *calls, size_t count)
{
  ncclResult_t status = ncclSuccess;
  for (size_t i = 0; i < count; i++) {
    if (calls[i]->decision.action == TAGC_PASS && status == ncclSuccess)
      status = tagc_forward(calls[i]);
    pthread_mutex_lock(&calls[i]->comm->lock);
    tagc_comm_account(calls[i]->comm, calls[i]);
    pthread_mutex_unlock(&calls[i]->comm->lock);
  }
  return status;
}

static ncclResult_t run_plain(const struct tagc_exchange *real, struct tagc_call *const *calls, size_t count, bool in_group)
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

/* One call a communicator. */
static ncclResult_t run_round(const struct tagc_exchange *real, struct tagc_call **calls, size_t count)
{
  ncclResult_t status = tagc_vote_hold(real, calls, count);
  size_t plain = 0;
  for (size_t i = 0; i < count && status == ncclSuccess; i++) {
    decide(calls[i]);
    if (calls[i]->decision.action == TAGC_PASS) {  /* plain ones to the front, in their order */
      struct tagc_call *call = calls[i];
      for (size_t j = i; j > plain; j--)
        calls[j] = calls[j - 1];
      calls[plain++] = call;
    }
  }
  if (plain && status == ncclSuccess)
    status = run_plain(real, calls, plain, false);
  return status == ncclSuccess && plain < count ? tagc_execute(real, calls + plain, count - plain) : status;
}

/* Is calls[i] the `round`-th call of its communicator? */
static bool is_of_round(const struct tagc_call *calls, size_t i, size_t round)
{
  size_t earlier = 0;
  for (size_t j = 0; j < i; j++)
    earlier += calls[j].comm == calls[i].comm;
  return earlier == round;
}

ncclResult_t tagc_launch_run(struct tagc_call *calls, size_t count, bool in_group)
{
  struct tagc_exchange real;
  struct tagc_call *one[1], **chosen = count > 1 ? malloc(count * sizeof(*chosen)) : one;
  bool complete = find_real(&real, calls[0].nccl);
  ncclResult_t status = chosen ? ncclSuccess : ncclSystemError;
  for (size_t i = 0; chosen && i < count; i++) {
    calls[i].decision = (struct tagc_decision){TAGC_PASS, TAGC_REASON_missing};
    chosen[i] = &calls[i];
  }
  if (chosen && (!complete || !needs_rounds(calls, count))) {
    status = run_plain(&real, chosen, count, in_group);
  } else {
    ncclResult_t ended = in_group ? inside(real.end) : ncclSuccess;
    status = status == ncclSuccess ? ended : status;
    for (size_t round = 0, n = 1; n && status == ncclSuccess; round++) {
      n = 0;
      for (size_t i = 0; i < count; i++)
        if (is_of_round(calls, i, round))
          chosen[n++] = &calls[i];
      if (n)
        status = run_round(&real, chosen, n);
    }
  }
  if (chosen != one)
    free(chosen);
  return status;
}
