/* SPDX-License-Identifier: BSD-3-Clause
 * What is not played: graphs, memory of other processes, libraries of kernels, the use of pools, occupancy. PyTorch and
 * NCCL must find these names to be loaded. A call says on stderr which it is, and fails.
 */
#include "tests/standin/cudart/runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

cudaError_t cudart_refuse(const char *name) {
  enum { MOST = 256 };
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static const char *said[MOST];
  static int count;
  int i = 0;
  pthread_mutex_lock(&mutex);
  while (i < count && strcmp(said[i], name) != 0)
    i++;
  if (i == count && count < MOST) {
    said[count++] = name;
    fprintf(stderr, "CUDA runtime stand-in: %s is not played\n", name);
  }
  pthread_mutex_unlock(&mutex);
  return cudart_note(CUDA_ERROR_NOT_SUPPORTED);
}

/* clang-format off */
#define EACH_REFUSED(X) \
  X(cudaDeviceEnablePeerAccess) X(cudaDeviceSetLimit) X(cudaGraphAddDependencies) X(cudaGraphAddEventRecordNode) \
  X(cudaMemcpyBatchAsync) X(cudaStreamGetId) X(cudaDeviceGetDefaultMemPool) X(cudaDeviceGetGraphMemAttribute) \
  X(cudaDeviceSetGraphMemAttribute) X(cudaFuncGetAttributes) X(cudaFuncSetAttribute) X(cudaGetSymbolAddress) \
  X(cudaGraphAddNode) X(cudaGraphConditionalHandleCreate) X(cudaGraphDestroy) X(cudaGraphExecDestroy) \
  X(cudaGraphGetNodes) X(cudaGraphInstantiate) X(cudaGraphInstantiateWithFlags) X(cudaGraphLaunch) \
  X(cudaGraphNodeGetDependencies) X(cudaGraphRetainUserObject) \
  X(cudaIpcCloseMemHandle) X(cudaIpcGetEventHandle) X(cudaIpcGetMemHandle) X(cudaIpcOpenEventHandle) \
  X(cudaIpcOpenMemHandle) X(cudaKernelSetAttributeForDevice) X(cudaLaunchKernelExC) X(cudaLibraryGetGlobal) \
  X(cudaLibraryGetKernel) X(cudaLibraryGetKernelCount) X(cudaLibraryGetManaged) X(cudaLibraryGetUnifiedFunction) \
  X(cudaLibraryLoadData) X(cudaLibraryLoadFromFile) X(cudaLibraryUnload) X(cudaMemPoolGetAttribute) \
  X(cudaMemPoolSetAccess) X(cudaMemPoolTrimTo) X(cudaMemcpyToSymbol) \
  X(cudaOccupancyMaxActiveBlocksPerMultiprocessor) X(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
  X(cudaStreamAddCallback) X(cudaStreamBeginCapture) X(cudaStreamBeginCaptureToGraph) X(cudaStreamEndCapture) \
  X(cudaStreamUpdateCaptureDependencies) X(cudaUserObjectCreate) X(cudaUserObjectRelease)
/* clang-format on */

/* Their arguments do not matter: the caller removes them. */
#define REFUSED(name) \
  cudaError_t name(void); \
  CUDART_API cudaError_t name(void) { return cudart_refuse(#name); }
EACH_REFUSED(REFUSED)
