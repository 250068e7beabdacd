/* SPDX-License-Identifier: BSD-3-Clause
 * The part of the ABI of CUDA's runtime (libcudart.so.13) that PyTorch uses. Types and values are those of NVIDIA's
 * cuda_runtime_api.h. Functions return CUDA's errors, which have the driver's numbers; cudaGetLastError() tells a
 * thread its last one once. Each works on the current context of its thread, or else makes the primary context of
 * device 0 current. The caller owns what a pointer of the arguments points to. Sizes are in bytes.
 */
#ifndef TESTS_STANDIN_CUDART_CUDART_H
#define TESTS_STANDIN_CUDART_CUDART_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* E(name, value): all that the stand-in for the driver returns. */
#define CUDART_ERRORS(E) \
  E(cudaSuccess, 0) \
  E(cudaErrorInvalidValue, 1) \
  E(cudaErrorMemoryAllocation, 2) \
  E(cudaErrorInitializationError, 3) \
  E(cudaErrorCudartUnloading, 4) \
  E(cudaErrorNoDevice, 100) \
  E(cudaErrorInvalidDevice, 101) \
  E(cudaErrorInvalidKernelImage, 200) \
  E(cudaErrorDeviceUninitialized, 201) \
  E(cudaErrorNoKernelImageForDevice, 209) \
  E(cudaErrorInvalidResourceHandle, 400) \
  E(cudaErrorIllegalState, 401) \
  E(cudaErrorSymbolNotFound, 500) \
  E(cudaErrorNotReady, 600) \
  E(cudaErrorIllegalAddress, 700) \
  E(cudaErrorLaunchOutOfResources, 701) \
  E(cudaErrorContextIsDestroyed, 709) \
  E(cudaErrorAssert, 710) \
  E(cudaErrorHostMemoryAlreadyRegistered, 712) \
  E(cudaErrorHostMemoryNotRegistered, 713) \
  E(cudaErrorLaunchFailure, 719) \
  E(cudaErrorCooperativeLaunchTooLarge, 720) \
  E(cudaErrorNotSupported, 801) \
  E(cudaErrorStreamCaptureUnsupported, 900) \
  E(cudaErrorStreamCaptureInvalidated, 901) \
  E(cudaErrorStreamCaptureMerge, 902) \
  E(cudaErrorStreamCaptureUnmatched, 903) \
  E(cudaErrorStreamCaptureUnjoined, 904) \
  E(cudaErrorStreamCaptureIsolation, 905) \
  E(cudaErrorStreamCaptureImplicit, 906) \
  E(cudaErrorCapturedEvent, 907) \
  E(cudaErrorStreamCaptureWrongThread, 908) \
  E(cudaErrorUnknown, 999)

typedef enum {
#define CUDART_VALUE(name, value) name = value,
  CUDART_ERRORS(CUDART_VALUE)
#undef CUDART_VALUE
} cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUkern_st *cudaKernel_t;
typedef struct CUfunc_st *cudaFunction_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef void (*cudaHostFn_t)(void *data);

enum { cudaStreamNonBlocking = 1, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaEventInterprocess = 4 };
enum { cudaMemAttachGlobal = 1 };

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};

enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };

struct cudaPointerAttributes {
  enum cudaMemoryType type;
  int device;
  void *devicePointer, *hostPointer;
  long reserved[8];
};

/* Its fields have the driver's types and values. */
struct cudaMemPoolProps {
  int allocType, handleTypes;
  struct {
    int type, id;
  } location;
  void *win32SecurityAttributes;
  size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

struct cudaDeviceProp {
  char name[256];
  unsigned char uuid[16];
  char luid[8];
  unsigned int luidDeviceNodeMask;
  size_t totalGlobalMem, sharedMemPerBlock;
  int regsPerBlock, warpSize;
  size_t memPitch;
  int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
  size_t totalConstMem;
  int major, minor;
  size_t textureAlignment, texturePitchAlignment;
  int multiProcessorCount, integrated, canMapHostMemory;
  int textures[25], surfaces[14]; /* their largest sizes */
  size_t surfaceAlignment;
  int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing,
    memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported,
    globalL1CacheSupported, localL1CacheSupported;
  size_t sharedMemPerMultiprocessor;
  int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported,
    pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem,
    cooperativeLaunch;
  size_t sharedMemPerBlockOptin;
  int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor,
    accessPolicyMaxWindowSize;
  size_t reservedSharedMemPerBlock;
  int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported,
    memoryPoolsSupported;
  int others[71];
};

typedef struct {
  unsigned int x, y, z;
} cudart_dim3;

/* Errors and versions. */
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
/* The driver's function in that version; status 0: found, 1: there is none, 2: the driver is older. */
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
                                             unsigned long long flags, int *status);

/* Devices. */
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);
cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device);
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *id);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaDeviceCanAccessPeer(int *yes, int device, int peer);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

/* Memory. A stream's copies from pageable memory have read it at their return, those to it are complete. */
cudaError_t cudaMalloc(void **pointer, size_t bytes);
cudaError_t cudaFree(void *pointer);
cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *properties);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, int attribute, void *value);
cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaMallocManaged(void **pointer, size_t bytes, unsigned int flags);
cudaError_t cudaMallocHost(void **pointer, size_t bytes);
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags);
cudaError_t cudaFreeHost(void *pointer);
/* Pins memory of the program until cudaHostUnregister(); no part of it may be pinned yet. */
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags);
cudaError_t cudaHostUnregister(void *pointer);
cudaError_t cudaHostGetDevicePointer(void **pointer, void *host, unsigned int flags);
cudaError_t cudaMemGetInfo(size_t *available, size_t *total);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemset(void *pointer, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *pointer, int value, size_t bytes, cudaStream_t stream);

/* Streams. */
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, int *status);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, int *status, unsigned long long *id, void *graph,
                                     const void *dependencies, const void *edges, size_t *count);
cudaError_t cudaThreadExchangeStreamCaptureMode(int *mode);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data);

/* Events. */
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

/* Kernels: registered by nvcc's code, and refused with their name at a launch. */
void **__cudaRegisterFatBinary(void *image);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *stub, char *device_stub, const char *name, int threads,
                            void *thread_id, void *block_id, void *block, void *grid, int *warps);
void __cudaRegisterVar(void **handle, char *variable, char *device_variable, const char *name, int external,
                       size_t bytes, int constant, int global);
unsigned int __cudaPushCallConfiguration(cudart_dim3 grid, cudart_dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(cudart_dim3 *grid, cudart_dim3 *block, size_t *shared, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub);
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, cudart_dim3 grid, cudart_dim3 block, void **parameters,
                               size_t shared, cudaStream_t stream);
/* The stand-in's own: play() is the kernel of that stub, see standin_cuda_host_kernel(). The name must stay. */
cudaError_t cudaStandinPlays(const void *stub, const char *name, void (*play)(const void *parameters));
cudaError_t cudaLaunchKernel(const void *stub, cudart_dim3 grid, cudart_dim3 block, void **parameters, size_t shared,
                             cudaStream_t stream);
cudaError_t cudaLaunchCooperativeKernel(const void *stub, cudart_dim3 grid, cudart_dim3 block, void **parameters,
                                        size_t shared, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
