/* SPDX-License-Identifier: BSD-3-Clause
 * The exported collectives and point-to-point calls: check the arguments as NCCL does, then add the call to the group.
 *
 * A call that fails inside a group fails the group as well. Empty calls are dropped. Collectives of one rank run at
 * once.
 */
#include "tests/standin/standin.h"

size_t standin_blocks_sent(const struct ncclComm *comm, const struct call *call) {
  size_t all = (size_t)comm->nranks, is_root = comm->rank == call->root;
  switch (call->function) {
  case FN_REDUCE_SCATTER:
  case FN_ALL_TO_ALL: return all;
  case FN_SCATTER: return is_root * all;
  case FN_BROADCAST: return is_root;
  case FN_RECV: return 0;
  default: return 1;
  }
}

size_t standin_blocks_received(const struct ncclComm *comm, const struct call *call) {
  size_t all = (size_t)comm->nranks, is_root = comm->rank == call->root;
  switch (call->function) {
  case FN_ALL_GATHER:
  case FN_ALL_TO_ALL: return all;
  case FN_GATHER: return is_root * all;
  case FN_REDUCE: return is_root;
  case FN_SEND: return 0;
  default: return 1;
  }
}

/* NCCL checks pointers only with NCCL_CHECK_POINTERS=1; a stand-in for tests always does. */
static ncclResult_t check_buffers(const struct ncclComm *comm, const struct call *call, const char *name) {
  bool needs_send = standin_blocks_sent(comm, call), needs_recv = standin_blocks_received(comm, call);
  if (!call->count)
    return ncclSuccess;
  if ((needs_send && !call->send) || (needs_recv && !call->recv))
    return standin_fail(ncclInvalidArgument, "%s: a buffer is NULL", name);
  ncclResult_t result = needs_send ? standin_device_check(comm, call->send, name, "sendbuff") : ncclSuccess;
  return result == ncclSuccess && needs_recv ? standin_device_check(comm, call->recv, name, "recvbuff") : result;
}

static ncclResult_t check(struct ncclComm *comm, struct call *call, ncclRedOp_t op, const char *name) {
  ncclResult_t result = standin_comm_ready(comm);
  if (result != ncclSuccess)
    return result;
  if (call->root < 0 || call->root >= comm->nranks)
    return standin_fail(ncclInvalidArgument, "%s: invalid root %d (of %d ranks)", name, call->root, comm->nranks);
  if (!standin_type_size(call->type))
    return standin_fail(ncclInvalidArgument, "%s: invalid type %d", name, (int)call->type);
  if (call->function == FN_REDUCE_SCATTER || call->function == FN_ALL_REDUCE || call->function == FN_REDUCE) {
    if (call->type > ncclBfloat16)
      return standin_fail(ncclInvalidArgument, "%s: no reductions of type %d here", name, (int)call->type);
    result = standin_op_resolve(comm, op, call->type, &call->reduction);
    if (result != ncclSuccess)
      return result;
  }
  return check_buffers(comm, call, name);
}

static ncclResult_t enqueue(struct ncclComm *comm, struct call *call, ncclRedOp_t op, const char *name) {
  ncclResult_t result = check(comm, call, op, name);
  if (result != ncclSuccess || !call->count)
    return result;
  if (comm->nranks > 1 || !standin_is_collective(call->function))
    return standin_group_add_call(comm, call);
  if (!ncclStandinHostMemory)
    return standin_device_launch(&(struct job){.comm = comm, .calls = &call, .ncalls = 1, .ncollectives = 1}, 1);
  int64_t begin = standin_now();
  standin_run_alone(call);
  standin_stats_took(call->line, standin_now() - begin);
  return ncclSuccess;
}

/* A call outside a group is a group of one. The communicator is released before that runs, so others can abort it. */
ncclResult_t standin_submit(struct ncclComm *comm, struct call *call, ncclRedOp_t op, const ncclCollConfig_t *config,
                            const char *name) {
  const ncclResult_t accepted = standin_coll_config_check(config, name);
  if (accepted != ncclSuccess)
    return accepted; /* as NCCL, which does not look at the group before */
  if (!standin_comm_acquire(comm))
    return standin_group_note(standin_fail(ncclInvalidArgument, "%s: no such communicator", name));
  call->line = standin_stats_begin(name, (int64_t)comm->id, call->count, (int)call->type);
  standin_stats_configured(call->line, config);
  standin_group_start();
  ncclResult_t result = standin_group_note(enqueue(comm, call, op, name));
  standin_comm_release(comm);
  ncclResult_t ended = standin_group_end();
  return result != ncclSuccess ? result : ended;
}

static ncclResult_t submit(struct ncclComm *comm, struct call *call, ncclRedOp_t op, const char *name) {
  return standin_submit(comm, call, op, NULL, name);
}

STANDIN_API ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream) {
  struct call call = {FN_REDUCE_SCATTER,  .send = sendbuff, .recv = recvbuff,
                      .count = recvcount, .type = datatype, .stream = stream};
  return submit(comm, &call, op, __func__);
}

STANDIN_API ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
                                       ncclComm_t comm, cudaStream_t stream) {
  struct call call = {FN_ALL_GATHER,      .send = sendbuff, .recv = recvbuff,
                      .count = sendcount, .type = datatype, .stream = stream};
  return submit(comm, &call, ncclSum, __func__);
}

STANDIN_API ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  struct call call = {FN_ALL_REDUCE,  .send = sendbuff, .recv = recvbuff,
                      .count = count, .type = datatype, .stream = stream};
  return submit(comm, &call, op, __func__);
}

STANDIN_API ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                       int root, ncclComm_t comm, cudaStream_t stream) {
  struct call call = {FN_BROADCAST,     .send = sendbuff, .recv = recvbuff, .count = count,
                      .type = datatype, .root = root,     .stream = stream};
  return submit(comm, &call, ncclSum, __func__);
}

/* Calls the exported Broadcast, as in NCCL: a preloaded library sees both. */
STANDIN_API ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                                   cudaStream_t stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}

STANDIN_API ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                    ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  struct call call = {FN_REDUCE,        .send = sendbuff, .recv = recvbuff, .count = count,
                      .type = datatype, .root = root,     .stream = stream};
  return submit(comm, &call, op, __func__);
}

STANDIN_API ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                                  ncclComm_t comm, cudaStream_t stream) {
  struct call call = {FN_SEND, .send = sendbuff, .count = count, .type = datatype, .root = peer, .stream = stream};
  return submit(comm, &call, ncclSum, __func__);
}

STANDIN_API ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                                  cudaStream_t stream) {
  struct call call = {FN_RECV, .recv = recvbuff, .count = count, .type = datatype, .root = peer, .stream = stream};
  return submit(comm, &call, ncclSum, __func__);
}

STANDIN_API ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                      ncclComm_t comm, cudaStream_t stream) {
  struct call call = {FN_ALL_TO_ALL,  .send = sendbuff, .recv = recvbuff,
                      .count = count, .type = datatype, .stream = stream};
  return submit(comm, &call, ncclSum, __func__);
}

STANDIN_API ncclResult_t ncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                    int root, ncclComm_t comm, cudaStream_t stream) {
  struct call call = {FN_GATHER,        .send = sendbuff, .recv = recvbuff, .count = count,
                      .type = datatype, .root = root,     .stream = stream};
  return submit(comm, &call, ncclSum, __func__);
}

STANDIN_API ncclResult_t ncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                                     int root, ncclComm_t comm, cudaStream_t stream) {
  struct call call = {FN_SCATTER,       .send = sendbuff, .recv = recvbuff, .count = count,
                      .type = datatype, .root = root,     .stream = stream};
  return submit(comm, &call, ncclSum, __func__);
}
