/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/calls/calls.h"

#include "interpose/nccl/process.h"

size_t tagc_call_type_size(ncclDataType_t type) {
  switch (type) {
  case ncclFloat64:
  case ncclInt64:
  case ncclUint64: return 8;
  case ncclFloat32:
  case ncclInt32:
  case ncclUint32: return 4;
  case ncclFloat16:
  case ncclBfloat16: return 2;
  default: return 1;
  }
}

uint64_t tagc_call_bytes(const struct tagc_call *call) {
  const bool whole = call->entry == TAGC_ENTRY_ncclAllReduce || call->entry == TAGC_ENTRY_ncclBroadcast ||
                     call->entry == TAGC_ENTRY_ncclBcast || call->entry == TAGC_ENTRY_ncclReduce;
  return call->count * (whole ? 1 : (uint64_t)call->comm->nranks) * tagc_call_type_size(call->type);
}

enum tagc_collective tagc_call_collective(const struct tagc_call *call) {
  switch (call->entry) {
  case TAGC_ENTRY_ncclReduceScatter: return TAGC_COLL_REDUCE_SCATTER;
  case TAGC_ENTRY_ncclAllGather: return TAGC_COLL_ALL_GATHER;
  case TAGC_ENTRY_ncclAllReduce: return TAGC_COLL_ALL_REDUCE;
  case TAGC_ENTRY_ncclReduce: return TAGC_COLL_REDUCE;
  case TAGC_ENTRY_ncclAlltoAll: return TAGC_COLL_ALL_TO_ALL;
  case TAGC_ENTRY_ncclGather: return TAGC_COLL_GATHER;
  case TAGC_ENTRY_ncclScatter: return TAGC_COLL_SCATTER;
  default: return TAGC_COLL_BROADCAST;
  }
}

enum tagc_reason tagc_call_broadcast_shape(const struct tagc_call *call, struct tagc_broadcast_shape *out) {
  struct tagc_allgather_layout layout;
  if (!tagc_broadcast_shape_of(call->count, tagc_call_type_size(call->type), call->type == ncclFloat16, call->root,
                               out))
    return TAGC_REASON_odd_bytes;
  const struct tagc_allgather_shape shape = tagc_broadcast_codec_shape(out);
  return tagc_allgather_exact.layout(&shape, &layout) ? TAGC_REASON_NONE : TAGC_REASON_no_gain;
}

/* NCCL refuses the others. Before its communicator is known, a broadcast is taken for a valid one. */
static bool is_valid_broadcast(const struct tagc_call *call) {
  if (!call->comm)
    return true;
  return call->root >= 0 && call->root < call->comm->nranks && call->recv &&
         (call->send || call->root != call->comm->rank);
}

bool tagc_call_may_compress(const struct tagc_call *call) {
  enum tagc_dtype dtype;
  struct tagc_broadcast_shape shape;
  switch (call->entry) {
  case TAGC_ENTRY_ncclReduceScatter: return true;
  case TAGC_ENTRY_ncclAllReduce: return call->count >= TAGC_ALL_REDUCE_LEAST && tagc_comm_dtype(call->type, &dtype);
  case TAGC_ENTRY_ncclAllGather:
    return tagc_allgathers_reason() == TAGC_REASON_NONE && tagc_comm_dtype(call->type, &dtype);
  case TAGC_ENTRY_ncclBroadcast:
  case TAGC_ENTRY_ncclBcast:
    return tagc_library_options()->broadcast != TAGC_BROADCAST_OFF &&
           tagc_call_bytes(call) >= tagc_library_options()->min_bytes &&
           tagc_call_broadcast_shape(call, &shape) == TAGC_REASON_NONE && is_valid_broadcast(call);
  default: return false;
  }
}

/* A later call of the group may have changed the lock. */
static void forget_old_lock(struct tagc_call *call) {
  if (call->lock_number == call->comm->observed.lock_number)
    return;
  call->state = TAGC_CYCLE_OUT_OF_SYNC;
  call->slot = call->allgather = -1;
}

static struct tagc_call_facts facts_of(const struct tagc_comm *comm, const struct tagc_call *call) {
  enum tagc_dtype dtype;
  const struct tagc_slot *slot = call->slot < 0 ? NULL : &comm->slots[call->slot];
  const struct tagc_allgather *allgather = tagc_allgather_of(comm, call);
  struct tagc_broadcast_shape broadcast;
  return (struct tagc_call_facts){
    .options = tagc_library_options(),
    .collective = tagc_call_collective(call),
    .compressible_type = tagc_comm_dtype(call->type, &dtype),
    .op = call->op_kind,
    .nranks = comm->nranks,
    .bytes = tagc_call_bytes(call),
    .config_reason = call->config ? tagc_coll_config_gate(call->config) : TAGC_REASON_NONE,
    .agreed = tagc_comm_agreed(comm),
    .device = comm->device != NULL,
    .state = call->state,
    .slot = call->entry == TAGC_ENTRY_ncclAllGather ? call->allgather : call->slot,
    .cycle = call->cycle,
    .vote_cycle = comm->vote.cycle,
    .voted = comm->vote.held,
    .slot_reason = slot        ? tagc_slot_reason(comm, slot, call->cycle)
                   : allgather ? allgather->reason
                               : TAGC_REASON_out_of_sync,
    .dirty = slot && slot->state.dirty,
    .settles = slot && slot->memory.residual && tagc_retune_is_near(comm->ledger->retune, call->cycle),
    .resync_pending = call->resync_pending,
    .calls_skipped = call->calls_skipped,
    .hosts = (int)comm->agreement.hosts,
    .shape_reason = tagc_call_is_broadcast(call) ? tagc_call_broadcast_shape(call, &broadcast) : TAGC_REASON_NONE,
    .allgather_reason = tagc_allgathers_reason(),
    .stale = allgather && allgather->layout.reference_bytes &&
             (!tagc_allgather_first(comm, allgather)->referred || allgather->rest),
  };
}

void tagc_call_decide(struct tagc_call *call) {
  pthread_mutex_lock(&call->comm->lock);
  forget_old_lock(call);
  const struct tagc_call_facts facts = facts_of(call->comm, call);
  call->decision = tagc_plan_call(&facts);
  pthread_mutex_unlock(&call->comm->lock);
}
