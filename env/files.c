/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/descriptors.h"
#include "env/host.h"

bool tagc_file_name(char *path, size_t size, const char *prefix, const char *rest, ...) {
  char host[TAGC_HOST_NAME];
  tagc_host_name(host);
  int used = snprintf(path, size, "%s-%s-pid%d", prefix, host, (int)getpid());
  if (used >= 0 && (size_t)used < size) {
    va_list args;
    va_start(args, rest);
    const int more = vsnprintf(path + used, size - (size_t)used, rest, args);
    va_end(args);
    used = more < 0 ? more : used + more;
  }
  if (used >= 0 && (size_t)used < size)
    return true;
  errno = ENAMETOOLONG;
  return false;
}

static int create_new(const char *path, mode_t mode) {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  const int ours = tagc_descriptor_of_ours(file);
  if (file >= 0 && ours < 0)
    unlink(path);
  return ours;
}

int tagc_file_create(const char *path) { return create_new(path, 0600); }

/* A process of this number that was killed may have left its file. */
static int create_beside(const char *beside) {
  const int file = create_new(beside, 0644);
  return file < 0 && errno == EEXIST && unlink(beside) == 0 ? create_new(beside, 0644) : file;
}

int tagc_file_replace(const char *path, const char *data, size_t size) {
  char beside[PATH_MAX];
  if (!tagc_file_name(beside, sizeof beside, path, ".new"))
    return errno;
  const int file = create_beside(beside);
  if (file < 0)
    return errno;
  int error = tagc_write_all(file, data, size);
  if (close(file) != 0 && !error) /* a network file system may tell only now that its disk is full */
    error = errno;
  if (!error && rename(beside, path) != 0)
    error = errno;
  if (error)
    unlink(beside);
  return error;
}

int tagc_file_keep(struct tagc_kept_file *kept, const char *path) {
  struct stat about;
  int file = tagc_file_create(path), high = -1;
  if (file < 0)
    return errno;
  for (int least = 512; least > 8 && high < 0; least /= 2) /* a process may be limited to few */
    high = fcntl(file, F_DUPFD_CLOEXEC, least);
  if (high >= 0) {
    close(file);
    file = high;
  }
  if (fstat(file, &about) != 0) {
    const int error = errno;
    close(file);
    return error;
  }
  *kept = (struct tagc_kept_file){file, about.st_dev, about.st_ino};
  return 0;
}

static bool is_still_there(const struct tagc_kept_file *kept, struct stat *about) {
  return kept->file >= 0 && fstat(kept->file, about) == 0 && about->st_dev == kept->device &&
         about->st_ino == kept->inode;
}

int tagc_file_look(const struct tagc_kept_file *kept) {
  struct stat about;
  if (!is_still_there(kept, &about))
    return EBADF;
  return about.st_nlink ? 0 : ENOENT;
}

void tagc_file_drop(struct tagc_kept_file *kept) {
  struct stat about;
  if (is_still_there(kept, &about))
    close(kept->file);
  kept->file = -1;
}

const char *tagc_file_words(int error) { return error == EBADF ? "the program has closed it" : strerror(error); }

int tagc_write_all(int file, const char *data, size_t size) {
  while (size) {
    ssize_t written = write(file, data, size);
    if (written == 0)
      return EIO;
    if (written < 0 && errno != EINTR)
      return errno;
    data += written > 0 ? written : 0;
    size -= written > 0 ? (size_t)written : 0;
  }
  return 0;
}
