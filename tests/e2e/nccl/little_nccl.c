/* SPDX-License-Identifier: BSD-3-Clause
 * A little NCCL, which prints on stderr which copy (COPY, a string) was called. LITTLE_ASKS=PATH: while it is loaded,
 * it opens that library and asks it for a function, like a library that wraps another one.
 */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static void say(const char *function) { fprintf(stderr, "little: %s %s\n", function, COPY); }

EXPORT ncclResult_t ncclGroupStart(void); /* NCCL's header has no prototype of these */
EXPORT ncclResult_t ncclGroupStart(void) {
  say("start");
  return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void);
EXPORT ncclResult_t ncclGroupEnd(void) { return ncclSuccess; }

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, cudaStream_t stream) {
  (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)stream;
  return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result) {
  (void)result;
  say("words");
  return COPY;
}

__attribute__((constructor)) static void ask(void) {
  const char *path = getenv("LITTLE_ASKS");
  void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
  if (path && !(library && dlsym(library, "ncclGroupStart")))
    fprintf(stderr, "little: %s has no ncclGroupStart\n", path);
}
