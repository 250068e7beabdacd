/* SPDX-License-Identifier: BSD-3-Clause
 * Has NCCL open this library as its profiler plugin, unless the user has another one.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "env/log.h"
#include "env/conf.h"
#include "interpose/nccl/process.h"
#include "interpose/nccl/real.h"
#include "interpose/profiler/profiler.h"
#include "interpose/profiler/versions.h"
#include "interpose/trace/trace.h"

#define VARIABLE "NCCL_PROFILER_PLUGIN"
enum {
  FIRST_VERSION = 22304, /* of NCCL with the interface */
  PATH_ROOM = 255        /* NCCL's for the name of a plugin */
};
#define SHARED_MEMORY "/dev/shm"
#define SHARED_ROOM (UINT64_C(1) << 30)

atomic_bool tagc_profiler_is_on;

static bool is_wanted(const struct tagc_options *options) {
  return options->profiler == TAGC_PROFILER_ON ||
         (options->profiler == TAGC_PROFILER_AUTO && options->mode == TAGC_MODE_OBSERVE);
}

/* Only a user who has asked for it by name hears of it as a warning. */
static void say_left_out(const char *why, const char *which) {
  const bool asked = tagc_library_options()->profiler == TAGC_PROFILER_ON;
  tagc_log(asked ? TAGC_LOG_WARN : TAGC_LOG_INFO, "interpose",
           "TAGC_PROFILER: the trace has no times of NCCL's kernels and network: %s%s", why, which);
}

/* ---- plugins of the user ----------------------------------------------------------------------------------------- */

/* Has the library a profiler? NCCL is about to open it as well: it stays open, so that its constructors run once. */
static bool has_profiler(const char *library) {
  char name[] = "ncclProfiler_v0";
  void *handle = *library ? tagc_linker_next_dlopen()(library, RTLD_NOW | RTLD_LOCAL) : NULL;
  for (char version = '1'; handle && version <= '9'; version++) {
    name[sizeof name - 2] = version;
    if (tagc_linker_dlsym()(handle, name))
      return true;
  }
  return false;
}

/* NCCL looks for plugins along its own search path, which may have its folder. */
static bool is_beside_nccl(const struct tagc_nccl *nccl, const char *library) {
  char path[PATH_MAX];
  const char *slash = strrchr(nccl->library.name, '/');
  return slash &&
         snprintf(path, sizeof path, "%.*s/%s", (int)(slash - nccl->library.name), nccl->library.name, library) <
           (int)sizeof path &&
         has_profiler(path);
}

/* Network plugins may have a profiler inside, which NCCL takes if there is no other one. */
static bool network_has_profiler(const struct tagc_nccl *nccl, char names[PATH_MAX]) {
  char path[PATH_MAX + 32], *rest = NULL;
  if (!tagc_conf_find("NCCL_NET_PLUGIN", names, PATH_MAX) || !*names)
    return has_profiler(strcpy(names, "libnccl-net.so")) || is_beside_nccl(nccl, names);
  for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
    snprintf(path, sizeof path, "libnccl-net-%s.so", name);
    if (has_profiler(name) || has_profiler(path)) {
      memmove(names, name, strlen(name) + 1);
      return true;
    }
  }
  return false;
}

/* Would NCCL find a plugin without us? */
static bool user_has_one(const struct tagc_nccl *nccl) {
  static const char by_itself[] = "libnccl-profiler.so";
  char names[PATH_MAX];
  if (has_profiler(by_itself) || is_beside_nccl(nccl, by_itself))
    say_left_out("NCCL has a profiler of its own: ", by_itself);
  else if (network_has_profiler(nccl, names))
    say_left_out("NCCL has a profiler in its network plugin: ", names);
  else
    return false;
  return true;
}

/* ---- ours -------------------------------------------------------------------------------------------------------- */

/* The path of this library, whatever name it was preloaded by. */
static bool own_path(char path[PATH_MAX]) {
  struct tagc_object us;
  if (!tagc_linker_find(&ncclProfiler_v6, &us) || !realpath(us.name, path))
    say_left_out("this library's file is not where it was", "");
  else if (strlen(path) >= PATH_ROOM)
    say_left_out("NCCL has no room for the path of this library: ", path);
  else
    return true;
  return false;
}

/* To show its kernels, NCCL needs its proxy, which takes 33 MB of shared memory a rank. Without a network it would not
 * have a proxy, and if there is no room, it crashes (github.com/NVIDIA/nccl/pull/2326). Containers often have 64 MB. */
static bool proxy_has_room(const struct tagc_nccl *nccl) {
  struct statvfs memory;
  if (nccl->on_host ||
      (statvfs(SHARED_MEMORY, &memory) == 0 && (uint64_t)memory.f_bavail * (uint64_t)memory.f_frsize >= SHARED_ROOM))
    return true;
  say_left_out(SHARED_MEMORY " has less than 1 GiB free, and NCCL may not find room for its proxy", "");
  return false;
}

static void offer(const struct tagc_nccl *nccl) {
  char path[PATH_MAX], given[PATH_MAX];
  const int version = tagc_real_version(nccl);
  if (nccl->on_rocm) {
    say_left_out("RCCL's are not read", "");
  } else if (version && version < FIRST_VERSION) {
    say_left_out("NCCL shows them from 2.23.4 on", "");
  } else if (proxy_has_room(nccl) && own_path(path)) {
    const bool set = tagc_conf_find(VARIABLE, given, sizeof given);
    if (set && strcmp(given, path) != 0) { /* it may be ours, of the process that has started this one */
      say_left_out("the user has set " VARIABLE " to ", given);
    } else if (!set && user_has_one(nccl)) {
      return;
    } else if (!set && !tagc_conf_set(VARIABLE, path)) {
      say_left_out("no memory for " VARIABLE, "");
    } else {
      atomic_store(&tagc_profiler_is_on, true);
      tagc_log(
        TAGC_LOG_INFO, "interpose",
        "TAGC_PROFILER: NCCL's profiler plugin is this library, for the times of its kernels and network: " VARIABLE
        "=%s",
        path);
    }
  }
}

static pthread_mutex_t offer_lock = PTHREAD_MUTEX_INITIALIZER;

/* A lock, and no pthread_once(): another thread must not make a communicator before the variable is set. */
void tagc_profiler_offer(const struct tagc_nccl *nccl) {
  static bool offered;
  const int saved = errno;
  if (!tagc_trace_on() || !is_wanted(tagc_library_options()))
    return;
  pthread_mutex_lock(&offer_lock);
  if (!offered)
    offer(nccl);
  offered = true;
  pthread_mutex_unlock(&offer_lock);
  errno = saved;
}
