/* SPDX-License-Identifier: BSD-3-Clause
 * A program that is not linked with NCCL: it opens the library and asks it for functions by name, as Python's ctypes and
 * dlopen stubs do. Steps of like reduce-scatters, checked to be exact.
 *
 *   dlsym_user LIBRARY
 */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/rendezvous.h"

enum { N = 8192, STEPS = 8 };

#define FIND(name) __typeof__(&name) name##_ = (__typeof__(&name))dlsym(library, #name)

int main(int argc, char **argv)
{
  struct rendezvous r;
  char why[200];
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) {
    fprintf(stderr, "usage: dlsym_user LIBRARY (%s)\n", argc == 2 ? dlerror() : "no library given");
    return 2;
  }
  FIND(ncclGetUniqueId);
  FIND(ncclCommInitRank);
  FIND(ncclReduceScatter);
  FIND(ncclCommDestroy);
  ncclUniqueId id;
  ncclComm_t comm;
  if (dlsym(library, "ncclNoSuchFunction") || !dlerror()) {
    fprintf(stderr, "a name that is not there was found, or dlerror() is silent\n");
    return 1;
  }
  if (!rendezvous_from_env(&r, why, sizeof why) || (r.rank == 0 && ncclGetUniqueId_(&id) != ncclSuccess) ||
      !rendezvous_share(&r, &id, sizeof id, why, sizeof why) ||
      ncclCommInitRank_(&comm, r.nranks, id, r.rank) != ncclSuccess) {
    fprintf(stderr, "cannot start: %s\n", why);
    return 1;
  }
  float *send = calloc((size_t)N * (size_t)r.nranks, sizeof *send), *out = calloc(N, sizeof *out);
  bool good = true;
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < N * r.nranks; i += 64)
      send[i] = (float)(step + i / 64 % 7);
    good &= ncclReduceScatter_(send, out, N, ncclFloat, ncclSum, comm, NULL) == ncclSuccess;
    for (int i = 0; i < N; i++)
      good &= out[i] == (i % 64 ? 0 : (float)(r.nranks * (step + (r.rank * N + i) / 64 % 7)));
  }
  free(send);
  free(out);
  return good && ncclCommDestroy_(comm) == ncclSuccess ? 0 : 1;
}
