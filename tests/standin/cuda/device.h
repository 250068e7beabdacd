/* SPDX-License-Identifier: BSD-3-Clause
 * For test programs: device memory, streams and kernels in few words. A failing driver call ends the program with the
 * call's name; tests make calls that should fail directly.
 */
#ifndef TESTS_STANDIN_CUDA_DEVICE_H
#define TESTS_STANDIN_CUDA_DEVICE_H

#include <stdio.h>
#include <unistd.h>

#include "tests/standin/cuda/cuda.h"

#define MUST(call) device_must(call, #call, __FILE__, __LINE__)

static inline void device_must(CUresult result, const char *call, const char *file, int line) {
  const char *name;
  if (result == CUDA_SUCCESS)
    return;
  fprintf(stderr, "%s:%d: %s: %s\n", file, line, call,
          cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "an unknown error");
  _exit(1);
}

/* Makes the device's context current for this thread, and returns it. */
static inline CUcontext device_open(int ordinal) {
  CUcontext context;
  CUdevice device;
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, ordinal));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  return context;
}

static inline CUstream device_stream(unsigned flags) {
  CUstream stream;
  MUST(cuStreamCreate(&stream, flags));
  return stream;
}

static inline CUevent device_event(void) {
  CUevent event;
  MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  return event;
}

static inline CUdeviceptr device_buffer(size_t bytes) {
  CUdeviceptr pointer;
  MUST(cuMemAlloc_v2(&pointer, bytes));
  return pointer;
}

/* A buffer with a copy of the bytes at `from`. */
static inline CUdeviceptr device_copy(const void *from, size_t bytes) {
  CUdeviceptr pointer = device_buffer(bytes);
  MUST(cuMemcpyHtoD_v2(pointer, from, bytes));
  return pointer;
}

/* Reads once all work on the device is over. */
static inline void device_read(void *to, CUdeviceptr from, size_t bytes) {
  MUST(cuCtxSynchronize());
  MUST(cuMemcpyDtoH_v2(to, from, bytes));
}

static inline CUfunction device_kernel(const char *name) {
  static CUmodule module;
  CUfunction function;
  if (!module)
    MUST(cuModuleLoadData(&module, "CUDA-STANDIN"));
  MUST(cuModuleGetFunction(&function, module, name));
  return function;
}

/* A grid and blocks of one dimension; pointers to the parameters follow. */
#define LAUNCH(function, blocks, threads, shared, stream, ...) \
  cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, (void *[]){__VA_ARGS__}, NULL)
#define LAUNCH_COOPERATIVE(function, blocks, threads, shared, stream, ...) \
  cuLaunchCooperativeKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, (void *[]){__VA_ARGS__})

#endif
