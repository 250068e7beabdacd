/* SPDX-License-Identifier: BSD-3-Clause
 * A library that is linked with NCCL, like a Python extension module or a plugin. For each function that dlsym_user
 * calls it has one with a prefix, which calls NCCL's.
 */
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
