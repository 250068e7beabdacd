/* SPDX-License-Identifier: BSD-3-Clause
 * The file that an argument means: a path, a program on PATH, or a library that the dynamic linker would find; for a
 * script its interpreter. Runs nothing.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "interpose/tagc-doctor/doctor.h"

enum { SCRIPTS_MAX = 4, HEAD_SIZE = 1024 };

const char *tagc_environment_value(char *const *environment, const char *name) {
  size_t length = strlen(name);
  for (; environment && *environment; environment++)
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
      return *environment + length + 1;
  return NULL;
}

static bool on_path(char *const *environment, const char *name, char *found, size_t size) {
  const char *list = tagc_environment_value(environment, "PATH");
  while (list) {
    size_t length = strcspn(list, ":");
    struct stat status;
    int n = snprintf(found, size, "%.*s%s%s", (int)length, list, length ? "/" : "", name);
    if (n > 0 && (size_t)n < size && access(found, X_OK) == 0 && stat(found, &status) == 0 && S_ISREG(status.st_mode))
      return true;
    list = list[length] ? list + length + 1 : NULL;
  }
  return false;
}

static bool find_given(struct tagc_findings *f, char *const *environment) {
  const char *how;
  if (strchr(f->given, '/'))
    return (size_t)snprintf(f->path, sizeof f->path, "%s", f->given) < sizeof f->path;
  if (on_path(environment, f->given, f->path, sizeof f->path))
    return true;
  if (access(f->given, F_OK) == 0)
    return (size_t)snprintf(f->path, sizeof f->path, "./%s", f->given) < sizeof f->path;
  return tagc_walk_look_up(&f->walk, f->given, -1, f->path, sizeof f->path, &how);
}

/* Copies the next word of a line at *at to `word`; false at the end of the line. */
static bool next_word(const char **at, char *word, size_t size) {
  *at += strspn(*at, " \t");
  size_t length = strcspn(*at, " \t\r\n");
  if (!length || length >= size)
    return false;
  memcpy(word, *at, length);
  word[length] = '\0';
  *at += length;
  return true;
}

/* The interpreter of a script that starts with `head`. If the path is too long for the first line, installers of Python
 * write "#!/bin/sh" and "'''exec' /path/python". */
static bool interpreter_of(const char *head, char *const *environment, char *interpreter, size_t size) {
  const char *at = head + 2, *second = strchr(head, '\n');
  char word[PATH_MAX];
  if (!next_word(&at, interpreter, size))
    return false;
  if (second && strncmp(second, "\n'''exec' ", 10) == 0) {
    second += 10;
    second += *second == '"';
    size_t length = strcspn(second, "\"\n") < strcspn(second, " \n") ? strcspn(second, "\"\n") : strcspn(second, " \n");
    return (size_t)snprintf(interpreter, size, "%.*s", (int)length, second) < size && length;
  }
  if (strcmp(tagc_base_name(interpreter), "env") != 0)
    return true;
  while (next_word(&at, word, sizeof word))
    if (word[0] != '-' && !strchr(word, '=')) {
      if (strchr(word, '/'))
        return (size_t)snprintf(interpreter, size, "%s", word) < size;
      return on_path(environment, word, interpreter, size);
    }
  return false;
}

/* Follows scripts to their interpreters. False: one was not found. */
static bool follow_scripts(struct tagc_findings *f, char *const *environment) {
  char interpreter[PATH_MAX];
  for (int i = 0; i < SCRIPTS_MAX; i++) {
    if (strncmp(tagc_base_name(f->path), "python", 6) == 0)
      snprintf(f->python_path, sizeof f->python_path, "%s", f->path);
    size_t size = 0;
    char *head = tagc_file_text(f->path, HEAD_SIZE, &size);
    bool script = head && size > 2 && head[0] == '#' && head[1] == '!';
    bool found = script && interpreter_of(head, environment, interpreter, sizeof interpreter);
    free(head);
    if (!script)
      return true;
    if (!f->script[0])
      snprintf(f->script, sizeof f->script, "%s", f->path);
    if (!found) {
      tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "the interpreter of the script %s was not found", f->path);
      return false;
    }
    snprintf(f->path, sizeof f->path, "%s", interpreter);
  }
  tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s is a script of a script, too many times over", f->script);
  return false;
}

/* The dynamic linker ignores paths in LD_PRELOAD for programs that run with another user's or group's rights, or with
 * capabilities that their user (unless root) lacks. */
static void find_rights(struct tagc_findings *f) {
  struct stat status;
  bool known = stat(f->path, &status) == 0;
  bool user = known && status.st_mode & S_ISUID && status.st_uid != getuid();
  bool group = known && (status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status.st_gid != getgid();
  const char *why = user                                                                     ? "set-user-ID"
                    : group                                                                  ? "set-group-ID"
                    : getuid() != 0 && getxattr(f->path, "security.capability", NULL, 0) > 0 ? "file capabilities"
                                                                                             : "";
  snprintf(f->secure_why, sizeof f->secure_why, "%s", why);
  f->secure = *why;
}

static void say_unreadable(struct tagc_findings *f, int error) {
  tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s: %s", f->path,
                     error == EISDIR   ? "a folder, not a program or library"
                     : error == EINVAL ? "neither a program nor a library"
                                       : strerror(error));
}

bool tagc_find_file(struct tagc_findings *f, char *const *environment) {
  struct stat status;
  if (!find_given(f, environment)) {
    snprintf(f->path, sizeof f->path, "%s", f->given);
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s: no such program or library", f->given);
    return false;
  }
  if (stat(f->path, &status) != 0 || !S_ISREG(status.st_mode)) {
    say_unreadable(f, stat(f->path, &status) != 0 ? errno : S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
    return false;
  }
  if (!follow_scripts(f, environment))
    return false;
  if (tagc_walk_add(&f->walk, f->path, f->path, "given", -1) < 0) {
    say_unreadable(f, errno);
    return false;
  }
  const struct tagc_image *image = &f->walk.objects[0].image;
  if (image->state == TAGC_IMAGE_BAD) {
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s: %s", f->path, image->why);
    return false;
  }
  if (f->kind == TAGC_KIND_PROGRAM && image->type == ET_DYN && !image->has_interpreter && !image->pie)
    f->kind = TAGC_KIND_LIBRARY;
  if (f->kind != TAGC_KIND_LIBRARY)
    find_rights(f);
  tagc_walk_needed(&f->walk);
  return true;
}
