/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/entry/rounds.h"

#include <stdlib.h>

#include "interpose/calls/calls.h"
#include "interpose/entry/dispatch.h"
#include "interpose/exec/dump.h"
#include "interpose/exec/execute.h"
#include "interpose/exec/order.h"
#include "interpose/exec/timing.h"
#include "interpose/nccl/process.h"
#include "interpose/vote/changes.h"
#include "interpose/vote/proposal.h"
#include "interpose/vote/tune.h"
#include "interpose/vote/vote.h"

bool tagc_rounds_takes(const struct tagc_call *call) {
  return tagc_call_may_compress(call) && (call->entry != TAGC_ENTRY_ncclAllReduce || call->slot >= 0);
}

/* Decides a call from the facts of this moment. */
static void decide_now(struct tagc_call *call) {
  if (tagc_call_is_collective(call))
    tagc_call_decide(call);
  else
    call->decision = (struct tagc_decision){TAGC_PASS, TAGC_REASON_function};
}

void tagc_rounds_foresee(struct tagc_call *call) {
  decide_now(call);
  const bool passes = call->decision.action == TAGC_PASS,
             votes = tagc_call_is_collective(call) && tagc_vote_is_due(call);
  call->rounds = votes || !passes;
  call->meets = votes || (!passes && tagc_execute_waits(call));
}

/* Collects facts about a call before a vote. */
static void sample_call(const struct tagc_call *call) {
  tagc_changes_sample(call);
  if (!tagc_rounds_takes(call) ||
      (call->decision.reason != TAGC_REASON_warm_up && !tagc_retune_is_near(call->comm->ledger->retune, call->cycle)))
    return;
  tagc_proposal_check(call);
  tagc_tune_sample(call);
}

static void note_plain(struct tagc_call *call) {
  if (!tagc_call_is_collective(call))
    return;
  sample_call(call);
  tagc_call_account(call);
}

void tagc_rounds_before_plain(struct tagc_call *call) {
  note_plain(call);
  tagc_order_before_plain(call->comm, call->stream);
}

void tagc_rounds_after_plain(const struct tagc_call *call) { tagc_order_after_plain(call->comm, call->stream); }

/* ---- calls that go on as they came ------------------------------------------------------------------------------- */

/* One group of plain calls, and their communicators, each once. */
struct plain {
  struct tagc_call *const *calls;
  size_t count;
  struct tagc_comm **comms;
  size_t comm_count;
};

/* Calls of communicators known only by their handles, without any collective so far, go with the first communicator. */
static ncclResult_t enqueue_plain(const struct tagc_nccl_group *real, void *plain_, size_t i) {
  const struct plain *plain = plain_;
  ncclResult_t status = ncclSuccess;
  (void)real;
  for (size_t k = 0; k < plain->count && status == ncclSuccess; k++) {
    const struct tagc_call *call = plain->calls[k];
    if (call->comm == plain->comms[i] || (i == 0 && !call->comm))
      status = tagc_forward(call);
  }
  return status;
}

static void add_plain_comm(struct plain *plain, struct tagc_comm *comm) {
  for (size_t i = plain->comm_count; i-- > 0;)
    if (plain->comms[i] == comm)
      return;
  if (comm)
    plain->comms[plain->comm_count++] = comm;
}

/* Orders the calls. The library owns the communicators; after an abort their streams may be gone. */
static void order_plain(const struct plain *plain, void (*order)(struct tagc_comm *comm, cudaStream_t stream)) {
  tagc_comms_enter_driver(plain->comms, plain->comm_count);
  for (size_t i = 0; i < plain->count; i++)
    if (plain->calls[i]->comm && tagc_comm_has_streams(plain->calls[i]->comm))
      order(plain->calls[i]->comm, plain->calls[i]->stream);
  tagc_comms_leave_driver(plain->comms, plain->comm_count);
}

/* Passes sends and receives of communicators that are unknown. */
static ncclResult_t pass_unknown(const struct tagc_nccl_group *real, const struct plain *plain) {
  tagc_real_depth++;
  ncclResult_t status = real->start();
  for (size_t i = 0; i < plain->count && status == ncclSuccess; i++)
    status = tagc_forward(plain->calls[i]);
  const ncclResult_t ended = real->end();
  tagc_real_depth--;
  return status == ncclSuccess ? ended : status;
}

/* Returns when they are launched, as the next step needs that. The program may abort their communicators between two
 * groups, and must not free them during NCCL's call. */
static ncclResult_t pass_plain(const struct tagc_nccl_group *real, struct tagc_call **calls, size_t count) {
  struct tagc_comm *one[1];
  struct plain plain = {calls, count, count > 1 ? malloc(count * sizeof(*plain.comms)) : one, 0};
  if (!plain.comms)
    return tagc_no_memory("the calls of a group");
  for (size_t i = 0; i < count; i++) {
    add_plain_comm(&plain, calls[i]->comm);
    note_plain(calls[i]);
  }
  ncclResult_t status = ncclInternalError;
  const struct tagc_timing timing = tagc_times_begin(count == 1 && plain.comm_count ? calls[0] : NULL);
  if (!plain.comm_count) {
    status = pass_unknown(real, &plain);
  } else if (tagc_comms_enter(plain.comms, plain.comm_count)) {
    order_plain(&plain, tagc_order_before_plain);
    status = tagc_nccl_group_run(real, plain.comms, plain.comm_count, enqueue_plain, &plain);
    order_plain(&plain, tagc_order_after_plain);
    tagc_comms_leave(plain.comms, plain.comm_count);
  }
  tagc_times_end(&timing, status);
  if (plain.comms != one)
    free(plain.comms);
  return status;
}

void tagc_rounds_dump(const struct tagc_call *calls, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tagc_rounds_takes(&calls[i]))
      tagc_dump_call(&calls[i]);
}

ncclResult_t tagc_rounds_pass(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count) {
  struct tagc_call **chosen = malloc(count * sizeof(*chosen));
  if (!chosen)
    return tagc_no_memory("the calls of a group");
  tagc_rounds_dump(calls, count);
  for (size_t i = 0; i < count; i++) {
    decide_now(&calls[i]);
    chosen[i] = &calls[i];
  }
  const ncclResult_t status = pass_plain(real, chosen, count);
  free(chosen);
  return status;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* Runs one call of each rank. */
static ncclResult_t run_one_round(const struct tagc_nccl_group *real, struct tagc_call **calls, size_t count) {
  ncclResult_t status = tagc_vote_hold(real, calls, count);
  size_t plain = 0;
  for (size_t i = 0; i < count && status == ncclSuccess; i++) {
    tagc_call_decide(calls[i]);
    if (calls[i]->decision.action == TAGC_PASS) { /* plain calls to the front, in their order */
      struct tagc_call *call = calls[i];
      for (size_t j = i; j > plain; j--)
        calls[j] = calls[j - 1];
      calls[plain++] = call;
    }
  }
  if (plain && status == ncclSuccess)
    status = pass_plain(real, calls, plain);
  if (plain == count || status != ncclSuccess)
    return status;
  for (size_t i = plain; i < count; i++) {
    sample_call(calls[i]);
    tagc_call_account(calls[i]);
  }
  return tagc_execute(real, calls + plain, count - plain);
}

/* Joins the streams on which these calls call the communicator: no later work on one of them comes before the earlier
 * work on another. The communicator's fence goes from one to the next, and so stays behind all earlier work. */
static bool join_streams(struct tagc_comm *comm, const struct tagc_call *calls, size_t count) {
  const struct tagc_device *device = comm->device;
  if (!tagc_comms_enter(&comm, 1))
    return false;
  bool good =
    tagc_comms_enter_driver(&comm, 1) && (comm->sync.fence || (comm->sync.fence = device->fence_make(device)));
  for (size_t i = 0; i < count && good; i++)
    good = calls[i].comm != comm || (device->fence_wait(device, comm->sync.fence, calls[i].stream) &&
                                     device->fence_set(device, comm->sync.fence, calls[i].stream));
  for (size_t i = 0; i < count && good; i++)
    good = calls[i].comm != comm || device->fence_wait(device, comm->sync.fence, calls[i].stream);
  good = tagc_comms_leave_driver(&comm, 1) && good;
  tagc_comms_leave(&comm, 1);
  return good;
}

static bool are_on_one_stream(const struct tagc_call *calls, size_t count) {
  size_t same = 1;
  while (same < count && calls[same].stream == calls[0].stream)
    same++;
  return same >= count;
}

/* NCCL runs a group as if each call were on all of a communicator's streams in it: it joins them before and after. In
 * rounds the library does that. */
static ncclResult_t join_all(const struct tagc_call *calls, size_t count) {
  if (are_on_one_stream(calls, count)) /* as nearly all groups are, with thousands of calls, too */
    return ncclSuccess;
  for (size_t i = 1; i < count; i++) {
    size_t before = 0, own = 0; /* is it the first of its communicator on a second stream? */
    for (size_t j = 0; j < i; j++) {
      before += calls[j].comm == calls[i].comm;
      own += calls[j].comm == calls[i].comm && calls[j].stream == calls[i].stream;
    }
    if (before && !own && calls[i].comm->device && !join_streams(calls[i].comm, calls, count))
      return tagc_comm_is_aborted(calls[i].comm) ? ncclInternalError : ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

enum { NO_ROUND = -1 };

/* The round of each call: that of its communicator that follows on the last one, if it takes one. */
static void find_rounds(const struct tagc_call *calls, size_t count, int *rounds) {
  for (size_t i = 0; i < count; i++) {
    rounds[i] = NO_ROUND;
    if (!tagc_rounds_takes(&calls[i]))
      continue;
    rounds[i] = 0;
    for (size_t j = i; j-- > 0;)
      if (rounds[j] != NO_ROUND && calls[j].comm == calls[i].comm) {
        rounds[i] = rounds[j] + 1;
        break;
      }
  }
}

/* NCCL makes messages of some collectives (taskAppend() in enqueue.cc). */
static bool is_of_messages(const struct tagc_call *call) {
  return !tagc_call_is_collective(call) || call->entry == TAGC_ENTRY_ncclAlltoAll ||
         call->entry == TAGC_ENTRY_ncclGather || call->entry == TAGC_ENTRY_ncclScatter;
}

/* Passes the collectives, or the messages, that take no round. */
static ncclResult_t pass_others(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count,
                                const int *rounds, bool messages, struct tagc_call **chosen) {
  size_t n = 0;
  for (size_t i = 0; i < count; i++)
    if (rounds[i] == NO_ROUND && is_of_messages(&calls[i]) == messages) {
      decide_now(&calls[i]);
      chosen[n++] = &calls[i];
    }
  return n ? pass_plain(real, chosen, n) : ncclSuccess;
}

static ncclResult_t run_rounds(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count,
                               const int *rounds, struct tagc_call **chosen) {
  ncclResult_t status = pass_others(real, calls, count, rounds, false, chosen);
  size_t n = 1;
  for (int round = 0; n && status == ncclSuccess; round++) {
    n = 0;
    for (size_t i = 0; i < count; i++)
      if (rounds[i] == round)
        chosen[n++] = &calls[i];
    if (n)
      status = run_one_round(real, chosen, n);
  }
  return status == ncclSuccess ? pass_others(real, calls, count, rounds, true, chosen) : status;
}

ncclResult_t tagc_rounds_run(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count) {
  struct tagc_call *one[1], **chosen = count > 1 ? malloc(count * sizeof(*chosen)) : one;
  int its_round = NO_ROUND, *rounds = count > 1 ? malloc(count * sizeof *rounds) : &its_round;
  ncclResult_t status = chosen && rounds ? ncclSuccess : tagc_no_memory("the calls of a group");
  tagc_rounds_dump(calls, count);
  if (status == ncclSuccess)
    status = join_all(calls, count);
  if (status == ncclSuccess) {
    find_rounds(calls, count, rounds);
    status = run_rounds(real, calls, count, rounds, chosen);
  }
  if (status == ncclSuccess)
    status = join_all(calls, count);
  if (count > 1) {
    free(chosen);
    free(rounds);
  }
  return status;
}
