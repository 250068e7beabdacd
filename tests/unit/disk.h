/* SPDX-License-Identifier: BSD-3-Clause
 * A disk that can be stopped, or filled: for tests of threads that write files. Link with -Wl,--wrap=write. It concerns
 * every file but stdin, stdout and stderr. One source file of a program includes this.
 */
#ifndef TESTS_UNIT_DISK_H
#define TESTS_UNIT_DISK_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#ifdef __SANITIZE_THREAD__
/* Children of a process with threads start threads here. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

static atomic_bool disk_hangs, disk_full; /* writes wait; of a block the first 1000 bytes fit */
static atomic_int at_disk;                /* writes so far */

ssize_t __real_write(int file, const void *data, size_t size);
ssize_t __wrap_write(int file, const void *data, size_t size);

ssize_t __wrap_write(int file, const void *data, size_t size) {
  if (file <= STDERR_FILENO)
    return __real_write(file, data, size);
  atomic_fetch_add(&at_disk, 1);
  while (atomic_load(&disk_hangs))
    usleep(1000);
  if (!atomic_load(&disk_full))
    return __real_write(file, data, size);
  if (size > 1000) /* the last block */
    return __real_write(file, data, 1000);
  errno = ENOSPC;
  return -1;
}

#endif
