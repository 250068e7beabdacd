/* SPDX-License-Identifier: BSD-3-Clause
 * Errors, versions, devices, and the context of a thread. As in CUDA 12 and later cudaSetDevice() makes the primary
 * context, and makes it current.
 */
#include "tests/standin/cudart/runtime.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { RUNTIME = 13020, DEVICES = 8 };

static __thread cudaError_t last;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[DEVICES]; /* retained for the process */

/* -- errors -------------------------------------------------------------------------------------------------------- */
cudaError_t cudart_note(CUresult result) {
  if (result != CUDA_SUCCESS)
    last = (cudaError_t)result;
  return (cudaError_t)result;
}

CUDART_API cudaError_t cudaPeekAtLastError(void) { return last; }

CUDART_API cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last;
  last = cudaSuccess;
  return error;
}

CUDART_API const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define NAME(name, value) \
  case name: return #name;
    CUDART_ERRORS(NAME)
#undef NAME
  }
  return "unrecognized error code";
}

CUDART_API const char *cudaGetErrorString(cudaError_t error) {
  const char *text;
  return cuGetErrorString((CUresult)error, &text) == CUDA_SUCCESS ? text : "unrecognized error code";
}

/* -- contexts ------------------------------------------------------------------------------------------------------ */
CUresult cudart_start(void) {
  static bool started;
  pthread_mutex_lock(&mutex);
  const CUresult result = started ? CUDA_SUCCESS : cuInit(0);
  started = result == CUDA_SUCCESS;
  pthread_mutex_unlock(&mutex);
  return result;
}

static CUresult make_current(int device) {
  int count = 0;
  CUresult result = cudart_start();
  if (result == CUDA_SUCCESS)
    result = cuDeviceGetCount(&count);
  if (result == CUDA_SUCCESS && (device < 0 || device >= count || device >= DEVICES))
    result = CUDA_ERROR_INVALID_DEVICE;
  pthread_mutex_lock(&mutex);
  if (result == CUDA_SUCCESS && !primary[device])
    result = cuDevicePrimaryCtxRetain(&primary[device], device);
  pthread_mutex_unlock(&mutex);
  return result == CUDA_SUCCESS ? cuCtxSetCurrent(primary[device]) : result;
}

CUresult cudart_enter(void) {
  CUcontext current;
  CUresult result = cudart_start();
  if (result == CUDA_SUCCESS)
    result = cuCtxGetCurrent(&current);
  return result == CUDA_SUCCESS && !current ? make_current(0) : result;
}

/* -- versions ------------------------------------------------------------------------------------------------------ */
CUDART_API cudaError_t cudaDriverGetVersion(int *version) { return cudart_note(cuDriverGetVersion(version)); }

CUDART_API cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = RUNTIME;
  return cudaSuccess;
}

CUDART_API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                                        unsigned long long flags, int *status) {
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  CUresult result = cudart_start();
  if (result == CUDA_SUCCESS) /* a name that is not found is told by the status alone */
    cuGetProcAddress_v2(symbol, function, (int)version, flags, &found);
  if (status)
    *status = (int)found;
  return cudart_note(result);
}

/* -- devices ------------------------------------------------------------------------------------------------------- */
CUDART_API cudaError_t cudaGetDeviceCount(int *count) { return WITHOUT_CONTEXT(cuDeviceGetCount(count)); }

CUDART_API cudaError_t cudaGetDevice(int *device) {
  CUresult result = cudart_start();
  if (result != CUDA_SUCCESS || cuCtxGetDevice(device) != CUDA_SUCCESS) /* there is no context yet */
    *device = 0;
  return cudart_note(result);
}

CUDART_API cudaError_t cudaSetDevice(int device) { return cudart_note(make_current(device)); }

CUDART_API cudaError_t cudaDeviceSynchronize(void) { return IN_CONTEXT(cuCtxSynchronize()); }

/* Attributes have the driver's numbers. */
CUDART_API cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device) {
  return WITHOUT_CONTEXT(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

CUDART_API cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
  return WITHOUT_CONTEXT(cuDeviceGetPCIBusId(id, length, device));
}

/* The function of an address may be left out. */
CUDART_API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id) {
  unsigned wanted[3], found[3];
  char text[32];
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && sscanf(id, "%x:%x:%x", &wanted[0], &wanted[1], &wanted[2]) != 3)
    count = 0;
  for (int i = 0; i < count; i++)
    if (cuDeviceGetPCIBusId(text, sizeof text, i) == CUDA_SUCCESS &&
        sscanf(text, "%x:%x:%x", &found[0], &found[1], &found[2]) == 3 && memcmp(found, wanted, sizeof found) == 0)
      return *device = i, cudaSuccess;
  return error == cudaSuccess ? cudart_note(CUDA_ERROR_INVALID_VALUE) : error;
}

CUDART_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  return IN_CONTEXT(cuCtxGetStreamPriorityRange(least, greatest));
}

CUDART_API cudaError_t cudaDeviceCanAccessPeer(int *yes, int device, int peer) {
  return WITHOUT_CONTEXT(cuDeviceCanAccessPeer(yes, device, peer));
}

/* No profiler looks on. */
CUDART_API cudaError_t cudaProfilerStart(void) { return cudaSuccess; }
CUDART_API cudaError_t cudaProfilerStop(void) { return cudaSuccess; }

static int attribute(CUdevice_attribute name, int device) {
  int value = 0;
  return cuDeviceGetAttribute(&value, name, device) == CUDA_SUCCESS ? value : 0;
}

static struct cudaDeviceProp describe(int device) {
  struct cudaDeviceProp p = {
    .regsPerBlock = 64 << 10,
    .regsPerMultiprocessor = 64 << 10,
    .totalConstMem = 64 << 10,
    .memPitch = INT32_MAX,
    .textureAlignment = 512,
    .concurrentKernels = 1,
    .streamPrioritiesSupported = 1,
    .pciBusID = device + 1,
    .sharedMemPerBlock = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, device),
    .sharedMemPerBlockOptin = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device),
    .sharedMemPerMultiprocessor = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device),
    .warpSize = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE, device),
    .maxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, device),
    .maxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device),
    .maxBlocksPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, device),
    .multiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
    .major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
    .minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
    .l2CacheSize = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device),
    .unifiedAddressing = attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, device),
    .managedMemory = attribute(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device),
    .concurrentManagedAccess = attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device),
    .cooperativeLaunch = attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device),
    .memoryPoolsSupported = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device),
  };
  for (int i = 0; i < 3; i++) {
    p.maxThreadsDim[i] = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i, device);
    p.maxGridSize[i] = attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i, device);
  }
  cuDeviceGetName(p.name, sizeof p.name, device);
  cuDeviceGetUuid_v2(p.uuid, device);
  cuDeviceTotalMem_v2(&p.totalGlobalMem, device);
  return p;
}

CUDART_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && (device < 0 || device >= count))
    return cudart_note(CUDA_ERROR_INVALID_DEVICE);
  if (error == cudaSuccess)
    *properties = describe(device);
  return error;
}
