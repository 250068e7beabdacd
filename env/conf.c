/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/conf.h"

#include <limits.h>
#include <pthread.h>
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

static char home_conf[PATH_MAX]; /* "": none */

/* NCCL asks the system for the home of the user, not HOME, and once: a network may have to answer. */
static void find_home_conf(void) {
  char room[4096];
  struct passwd user, *found = NULL;
  if (getpwuid_r(getuid(), &user, room, sizeof room, &found) == 0 && found && found->pw_dir &&
      snprintf(home_conf, sizeof home_conf, "%s/.nccl.conf", found->pw_dir) >= (int)sizeof home_conf)
    home_conf[0] = '\0';
}

/* The user's file; NULL: none. */
static const char *users_conf(void) {
  static pthread_once_t asked = PTHREAD_ONCE_INIT;
  const char *named = getenv("NCCL_CONF_FILE");
  if (named && *named)
    return named;
  pthread_once(&asked, find_home_conf);
  return home_conf[0] ? home_conf : NULL;
}

bool tagc_conf_find(const char *variable, char *value, size_t size) {
  const char *given = getenv(variable);
  if (given) {
    snprintf(value, size, "%s", given);
    return true;
  }
  const char *path = users_conf();
  return (path && read_conf(path, variable, value, size)) || read_conf("/etc/nccl.conf", variable, value, size);
}

bool tagc_conf_set(const char *variable, const char *value) { return setenv(variable, value, 0) == 0; }
