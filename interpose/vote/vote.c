/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/vote.h"

#include <stdlib.h>

#include "interpose/comm/memory.h"
#include "interpose/comm/placement.h"
#include "interpose/comm/traced.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/loss_samples.h"
#include "interpose/nccl/process.h"
#include "interpose/vote/probe.h"
#include "interpose/vote/proposal.h"
#include "interpose/vote/tune.h"

static bool due(const struct tagc_comm *comm, const struct tagc_call *call)
{
  if (!tagc_comm_awaits_vote(comm, call) || call->cycle < tagc_comm_next_vote(comm))
    return false;
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].shape.n && comm->slots[i].op != TAGC_OP_OTHER)
      return true;
  return false;
}

bool tagc_vote_is_due(const struct tagc_call *call)
{
  pthread_mutex_lock(&call->comm->lock);
  bool is_due = due(call->comm, call);
  pthread_mutex_unlock(&call->comm->lock);
  return is_due;
}

/* The vote of one rank of the communicator. */
struct vote {
  struct tagc_call *call;
  int64_t *host, *device;           /* what is told and heard; on the device the words of the peers come behind it */
  bool pinned;                      /* `device` is memory of the host */
  bool pending;                     /* a copy to `host` may be under way, of which nobody knows when it ends */
  void *scratch;                    /* of the probe */
  size_t room, words;               /* of them, and how many are used now; 0: there is nothing to tell */
  bool decided;                     /* everything stays plain: nothing is left to be asked */
  bool postponed;                   /* decided for now: the vote will be held again */
  bool reserved;                    /* the memory for what this rank would do */
  struct tagc_wire wire;
};

/* Those of the ranks of this thread. */
struct votes {
  struct vote *votes;
  struct tagc_comm **comms;
  struct tagc_probing *probings;    /* TAGC_CODEC=auto */
  size_t count;
  bool greet;                       /* meet the peers with what comes now */
};

/* What may still be in use when something has failed is left where it is. */
static void give_back(const struct votes *votes)
{
  bool released = true;
  for (size_t i = 0; i < votes->count; i++)
    released = tagc_comm_await_abort(votes->comms[i]) && released;
  tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count; i++) {
    const struct vote *v = &votes->votes[i];
    const struct tagc_device *device = votes->comms[i]->device;
    if (!v->pending)
      free(v->host);
    if (!released || !tagc_comm_has_streams(votes->comms[i]))
      continue;
    device->release(device, v->pinned ? NULL : v->device, v->call->stream);
    device->release(device, v->scratch, v->call->stream);
  }
  tagc_comms_leave_driver(votes->comms, votes->count);
}

/* Takes the memory for one vote. False without it; what lacks for slots or for the probe is told to the others instead, and for that
 * a GPU that is full is no hindrance. */
static bool prepare(struct vote *v, struct tagc_probing *probing)
{
  const struct tagc_call *call = v->call;
  const struct tagc_comm *comm = call->comm;
  const struct tagc_device *device = comm->device;
  bool is_auto = tagc_options_auto(tagc_library_options());
  size_t ballot = tagc_ballot_words(comm) + tagc_levels_words(comm), seen = is_auto ? tagc_auto_words(comm) : 0;
  v->room = ballot > seen ? ballot : seen;
  v->host = malloc(v->room * sizeof *v->host);
  const size_t greeting = tagc_levels_greeting_words(comm), bytes = (v->room + greeting) * sizeof *v->device;
  v->device = device->alloc(device, bytes, call->stream);
  v->pinned = !v->device;
  if (v->pinned)
    v->device = device->alloc_pinned(device, bytes);
  if (v->device && !device->clear(device, v->device + v->room, greeting * sizeof *v->device, call->stream))
    return false;
  if (comm->voted)                  /* with TAGC_BUDGET there is another vote; the wire was probed before the first one */
    tagc_estate_read(call->comm);
  if (is_auto && !comm->voted) {
    size_t scratch = tagc_probe_scratch(comm, &probing->found);
    probing->scratch = v->scratch = device->alloc(device, scratch, call->stream);
    if (probing->scratch && !device->clear(device, probing->scratch, scratch, call->stream))
      return false;
  }
  return v->host && v->device;
}

/* Without memory the calls fail: the other ranks are waiting, and to pass alone would hang them. */
static ncclResult_t prepare_all(struct votes *votes)
{
  bool alive = tagc_comms_enter_driver(votes->comms, votes->count), good = true;
  for (size_t i = 0; i < votes->count && alive && good; i++)
    good = prepare(&votes->votes[i], &votes->probings[i]);
  alive &= tagc_comms_leave_driver(votes->comms, votes->count);
  return !alive ? ncclInternalError : good ? ncclSuccess : tagc_no_memory("the ballot of a vote");
}

/* ---- how ranks tell one another -------------------------------------------------------------------------------------- */

static ncclResult_t enqueue(const struct tagc_exchange *real, void *votes_, size_t i)
{
  const struct votes *votes = votes_;
  const struct vote *v = &votes->votes[i];
  if (v->decided || !v->words)
    return ncclSuccess;
  ncclResult_t status = real->all_reduce(v->device, v->device, v->words, ncclInt64, ncclMin, v->call->handle, v->call->stream);
  const bool greets = votes->greet && tagc_levels_ready(v->call->comm);
  return status == ncclSuccess && greets ? tagc_levels_greet(real, v->call, v->device + v->room) : status;
}

/* Puts the words there, or reads what has come out. The host waits here for the other ranks: an abort must not wait for that. */
static ncclResult_t carry(const struct votes *votes, bool to_device)
{
  bool good = true, alive = tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count && alive; i++) {
    struct vote *v = &votes->votes[i];
    const struct tagc_device *device = votes->comms[i]->device;
    const size_t bytes = v->words * sizeof *v->host;
    if (v->decided || !v->words)
      continue;
    const bool went = to_device ? device->put(device, v->device, v->host, bytes, v->call->stream)
                                : device->get(device, v->host, v->device, bytes, v->call->stream);
    v->pending |= !to_device && !went && !device->host_reads;        /* put() leaves nothing behind */
    good &= went;
  }
  alive &= tagc_comms_leave_driver(votes->comms, votes->count);
  return !alive ? ncclInternalError : good ? ncclSuccess : ncclUnhandledCudaError;
}

/* All-reduces the words of those that are not decided, with min. */
static ncclResult_t meet(const struct tagc_exchange *real, struct votes *votes, bool greet)
{
  bool any = false;
  votes->greet = greet;
  for (size_t i = 0; i < votes->count; i++)
    any |= !votes->votes[i].decided && votes->votes[i].words;
  if (!any)
    return ncclSuccess;
  ncclResult_t status = carry(votes, true);
  if (status == ncclSuccess)
    status = tagc_exchange_run(real, votes->comms, votes->count, enqueue, votes);
  return status == ncclSuccess ? carry(votes, false) : status;
}

/* ---- what they tell --------------------------------------------------------------------------------------------------- */

/* Do all ranks have the sub-communicators that they have just made? */
static ncclResult_t share_splits(const struct tagc_exchange *real, struct votes *votes)
{
  for (size_t i = 0; i < votes->count; i++) {
    struct vote *v = &votes->votes[i];
    v->decided = votes->comms[i]->scope.reason != TAGC_REASON_compressed;
    v->words = v->words && votes->comms[i]->split;
    v->host[0] = tagc_levels_ready(votes->comms[i]);
  }
  ncclResult_t status = meet(real, votes, false);
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++) {
    struct vote *v = &votes->votes[i];
    if (!v->decided && v->words && !v->host[0]) {
      tagc_levels_pass(votes->comms[i]);
      v->decided = true;
    }
  }
  return status;
}

/* Where each rank is, and the sub-communicators that follow from that. Those that pass
 * are decided then. TAGC_SCOPE=flat needs neither before the ballots. */
static ncclResult_t share_hosts(const struct tagc_exchange *real, struct votes *votes)
{
  ncclResult_t status = ncclSuccess;
  if (tagc_library_options()->scope == TAGC_SCOPE_FLAT)
    return status;
  for (size_t i = 0; i < votes->count; i++) {
    struct vote *v = &votes->votes[i];
    v->words = tagc_levels_pass_all(votes->comms[i]) ? 0 : tagc_levels_words(votes->comms[i]);
    if (v->words)
      tagc_levels_tell(votes->comms[i], real, v->host);
  }
  status = meet(real, votes, false);
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++) {
    struct vote *v = &votes->votes[i];
    pthread_mutex_lock(&votes->comms[i]->lock);
    if (v->words && !tagc_levels_hear(votes->comms[i], v->host))
      status = tagc_no_memory("the hosts of a communicator");
    pthread_mutex_unlock(&votes->comms[i]->lock);
    v->words = !votes->comms[i]->split;            /* those that are split now have one thing to tell */
  }
  if (status == ncclSuccess)
    status = tagc_levels_split(real, votes->comms, votes->count);
  return status == ncclSuccess ? share_splits(real, votes) : status;
}

/* TAGC_CODEC=auto: what all of them have seen. */
static ncclResult_t share_surveys(const struct tagc_exchange *real, struct votes *votes)
{
  for (size_t i = 0; i < votes->count; i++) {
    struct vote *v = &votes->votes[i];
    if (v->decided)
      continue;
    pthread_mutex_lock(&votes->comms[i]->lock);
    v->words = tagc_auto_words(votes->comms[i]);
    const bool probes = votes->comms[i]->voted || votes->probings[i].scratch;
    tagc_auto_tell(votes->comms[i], probes, v->host);
    pthread_mutex_unlock(&votes->comms[i]->lock);
  }
  ncclResult_t status = meet(real, votes, false);
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++) {
    struct vote *v = &votes->votes[i];
    pthread_mutex_lock(&votes->comms[i]->lock);
    v->postponed = !v->decided && tagc_auto_postpone(votes->comms[i], v->host);
    v->decided = v->decided || v->postponed || !tagc_auto_hear(votes->comms[i], v->host);
    pthread_mutex_unlock(&votes->comms[i]->lock);
    if (v->decided)
      votes->probings[i].scratch = NULL;
  }
  return status;
}

/* TAGC_CODEC=auto: what the wire costs. */
static ncclResult_t share_probes(const struct tagc_exchange *real, struct votes *votes)
{
  ncclResult_t status = tagc_probe_run(real, votes->comms, votes->probings, votes->count);
  for (size_t i = 0; i < votes->count; i++) {
    votes->votes[i].words = votes->comms[i]->voted ? 0 : TAGC_AUTO_PROBE_WORDS;
    tagc_auto_tell_probe(&votes->probings[i].found, votes->votes[i].host);
  }
  if (status == ncclSuccess)
    status = meet(real, votes, false);
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++) {
    struct vote *v = &votes->votes[i];
    if (v->decided)
      continue;
    if (votes->comms[i]->voted) {
      v->wire = votes->comms[i]->ledger->wire;
      continue;
    }
    tagc_auto_hear_probe(&votes->probings[i].found, v->host);
    const struct tagc_hosts hosts = tagc_levels_hosts(votes->comms[i]);
    v->wire = tagc_choose_wire(&hosts, votes->comms[i]->scope.two_levels, &votes->probings[i].found);
    votes->comms[i]->ledger->wire = v->wire;
    votes->comms[i]->ledger->probed = true;
  }
  return status;
}

/* What each would do with its slots. */
static ncclResult_t reserve(struct votes *votes)
{
  const bool is_auto = tagc_options_auto(tagc_library_options());
  bool alive = tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count && alive; i++) {
    struct vote *v = &votes->votes[i];
    if (v->postponed)
      continue;
    tagc_ballot_plan(votes->comms[i], v->decided, is_auto && !v->decided ? &v->wire : NULL);
    v->reserved = tagc_ballot_reserve(votes->comms[i], v->call->stream);
  }
  return tagc_comms_leave_driver(votes->comms, votes->count) && alive ? ncclSuccess : ncclInternalError;
}

/* And what all do then. A vote that is decided has all ranks' ballots in its own. */
static ncclResult_t cast_ballots(const struct tagc_exchange *real, struct votes *votes)
{
  const bool is_flat = tagc_library_options()->scope == TAGC_SCOPE_FLAT;
  ncclResult_t status = reserve(votes);
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++) {
    struct vote *v = &votes->votes[i];
    if (v->postponed)
      continue;
    pthread_mutex_lock(&votes->comms[i]->lock);
    const size_t ballot = v->words = tagc_ballot_words(votes->comms[i]);
    tagc_ballot_fill(votes->comms[i], v->reserved, v->host);
    if (is_flat && !votes->comms[i]->located) {    /* known for the report alone, at no further meeting */
      v->words += tagc_levels_words(votes->comms[i]);
      tagc_levels_tell(votes->comms[i], real, v->host + ballot);
    }
    pthread_mutex_unlock(&votes->comms[i]->lock);
  }
  if (status == ncclSuccess)
    status = meet(real, votes, true);
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++) {
    const struct vote *v = &votes->votes[i];
    if (v->postponed)
      continue;
    pthread_mutex_lock(&votes->comms[i]->lock);
    tagc_ballot_count(votes->comms[i], v->host);
    if (votes->comms[i]->ledger->probed)
      tagc_retune_end(votes->comms[i]->ledger->retune, votes->comms[i]->ledger->number, v->call->cycle);
    if (v->words > tagc_ballot_words(votes->comms[i]) && !v->decided &&
        !tagc_levels_hear(votes->comms[i], v->host + tagc_ballot_words(votes->comms[i])))
      status = tagc_no_memory("the hosts of a communicator");
    tagc_trace_vote(votes->comms[i], v->call->cycle);
    tagc_state_vote(votes->comms[i]);
    pthread_mutex_unlock(&votes->comms[i]->lock);
  }
  tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count; i++)
    if (votes->comms[i]->voted)
      tagc_estate_trim(votes->comms[i]);
  bool alive = tagc_comms_leave_driver(votes->comms, votes->count);
  return status == ncclSuccess && !alive ? ncclInternalError : status;
}

static ncclResult_t hold(const struct tagc_exchange *real, struct votes *votes)
{
  if (!tagc_comms_enter(votes->comms, votes->count, TAGC_PHASE_IDLE, TAGC_PHASE_OURS))
    return ncclInternalError;
  ncclResult_t status = prepare_all(votes);
  if (status == ncclSuccess)
    status = share_hosts(real, votes);
  if (tagc_options_auto(tagc_library_options()) && status == ncclSuccess) {
    status = share_surveys(real, votes);
    if (status == ncclSuccess)
      status = share_probes(real, votes);
  }
  if (status == ncclSuccess)
    status = cast_ballots(real, votes);
  give_back(votes);
  tagc_comms_leave(votes->comms, votes->count);
  return status;
}

ncclResult_t tagc_vote_hold(const struct tagc_exchange *real, struct tagc_call *const *calls, size_t count)
{
  size_t n = 0;
  for (size_t i = 0; i < count; i++)
    n += tagc_vote_is_due(calls[i]);
  if (!n)
    return ncclSuccess;
  struct votes votes = {.votes = calloc(n, sizeof *votes.votes), .comms = calloc(n, sizeof(*votes.comms)),
                        .probings = calloc(n, sizeof *votes.probings)};
  const bool good = votes.votes && votes.comms && votes.probings;
  for (size_t i = 0; i < count && good; i++)
    if (tagc_vote_is_due(calls[i])) {
      votes.votes[votes.count].call = votes.probings[votes.count].call = calls[i];
      votes.comms[votes.count++] = calls[i]->comm;
    }
  ncclResult_t status = good ? hold(real, &votes) : tagc_no_memory("the ballot of a vote");
  free(votes.votes);
  free(votes.comms);
  free(votes.probings);
  return status;
}
