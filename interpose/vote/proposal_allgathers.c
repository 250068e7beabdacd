/* SPDX-License-Identifier: BSD-3-Clause
 * The all-gathers of parameters in the proposals of a communicator.
 */
#include "env/log.h"
#include "interpose/comm/chunking.h"
#include "interpose/comm/slot.h"
#include "interpose/nccl/process.h"
#include "interpose/policy/chunk_count.h"
#include "interpose/vote/proposal.h"

/* A rank that cannot have so many chunks has one, and says so in its proposal. */
static void set_allgather_chunks(const struct tagc_comm *comm, struct tagc_allgather *a, int count)
{
  (void)tagc_chunking_set_allgather(comm->device, a->codec, &a->shape, &a->layout, &a->chunking, count);
}

static struct tagc_allgather_question allgather_question(const struct tagc_comm *comm, const struct tagc_allgather *a)
{
  const struct tagc_slot_question slot = tagc_slot_question(comm, a->slot);
  return (struct tagc_allgather_question){
    .options = slot.options, .codec = a->codec, .shape = a->shape, .hosts = slot.hosts, .slot = slot.slot,
    .layer_known = slot.layer_known,
    .selection = slot.selection, .gradients = slot.gradients,
  };
}

/* What this rank would do with it if it were alone. */
static enum tagc_reason plan_allgather(struct tagc_comm *comm, struct tagc_allgather *a, uint64_t *left)
{
  const struct tagc_allgather *first = tagc_allgather_first(comm, a);
  struct tagc_allgather_question question = allgather_question(comm, a);
  question.reference_left = *left;
  question.referred = first != a && first->reason == TAGC_REASON_compressed;
  enum tagc_reason reason = tagc_plan_allgather(&question, &a->layout);
  if (reason == TAGC_REASON_compressed && first != a && first->reason != reason)
    reason = first->reason;
  if (reason != TAGC_REASON_compressed)
    return reason;
  if (first == a)
    *left -= a->layout.reference_bytes;
  if (a->reject_reason != TAGC_REASON_NONE)
    return a->reject_reason;
  /* What runs on a device depends on its driver: the others learn of it from the proposal. */
  if (!comm->device->allgather_layout(comm->device, a->codec, &a->shape, &a->layout))
    return TAGC_REASON_device;
  set_allgather_chunks(comm, a, tagc_chunk_count_allgather(tagc_library_options(), &a->shape, &a->layout));
  return TAGC_REASON_compressed;
}

void tagc_proposal_plan_allgathers(struct tagc_comm *comm, bool decided)
{
  const enum tagc_reason why = comm->hierarchy.scope.reason == TAGC_REASON_NONE ? TAGC_REASON_vote
                                                                                : comm->hierarchy.scope.reason;
  uint64_t left = tagc_library_options()->allgather_max;
  for (size_t i = 0; i < comm->allgather_count; i++)
    comm->allgathers[i].reason = decided ? why : plan_allgather(comm, &comm->allgathers[i], &left);
}

bool tagc_proposal_has_chunked_allgathers(const struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].reason == TAGC_REASON_compressed && comm->allgathers[i].chunking.chunks.count > 1)
      return true;
  return false;
}

void tagc_proposal_join_allgathers(struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].reason == TAGC_REASON_compressed)
      set_allgather_chunks(comm, &comm->allgathers[i], 1);
}

static int64_t allgather_codec_number(const struct tagc_allgather *a)
{
  int64_t number = 0;
  while (tagc_allgather_codecs[number] && tagc_allgather_codecs[number] != a->codec)
    number++;
  return number;
}

void tagc_proposal_pack_allgathers(const struct tagc_comm *comm, bool reserved, int64_t **to)
{
  for (size_t i = 0; i < comm->allgather_count; i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    const bool compressed = a->reason == TAGC_REASON_compressed;
    tagc_vote_allgather_pack(to, &(struct tagc_vote_allgather){
      .can = reserved && compressed, .reason = tagc_vote_own(a->reason), .codec = tagc_vote_own(allgather_codec_number(a)),
      .chunks = tagc_vote_own(compressed ? a->chunking.chunks.count : 0),
    });
  }
}

static void resolve_allgather(struct tagc_comm *comm, size_t i, const struct tagc_vote_allgather *all)
{
  struct tagc_allgather *a = &comm->allgathers[i];
  struct tagc_ledger_row *row = tagc_ledger_gather_row(comm->ledger, (int)i);
  a->reason = tagc_proposal_reason(all->reason, tagc_vote_is_same(all->codec), all->can);
  if (a->reason == TAGC_REASON_compressed)
    a->reason = tagc_allgather_first(comm, a)->reason;
  row->gather.reason = a->reason;
  if (a->reason != TAGC_REASON_compressed)
    return;
  if (!tagc_vote_is_same(all->chunks))
    set_allgather_chunks(comm, a, 1);
  row->codec = a->codec->name;
  row->gather.exact = a->codec->exact;
  row->residual_bytes = a->reference ? a->layout.reference_bytes : 0;
}

void tagc_proposal_resolve_allgathers(struct tagc_comm *comm, const int64_t **from)
{
  size_t compressed = 0, chunked = 0;
  for (size_t i = 0; i < comm->allgather_count; i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    struct tagc_vote_allgather all;
    tagc_vote_allgather_unpack(from, &all);
    if (comm->vote.held)
      continue;
    resolve_allgather(comm, i, &all);
    compressed += a->reason == TAGC_REASON_compressed;
    chunked += a->reason == TAGC_REASON_compressed && a->chunking.chunks.count > 1;
  }
  if (comm->allgather_count && !comm->vote.held)
    tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu: %zu of %zu all-gathers of a cycle will be compressed (TAGC_ALLGATHER=%s), "
             "%zu of them in pieces", (unsigned long long)comm->ledger->number, compressed, comm->allgather_count,
             comm->allgathers[0].codec->name, chunked);
}
