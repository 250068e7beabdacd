/* SPDX-License-Identifier: BSD-3-Clause
 * The records of cycles and slots.
 */
#include <stdio.h>

#include "env/clock.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/comm.h"
#include "interpose/comm/partial.h"
#include "interpose/nccl/process.h"

_Static_assert((int)TAGC_TRACE_EMBED == TAGC_CONTENT_EMBED && (int)TAGC_TRACE_ATTN == TAGC_CONTENT_ATTN &&
                 (int)TAGC_TRACE_MLP == TAGC_CONTENT_MLP && (int)TAGC_TRACE_NORM == TAGC_CONTENT_NORM &&
                 (int)TAGC_TRACE_HEAD == TAGC_CONTENT_HEAD && (int)TAGC_TRACE_OTHER == TAGC_CONTENT_OTHER &&
                 (int)TAGC_TRACE_PARTS == TAGC_CONTENTS,
               "what a layer holds is written as it is counted");

static uint16_t op_code_of_slot(uint8_t op) {
  return op == TAGC_OP_SUM         ? ncclSum
         : op == TAGC_OP_AVG       ? ncclAvg
         : op == TAGC_OP_PREMULSUM ? TAGC_TRACE_OP_PREMULSUM
                                   : TAGC_TRACE_OP_OTHER;
}

/* The compressed elements of all shards. */
static uint64_t selected(const struct tagc_comm *comm, const struct tagc_slot *slot) {
  if (!comm->vote.held || slot->reason != TAGC_REASON_compressed)
    return 0;
  return slot->selected.parts ? tagc_parts_elements(slot->selected.parts, comm->nranks)
                              : tagc_slot_shard(slot).n * (uint64_t)comm->nranks;
}

static void record_slot(const struct tagc_comm *comm, size_t i, const struct tagc_slot_info *info) {
  const struct tagc_slot *slot = &comm->slots[i];
  const struct tagc_layer *layer = comm->layers ? &comm->layers->layers[i] : NULL;
  const struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, (int)i);
  const bool compressed = comm->vote.held && slot->reason == TAGC_REASON_compressed;
  union tagc_trace_room room;
  room.slot = (struct tagc_trace_slot){
    .record.comm = comm->trace.number,
    .lock = (uint32_t)comm->observed.lock_number,
    .slot = (uint32_t)i,
    .unit = info->unit,
    .pass = info->pass,
    .count = info->signature.count,
    .selected = selected(comm, slot),
    .residual_bytes = compressed ? row->residual_bytes : 0,
    .type = info->signature.dtype,
    .op = op_code_of_slot(info->signature.op),
    .reason = (uint16_t)slot->reason,
    .voted = comm->vote.held,
  };
  if (layer)
    tagc_layer_contents(layer, room.slot.part);
  const bool all_reduce = info->signature.collective == TAGC_COLL_ALL_REDUCE;
  const char *const texts[] = {layer ? layer->name : info->name, compressed ? slot->codec->name : "",
                               all_reduce ? "ncclAllReduce" : "ncclReduceScatter"};
  tagc_trace_add_texts(&room, TAGC_TRACE_SLOT, sizeof room.slot, texts, 3);
}

/* Records the all-gathers of parameters; with TAGC_ALLGATHER=off only their places. */
static void record_allgathers(const struct tagc_comm *comm) {
  size_t count;
  const struct tagc_allgather_info *infos = tagc_cycle_allgathers(comm->observed.cycle, &count);
  for (size_t i = 0; i < count; i++) {
    const struct tagc_allgather *a = i < comm->allgather_count ? &comm->allgathers[i] : NULL;
    const bool compressed = a && comm->vote.held && a->reason == TAGC_REASON_compressed;
    const char *const text = compressed ? a->codec->name : "";
    union tagc_trace_room room;
    room.allgather = (struct tagc_trace_allgather){
      .record.comm = comm->trace.number,
      .lock = (uint32_t)comm->observed.lock_number,
      .allgather = (uint32_t)i + 1,
      .slot = infos[i].slot,
      .again = infos[i].again,
      .count = infos[i].signature.count,
      .reference_bytes = compressed ? tagc_ledger_allgather_row(comm->ledger, (int)i)->residual_bytes : 0,
      .type = infos[i].signature.dtype,
      .reason = (uint16_t)(a ? a->reason : TAGC_REASON_allgather_off),
      .voted = a && comm->vote.held,
    };
    tagc_trace_add_texts(&room, TAGC_TRACE_ALLGATHER, sizeof room.allgather, &text, 1);
  }
}

void tagc_trace_lock(struct tagc_comm *comm, const struct tagc_slot_info *slots, size_t count) {
  if (!tagc_trace_on())
    return;
  const struct tagc_layers *layers = comm->layers;
  union tagc_trace_room room;
  room.lock = (struct tagc_trace_lock){
    .record.comm = comm->trace.number,
    .at_ns = tagc_clock_ns(),
    .lock = (uint32_t)comm->observed.lock_number,
    .calls = (uint32_t)tagc_cycle_length(comm->observed.cycle),
    .slots = (uint32_t)count,
    .gradients = tagc_cycle_is_gradients(comm->observed.cycle) || (layers && layers->proven),
    .confidence = layers ? (uint16_t)layers->confidence : 0,
  };
  const bool known = layers && layers->source != TAGC_LAYER_POSITION;
  const char *const texts[] = {known ? layers->what : "", known ? layers->runner_up : ""};
  tagc_trace_add_texts(&room, TAGC_TRACE_LOCK, sizeof room.lock, texts, 2);
  for (size_t i = 0; i < count; i++)
    record_slot(comm, i, &slots[i]);
  record_allgathers(comm);
}

/* Only TAGC_BUDGET gives a reason in words. */
static void record_vote(const struct tagc_comm *comm, uint64_t cycle) {
  char why[TAGC_RETUNE_TEXT];
  union tagc_trace_room room;
  room.vote = (struct tagc_trace_vote){.record.comm = comm->trace.number,
                                       .at_ns = tagc_clock_ns(),
                                       .cycle = cycle,
                                       .lock = (uint32_t)comm->observed.lock_number,
                                       .vote = comm->vote.count};
  const char *const texts[] = {tagc_retune_text(comm->ledger->retune, why)};
  tagc_trace_add_texts(&room, TAGC_TRACE_VOTE, sizeof room.vote, texts, 1);
}

void tagc_trace_vote(struct tagc_comm *comm, uint64_t cycle) {
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(comm->observed.cycle, &count);
  if (!tagc_trace_on())
    return;
  tagc_trace_introduce(comm); /* the vote has found its hosts */
  record_vote(comm, cycle);
  for (size_t i = 0; i < count && i < comm->slot_count; i++)
    record_slot(comm, i, &slots[i]);
  record_allgathers(comm);
}

void tagc_trace_cycle(const struct tagc_comm *comm, uint64_t cycle, uint64_t ended_ns, int side, bool disturbed) {
  const struct tagc_trace_cycle record = {
    {TAGC_TRACE_CYCLE, sizeof record, comm->trace.number},
    .began_ns = comm->observed.cycle_began_ns,
    .ended_ns = ended_ns,
    .cycle = cycle,
    .lock = (uint32_t)comm->observed.lock_number,
    .side = (uint16_t)side,
    .disturbed = disturbed,
  };
  if (comm->observed.cycle_began_ns)
    tagc_trace_add(&record.record);
}
