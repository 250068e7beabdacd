/* SPDX-License-Identifier: BSD-3-Clause
 * The functions of the CUDA driver (libcuda.so.1) that we use, found by dlopen(): neither its headers nor its library
 * are needed to build or to load this library.
 *
 * Types      Handles are void *, device memory is an address, results are int with 0 for success (CUresult).
 * Threads    Any. Failure: NULL without a driver, or if it lacks a function that we need.
 */
#ifndef KERNELS_CUDA_DRIVER_H
#define KERNELS_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CUDA_MEMCPY2D. */
struct tagc_cuda_end {
  size_t x, y;
  int memory; /* TAGC_CUDA_UNIFIED: any kind */
  void *host;
  uint64_t address;
  void *array;
  size_t pitch;
};
struct tagc_cuda_rows {
  struct tagc_cuda_end from, to;
  size_t width, rows;
};

/* X(name, symbol, parameters): see cuda.h of 11.2 and later. Symbols have the version that its macros choose. */
#define TAGC_CUDA_FUNCTIONS(X) \
  X(init, cuInit, (unsigned flags)) \
  X(driver_version, cuDriverGetVersion, (int *version)) \
  X(error_name, cuGetErrorName, (int error, const char **name)) \
  X(device_get, cuDeviceGet, (int *device, int ordinal)) \
  X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device)) \
  X(device_reaches, cuDeviceCanAccessPeer, (int *yes, int device, int peer)) \
  X(context_retain, cuDevicePrimaryCtxRetain, (void **context, int device)) \
  X(context_push, cuCtxPushCurrent_v2, (void *context)) \
  X(context_pop, cuCtxPopCurrent_v2, (void **context)) \
  X(context_current, cuCtxGetCurrent, (void **context)) \
  X(context_set, cuCtxSetCurrent, (void *context)) \
  X(context_version, cuCtxGetApiVersion, (void *context, unsigned *version)) \
  X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode)) \
  X(stream_priorities, cuCtxGetStreamPriorityRange, (int *least, int *greatest)) \
  X(stream_create, cuStreamCreate, (void **stream, unsigned flags)) \
  X(stream_create_first, cuStreamCreateWithPriority, (void **stream, unsigned flags, int priority)) \
  X(stream_destroy, cuStreamDestroy_v2, (void *stream)) \
  X(stream_synchronize, cuStreamSynchronize, (void *stream)) \
  X(stream_wait, cuStreamWaitEvent, (void *stream, void *event, unsigned flags)) \
  X(event_create, cuEventCreate, (void **event, unsigned flags)) \
  X(event_destroy, cuEventDestroy_v2, (void *event)) \
  X(event_record, cuEventRecord, (void *event, void *stream)) \
  X(event_synchronize, cuEventSynchronize, (void *event)) \
  X(event_query, cuEventQuery, (void *event)) \
  X(event_elapsed, cuEventElapsedTime, (float *ms, void *from, void *to)) \
  X(pool_create, cuMemPoolCreate, (void **pool, const void *properties)) \
  X(pool_set, cuMemPoolSetAttribute, (void *pool, int attribute, void *value)) \
  X(pool_destroy, cuMemPoolDestroy, (void *pool)) \
  X(pool_access, cuMemPoolSetAccess, (void *pool, const void *accesses, size_t count)) \
  X(alloc, cuMemAlloc_v2, (uint64_t * memory, size_t bytes)) \
  X(alloc_from_pool, cuMemAllocFromPoolAsync, (uint64_t * memory, size_t bytes, void *pool, void *stream)) \
  X(free_async, cuMemFreeAsync, (uint64_t memory, void *stream)) \
  X(alloc_host, cuMemAllocHost_v2, (void **memory, size_t bytes)) \
  X(memory_info, cuMemGetInfo_v2, (size_t * available, size_t * total)) \
  X(pointer_attributes, cuPointerGetAttributes, (unsigned count, int *attributes, void **values, uint64_t pointer)) \
  X(clear, cuMemsetD8Async, (uint64_t to, unsigned char value, size_t count, void *stream)) \
  X(put, cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream)) \
  X(get, cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream)) \
  X(copy, cuMemcpyAsync, (uint64_t to, uint64_t from, size_t bytes, void *stream)) \
  X(copy_rows, cuMemcpy2DAsync_v2, (const struct tagc_cuda_rows *rows, void *stream)) \
  X(module_load, cuModuleLoadData, (void **module, const void *image)) \
  X(module_function, cuModuleGetFunction, (void **function, void *module, const char *name)) \
  X(launch, cuLaunchKernel, \
    (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra))

/* The same for newer functions: NULL if the driver lacks them. */
#define TAGC_CUDA_NEWER_FUNCTIONS(X) \
  X(context_id, cuCtxGetId, (void *context, unsigned long long *id)) \
  X(stream_context, cuStreamGetCtx, (void *stream, void **context)) \
  X(stream_contexts, cuStreamGetCtx_v2, (void *stream, void **context, void **green))

struct tagc_cuda_driver {
#define TAGC_CUDA_MEMBER(name, symbol, parameters) int(*name) parameters;
  TAGC_CUDA_FUNCTIONS(TAGC_CUDA_MEMBER)
  TAGC_CUDA_NEWER_FUNCTIONS(TAGC_CUDA_MEMBER)
#undef TAGC_CUDA_MEMBER
  bool plays_kernels;      /* a stand-in, which has the kernels itself, whatever image it gets */
  bool needs_no_self_test; /* of its kernels (self_test.h): the tests compare more */
};

/* The driver: searched for once, at the first call; the process's own if it has loaded one. NULL: none; *why (if not
 * NULL) then says why, in a string that lives as long as the process. */
const struct tagc_cuda_driver *tagc_cuda_driver(const char **why);

enum { TAGC_CUDA_UNIFIED = 4 };

enum {
  TAGC_CUDA_INVALID_VALUE = 1,
  TAGC_CUDA_DEINITIALIZED = 4, /* the driver shuts down, as the process does */
  TAGC_CUDA_INVALID_CONTEXT = 201,
  TAGC_CUDA_NOT_READY = 600, /* work is still running */
  TAGC_CUDA_CONTEXT_IS_DESTROYED = 709,
};

/* Writes "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)", cut at `size`. Returns `text`. */
const char *tagc_cuda_words(int error, const char *call, char *text, size_t size);

/* False if a driver call failed. Logs the call and the error, each pair once, and an error of earlier work once;
 * nothing while the driver shuts down. `call` lives as long as the process. */
bool tagc_cuda_good(int error, const char *call);

#endif
