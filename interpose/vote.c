/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote.h"

#include <stdlib.h>

#include "env/log.h"
#include "interpose/library.h"
#include "kernels/residual.h"

/* The ballot: int64, all-reduced with min. A value that must be equal on all ranks is there twice, once negated. */
enum { SLOT_CAN, SLOT_VERDICT, SLOT_VERDICT_NEGATED, SLOT_WORDS };

static size_t ballot_words(const struct tagc_comm *comm) { return SLOT_WORDS * comm->slot_count; }

static bool due(const struct tagc_comm *comm, const struct tagc_call *call)
{
  if (tagc_library_options()->mode == TAGC_MODE_OBSERVE || comm->voted || !comm->agreed || !comm->device ||
      comm->nranks < 2 || call->slot < 0 || call->cycle < TAGC_VOTE_CYCLE || call->lock_number != comm->lock_number)
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

/* What one call of a slot takes of the workspace, to compress or to flush. */
static size_t call_bytes(const struct tagc_slot *slot)
{
  struct tagc_job job = {.shape = slot->shape, .layout = slot->layout};
  size_t compress = tagc_execute_carve(&job, NULL), flush = 0;
  if (tagc_library_options()->mode == TAGC_MODE_AB)
    flush = (size_t)slot->shape.nranks * slot->shape.n * tagc_dtype_size(slot->shape.dtype);
  return compress > flush ? compress : flush;
}

void tagc_vote_release_slots(struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].residual)
      comm->device->release(comm->slots[i].residual, NULL);
  if (comm->workspace)
    comm->device->release(comm->workspace, NULL);
  free(comm->slots);
  comm->slots = NULL;
  comm->slot_count = 0;
  comm->workspace = NULL;
  comm->voted = false;
}

/* What this rank would do with every slot if it were alone, in slot order; the budget goes to the first ones. */
static void plan_slots(struct tagc_comm *comm)
{
  const struct tagc_options *options = tagc_library_options();
  uint64_t left = options->residual_max;
  size_t count;
  const struct tagc_slot_info *infos = tagc_cycle_slots(comm->cycle, &count);
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    slot->shape.residual = tagc_plan_storage(options, slot->codec);
    struct tagc_slot_question question = {options, slot->codec, &infos[i], slot->shape, slot->op,
                                          tagc_cycle_is_gradients(comm->cycle), left};
    uint64_t residual_bytes = 0;
    slot->verdict = slot->mixed ? TAGC_REASON_mixed_group
                                : tagc_plan_slot(&question, &slot->layout, &residual_bytes);
    if (slot->verdict == TAGC_REASON_compressed)
      left -= residual_bytes;
    if (!residual_bytes)
      slot->shape.residual = TAGC_STORAGE_NONE;
  }
}

/* The workspace: the calls of a communicator run one after the other, so the largest one counts. */
static size_t workspace_need(const struct tagc_comm *comm)
{
  size_t largest = 0;
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].verdict == TAGC_REASON_compressed && call_bytes(&comm->slots[i]) > largest)
      largest = call_bytes(&comm->slots[i]);
  return largest;
}

/* Reserves the workspace and the residuals of the slots that can be compressed. False where memory lacks. */
static bool reserve(struct tagc_comm *comm)
{
  size_t bytes = workspace_need(comm);
  bool good = true;
  if (bytes && !comm->workspace) {  /* it is there when a vote failed and is held again */
    comm->workspace = comm->device->alloc(bytes);
    good = comm->workspace != NULL;
  }
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    if (slot->verdict != TAGC_REASON_compressed || slot->shape.residual == TAGC_STORAGE_NONE || slot->residual)
      continue;
    slot->residual = comm->device->alloc(tagc_residual_bytes(&slot->shape));
    slot->residual_empty = true;
    good &= slot->residual != NULL;
  }
  return good;
}

static void fill_ballot(const struct tagc_comm *comm, bool reserved, int64_t *ballot)
{
  for (size_t i = 0; i < comm->slot_count; i++) {
    int64_t *word = ballot + SLOT_WORDS * i;
    word[SLOT_CAN] = reserved && comm->slots[i].verdict == TAGC_REASON_compressed;
    word[SLOT_VERDICT] = (int64_t)comm->slots[i].verdict;
    word[SLOT_VERDICT_NEGATED] = -(int64_t)comm->slots[i].verdict;
  }
}

/* Turns the outcome into verdicts, and gives back what was reserved in vain. */
static void count_votes(struct tagc_comm *comm, const int64_t *ballot)
{
  size_t won = 0;
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    const int64_t *word = ballot + SLOT_WORDS * i;
    bool same = word[SLOT_VERDICT] == -word[SLOT_VERDICT_NEGATED];
    if (same && word[SLOT_CAN]) {
      struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, (int)i);
      row->codec = slot->codec->name;
      row->residual_bytes = slot->residual ? tagc_residual_bytes(&slot->shape) : 0;
      won++;
      continue;
    }
    if (!same || slot->verdict == TAGC_REASON_compressed)
      slot->verdict = TAGC_REASON_vote;
    if (slot->residual)
      comm->device->release(slot->residual, NULL);
    slot->residual = NULL;
  }
  comm->voted = true;
  tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu: %zu of %zu slots will be compressed (TAGC_CODEC=%s)",
           (unsigned long long)comm->ledger->number, won, comm->slot_count, tagc_library_options()->codec);
}

/* One word to and from every peer: NCCL connects and allocates at the first contact, which must not happen in a step. */
static ncclResult_t meet_peers(const struct tagc_exchange *real, const struct tagc_comm *comm, int64_t *words,
                               cudaStream_t stream)
{
  ncclResult_t status = ncclSuccess;
  for (int peer = 0; peer < comm->nranks && status == ncclSuccess; peer++) {
    if (peer == comm->rank)
      continue;
    status = real->send(words, 1, ncclInt64, peer, comm->handle, stream);
    if (status == ncclSuccess)
      status = real->receive(words + 1 + peer, 1, ncclInt64, peer, comm->handle, stream);
  }
  return status;
}

struct ballot {
  struct tagc_call *call;
  int64_t *host, *device;           /* on the device: the ballot, then the words of the peers */
  size_t words;
};

/* The votes of one round. */
struct votes {
  struct ballot *ballots;
  struct tagc_comm **comms;
  size_t count;
};

static void free_votes(struct votes *votes)
{
  for (size_t i = 0; i < votes->count; i++) {
    free(votes->ballots[i].host);
    if (votes->ballots[i].device)
      votes->comms[i]->device->release(votes->ballots[i].device, votes->ballots[i].call->stream);
  }
  free(votes->ballots);
  free(votes->comms);
}

/* Fills one ballot. False without memory for it (what the slots lack is on the ballot instead). */
static bool make_ballot(struct ballot *b, struct tagc_call *call)
{
  struct tagc_comm *comm = call->comm;
  pthread_mutex_lock(&comm->lock);
  plan_slots(comm);
  bool reserved = reserve(comm);
  if (!reserved)
    tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu: no memory for residuals or workspace; all its ranks will pass "
             "every call through", (unsigned long long)comm->ledger->number);
  b->call = call;
  b->words = ballot_words(comm);
  b->host = malloc(b->words * sizeof *b->host);
  b->device = comm->device->alloc((b->words + 1 + (size_t)comm->nranks) * sizeof *b->device);
  bool good = b->host && b->device;
  if (good) {
    fill_ballot(comm, reserved, b->host);
    comm->device->put(b->device, b->host, b->words * sizeof *b->host, call->stream);
  }
  pthread_mutex_unlock(&comm->lock);
  return good;
}

static ncclResult_t enqueue(const struct tagc_exchange *real, void *votes_, size_t i)
{
  const struct votes *votes = votes_;
  const struct ballot *b = &votes->ballots[i];
  cudaStream_t stream = b->call->stream;
  ncclResult_t status =
    real->all_reduce(b->device, b->device, b->words, ncclInt64, ncclMin, b->call->handle, stream);
  return status == ncclSuccess ? meet_peers(real, votes->comms[i], b->device + b->words, stream) : status;
}

/* Reads the ballots. The host waits here for the other ranks: an abort must not wait for that. */
static bool read_ballots(const struct votes *votes)
{
  if (!tagc_comms_enter(votes->comms, votes->count, TAGC_PHASE_OURS, TAGC_PHASE_NCCL))
    return false;
  for (size_t i = 0; i < votes->count; i++) {
    const struct ballot *b = &votes->ballots[i];
    votes->comms[i]->device->get(b->host, b->device, b->words * sizeof *b->host, b->call->stream);
  }
  return tagc_comms_enter(votes->comms, votes->count, TAGC_PHASE_NCCL, TAGC_PHASE_OURS);
}

/* Exchanges the ballots and counts them. */
static ncclResult_t hold(const struct tagc_exchange *real, struct votes *votes)
{
  if (!tagc_comms_enter(votes->comms, votes->count, TAGC_PHASE_IDLE, TAGC_PHASE_OURS))
    return ncclInternalError;
  ncclResult_t status = tagc_exchange_run(real, votes->comms, votes->count, enqueue, votes);
  if (status == ncclSuccess && !read_ballots(votes))
    status = ncclInternalError;
  for (size_t i = 0; i < votes->count && status == ncclSuccess; i++) {
    struct tagc_comm *comm = votes->comms[i];
    pthread_mutex_lock(&comm->lock);
    count_votes(comm, votes->ballots[i].host);
    pthread_mutex_unlock(&comm->lock);
  }
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
  struct votes votes = {calloc(n, sizeof *votes.ballots), calloc(n, sizeof(*votes.comms)), 0};
  bool good = votes.ballots && votes.comms;
  for (size_t i = 0; i < count && good; i++)
    if (tagc_vote_is_due(calls[i])) {
      votes.comms[votes.count] = calls[i]->comm;
      good = make_ballot(&votes.ballots[votes.count++], calls[i]);
    }
  /* Without memory the call fails: the other ranks are waiting, and to pass alone would hang them. */
  ncclResult_t status = good ? hold(real, &votes) : tagc_no_memory("the ballot of a vote");
  free_votes(&votes);
  return status;
}
