/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/vote.h"

#include <stdlib.h>

#include "interpose/calls/calls.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/memory.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/loss_samples.h"
#include "interpose/nccl/process.h"
#include "interpose/torch/ask.h"
#include "interpose/vote/changes.h"
#include "interpose/vote/message.h"
#include "interpose/vote/probe.h"
#include "interpose/vote/proposal.h"
#include "interpose/vote/tune.h"

static bool due(const struct tagc_comm *comm, const struct tagc_call *call) {
  if (comm->vote.asks_map || !tagc_comm_awaits_vote(comm, call) || call->cycle < tagc_comm_next_vote(comm))
    return false;
  for (size_t i = 0; i < comm->slot_count; i++)
    if (tagc_slot_has_codecs(&comm->slots[i]))
      return true;
  return false;
}

/* Before the first call of a slot, so that samples of gradients are of the parts that the map selects. */
static bool map_due(const struct tagc_comm *comm, const struct tagc_call *call) {
  return comm->vote.asks_map && call->cycle > comm->vote.map_cycle && tagc_comm_awaits_vote(comm, call);
}

bool tagc_vote_is_due(const struct tagc_call *call) {
  pthread_mutex_lock(&call->comm->lock);
  bool is_due = map_due(call->comm, call) || due(call->comm, call);
  pthread_mutex_unlock(&call->comm->lock);
  return is_due;
}

/* The vote of one rank of the communicator. */
struct vote {
  const struct tagc_nccl_group *real;
  struct tagc_call *call;
  struct tagc_comm *comm;        /* its communicator */
  struct tagc_probing *probing;  /* TAGC_CODEC=auto */
  int64_t *words, *device_words; /* the message; on the device the words of a greeting follow it */
  size_t room, count;            /* of words, and of those packed now; 0: no message */
  bool pinned;                   /* device_words is pinned host memory */
  bool pending;                  /* a copy to `words` may be under way, with an unknown end */
  void *scratch;                 /* of the probe */
  bool was_split, unsplit;       /* before this vote; in this vote some rank could not */
  bool decided;                  /* everything stays plain: no question is left */
  bool postponed;                /* decided for now: the vote is held again later */
  bool reserved;                 /* the memory for this rank's proposal */
  struct tagc_model *model;      /* TAGC_LAYERMAP=torch: what PyTorch says here; NULL: nothing */
  uint64_t model_digest;
  bool map_later; /* PyTorch's answer is not there yet */
};

/* The votes of this thread's ranks. */
struct votes {
  struct vote *votes;
  struct tagc_comm **comms;
  struct tagc_probing *probings;
  size_t count;
  bool greet; /* connect to the peers in the next exchange */
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Memory that may still be in use after a failure is never released. */
static void release_messages(const struct votes *votes) {
  bool released = true;
  for (size_t i = 0; i < votes->count; i++)
    released = tagc_comm_await_abort(votes->comms[i]) && released;
  tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count; i++) {
    const struct vote *v = &votes->votes[i];
    const struct tagc_device *device = v->comm->device;
    if (!v->pending)
      free(v->words);
    if (!released || !tagc_comm_has_streams(v->comm))
      continue;
    device->release(device, v->pinned ? NULL : v->device_words, v->call->stream);
    device->release(device, v->scratch, v->call->stream);
  }
  tagc_comms_leave_driver(votes->comms, votes->count);
}

/* The longest message of a vote: the proposals followed by the hosts, or the samples. */
static size_t longest_message(const struct tagc_comm *comm) {
  const size_t proposals = tagc_proposal_words(comm) + TAGC_MESSAGE_HOSTS + (size_t)comm->nranks;
  const size_t samples = tagc_options_auto(tagc_library_options()) ? tagc_tune_words(comm) : 0;
  const size_t longer = proposals > samples ? proposals : samples, changes = tagc_changes_words(comm);
  return longer > changes ? longer : changes;
}

/* Reserves the memory for one vote; false without it. The vote reports a lack of memory for slots or for the probe; for
 * that it works even if the GPU is full. */
static bool reserve_messages(struct vote *v) {
  struct tagc_comm *comm = v->comm;
  const struct tagc_device *device = comm->device;
  v->room = longest_message(comm);
  v->words = malloc(v->room * sizeof *v->words);
  const size_t greeting = tagc_hierarchy_connect_words(comm), bytes = (v->room + greeting) * sizeof *v->device_words;
  v->device_words = device->alloc(device, bytes, v->call->stream);
  v->pinned = !v->device_words;
  if (v->pinned)
    v->device_words = device->alloc_pinned(device, bytes);
  if (v->device_words &&
      !device->clear(device, v->device_words + v->room, greeting * sizeof *v->device_words, v->call->stream))
    return false;
  if (comm->vote.held) /* another vote, with TAGC_BUDGET; the wire was probed before the first one */
    tagc_memory_read_tallies(comm);
  if (tagc_options_auto(tagc_library_options()) && !comm->vote.held) {
    const size_t scratch = tagc_probe_scratch(comm, &v->probing->found);
    v->probing->scratch = v->scratch = device->alloc(device, scratch, v->call->stream);
    if (v->scratch && !device->clear(device, v->scratch, scratch, v->call->stream))
      return false;
  }
  return v->words && v->device_words;
}

/* Without memory the calls fail: the other ranks are waiting, and passing on this rank alone would hang them. */
static ncclResult_t reserve_all(struct votes *votes) {
  bool alive = tagc_comms_enter_driver(votes->comms, votes->count), good = true;
  for (size_t i = 0; i < votes->count && alive && good; i++)
    good = reserve_messages(&votes->votes[i]);
  alive &= tagc_comms_leave_driver(votes->comms, votes->count);
  return !alive ? ncclInternalError : good ? ncclSuccess : tagc_no_memory("the messages of a vote");
}

/* ---- a meeting --------------------------------------------------------------------------------------------------- */

static bool is_sent(const struct vote *v) { return !v->decided && v->count; }

static ncclResult_t enqueue_message(const struct tagc_nccl_group *real, void *votes_, size_t i) {
  const struct votes *votes = votes_;
  const struct vote *v = &votes->votes[i];
  if (!is_sent(v))
    return ncclSuccess;
  ncclResult_t status =
    real->all_reduce(v->device_words, v->device_words, v->count, ncclInt64, ncclMin, v->call->handle, v->call->stream);
  const bool greets = votes->greet && tagc_hierarchy_is_ready(v->comm);
  return status == ncclSuccess && greets ? tagc_hierarchy_connect(real, v->call, v->device_words + v->room) : status;
}

/* Copies the messages to the device, or the results back. There the host waits for other ranks, but an abort does
 * not. */
static ncclResult_t copy_messages(const struct votes *votes, bool to_device) {
  bool good = true, alive = tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count && alive; i++) {
    struct vote *v = &votes->votes[i];
    const struct tagc_device *device = v->comm->device;
    const size_t bytes = v->count * sizeof *v->words;
    if (!is_sent(v))
      continue;
    const bool went = to_device ? device->put(device, v->device_words, v->words, bytes, v->call->stream)
                                : device->get(device, v->words, v->device_words, bytes, v->call->stream);
    v->pending |= !to_device && !went && !device->host_reads; /* put() leaves no copy under way */
    good &= went;
  }
  alive &= tagc_comms_leave_driver(votes->comms, votes->count);
  return !alive ? ncclInternalError : good ? ncclSuccess : ncclUnhandledCudaError;
}

/* Min-all-reduces the messages of undecided votes. */
static ncclResult_t all_reduce_messages(const struct tagc_nccl_group *real, struct votes *votes) {
  bool any = false;
  for (size_t i = 0; i < votes->count; i++)
    any |= is_sent(&votes->votes[i]);
  if (!any)
    return ncclSuccess;
  ncclResult_t status = copy_messages(votes, true);
  if (status == ncclSuccess)
    status = tagc_nccl_group_run(real, votes->comms, votes->count, enqueue_message, votes);
  return status == ncclSuccess ? copy_messages(votes, false) : status;
}

/* One meeting: every vote packs a message, or none, and unpacks the outcome of all ranks. For a decided vote all ranks'
 * messages equal its own. Calls both functions with the lock; unpack returns false without memory. */
static ncclResult_t meet(const struct tagc_nccl_group *real, struct votes *votes,
                         void (*pack)(struct vote *, struct tagc_message *),
                         bool (*unpack)(struct vote *, struct tagc_message *)) {
  for (size_t i = 0; i < votes->count; i++) {
    struct vote *v = &votes->votes[i];
    struct tagc_message message = {.at = v->words};
    pthread_mutex_lock(&v->comm->lock);
    pack(v, &message);
    pthread_mutex_unlock(&v->comm->lock);
    v->count = (size_t)(message.at - v->words);
  }
  ncclResult_t status = all_reduce_messages(real, votes);
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++) {
    struct vote *v = &votes->votes[i];
    struct tagc_message message = {.at = v->words, .unpacks = true};
    pthread_mutex_lock(&v->comm->lock);
    if (v->count && !unpack(v, &message))
      status = tagc_no_memory("the outcome of a vote");
    pthread_mutex_unlock(&v->comm->lock);
  }
  return status;
}

/* ---- TAGC_LAYERMAP=torch ----------------------------------------------------------------------------------------- */

/* Who did not ask for PyTorch gets a warning only if the library waited in vain; else if the inferred layers do not
 * do. */
static void tell_no_map(struct tagc_comm *comm, const char *why) {
  const bool is_asked_for = tagc_library_asks_torch() == TAGC_ASK_ALL;
  if (!comm->vote.map_told)
    tagc_log(is_asked_for || tagc_torch_was_late() ? TAGC_LOG_WARN : TAGC_LOG_INFO, "layermap",
             "communicator %llu: %s: %s, so layers are inferred", (unsigned long long)comm->ledger->number,
             is_asked_for ? "TAGC_LAYERMAP=torch" : "PyTorch was asked for the kinds in TAGC_LAYERS or TAGC_SKIP", why);
  comm->vote.map_told = true;
}

static void pack_map(struct vote *v, struct tagc_message *message) {
  tagc_message_map(message, &(struct tagc_vote_map){.answered = !v->map_later,
                                                    .found = v->model,
                                                    .digest = tagc_vote_own((int64_t)(v->model_digest >> 2))});
}

/* A rank's answer will come: all ask again in the next cycle, a few times, and all that follows is later. */
static bool postpone_map(const struct tagc_call *call) {
  enum { MOST = 4 };
  struct tagc_comm *comm = call->comm;
  if (comm->vote.map_postponed == MOST)
    return false;
  comm->vote.map_postponed++;
  comm->vote.map_cycle = call->cycle;
  comm->vote.cycle = tagc_comm_first_vote(comm);
  return true;
}

static bool unpack_map(struct vote *v, struct tagc_message *message) {
  struct tagc_vote_map map = {0};
  tagc_message_map(message, &map);
  if (!map.answered && postpone_map(v->call)) {
    tagc_model_free(v->model);
    v->model = NULL;
    return true;
  }
  tagc_torch_settled(v->comm->nranks);
  if (v->map_later)
    tell_no_map(v->comm, "DDP did not tell its buckets in several steps");
  const bool agreed = map.found && tagc_vote_is_same(map.digest);
  if (!agreed && v->model)
    tell_no_map(v->comm, map.found ? "the ranks have different models" : "another rank's PyTorch tells none");
  if (!agreed)
    tagc_model_free(v->model);
  struct tagc_model *model = agreed ? v->model : NULL;
  v->model = NULL;
  return tagc_lock_use_map(v->comm, model) == ncclSuccess;
}

/* Asks PyTorch, without a lock, and shares the answers. An abort from another thread does not wait for Python, whose
 * thread may wait for that one. */
static ncclResult_t share_maps(const struct tagc_nccl_group *real, struct votes *votes) {
  char why[TAGC_TORCH_WHY];
  bool aborted = false;
  tagc_comms_lend(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count; i++) {
    struct vote *v = &votes->votes[i];
    v->model = tagc_torch_ask(v->comm->nranks, tagc_library_asks_torch() == TAGC_ASK_ALL,
                              tagc_library_options()->torch_timeout, &v->model_digest, &v->map_later, why);
    if (!v->model && !v->map_later)
      tell_no_map(v->comm, why);
  }
  tagc_comms_take_back(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count; i++)
    aborted |= tagc_comm_is_aborted(votes->comms[i]);
  const ncclResult_t status = aborted ? ncclInternalError : meet(real, votes, pack_map, unpack_map);
  for (size_t i = 0; i < votes->count; i++)
    tagc_model_free(votes->votes[i].model);
  return status;
}

/* ---- shards of gradients ----------------------------------------------------------------------------------------- */

static void pack_replicas(struct vote *v, struct tagc_message *message) {
  bool are_shards = tagc_shards_are(v->comm);
  tagc_message_flag(message, &are_shards);
}

/* The communicator of the shards may learn its cycle later: they are asked again, a few times. */
static bool unpack_replicas(struct vote *v, struct tagc_message *message) {
  struct tagc_comm *comm = v->comm;
  const uint64_t next = tagc_plan_next_vote(comm->vote.cycle);
  tagc_message_flag(message, &comm->vote.are_shards);
  comm->vote.asks_shards = !comm->vote.are_shards && next;
  if (comm->vote.are_shards) {
    comm->ledger->taken_for = "gradients, as another communicator reduce-scatters these shards";
    tagc_log(TAGC_LOG_INFO, "interpose",
             "communicator %llu: its all-reduces are of gradients: another communicator reduce-scatters these shards",
             (unsigned long long)comm->ledger->number);
  } else if (next)
    comm->vote.cycle = next;
  else
    tagc_comm_pass_slots(comm);
  return true;
}

/* Asks of all-reduces that nothing proves. */
static ncclResult_t share_replicas(const struct tagc_nccl_group *real, struct votes *votes) {
  return meet(real, votes, pack_replicas, unpack_replicas);
}

/* ---- changes of contents ----------------------------------------------------------------------------------------- */

static void pack_changes(struct vote *v, struct tagc_message *message) { tagc_changes_pack(v->comm, message); }

static bool unpack_changes(struct vote *v, struct tagc_message *message) {
  return tagc_changes_resolve(v->comm, message);
}

/* Shares how the contents of calls have changed. It decides what the other meetings are about. */
static ncclResult_t share_changes(const struct tagc_nccl_group *real, struct votes *votes) {
  bool alive = tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count && alive; i++)
    tagc_changes_read(votes->comms[i], votes->votes[i].call->stream);
  alive &= tagc_comms_leave_driver(votes->comms, votes->count);
  return alive ? meet(real, votes, pack_changes, unpack_changes) : ncclInternalError;
}

/* ---- the hosts --------------------------------------------------------------------------------------------------- */

static void pack_hosts(struct vote *v, struct tagc_message *message) {
  const struct tagc_comm *comm = v->comm;
  if (!tagc_hierarchy_passes_all(comm))
    tagc_message_hosts(message, &(struct tagc_vote_hosts){.can_split = tagc_hierarchy_can_split(comm, v->real),
                                                          .nranks = comm->nranks,
                                                          .rank = comm->rank,
                                                          .host = comm->agreement.host});
}

static bool unpack_hosts(struct vote *v, struct tagc_message *message) {
  struct tagc_comm *comm = v->comm;
  struct tagc_vote_hosts all = {.nranks = comm->nranks};
  all.host_of = comm->hierarchy.located ? NULL : malloc((size_t)comm->nranks * sizeof *all.host_of);
  tagc_message_hosts(message, &all);
  const bool good = tagc_hierarchy_locate(comm, all.host_of, all.can_split);
  free(all.host_of);
  return good;
}

/* For communicators that are split now: do all ranks have the sub-communicators? */
static void pack_split(struct vote *v, struct tagc_message *message) {
  bool ready = tagc_hierarchy_is_ready(v->comm);
  if (v->comm->hierarchy.split && !v->was_split)
    tagc_message_flag(message, &ready);
}

static bool unpack_split(struct vote *v, struct tagc_message *message) {
  bool ready = false;
  tagc_message_flag(message, &ready);
  v->unsplit = !v->decided && !ready;
  return true;
}

static ncclResult_t share_splits(const struct tagc_nccl_group *real, struct votes *votes) {
  for (size_t i = 0; i < votes->count; i++)
    votes->votes[i].decided = votes->comms[i]->hierarchy.scope.reason != TAGC_REASON_NONE;
  ncclResult_t status = meet(real, votes, pack_split, unpack_split);
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++)
    if (votes->votes[i].unsplit) {
      tagc_hierarchy_disable(votes->comms[i]);
      votes->votes[i].decided = true;
    }
  return status;
}

/* Finds each rank's host, and makes the sub-communicators that follow from that. Communicators that pass are decided
 * then. TAGC_SCOPE=flat needs neither before the proposals. */
static ncclResult_t share_hosts(const struct tagc_nccl_group *real, struct votes *votes) {
  if (tagc_library_options()->scope == TAGC_SCOPE_FLAT)
    return ncclSuccess;
  ncclResult_t status = meet(real, votes, pack_hosts, unpack_hosts);
  for (size_t i = 0; i < votes->count; i++)
    votes->votes[i].was_split = votes->comms[i]->hierarchy.split;
  if (status == ncclSuccess)
    status = tagc_hierarchy_split(real, votes->comms, votes->count);
  return status == ncclSuccess ? share_splits(real, votes) : status;
}

/* ---- TAGC_CODEC=auto --------------------------------------------------------------------------------------------- */

static void pack_samples(struct vote *v, struct tagc_message *message) {
  if (!v->decided)
    tagc_tune_pack(v->comm, v->comm->vote.held || v->scratch, message);
}

static bool unpack_samples(struct vote *v, struct tagc_message *message) {
  v->postponed = tagc_tune_postpone(v->comm, *message);
  v->decided = v->postponed || !tagc_tune_resolve(v->comm, *message);
  return true;
}

static void pack_probe(struct vote *v, struct tagc_message *message) {
  if (!v->decided && !v->comm->vote.held)
    tagc_message_probe(message, &v->probing->found);
}

static bool unpack_probe(struct vote *v, struct tagc_message *message) {
  const struct tagc_hosts hosts = tagc_hierarchy_hosts(v->comm);
  struct tagc_ledger *ledger = v->comm->ledger;
  tagc_message_probe(message, &v->probing->found);
  ledger->wire = tagc_choose_wire(&hosts, v->comm->hierarchy.scope.two_levels, &v->probing->found);
  ledger->probed = true;
  return true;
}

/* Shares the samples of all ranks, and the cost of the wire. */
static ncclResult_t share_times(const struct tagc_nccl_group *real, struct votes *votes) {
  ncclResult_t status = meet(real, votes, pack_samples, unpack_samples);
  for (size_t i = 0; i < votes->count; i++)
    if (votes->votes[i].decided)
      votes->probings[i].scratch = NULL;
  if (status == ncclSuccess)
    status = tagc_probe_run(real, votes->comms, votes->probings, votes->count);
  return status == ncclSuccess ? meet(real, votes, pack_probe, unpack_probe) : status;
}

/* ---- the proposals ----------------------------------------------------------------------------------------------- */

/* Plans each communicator's slots. */
static ncclResult_t plan_all(struct votes *votes) {
  const bool is_auto = tagc_options_auto(tagc_library_options());
  bool alive = tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count && alive; i++) {
    struct vote *v = &votes->votes[i];
    if (v->postponed)
      continue;
    tagc_proposal_plan(v->comm, v->decided, is_auto && !v->decided ? &v->comm->ledger->wire : NULL);
    v->reserved = tagc_proposal_reserve(v->comm, v->call->stream);
  }
  return tagc_comms_leave_driver(votes->comms, votes->count) && alive ? ncclSuccess : ncclInternalError;
}

/* With TAGC_SCOPE=flat only the report needs the hosts: they come with the proposals. */
static bool has_hosts(const struct tagc_comm *comm) {
  return tagc_library_options()->scope == TAGC_SCOPE_FLAT && !comm->hierarchy.located;
}

static void pack_proposals(struct vote *v, struct tagc_message *message) {
  if (v->postponed)
    return;
  tagc_proposal_pack(v->comm, v->reserved, message);
  if (has_hosts(v->comm))
    pack_hosts(v, message);
}

static bool unpack_proposals(struct vote *v, struct tagc_message *message) {
  struct tagc_comm *comm = v->comm;
  tagc_proposal_resolve(comm, message);
  if (comm->ledger->probed)
    tagc_retune_end(comm->ledger->retune, comm->ledger->number, v->call->cycle);
  const bool good = v->decided || !has_hosts(comm) || unpack_hosts(v, message);
  tagc_trace_vote(comm, v->call->cycle);
  tagc_loss_sample_vote(comm);
  return good;
}

/* Shares the proposals, and trims the memory to the outcome. */
static ncclResult_t share_proposals(const struct tagc_nccl_group *real, struct votes *votes) {
  ncclResult_t status = plan_all(votes);
  votes->greet = true;
  if (status == ncclSuccess)
    status = meet(real, votes, pack_proposals, unpack_proposals);
  tagc_comms_enter_driver(votes->comms, votes->count);
  for (size_t i = 0; i < votes->count; i++)
    if (votes->comms[i]->vote.held)
      tagc_memory_trim(votes->comms[i]);
  bool alive = tagc_comms_leave_driver(votes->comms, votes->count);
  return status == ncclSuccess && !alive ? ncclInternalError : status;
}

static ncclResult_t share_all(const struct tagc_nccl_group *real, struct votes *votes) {
  ncclResult_t status = share_hosts(real, votes);
  if (status == ncclSuccess && tagc_options_auto(tagc_library_options()))
    status = share_times(real, votes);
  return status == ncclSuccess ? share_proposals(real, votes) : status;
}

typedef ncclResult_t share_function(const struct tagc_nccl_group *real, struct votes *votes);

static ncclResult_t hold(const struct tagc_nccl_group *real, struct votes *votes, share_function *share) {
  if (!tagc_comms_enter(votes->comms, votes->count))
    return ncclInternalError;
  ncclResult_t status = reserve_all(votes);
  if (status == ncclSuccess)
    status = share(real, votes);
  release_messages(votes);
  tagc_comms_leave(votes->comms, votes->count);
  return status;
}

static bool asks_map(const struct tagc_call *call) {
  pthread_mutex_lock(&call->comm->lock);
  const bool asks = map_due(call->comm, call);
  pthread_mutex_unlock(&call->comm->lock);
  return asks;
}

static bool asks_shards(const struct tagc_call *call) {
  pthread_mutex_lock(&call->comm->lock);
  const bool asks = due(call->comm, call) && call->comm->vote.asks_shards;
  pthread_mutex_unlock(&call->comm->lock);
  return asks;
}

static bool chooses(const struct tagc_call *call) {
  pthread_mutex_lock(&call->comm->lock);
  const bool is_due = due(call->comm, call);
  pthread_mutex_unlock(&call->comm->lock);
  return is_due;
}

static bool asks_changes(const struct tagc_call *call) {
  const struct tagc_comm_changes *changes = &call->comm->changes;
  pthread_mutex_lock(&call->comm->lock);
  const bool asks = due(call->comm, call) && changes->watched && !changes->judged;
  pthread_mutex_unlock(&call->comm->lock);
  return asks;
}

/* Holds a vote of the calls that need it. */
static ncclResult_t hold_for(const struct tagc_nccl_group *real, struct tagc_call *const *calls, size_t count,
                             bool (*needs)(const struct tagc_call *), share_function *share) {
  size_t n = 0;
  for (size_t i = 0; i < count; i++)
    n += needs(calls[i]);
  if (!n)
    return ncclSuccess;
  struct votes votes = {.votes = calloc(n, sizeof *votes.votes),
                        .comms = calloc(n, sizeof(*votes.comms)),
                        .probings = calloc(n, sizeof *votes.probings)};
  const bool good = votes.votes && votes.comms && votes.probings;
  for (size_t i = 0; i < count && good; i++)
    if (needs(calls[i])) {
      struct tagc_probing *probing = &votes.probings[votes.count];
      probing->call = calls[i];
      votes.votes[votes.count] =
        (struct vote){.real = real, .call = calls[i], .comm = calls[i]->comm, .probing = probing};
      votes.comms[votes.count++] = calls[i]->comm;
    }
  ncclResult_t status = good ? hold(real, &votes, share) : tagc_no_memory("the messages of a vote");
  free(votes.votes);
  free(votes.comms);
  free(votes.probings);
  return status;
}

ncclResult_t tagc_vote_hold(const struct tagc_nccl_group *real, struct tagc_call *const *calls, size_t count) {
  ncclResult_t status = hold_for(real, calls, count, asks_map, share_maps);
  if (status == ncclSuccess)
    status = hold_for(real, calls, count, asks_shards, share_replicas);
  if (status == ncclSuccess)
    status = hold_for(real, calls, count, asks_changes, share_changes);
  return status == ncclSuccess ? hold_for(real, calls, count, chooses, share_all) : status;
}
