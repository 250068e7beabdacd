/* SPDX-License-Identifier: BSD-3-Clause
 * Scenarios on the stand-in for the CUDA driver, each in its own process: with its own environment, and free to die. A
 * test that includes this opens no driver itself.
 */
#ifndef TESTS_UNIT_DEVICE_CUDA_CHILD_H
#define TESTS_UNIT_DEVICE_CUDA_CHILD_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/standin/cuda/device.h"
#include "tests/unit/tap.h"

/* Checks a condition in a scenario. */
#define EXPECT(condition) \
  do \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1); \
    } \
  while (0)

static char child_said[1 << 16]; /* on stderr */

/* Sets "NAME=value NAME=value", and the path of the sample kernels: in tests/standin, if this program is
 * tests/unit/ROOM/NAME. */
static inline void child_environment(const char *environment) {
  char copy[1024], path[4096], *rest, *end;
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
  path[length < 0 ? 0 : length] = '\0';
  for (int up = 0; up < 3; up++)
    if ((end = strrchr(path, '/')))
      *end = '\0';
  strcat(path, "/standin/cuda/samples.so");
  setenv("CUDA_STANDIN_KERNELS", path, 1);
  snprintf(copy, sizeof copy, "%s", environment);
  for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
    char *value = strchr(one, '=');
    *value++ = '\0';
    setenv(one, value, 1);
  }
}

/* Runs the scenario. Returns its exit status, or 128 + the signal that killed it. */
static inline int child_run(const char *environment, void (*scenario)(void)) {
  int ends[2], status = 0;
  size_t length = 0;
  if (pipe(ends) != 0)
    return -1;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    child_environment(environment);
    scenario();
    _exit(0);
  }
  close(ends[1]);
  for (ssize_t got; length + 1 < sizeof child_said &&
                    (got = read(ends[0], child_said + length, sizeof child_said - 1 - length)) > 0;)
    length += (size_t)got;
  child_said[length] = '\0';
  close(ends[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void child_show(int status) {
  note("status %d, and on stderr:", status);
  char *rest;
  for (char *line = strtok_r(child_said, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    note("  %s", line);
}

static inline void lives(const char *environment, void (*scenario)(void), const char *what) {
  int status = child_run(environment, scenario);
  if (!ok(status == 0 && child_said[0] == '\0', "%s", what))
    child_show(status);
}

/* The scenario must fail, with `words` on stderr. */
static inline void dies(const char *environment, void (*scenario)(void), const char *words, const char *what) {
  int status = child_run(environment, scenario);
  if (!ok(status != 0 && strstr(child_said, words), "%s", what))
    child_show(status);
}

#endif
