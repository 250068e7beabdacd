/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/proposal.h"

#include "env/log.h"
#include "interpose/comm/chunking.h"
#include "interpose/comm/memory.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/placement.h"
#include "interpose/comm/slot.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/nccl/process.h"
#include "interpose/policy/chunk_count.h"
#include "kernels/codec/residual.h"

/* A value that must be equal on all ranks is there twice, once negated. */
enum { SLOT_CAN, SLOT_VERDICT, SLOT_VERDICT_NEGATED, SLOT_CODEC, SLOT_CODEC_NEGATED, SLOT_PARTS, SLOT_PARTS_NEGATED,
       SLOT_DEPTH, SLOT_DEPTH_NEGATED, SLOT_WORDS };

size_t tagc_ballot_words(const struct tagc_comm *comm) { return SLOT_WORDS * comm->slot_count + tagc_allgathers_words(comm); }

bool tagc_ballot_eligible(const struct tagc_comm *comm, size_t i)
{
  struct tagc_slot_question question = tagc_slot_question(comm, i);
  return tagc_plan_slot_gate(&question) == TAGC_REASON_compressed;
}

static bool is_looked_at(const struct tagc_call *call)
{
  struct tagc_comm *comm = call->comm;
  pthread_mutex_lock(&comm->lock);
  bool wanted = tagc_allgathers_looks(comm, call) ||
                (tagc_comm_awaits_vote(comm, call) && tagc_plan_looks(tagc_comm_next_vote(comm), call->cycle) &&
                 tagc_ballot_eligible(comm, (size_t)call->slot));
  pthread_mutex_unlock(&comm->lock);
  return wanted;
}

bool tagc_ballot_waits(const struct tagc_call *call)
{
  const struct tagc_device *device = call->comm->device;
  return device && !device->host_reads && !tagc_device_cuda_is_set_up(device) && is_looked_at(call);
}

/* The buffers are asked about once a cycle: a program that takes them from elsewhere later is told so by its call (execute.c). */
void tagc_ballot_look(const struct tagc_call *call)
{
  struct tagc_comm *comm = call->comm;
  if (!is_looked_at(call))
    return;
  const enum tagc_reason reason = tagc_slot_reject_reason(call);
  pthread_mutex_lock(&comm->lock);
  tagc_comm_bar(comm, call, reason);
  pthread_mutex_unlock(&comm->lock);
}

/* TAGC_BUDGET: the choices of all slots. */
static void choose_together(struct tagc_comm *comm, const struct tagc_wire *wire)
{
  struct tagc_retune *retune = comm->ledger->retune;
  for (size_t i = 0; i < comm->slot_count; i++) {
    const struct tagc_slot *slot = &comm->slots[i];
    struct tagc_grounds *grounds = tagc_comm_grounds(comm, i);
    struct tagc_slot_question question = tagc_slot_question(comm, i);
    question.residual_left = tagc_library_options()->residual_max;
    grounds->choice = wire ? tagc_choose(&question, slot->known ? &grounds->survey : NULL, wire)
                           : (struct tagc_choice){.reason = TAGC_REASON_vote, .candidate = -1};
    if (wire && slot->barred != TAGC_REASON_compressed)
      grounds->choice.reason = slot->barred;
    tagc_retune_offer(retune, i, &question, &grounds->survey, &grounds->choice);
  }
  tagc_retune_choose(retune, wire != NULL);
}

/* Gives a slot its codec. TAGC_REASON_compressed, or why it gets none. */
static enum tagc_reason choose_one(struct tagc_comm *comm, size_t i, const struct tagc_slot_question *question,
                               const struct tagc_wire *wire)
{
  struct tagc_slot *slot = &comm->slots[i];
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  struct tagc_grounds *grounds = tagc_ledger_row(comm->ledger, (int)i)->grounds;
  if (!grounds)
    return slot->barred;
  struct tagc_choice *choice = &grounds->choice;
  if (!comm->ledger->retune)
    *choice = slot->barred != TAGC_REASON_compressed ? (struct tagc_choice){.reason = slot->barred, .candidate = -1}
                                                     : tagc_choose(question, slot->known ? &grounds->survey : NULL, wire);
  slot->codec = NULL;
  if (choice->candidate >= 0) {
    tagc_choose_candidates(tagc_library_options(), candidates);
    slot->codec = candidates[choice->candidate].codec;
    slot->shape.keep_ppm = choice->keep_ppm;
  }
  return choice->reason;
}

static void cut_spread(const struct tagc_comm *comm, struct tagc_slot *slot, int depth)
{
  struct tagc_spread *spread = &slot->spread;
  if (spread->codec)
    (void)tagc_depth_cut_gather(comm->device, spread->codec, &spread->shape, &spread->layout, &slot->spread_cut, depth);
}

/* All at once: without a lane, or where the ranks do not agree. */
static void join(const struct tagc_comm *comm, struct tagc_slot *slot)
{
  (void)tagc_depth_cut(comm->device, slot, 1);
  cut_spread(comm, slot, 1);
}

static bool is_cut(const struct tagc_slot *slot)
{
  return slot->pieces.count > 1 || (slot->spread.codec && slot->spread_cut.pieces.count > 1);
}

/* In how many pieces its calls are compressed: with TAGC_CODEC=auto those that its choice was made for. A rank that cannot have these
 * says so in the ballot. */
static void cut(struct tagc_comm *comm, size_t i)
{
  const struct tagc_options *options = tagc_library_options();
  struct tagc_slot *slot = &comm->slots[i];
  const struct tagc_grounds *grounds = tagc_ledger_row(comm->ledger, (int)i)->grounds;
  (void)tagc_depth_cut(comm->device, slot, grounds ? grounds->choice.depth[grounds->choice.candidate]
                                                   : tagc_depth_plan(options, slot->codec, &slot->shape, &slot->layout, NULL));
  if (slot->spread.codec)
    cut_spread(comm, slot, tagc_depth_plan_gather(options, &slot->spread.shape, &slot->spread.layout));
}

/* What this rank would do with a slot if it were alone. */
static enum tagc_reason plan_slot(struct tagc_comm *comm, size_t i, const struct tagc_wire *wire, uint64_t *residual_left)
{
  const struct tagc_options *options = tagc_library_options();
  struct tagc_slot *slot = &comm->slots[i];
  uint64_t residual_bytes = 0;
  slot->shape.nranks = tagc_levels_party(comm).nranks;
  struct tagc_slot_question question = tagc_slot_question(comm, i);
  question.residual_left = *residual_left;
  enum tagc_reason reason = choose_one(comm, i, &question, wire);
  if (reason == TAGC_REASON_compressed) {
    slot->shape.residual = tagc_plan_storage(options, slot->codec);
    question.codec = slot->codec;
    question.shape = slot->shape;
    reason = tagc_plan_slot(&question, &slot->layout, &residual_bytes);
  }
  if (!residual_bytes)
    slot->shape.residual = TAGC_STORAGE_NONE;
  /* What runs on a device depends on its driver: the others learn of it from the ballot. */
  if (reason == TAGC_REASON_compressed && !comm->device->layout(comm->device, slot->codec, &slot->shape, &slot->layout))
    reason = TAGC_REASON_device;
  slot->spread = slot->all_reduce && reason == TAGC_REASON_compressed ? tagc_plan_spread(&question) : (struct tagc_spread){0};
  if (slot->spread.codec &&
      !comm->device->allgather_layout(comm->device, slot->spread.codec, &slot->spread.shape, &slot->spread.layout))
    reason = TAGC_REASON_device;
  if (reason == TAGC_REASON_compressed) {
    *residual_left -= residual_bytes;
    cut(comm, i);
  }
  return reason;
}

/* The lane, where calls are cut. Without one none is, on all ranks. */
static void reserve_lane(struct tagc_comm *comm)
{
  bool wanted = tagc_allgathers_are_cut(comm);
  for (size_t i = 0; i < comm->slot_count; i++)
    wanted |= comm->slots[i].reason == TAGC_REASON_compressed && is_cut(&comm->slots[i]);
  if (!wanted || atomic_load(&comm->lane))
    return;
  atomic_store(&comm->lane, comm->device->lane_make(comm->device));
  if (atomic_load(&comm->lane))
    return;
  tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu: no %s for encoding beside the exchange; all its ranks will do one after the "
           "other", (unsigned long long)comm->ledger->number, comm->device->host_reads ? "thread" : "stream");
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].reason == TAGC_REASON_compressed)
      join(comm, &comm->slots[i]);
  tagc_allgathers_join(comm);
}

bool tagc_ballot_reserve(struct tagc_comm *comm, void *stream)
{
  reserve_lane(comm);
  return tagc_estate_reserve(comm, stream);
}

/* Codec, how much is kept, and the way of the messages, in one number; all ranks list their codecs alike. */
static int64_t codec_word(const struct tagc_comm *comm, const struct tagc_slot *slot)
{
  int64_t number = 0;
  while (tagc_codecs[number] && tagc_codecs[number] != slot->codec)
    number++;
  return number << 33 | (int64_t)comm->all_to_all << 32 | slot->shape.keep_ppm;
}

/* In how many pieces its calls go, and what is gathered of all-reduces. */
static int64_t depth_word(const struct tagc_slot *slot)
{
  return slot->pieces.count + (slot->spread.codec ? (int64_t)(TAGC_PIECES + 1) * slot->spread_cut.pieces.count : 0);
}

/* What of a slot is selected. */
static int64_t parts_word(const struct tagc_slot *slot)
{
  return slot->parts ? (int64_t)(tagc_parts_digest(slot->parts) >> 2) : -(int64_t)(slot->sorted ? 1 + slot->selection : 0);
}

void tagc_ballot_plan(struct tagc_comm *comm, bool decided, const struct tagc_wire *wire)
{
  uint64_t residual_left = tagc_library_options()->residual_max;
  comm->all_to_all = wire && wire->all_to_all;
  if (comm->ledger->retune)
    choose_together(comm, wire);
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].reason != TAGC_REASON_compressed)
      comm->slots[i].held = NULL;   /* memory of a slot that became plain, with what a device has counted: not to be used again */
  for (size_t i = 0; i < comm->slot_count; i++)
    comm->slots[i].reason = plan_slot(comm, i, wire, &residual_left);
  if (!comm->voted)
    tagc_allgathers_plan(comm, decided);
}

void tagc_ballot_fill(const struct tagc_comm *comm, bool reserved, int64_t *ballot)
{
  if (!reserved)
    tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu: no memory for residuals or workspace; all its ranks will pass "
             "every call through", (unsigned long long)comm->ledger->number);
  for (size_t i = 0; i < comm->slot_count; i++) {
    const struct tagc_slot *slot = &comm->slots[i];
    int64_t *word = ballot + SLOT_WORDS * i;
    word[SLOT_CAN] = reserved && slot->reason == TAGC_REASON_compressed;
    word[SLOT_VERDICT] = (int64_t)slot->reason;
    word[SLOT_VERDICT_NEGATED] = -word[SLOT_VERDICT];
    word[SLOT_CODEC] = codec_word(comm, slot);
    word[SLOT_CODEC_NEGATED] = -word[SLOT_CODEC];
    word[SLOT_PARTS] = parts_word(slot);
    word[SLOT_PARTS_NEGATED] = -word[SLOT_PARTS];
    word[SLOT_DEPTH] = slot->reason == TAGC_REASON_compressed ? depth_word(slot) : 0;
    word[SLOT_DEPTH_NEGATED] = -word[SLOT_DEPTH];
  }
  tagc_allgathers_fill(comm, reserved, ballot + SLOT_WORDS * comm->slot_count);
}

/* TAGC_CODEC=auto: all numbers are equal on all ranks, and so are these lines. */
static void log_choices(const struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->slot_count && tagc_options_auto(tagc_library_options()); i++) {
    const struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, (int)i);
    const struct tagc_choice *choice = &row->grounds->choice;
    if (row->codec)
      tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu, %s: %s, estimated %.3f ms instead of %.3f ms, error %.2g",
               (unsigned long long)comm->ledger->number, row->name, row->codec, 1e-6 * choice->ns[choice->candidate],
               1e-6 * choice->plain_ns, row->grounds->survey.of[choice->candidate].error);
    else
      tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu, %s: plain: %s", (unsigned long long)comm->ledger->number,
               row->name, tagc_reason_words(comm->slots[i].reason));
  }
}

void tagc_ballot_count(struct tagc_comm *comm, const int64_t *ballot)
{
  const bool again = comm->voted;
  size_t won = 0, cut_ones = 0;
  comm->keeps_residuals = false;
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    const int64_t *word = ballot + SLOT_WORDS * i;
    const int64_t least = word[SLOT_VERDICT], most = -word[SLOT_VERDICT_NEGATED];
    const bool alike = word[SLOT_PARTS] == -word[SLOT_PARTS_NEGATED];
    const bool same = word[SLOT_CODEC] == -word[SLOT_CODEC_NEGATED] && alike;
    const enum tagc_reason verdict = tagc_slot_verdict(least, most, same, word[SLOT_CAN]);
    tagc_retune_resolve(comm->ledger->retune, i, verdict == TAGC_REASON_compressed);
    slot->looked = slot->seen = false;             /* the next vote wants another sample */
    if (verdict == TAGC_REASON_compressed) {
      struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, (int)i);
      row->codec = slot->codec->name;
      if (word[SLOT_DEPTH] != -word[SLOT_DEPTH_NEGATED])
        join(comm, slot);
      cut_ones += is_cut(slot);
      comm->keeps_residuals |= slot->residual != NULL;
      row->residual_bytes = slot->residual ? tagc_residual_bytes(&slot->shape) : 0;
      row->selected = slot->parts ? tagc_parts_elements(slot->parts, comm->nranks) : 0;
      row->elements = slot->parts ? slot->shard * (uint64_t)comm->nranks : 0;
      won++;
      continue;
    }
    tagc_ledger_row(comm->ledger, (int)i)->codec = NULL;   /* it may have had one before */
    tagc_ledger_row(comm->ledger, (int)i)->residual_bytes = 0;
    slot->reason = !alike && least == TAGC_REASON_compressed ? TAGC_REASON_layers : verdict;
  }
  comm->voted = true;
  comm->votes++;
  if (won && comm->scope.two_levels)
    tagc_levels_keep_order(comm, true);
  comm->cycle_disturbed = true;     /* by the vote */
  log_choices(comm);
  tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu: %zu of %zu slots will be compressed (TAGC_CODEC=%s), %zu of them in pieces",
           (unsigned long long)comm->ledger->number, won, comm->slot_count, tagc_library_options()->codec, cut_ones);
  if (!again)
    tagc_allgathers_count(comm, ballot + SLOT_WORDS * comm->slot_count);
}
