/* SPDX-License-Identifier: BSD-3-Clause
 * Memory, copies and memsets. A copy must go in the direction that its kind names: CUDA leaves open what another does,
 * here it is an invalid value.
 */
#include "tests/standin/cudart/runtime.h"

#include <stdint.h>
#include <string.h>

#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

/* -- allocations --------------------------------------------------------------------------------------------------- */
/* Unlike the driver, the runtime answers a request for no bytes with NULL. */
#define ALLOCATE(pointer, bytes, call) (*(pointer) = NULL, IN_CONTEXT((bytes) ? (call) : CUDA_SUCCESS))

CUDART_API cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  return ALLOCATE(pointer, bytes, cuMemAlloc_v2((CUdeviceptr *)pointer, bytes));
}

CUDART_API cudaError_t cudaFree(void *pointer) { return IN_CONTEXT(cuMemFree_v2(ADDRESS(pointer))); }

CUDART_API cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
  return ALLOCATE(pointer, bytes, cuMemAllocAsync((CUdeviceptr *)pointer, bytes, stream));
}

CUDART_API cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
  return IN_CONTEXT(cuMemFreeAsync(ADDRESS(pointer), stream));
}

/* -- pools --------------------------------------------------------------------------------------------------------- */
_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "one layout");

CUDART_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties) {
  CUmemPoolProps same;
  memcpy(&same, properties, sizeof same);
  return IN_CONTEXT(cuMemPoolCreate(pool, &same));
}

CUDART_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return IN_CONTEXT(cuMemPoolDestroy(pool)); }

/* Attributes have the driver's numbers. */
CUDART_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, int attribute, void *value) {
  return IN_CONTEXT(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

CUDART_API cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return ALLOCATE(pointer, bytes, cuMemAllocFromPoolAsync((CUdeviceptr *)pointer, bytes, pool, stream));
}

/* -- memory of the host -------------------------------------------------------------------------------------------- */
CUDART_API cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags) {
  *pointer = NULL;
  return IN_CONTEXT(cuMemAllocManaged((CUdeviceptr *)pointer, bytes, flags));
}

CUDART_API cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
  return ALLOCATE(pointer, bytes, cuMemAllocHost_v2(pointer, bytes));
}

/* All pinned memory can be reached from all devices, whatever the flags say. */
CUDART_API cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
  (void)flags;
  return cudaMallocHost(pointer, bytes);
}

CUDART_API cudaError_t cudaFreeHost(void *pointer) {
  return IN_CONTEXT(pointer ? cuMemFreeHost(pointer) : CUDA_SUCCESS);
}

CUDART_API cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags) {
  return IN_CONTEXT(cuMemHostRegister_v2(pointer, bytes, flags));
}

CUDART_API cudaError_t cudaHostUnregister(void *pointer) { return IN_CONTEXT(cuMemHostUnregister(pointer)); }

CUDART_API cudaError_t cudaHostGetDevicePointer(void **pointer, void *host, unsigned int flags) {
  *pointer = NULL;
  return IN_CONTEXT(cuMemHostGetDevicePointer_v2((CUdeviceptr *)pointer, host, flags));
}

/* -- facts --------------------------------------------------------------------------------------------------------- */
CUDART_API cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  return IN_CONTEXT(cuMemGetInfo_v2(available, total));
}

/* Memory that CUDA does not know is no error. */
CUDART_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
  unsigned type = 0, managed = 0;
  CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  *attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered};
  void *values[] = {&type, &managed, &attributes->device, &attributes->devicePointer, &attributes->hostPointer};
  const cudaError_t error = IN_CONTEXT(cuPointerGetAttributes(5, names, values, ADDRESS(pointer)));
  attributes->type = managed                        ? cudaMemoryTypeManaged
                     : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                     : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeUnregistered;
  return error;
}

/* -- copies -------------------------------------------------------------------------------------------------------- */
static CUresult enqueue_copy_of_kind(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                     cudaStream_t stream) {
  switch (kind) {
  case cudaMemcpyHostToDevice: return cuMemcpyHtoDAsync_v2(ADDRESS(to), from, bytes, stream);
  case cudaMemcpyDeviceToHost: return cuMemcpyDtoHAsync_v2(to, ADDRESS(from), bytes, stream);
  case cudaMemcpyDeviceToDevice: return cuMemcpyDtoDAsync_v2(ADDRESS(to), ADDRESS(from), bytes, stream);
  case cudaMemcpyHostToHost:
  case cudaMemcpyDefault: return cuMemcpyAsync(ADDRESS(to), ADDRESS(from), bytes, stream);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUDART_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                       cudaStream_t stream) {
  return IN_CONTEXT(bytes ? enqueue_copy_of_kind(to, from, bytes, kind, stream) : CUDA_SUCCESS);
}

CUDART_API cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, NULL);
  return error == cudaSuccess ? IN_CONTEXT(cuStreamSynchronize(NULL)) : error;
}

CUDART_API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                           cudaStream_t stream) {
  (void)to_device, (void)from_device; /* addresses say it */
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

CUDART_API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                         size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
  const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .srcDevice = ADDRESS(from),
                              .srcPitch = from_pitch,
                              .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                              .dstDevice = ADDRESS(to),
                              .dstPitch = to_pitch,
                              .WidthInBytes = width,
                              .Height = height};
  (void)kind; /* addresses say it */
  return IN_CONTEXT(width && height ? cuMemcpy2DAsync_v2(&copy, stream) : CUDA_SUCCESS);
}

/* -- memsets ------------------------------------------------------------------------------------------------------- */
CUDART_API cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream) {
  return IN_CONTEXT(bytes ? cuMemsetD8Async(ADDRESS(pointer), (unsigned char)value, bytes, stream) : CUDA_SUCCESS);
}

CUDART_API cudaError_t cudaMemset(void *pointer, int value, size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, NULL);
}
