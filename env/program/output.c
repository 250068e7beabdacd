/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/program/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new file beside `path`, which is no link. NULL if that is impossible or forbidden. */
static FILE *open_beside(const char *path, char **beside) {
  struct stat old;
  const bool there = lstat(path, &old) == 0;
  *beside = NULL;
  if (there ? !S_ISREG(old.st_mode) || old.st_nlink > 1 || access(path, W_OK) != 0 : errno != ENOENT)
    return NULL;
  if (asprintf(beside, "%s.%ld", path, (long)getpid()) < 0) {
    *beside = NULL;
    return NULL;
  }
  const int file = open(*beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  FILE *to = file < 0 || (there && fchmod(file, old.st_mode & 07777) != 0) ? NULL : fdopen(file, "w");
  if (!to && file >= 0) {
    close(file);
    unlink(*beside);
  }
  if (!to) {
    free(*beside);
    *beside = NULL;
  }
  return to;
}

bool tagc_output_open(struct tagc_output *output, const char *path) {
  output->path = path;
  output->target = realpath(path, NULL); /* NULL: it is not there */
  output->to = open_beside(output->target ? output->target : path, &output->beside);
  if (!output->to)
    output->to = fopen(path, "we");
  if (!output->to) {
    const int error = errno;
    free(output->target);
    errno = error;
  }
  return output->to != NULL;
}

int tagc_output_flush(FILE *to) { return fflush(to) != 0 ? errno : ferror(to) ? EIO : 0; }

int tagc_output_close(struct tagc_output *output, bool whole) {
  int error = tagc_output_flush(output->to);
  if (fclose(output->to) != 0 && !error) /* a network file system may tell only now that its disk is full */
    error = errno;
  if (output->beside && whole && !error && rename(output->beside, output->target ? output->target : output->path) != 0)
    error = errno;
  if (output->beside && (!whole || error))
    unlink(output->beside);
  free(output->beside);
  free(output->target);
  return error;
}

static bool is_one_inode(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool stat_folder(const char *path, struct stat *about) {
  char folder[PATH_MAX];
  const int length = snprintf(folder, sizeof folder, "%.*s.", (int)(basename(path) - path), path);
  return length > 0 && (size_t)length < sizeof folder && stat(folder, about) == 0;
}

bool tagc_output_is(const char *path, const char *other) {
  struct stat one, two;
  const bool has_one = stat(path, &one) == 0, has_two = stat(other, &two) == 0;
  if (has_one || has_two)
    return has_one && has_two && S_ISREG(one.st_mode) && is_one_inode(&one, &two);
  return strcmp(basename(path), basename(other)) == 0 && stat_folder(path, &one) && stat_folder(other, &two) &&
         is_one_inode(&one, &two);
}
