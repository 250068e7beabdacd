/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/allgathers.h"

#include <stdlib.h>

#include "env/log.h"
#include "interpose/comm/chunking.h"
#include "interpose/comm/comm.h"
#include "interpose/comm/placement.h"
#include "interpose/comm/slot.h"
#include "interpose/nccl/process.h"
#include "interpose/policy/chunk_count.h"

/* A value that must be equal on all ranks is there twice, once negated. */
enum { CAN, VERDICT, VERDICT_NEGATED, CODEC, CODEC_NEGATED, DEPTH, DEPTH_NEGATED, WORDS };

struct tagc_allgather *tagc_allgather_of(const struct tagc_comm *comm, const struct tagc_call *call)
{
  return call->allgather >= 0 && (size_t)call->allgather < comm->allgather_count ? &comm->allgathers[call->allgather] : NULL;
}

struct tagc_allgather *tagc_allgather_first(const struct tagc_comm *comm, const struct tagc_allgather *allgather)
{
  return &comm->allgathers[allgather->first];
}

bool tagc_allgathers_make(struct tagc_comm *comm)
{
  size_t count;
  const struct tagc_allgather_info *infos = tagc_cycle_allgathers(comm->cycle, &count);
  if (!tagc_library_gather_codec() || !count)
    return true;
  comm->allgathers = calloc(count, sizeof *comm->allgathers);
  if (!comm->allgathers)
    return false;
  comm->allgather_count = count;
  for (size_t i = 0; i < count; i++) {
    struct tagc_allgather *a = &comm->allgathers[i];
    const struct tagc_signature *s = &infos[i].signature;
    const bool known = tagc_comm_dtype((ncclDataType_t)s->dtype, &a->shape.dtype);
    a->shape.n = known ? s->count : 0;
    a->shape.nranks = comm->nranks;
    a->codec = tagc_library_gather_codec();
    a->slot = infos[i].slot;
    a->again = infos[i].again;
    a->reason = TAGC_REASON_warm_up;
    a->first = (uint32_t)i;
    for (uint32_t j = 0; j < i && a->first == i && infos[i].sure; j++)
      if (infos[j].sure && comm->allgathers[j].slot == a->slot && comm->allgathers[j].shape.dtype == a->shape.dtype)
        a->first = j;
    comm->allgathers[a->first].repeated |= a->first != i;
  }
  return true;
}

void tagc_allgathers_forget(struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->allgather_count; i++)
    comm->allgathers[i].referred = comm->allgathers[i].digest_known = false;
}

static struct tagc_gather_question question_of(const struct tagc_comm *comm, size_t i)
{
  const struct tagc_allgather *a = &comm->allgathers[i];
  const struct tagc_slot_question slot = tagc_slot_question(comm, a->slot);
  return (struct tagc_gather_question){
    .options = slot.options, .codec = a->codec, .shape = a->shape, .hosts = slot.hosts, .slot = slot.slot, .sorted = slot.sorted,
    .selection = slot.selection, .gradients = slot.gradients,
  };
}

bool tagc_allgathers_looks(const struct tagc_comm *comm, const struct tagc_call *call)
{
  const struct tagc_allgather *a = tagc_allgather_of(comm, call);
  return a && a->shape.n && !comm->voted && comm->agreed && comm->device && call->lock_number == comm->lock_number &&
         tagc_plan_looks(comm->vote_cycle, call->cycle);
}

/* ---- the ballot ------------------------------------------------------------------------------------------------------- */

size_t tagc_allgathers_words(const struct tagc_comm *comm) { return WORDS * comm->allgather_count; }

/* A rank that cannot have so many pieces has one, and says so in the ballot. */
static void cut(const struct tagc_comm *comm, struct tagc_allgather *a, int depth)
{
  (void)tagc_depth_cut_gather(comm->device, a->codec, &a->shape, &a->layout, &a->cut, depth);
}

/* What this rank would do with it if it were alone. */
static enum tagc_reason plan_one(struct tagc_comm *comm, size_t i, uint64_t *left)
{
  struct tagc_allgather *a = &comm->allgathers[i];
  const struct tagc_allgather *first = &comm->allgathers[a->first];
  struct tagc_gather_question question = question_of(comm, i);
  question.reference_left = *left;
  question.referred = first != a && first->reason == TAGC_REASON_compressed;
  enum tagc_reason reason = tagc_plan_gather(&question, &a->layout);
  if (reason == TAGC_REASON_compressed && first != a && first->reason != reason)
    reason = first->reason;
  if (reason != TAGC_REASON_compressed)
    return reason;
  if (first == a)
    *left -= a->layout.reference_bytes;
  if (a->barred != TAGC_REASON_compressed)
    return a->barred;
  /* What runs on a device depends on its driver: the others learn of it from the ballot. */
  if (!comm->device->allgather_layout(comm->device, a->codec, &a->shape, &a->layout))
    return TAGC_REASON_device;
  cut(comm, a, tagc_depth_plan_gather(tagc_library_options(), &a->shape, &a->layout));
  return TAGC_REASON_compressed;
}

void tagc_allgathers_plan(struct tagc_comm *comm, bool decided)
{
  const enum tagc_reason why = comm->scope.reason == TAGC_REASON_compressed ? TAGC_REASON_vote : comm->scope.reason;
  uint64_t left = tagc_library_options()->allgather_max;
  for (size_t i = 0; i < comm->allgather_count; i++)
    comm->allgathers[i].reason = decided ? why : plan_one(comm, i, &left);
}

bool tagc_allgathers_are_cut(const struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].reason == TAGC_REASON_compressed && comm->allgathers[i].cut.pieces.count > 1)
      return true;
  return false;
}

void tagc_allgathers_join(struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].reason == TAGC_REASON_compressed)
      cut(comm, &comm->allgathers[i], 1);
}

size_t tagc_allgathers_workspace(const struct tagc_comm *comm)
{
  size_t largest = 0;
  for (size_t i = 0; i < comm->allgather_count; i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    const size_t bytes = a->reason == TAGC_REASON_compressed
                           ? tagc_depth_gather_bytes(comm->device, a->codec, &a->shape, &a->layout, &a->cut) : 0;
    largest = bytes > largest ? bytes : largest;
  }
  return largest;
}

static void give_back(const struct tagc_comm *comm, struct tagc_allgather *a)
{
  if (a->reference && !comm->unfenced)
    comm->device->release_after(comm->device, a->reference, comm->fence);
  if (a->tally && !comm->unfenced)
    comm->device->tally_free(comm->device, a->tally, comm->fence);
  a->reference = a->tally = NULL;
}

bool tagc_allgathers_reserve(struct tagc_comm *comm, void *stream)
{
  const struct tagc_device *device = comm->device;
  bool good = true;
  for (size_t i = 0; i < comm->allgather_count; i++)
    give_back(comm, &comm->allgathers[i]);   /* there is something when a vote failed and is held again */
  for (size_t i = 0; i < comm->allgather_count; i++) {
    struct tagc_allgather *a = &comm->allgathers[i];
    if (a->reason != TAGC_REASON_compressed)
      continue;
    a->tally = device->tally_make(device, stream);
    good &= a->tally || device->host_reads;
    a->referred = false;
    if (!a->layout.reference_bytes || a->first != i)
      continue;
    a->reference = device->alloc(device, a->layout.reference_bytes, stream);
    good &= a->reference != NULL;
  }
  return good;
}

static int64_t codec_word(const struct tagc_allgather *a)
{
  int64_t number = 0;
  while (tagc_allgather_codecs[number] && tagc_allgather_codecs[number] != a->codec)
    number++;
  return number;
}

void tagc_allgathers_fill(const struct tagc_comm *comm, bool reserved, int64_t *words)
{
  for (size_t i = 0; i < comm->allgather_count; i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    int64_t *word = words + WORDS * i;
    word[CAN] = reserved && a->reason == TAGC_REASON_compressed;
    word[VERDICT] = (int64_t)a->reason;
    word[VERDICT_NEGATED] = -word[VERDICT];
    word[CODEC] = codec_word(a);
    word[CODEC_NEGATED] = -word[CODEC];
    word[DEPTH] = a->reason == TAGC_REASON_compressed ? a->cut.pieces.count : 0;
    word[DEPTH_NEGATED] = -word[DEPTH];
  }
}

void tagc_allgathers_count(struct tagc_comm *comm, const int64_t *words)
{
  size_t won = 0, cut_ones = 0;
  for (size_t i = 0; i < comm->allgather_count; i++) {
    struct tagc_allgather *a = &comm->allgathers[i];
    const int64_t *word = words + WORDS * i;
    struct tagc_ledger_row *row = tagc_ledger_gather_row(comm->ledger, (int)i);
    a->reason = tagc_slot_verdict(word[VERDICT], -word[VERDICT_NEGATED], word[CODEC] == -word[CODEC_NEGATED], word[CAN]);
    if (a->reason == TAGC_REASON_compressed && comm->allgathers[a->first].reason != a->reason)
      a->reason = comm->allgathers[a->first].reason;
    row->gather.reason = a->reason;
    if (a->reason != TAGC_REASON_compressed)
      continue;
    if (word[DEPTH] != -word[DEPTH_NEGATED])
      cut(comm, a, 1);
    won++;
    cut_ones += a->cut.pieces.count > 1;
    row->codec = a->codec->name;
    row->gather.exact = a->codec->exact;
    row->residual_bytes = a->reference ? a->layout.reference_bytes : 0;
  }
  if (comm->allgather_count)
    tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu: %zu of %zu all-gathers of a cycle will be compressed (TAGC_ALLGATHER=%s), "
             "%zu of them in pieces", (unsigned long long)comm->ledger->number, won, comm->allgather_count,
             comm->allgathers[0].codec->name, cut_ones);
}

bool tagc_allgathers_trim(struct tagc_comm *comm)
{
  bool any = false;
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].reason == TAGC_REASON_compressed)
      any = true;
    else
      give_back(comm, &comm->allgathers[i]);
  return any;
}

void tagc_allgathers_release(struct tagc_comm *comm, struct tagc_allgather *allgathers, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    while (allgathers[i].tally && tagc_comm_read_gather_tally(comm, allgathers[i].tally, -1))
      ;
    give_back(comm, &allgathers[i]);
  }
  free(allgathers);
}
