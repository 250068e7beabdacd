/* SPDX-License-Identifier: BSD-3-Clause
 * A program that opens libraries and calls their functions, in the order of its arguments:
 *
 *   little_user HOW:PATH...
 *
 * open        dlopen(PATH, RTLD_LOCAL), and nothing more
 * global      the same with RTLD_GLOBAL
 * deepbind    the same with RTLD_DEEPBIND
 * call        NAME instead of PATH: a function of the library that `open` or `deepbind` opened last
 * nccl        an NCCL: starts and ends a group, by functions that it asks for by name
 * probe       an NCCL: asks it for a function, and closes it
 * default     NAME instead of PATH: asks dlsym(RTLD_DEFAULT), which must find it or report an error
 *
 * Linked with little_nccl.c it is a program that contains and exports an NCCL.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why ? why : "no reason");
  return 1;
}

static int call(void *library, const char *name) {
  int (*function)(void) = (int (*)(void))dlsym(library, name);
  if (!function)
    return fail(name, dlerror());
  function();
  return 0;
}

static int ask_default(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  const char *why = dlerror();
  fprintf(stderr, "little: default %s\n", found ? "found" : why ? "not found" : "neither found nor missed");
  return 0;
}

static int run(const char *how, const char *path) {
  static void *last;
  if (strcmp(how, "call") == 0)
    return call(last, path);
  if (strcmp(how, "default") == 0)
    return ask_default(path);
  int flags = strcmp(how, "global") == 0     ? RTLD_NOW | RTLD_GLOBAL
              : strcmp(how, "deepbind") == 0 ? RTLD_NOW | RTLD_DEEPBIND
                                             : RTLD_NOW;
  void *library = dlopen(path, flags);
  if (!library)
    return fail(path, dlerror());
  if (strcmp(how, "open") == 0 || strcmp(how, "deepbind") == 0)
    last = library;
  if (strcmp(how, "nccl") == 0)
    return call(library, "ncclGroupStart") || call(library, "ncclGroupEnd");
  if (strcmp(how, "probe") == 0)
    return dlsym(library, "ncclGroupStart") && dlclose(library) == 0 ? 0 : fail(path, dlerror());
  return 0;
}

int main(int argc, char **argv) {
  int bad = 0;
  for (int i = 1; i < argc && !bad; i++) {
    char *path = strchr(argv[i], ':');
    if (!path)
      return fail(argv[i], "not HOW:PATH");
    *path++ = 0;
    bad = run(argv[i], path);
  }
  return bad;
}
