/* SPDX-License-Identifier: BSD-3-Clause
 * Has another thread come to where it waits?
 */
#ifndef TESTS_UNIT_ASLEEP_H
#define TESTS_UNIT_ASLEEP_H

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Returns when a thread of this process, by its number for the kernel, sleeps, or is gone. */
static inline void wait_until_asleep(int thread)
{
  char path[80], text[200];
  const char *state = NULL;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  while (!state || strncmp(state, ") S", 3) != 0) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    FILE *file = fopen(path, "re");
    if (!file)
      return;
    state = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    fclose(file);
  }
}

#endif
