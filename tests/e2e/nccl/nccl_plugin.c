/* SPDX-License-Identifier: BSD-3-Clause
 * A library that is linked with NCCL, as a Python extension module or a plugin of a program is. For each function that
 * dlsym_user calls it has one with a prefix that calls NCCL's, and comes back before it returns.
 */
#include <nccl.h>

#define PLUGIN __attribute__((visibility("default")))

/* Seen as a call, not as a jump: the plugin is where NCCL returns to. */
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

/* Jumps, wherever the compiler makes tail calls: NCCL returns to whoever called these. */
PLUGIN ncclResult_t tail_ncclGroupStart(void);
PLUGIN ncclResult_t tail_ncclGroupStart(void) { return ncclGroupStart(); }

PLUGIN ncclResult_t tail_ncclGroupEnd(void);
PLUGIN ncclResult_t tail_ncclGroupEnd(void) { return ncclGroupEnd(); }
