/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

int tagc_descriptors_limit(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX ? (int)limit.rlim_cur : INT_MAX;
}

int tagc_descriptor_of_ours(int fd) {
  if (fd < 0 || fd > STDERR_FILENO)
    return fd;
  const int other = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), saved = errno;
  close(fd);
  errno = saved;
  return other;
}

/* The lowest free number is the next one, so high ones are mostly free. If none of LOOKED_AT is free, few are left. */
bool tagc_descriptors_are_free(int wanted) {
  enum { LOOKED_AT = 4096 };
  const int saved = errno, limit = tagc_descriptors_limit(), last = limit > LOOKED_AT ? limit - LOOKED_AT : 0;
  int free = 0;
  for (int fd = limit - 1; fd >= last && free < wanted; fd--)
    free += fcntl(fd, F_GETFD) < 0;
  errno = saved;
  return free >= wanted;
}
