/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/slot.h"

#include "interpose/comm/comm.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/placement.h"
#include "interpose/nccl/process.h"

/* Does TAGC_LAYERMAP name the parameters of the slot? */
static bool is_in_map(const struct tagc_comm *comm, size_t i) {
  const struct tagc_layers *layers = comm->layers;
  return layers && layers->source == TAGC_LAYER_MAP && i < layers->count && layers->layers[i].count;
}

bool tagc_slot_is_gradient(const struct tagc_comm *comm, size_t i) {
  size_t count;
  const enum tagc_proof proof = i < comm->slot_count ? comm->slots[i].sample.proof : TAGC_PROOF_NONE;
  if (is_in_map(comm, i))
    return true;
  if (proof != TAGC_PROOF_NONE)
    return proof == TAGC_PROOF_PARAMETERS;
  return (tagc_cycle_is_gradients(comm->observed.cycle) && tagc_cycle_slots(comm->observed.cycle, &count)[i].evident) ||
         (comm->layers && comm->layers->proven) || comm->vote.are_shards;
}

struct tagc_shape tagc_slot_shard(const struct tagc_slot *slot) {
  struct tagc_shape shape = slot->packed;
  shape.n = slot->shard_count;
  return shape;
}

uint64_t tagc_slot_rest_count(const struct tagc_slot *slot) {
  return slot->selected.parts ? slot->selected.parts->rest : 0;
}

uint32_t tagc_slot_stage(const struct tagc_comm *comm, uint64_t cycle) {
  return tagc_schedule_stage(&tagc_library_options()->sparsity, comm->observed.cycles_before + cycle);
}

enum tagc_reason tagc_slot_reason(const struct tagc_comm *comm, const struct tagc_slot *slot, uint64_t cycle) {
  return slot->reason == TAGC_REASON_compressed ? slot->stages.reason[tagc_slot_stage(comm, cycle)] : slot->reason;
}

struct tagc_slot_question tagc_slot_question(const struct tagc_comm *comm, size_t i) {
  const struct tagc_slot *slot = &comm->slots[i];
  size_t count;
  return (struct tagc_slot_question){
    .options = tagc_library_options(),
    .codec = slot->codec,
    .slot = &tagc_cycle_slots(comm->observed.cycle, &count)[i],
    .hosts = tagc_hierarchy_hosts(comm),
    .scope = comm->hierarchy.scope,
    .packed = slot->packed,
    .op = slot->op,
    .shard_count = slot->shard_count,
    .rest_count = tagc_slot_rest_count(slot),
    .layer_known = slot->selected.layer_known,
    .selection = slot->selected.selection,
    .host_memory = comm->device && comm->device->host_reads,
    .symmetric = slot->sample.symmetric,
    .gradients = tagc_slot_is_gradient(comm, i),
    .changes = slot->sample.proof == TAGC_PROOF_OTHER,
  };
}

/* Kernels need aligned elements, and the device must have access. */
static bool are_reached(const struct tagc_call *call) {
  const struct tagc_device *device = call->comm->device;
  const size_t element = call->type == ncclFloat32 ? 4 : 2;
  const uintptr_t both = (uintptr_t)call->send | (uintptr_t)call->recv;
  return both % element == 0 && device->reaches(device, call->send) && device->reaches(device, call->recv);
}

enum tagc_reason tagc_slot_reject_reason(const struct tagc_call *call) {
  const enum tagc_reason config = tagc_coll_config_gate(call->config);
  if (config != TAGC_REASON_NONE)
    return config;
  if (call->scale_hidden)
    return TAGC_REASON_scalar;
  const struct tagc_device *device = call->comm->device;
  if (device->host_reads)
    return TAGC_REASON_NONE;
  if (!device->takes_stream(device, call->stream))
    return TAGC_REASON_stream;
  return are_reached(call) ? TAGC_REASON_NONE : TAGC_REASON_memory;
}

void tagc_comm_pass_slots(struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->slot_count; i++)
    comm->slots[i].reason = TAGC_REASON_activations;
  comm->vote.held = true;
}

void tagc_slot_drop_residual(struct tagc_comm *comm, size_t i) {
  if (i >= comm->slot_count || !comm->slots[i].memory.residual || comm->slots[i].state.residual_empty)
    return;
  comm->slots[i].state.residual_empty = true;
  tagc_ledger_row(comm->ledger, (int)i)->residuals_dropped++;
}

void tagc_slots_drop_nonfinite(struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->slot_count && comm->observed.nonfinite; i++)
    if (comm->slots[i].state.residual_cycle + 1 == comm->observed.nonfinite)
      tagc_slot_drop_residual(comm, i);
}

bool tagc_comm_compares_ranks(const struct tagc_comm *comm) { return comm->slot_count && comm->slots[0].all_reduce; }

/* One cycle of samples is enough to compare ranks. */
uint64_t tagc_comm_first_vote(const struct tagc_comm *comm) {
  const bool two = comm->changes.watched && !tagc_comm_compares_ranks(comm);
  return comm->vote.map_cycle + (two ? TAGC_CHANGES_VOTE_CYCLE : TAGC_VOTE_CYCLE);
}

uint64_t tagc_comm_next_vote(const struct tagc_comm *comm) {
  return comm->vote.held ? tagc_retune_next(comm->ledger->retune) : comm->vote.cycle;
}

bool tagc_comm_awaits_vote(const struct tagc_comm *comm, const struct tagc_call *call) {
  return tagc_library_options()->mode != TAGC_MODE_OBSERVE && tagc_comm_next_vote(comm) && tagc_comm_agreed(comm) &&
         comm->device && comm->nranks >= 2 && call->slot >= 0 && call->lock_number == comm->observed.lock_number;
}

void tagc_comm_reject(struct tagc_comm *comm, const struct tagc_call *call, enum tagc_reason reason) {
  struct tagc_allgather *allgather = tagc_allgather_of(comm, call);
  enum tagc_reason *known = allgather ? &allgather->reject_reason : NULL;
  if (call->slot >= 0)
    known = &comm->slots[call->slot].sample.reject_reason;
  if (known && call->lock_number == comm->observed.lock_number && *known == TAGC_REASON_NONE)
    *known = reason;
}
