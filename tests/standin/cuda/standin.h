/* SPDX-License-Identifier: BSD-3-Clause
 * What a stand-in that works on device memory (such as that for NCCL) asks of the stand-in for the driver, beyond what
 * the driver can do. Both are found with dlsym in the libcuda.so.1 that the process has loaded.
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

/* cuLaunchHostFunc for a function that works on that memory: its order with other work is checked as that of a kernel.
 * release(data), where it is not NULL, is called once and makes no call of the driver: when it has run, or the graph is
 * gone that it became a part of, or where this fails. */
CUresult standin_cuda_launch(CUstream stream, const char *name, CUhostFn function, void (*release)(void *), void *data,
                             const struct standin_cuda_access *access, unsigned count);

/* 1 where CUDA_STANDIN_SELF_TEST=1 asks the library to try the kernels out (self_test.h), as it does on a GPU. */
int standin_cuda_wants_self_test(void);

/* 1 where this thread has loaded a module, which on a GPU may take seconds. */
int standin_cuda_has_loaded(void);

/* Where so many bytes really are: for what runs on a stream, and is asked when that is enqueued, as what runs in
 * between may give memory back in the order of the stream. Memory of the host is where it is; NULL for device memory
 * that was freed or is shorter. */
void *standin_cuda_view(CUdeviceptr pointer, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
