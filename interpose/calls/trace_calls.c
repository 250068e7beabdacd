/* SPDX-License-Identifier: BSD-3-Clause
 * CALL records: from the stamp that a call gets when it is made to the record when it ends.
 */
#include "env/clock.h"
#include "interpose/calls/calls.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/comm.h"
#include "interpose/comm/placement.h"
#include "interpose/nccl/process.h"
#include "interpose/profiler/profiler.h"

static atomic_uint threads; /* that have made calls */
static _Thread_local __attribute__((tls_model("initial-exec"))) uint32_t thread_number;

/* The parameters of a function: a CALL record leaves those empty that it does not take. */
enum { COUNT = 1, TYPE = 2, OP = 4, PEER = 8, STREAM = 16, MAKES = 32 };

static unsigned takes(enum tagc_entry entry) {
  switch (entry) {
  case TAGC_ENTRY_ncclReduceScatter:
  case TAGC_ENTRY_ncclAllReduce: return COUNT | TYPE | OP | STREAM;
  case TAGC_ENTRY_ncclReduce: return COUNT | TYPE | OP | PEER | STREAM;
  case TAGC_ENTRY_ncclAllGather:
  case TAGC_ENTRY_ncclAlltoAll: return COUNT | TYPE | STREAM;
  case TAGC_ENTRY_ncclBroadcast:
  case TAGC_ENTRY_ncclBcast:
  case TAGC_ENTRY_ncclGather:
  case TAGC_ENTRY_ncclScatter:
  case TAGC_ENTRY_ncclSend:
  case TAGC_ENTRY_ncclRecv:
  case TAGC_ENTRY_ncclPutSignal: return COUNT | TYPE | PEER | STREAM;
  case TAGC_ENTRY_ncclSignal: return PEER | STREAM;
  case TAGC_ENTRY_ncclWaitSignal: return STREAM;
  case TAGC_ENTRY_ncclRedOpCreatePreMulSum: return TYPE;
  case TAGC_ENTRY_ncclCommInitRank:
  case TAGC_ENTRY_ncclCommInitRankConfig:
  case TAGC_ENTRY_ncclCommInitRankScalable: return MAKES;
  default: return 0;
  }
}

static bool entry_is_collective(enum tagc_entry entry) { return entry < TAGC_ENTRY_ncclSend; }
_Static_assert(TAGC_ENTRY_ncclScatterConfig + 1 == TAGC_ENTRY_ncclSend, "collectives come first in entries.def");

/* ---- what calls send: pure functions of what is called ----------------------------------------------------------- */

/* Traffic along a ring, which leaves each host once. */
static struct tagc_traffic along_ring(uint64_t bytes, const struct tagc_hosts *hosts) {
  const uint64_t between = hosts->hosts > 1 ? bytes * (uint64_t)hosts->hosts / (uint64_t)hosts->nranks : 0;
  return (struct tagc_traffic){bytes - between, between};
}

/* Traffic to other ranks: equal for each, or to an unknown one. */
static struct tagc_traffic to_peers(uint64_t bytes, const struct tagc_hosts *hosts) {
  const uint64_t between =
    hosts->hosts > 1 ? bytes * (uint64_t)(hosts->nranks - hosts->local) / (uint64_t)(hosts->nranks - 1) : 0;
  return (struct tagc_traffic){bytes - between, between};
}

struct tagc_traffic tagc_trace_sent(const struct tagc_call *call, int rank, const struct tagc_hosts *hosts) {
  const int nranks = hosts->nranks;
  const uint64_t bytes = call->count * tagc_call_type_size(call->type), peers = nranks > 0 ? (uint64_t)nranks - 1 : 0;
  if (nranks < 2)
    return (struct tagc_traffic){0};
  switch (call->entry) {
  case TAGC_ENTRY_ncclReduceScatter:
  case TAGC_ENTRY_ncclAllGather: return tagc_plain_traffic(bytes, hosts);
  case TAGC_ENTRY_ncclAllReduce: return along_ring(2 * peers * bytes / (uint64_t)nranks, hosts);
  case TAGC_ENTRY_ncclBroadcast:
  case TAGC_ENTRY_ncclBcast: return along_ring(rank == (call->root + nranks - 1) % nranks ? 0 : bytes, hosts);
  case TAGC_ENTRY_ncclReduce: return along_ring(rank == call->root ? 0 : bytes, hosts);
  case TAGC_ENTRY_ncclAlltoAll: return to_peers(peers * bytes, hosts);
  case TAGC_ENTRY_ncclGather: return to_peers(rank == call->root ? 0 : bytes, hosts);
  case TAGC_ENTRY_ncclScatter: return to_peers(rank == call->root ? peers * bytes : 0, hosts);
  case TAGC_ENTRY_ncclSend:
  case TAGC_ENTRY_ncclPutSignal: return to_peers(rank == call->root ? 0 : bytes, hosts);
  default: return (struct tagc_traffic){0};
  }
}

uint64_t tagc_trace_raw_bytes(const struct tagc_call *call, int rank, int nranks) {
  const uint64_t bytes = call->count * tagc_call_type_size(call->type), all = nranks > 0 ? (uint64_t)nranks : 0;
  switch (call->entry) {
  case TAGC_ENTRY_ncclReduceScatter:
  case TAGC_ENTRY_ncclAlltoAll: return all * bytes;
  case TAGC_ENTRY_ncclScatter: return rank == call->root ? all * bytes : 0;
  case TAGC_ENTRY_ncclBroadcast:
  case TAGC_ENTRY_ncclBcast: return rank == call->root ? bytes : 0;
  case TAGC_ENTRY_ncclRecv: return 0;
  default: return bytes;
  }
}

/* ---- the way of a call ------------------------------------------------------------------------------------------- */

/* NCCL makes messages of some collectives (taskAppend() in enqueue.cc of 2.28), and shows those. */
static void expect_operations(const struct tagc_call *call) {
  const uint32_t comm = tagc_trace_comm(call->handle);
  const bool messages = call->entry == TAGC_ENTRY_ncclAlltoAll || call->entry == TAGC_ENTRY_ncclGather ||
                        call->entry == TAGC_ENTRY_ncclScatter;
  struct tagc_hosts hosts;
  tagc_profiler_expect(call->trace.number, comm, call->send, call->recv);
  if (!messages)
    return;
  (void)tagc_trace_place(call->handle, &hosts);
  tagc_profiler_expect_messages(call->trace.number, comm, call->send, call->recv,
                                call->count * tagc_call_type_size(call->type) * (uint64_t)hosts.nranks);
}

void tagc_trace_enter(struct tagc_call *call) {
  struct tagc_trace_stamp *stamp = &call->trace;
  *stamp = (struct tagc_trace_stamp){.number = 0};
  if (!tagc_trace_begin())
    return;
  call->slot = call->allgather = -1;
  call->decision.reason = call->entry == TAGC_ENTRY_ncclReduceScatter ? TAGC_REASON_refused : TAGC_REASON_function;
  if (!thread_number)
    thread_number = atomic_fetch_add(&threads, 1) + 1;
  stamp->thread = thread_number;
  if (call->group && takes(call->entry) & STREAM)
    stamp->flags |= TAGC_TRACE_GROUPED;
  if (!entry_is_collective(call->entry)) /* collectives have found it when they are written */
    stamp->comm = tagc_trace_comm(call->handle);
  stamp->number = tagc_trace_number();
  if (tagc_profiler_on() && takes(call->entry) & COUNT)
    expect_operations(call);
  stamp->began_ns = tagc_clock_ns();
}

void tagc_trace_return(struct tagc_call *call) {
  if (call->trace.number && !call->trace.host_ns)
    call->trace.host_ns = tagc_clock_ns() - call->trace.began_ns;
}

static uint8_t op_code_of_call(const struct tagc_call *call) {
  if ((unsigned)call->op < (unsigned)ncclNumOps)
    return (uint8_t)call->op;
  return call->op_kind == TAGC_OP_PREMULSUM ? TAGC_TRACE_OP_PREMULSUM : TAGC_TRACE_OP_OTHER;
}

static void set_bytes(struct tagc_call *call, int rank, const struct tagc_hosts *hosts) {
  call->trace.known = true;
  call->trace.plain = call->trace.sent = tagc_trace_sent(call, rank, hosts);
  call->trace.raw_bytes = tagc_trace_raw_bytes(call, rank, hosts->nranks);
}

/* Finds the bytes of calls without accounts: point-to-point calls, and collectives that did not get so far. */
static void find_bytes(struct tagc_call *call) {
  struct tagc_hosts hosts;
  if (call->trace.known)
    return;
  const int rank = tagc_trace_place(call->handle, &hosts);
  set_bytes(call, rank, &hosts);
}

/* The number of the communicator that the call made, or was made on. */
static uint32_t number_of_comm(const struct tagc_call *call, ncclResult_t result) {
  const bool good = tagc_real_accepts(result);
  if (call->trace.comm)
    return call->trace.comm;
  if (takes(call->entry) & MAKES && good && call->recv)
    return tagc_trace_comm(*(ncclComm_t *)call->recv);
  return entry_is_collective(call->entry) ? tagc_trace_comm(call->handle) : 0;
}

static void trace_comm_end(const struct tagc_call *call, ncclResult_t result) {
  const bool good = tagc_real_accepts(result);
  if ((call->entry == TAGC_ENTRY_ncclCommDestroy && good) ||
      (call->entry == TAGC_ENTRY_ncclCommAbort && !tagc_real_refuses(result)))
    tagc_trace_comm_ends(call->trace.comm, call->handle, (uint16_t)call->entry, false);
}

void tagc_trace_call(struct tagc_call *call, ncclResult_t result) {
  struct tagc_trace_stamp *stamp = &call->trace;
  if (!stamp->number)
    return;
  const unsigned has = takes(call->entry);
  const bool failed = !tagc_real_accepts(result);
  tagc_trace_return(call);
  if (has & COUNT)
    find_bytes(call);
  if (failed)
    stamp->sent = (struct tagc_traffic){0};
  const struct tagc_trace_call record = {
    {TAGC_TRACE_CALL, sizeof record, number_of_comm(call, result)},
    .number = stamp->number,
    .began_ns = stamp->began_ns,
    .host_ns = stamp->host_ns,
    .count = has & COUNT ? call->count : 0,
    .raw_bytes = stamp->raw_bytes,
    .inside = stamp->sent.inside,
    .between = stamp->sent.between,
    .plain_inside = stamp->plain.inside,
    .plain_between = stamp->plain.between,
    .stream = has & STREAM ? (uint64_t)(uintptr_t)call->stream : 0,
    .cycle = call->comm && call->state != TAGC_CYCLE_LEARNING ? call->cycle : 0,
    .lock = (uint32_t)call->lock_number,
    .slot = call->comm ? call->slot : -1,
    .peer = has & PEER ? call->root : -1,
    .group = call->group,
    .thread = stamp->thread,
    .function = (uint16_t)tagc_call_function(call),
    .reason = (uint16_t)call->decision.reason,
    .action = (uint8_t)call->decision.action,
    .type = has & TYPE ? (uint8_t)call->type : TAGC_TRACE_NO_CODE,
    .op = has & OP ? op_code_of_call(call) : TAGC_TRACE_NO_CODE,
    .flags = (uint8_t)(stamp->flags | (failed ? TAGC_TRACE_FAILED : 0)),
    .result = (int32_t)result,
    .allgather = call->comm && call->allgather >= 0 ? (uint32_t)call->allgather + 1 : 0,
  };
  tagc_trace_add(&record.record);
  stamp->number = 0;
  if (!has)
    trace_comm_end(call, result);
}

void tagc_trace_account(const struct tagc_comm *comm, struct tagc_call *call) {
  const struct tagc_options *options = tagc_library_options();
  struct tagc_trace_stamp *stamp = &call->trace;
  if (!stamp->number)
    return;
  const struct tagc_hosts hosts = tagc_hierarchy_hosts(comm);
  stamp->comm = comm->trace.number;
  set_bytes(call, comm->rank, &hosts);
  if (call->decision.reason == TAGC_REASON_capture) {
    stamp->flags |= TAGC_TRACE_CAPTURED;
    return;
  }
  if (call->state == TAGC_CYCLE_IN_SYNC)
    stamp->flags |= TAGC_TRACE_IN_SYNC;
  if (options->mode == TAGC_MODE_AB && comm->vote.held && call->state == TAGC_CYCLE_IN_SYNC &&
      call->lock_number == comm->observed.lock_number &&
      call->cycle >= tagc_plan_first_cycle(options, comm->vote.cycle))
    stamp->flags |= tagc_plan_ab_compressed(options, comm->vote.cycle, call->cycle) ? TAGC_TRACE_COMPRESSED_SIDE
                                                                                    : TAGC_TRACE_PLAIN_SIDE;
}
