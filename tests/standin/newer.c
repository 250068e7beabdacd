/* SPDX-License-Identifier: BSD-3-Clause
 * NCCL's additions since 2.29: communicators that grow or are suspended. One-sided calls are refused: the stand-in's
 * work is done when the call returns, so a peer's memory could be written at no moment.
 */
#include "tests/standin/standin.h"

#include <stdlib.h>
#include <string.h>

/* -- grow -------------------------------------------------------------------------------------------------------- */
struct grow_work {
  struct async_work base;
  struct ncclComm *parent; /* in use; NULL on a new rank */
  struct ncclComm *comm;
  ncclComm_t *handle;
  ncclUniqueId id; /* zeros on the existing ranks that did not make it */
};

/* The rank with the id shares it with the other existing ranks. */
static ncclResult_t share_id(struct grow_work *work) {
  ncclUniqueId shared = work->id;
  struct call call = {FN_ALL_REDUCE,          .send = &work->id, .recv = &shared,
                      .count = sizeof shared, .type = ncclUint8, .reduction = {.kind = REDUCE_MAX, .type = ncclUint8},
                      .line = STANDIN_NO_LINE};
  struct call *calls[] = {&call};
  struct job job = {.comm = work->parent, .calls = calls, .ncalls = 1, .ncollectives = 1};
  if (work->parent->nranks == 1) {
    standin_comm_release(work->parent);
    return ncclSuccess;
  }
  standin_device_drain(work->parent); /* this happens on the host */
  ncclResult_t result = standin_contact(&job, 1);
  if (result != ncclSuccess) {
    standin_comm_release(work->parent);
    return result;
  }
  standin_run(&job, 1);
  work->id = shared;
  return job.result;
}

static ncclResult_t run_grow(struct async_work *base) {
  struct grow_work *work = (struct grow_work *)base;
  struct ncclComm *comm = work->comm;
  ncclResult_t result = work->parent ? share_id(work) : ncclSuccess;
  if (result == ncclSuccess)
    result = standin_join(comm, &work->id, 1);
  comm->connected = result == ncclSuccess;
  if (result == ncclSuccess)
    standin_profiler_open(comm);
  standin_comm_release(comm);
  if (result != ncclSuccess) {
    standin_comm_destroy(comm);
    *work->handle = NULL;
  }
  return result;
}

static ncclResult_t check_grow(ncclComm_t parent, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
                               const ncclConfig_t *config) {
  if (!newcomm || nranks < 1 || (parent ? rank != -1 || nranks <= parent->nranks : !id || rank < 0 || rank >= nranks))
    return standin_fail(ncclInvalidArgument, "CommGrow: rank %d of %d, %s an id", rank, nranks,
                        id ? "with" : "without");
  ncclResult_t result = parent ? standin_comm_ready(parent) : ncclSuccess;
  return result == ncclSuccess ? standin_config_check(config) : result;
}

static ncclResult_t add_grow(ncclComm_t parent, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
                             const ncclConfig_t *config) {
  if (parent && !standin_comm_acquire(parent))
    return standin_fail(ncclInvalidArgument, "CommGrow: no such communicator");
  standin_stats_begin("ncclCommGrow", parent ? (int64_t)parent->id : -1, 0, -1);
  int device = parent ? parent->device : -1;
  ncclResult_t result = check_grow(parent, nranks, id, rank, newcomm, config);
  if (result == ncclSuccess)
    result = standin_device_find(&device);
  struct grow_work *work = result == ncclSuccess ? calloc(1, sizeof *work) : NULL;
  struct ncclComm *comm = work ? standin_comm_new(device) : NULL;
  if (!comm) {
    if (parent)
      standin_comm_release(parent);
    free(work);
    return result != ncclSuccess ? result : standin_fail(ncclSystemError, "no memory for a communicator");
  }
  *work = (struct grow_work){.base.run = run_grow, .parent = parent, .comm = comm, .handle = newcomm};
  if (id)
    work->id = *id;
  comm->rank = parent ? parent->rank : rank;
  comm->nranks = nranks;
  *newcomm = comm;
  return standin_group_add_work(&work->base);
}

STANDIN_API ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                                      ncclComm_t *newcomm, ncclConfig_t *config) {
  standin_group_start();
  ncclResult_t result = standin_group_note(add_grow(comm, nRanks, uniqueId, rank, newcomm, config));
  ncclResult_t ended = standin_group_end();
  return result != ncclSuccess ? result : ended;
}

STANDIN_API ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *uniqueId) {
  if (!uniqueId || !standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommGetUniqueId: no such communicator, or uniqueId is NULL");
  standin_stats_begin("ncclCommGetUniqueId", (int64_t)comm->id, 0, -1);
  ncclResult_t result = standin_comm_ready(comm);
  int nranks = comm->nranks;
  standin_comm_release(comm);
  return result == ncclSuccess ? standin_unique_id(uniqueId, nranks) : result;
}

/* -- sleep ------------------------------------------------------------------------------------------------------- */
static ncclResult_t set_suspended(ncclComm_t comm, bool suspended, const char *name) {
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "%s: no such communicator", name);
  standin_stats_begin(name, (int64_t)comm->id, 0, -1);
  comm->suspended = suspended;
  standin_comm_release(comm);
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  return set_suspended(comm, flags & NCCL_SUSPEND_MEM, __func__);
}

STANDIN_API ncclResult_t ncclCommResume(ncclComm_t comm) { return set_suspended(comm, false, __func__); }

/* -- what has no effect here ------------------------------------------------------------------------------------ */
/* Kernels of a program would talk through it: nothing here runs them. */
STANDIN_API ncclResult_t ncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements *requirements,
                                           struct ncclDevComm *made) {
  (void)requirements;
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "DevCommCreate: no such communicator");
  standin_stats_begin("ncclDevCommCreate", (int64_t)comm->id, 0, -1);
  standin_comm_release(comm);
  return made ? ncclSuccess : standin_fail(ncclInvalidArgument, "DevCommCreate: no room for it");
}

STANDIN_API ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *made) {
  (void)made;
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "DevCommDestroy: no such communicator");
  standin_stats_begin("ncclDevCommDestroy", (int64_t)comm->id, 0, -1);
  standin_comm_release(comm);
  return ncclSuccess;
}

/* -- questions that PyTorch asks (no version of versions.def has them) -------------------------------------------- */
/* Nothing is allocated on a device. */
ncclResult_t ncclCommMemStats(ncclComm_t comm, int stat, uint64_t *value);
STANDIN_API ncclResult_t ncclCommMemStats(ncclComm_t comm, int stat, uint64_t *value) {
  (void)stat;
  if (!value || !standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommMemStats: no such communicator, or value is NULL");
  standin_stats_begin("ncclCommMemStats", (int64_t)comm->id, 0, -1);
  standin_comm_release(comm);
  *value = 0;
  return ncclSuccess;
}

/* A window is its buffer (ncclCommWindowRegister). */
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **pointer);
STANDIN_API ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **pointer) {
  if (!pointer || !standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "WinGetUserPtr: no such communicator, or pointer is NULL");
  standin_stats_begin("ncclWinGetUserPtr", (int64_t)comm->id, 0, -1);
  standin_comm_release(comm);
  *pointer = window;
  return ncclSuccess;
}

/* No memory of a peer can be reached. */
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **pointer);
STANDIN_API ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **pointer) {
  (void)window, (void)offset, (void)peer, (void)pointer;
  return standin_fail(ncclInvalidUsage, "GetPeerDevicePointer: no window of a peer is known here");
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **pointer);
STANDIN_API ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **pointer) {
  (void)window, (void)offset, (void)pointer;
  return standin_fail(ncclInvalidUsage, "GetLsaMultimemDevicePointer: no device has multicast here");
}

STANDIN_API ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config) {
  standin_stats_begin("ncclSetEncryption", -1, 0, -1);
  if (!config || config->magic != 0xcafebeef || config->mode != 0)
    return standin_fail(ncclInvalidArgument, "SetEncryption: nothing is encrypted here");
  return ncclSuccess;
}

/* -- one-sided --------------------------------------------------------------------------------------------------- */
static ncclResult_t refuse(ncclComm_t comm, const char *name) {
  if (!standin_comm_acquire(comm))
    return standin_group_note(standin_fail(ncclInvalidArgument, "%s: no such communicator", name));
  standin_stats_begin(name, (int64_t)comm->id, 0, -1);
  standin_comm_release(comm);
  return standin_group_note(standin_fail(ncclInvalidUsage, "%s: no window of a peer is known here", name));
}

STANDIN_API ncclResult_t ncclPutSignal(const void *localbuff, size_t count, ncclDataType_t datatype, int peer,
                                       ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                                       unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  (void)localbuff, (void)count, (void)datatype, (void)peer, (void)peerWin, (void)peerWinOffset;
  (void)sigIdx, (void)ctx, (void)flags, (void)stream;
  return refuse(comm, __func__);
}

STANDIN_API ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                                    cudaStream_t stream) {
  (void)peer, (void)sigIdx, (void)ctx, (void)flags, (void)stream;
  return refuse(comm, __func__);
}

STANDIN_API ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm,
                                        cudaStream_t stream) {
  (void)nDesc, (void)signalDescs, (void)stream;
  return refuse(comm, __func__);
}
