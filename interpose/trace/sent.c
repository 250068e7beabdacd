/* SPDX-License-Identifier: BSD-3-Clause
 * What calls send: pure functions of what is called.
 */
#include "interpose/comm/call.h"
#include "interpose/trace/trace.h"

size_t tagc_trace_type_size(ncclDataType_t type)
{
  switch (type) {
  case ncclFloat64: case ncclInt64: case ncclUint64: return 8;
  case ncclFloat32: case ncclInt32: case ncclUint32: return 4;
  case ncclFloat16: case ncclBfloat16: return 2;
  default: return 1;
  }
}

/* What goes along a ring: it leaves each host once. */
static struct tagc_traffic along_ring(uint64_t bytes, const struct tagc_hosts *hosts)
{
  const uint64_t between = hosts->hosts > 1 ? bytes * (uint64_t)hosts->hosts / (uint64_t)hosts->nranks : 0;
  return (struct tagc_traffic){bytes - between, between};
}

/* What goes to other ranks, as much to each, or to nobody knows which. */
static struct tagc_traffic to_peers(uint64_t bytes, const struct tagc_hosts *hosts)
{
  const uint64_t between = hosts->hosts > 1 ? bytes * (uint64_t)(hosts->nranks - hosts->local) / (uint64_t)(hosts->nranks - 1) : 0;
  return (struct tagc_traffic){bytes - between, between};
}

struct tagc_traffic tagc_trace_sent(const struct tagc_call *call, int rank, const struct tagc_hosts *hosts)
{
  const int nranks = hosts->nranks;
  const uint64_t bytes = call->count * tagc_trace_type_size(call->type), peers = nranks > 0 ? (uint64_t)nranks - 1 : 0;
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

uint64_t tagc_trace_raw_bytes(const struct tagc_call *call, int rank, int nranks)
{
  const uint64_t bytes = call->count * tagc_trace_type_size(call->type), all = nranks > 0 ? (uint64_t)nranks : 0;
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
