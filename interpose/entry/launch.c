/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/entry/launch.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/entry/background.h"
#include "interpose/entry/beside.h"
#include "interpose/entry/dispatch.h"
#include "interpose/entry/rounds.h"
#include "interpose/exec/dump.h"
#include "interpose/exec/timing.h"
#include "interpose/nccl/process.h"
#include "interpose/vote/changes.h"
#include "interpose/vote/proposal.h"
#include "interpose/vote/tune.h"
#include "interpose/vote/vote.h"

/* ---- the order of a launch --------------------------------------------------------------------------------------- */

/* Are both calls of one communicator? */
static bool is_of_same(const struct tagc_call *a, const struct tagc_call *b) {
  return a->comm == b->comm || (a->comm && b->comm && a->comm->agreement.origin.identity &&
                                a->comm->agreement.origin.identity == b->comm->agreement.origin.identity);
}

struct place {
  bool rounds;
  uint64_t identity;   /* of its communicator */
  size_t first, index; /* the first call of its communicator in the launch; its own */
};

static int compare_places(const void *a_, const void *b_) {
  const struct place *a = a_, *b = b_;
  if (a->rounds != b->rounds)
    return a->rounds ? -1 : 1;
  if (a->rounds && a->identity != b->identity)
    return a->identity < b->identity ? -1 : 1;
  if (a->rounds && a->first != b->first)
    return a->first < b->first ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}

/* Sets `rounds` of all calls of a communicator if one call has it, and fills the places. */
static void find_places(struct tagc_call *calls, size_t count, struct place *places) {
  for (size_t i = 0; i < count; i++) {
    size_t first = 0;
    while (first < i && (places[first].first != first || !is_of_same(&calls[first], &calls[i])))
      first++;
    places[i] = (struct place){false, calls[i].comm ? calls[i].comm->agreement.origin.identity : 0, first, i};
    calls[first].rounds |= calls[i].rounds;
  }
  for (size_t i = 0; i < count; i++)
    places[i].rounds = calls[i].rounds = calls[places[i].first].rounds;
}

/* Puts the calls of each communicator that needs more than forwarding in a row, by identity; all others last. False
 * without memory. */
static bool arrange_calls(struct tagc_call *calls, size_t count) {
  struct place *places = malloc(count * sizeof *places);
  struct tagc_call *arranged = malloc(count * sizeof *arranged);
  const bool good = places && arranged;
  if (good) {
    find_places(calls, count, places);
    qsort(places, count, sizeof *places, compare_places);
    for (size_t i = 0; i < count; i++)
      arranged[i] = calls[places[i].index];
    memcpy(calls, arranged, count * sizeof *calls);
  }
  free(places);
  free(arranged);
  return good;
}

/* ---- communicators beside one another ---------------------------------------------------------------------------- */

/* Runs a strand: the calls of a communicator, or all that need only forwarding. */
static ncclResult_t run_strand(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count) {
  ncclResult_t status = ncclSuccess;
  for (size_t i = 0; i < count && status == ncclSuccess; i++) /* the program's own group may have had a part of it */
    if (calls[i].comm && calls[i].comm->nonblocking)
      status = tagc_nccl_group_await(real, calls[i].comm);
  if (status != ncclSuccess)
    return status;
  return calls->rounds ? tagc_rounds_run(real, calls, count) : tagc_rounds_pass(real, calls, count);
}

/* Does the host wait for other ranks in some call? */
static bool any_meets(const struct tagc_call *calls, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (calls[i].rounds && (calls[i].nccl->on_host || calls[i].meets))
      return true;
  return false;
}

/* NCCL connects communicators that share connections one by one ("race condition" in groupLaunch(), group.cc), and
 * wants one order of launches on all ranks if kernels follow it (getImplicitOrder(), enqueue.cc). */
static bool must_take_turns(const struct tagc_call *calls, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (calls[i].comm && (calls[i].comm->agreement.shares || calls[i].comm->agreement.ordered))
      return true;
  return false;
}

/* True if no stream has calls of two strands: calls on one stream must be launched in one order on all ranks. */
static bool have_streams_apart(const struct tagc_strand *strands, size_t count) {
  for (size_t a = 0; a < count; a++)
    for (size_t i = 0; i < strands[a].count; i++)
      for (size_t b = 0; b < a; b++)
        for (size_t j = 0; j < strands[b].count; j++)
          if (strands[a].calls[i].stream == strands[b].calls[j].stream ||
              tagc_beside_is_default(strands[a].calls[i].stream) || tagc_beside_is_default(strands[b].calls[j].stream))
            return false;
  return true;
}

/* Runs arranged calls, outside of any group. */
static ncclResult_t run_calls(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count) {
  struct tagc_strand one, *strands = count > 1 ? malloc(count * sizeof *strands) : &one;
  ncclResult_t status = strands ? ncclSuccess : tagc_no_memory("the calls of a group");
  size_t strand_count = 0;
  for (size_t from = 0, to; from < count && strands; from = to) {
    for (to = from + 1; to < count && (calls[from].rounds ? is_of_same(&calls[from], &calls[to]) : !calls[to].rounds);)
      to++;
    strands[strand_count++] = (struct tagc_strand){&calls[from], to - from};
  }
  if (strand_count > 1 && any_meets(calls, count) && !must_take_turns(calls, count) &&
      (calls->nccl->on_host || have_streams_apart(strands, strand_count)))
    status = tagc_beside_run(real, strands, strand_count, run_strand);
  else
    for (size_t i = 0; i < strand_count && status == ncclSuccess; i++)
      status = run_strand(real, strands[i].calls, strands[i].count);
  if (strands != &one)
    free(strands);
  return status;
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static bool is_of_one_communicator(const struct tagc_call *calls, size_t count) {
  for (size_t i = 1; i < count; i++)
    if (calls[i].comm != calls[0].comm)
      return false;
  return true;
}

static ncclResult_t end_group(const struct tagc_nccl_group *real, tagc_launch_ended *ended, void *group) {
  const ncclResult_t status = TAGC_IN_REAL(real->end());
  ended(group);
  return status;
}

/* Passes all calls as they came and were decided: one call, or those of the open group. If the real library returns
 * with ncclInProgress, a communicator is non-blocking; in a group one such communicator is enough. */
static ncclResult_t pass_all(const struct tagc_nccl_group *real, struct tagc_call *calls, size_t count,
                             tagc_launch_ended *ended, void *group) {
  ncclResult_t status = ncclSuccess;
  tagc_rounds_dump(calls, count);
  for (size_t i = 0; i < count; i++)
    tagc_rounds_before_plain(&calls[i]);
  const struct tagc_timing timing = tagc_times_begin(count == 1 && calls->comm ? calls : NULL);
  for (size_t i = 0; i < count && status == ncclSuccess; i++)
    status = tagc_forward(&calls[i]);
  if (ended) {
    const ncclResult_t end_status = end_group(real, ended, group);
    status = status == ncclSuccess ? end_status : status;
  }
  tagc_times_end(&timing, status);
  for (size_t i = 0; i < count; i++)
    tagc_rounds_after_plain(&calls[i]);
  for (size_t i = 0; i < count && status == ncclInProgress; i++)
    if (calls[i].comm)
      tagc_comm_is_in_progress(calls[i].comm, is_of_one_communicator(calls, count));
  return status;
}

static bool all_nonblocking(const struct tagc_call *calls, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!calls[i].comm || !calls[i].comm->nonblocking)
      return false;
  return true;
}

/* Does anything on this rank wait for the device, or for its set-up, before these calls are forwarded? On others
 * nothing may, so NCCL's groups must not depend on it. */
static bool any_waits(const struct tagc_call *calls, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (tagc_rounds_takes(&calls[i]) && (tagc_dump_waits(&calls[i]) || tagc_changes_waits(&calls[i]) ||
                                         tagc_tune_waits(&calls[i]) || tagc_proposal_waits(&calls[i])))
      return true;
  return false;
}

/* Does some communicator need more than forwarding? */
static bool foresee_calls(struct tagc_call *calls, size_t count) {
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    tagc_rounds_foresee(&calls[i]);
    any |= calls[i].rounds;
  }
  return any;
}

ncclResult_t tagc_launch_run(struct tagc_call *calls, size_t count, tagc_launch_ended *ended, void *group) {
  struct tagc_nccl_group real;
  const bool background = all_nonblocking(calls, count);
  const bool complete = tagc_nccl_group_find(&real, calls[0].nccl);
  if (!complete)
    for (size_t i = 0; i < count; i++)
      calls[i].decision =
        (struct tagc_decision){TAGC_PASS, tagc_rounds_takes(&calls[i]) ? TAGC_REASON_missing : TAGC_REASON_function};
  /* If no call needs a round, nothing runs before them that could change what was foreseen. */
  if (!complete || (!foresee_calls(calls, count) && !(background && any_waits(calls, count))))
    return pass_all(&real, calls, count, ended, group);
  /* Without its held calls, the program's group may still hold other NCCL work: a communicator that begins or ends. */
  const ncclResult_t before = ended ? end_group(&real, ended, group) : ncclSuccess;
  if (!tagc_real_accepts(before))
    return before;
  if (count > 1 && !arrange_calls(calls, count))
    return tagc_no_memory("the calls of a group");
  if (background && tagc_background_start(&real, run_calls, calls, count))
    return ncclInProgress;
  const ncclResult_t status = run_calls(&real, calls, count);
  return status == ncclSuccess ? before : status;
}
