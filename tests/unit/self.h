/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel's facts about this process: its threads and its files.
 */
#ifndef TESTS_UNIT_SELF_H
#define TESTS_UNIT_SELF_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The number of entries in a folder of /proc/self; task: threads; fd: open files, including that of the folder. */
static inline int count_of_self(const char *folder) {
  char path[80];
  int count = 0;
  snprintf(path, sizeof path, "/proc/self/%s", folder);
  DIR *entries = opendir(path);
  for (const struct dirent *entry; entries && (entry = readdir(entries));)
    count += entry->d_name[0] != '.';
  if (entries)
    closedir(entries);
  return count;
}

/* Returns when a thread of this process (by its kernel id) sleeps, or is gone. */
static inline void wait_until_asleep(int thread) {
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
