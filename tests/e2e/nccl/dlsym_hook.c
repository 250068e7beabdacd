/* SPDX-License-Identifier: BSD-3-Clause
 * Another preloaded library, which wraps dlsym itself as tools for CUDA do. It wraps ncclReduceScatter for callers that
 * ask a handle for it, and prints the number of its calls at exit. HOOK_FORWARD selects how it forwards: "dlvsym" to
 * the C library's dlsym, "next" to the next library's.
 */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef void *dlsym_function(void *handle, const char *name);

static int reduce_scatters;
static __typeof__(&ncclReduceScatter) real_reduce_scatter;

static ncclResult_t reduce_scatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t comm, cudaStream_t stream) {
  reduce_scatters++;
  return real_reduce_scatter(send, recv, count, type, op, comm, stream);
}

static dlsym_function *next_dlsym(void) {
  static dlsym_function *next;
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
  for (int i = 0; i < 3 && !next; i++)
    next = (dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  const char *how = getenv("HOOK_FORWARD");
  if (how && strcmp(how, "next") == 0)
    return (dlsym_function *)next(RTLD_NEXT, "dlsym");
  return next;
}

EXPORT void *dlsym(void *restrict handle, const char *restrict name) {
  dlsym_function *next = next_dlsym();
  if (strcmp(name, "ncclReduceScatter") == 0 && handle != RTLD_NEXT && handle != RTLD_DEFAULT) {
    void *function = next(handle, name);
    if (function)
      real_reduce_scatter = (__typeof__(&ncclReduceScatter))function;
    return function ? (void *)&reduce_scatter : NULL;
  }
  return next(handle, name); /* a jump, so RTLD_NEXT still refers to the caller */
}

__attribute__((destructor)) static void say(void) {
  if (reduce_scatters)
    fprintf(stderr, "hook: reduce_scatters=%d\n", reduce_scatters);
}
