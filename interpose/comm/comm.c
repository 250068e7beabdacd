/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/comm.h"

#include <stdlib.h>

#include "env/log.h"
#include "interpose/comm/call.h"
#include "interpose/comm/memory.h"
#include "interpose/comm/traced.h"
#include "interpose/metrics/metrics.h"
#include "interpose/nccl/capture.h"
#include "interpose/nccl/process.h"
#include "interpose/nccl/unknown.h"
#include "interpose/trace/record.h"

static void (*at_end)(struct tagc_comm *comm);

void tagc_comm_at_end(void (*end)(struct tagc_comm *comm)) { at_end = end; }

static void comm_free(struct tagc_comm *comm) {
  if (at_end)
    at_end(comm);
  tagc_shards_drop(comm);
  tagc_topology_free(&comm->hierarchy.topology);
  tagc_memory_read_tallies(comm);
  if (comm->device)
    comm->device->side_stream_free(comm->device, atomic_load(&comm->memory.side_stream));
  struct tagc_former_lock estate = tagc_memory_detach(comm);
  tagc_memory_release(comm, &estate);
  if (comm->device)
    tagc_references_free(&comm->broadcasts, comm->device, comm->sync.fence, comm->sync.unfenced);
  if (comm->sync.fence)
    comm->device->fence_free(comm->device, comm->sync.fence);
  if (comm->sync.order.plain_fence)
    comm->device->fence_free(comm->device, comm->sync.order.plain_fence);
  tagc_times_finish(comm);
  tagc_record_flush();
  tagc_cycle_destroy(comm->observed.cycle);
  tagc_layers_free(comm->layers);
  tagc_model_free(comm->model);
  if (tagc_ledger_may_go(comm->ledger)) {
    tagc_metrics_forget(comm->ledger);
    tagc_ledger_free(comm->ledger);
  }
  pthread_mutex_destroy(&comm->lock);
  free(comm);
}

void tagc_comm_retain(struct tagc_comm *comm) { atomic_fetch_add(&comm->references, 1); }

void tagc_comm_release(struct tagc_comm *comm) {
  if (comm && atomic_fetch_sub(&comm->references, 1) == 1)
    comm_free(comm);
}

static void warn_rocm(const struct tagc_nccl *nccl) {
  static atomic_flag told;
  if (!atomic_flag_test_and_set(&told))
    tagc_log(TAGC_LOG_WARN, "interpose", "%s is RCCL: codecs run on NVIDIA's GPUs alone, so every call passes",
             nccl->library.name);
}

ncclResult_t tagc_comm_find_device(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device **device) {
  __typeof__(&ncclCommCuDevice) which = TAGC_REAL(ncclCommCuDevice, nccl);
  const char *why;
  int ordinal = -1;
  *device = nccl->on_host ? &tagc_device_host : NULL;
  if (nccl->on_rocm)
    warn_rocm(nccl);
  if (nccl->on_host || nccl->on_rocm || !which || !tagc_device_cuda_is_there(&why))
    return ncclSuccess;
  const ncclResult_t status = TAGC_IN_REAL(which(handle, &ordinal));
  if (status != ncclSuccess)
    return status;
  *device = tagc_device_cuda(ordinal);
  if (*device)
    return ncclSuccess;
  tagc_log(TAGC_LOG_ERROR, "interpose",
           "GPU %d has a number that this library does not support: the call fails, as other ranks would wait for it "
           "(TAGC_MODE=off on all of them does without)",
           ordinal);
  return ncclInternalError;
}

struct tagc_comm *tagc_comm_create(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device *device,
                                   int rank, int nranks) {
  struct tagc_comm *comm = calloc(1, sizeof *comm);
  const struct tagc_cycle_options options = {(uint32_t)tagc_library_options()->warmup, 256, nranks};
  struct tagc_cycle *cycle = comm ? tagc_cycle_create(&options) : NULL;
  struct tagc_ledger *ledger = cycle ? tagc_ledger_create(rank, nranks) : NULL;
  if (!ledger) {
    tagc_cycle_destroy(cycle);
    free(comm);
    return NULL;
  }
  comm->handle = handle;
  comm->nccl = nccl;
  atomic_init(&comm->references, 1);
  comm->rank = rank;
  comm->nranks = nranks;
  comm->observed.cycle = cycle;
  comm->ledger = ledger;
  if (!nccl->on_rocm)
    tagc_capture_find_driver();
  ledger->unknown = tagc_unknown_functions(nccl);
  comm->device = device;
  pthread_mutex_init(&comm->lock, NULL);
  if (ledger->number == 0)
    tagc_log_set_rank(rank);
  return comm;
}

bool tagc_comm_dtype(ncclDataType_t type, enum tagc_dtype *out) {
  switch (type) {
  case ncclFloat32: *out = TAGC_FLOAT32; return true;
  case ncclFloat16: *out = TAGC_FLOAT16; return true;
  case ncclBfloat16: *out = TAGC_BFLOAT16; return true;
  default: return false;
  }
}

/* -- calls that are kept for later, with their configuration ---------------------------------------------------- */
bool tagc_call_retain(struct tagc_call *copy) {
  if (copy->kept)
    tagc_coll_config_retain(copy->kept);
  else if (copy->config && !(copy->kept = tagc_coll_config_keep(copy->config)))
    return false;
  if (copy->kept)
    copy->config = tagc_coll_config_of(copy->kept);
  if (copy->comm)
    tagc_comm_retain(copy->comm);
  return true;
}

void tagc_call_release(struct tagc_call *copy) {
  tagc_comm_release(copy->comm);
  tagc_coll_config_release(copy->kept);
}
