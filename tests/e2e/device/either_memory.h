/* SPDX-License-Identifier: BSD-3-Clause
 * Memory and streams of a test program that runs on host memory or on a GPU. The ranks of a host take its devices in
 * turn.
 *
 * Threads  Single-threaded. Failure: ends the program.
 */
#ifndef TESTS_E2E_EITHER_MEMORY_H
#define TESTS_E2E_EITHER_MEMORY_H

#include <dlfcn.h>

#include "tests/e2e/harness.h"

enum { STREAMS = 2 };

/* The driver's functions, or their counterparts on the host. */
static struct {
  void *(*alloc)(size_t bytes);
  void (*copy)(void *to, const void *from, size_t bytes, bool to_device); /* after all streams have finished */
  void (*synchronize)(void);
  cudaStream_t stream[STREAMS];
} memory;

static void *alloc_host(size_t bytes) { return calloc(1, bytes); }

static void copy_host(void *to, const void *from, size_t bytes, bool to_device) {
  (void)to_device;
  memcpy(to, from, bytes);
}

static void synchronize_host(void) {}

static struct {
  int (*alloc)(uint64_t *memory, size_t bytes);
  int (*put)(uint64_t to, const void *from, size_t bytes);
  int (*get)(void *to, uint64_t from, size_t bytes);
  int (*synchronize)(void);
} cuda;

static void need(int error, const char *what) {
  if (error) {
    fprintf(stderr, "%s: CUDA error %d\n", what, error);
    exit(1);
  }
}

static void *alloc_cuda(size_t bytes) {
  uint64_t memory_;
  need(cuda.alloc(&memory_, bytes), "cuMemAlloc");
  return (void *)(uintptr_t)memory_;
}

static void copy_cuda(void *to, const void *from, size_t bytes, bool to_device) {
  need(to_device ? cuda.put((uint64_t)(uintptr_t)to, from, bytes) : cuda.get(to, (uint64_t)(uintptr_t)from, bytes),
       "a copy");
  /* From pageable memory it may still be under way, on the default stream, which other streams do not wait for. */
  need(cuda.synchronize(), "cuCtxSynchronize");
}

static void synchronize_cuda(void) { need(cuda.synchronize(), "cuCtxSynchronize"); }

static void *function(void *driver, const char *name) {
  void *found = dlsym(driver, name);
  if (!found) {
    fprintf(stderr, "no %s\n", name);
    exit(1);
  }
  return found;
}

/* Makes the primary context current, as the CUDA runtime does for a program. */
static void use_cuda(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL, *stream = NULL;
  if (!driver) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  int (*init)(unsigned), (*retain)(void **, int), (*set)(void *), (*create)(void **, unsigned), (*count)(int *);
  const char *local = getenv("LOCAL_RANK");
  int devices = 0;
  *(void **)&init = function(driver, "cuInit");
  *(void **)&retain = function(driver, "cuDevicePrimaryCtxRetain");
  *(void **)&set = function(driver, "cuCtxSetCurrent");
  *(void **)&create = function(driver, "cuStreamCreate");
  *(void **)&cuda.alloc = function(driver, "cuMemAlloc_v2");
  *(void **)&cuda.put = function(driver, "cuMemcpyHtoD_v2");
  *(void **)&cuda.get = function(driver, "cuMemcpyDtoH_v2");
  *(void **)&cuda.synchronize = function(driver, "cuCtxSynchronize");
  *(void **)&count = function(driver, "cuDeviceGetCount");
  need(init(0), "cuInit");
  need(count(&devices), "cuDeviceGetCount");
  need(retain(&context, (local ? atoi(local) : 0) % devices), "cuDevicePrimaryCtxRetain");
  need(set(context), "cuCtxSetCurrent");
  for (int i = 0; i < STREAMS; i++) {
    need(create(&stream, 1), "cuStreamCreate");
    memory.stream[i] = stream;
  }
  memory.alloc = alloc_cuda;
  memory.copy = copy_cuda;
  memory.synchronize = synchronize_cuda;
}

/* False: `where` is neither "host" nor "cuda". */
static bool use_memory(const char *where) {
  memory.alloc = alloc_host;
  memory.copy = copy_host;
  memory.synchronize = synchronize_host;
  if (strcmp(where, "cuda") == 0)
    use_cuda();
  return strcmp(where, "cuda") == 0 || strcmp(where, "host") == 0;
}

#endif
