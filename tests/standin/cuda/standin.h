/* SPDX-License-Identifier: BSD-3-Clause
 * Functions of the stand-in for the driver that the driver lacks, for a stand-in that works on device memory (such as
 * that for NCCL). They are found with dlsym in the libcuda.so.1 that the process has loaded.
 */
#ifndef TESTS_STANDIN_CUDA_STANDIN_H
#define TESTS_STANDIN_CUDA_STANDIN_H

#include "tests/standin/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct standin_cuda_access {
  CUdeviceptr begin;
  size_t bytes;
  int writes;
};

/* cuLaunchHostFunc for a function that works on that memory: its order with other work is checked like a kernel's.
 * release(data), if not NULL, is called once and makes no driver call: after the function has run, when the graph that
 * holds it is gone, or when this call fails. */
CUresult standin_cuda_launch(CUstream stream, const char *name, CUhostFn function, void (*release)(void *), void *data,
                             const struct standin_cuda_access *access, unsigned count);

/* A kernel that is a function of the host, for cuLaunchKernelEx() with packed parameters: play() gets a copy of them.
 * The name must stay. */
CUresult standin_cuda_host_kernel(CUfunction *function, const char *name, void (*play)(const void *parameters));

/* 1 if CUDA_STANDIN_SELF_TEST=1: the library then tries the kernels out (self_test.h), as on a GPU. */
int standin_cuda_wants_self_test(void);

/* 1 if this thread has loaded a module, which on a GPU may take seconds. */
int standin_cuda_has_loaded(void);

/* The real address of that many bytes, for work on a stream. Call it when that is enqueued: other work may free memory
 * in stream order first. Host memory is its own view. NULL for device memory that was freed or is shorter. */
void *standin_cuda_view(CUdeviceptr pointer, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
