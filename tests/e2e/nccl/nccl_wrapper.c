/* SPDX-License-Identifier: BSD-3-Clause
 * Another preloaded library in front of NCCL, like a profiler. It wraps ncclReduceScatter and ncclGroupStart, passes
 * them on with dlsym(RTLD_NEXT), and prints the number of calls at exit. It calls and does not jump, so it is the
 * caller.
 */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

static int reduce_scatters, groups;

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, cudaStream_t stream) {
  __typeof__(&ncclReduceScatter) next = (__typeof__(&ncclReduceScatter))dlsym(RTLD_NEXT, "ncclReduceScatter");
  volatile ncclResult_t status = next ? next(send, recv, count, type, op, comm, stream) : ncclSystemError;
  reduce_scatters++;
  return status;
}

EXPORT ncclResult_t ncclGroupStart(void); /* NCCL's header has no prototype of it */
EXPORT ncclResult_t ncclGroupStart(void) {
  ncclResult_t (*next)(void) = (ncclResult_t(*)(void))dlsym(RTLD_NEXT, "ncclGroupStart");
  volatile ncclResult_t status = next ? next() : ncclSystemError;
  groups++;
  return status;
}

__attribute__((destructor)) static void say(void) {
  if (reduce_scatters)
    fprintf(stderr, "wrapper: reduce_scatters=%d groups=%d\n", reduce_scatters, groups);
}
