/* SPDX-License-Identifier: BSD-3-Clause
 * The facts on which a program and CUDA's runtime must agree. Included by two files that see different headers:
 * test_cudart.c (the stand-in's) and cudart_theirs.c (NVIDIA's).
 */
#ifndef TESTS_UNIT_STANDIN_CUDART_TABLE_H
#define TESTS_UNIT_STANDIN_CUDART_TABLE_H

#include <stddef.h>

struct cudart_fact {
  const char *name;
  size_t value;
};

/* NVIDIA's, up to an entry without a name; empty without a header of CUDA 13. */
extern const struct cudart_fact cudart_theirs[];

#define CUDART_VALUE_OF(name) \
  { #name, name }
#define CUDART_AT(field) \
  { #field, offsetof(struct cudaDeviceProp, field) }

/* clang-format off */
#define CUDART_FACTS \
  {"sizeof(struct cudaDeviceProp)", sizeof(struct cudaDeviceProp)}, \
  {"sizeof(struct cudaPointerAttributes)", sizeof(struct cudaPointerAttributes)}, \
  {"hostPointer", offsetof(struct cudaPointerAttributes, hostPointer)}, \
  {"sizeof(struct cudaMemPoolProps)", sizeof(struct cudaMemPoolProps)}, \
  {"location", offsetof(struct cudaMemPoolProps, location)}, \
  {"maxSize", offsetof(struct cudaMemPoolProps, maxSize)}, \
  CUDART_VALUE_OF(cudaErrorHostMemoryAlreadyRegistered), CUDART_VALUE_OF(cudaErrorHostMemoryNotRegistered), \
  CUDART_AT(uuid), CUDART_AT(luidDeviceNodeMask), CUDART_AT(totalGlobalMem), CUDART_AT(sharedMemPerBlock), \
  CUDART_AT(warpSize), CUDART_AT(memPitch), CUDART_AT(maxThreadsDim), CUDART_AT(maxGridSize), \
  CUDART_AT(totalConstMem), CUDART_AT(major), CUDART_AT(minor), CUDART_AT(textureAlignment), \
  CUDART_AT(multiProcessorCount), CUDART_AT(canMapHostMemory), CUDART_AT(surfaceAlignment), \
  CUDART_AT(concurrentKernels), CUDART_AT(pciBusID), CUDART_AT(unifiedAddressing), CUDART_AT(l2CacheSize), \
  CUDART_AT(maxThreadsPerMultiProcessor), CUDART_AT(streamPrioritiesSupported), \
  CUDART_AT(sharedMemPerMultiprocessor), CUDART_AT(regsPerMultiprocessor), CUDART_AT(managedMemory), \
  CUDART_AT(concurrentManagedAccess), CUDART_AT(cooperativeLaunch), CUDART_AT(sharedMemPerBlockOptin), \
  CUDART_AT(maxBlocksPerMultiProcessor), CUDART_AT(reservedSharedMemPerBlock), CUDART_AT(memoryPoolsSupported), \
  CUDART_VALUE_OF(cudaErrorMemoryAllocation), CUDART_VALUE_OF(cudaErrorInvalidDevice), \
  CUDART_VALUE_OF(cudaErrorInvalidResourceHandle), CUDART_VALUE_OF(cudaErrorNotReady), \
  CUDART_VALUE_OF(cudaErrorIllegalAddress), CUDART_VALUE_OF(cudaErrorNotSupported), \
  CUDART_VALUE_OF(cudaErrorStreamCaptureUnsupported), CUDART_VALUE_OF(cudaErrorUnknown), \
  CUDART_VALUE_OF(cudaStreamNonBlocking), CUDART_VALUE_OF(cudaEventDisableTiming), \
  CUDART_VALUE_OF(cudaEventInterprocess), CUDART_VALUE_OF(cudaMemcpyDeviceToDevice), \
  CUDART_VALUE_OF(cudaMemcpyDefault), CUDART_VALUE_OF(cudaMemoryTypeManaged)
/* clang-format on */

#endif
