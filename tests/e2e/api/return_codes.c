/* SPDX-License-Identifier: BSD-3-Clause
 * Prints NCCL's return codes of calls that are wrong or cannot work. A plain and a preloaded run must print the same.
 * Works with any libnccl.so.2, with a GPU or without.
 */
#include <nccl.h>
#include <stdio.h>
#include <string.h>

#define SAY(call) printf("%-60.60s %d\n", #call, (int)(call))

int main(void) {
  ncclUniqueId id;
  ncclComm_t comm = NULL, child = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclRedOp_t op;
  float x = 1, y = 0;
  memset(&id, 0, sizeof id);
  SAY(ncclCommInitRank(&comm, 1, id, 1));
  SAY(ncclCommInitRank(&comm, 0, id, 0));
  SAY(ncclCommInitRankConfig(NULL, 1, id, 0, &config));
  SAY(ncclReduceScatter(&x, &y, 1, ncclFloat, ncclSum, NULL, NULL));
  SAY(ncclAllGather(&x, &y, 1, ncclFloat, NULL, NULL));
  SAY(ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL));
  SAY(ncclBroadcast(&x, &y, 1, ncclFloat, 3, NULL, NULL));
  SAY(ncclBcast(&x, 1, ncclFloat, 0, NULL, NULL));
  SAY(ncclReduce(&x, &y, 1, ncclFloat, ncclSum, 0, NULL, NULL));
  SAY(ncclSend(&x, 1, ncclFloat, 0, NULL, NULL));
  SAY(ncclRecv(&x, 1, ncclFloat, 0, NULL, NULL));
  SAY(ncclGroupEnd());
  SAY(ncclGroupStart());
  SAY(ncclGroupStart());
  SAY(ncclReduceScatter(&x, &y, 1, ncclFloat, ncclSum, NULL, NULL));
  SAY(ncclGroupEnd());
  SAY(ncclGroupEnd());
  SAY(ncclCommSplit(NULL, 0, 0, &child, NULL));
  SAY(ncclCommDestroy(NULL));
  SAY(ncclCommAbort(NULL));
  SAY(ncclCommFinalize(NULL));
  SAY(ncclRedOpCreatePreMulSum(&op, &x, ncclFloat, ncclScalarHostImmediate, NULL));
  SAY(ncclRedOpDestroy(ncclSum, NULL));

  /* A communicator needs a device (or the stand-in). */
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) {
    printf("no communicator\n");
    return 0;
  }
  SAY(ncclReduceScatter(NULL, &y, 1, ncclFloat, ncclSum, comm, NULL));
  SAY(ncclReduceScatter(&x, &y, 1, (ncclDataType_t)99, ncclSum, comm, NULL));
  SAY(ncclReduceScatter(&x, &y, 1, ncclFloat, (ncclRedOp_t)77, comm, NULL));
  SAY(ncclReduceScatter(NULL, NULL, 0, ncclFloat, ncclSum, comm, NULL));
  SAY(ncclBroadcast(&x, &y, 1, ncclFloat, 3, comm, NULL));
  SAY(ncclGroupStart());
  SAY(ncclReduceScatter(&x, &y, 1, ncclFloat, (ncclRedOp_t)77, comm, NULL));
  SAY(ncclGroupEnd());
  SAY(ncclCommDestroy(comm));
  return 0;
}
