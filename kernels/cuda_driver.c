/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "env/log.h"

enum { LEAST_VERSION = 11020 };    /* stream-ordered memory */

static struct tagc_cuda_driver driver;
static bool there;
static char reason[160];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* An object pointer that is a function, as POSIX promises. */
static bool find(void *library, const char *symbol, void *function, size_t size)
{
  void *found = dlsym(library, symbol);
  if (size == sizeof found)
    *(void **)function = found;
  if (!found)
    snprintf(reason, sizeof reason, "the CUDA driver lacks %s: it is older than 11.2", symbol);
  return found != NULL;
}

static void look(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int version = 0;
  if (!library)
    library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    snprintf(reason, sizeof reason, "there is no CUDA driver: %s", dlerror());
    return;
  }
  bool good = true;
#define FIND(name, symbol, parameters) good = good && find(library, #symbol, (void *)&driver.name, sizeof driver.name);
  TAGC_CUDA_FUNCTIONS(FIND)
#undef FIND
  if (!good)
    return;
  driver.plays_kernels = dlsym(library, "standin_cuda_launch") != NULL;
  const int error = driver.init(0);
  if (error || driver.driver_version(&version) || version < LEAST_VERSION)
    snprintf(reason, sizeof reason, error ? "cuInit fails with %d" : "a CUDA driver of %d is too old: 11020 is needed",
             error ? error : version);
  else
    there = true;
}

const struct tagc_cuda_driver *tagc_cuda_driver(const char **why)
{
  pthread_once(&once, look);
  if (why)
    *why = reason;
  return there ? &driver : NULL;
}

bool tagc_cuda_good(int error, const char *call)
{
  static atomic_int told;          /* the last error that was told of */
  const char *name = NULL;
  if (!error)
    return true;
  if (atomic_exchange(&told, error) != error) {
    if (!there || driver.error_name(error, &name) || !name)
      name = "an unknown error";
    tagc_log(TAGC_LOG_ERROR, "kernels", "%s: %s (%d)", call, name, error);
  }
  return false;
}
