/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels that are functions of the host, which a program brings. They get a copy of their parameters, as
 * cuLaunchKernelEx() packs them, and look at device memory through standin_cuda_view(). The order of their accesses is
 * not checked.
 */
#include "tests/standin/cuda/driver.h"
#include "tests/standin/cuda/standin.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMETERS = 32 << 10 };

struct host_kernel {
  const char *name;
  void (*play)(const void *parameters);
};

struct host_launch {
  void (*play)(const void *parameters);
  _Alignas(16) char parameters[];
};

static struct host_kernel host_kernels[1024];
static unsigned host_kernel_count;

CUDA_API CUresult standin_cuda_host_kernel(CUfunction *function, const char *name,
                                           void (*play)(const void *parameters)) {
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  standin_lock();
  if (host_kernel_count < sizeof host_kernels / sizeof *host_kernels) {
    host_kernels[host_kernel_count] = (struct host_kernel){name, play};
    *function = (CUfunction)&host_kernels[host_kernel_count++];
    result = CUDA_SUCCESS;
  }
  standin_unlock();
  return result;
}

static const struct host_kernel *host_kernel_of(CUfunction function) {
  const struct host_kernel *k = (const struct host_kernel *)function;
  standin_lock();
  const bool known = k >= host_kernels && k < host_kernels + host_kernel_count;
  standin_unlock();
  return known ? k : NULL;
}

static void play_kernel(void *launch) {
  const struct host_launch *l = launch;
  l->play(l->parameters);
}

/* Finds the buffer of parameters; NULL if it is not packed. */
static const void *packed(void **extra, size_t *bytes) {
  const void *buffer = NULL;
  for (*bytes = 0; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2)
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      *bytes = *(size_t *)extra[1];
  return buffer;
}

/* Other kernels are launched without attributes alone. */
CUDA_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
  const struct host_kernel *k = host_kernel_of(function);
  if (config->numAttrs)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (!k)
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                          config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, parameters,
                          extra);
  size_t bytes;
  const void *buffer = packed(extra, &bytes);
  if (!buffer || bytes > MOST_PARAMETERS)
    return CUDA_ERROR_INVALID_VALUE;
  struct host_launch *l = aligned_alloc(16, (sizeof *l + bytes + 15) / 16 * 16);
  if (!l)
    return CUDA_ERROR_OUT_OF_MEMORY;
  l->play = k->play;
  memcpy(l->parameters, buffer, bytes);
  return standin_cuda_launch(config->hStream, k->name, play_kernel, free, l, NULL, 0);
}
