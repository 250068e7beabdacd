/* SPDX-License-Identifier: BSD-3-Clause
 * A program that uses NCCL if it is there, and is not linked with it. With only the preload library, every call must
 * fail with an error and the program must live. Exit status 0 if that holds.
 */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#pragma weak ncclGetUniqueId
#pragma weak ncclReduceScatter
#pragma weak ncclGroupStart

int main(void) {
  ncclUniqueId id;
  float x = 1;
  if (!ncclGetUniqueId)
    return 0;
  if (ncclGetUniqueId(&id) != ncclSystemError || ncclGetUniqueId(&id) != ncclSystemError)
    return 1;
  if (ncclReduceScatter(&x, &x, 1, ncclFloat, ncclSum, NULL, NULL) != ncclSystemError)
    return 2;
  return ncclGroupStart() == ncclSystemError ? 0 : 3;
}
