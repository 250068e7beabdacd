/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/memory.h"

#include <stdlib.h>

#include "interpose/comm/chunking.h"
#include "interpose/comm/comm.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/placement.h"
#include "interpose/nccl/process.h"
#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/residual.h"

size_t tagc_memory_assign_support(struct tagc_support_buffers *out, const struct tagc_allgather_phase *phase,
                                  uint8_t *base) {
  const size_t ranks = (size_t)phase->shape.nranks;
  size_t used = 0;
  out->needed = tagc_assign_buffer(base, &used, ranks * sizeof *out->needed);
  out->encoded = tagc_assign_buffer(base, &used, phase->support.payload_bytes);
  out->payloads = tagc_assign_buffer(base, &used, ranks * phase->support.payload_bytes);
  out->state = tagc_assign_buffer(base, &used, phase->support.state_bytes);
  return used;
}

/* A call uses either codec's buffers, so they share their place. */
size_t tagc_memory_allgather_phase_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot) {
  const struct tagc_allgather_phase *phase = &slot->allgather_phase;
  const size_t bytes = phase->codec ? tagc_chunking_allgather_bytes(comm->device, phase->codec, &phase->shape,
                                                                    &phase->layout, &slot->allgather_phase_chunking)
                                    : 0;
  struct tagc_support_buffers support;
  const size_t its = phase->support.payload_bytes ? tagc_memory_assign_support(&support, phase, NULL) : 0;
  return its > bytes ? its : bytes;
}

/* A slot sends its residual when it enters one. */
static bool has_plain_stage(const struct tagc_slot *slot) {
  bool any = false;
  for (uint32_t stage = 0; stage < tagc_library_options()->sparsity.count; stage++)
    any |= slot->stages.reason[stage] != TAGC_REASON_compressed;
  return any;
}

/* Bytes of the workspace that one call of a slot needs, to compress or to flush. */
static size_t call_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot) {
  struct tagc_job job = {.shape = slot->packed, .layout = slot->layout};
  size_t compress = tagc_chunking_assign(slot, &job, NULL, NULL), flush = 0;
  if (slot->chunking.chunks.count > 1 && comm->device->layout(comm->device, slot->codec, &job.shape, &job.layout)) {
    const size_t in_one = tagc_job_assign_buffers(&job, NULL); /* the vote may choose one chunk */
    compress = in_one > compress ? in_one : compress;
  }
  const struct tagc_options *options = tagc_library_options();
  if (slot->packed.residual != TAGC_STORAGE_NONE &&
      (options->mode == TAGC_MODE_AB || tagc_options_has_budget(options) ||
       (tagc_options_auto(options) && slot->codec->needs_residual) || has_plain_stage(slot)))
    flush = (size_t)slot->packed.nranks * slot->packed.n * tagc_dtype_size(slot->packed.dtype);
  const struct tagc_shape whole = tagc_slot_shard(slot);
  struct tagc_partial partial;
  const size_t sums = tagc_hierarchy_sum_bytes(&whole) + TAGC_HIERARCHY_TOLD_BYTES;
  return tagc_memory_allgather_phase_bytes(comm, slot) + (comm->hierarchy.scope.two_levels ? sums : 0) +
         tagc_partial_assign_buffers(&partial, slot, NULL) + (compress > flush ? compress : flush);
}

/* The same of the stage that needs most. */
static size_t slot_bytes(const struct tagc_comm *comm, const struct tagc_slot *slot) {
  size_t most = 0;
  for (uint32_t stage = 0; stage < tagc_library_options()->sparsity.count; stage++) {
    struct tagc_slot at = *slot;
    if (slot->stages.reason[stage] != TAGC_REASON_compressed ||
        !tagc_chunking_set_stage(comm->device, &at, stage, slot->chunking.chunks.count))
      continue;
    const size_t bytes = call_bytes(comm, &at);
    most = bytes > most ? bytes : most;
  }
  return most;
}

static void give_back_memory(const struct tagc_comm *comm, void *memory) {
  if (memory && !comm->sync.unfenced)
    comm->device->release_after(comm->device, memory, comm->sync.fence);
}

static void give_back_slot(const struct tagc_comm *comm, struct tagc_slot *slot) {
  give_back_memory(comm, slot->memory.residual);
  if (slot->memory.tally && !comm->sync.unfenced)
    comm->device->tally_free(comm->device, slot->memory.tally, comm->sync.fence);
  slot->memory.residual = slot->memory.tally = NULL;
  slot->memory.residual_bytes = 0;
  slot->memory.codec = NULL;
}

/* Gives back the memory that all slots share. */
static void give_back_shared(struct tagc_comm *comm) {
  give_back_memory(comm, comm->memory.workspace);
  give_back_memory(comm, comm->memory.health);
  comm->memory.workspace = NULL;
  comm->memory.workspace_bytes = 0;
  comm->memory.health = NULL;
}

struct tagc_former_lock tagc_memory_detach(struct tagc_comm *comm) {
  const struct tagc_former_lock former = {comm->slots,           comm->slot_count,       comm->allgathers,
                                          comm->allgather_count, comm->memory.workspace, comm->memory.health,
                                          comm->changes};
  comm->slots = NULL;
  comm->allgathers = NULL;
  comm->slot_count = comm->allgather_count = 0;
  comm->memory.workspace = NULL;
  comm->memory.workspace_bytes = 0;
  comm->memory.health = NULL;
  comm->changes = (struct tagc_comm_changes){0};
  comm->vote.held = false;
  return former;
}

void tagc_memory_release(struct tagc_comm *comm, struct tagc_former_lock *former) {
  if (!former->slots && !former->allgathers && !former->workspace && !former->health) /* after nearly every call */
    return;
  for (size_t i = 0; i < former->slot_count; i++) {
    while (former->slots[i].memory.tally && tagc_comm_read_tally(comm, former->slots[i].memory.tally, -1))
      ;
    give_back_slot(comm, &former->slots[i]);
  }
  tagc_allgathers_release(comm, former->allgathers, former->allgather_count);
  give_back_memory(comm, former->workspace);
  give_back_memory(comm, former->health);
  give_back_memory(comm, former->changes.samples);
  free(former->changes.places);
  tagc_partial_free(former->slots, former->slot_count);
  free(former->slots);
  *former = (struct tagc_former_lock){0};
}

/* Drops the unsent values of slot i, and counts the drop if there were any. */
static void drop_unsent(struct tagc_comm *comm, size_t i) {
  struct tagc_slot *slot = &comm->slots[i];
  if (slot->memory.residual && slot->state.dirty && !slot->state.residual_empty)
    tagc_ledger_row(comm->ledger, (int)i)->residuals_dropped++;
  slot->state.residual_empty = true;
  slot->state.dirty = false; /* the next plain call has nothing to flush */
  slot->state.surplus_calls = 0;
}

void tagc_memory_read_tallies(struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->slot_count; i++)
    while (comm->slots[i].memory.tally && tagc_comm_read_tally(comm, comm->slots[i].memory.tally, (int)i))
      ;
}

/* The bytes of the workspace: calls of a communicator run one after the other, so the largest one counts. */
static size_t workspace_need(const struct tagc_comm *comm) {
  size_t largest = tagc_allgathers_workspace(comm);
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].reason == TAGC_REASON_compressed) {
      const size_t bytes = slot_bytes(comm, &comm->slots[i]);
      largest = bytes > largest ? bytes : largest;
    }
  return largest;
}

/* Gives back the memory of slots that are not compressed or that change their codec: after a failed vote, and in votes
 * after the first. The residuals of such slots were sent before the vote, unless a slot's call did not come in time. */
static void give_back_others(struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    const bool compressed = slot->reason == TAGC_REASON_compressed;
    drop_unsent(comm, i);
    if (!compressed || slot->memory.codec != slot->codec ||
        slot->memory.residual_bytes != tagc_residual_bytes(&slot->packed))
      give_back_slot(comm, slot);
  }
}

/* If the allocation fails, the old workspace stays: all-gathers go on with it. */
static bool reserve_workspace(struct tagc_comm *comm, size_t bytes, void *stream) {
  const struct tagc_device *device = comm->device;
  uint8_t *other = bytes && comm->memory.workspace_bytes != bytes ? device->alloc(device, bytes, stream) : NULL;
  if (other) {
    give_back_memory(comm, comm->memory.workspace);
    comm->memory.workspace = other;
    comm->memory.workspace_bytes = bytes;
  }
  if (comm->memory.workspace_bytes < bytes)
    return false;
  /* Messages to this rank itself are sent, too, but nothing writes them. */
  return !bytes || !comm->vote.all_to_all || device->clear(device, comm->memory.workspace, bytes, stream);
}

/* Without memory for nonzero sums, all sums travel: the proposal informs the other ranks. False: there are none. */
static bool give_up_support(struct tagc_comm *comm) {
  bool any = false;
  for (size_t i = 0; i < comm->slot_count; i++) {
    any |= comm->slots[i].allgather_phase.support.payload_bytes > 0;
    comm->slots[i].allgather_phase.support = (struct tagc_allgather_layout){0};
  }
  return any;
}

/* Reserves what a slot needs beside the workspace, and keeps what it has. */
static bool reserve_slot(struct tagc_comm *comm, struct tagc_slot *slot, void *stream) {
  const struct tagc_device *device = comm->device;
  bool good = true;
  slot->memory.codec = slot->codec;
  if (!slot->memory.tally)
    slot->memory.tally = device->tally_make(device, stream);
  good &= slot->memory.tally || device->host_reads;
  if (slot->packed.residual == TAGC_STORAGE_NONE)
    return good;
  if (!slot->memory.residual) {
    slot->memory.residual_bytes = tagc_residual_bytes(&slot->packed);
    slot->memory.residual = device->alloc(device, slot->memory.residual_bytes, stream);
    slot->state.residual_empty = true;
  }
  good &= slot->memory.residual != NULL;
  if (device->health_bytes && !comm->memory.health) {
    comm->memory.health = device->alloc(device, device->health_bytes, stream);
    good &= comm->memory.health && device->clear(device, comm->memory.health, device->health_bytes, stream);
  }
  return good;
}

bool tagc_memory_reserve(struct tagc_comm *comm, void *stream) {
  const struct tagc_device *device = comm->device;
  size_t bytes = workspace_need(comm);
  bool good = true;
  /* After the first vote, earlier calls may still use this memory on other streams; and the fence is set anew below. */
  if (comm->sync.fence && !device->fence_wait(device, comm->sync.fence, stream))
    return false;
  give_back_others(comm);
  if (bytes && !comm->sync.fence && !(comm->sync.fence = device->fence_make(device)))
    return false;
  if (bytes && comm->hierarchy.scope.two_levels && !comm->sync.order.plain_fence &&
      !(comm->sync.order.plain_fence = device->fence_make(device)))
    return false;
  good &= reserve_workspace(comm, bytes, stream) ||
          (give_up_support(comm) && reserve_workspace(comm, workspace_need(comm), stream));
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].reason == TAGC_REASON_compressed)
      good &= reserve_slot(comm, &comm->slots[i], stream);
  good &= comm->vote.held || tagc_allgathers_reserve(comm, stream); /* the first vote settles them */
  /* All later releases wait for this fence. */
  return (!comm->sync.fence || device->fence_set(device, comm->sync.fence, stream)) && good;
}

void tagc_memory_trim(struct tagc_comm *comm) {
  bool any = tagc_allgathers_trim(comm);
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].reason == TAGC_REASON_compressed)
      any = true;
    else {
      drop_unsent(comm, i);
      give_back_slot(comm, &comm->slots[i]);
    }
  if (!any)
    give_back_shared(comm);
}
