/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/read/paths.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/tagc-report/read/merge.h"

static const char no_memory[] = "no memory";

static bool add_path(struct tagc_paths *p, const char *folder, const char *name) {
  if (!TAGC_SUM_ROOM(p->paths, p->count) ||
      asprintf(&p->paths[p->count], "%s%s%s", folder ? folder : "", folder ? "/" : "", name) < 0)
    return false;
  p->count++;
  return true;
}

static int is_trace(const struct dirent *entry) {
  const size_t length = strlen(entry->d_name);
  return length > 6 && strcmp(entry->d_name + length - 6, ".trace") == 0;
}

/* Adds the traces in a folder, with that prefix or (NULL) all. */
static const char *add_folder(struct tagc_paths *p, const char *folder, const char *prefix) {
  const size_t length = prefix ? strlen(prefix) : 0;
  struct dirent **entries = NULL;
  const char *why = NULL;
  const int n = scandir(folder, &entries, is_trace, alphasort);
  if (n < 0)
    return strerror(errno);
  for (int i = 0; i < n; i++) {
    const char *name = entries[i]->d_name;
    const bool fits = !prefix || (strncmp(name, prefix, length) == 0 && name[length] == '-');
    if (fits && !why && !add_path(p, folder, name))
      why = no_memory;
    free(entries[i]);
  }
  free(entries);
  return why;
}

/* Adds PREFIX-*.trace for a value of TAGC_TRACE. */
static const char *add_prefix(struct tagc_paths *p, const char *word) {
  const char *slash = strrchr(word, '/'), *why = no_memory;
  char *folder = slash ? strndup(word, slash > word ? (size_t)(slash - word) : 1) : strdup(".");
  if (folder)
    why = access(folder, R_OK | X_OK) == 0 ? add_folder(p, folder, slash ? slash + 1 : word) : NULL;
  free(folder);
  return why;
}

const char *tagc_paths_add(struct tagc_paths *p, const char *word) {
  struct stat status;
  const size_t before = p->count;
  const char *why = NULL;
  if (stat(word, &status) == 0 && S_ISDIR(status.st_mode)) {
    why = add_folder(p, word, NULL);
    return why || p->count > before ? why : "no file in it ends with .trace";
  }
  if (access(word, F_OK) != 0 && errno == ENOENT)
    why = add_prefix(p, word);
  if (why || p->count > before)
    return why;
  return add_path(p, NULL, word) ? NULL : no_memory;
}

void tagc_paths_free(struct tagc_paths *p) {
  for (size_t i = 0; i < p->count; i++)
    free(p->paths[i]);
  free(p->paths);
  *p = (struct tagc_paths){NULL, 0};
}
