/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote.h"

#include <stdlib.h>

#include "env/log.h"
#include "interpose/library.h"
#include "kernels/residual.h"

/* How many of the largest call the workspace holds: more calls of one group than that go in several batches. */
#define WORKSPACE_CALLS 4

/* The ballot: int64, all-reduced with min. A value that must be equal on all ranks is there twice, once negated. */
enum { BALLOT_OPTIONS, BALLOT_OPTIONS_NEGATED, BALLOT_SLOTS };
enum { SLOT_CAN, SLOT_VERDICT, SLOT_VERDICT_NEGATED, SLOT_WORDS };

static size_t ballot_words(const struct tagc_comm *comm) { return BALLOT_SLOTS + SLOT_WORDS * comm->slot_count; }

bool tagc_vote_due(const struct tagc_comm *comm, const struct tagc_call *call)
{
  if (tagc_library_options()->mode == TAGC_MODE_OBSERVE || comm->voted || comm->nonblocking || !comm->device ||
      comm->nranks < 2 || call->slot < 0 || call->cycle < TAGC_VOTE_CYCLE || call->lock_number != comm->lock_number)
    return false;
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].shape.n && comm->slots[i].op != TAGC_OP_OTHER)
      return true;
  return false;
}

static size_t padded(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

size_t tagc_vote_call_bytes(const struct tagc_slot *slot)
{
  const struct tagc_layout *l = &slot->layout;
  size_t w = (size_t)slot->shape.nranks;
  size_t compress = padded(w * l->exponent_bytes) + padded(w * l->sketch_count * 4) + padded(l->sketch_count * 4) +
                    2 * padded(w * l->message_bytes) + padded(l->state_bytes);
  size_t flush = tagc_library_options()->mode == TAGC_MODE_AB ? w * slot->shape.n * tagc_dtype_size(slot->shape.dtype) : 0;
  return compress > flush ? compress : padded(flush);
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
  comm->workspace_bytes = 0;
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
    struct tagc_slot_question question = {options, tagc_library_codec(), &infos[i], slot->shape, slot->op,
                                          tagc_cycle_is_gradients(comm->cycle), left};
    uint64_t residual_bytes;
    slot->verdict = slot->mixed ? TAGC_REASON_mixed_group
                                : tagc_plan_slot(&question, &slot->layout, &residual_bytes);
    if (slot->verdict == TAGC_REASON_compressed)
      left -= residual_bytes;
  }
}

/* The workspace that the slots which are (still) to be compressed share. It decides how the calls of a group are batched,
 * so after the vote it must follow from the winners alone, which are the same on all ranks. */
static size_t workspace_need(const struct tagc_comm *comm)
{
  size_t largest = 0, all = 0;
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].verdict == TAGC_REASON_compressed) {
      size_t bytes = tagc_vote_call_bytes(&comm->slots[i]);
      largest = bytes > largest ? bytes : largest;
      all += bytes;
    }
  return all < WORKSPACE_CALLS * largest ? all : WORKSPACE_CALLS * largest;
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
  for (size_t i = 0; i < comm->slot_count && tagc_library_codec()->needs_residual; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    if (slot->verdict != TAGC_REASON_compressed || slot->residual)
      continue;
    slot->residual = comm->device->alloc(tagc_residual_bytes(&slot->shape));
    slot->residual_empty = true;
    good &= slot->residual != NULL;
  }
  return good;
}

static void fill_ballot(const struct tagc_comm *comm, bool reserved, int64_t *ballot)
{
  int64_t hash = (int64_t)(tagc_options_hash(tagc_library_options()) >> 1);
  ballot[BALLOT_OPTIONS] = hash;
  ballot[BALLOT_OPTIONS_NEGATED] = -hash;
  for (size_t i = 0; i < comm->slot_count; i++) {
    int64_t *word = ballot + BALLOT_SLOTS + SLOT_WORDS * i;
    word[SLOT_CAN] = reserved && comm->slots[i].verdict == TAGC_REASON_compressed;
    word[SLOT_VERDICT] = (int64_t)comm->slots[i].verdict;
    word[SLOT_VERDICT_NEGATED] = -(int64_t)comm->slots[i].verdict;
  }
}

/* Turns the outcome into verdicts, and gives back what was reserved in vain. */
static void count_votes(struct tagc_comm *comm, const int64_t *ballot)
{
  bool same_options = ballot[BALLOT_OPTIONS] == -ballot[BALLOT_OPTIONS_NEGATED];
  size_t won = 0;
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    const int64_t *word = ballot + BALLOT_SLOTS + SLOT_WORDS * i;
    bool same = same_options && word[SLOT_VERDICT] == -word[SLOT_VERDICT_NEGATED];
    if (same && word[SLOT_CAN]) {
      won++;
      if (slot->residual)
        tagc_ledger_row(comm->ledger, (int)i)->residual_bytes = tagc_residual_bytes(&slot->shape);
      continue;
    }
    if (!same || slot->verdict == TAGC_REASON_compressed)
      slot->verdict = TAGC_REASON_vote;
    if (slot->residual)
      comm->device->release(slot->residual, NULL);
    slot->residual = NULL;
  }
  comm->workspace_bytes = workspace_need(comm);
  comm->voted = true;
  if (!same_options)
    tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu: its %d ranks have different TAGC_* options; every call passes "
             "through (this rank's options hash to %016llx)", (unsigned long long)comm->ledger->number, comm->nranks,
             (unsigned long long)tagc_options_hash(tagc_library_options()));
  tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu: %zu of %zu slots will be compressed with %s",
           (unsigned long long)comm->ledger->number, won, comm->slot_count, tagc_library_codec()->name);
}

/* One word to and from every peer: NCCL connects and allocates at the first contact, which must not happen in a step. */
static ncclResult_t meet_peers(const struct tagc_comm *comm, int64_t *words, cudaStream_t stream)
{
  ncclResult_t status = ncclSuccess;
  __typeof__(&ncclSend) send = TAGC_REAL(ncclSend, NULL);
  __typeof__(&ncclRecv) receive = TAGC_REAL(ncclRecv, NULL);
  if (!send || !receive)
    return ncclSystemError;
  for (int peer = 0; peer < comm->nranks && status == ncclSuccess; peer++) {
    if (peer == comm->rank)
      continue;
    status = send(words, 1, ncclInt64, peer, comm->handle, stream);
    if (status == ncclSuccess)
      status = receive(words + 1 + peer, 1, ncclInt64, peer, comm->handle, stream);
  }
  return status;
}

struct ballot {
  int64_t *host, *device;
  size_t words;
  bool reserved;
};

static void free_ballots(struct ballot *ballots, struct tagc_call *const *calls, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    free(ballots[i].host);
    if (ballots[i].device)
      calls[i]->comm->device->release(ballots[i].device, calls[i]->stream);
  }
  free(ballots);
}

/* The ballots of all communicators, filled; NULL without memory. On the device: the ballot, then the words of peers. */
static struct ballot *make_ballots(struct tagc_call *const *calls, size_t count)
{
  struct ballot *ballots = calloc(count, sizeof *ballots);
  for (size_t i = 0; ballots && i < count; i++) {
    struct tagc_comm *comm = calls[i]->comm;
    struct ballot *b = &ballots[i];
    pthread_mutex_lock(&comm->lock);
    plan_slots(comm);
    b->reserved = reserve(comm);
    b->words = ballot_words(comm);
    b->host = malloc(b->words * sizeof *b->host);
    b->device = comm->device->alloc((b->words + 1 + (size_t)comm->nranks) * sizeof *b->device);
    if (b->host && b->device) {
      fill_ballot(comm, b->reserved, b->host);
      comm->device->put(b->device, b->host, b->words * sizeof *b->host, calls[i]->stream);
    }
    pthread_mutex_unlock(&comm->lock);
    if (!b->host || !b->device) {
      free_ballots(ballots, calls, i + 1);
      return NULL;
    }
  }
  return ballots;
}

static ncclResult_t exchange(const struct ballot *ballots, struct tagc_call *const *calls, size_t count)
{
  __typeof__(&ncclGroupStart) start = TAGC_REAL(ncclGroupStart, NULL);
  __typeof__(&ncclGroupEnd) end = TAGC_REAL(ncclGroupEnd, NULL);
  __typeof__(&ncclAllReduce) all_reduce = TAGC_REAL(ncclAllReduce, NULL);
  if (!start || !end || !all_reduce)
    return ncclSystemError;
  tagc_real_depth++;
  ncclResult_t status = start(), ended;
  if (status == ncclSuccess) {
    for (size_t i = 0; i < count && status == ncclSuccess; i++) {
      const struct ballot *b = &ballots[i];
      status = all_reduce(b->device, b->device, b->words, ncclInt64, ncclMin, calls[i]->handle, calls[i]->stream);
      if (status == ncclSuccess)
        status = meet_peers(calls[i]->comm, b->device + b->words, calls[i]->stream);
    }
    ended = end();
    status = status == ncclSuccess ? ended : status;
  }
  tagc_real_depth--;
  return status;
}

ncclResult_t tagc_vote_hold(struct tagc_call *const *calls, size_t count)
{
  struct ballot *ballots = make_ballots(calls, count);
  if (!ballots)
    return ncclSystemError;         /* the other ranks are waiting: to pass alone would hang them */
  ncclResult_t status = exchange(ballots, calls, count);
  for (size_t i = 0; i < count && status == ncclSuccess; i++) {
    struct tagc_comm *comm = calls[i]->comm;
    comm->device->get(ballots[i].host, ballots[i].device, ballots[i].words * sizeof(int64_t), calls[i]->stream);
    pthread_mutex_lock(&comm->lock);
    count_votes(comm, ballots[i].host);
    pthread_mutex_unlock(&comm->lock);
  }
  free_ballots(ballots, calls, count);
  return status;
}
