/* SPDX-License-Identifier: BSD-3-Clause
 * A library that is linked with a copy of little_nccl.c, and bound when it is loaded. It calls an intercepted function
 * and another one: both must be of the same copy. With OUTER it also calls another such library.
 */
#include <nccl.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void plugin_call(void);

#ifdef OUTER
EXPORT void outer_call(void);
EXPORT void outer_call(void) {
  volatile ncclResult_t status = ncclGroupStart();
  status = ncclGroupEnd();
  (void)status;
  plugin_call();
}
#else
EXPORT void plugin_call(void) {
  volatile ncclResult_t status = ncclGroupStart();
  status = ncclGroupEnd();
  ncclGetErrorString(status);
}
#endif
