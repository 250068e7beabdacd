/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/proposal.h"

#include "env/log.h"
#include "env/units.h"
#include "interpose/comm/chunking.h"
#include "interpose/comm/memory.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/placement.h"
#include "interpose/comm/slot.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/order.h"
#include "interpose/nccl/process.h"
#include "interpose/policy/choose_allgather.h"
#include "interpose/policy/chunk_count.h"
#include "interpose/vote/message.h"
#include "kernels/codec/residual.h"

size_t tagc_proposal_words(const struct tagc_comm *comm) {
  return TAGC_MESSAGE_SLOT * comm->slot_count + TAGC_MESSAGE_ALLGATHER * comm->allgather_count;
}

bool tagc_proposal_is_eligible(const struct tagc_comm *comm, size_t i) {
  struct tagc_slot_question question = tagc_slot_question(comm, i);
  return tagc_plan_slot_gate(&question) == TAGC_REASON_NONE;
}

static bool is_checked(const struct tagc_call *call) {
  struct tagc_comm *comm = call->comm;
  pthread_mutex_lock(&comm->lock);
  bool wanted = tagc_allgathers_await_vote(comm, call) ||
                (tagc_comm_awaits_vote(comm, call) && tagc_plan_samples(tagc_comm_next_vote(comm), call->cycle) &&
                 (comm->changes.watched || comm->vote.asks_shards || /* the vote may make it eligible */
                  tagc_proposal_is_eligible(comm, (size_t)call->slot)));
  pthread_mutex_unlock(&comm->lock);
  return wanted;
}

bool tagc_proposal_waits(const struct tagc_call *call) {
  const struct tagc_device *device = call->comm->device;
  return device && !device->host_reads && !tagc_device_cuda_is_set_up(device) && is_checked(call);
}

/* Once a cycle is enough: a call whose program takes other buffers later fails (execute.c). */
void tagc_proposal_check(const struct tagc_call *call) {
  struct tagc_comm *comm = call->comm;
  if (!is_checked(call))
    return;
  const enum tagc_reason reason = tagc_slot_reject_reason(call);
  pthread_mutex_lock(&comm->lock);
  tagc_comm_reject(comm, call, reason);
  pthread_mutex_unlock(&comm->lock);
}

/* The bytes of a slot's residual, if a choice has a codec that needs one. */
static uint64_t residual_offered(const struct tagc_slot *slot, const struct tagc_choice *choice) {
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  uint64_t most = 0;
  tagc_choose_candidates(tagc_library_options(), candidates);
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    struct tagc_shape shape = slot->packed;
    shape.residual = candidates[i].residual;
    if (candidates[i].codec && candidates[i].codec->needs_residual && choice->ns[i] < __builtin_inf() &&
        tagc_residual_bytes(&shape) > most)
      most = tagc_residual_bytes(&shape);
  }
  return most;
}

/* TAGC_BUDGET: makes the choices of all slots. */
static void choose_together(struct tagc_comm *comm, const struct tagc_wire *wire) {
  struct tagc_retune *retune = comm->ledger->retune;
  uint64_t residual_left = tagc_library_options()->residual_max;
  for (size_t i = 0; i < comm->slot_count; i++) {
    const struct tagc_slot *slot = &comm->slots[i];
    struct tagc_decision_inputs *inputs = tagc_comm_decision_inputs(comm, i);
    struct tagc_slot_question question = tagc_slot_question(comm, i);
    question.residual_left = residual_left;
    inputs->choice = tagc_choose(&question, slot->sample.agreed ? &inputs->gradient : NULL, wire);
    residual_left -= residual_offered(slot, &inputs->choice);
    if (slot->sample.reject_reason != TAGC_REASON_NONE)
      inputs->choice.reason = slot->sample.reject_reason;
    tagc_retune_offer(retune, i, &question, &inputs->gradient, &inputs->choice);
  }
  tagc_retune_choose(retune, wire != NULL);
}

/* Gives a slot its codec. Returns TAGC_REASON_compressed, or why it gets none. */
static enum tagc_reason choose_codec(struct tagc_comm *comm, size_t i, const struct tagc_slot_question *question,
                                     const struct tagc_wire *wire) {
  struct tagc_slot *slot = &comm->slots[i];
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  struct tagc_decision_inputs *inputs = tagc_ledger_row(comm->ledger, (int)i)->inputs;
  if (!inputs)
    return slot->sample.reject_reason;
  struct tagc_choice *choice = &inputs->choice;
  if (!comm->ledger->retune)
    *choice = slot->sample.reject_reason != TAGC_REASON_NONE
                ? (struct tagc_choice){.reason = slot->sample.reject_reason, .candidate = -1}
                : tagc_choose(question, slot->sample.agreed ? &inputs->gradient : NULL, wire);
  slot->codec = NULL;
  if (choice->candidate >= 0) {
    tagc_choose_candidates(tagc_library_options(), candidates);
    slot->codec = candidates[choice->candidate].codec;
    slot->packed.keep_ppm = choice->keep_ppm;
  }
  return choice->reason;
}

static void set_phase_chunks(const struct tagc_comm *comm, struct tagc_slot *slot, int count) {
  struct tagc_allgather_phase *phase = &slot->allgather_phase;
  if (phase->codec)
    (void)tagc_chunking_set_allgather(comm->device, phase->codec, &phase->shape, &phase->layout,
                                      &slot->allgather_phase_chunking, count);
}

/* Sets one chunk: without a side stream, or if the ranks differ. */
static void set_one_chunk(const struct tagc_comm *comm, struct tagc_slot *slot) {
  (void)tagc_chunking_set(comm->device, slot, 1);
  set_phase_chunks(comm, slot, 1);
}

static bool is_chunked(const struct tagc_slot *slot) {
  return slot->chunking.chunks.count > 1 ||
         (slot->allgather_phase.codec && slot->allgather_phase_chunking.chunks.count > 1);
}

/* The number of chunks that every stage of TAGC_SPARSITY can have: the least of theirs. */
static int chunks_of_stages(const struct tagc_comm *comm, const struct tagc_slot *slot) {
  const struct tagc_options *options = tagc_library_options();
  int least = TAGC_CHUNKS;
  for (uint32_t stage = 0; stage < options->sparsity.count; stage++) {
    struct tagc_slot at = *slot;
    if (slot->stages.reason[stage] != TAGC_REASON_compressed || !tagc_chunking_set_stage(comm->device, &at, stage, 1))
      continue;
    const int its = tagc_chunk_count(options, slot->codec, &at.packed, &at.layout, NULL);
    least = its < least ? its : least;
  }
  for (uint32_t stage = 0; stage < options->sparsity.count; stage++) {
    struct tagc_slot at = *slot;
    if (slot->stages.reason[stage] == TAGC_REASON_compressed &&
        !tagc_chunking_set_stage(comm->device, &at, stage, least))
      return 1;
  }
  return least;
}

/* Sets the number of chunks; with TAGC_CODEC=auto that of its choice. A rank that cannot have so many proposes one. */
static void set_chunks(struct tagc_comm *comm, size_t i) {
  const struct tagc_options *options = tagc_library_options();
  struct tagc_slot *slot = &comm->slots[i];
  const struct tagc_decision_inputs *inputs = tagc_ledger_row(comm->ledger, (int)i)->inputs;
  (void)tagc_chunking_set(comm->device, slot,
                          inputs ? inputs->choice.chunks[inputs->choice.candidate] : chunks_of_stages(comm, slot));
  if (slot->allgather_phase.codec)
    set_phase_chunks(comm, slot,
                     tagc_chunk_count_allgather(options, &slot->allgather_phase.shape, &slot->allgather_phase.layout));
}

/* Plans the stages of a slot, and enters the first one in which it is compressed. Returns why there is none. */
static enum tagc_reason plan_stages(const struct tagc_comm *comm, struct tagc_slot *slot,
                                    struct tagc_slot_question *question, uint64_t *residual_bytes) {
  const struct tagc_schedule *schedule = &tagc_library_options()->sparsity;
  bool found = false;
  for (uint32_t stage = 0; stage < schedule->count; stage++) {
    struct tagc_layout layout;
    uint64_t bytes;
    if (schedule->count > 1)
      question->packed.keep_ppm = 1000000 - schedule->ppm[stage];
    const enum tagc_reason reason = tagc_plan_slot(question, &layout, &bytes);
    slot->stages.reason[stage] = reason;
    if (reason != TAGC_REASON_compressed)
      continue;
    struct tagc_shape packed = question->packed;
    packed.residual = bytes ? packed.residual : TAGC_STORAGE_NONE;
    /* Codecs on a device depend on its driver: the proposal informs the other ranks. */
    if (!comm->device->layout(comm->device, slot->codec, &packed, &layout))
      return TAGC_REASON_device;
    if (found)
      continue;
    found = true;
    slot->packed = packed;
    slot->layout = layout;
    slot->stages.now = stage;
    *residual_bytes = bytes;
  }
  return found ? TAGC_REASON_compressed : slot->stages.reason[0];
}

/* TAGC_CODEC=auto: does the chosen codec's estimate count on it that the host waits? */
static bool waits_for_sums(const struct tagc_comm *comm, size_t i) {
  const struct tagc_decision_inputs *inputs = tagc_ledger_row(comm->ledger, (int)i)->inputs;
  return inputs && inputs->choice.candidate >= 0 && inputs->choice.waits_for_sums[inputs->choice.candidate];
}

/* Leaves the sums to q8, or plain, where the device has no support, or where the host must not wait: collectives come
 * in one order on all ranks, messages of the program do not. The proposal informs the other ranks. */
static void check_support(const struct tagc_comm *comm, struct tagc_allgather_phase *phase) {
  struct tagc_allgather_layout layout;
  if (!phase->support.payload_bytes || comm->device->host_reads)
    return;
  if (tagc_library_saw_messages() ||
      !comm->device->allgather_layout(comm->device, &tagc_allgather_support, &phase->shape, &layout))
    phase->support = (struct tagc_allgather_layout){0};
  else
    phase->support.state_bytes = layout.state_bytes;
}

/* Plans a slot as if this rank were alone. */
static enum tagc_reason plan_slot(struct tagc_comm *comm, size_t i, const struct tagc_wire *wire,
                                  uint64_t *residual_left) {
  const struct tagc_options *options = tagc_library_options();
  struct tagc_slot *slot = &comm->slots[i];
  uint64_t residual_bytes = 0;
  struct tagc_slot_question question = tagc_slot_question(comm, i);
  question.residual_left = *residual_left;
  enum tagc_reason reason = choose_codec(comm, i, &question, wire);
  if (reason == TAGC_REASON_compressed) {
    slot->packed.residual = slot->packed.local ? TAGC_STORAGE_NONE : tagc_plan_storage(options, slot->codec);
    question.codec = slot->codec;
    question.packed = slot->packed;
    question.waits_for_sums = waits_for_sums(comm, i);
    reason = plan_stages(comm, slot, &question, &residual_bytes);
  }
  if (reason != TAGC_REASON_compressed)
    slot->packed.residual = TAGC_STORAGE_NONE;
  struct tagc_allgather_phase *phase = &slot->allgather_phase;
  *phase = (struct tagc_allgather_phase){0};
  if (slot->all_reduce && reason == TAGC_REASON_compressed)
    *phase = tagc_plan_allgather_phase(&question);
  if (phase->codec && !comm->device->allgather_layout(comm->device, phase->codec, &phase->shape, &phase->layout))
    reason = TAGC_REASON_device;
  check_support(comm, phase);
  if (reason == TAGC_REASON_compressed) {
    *residual_left -= residual_bytes;
    set_chunks(comm, i);
  }
  return reason;
}

/* ---- all-gathers of parameters ----------------------------------------------------------------------------------- */

/* A rank that cannot have so many chunks uses one, and says so in its proposal. */
static void set_allgather_chunks(const struct tagc_comm *comm, struct tagc_allgather *a, int count) {
  (void)tagc_chunking_set_allgather(comm->device, a->codec, &a->shape, &a->layout, &a->chunking,
                                    a->codec->least_bytes ? 1 : count);
}

static struct tagc_allgather_question allgather_question(const struct tagc_comm *comm, const struct tagc_allgather *a) {
  const struct tagc_slot_question slot = tagc_slot_question(comm, a->slot);
  return (struct tagc_allgather_question){
    .options = slot.options,
    .codec = a->codec,
    .shape = a->shape,
    .hosts = slot.hosts,
    .slot = slot.slot,
    .layer_known = slot.layer_known,
    .selection = slot.selection,
    .gradients = slot.gradients,
    .changes = slot.changes || a->changes,
  };
}

/* Plans an all-gather as if this rank were alone. */
static enum tagc_reason plan_allgather(struct tagc_comm *comm, struct tagc_allgather *a, const struct tagc_wire *wire,
                                       uint64_t *left, uint64_t *pinned_left) {
  const struct tagc_allgather *first = tagc_allgather_first(comm, a);
  struct tagc_allgather_question question = allgather_question(comm, a);
  question.reference_left = *left;
  question.pinned_left = *pinned_left;
  question.referred = first != a && first->reason == TAGC_REASON_compressed;
  enum tagc_reason reason = tagc_plan_allgather(&question, &a->layout);
  if (reason == TAGC_REASON_compressed && first != a && first->reason != reason)
    reason = first->reason;
  const bool automatic = tagc_choose_allgathers_may(question.options);
  if (reason == TAGC_REASON_compressed && first == a && automatic)
    reason = tagc_choose_allgather(&a->shape, &a->stats, wire);
  if (reason == TAGC_REASON_compressed && automatic && !comm->device->host_reads && tagc_library_saw_messages())
    reason = TAGC_REASON_allgather_messages;
  if (reason != TAGC_REASON_compressed)
    return reason;
  a->pinned = tagc_plan_is_pinned(&question, &a->layout);
  if (first == a)
    *(a->pinned ? pinned_left : left) -= a->layout.reference_bytes;
  if (a->reject_reason != TAGC_REASON_NONE)
    return a->reject_reason;
  /* Codecs on a device depend on its driver: the proposal informs the other ranks. */
  if (!comm->device->allgather_layout(comm->device, a->codec, &a->shape, &a->layout))
    return TAGC_REASON_device;
  set_allgather_chunks(comm, a, tagc_chunk_count_allgather(tagc_library_options(), &a->shape, &a->layout));
  return TAGC_REASON_compressed;
}

/* The room for references. auto, which nobody asked for, leaves a GPU most of the memory that it has free by now. */
static void find_room(const struct tagc_comm *comm, uint64_t *left, uint64_t *pinned_left) {
  enum { SHARE = 4 };
  const struct tagc_options *options = tagc_library_options();
  *left = options->allgather_max;
  *pinned_left = comm->device->host_reads ? 0 : options->allgather_pinned;
  if (!tagc_choose_allgathers_may(options) || !comm->allgather_count)
    return;
  const uint64_t spare = comm->device->spare(comm->device) / SHARE;
  *left = spare < *left ? spare : *left;
  *pinned_left = 0; /* over PCIe it takes longer than the estimate says */
}

static void plan_allgathers(struct tagc_comm *comm, bool decided, const struct tagc_wire *wire) {
  const enum tagc_reason scope = comm->hierarchy.scope.reason;
  uint64_t left, pinned_left;
  find_room(comm, &left, &pinned_left);
  for (size_t i = 0; i < comm->allgather_count; i++) {
    struct tagc_allgather *a = &comm->allgathers[i];
    a->reason = scope != TAGC_REASON_NONE ? scope : plan_allgather(comm, a, wire, &left, &pinned_left);
    if (decided && a->reason == TAGC_REASON_compressed)
      a->reason = TAGC_REASON_vote;
  }
}

static bool has_chunked_allgathers(const struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].reason == TAGC_REASON_compressed && comm->allgathers[i].chunking.chunks.count > 1)
      return true;
  return false;
}

static void join_allgathers(struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].reason == TAGC_REASON_compressed)
      set_allgather_chunks(comm, &comm->allgathers[i], 1);
}

static int64_t allgather_codec_number(const struct tagc_allgather *a) {
  int64_t number = 0;
  while (tagc_allgather_codecs[number] && tagc_allgather_codecs[number] != a->codec)
    number++;
  return number;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

/* Makes the side stream if calls go in chunks. Without one all ranks use one chunk. */
static void reserve_side_stream(struct tagc_comm *comm) {
  bool wanted = has_chunked_allgathers(comm);
  for (size_t i = 0; i < comm->slot_count; i++)
    wanted |= comm->slots[i].reason == TAGC_REASON_compressed && is_chunked(&comm->slots[i]);
  if (!wanted || atomic_load(&comm->memory.side_stream))
    return;
  atomic_store(&comm->memory.side_stream, comm->device->side_stream_make(comm->device));
  if (atomic_load(&comm->memory.side_stream))
    return;
  tagc_log(TAGC_LOG_WARN, "interpose",
           "communicator %llu: no %s for encoding beside the exchange; all its ranks will do one after the "
           "other",
           (unsigned long long)comm->ledger->number, comm->device->host_reads ? "thread" : "stream");
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].reason == TAGC_REASON_compressed)
      set_one_chunk(comm, &comm->slots[i]);
  join_allgathers(comm);
}

bool tagc_proposal_reserve(struct tagc_comm *comm, void *stream) {
  reserve_side_stream(comm);
  return tagc_memory_reserve(comm, stream);
}

/* The stages in which a compressed slot is compressed, as bits. */
static int64_t stages_number(const struct tagc_slot *slot) {
  int64_t bits = 0;
  for (uint32_t stage = 0; slot->reason == TAGC_REASON_compressed && stage < tagc_library_options()->sparsity.count;
       stage++)
    bits |= (int64_t)(slot->stages.reason[stage] == TAGC_REASON_compressed) << stage;
  return bits;
}

/* The codec, keep_ppm, the stages, the residual and the way of the messages, in one number; all ranks list their codecs
 * alike. A slot that one rank alone refuses leaves room there for the residual of a later one. */
static int64_t codec_number(const struct tagc_comm *comm, const struct tagc_slot *slot) {
  int64_t number = 0;
  while (tagc_codecs[number] && tagc_codecs[number] != slot->codec)
    number++;
  return number << 36 | (int64_t)slot->packed.residual << 33 | (int64_t)comm->vote.all_to_all << 32 |
         stages_number(slot) << 20 | slot->packed.keep_ppm;
}

/* The numbers of chunks of its calls, and of the second half of all-reduces. */
static int64_t chunks_number(const struct tagc_slot *slot) {
  const int64_t gathered = slot->allgather_phase.codec ? slot->allgather_phase_chunking.chunks.count : 0;
  return slot->chunking.chunks.count + (TAGC_CHUNKS + 1) * gathered;
}

/* The selected part of a slot, as a number. */
static int64_t parts_number(const struct tagc_slot *slot) {
  return slot->selected.parts ? (int64_t)(tagc_parts_digest(slot->selected.parts) >> 2)
                              : -(int64_t)(slot->selected.layer_known ? 1 + slot->selected.selection : 0);
}

void tagc_proposal_plan(struct tagc_comm *comm, bool decided, const struct tagc_wire *wire) {
  uint64_t residual_left = tagc_library_options()->residual_max;
  comm->vote.all_to_all = wire && wire->all_to_all;
  for (size_t i = 0; i < comm->slot_count; i++) {
    comm->slots[i].packed.nranks = tagc_hierarchy_exchange_comm(comm).nranks;
    comm->slots[i].packed.local = tagc_hierarchy_exact_ranks(comm);
  }
  if (comm->ledger->retune)
    choose_together(comm, wire);
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].reason != TAGC_REASON_compressed)
      comm->slots[i].memory.codec = NULL; /* a device's counts in it: not used again */
  for (size_t i = 0; i < comm->slot_count; i++)
    comm->slots[i].reason = plan_slot(comm, i, wire, &residual_left);
  if (!comm->vote.held)
    plan_allgathers(comm, decided, wire);
}

static void pack_allgathers(const struct tagc_comm *comm, bool reserved, struct tagc_message *message) {
  for (size_t i = 0; i < comm->allgather_count; i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    const bool compressed = a->reason == TAGC_REASON_compressed;
    tagc_message_allgather(message, &(struct tagc_vote_proposal){
                                      .can = reserved && compressed,
                                      .reason = tagc_vote_own(a->reason),
                                      .codec = tagc_vote_own(allgather_codec_number(a)),
                                      .chunks = tagc_vote_own(compressed ? a->chunking.chunks.count : 0),
                                    });
  }
}

void tagc_proposal_pack(const struct tagc_comm *comm, bool reserved, struct tagc_message *message) {
  if (!reserved)
    tagc_log(TAGC_LOG_WARN, "interpose",
             "communicator %llu: no memory for residuals or workspace; all its ranks will pass "
             "every call through",
             (unsigned long long)comm->ledger->number);
  for (size_t i = 0; i < comm->slot_count; i++) {
    const struct tagc_slot *slot = &comm->slots[i];
    const bool compressed = slot->reason == TAGC_REASON_compressed;
    tagc_message_slot(message, &(struct tagc_vote_proposal){
                                 .can = reserved && compressed,
                                 .support = slot->allgather_phase.support.payload_bytes > 0,
                                 .reason = tagc_vote_own(slot->reason),
                                 .codec = tagc_vote_own(codec_number(comm, slot)),
                                 .parts = tagc_vote_own(parts_number(slot)),
                                 .chunks = tagc_vote_own(compressed ? chunks_number(slot) : 0),
                               });
  }
  pack_allgathers(comm, reserved, message);
}

/* ---- what comes of them ------------------------------------------------------------------------------------------ */

/* The outcome for a slot or an all-gather. same: the ranks mean the same codec. If some ranks could compress it, and
 * the others share one reason against it, all get that reason. */
static enum tagc_reason agreed_reason(const struct tagc_vote_proposal *all, bool same) {
  const struct tagc_vote_range reason = all->reason;
  if (same && tagc_vote_is_same(reason) && (all->can || reason.least != TAGC_REASON_compressed))
    return (enum tagc_reason)reason.least;
  return reason.least == TAGC_REASON_compressed && !tagc_vote_is_same(reason) ? (enum tagc_reason)reason.most
                                                                              : TAGC_REASON_vote;
}

static void resolve_slot(struct tagc_comm *comm, size_t i, const struct tagc_vote_proposal *all) {
  struct tagc_slot *slot = &comm->slots[i];
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, (int)i);
  const struct tagc_parts *parts = slot->selected.parts;
  const bool same_parts = tagc_vote_is_same(all->parts), same = tagc_vote_is_same(all->codec) && same_parts;
  slot->reason =
    !same_parts && all->reason.least == TAGC_REASON_compressed ? TAGC_REASON_layers : agreed_reason(all, same);
  slot->sample.tried = slot->sample.taken = false; /* the next vote wants another sample */
  row->codec = NULL;                               /* the slot may have been compressed before */
  row->residual_bytes = 0;
  if (slot->reason != TAGC_REASON_compressed)
    return;
  if (!tagc_vote_is_same(all->chunks))
    set_one_chunk(comm, slot);
  if (!all->support)
    slot->allgather_phase.support = (struct tagc_allgather_layout){0};
  row->codec = slot->codec->name;
  row->residual_bytes = slot->memory.residual ? tagc_residual_bytes(&slot->packed) : 0;
  row->selected = parts ? tagc_parts_elements(parts, comm->nranks) : 0;
  row->elements = parts ? slot->shard_count * (uint64_t)comm->nranks : 0;
}

/* TAGC_ALLGATHER=auto: the first payloads have the size that the samples tell. */
static void expect_size(const struct tagc_comm *comm, struct tagc_allgather *a) {
  struct tagc_allgather_job job = {.shape = a->shape, .layout = a->layout, .sizes = &a->sizes};
  if (!a->again && tagc_choose_allgathers_may(tagc_library_options()))
    a->codec->choose_size(&job, (uint64_t)((double)a->shape.n * tagc_allgather_first(comm, a)->stats.bits / 8));
}

static void resolve_allgather(struct tagc_comm *comm, size_t i, const struct tagc_vote_proposal *all) {
  struct tagc_allgather *a = &comm->allgathers[i];
  struct tagc_ledger_row *row = tagc_ledger_allgather_row(comm->ledger, (int)i);
  a->reason = agreed_reason(all, tagc_vote_is_same(all->codec));
  if (a->reason == TAGC_REASON_compressed)
    a->reason = tagc_allgather_first(comm, a)->reason;
  row->allgather.reason = a->reason;
  if (a->reason != TAGC_REASON_compressed)
    return;
  if (!tagc_vote_is_same(all->chunks))
    set_allgather_chunks(comm, a, 1);
  expect_size(comm, a);
  row->codec = a->codec->name;
  row->allgather.exact = a->codec->exact;
  row->residual_bytes = a->reference ? a->layout.reference_bytes : 0;
}

/* TAGC_ALLGATHER=auto: all numbers are equal on all ranks, and so are these lines. */
static void log_allgather_choices(const struct tagc_comm *comm) {
  const struct tagc_wire *wire = &comm->ledger->wire;
  for (size_t i = 0; i < comm->allgather_count && tagc_choose_allgathers_may(tagc_library_options()); i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    if (a->first == i && comm->ledger->probed && a->stats.bits < __builtin_inf())
      tagc_log(TAGC_LOG_INFO, "interpose",
               "communicator %llu, all-gathers of %s: %s, estimated %.3f ms instead of %.3f ms, %.2f bits an element",
               (unsigned long long)comm->ledger->number, tagc_ledger_allgather_row(comm->ledger, (int)i)->name,
               a->reason == TAGC_REASON_compressed ? a->codec->name : "plain",
               1e-6 * tagc_choose_allgather_ns(&a->shape, &a->stats, wire, (double)a->shape.n * a->stats.bits / 8),
               1e-6 * tagc_choose_allgather_plain_ns(&a->shape, wire), a->stats.bits);
  }
}

/* After the first vote; later votes leave all-gathers as they are. */
static void resolve_allgathers(struct tagc_comm *comm, struct tagc_message *message) {
  size_t compressed = 0, chunked = 0;
  uint64_t pinned = 0;
  char memory[16];
  for (size_t i = 0; i < comm->allgather_count; i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    struct tagc_vote_proposal all = {0};
    tagc_message_allgather(message, &all);
    if (comm->vote.held)
      continue;
    resolve_allgather(comm, i, &all);
    compressed += a->reason == TAGC_REASON_compressed;
    chunked += a->reason == TAGC_REASON_compressed && a->chunking.chunks.count > 1;
    pinned += a->reason == TAGC_REASON_compressed && a->pinned && a->reference ? a->layout.reference_bytes : 0;
  }
  if (comm->allgather_count && !comm->vote.held)
    tagc_log(TAGC_LOG_INFO, "interpose",
             "communicator %llu: %zu of %zu all-gathers of a cycle will be compressed (TAGC_ALLGATHER=%s), "
             "%zu of them in pieces",
             (unsigned long long)comm->ledger->number, compressed, comm->allgather_count,
             tagc_choose_allgathers_may(tagc_library_options()) ? "auto" : comm->allgathers[0].codec->name, chunked);
  if (pinned)
    tagc_log(TAGC_LOG_INFO, "interpose",
             "communicator %llu: %s of gathered parameters are kept in pinned memory of the host "
             "(TAGC_ALLGATHER_PINNED)",
             (unsigned long long)comm->ledger->number, tagc_units_bytes(pinned, memory));
  log_allgather_choices(comm);
}

/* TAGC_CODEC=auto: all numbers are equal on all ranks, and so are these lines. */
static void log_choices(const struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->slot_count && tagc_options_auto(tagc_library_options()); i++) {
    const struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, (int)i);
    const struct tagc_choice *choice = &row->inputs->choice;
    if (row->codec)
      tagc_log(TAGC_LOG_INFO, "interpose",
               "communicator %llu, %s: %s, estimated %.3f ms instead of %.3f ms, error %.2g",
               (unsigned long long)comm->ledger->number, row->name, row->codec, 1e-6 * choice->ns[choice->candidate],
               1e-6 * choice->plain_ns, row->inputs->gradient.of[choice->candidate].error);
    else
      tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu, %s: plain: %s", (unsigned long long)comm->ledger->number,
               row->name, tagc_reason_words(comm->slots[i].reason));
  }
}

void tagc_proposal_resolve(struct tagc_comm *comm, struct tagc_message *message) {
  size_t compressed_ones = 0, chunked_ones = 0;
  comm->vote.keeps_residuals = false;
  for (size_t i = 0; i < comm->slot_count; i++) {
    const struct tagc_slot *slot = &comm->slots[i];
    struct tagc_vote_proposal all = {0};
    tagc_message_slot(message, &all);
    resolve_slot(comm, i, &all);
    const bool compressed = slot->reason == TAGC_REASON_compressed;
    tagc_retune_resolve(comm->ledger->retune, i, compressed);
    comm->vote.keeps_residuals |= compressed && slot->memory.residual;
    compressed_ones += compressed;
    chunked_ones += compressed && is_chunked(slot);
  }
  if (compressed_ones && comm->hierarchy.scope.two_levels)
    tagc_order_keep(comm, true);
  log_choices(comm);
  tagc_log(TAGC_LOG_INFO, "interpose",
           "communicator %llu: %zu of %zu slots will be compressed (TAGC_CODEC=%s), %zu of them in pieces",
           (unsigned long long)comm->ledger->number, compressed_ones, comm->slot_count, tagc_library_options()->codec,
           chunked_ones);
  resolve_allgathers(comm, message);
  comm->vote.held = true;
  comm->vote.count++;
  comm->observed.cycle_disturbed = true; /* the vote disturbed it */
}
