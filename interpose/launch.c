/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/launch.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/auto.h"
#include "interpose/background.h"
#include "interpose/ballot.h"
#include "interpose/comm.h"
#include "interpose/dump.h"
#include "interpose/execute.h"
#include "interpose/levels.h"
#include "interpose/selection.h"
#include "interpose/times.h"
#include "interpose/vote.h"

static ncclResult_t inside(ncclResult_t (*function)(void))
{
  tagc_real_depth++;
  ncclResult_t status = function();
  tagc_real_depth--;
  return status;
}

static void account(struct tagc_call *call)
{
  pthread_mutex_lock(&call->comm->lock);
  tagc_comm_account(call->comm, call);
  pthread_mutex_unlock(&call->comm->lock);
}

static void decide(struct tagc_call *call)
{
  pthread_mutex_lock(&call->comm->lock);
  tagc_comm_decide(call->comm, call);
  pthread_mutex_unlock(&call->comm->lock);
}

/* Does a call need more than forwarding? */
static bool needs_round(struct tagc_call *call)
{
  decide(call);
  return call->decision.action != TAGC_PASS || tagc_vote_is_due(call);
}

/* Before a vote: what is to be known of a call. */
static void look(const struct tagc_call *call)
{
  if (call->decision.reason != TAGC_REASON_warm_up && !tagc_selection_is_near(call->comm, call))
    return;
  tagc_ballot_look(call);
  tagc_auto_look(call);
}

static ncclResult_t enqueue_plain(const struct tagc_exchange *real, void *calls, size_t i)
{
  (void)real;
  return tagc_forward(((struct tagc_call *const *)calls)[i]);
}

/* The plain calls of a round: what comes next needs them launched. The program may abort their communicators between the
 * rounds, and must not lose them under NCCL's call. */
static ncclResult_t run_plain_round(const struct tagc_exchange *real, struct tagc_call **calls, size_t count)
{
  struct tagc_comm *one[1], **comms = count > 1 ? malloc(count * sizeof(*comms)) : one;
  if (!comms)
    return tagc_no_memory("the calls of a group");
  for (size_t i = 0; i < count; i++) {
    comms[i] = calls[i]->comm;
    look(calls[i]);
    account(calls[i]);
  }
  ncclResult_t status = ncclInternalError;
  for (size_t i = 0; i < count; i++)
    tagc_levels_before_plain(calls[i]->comm, calls[i]->stream);
  const int begun = count == 1 ? tagc_times_begin(calls[0]) : -1;
  const uint64_t began = count == 1 ? tagc_selection_begin(calls[0]) : 0;
  if (tagc_comms_enter(comms, count, TAGC_PHASE_IDLE, TAGC_PHASE_OURS)) {
    status = tagc_exchange_run(real, comms, count, enqueue_plain, calls);
    tagc_comms_leave(comms, count);
  }
  tagc_times_end(calls[0], begun, status);
  tagc_selection_since(calls[0], began);
  for (size_t i = 0; i < count; i++)
    tagc_levels_after_plain(calls[i]->comm, calls[i]->stream);
  if (comms != one)
    free(comms);
  return status;
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
    status = run_plain_round(real, calls, plain);
  if (plain == count || status != ncclSuccess)
    return status;
  for (size_t i = plain; i < count; i++) {
    look(calls[i]);
    account(calls[i]);
  }
  return tagc_execute(real, calls + plain, count - plain);
}

/* Nothing on any of the streams on which these calls call the communicator comes before what is on another one. Its fence goes from
 * one to the next, and so stays behind all that it was behind. */
static bool join_streams(struct tagc_comm *comm, const struct tagc_call *calls, size_t count)
{
  const struct tagc_device *device = comm->device;
  if (!tagc_comms_enter(&comm, 1, TAGC_PHASE_IDLE, TAGC_PHASE_OURS))
    return false;
  bool good = tagc_comms_enter_driver(&comm, 1) && (comm->fence || (comm->fence = device->fence_make(device)));
  for (size_t i = 0; i < count && good; i++)
    good = calls[i].comm != comm || (device->fence_wait(device, comm->fence, calls[i].stream) &&
                                     device->fence_set(device, comm->fence, calls[i].stream));
  for (size_t i = 0; i < count && good; i++)
    good = calls[i].comm != comm || device->fence_wait(device, comm->fence, calls[i].stream);
  good = tagc_comms_leave_driver(&comm, 1) && good;
  tagc_comms_leave(&comm, 1);
  return good;
}

/* NCCL runs a group as if it were called on each of a communicator's streams in it: all of them are joined before and after. In rounds
 * that is ours to do. */
static ncclResult_t join_all(const struct tagc_call *calls, size_t count)
{
  for (size_t i = 1; i < count; i++) {
    size_t before = 0, own = 0;     /* is it the first one of its communicator on a second stream? */
    for (size_t j = 0; j < i; j++) {
      before += calls[j].comm == calls[i].comm;
      own += calls[j].comm == calls[i].comm && calls[j].stream == calls[i].stream;
    }
    if (before && !own && calls[i].comm->device && !join_streams(calls[i].comm, calls, count))
      return tagc_comm_is_aborted(calls[i].comm) ? ncclInternalError : ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

/* Is calls[i] the `round`-th call of its communicator? */
static bool is_of_round(const struct tagc_call *calls, size_t i, size_t round)
{
  size_t earlier = 0;
  for (size_t j = 0; j < i; j++)
    earlier += calls[j].comm == calls[i].comm;
  return earlier == round;
}

/* The calls of one communicator, of one rank or of several. */
static ncclResult_t run_rounds(const struct tagc_exchange *real, struct tagc_call *calls, size_t count)
{
  struct tagc_call *one[1], **chosen = count > 1 ? malloc(count * sizeof(*chosen)) : one;
  ncclResult_t status = chosen ? ncclSuccess : tagc_no_memory("the calls of a group");
  tagc_dump_calls(calls, count);
  if (status == ncclSuccess)
    status = join_all(calls, count);
  for (size_t round = 0, n = 1; n && status == ncclSuccess; round++) {
    n = 0;
    for (size_t i = 0; i < count; i++)
      if (is_of_round(calls, i, round))
        chosen[n++] = &calls[i];
    if (n)
      status = run_round(real, chosen, n);
  }
  if (status == ncclSuccess)
    status = join_all(calls, count);
  if (chosen != one)
    free(chosen);
  return status;
}

/* Are these two of one communicator? */
static bool is_of_same(const struct tagc_comm *a, const struct tagc_comm *b)
{
  return a == b || (a->identity && a->identity == b->identity);
}

/* One communicator after the other. The program's group, if there was one, has ended; NCCL may still be at what was forwarded in it. */
static ncclResult_t run_communicators(const struct tagc_exchange *real, struct tagc_call *calls, size_t count)
{
  ncclResult_t status = ncclSuccess;
  for (size_t from = 0, to; from < count && status == ncclSuccess; from = to) {
    for (to = from + 1; to < count && is_of_same(calls[from].comm, calls[to].comm);)
      to++;
    for (size_t i = from; i < to && status == ncclSuccess; i++)
      if (calls[i].comm->nonblocking)
        status = tagc_exchange_await(real, calls[i].comm);
    if (status == ncclSuccess)
      status = run_rounds(real, &calls[from], to - from);
  }
  return status;
}

/* ---- the order of a launch ---------------------------------------------------------------------------------------------- */

struct place {
  uint64_t identity;                /* of its communicator */
  size_t first, index;              /* the first call of that in the launch; its own */
  bool rounds;                      /* of `first`: the communicator needs more than forwarding */
};

static int compare_places(const void *a_, const void *b_)
{
  const struct place *a = a_, *b = b_;
#define COMPARE(field)                                                                                                 \
  if (a->field != b->field)                                                                                            \
    return a->field < b->field ? -1 : 1
  COMPARE(rounds);
  if (a->rounds) {
    COMPARE(identity);
    COMPARE(first);
  }
  COMPARE(index);
#undef COMPARE
  return 0;
}

/* Fills the places. Does some communicator need more than forwarding? */
static bool find_places(struct tagc_call *calls, size_t count, struct place *places)
{
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    size_t first = 0;
    while (first < i && (places[first].first != first || !is_of_same(calls[first].comm, calls[i].comm)))
      first++;
    places[i] = (struct place){calls[i].comm->identity, first, i, false};
    places[first].rounds |= needs_round(&calls[i]);
    any |= places[first].rounds;
  }
  for (size_t i = 0; i < count; i++)
    places[i].rounds = places[places[i].first].rounds;
  return any;
}

/* Puts the calls into the order of a launch. *plain: so many of them, the first ones, need no more than forwarding. False without memory. */
static bool arrange(struct tagc_call *calls, size_t count, size_t *plain)
{
  if (count == 1) {
    *plain = !needs_round(calls);
    return true;
  }
  struct place *places = malloc(count * sizeof *places);
  struct tagc_call *arranged = NULL;
  bool good = places != NULL;
  *plain = count;
  if (good && find_places(calls, count, places)) {
    qsort(places, count, sizeof *places, compare_places);
    for (*plain = 0; *plain < count && !places[*plain].rounds;)
      ++*plain;
    arranged = malloc(count * sizeof *arranged);
    good = arranged != NULL;
    for (size_t i = 0; i < count && good; i++)
      arranged[i] = calls[places[i].index];
    if (good)
      memcpy(calls, arranged, count * sizeof *calls);
  }
  free(arranged);
  free(places);
  return good;
}

static bool is_of_one_communicator(const struct tagc_call *calls, size_t count)
{
  for (size_t i = 1; i < count; i++)
    if (calls[i].comm != calls[0].comm)
      return false;
  return true;
}

/* These as they came: one call, or some of those of the group that is open, which ends here. A communicator that the real library is
 * still at when it returns is a non-blocking one; but of the communicators of a group one is enough to make it return early. */
static ncclResult_t run_plain(const struct tagc_exchange *real, struct tagc_call *calls, size_t count, tagc_launch_ended *over, void *group)
{
  ncclResult_t status = ncclSuccess;
  int begun = -1;
  uint64_t began = 0;
  tagc_dump_calls(calls, count);
  for (size_t i = 0; i < count; i++) {
    look(&calls[i]);
    begun = count == 1 ? tagc_times_begin(&calls[i]) : -1;
    began = count == 1 ? tagc_selection_begin(&calls[i]) : 0;
    tagc_levels_before_plain(calls[i].comm, calls[i].stream);
    if (status == ncclSuccess)
      status = tagc_forward(&calls[i]);
    account(&calls[i]);
  }
  if (over) {
    ncclResult_t ended = inside(real->end);
    status = status == ncclSuccess ? ended : status;
    over(group);
  }
  if (count == 1) {
    tagc_times_end(calls, begun, status);
    tagc_selection_since(calls, began);
  }
  for (size_t i = 0; i < count; i++)
    tagc_levels_after_plain(calls[i].comm, calls[i].stream);
  for (size_t i = 0; i < count && status == ncclInProgress; i++)
    tagc_comm_is_in_progress(calls[i].comm, is_of_one_communicator(calls, count));
  return status;
}

static bool all_nonblocking(const struct tagc_call *calls, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (!calls[i].comm->nonblocking)
      return false;
  return true;
}

/* Does anything wait for the device, or for its set-up, before these calls can go on as they came? */
static bool any_waits(const struct tagc_call *calls, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (tagc_dump_waits(&calls[i]) || tagc_auto_waits(&calls[i]) || tagc_ballot_waits(&calls[i]))
      return true;
  return false;
}

ncclResult_t tagc_launch_run(struct tagc_call *calls, size_t count, tagc_launch_ended *ended, void *group)
{
  struct tagc_exchange real;
  size_t plain = count;
  for (size_t i = 0; i < count; i++)
    calls[i].decision = (struct tagc_decision){TAGC_PASS, TAGC_REASON_missing};
  const bool good = !tagc_exchange_find(&real, calls[0].nccl) || arrange(calls, count, &plain);
  const bool background = all_nonblocking(calls, count);
  if (!good || (plain == count && background && any_waits(calls, count)))
    plain = 0;
  const ncclResult_t launched = run_plain(&real, calls, plain, ended, group);
  calls += plain;
  count -= plain;
  if (!good)
    return tagc_no_memory("the calls of a group");
  if (!count || (launched != ncclSuccess && launched != ncclInProgress))
    return launched;
  if (background && tagc_background_start(&real, run_communicators, calls, count))
    return ncclInProgress;
  const ncclResult_t status = run_communicators(&real, calls, count);
  return status == ncclSuccess ? launched : status;
}
