/* SPDX-License-Identifier: BSD-3-Clause
 * A library that is linked with NCCL, like a Python extension module or a plugin. For each function that dlsym_user
 * calls it has one with a prefix, which calls NCCL's.
 */
#include <pthread.h>

#include <nccl.h>

#define PLUGIN __attribute__((visibility("default")))

/* A call, not a jump: NCCL returns to the plugin. */
#define CALL(call) \
  volatile ncclResult_t status = (call); \
  return status

PLUGIN ncclResult_t plugin_ncclGetUniqueId(ncclUniqueId *id);
PLUGIN ncclResult_t plugin_ncclGetUniqueId(ncclUniqueId *id) { CALL(ncclGetUniqueId(id)); }

PLUGIN ncclResult_t plugin_ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
PLUGIN ncclResult_t plugin_ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
  CALL(ncclCommInitRank(comm, nranks, id, rank));
}

PLUGIN ncclResult_t plugin_ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
PLUGIN ncclResult_t plugin_ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  CALL(ncclReduceScatter(send, recv, count, type, op, comm, stream));
}

PLUGIN ncclResult_t plugin_ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
PLUGIN ncclResult_t plugin_ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  CALL(ncclAllReduce(send, recv, count, type, op, comm, stream));
}

PLUGIN ncclResult_t plugin_ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                         ncclComm_t comm, cudaStream_t stream);
PLUGIN ncclResult_t plugin_ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                         ncclComm_t comm, cudaStream_t stream) {
  CALL(ncclAllGather(send, recv, count, type, comm, stream));
}

PLUGIN ncclResult_t plugin_ncclGroupStart(void);
PLUGIN ncclResult_t plugin_ncclGroupStart(void) { CALL(ncclGroupStart()); }

PLUGIN ncclResult_t plugin_ncclGroupEnd(void);
PLUGIN ncclResult_t plugin_ncclGroupEnd(void) { CALL(ncclGroupEnd()); }

PLUGIN ncclResult_t plugin_ncclCommDestroy(ncclComm_t comm);
PLUGIN ncclResult_t plugin_ncclCommDestroy(ncclComm_t comm) { CALL(ncclCommDestroy(comm)); }

/* Jumps, if the compiler makes tail calls: NCCL returns to the caller of these. */
PLUGIN ncclResult_t tail_ncclGroupStart(void);
PLUGIN ncclResult_t tail_ncclGroupStart(void) { return ncclGroupStart(); }

PLUGIN ncclResult_t tail_ncclGroupEnd(void);
PLUGIN ncclResult_t tail_ncclGroupEnd(void) { return ncclGroupEnd(); }

/* A call in a thread of its own, for which the caller waits. */
struct beside {
  const void *send;
  void *recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  ncclComm_t comm;
  cudaStream_t stream;
  ncclResult_t status;
};

static void *call_beside(void *call_) {
  struct beside *call = call_;
  call->status = ncclReduceScatter(call->send, call->recv, call->count, call->type, call->op, call->comm, call->stream);
  return NULL;
}

PLUGIN ncclResult_t beside_ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
PLUGIN ncclResult_t beside_ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  struct beside call = {send, recv, count, type, op, comm, stream, ncclSystemError};
  pthread_t thread;
  if (pthread_create(&thread, NULL, call_beside, &call) == 0)
    pthread_join(thread, NULL);
  return call.status;
}
