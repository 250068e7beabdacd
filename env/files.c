/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/files.h"

#include <errno.h>
#include <unistd.h>

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
