/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "env/log.h"
#include "interpose/library.h"

_Atomic(void *) tagc_real_functions[TAGC_ENTRY_COUNT];
_Thread_local int tagc_real_depth __attribute__((tls_model("initial-exec")));

static _Atomic(void *) recorded[TAGC_ENTRY_COUNT];

static const struct {
  const char *name;
  bool exported;
} entries[] = {
#define ENTRY(name) {#name, true},
#define USED(name) {#name, false},
#include "interpose/entries.def"
};

enum tagc_entry tagc_real_find_entry(const char *name)
{
  if (strncmp(name, "nccl", 4) != 0)
    return TAGC_ENTRY_COUNT;
  for (int i = 0; i < TAGC_ENTRY_COUNT; i++)
    if (entries[i].exported && strcmp(entries[i].name, name) == 0)
      return (enum tagc_entry)i;
  return TAGC_ENTRY_COUNT;
}

TAGC_BEFORE_SANITIZERS tagc_dlsym_function *tagc_real_dlsym(void)
{
  static _Atomic(tagc_dlsym_function *) real;
  tagc_dlsym_function *found = atomic_load_explicit(&real, memory_order_relaxed);
  if (found)
    return found;
  static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
  for (size_t i = 0; i < sizeof versions / sizeof *versions && !found; i++)
    found = (tagc_dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  atomic_store_explicit(&real, found, memory_order_relaxed);
  return found;
}

bool tagc_real_record(enum tagc_entry entry, void *function)
{
  void *known = atomic_load(&tagc_real_functions[entry]);
  if (!known && atomic_compare_exchange_strong(&recorded[entry], &known, function))
    known = function;
  if (known != function)
    tagc_log(TAGC_LOG_WARN, "interpose", "%s: a second NCCL library is in this process; its calls are not intercepted",
             entries[entry].name);
  return known == function;
}

/* The function in a library that is loaded already; NULL if it is not. The extra reference is never dropped: the
 * pointer must stay valid for as long as the process lives. */
static void *in_loaded_library(const char *path, const char *name)
{
  void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  return handle ? tagc_real_dlsym()(handle, name) : NULL;
}

/* The library itself must not be found by its own search. */
static bool is_ours(const void *function)
{
  Dl_info found, self;
  return function && dladdr(function, &found) && dladdr((const void *)&tagc_real_find_entry, &self) &&
         found.dli_fbase == self.dli_fbase;
}

static void *look_for(enum tagc_entry entry, const void *caller)
{
  const char *name = entries[entry].name, *path = tagc_library_options()->nccl;
  if (*path) {
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    void *function = handle ? tagc_real_dlsym()(handle, name) : NULL;
    if (!handle)
      tagc_log(TAGC_LOG_ERROR, "interpose", "TAGC_NCCL=%s: %s", path, dlerror());
    return is_ours(function) ? NULL : function;
  }
  void *function = atomic_load(&recorded[entry]);
  if (function)
    return function;
  function = tagc_real_dlsym()(RTLD_NEXT, name);
  if (function && !is_ours(function))
    return function;
  Dl_info info;
  if (caller && dladdr(caller, &info) && info.dli_fname) {
    function = in_loaded_library(info.dli_fname, name);
    if (function && !is_ours(function))
      return function;
  }
  function = in_loaded_library("libnccl.so.2", name);
  return is_ours(function) ? NULL : function;
}

int tagc_real_version(const void *caller)
{
  int version = 0;
  __typeof__(&ncclGetVersion) get = (__typeof__(&ncclGetVersion))look_for(TAGC_ENTRY_ncclGetVersion, caller);
  tagc_real_depth++;
  if (get && get(&version) != ncclSuccess)
    version = 0;
  tagc_real_depth--;
  return version;
}

/* A function is missing: from the NCCL that is there, or because there is none. */
static void tell_missing(enum tagc_entry entry, const void *caller)
{
  int version = tagc_real_version(caller);
  if (version)
    tagc_log(TAGC_LOG_ERROR, "interpose", "%s: the NCCL of this process (%d.%d.%d) does not have it: calls of it fail",
             entries[entry].name, version / 10000, version / 100 % 100, version % 100);
  else
    tagc_log(TAGC_LOG_ERROR, "interpose", "%s: no NCCL library that has it was found in this process",
             entries[entry].name);
}

void *tagc_real_resolve(enum tagc_entry entry, const void *caller)
{
  static atomic_flag told[TAGC_ENTRY_COUNT];
  int saved = errno;
  void *function = look_for(entry, caller);
  if (function)
    atomic_store_explicit(&tagc_real_functions[entry], function, memory_order_release);
  else if (!atomic_flag_test_and_set(&told[entry]))
    tell_missing(entry, caller);
  errno = saved;
  return function;
}

bool tagc_real_is_on_host(void)
{
  Dl_info info;
  void *function = TAGC_REAL(ncclReduceScatter, NULL);
  if (!function || !dladdr(function, &info) || !info.dli_fname)
    return false;
  return in_loaded_library(info.dli_fname, "ncclStandinHostMemory") != NULL;
}
