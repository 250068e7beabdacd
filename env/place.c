/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tagc_place_self(char self[PATH_MAX]) {
  ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);
  self[n > 0 ? n : 0] = '\0';
  char *slash = strrchr(self, '/');
  if (slash)
    *slash = '\0';
}

static bool is_library_there(const char *folder, const char *rest, char library[PATH_MAX]) {
  char path[2 * PATH_MAX], real[PATH_MAX];
  if (!*folder || (size_t)snprintf(path, sizeof path, "%s/%s/libtagc-preload.so", folder, rest) >= sizeof path ||
      !realpath(path, real))
    return false;
  memcpy(library, real, PATH_MAX);
  return true;
}

/* The relative path from `from` to `to`, two absolute folders: "../lib". False: does not fit. */
static bool relative(const char *from, const char *to, char *way, size_t size) {
  size_t common = 0, used = 0;
  for (size_t i = 0;; i++) {
    bool from_ends = !from[i] || from[i] == '/', to_ends = !to[i] || to[i] == '/';
    if (from_ends && to_ends)
      common = i;
    if (!from[i] || !to[i] || from[i] != to[i])
      break;
  }
  for (const char *c = from + common; *c; c++)
    if (*c == '/' && c[1] && c[1] != '/') {
      if (used + 4 > size)
        return false;
      used += (size_t)snprintf(way + used, size - used, "../");
    }
  return (size_t)snprintf(way + used, size - used, "%s", to + common + strspn(to + common, "/")) < size - used;
}

bool tagc_place_library(const char *self, const char *bindir, const char *libdir, char library[PATH_MAX],
                        const char **how) {
  char way[PATH_MAX];
  *how = "beside this program";
  if (is_library_there(self, ".", library) ||
      (relative(bindir, libdir, way, sizeof way) && is_library_there(self, way, library)) ||
      is_library_there(self, "../lib", library))
    return true;
  *how = "installed";
  return is_library_there(libdir, ".", library);
}
