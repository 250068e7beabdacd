/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/ballot.h"

#include <stdlib.h>

#include "env/log.h"
#include "interpose/depth.h"
#include "interpose/levels.h"
#include "interpose/library.h"
#include "interpose/selection.h"
#include "interpose/split.h"
#include "kernels/residual.h"

/* A value that must be equal on all ranks is there twice, once negated. */
enum { SLOT_CAN, SLOT_VERDICT, SLOT_VERDICT_NEGATED, SLOT_CODEC, SLOT_CODEC_NEGATED, SLOT_PARTS, SLOT_PARTS_NEGATED,
       SLOT_DEPTH, SLOT_DEPTH_NEGATED, SLOT_WORDS };

size_t tagc_ballot_words(const struct tagc_comm *comm) { return SLOT_WORDS * comm->slot_count + tagc_allgathers_words(comm); }

/* Does TAGC_LAYERMAP say which parameters the slot holds the gradients of? */
static bool is_in_map(const struct tagc_comm *comm, size_t i)
{
  const struct tagc_layers *layers = comm->layers;
  return layers && layers->source == TAGC_LAYER_MAP && i < layers->count && layers->layers[i].count;
}

bool tagc_ballot_gradient(const struct tagc_comm *comm, size_t i)
{
  size_t count;
  return (tagc_cycle_is_gradients(comm->cycle) && tagc_cycle_slots(comm->cycle, &count)[i].evident) || is_in_map(comm, i) ||
         (comm->layers && comm->layers->proven);
}

struct tagc_slot_question tagc_ballot_question(const struct tagc_comm *comm, size_t i)
{
  const struct tagc_slot *slot = &comm->slots[i];
  size_t count;
  return (struct tagc_slot_question){
    .options = tagc_library_options(), .codec = slot->codec, .slot = &tagc_cycle_slots(comm->cycle, &count)[i],
    .hosts = tagc_levels_hosts(comm), .scope = comm->scope, .shape = slot->shape, .op = slot->op,
    .whole = slot->shard, .rest = tagc_split_rest(slot), .sorted = slot->sorted, .selection = slot->selection,
    .gradients = tagc_ballot_gradient(comm, i),
  };
}

size_t tagc_ballot_spread_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot)
{
  const struct tagc_spread *spread = &slot->spread;
  return spread->codec ? tagc_depth_gather_bytes(comm->device, spread->codec, &spread->shape, &spread->layout, &slot->spread_cut) : 0;
}

/* What one call of a slot takes of the workspace, to compress or to flush. */
static size_t call_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot)
{
  struct tagc_job job = {.shape = slot->shape, .layout = slot->layout};
  size_t compress = tagc_depth_carve(slot, &job, NULL, NULL), flush = 0;
  if (slot->pieces.count > 1 && comm->device->layout(comm->device, slot->codec, &job.shape, &job.layout)) {
    const size_t in_one = tagc_job_carve(&job, NULL);        /* what the vote may make of it */
    compress = in_one > compress ? in_one : compress;
  }
  const struct tagc_options *options = tagc_library_options();
  if (slot->shape.residual != TAGC_STORAGE_NONE &&
      (options->mode == TAGC_MODE_AB || tagc_selection_on() || (tagc_options_auto(options) && slot->codec->needs_residual)))
    flush = (size_t)slot->shape.nranks * slot->shape.n * tagc_dtype_size(slot->shape.dtype);
  const struct tagc_shape whole = tagc_split_whole(slot);
  struct tagc_split split;
  const size_t levels = comm->scope.two_levels ? tagc_levels_sum_bytes(&whole) + TAGC_LEVELS_TOLD_BYTES : 0;
  return tagc_ballot_spread_bytes(comm, slot) + levels + tagc_split_carve(&split, slot, NULL) + (compress > flush ? compress : flush);
}

static void give_back(const struct tagc_comm *comm, void *memory)
{
  if (memory && !comm->unfenced)
    comm->device->release_after(comm->device, memory, comm->fence);
}

static void give_back_slot(const struct tagc_comm *comm, struct tagc_slot *slot)
{
  give_back(comm, slot->residual);
  if (slot->tally && !comm->unfenced)
    comm->device->tally_free(comm->device, slot->tally, comm->fence);
  slot->residual = slot->tally = NULL;
  slot->residual_bytes = 0;
  slot->held = NULL;
}

/* What belongs to all slots together. */
static void give_back_shared(struct tagc_comm *comm)
{
  give_back(comm, comm->workspace);
  give_back(comm, comm->health);
  comm->workspace = NULL;
  comm->workspace_bytes = 0;
  comm->health = NULL;
}

struct tagc_ballot_estate tagc_ballot_detach(struct tagc_comm *comm)
{
  const struct tagc_ballot_estate estate = {comm->slots,           comm->slot_count, comm->allgathers,
                                            comm->allgather_count, comm->workspace,  comm->health};
  comm->slots = NULL;
  comm->allgathers = NULL;
  comm->slot_count = comm->allgather_count = 0;
  comm->workspace = NULL;
  comm->workspace_bytes = 0;
  comm->health = NULL;
  comm->voted = false;
  return estate;
}

void tagc_ballot_release(struct tagc_comm *comm, struct tagc_ballot_estate *estate)
{
  for (size_t i = 0; i < estate->slot_count; i++) {
    while (estate->slots[i].tally && tagc_comm_read_tally(comm, estate->slots[i].tally, -1))
      ;
    give_back_slot(comm, &estate->slots[i]);
  }
  tagc_allgathers_release(comm, estate->allgathers, estate->allgather_count);
  give_back(comm, estate->workspace);
  give_back(comm, estate->health);
  tagc_split_free(estate->slots, estate->slot_count);
  free(estate->slots);
  *estate = (struct tagc_ballot_estate){0};
}

void tagc_ballot_drop(struct tagc_comm *comm, size_t i)
{
  struct tagc_slot *slot = &comm->slots[i];
  if (slot->residual && slot->dirty && !slot->residual_empty)
    tagc_ledger_row(comm->ledger, (int)i)->residuals_dropped++;
  slot->residual_empty = true;
  slot->dirty = false;              /* there is nothing to be sent beside the next plain call */
  slot->surplus_calls = 0;
}

void tagc_ballot_read(struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->slot_count; i++)
    while (comm->slots[i].tally && tagc_comm_read_tally(comm, comm->slots[i].tally, (int)i))
      ;
}

bool tagc_ballot_eligible(const struct tagc_comm *comm, size_t i)
{
  struct tagc_slot_question question = tagc_ballot_question(comm, i);
  return tagc_plan_slot_gate(&question) == TAGC_REASON_compressed;
}

/* Kernels cannot take an element from anywhere, and the device must have access. */
static bool are_reached(const struct tagc_call *call)
{
  const struct tagc_device *device = call->comm->device;
  const size_t element = call->type == ncclFloat32 ? 4 : 2;
  const uintptr_t both = (uintptr_t)call->send | (uintptr_t)call->recv;
  return both % element == 0 && device->reaches(device, call->send) && device->reaches(device, call->recv);
}

enum tagc_reason tagc_ballot_bar(const struct tagc_call *call)
{
  if (call->scale_hidden)
    return TAGC_REASON_scalar;
  if (call->comm->device->host_reads)
    return TAGC_REASON_compressed;
  return are_reached(call) ? TAGC_REASON_compressed : TAGC_REASON_memory;
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
  const enum tagc_reason reason = tagc_ballot_bar(call);
  pthread_mutex_lock(&comm->lock);
  tagc_comm_bar(comm, call, reason);
  pthread_mutex_unlock(&comm->lock);
}

/* Gives a slot its codec. TAGC_REASON_compressed, or why it gets none. */
static enum tagc_reason choose(struct tagc_comm *comm, size_t i, const struct tagc_slot_question *question,
                               const struct tagc_wire *wire)
{
  struct tagc_slot *slot = &comm->slots[i];
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  struct tagc_grounds *grounds = tagc_ledger_row(comm->ledger, (int)i)->grounds;
  if (!grounds)
    return slot->barred;
  struct tagc_choice *choice = &grounds->choice;
  if (!tagc_selection_on())
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
  struct tagc_slot_question question = tagc_ballot_question(comm, i);
  question.residual_left = *residual_left;
  enum tagc_reason reason = choose(comm, i, &question, wire);
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

/* The workspace: the calls of a communicator run one after the other, so the largest one counts. */
static size_t workspace_need(const struct tagc_comm *comm)
{
  size_t largest = tagc_allgathers_workspace(comm);
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].verdict == TAGC_REASON_compressed && call_bytes(comm, &comm->slots[i]) > largest)
      largest = call_bytes(comm, &comm->slots[i]);
  return largest;
}

/* There is something when a vote failed and is held again, and in votes after the first one. Of slots that keep their codec it stays; the
 * residuals of others were sent before the vote, but for that of a slot whose call did not come then. */
static void give_back_others(struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    const bool compressed = slot->verdict == TAGC_REASON_compressed;
    tagc_ballot_drop(comm, i);
    if (!compressed || slot->held != slot->codec || slot->residual_bytes != tagc_residual_bytes(&slot->shape))
      give_back_slot(comm, slot);
  }
}

/* Where there is none of another size, the one that is there stays: all-gathers go on with it. */
static bool reserve_workspace(struct tagc_comm *comm, size_t bytes, void *stream)
{
  const struct tagc_device *device = comm->device;
  uint8_t *other = bytes && comm->workspace_bytes != bytes ? device->alloc(device, bytes, stream) : NULL;
  if (other) {
    give_back(comm, comm->workspace);
    comm->workspace = other;
    comm->workspace_bytes = bytes;
  }
  if (comm->workspace_bytes < bytes)
    return false;
  /* The messages to oneself are sent, too, but never written. */
  return !bytes || !comm->all_to_all || device->clear(device, comm->workspace, bytes, stream);
}

/* What a slot needs beside the workspace; what it has stays. */
static bool reserve_slot(struct tagc_comm *comm, struct tagc_slot *slot, void *stream)
{
  const struct tagc_device *device = comm->device;
  bool good = true;
  slot->held = slot->codec;
  if (!slot->tally)
    slot->tally = device->tally_make(device, stream);
  good &= slot->tally || device->host_reads;
  if (slot->shape.residual == TAGC_STORAGE_NONE)
    return good;
  if (!slot->residual) {
    slot->residual_bytes = tagc_residual_bytes(&slot->shape);
    slot->residual = device->alloc(device, slot->residual_bytes, stream);
    slot->residual_empty = true;
  }
  good &= slot->residual != NULL;
  if (device->health_bytes && !comm->health) {
    comm->health = device->alloc(device, device->health_bytes, stream);
    good &= comm->health && device->clear(device, comm->health, device->health_bytes, stream);
  }
  return good;
}

/* The lane, where calls are cut. Without one none is, on all ranks. */
static void reserve_lane(struct tagc_comm *comm)
{
  bool wanted = tagc_allgathers_are_cut(comm);
  for (size_t i = 0; i < comm->slot_count; i++)
    wanted |= comm->slots[i].verdict == TAGC_REASON_compressed && is_cut(&comm->slots[i]);
  if (!wanted || atomic_load(&comm->lane))
    return;
  atomic_store(&comm->lane, comm->device->lane_make(comm->device));
  if (atomic_load(&comm->lane))
    return;
  tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu: no %s for encoding beside the exchange; all its ranks will do one after the "
           "other", (unsigned long long)comm->ledger->number, comm->device->host_reads ? "thread" : "stream");
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].verdict == TAGC_REASON_compressed)
      join(comm, &comm->slots[i]);
  tagc_allgathers_join(comm);
}

bool tagc_ballot_reserve(struct tagc_comm *comm, void *stream)
{
  const struct tagc_device *device = comm->device;
  reserve_lane(comm);
  size_t bytes = workspace_need(comm);
  bool good = true;
  /* In votes after the first one earlier calls may still be at this memory, on other streams; and the fence is set anew below. */
  if (comm->fence && !device->fence_wait(device, comm->fence, stream))
    return false;
  give_back_others(comm);
  if (bytes && !comm->fence && !(comm->fence = device->fence_make(device)))
    return false;
  if (bytes && comm->scope.two_levels && !comm->order.plain_fence &&
      !(comm->order.plain_fence = device->fence_make(device)))
    return false;
  good &= reserve_workspace(comm, bytes, stream);
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].verdict == TAGC_REASON_compressed)
      good &= reserve_slot(comm, &comm->slots[i], stream);
  good &= comm->voted || tagc_allgathers_reserve(comm, stream);   /* they stay as the first vote has them */
  return (!comm->fence || device->fence_set(device, comm->fence, stream)) && good;   /* what is there is given back behind it */
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
  if (tagc_selection_on())
    tagc_selection_plan(comm, wire);
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].verdict != TAGC_REASON_compressed)
      comm->slots[i].held = NULL;   /* memory of a slot that became plain, with what a device has counted: not to be used again */
  for (size_t i = 0; i < comm->slot_count; i++)
    comm->slots[i].verdict = plan_slot(comm, i, wire, &residual_left);
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
    word[SLOT_CAN] = reserved && slot->verdict == TAGC_REASON_compressed;
    word[SLOT_VERDICT] = (int64_t)slot->verdict;
    word[SLOT_VERDICT_NEGATED] = -word[SLOT_VERDICT];
    word[SLOT_CODEC] = codec_word(comm, slot);
    word[SLOT_CODEC_NEGATED] = -word[SLOT_CODEC];
    word[SLOT_PARTS] = parts_word(slot);
    word[SLOT_PARTS_NEGATED] = -word[SLOT_PARTS];
    word[SLOT_DEPTH] = slot->verdict == TAGC_REASON_compressed ? depth_word(slot) : 0;
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
               row->name, tagc_reason_words(comm->slots[i].verdict));
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
    bool same = least == most && word[SLOT_CODEC] == -word[SLOT_CODEC_NEGATED] && alike;
    if (same && word[SLOT_CAN]) {
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
    /* Where some ranks could, and others have all one reason why they cannot, it is the reason of all. */
    if (!alike && least == TAGC_REASON_compressed)
      slot->verdict = TAGC_REASON_layers;
    else if (least == TAGC_REASON_compressed && most != least)
      slot->verdict = (enum tagc_reason)most;
    else if (!same || slot->verdict == TAGC_REASON_compressed)
      slot->verdict = TAGC_REASON_vote;
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

void tagc_ballot_trim(struct tagc_comm *comm)
{
  bool any = tagc_allgathers_trim(comm);
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].verdict == TAGC_REASON_compressed)
      any = true;
    else {
      tagc_ballot_drop(comm, i);
      give_back_slot(comm, &comm->slots[i]);
    }
  if (!any)
    give_back_shared(comm);
}
