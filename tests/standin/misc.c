/* SPDX-License-Identifier: BSD-3-Clause
 * Version, errors, memory, registration: the calls without a peer. The last error is kept per thread.
 */
#include "tests/standin/standin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static __thread char last_error[256];

ncclResult_t standin_fail(ncclResult_t result, const char *what, ...) {
  va_list args;
  va_start(args, what);
  vsnprintf(last_error, sizeof last_error, what, args);
  va_end(args);
  const char *debug = getenv("NCCL_DEBUG");
  if (debug && strcmp(debug, "VERSION") != 0)
    fprintf(stderr, "NCCL stand-in: %s (%s)\n", last_error, ncclGetErrorString(result));
  return result;
}

int64_t standin_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

size_t standin_type_size(ncclDataType_t type) {
  static const unsigned char sizes[] = {
    [ncclInt8] = 1,   [ncclUint8] = 1,   [ncclInt32] = 4,   [ncclUint32] = 4,  [ncclInt64] = 8,
    [ncclUint64] = 8, [ncclFloat16] = 2, [ncclFloat32] = 4, [ncclFloat64] = 8, [ncclBfloat16] = 2,
    [10] = 1,         [11] = 1 /* the two fp8 types, which older headers do not name */
  };
  return (unsigned)type < sizeof sizes && (type <= ncclBfloat16 || standin_version >= 22403) ? sizes[type] : 0;
}

STANDIN_API ncclResult_t ncclGetVersion(int *version) {
  if (!version)
    return standin_fail(ncclInvalidArgument, "GetVersion: version is NULL");
  *version = standin_version;
  return ncclSuccess;
}

STANDIN_API const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess: return "no error";
  case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
  case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case ncclRemoteError: return "remote process exited or there was a network error";
  case ncclInProgress: return "NCCL operation in progress";
  default: return "unknown result code";
  }
}

STANDIN_API const char *ncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return last_error;
}

/* NCCL allocates whole pages; programs rely on the alignment. */
STANDIN_API ncclResult_t ncclMemAlloc(void **ptr, size_t size) {
  if (!ptr)
    return standin_fail(ncclInvalidArgument, "MemAlloc: ptr is NULL");
  *ptr = NULL;
  if (size && !ncclStandinHostMemory)
    return standin_device_alloc(ptr, size);
  if (size && posix_memalign(ptr, 4096, size) != 0)
    return standin_fail(ncclSystemError, "MemAlloc: no memory for %zu bytes", size);
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclMemFree(void *ptr) {
  if (ptr && !ncclStandinHostMemory)
    return standin_device_free(ptr);
  free(ptr);
  return ncclSuccess;
}

/* Registration has no effect here, but its errors are NCCL's. A handle is the buffer's address. */
STANDIN_API ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle) {
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommRegister: no such communicator");
  standin_stats_begin("ncclCommRegister", (int64_t)comm->id, size, -1);
  bool under_way = atomic_load(&comm->async_error) == ncclInProgress;
  standin_comm_release(comm);
  if (under_way)
    return standin_fail(ncclInvalidArgument, "CommRegister: a call on it has not succeeded yet");
  if (!buff || !size || !handle)
    return standin_fail(ncclInvalidArgument, "CommRegister: buffer, size or handle is NULL");
  *handle = buff;
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle) {
  (void)handle;
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommDeregister: no such communicator");
  standin_stats_begin("ncclCommDeregister", (int64_t)comm->id, 0, -1);
  standin_comm_release(comm);
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win,
                                                int winFlags) {
  (void)winFlags;
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommWindowRegister: no such communicator");
  standin_stats_begin("ncclCommWindowRegister", (int64_t)comm->id, size, -1);
  standin_comm_release(comm);
  if (!buff || !size || !win)
    return standin_fail(ncclInvalidArgument, "CommWindowRegister: buffer, size or window is NULL");
  *win = (ncclWindow_t)buff;
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  (void)win;
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommWindowDeregister: no such communicator");
  standin_stats_begin("ncclCommWindowDeregister", (int64_t)comm->id, 0, -1);
  standin_comm_release(comm);
  return ncclSuccess;
}
