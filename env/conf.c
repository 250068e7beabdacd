/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/conf.h"

#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int version_code;

void tagc_conf_set_version(int version) { atomic_store(&version_code, version); }

/* From 2.23 on NCCL knows NCCL_CONF_FILE. From 2.30 on it takes the user's home from HOME, and removes a carriage
 * return at the end of a line. */
static bool has_version(int least) {
  const int version = atomic_load(&version_code);
  return version == 0 || version >= least;
}

enum { NAMES_FILE = 22304, TAKES_HOME = 23000 };

/* A line is NAME=value, without spaces around the sign. A line that begins with '#' is a comment. */
static bool read_conf(const char *path, const char *variable, char *value, size_t size) {
  const size_t length = strlen(variable);
  FILE *file = fopen(path, "re");
  char line[2048];
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    const size_t end = strlen(line);
    if (has_version(TAKES_HOME) && end > 0 && line[end - 1] == '\r')
      line[end - 1] = '\0';
    found = strncmp(line, variable, length) == 0 && line[length] == '=';
  }
  if (file)
    fclose(file);
  if (found)
    snprintf(value, size, "%s", line + length + 1);
  return found;
}

static char home[PATH_MAX]; /* "": none */

/* The home that the system knows. NCCL asks for it once, too: a network may have to answer. */
static void find_home(void) {
  char room[4096];
  struct passwd user, *found = NULL;
  if (getpwuid_r(getuid(), &user, room, sizeof room, &found) == 0 && found && found->pw_dir &&
      snprintf(home, sizeof home, "%s", found->pw_dir) >= (int)sizeof home)
    home[0] = '\0';
}

static const char *users_home(void) {
  static pthread_once_t asked = PTHREAD_ONCE_INIT;
  if (has_version(TAKES_HOME))
    return getenv("HOME");
  pthread_once(&asked, find_home);
  return home[0] ? home : NULL;
}

/* The path of the user's file; false: none. */
static bool users_conf(char path[PATH_MAX]) {
  const char *named = has_version(NAMES_FILE) ? getenv("NCCL_CONF_FILE") : NULL;
  if (named && *named)
    return snprintf(path, PATH_MAX, "%s", named) < PATH_MAX;
  const char *folder = users_home();
  return folder && snprintf(path, PATH_MAX, "%s/.nccl.conf", folder) < PATH_MAX;
}

bool tagc_conf_find(const char *variable, char *value, size_t size) {
  const char *given = getenv(variable);
  if (given) {
    snprintf(value, size, "%s", given);
    return true;
  }
  char path[PATH_MAX];
  return (users_conf(path) && read_conf(path, variable, value, size)) ||
         read_conf("/etc/nccl.conf", variable, value, size);
}

bool tagc_conf_set(const char *variable, const char *value) { return setenv(variable, value, 0) == 0; }
