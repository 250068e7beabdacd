/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels of programs do not run, but for that of played.c: a launch is refused, and says the kernel's name. nvcc's
 * code registers each kernel at the start of its library, and launches it by the address of a function of the host. A
 * program may play a kernel by a function of its own (cudaStandinPlays), which cuLaunchKernelEx() then calls.
 */
#include "tests/standin/cuda/standin.h"
#include "tests/standin/cudart/runtime.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct kernel {
  const void *stub;
  const char *name;    /* in nvcc's code, forever */
  CUfunction function; /* the driver's, of a kernel that a program plays */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct kernel *kernels;
static size_t count, room;

/* -- registration -------------------------------------------------------------------------------------------------- */
CUDART_API void **__cudaRegisterFatBinary(void *image) {
  static void *handle;
  (void)image;
  return &handle;
}

CUDART_API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
CUDART_API void __cudaUnregisterFatBinary(void **handle) { (void)handle; }

/* Without memory the kernel stays nameless. */
static void remember_kernel(struct kernel kernel) {
  pthread_mutex_lock(&mutex);
  if (count == room) {
    const size_t more = room ? 2 * room : 1024;
    struct kernel *moved = realloc(kernels, more * sizeof *moved);
    kernels = moved ? moved : kernels;
    room = moved ? more : room;
  }
  if (count < room)
    kernels[count++] = kernel;
  pthread_mutex_unlock(&mutex);
}

CUDART_API void __cudaRegisterFunction(void **handle, const char *stub, char *device_stub, const char *name,
                                       int threads, void *thread_id, void *block_id, void *block, void *grid,
                                       int *warps) {
  (void)handle, (void)device_stub, (void)threads, (void)thread_id, (void)block_id, (void)block, (void)grid, (void)warps;
  remember_kernel((struct kernel){stub, name, NULL});
}

CUDART_API cudaError_t cudaStandinPlays(const void *stub, const char *name, void (*play)(const void *parameters)) {
  struct kernel kernel = {.stub = stub, .name = name};
  const cudaError_t error = cudart_note(standin_cuda_host_kernel(&kernel.function, name, play));
  if (error == cudaSuccess)
    remember_kernel(kernel);
  return error;
}

CUDART_API void __cudaRegisterVar(void **handle, char *variable, char *device_variable, const char *name, int external,
                                  size_t bytes, int constant, int global) {
  (void)handle, (void)variable, (void)device_variable, (void)name, (void)external, (void)bytes, (void)constant,
    (void)global;
}

/* -- launches ------------------------------------------------------------------------------------------------------ */
static __thread struct {
  cudart_dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} configuration;

CUDART_API unsigned int __cudaPushCallConfiguration(cudart_dim3 grid, cudart_dim3 block, size_t shared,
                                                    cudaStream_t stream) {
  configuration.grid = grid;
  configuration.block = block;
  configuration.shared = shared;
  configuration.stream = stream;
  return 0;
}

CUDART_API cudaError_t __cudaPopCallConfiguration(cudart_dim3 *grid, cudart_dim3 *block, size_t *shared, void *stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *(cudaStream_t *)stream = configuration.stream;
  return cudaSuccess;
}

static struct kernel kernel_of_stub(const void *stub) {
  struct kernel kernel = {.stub = stub, .name = "a kernel without a name"};
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < count; i++)
    if (kernels[i].stub == stub)
      kernel = kernels[i];
  pthread_mutex_unlock(&mutex);
  return kernel;
}

CUDART_API cudaError_t cudaLaunchKernel(const void *stub, cudart_dim3 grid, cudart_dim3 block, void **parameters,
                                        size_t shared, cudaStream_t stream) {
  const char *name = kernel_of_stub(stub).name;
  (void)grid, (void)block, (void)shared;
  return cudart_plays(name) ? cudart_play(name, parameters, stream) : cudart_refuse(name);
}

CUDART_API cudaError_t cudaLaunchCooperativeKernel(const void *stub, cudart_dim3 grid, cudart_dim3 block,
                                                   void **parameters, size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(stub, grid, block, parameters, shared, stream);
}

CUDART_API cudaError_t cudaGetFuncBySymbol(CUfunction *function, const void *stub) {
  const struct kernel kernel = kernel_of_stub(stub);
  *function = kernel.function;
  return kernel.function ? cudaSuccess : cudart_refuse(kernel.name);
}

/* A kernel's handle is its stub. */
CUDART_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *stub) {
  *kernel = (cudaKernel_t)(uintptr_t)stub;
  return cudaSuccess;
}

CUDART_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, cudart_dim3 grid, cudart_dim3 block, void **parameters,
                                          size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, parameters, shared, stream);
}
