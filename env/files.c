/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "env/host.h"

bool tagc_file_name(char *path, size_t size, const char *prefix, const char *rest, ...)
{
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

int tagc_file_create(const char *path) { return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600); }

int tagc_write_all(int file, const char *data, size_t size)
{
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
