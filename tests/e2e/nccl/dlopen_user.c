/* SPDX-License-Identifier: BSD-3-Clause
 * dlopen() must do the same for a program with our library as without. Compiled twice: as the program, and with
 * -DLIBRARY as the library that it opens; both have a function of the same name.
 *
 *   dlopen_user LIBRARY [deep]
 *
 * deep    RTLD_DEEPBIND: a library that imports nothing of NCCL is bound to itself first, as requested.
 * In both cases dlopen() searches the program's own RUNPATH, which has the stand-in, for a name without a slash.
 */
#include <dlfcn.h>
#include <stdio.h>

int who_answers(void);
int ask_the_library(void);

#ifdef LIBRARY

int who_answers(void) { return 2; }
int ask_the_library(void) { return who_answers(); }

#else

int who_answers(void) { return 1; }

int main(int argc, char **argv) {
  int deep = argc > 2, wanted = deep ? 2 : 1;
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | (deep ? RTLD_DEEPBIND : 0)) : NULL;
  int (*ask)(void) = library ? (int (*)(void))dlsym(library, "ask_the_library") : NULL;
  void *nccl = dlopen("libnccl.so", RTLD_NOW);
  printf("%d answers, libnccl.so is %s\n", ask ? ask() : 0,
         nccl && dlsym(nccl, "ncclStandinHostMemory") ? "that of the RUNPATH" : "another one, or not found");
  return !ask || ask() != wanted || !nccl || !dlsym(nccl, "ncclStandinHostMemory");
}

#endif
