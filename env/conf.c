/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/conf.h"

#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line is NAME=value, without spaces around the sign. A line that begins with '#' is a comment. */
static bool read_conf(const char *path, const char *variable, char *value, size_t size) {
  const size_t length = strlen(variable);
  FILE *file = fopen(path, "re");
  char line[2048];
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    found = strncmp(line, variable, length) == 0 && line[length] == '=';
  }
  if (file)
    fclose(file);
  if (found)
    snprintf(value, size, "%s", line + length + 1);
  return found;
}

/* NCCL asks the system for the home of the user, not HOME. */
static bool users_conf(char *path, size_t size) {
  const char *named = getenv("NCCL_CONF_FILE");
  char room[4096];
  struct passwd user, *found = NULL;
  if (named && *named)
    return snprintf(path, size, "%s", named) < (int)size;
  return getpwuid_r(getuid(), &user, room, sizeof room, &found) == 0 && found && found->pw_dir &&
         snprintf(path, size, "%s/.nccl.conf", found->pw_dir) < (int)size;
}

bool tagc_conf_find(const char *variable, char *value, size_t size) {
  const char *given = getenv(variable);
  char path[PATH_MAX];
  if (given) {
    snprintf(value, size, "%s", given);
    return true;
  }
  return (users_conf(path, sizeof path) && read_conf(path, variable, value, size)) ||
         read_conf("/etc/nccl.conf", variable, value, size);
}

bool tagc_conf_set(const char *variable, const char *value) { return setenv(variable, value, 0) == 0; }
