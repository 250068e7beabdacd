/* SPDX-License-Identifier: BSD-3-Clause
 * The way of a collective after its adapter: forwarded, into the open group, or into a launch of its own.
 */
#include "interpose/entry/dispatch.h"

#include <errno.h>

#include "interpose/calls/calls.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/table.h"
#include "interpose/entry/background.h"
#include "interpose/entry/group.h"
#include "interpose/entry/launch.h"
#include "interpose/entry/rounds.h"
#include "interpose/entry/start.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/timing.h"
#include "interpose/nccl/capture.h"
#include "interpose/nccl/process.h"
#include "interpose/vote/changes.h"

#define FUNCTION(name) ((__typeof__(&name))real)
#define REST c->handle, c->stream
static ncclResult_t call_function(const struct tagc_call *c, void *real) {
  switch (c->entry) {
  case TAGC_ENTRY_ncclReduceScatter:
    return FUNCTION(ncclReduceScatter)(c->send, c->recv, c->count, c->type, c->op, REST);
  case TAGC_ENTRY_ncclAllGather: return FUNCTION(ncclAllGather)(c->send, c->recv, c->count, c->type, REST);
  case TAGC_ENTRY_ncclAllReduce: return FUNCTION(ncclAllReduce)(c->send, c->recv, c->count, c->type, c->op, REST);
  case TAGC_ENTRY_ncclBroadcast: return FUNCTION(ncclBroadcast)(c->send, c->recv, c->count, c->type, c->root, REST);
  case TAGC_ENTRY_ncclBcast: return FUNCTION(ncclBcast)(c->recv, c->count, c->type, c->root, REST);
  case TAGC_ENTRY_ncclReduce: return FUNCTION(ncclReduce)(c->send, c->recv, c->count, c->type, c->op, c->root, REST);
  case TAGC_ENTRY_ncclAlltoAll: return FUNCTION(ncclAlltoAll)(c->send, c->recv, c->count, c->type, REST);
  case TAGC_ENTRY_ncclGather: return FUNCTION(ncclGather)(c->send, c->recv, c->count, c->type, c->root, REST);
  case TAGC_ENTRY_ncclScatter: return FUNCTION(ncclScatter)(c->send, c->recv, c->count, c->type, c->root, REST);
  case TAGC_ENTRY_ncclSend: return FUNCTION(ncclSend)(c->send, c->count, c->type, c->root, REST);
  case TAGC_ENTRY_ncclRecv: return FUNCTION(ncclRecv)(c->recv, c->count, c->type, c->root, REST);
  default: return ncclInternalError; /* no other entry makes a call of this struct */
  }
}
#undef REST

/* The same with the call's configuration. */
#define REST c->handle, c->stream, c->config
static ncclResult_t call_twin(const struct tagc_call *c, void *real) {
  switch (c->twin) {
  case TAGC_ENTRY_ncclReduceScatterConfig:
    return FUNCTION(ncclReduceScatterConfig)(c->send, c->recv, c->count, c->type, c->op, REST);
  case TAGC_ENTRY_ncclAllGatherConfig: return FUNCTION(ncclAllGatherConfig)(c->send, c->recv, c->count, c->type, REST);
  case TAGC_ENTRY_ncclAllReduceConfig:
    return FUNCTION(ncclAllReduceConfig)(c->send, c->recv, c->count, c->type, c->op, REST);
  case TAGC_ENTRY_ncclBroadcastConfig:
    return FUNCTION(ncclBroadcastConfig)(c->send, c->recv, c->count, c->type, c->root, REST);
  case TAGC_ENTRY_ncclReduceConfig:
    return FUNCTION(ncclReduceConfig)(c->send, c->recv, c->count, c->type, c->op, c->root, REST);
  case TAGC_ENTRY_ncclAlltoAllConfig: return FUNCTION(ncclAlltoAllConfig)(c->send, c->recv, c->count, c->type, REST);
  case TAGC_ENTRY_ncclGatherConfig:
    return FUNCTION(ncclGatherConfig)(c->send, c->recv, c->count, c->type, c->root, REST);
  case TAGC_ENTRY_ncclScatterConfig:
    return FUNCTION(ncclScatterConfig)(c->send, c->recv, c->count, c->type, c->root, REST);
  default: return ncclInternalError;
  }
}
#undef REST
#undef FUNCTION

ncclResult_t tagc_forward(const struct tagc_call *c) {
  void *real = tagc_real_get(c->nccl, tagc_call_function(c));
  if (!real)
    return ncclSystemError;
  return TAGC_IN_REAL(c->twin ? call_twin(c, real) : call_function(c, real));
}

/* Does the real library know the element type? 8-bit types came with 2.24. */
static bool is_type(const struct tagc_call *c) {
  return (int)c->type >= 0 && ((int)c->type <= (int)ncclBfloat16 ||
                               ((int)c->type <= (int)ncclFloat8e5m2 && tagc_real_version(c->nccl) >= 22403));
}

/* Does a call that may be compressed look valid to the real library? If not, it is not observed. Other collectives are,
 * whatever their pointers: a rank that is not the root may pass NULL, and all ranks must see the same sequence. */
static bool looks_valid(const struct tagc_call *c) {
  if (c->config && !tagc_coll_config_is_valid(c->config))
    return false;
  if (tagc_call_is_broadcast(c))
    return !tagc_call_may_compress(c) || is_type(c);
  return !tagc_call_may_compress(c) || ((c->count == 0 || (c->send && c->recv)) && is_type(c) && (int)c->op >= 0);
}

/* May a group hold back this collective? The real library must refuse an invalid call now, not at the group's end. */
static bool may_be_held(const struct tagc_call *c) {
  const bool is_reduction = c->entry == TAGC_ENTRY_ncclReduce || c->entry == TAGC_ENTRY_ncclAllReduce;
  const bool is_root = c->root == c->comm->rank;
  const bool sends = is_root || (c->entry != TAGC_ENTRY_ncclBroadcast && c->entry != TAGC_ENTRY_ncclScatter);
  const bool receives = is_root || (c->entry != TAGC_ENTRY_ncclReduce && c->entry != TAGC_ENTRY_ncclGather);
  if (tagc_call_may_compress(c) && c->entry != TAGC_ENTRY_ncclAllReduce)
    return true;
  return c->root >= 0 && c->root < c->comm->nranks && is_type(c) &&
         (!is_reduction || (int)c->type <= (int)ncclBfloat16) &&
         (c->count == 0 || ((!sends || c->send) && (!receives || c->recv)));
}

/* A communicator without any collective so far is known only by its handle. If it does not block, the program asks NCCL
 * for its progress: such a call is forwarded at once. */
bool tagc_dispatch_hold(struct tagc_call *call) {
  if (!tagc_group_is_open(call->nccl) || tagc_library_options()->mode == TAGC_MODE_OBSERVE || !call->handle ||
      !is_type(call) || (call->count && !call->send && !call->recv) || tagc_capture_is_active(call->stream))
    return false;
  call->comm = tagc_comm_find(call->handle);
  call->nccl = call->comm ? call->comm->nccl : call->nccl;
  if (!call->comm && tagc_comm_is_nonblocking(call->handle))
    return false;
  const int nranks = call->comm ? call->comm->nranks : tagc_comm_ranks(call->handle, call->nccl);
  const bool held = call->root >= 0 && call->root < nranks && tagc_group_is_open(call->nccl) && tagc_group_hold(call);
  tagc_comm_release(call->comm);
  return held;
}

/* Forwards a call as it came, and enters it into the accounts with its reason. */
static ncclResult_t pass_accounted(struct tagc_call *call, enum tagc_reason reason) {
  tagc_call_pass(call, reason);
  /* The end of a group launches what it holds, and a graph what it captures. */
  const bool launches = reason != TAGC_REASON_capture && !tagc_group_is_open(call->nccl);
  const struct tagc_timing timing = tagc_times_begin(launches ? call : NULL);
  ncclResult_t status = tagc_group_forward(call);
  tagc_times_end(&timing, status);
  return status;
}

/* The reason of a call that is never compressed. */
static enum tagc_reason unheld_reason(struct tagc_call *call) {
  if (tagc_call_is_broadcast(call)) {
    tagc_call_decide(call);
    return call->decision.action == TAGC_PASS ? call->decision.reason : TAGC_REASON_function;
  }
  if (call->entry != TAGC_ENTRY_ncclAllGather || tagc_library_options()->mode == TAGC_MODE_OBSERVE)
    return TAGC_REASON_function;
  const enum tagc_reason reason = tagc_allgathers_reason();
  if (reason == TAGC_REASON_NONE)
    return TAGC_REASON_type;
  return call->allgather >= 0 ? reason : TAGC_REASON_function;
}

/* Runs a call that is part of the cycle. One in a group is observed when that launches: it may be estimated only
 * (ncclGroupSimulateEnd), or dropped, on this rank alone. */
static ncclResult_t run_observed(struct tagc_call *call) {
  if (tagc_group_is_open(call->nccl) && may_be_held(call))
    return tagc_group_hold(call) ? ncclSuccess : tagc_no_memory("a call of a group");
  ncclResult_t status = tagc_call_observe(call);
  if (status != ncclSuccess)
    return status;
  if (tagc_rounds_takes(call))
    return tagc_launch_run(call, 1, NULL, NULL);
  tagc_changes_sample(call);
  status = pass_accounted(call, unheld_reason(call));
  if (status == ncclInProgress)
    tagc_comm_is_in_progress(call->comm, true);
  return status;
}

/* Calls that a CUDA graph captures are not part of the cycle. */
static ncclResult_t pass_captured(struct tagc_call *call) {
  tagc_call_note_capture(call->comm);
  tagc_hierarchy_note_capture(call->comm);
  return pass_accounted(call, TAGC_REASON_capture);
}

/* Finds the kind of the reduction. False for an unknown op, or one of another type: the real library refuses it. */
static bool find_reduction(struct tagc_call *call) {
  const struct tagc_device *device = call->comm->device;
  call->op_kind =
    tagc_op_kind(call->op, call->handle, call->type, device && device->host_reads, &call->scale, &call->scale_hidden);
  return call->op_kind != TAGC_OP_OTHER || (int)call->op < (int)ncclNumOps;
}

static ncclResult_t run_on_comm(struct tagc_call *call) {
  call->slot = call->allgather = -1; /* until it is observed */
  if (!tagc_background_clear(call->comm))
    return ncclInvalidArgument; /* as in NCCL: the previous call has not been seen to succeed */
  if (!call->count) {           /* NCCL drops it, so another rank may leave it out */
    call->decision.reason = TAGC_REASON_function;
    return tagc_forward(call);
  }
  if (call->comm->nranks < 2) { /* NCCL runs it at once, even inside a group */
    call->decision.reason = TAGC_REASON_one_rank;
    return tagc_forward(call);
  }
  if (tagc_capture_is_active(call->stream))
    return pass_captured(call);
  return find_reduction(call) ? run_observed(call) : tagc_forward(call);
}

/* Finds the communicator and runs the call on the copy of NCCL that made it, whoever calls. */
static ncclResult_t find_and_run(struct tagc_call *call) {
  ncclResult_t status;
  if (!call->handle || !looks_valid(call))
    return tagc_forward(call);
  call->comm = tagc_comm_acquire(call->handle, call->nccl, &status);
  if (call->comm) {
    call->nccl = call->comm->nccl;
    status = run_on_comm(call);
    tagc_comm_release(call->comm);
    return status;
  }
  /* No memory, no agreement, or aborted meanwhile: passing on this rank alone would be wrong. The real library itself
   * must refuse a handle that it does not know. */
  const bool final = status == ncclSystemError || status == ncclRemoteError || status == ncclInternalError;
  return final ? status : tagc_forward(call);
}

ncclResult_t tagc_dispatch(struct tagc_call *call) {
  if (tagc_real_depth > 0 || !tagc_library_on())
    return tagc_forward(call);
  int saved = errno;
  if (tagc_trace_on()) {
    call->group = tagc_group_number(call->nccl);
    tagc_trace_enter(call);
  }
  const ncclResult_t status = find_and_run(call);
  /* NCCL reads a configuration first: where it refuses one, the group goes on without the call. */
  if (!tagc_real_accepts(status) && tagc_coll_config_is_valid(call->config))
    tagc_group_fail(call->nccl, status);
  tagc_trace_call(call, status);
  errno = saved;
  return status;
}
