/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "env/log.h"

enum { LEAST_VERSION = 11020 }; /* stream-ordered memory */

static struct tagc_cuda_driver driver;
static bool there;
static char reason[160];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Stores the object pointer as a function pointer, as POSIX allows. */
static bool find_driver_function(void *library, const char *symbol, void *function, size_t size) {
  void *found = dlsym(library, symbol);
  if (size == sizeof found)
    *(void **)function = found;
  if (!found)
    snprintf(reason, sizeof reason, "the CUDA driver lacks %s: it is older than 11.2", symbol);
  return found != NULL;
}

static void find_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int version = 0;
  if (!library)
    library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    snprintf(reason, sizeof reason, "there is no CUDA driver: %s", dlerror());
    return;
  }
  bool good = true;
#define FIND(name, symbol, parameters) \
  good = good && find_driver_function(library, #symbol, (void *)&driver.name, sizeof driver.name);
#define FIND_NEWER(name, symbol, parameters) driver.name = (__typeof__(driver.name))(uintptr_t)dlsym(library, #symbol);
  TAGC_CUDA_FUNCTIONS(FIND)
  TAGC_CUDA_NEWER_FUNCTIONS(FIND_NEWER)
#undef FIND
#undef FIND_NEWER
  if (!good)
    return;
  driver.plays_kernels = dlsym(library, "standin_cuda_launch") != NULL;
  int (*wants_self_test)(void) = (int (*)(void))(uintptr_t)dlsym(library, "standin_cuda_wants_self_test");
  driver.needs_no_self_test = wants_self_test && !wants_self_test();
  const int error = driver.init(0);
  if (error)
    tagc_cuda_words(error, "cuInit", reason, sizeof reason);
  else if (driver.driver_version(&version) || version < LEAST_VERSION)
    snprintf(reason, sizeof reason, "the CUDA driver is of %d.%d: it is older than 11.2", version / 1000,
             version % 1000 / 10);
  else
    there = true;
}

const struct tagc_cuda_driver *tagc_cuda_driver(const char **why) {
  pthread_once(&once, find_driver);
  if (why)
    *why = reason;
  return there ? &driver : NULL;
}

/* Errors of kernels reach the next calls, whichever these are. */
static bool is_of_earlier_work(int error) {
  return error == 700 || error == 702 || error == 710 || (error >= 714 && error <= 719);
}

const char *tagc_cuda_words(int error, const char *call, char *text, size_t size) {
  const char *name = NULL;
  if (!driver.error_name || driver.error_name(error, &name) || !name)
    name = "an unknown error";
  snprintf(text, size, "%s: %s (%d)%s", call, name, error,
           is_of_earlier_work(error) ? ": by this or by earlier work on the GPU, the program's included" : "");
  return text;
}

/* True if the error must be logged: each call's errors once; an error of earlier work, which later calls get, once. */
static bool is_new(int error, const char *call) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static struct {
    int error;
    const char *call;
  } logged[64]; /* further ones are not logged */
  static size_t count;
  bool is_known = false;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count && !is_known; i++)
    is_known = logged[i].error == error && (is_of_earlier_work(error) || strcmp(logged[i].call, call) == 0);
  const bool log_now = !is_known && count < sizeof logged / sizeof *logged;
  if (log_now) {
    logged[count].error = error;
    logged[count++].call = call;
  }
  pthread_mutex_unlock(&lock);
  return log_now;
}

bool tagc_cuda_good(int error, const char *call) {
  char text[160];
  if (error && error != TAGC_CUDA_DEINITIALIZED && is_new(error, call))
    tagc_log(TAGC_LOG_ERROR, "kernels", "%s", tagc_cuda_words(error, call, text, sizeof text));
  return !error;
}
