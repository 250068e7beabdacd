/* SPDX-License-Identifier: BSD-3-Clause
 * The recordings in the rooms of tests/fixtures: files of calls, each of one communicator, and steps of all groups of a
 * job (parallel/, by record_parallel.py).
 */
#ifndef TESTS_UNIT_FIXTURES_H
#define TESTS_UNIT_FIXTURES_H

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

/* `pattern`: a path in tests/fixtures. */
static inline size_t fixtures_glob(const char *pattern, glob_t *found) {
  char path[2048];
  const char *top = getenv("abs_top_srcdir");
  snprintf(path, sizeof path, "%s/tests/fixtures/%s", top ? top : "..", pattern);
  *found = (glob_t){.gl_pathc = 0};
  return glob(path, 0, NULL, found) == 0 ? found->gl_pathc : 0;
}

/* Returns the number of files with that name, a pattern without ".calls". found->gl_pathv has their paths, in the order
 * of the alphabet. The caller ends `found` with globfree(), also after 0. */
static inline size_t fixtures_find(const char *name, glob_t *found) {
  char pattern[256];
  snprintf(pattern, sizeof pattern, "*/%s.calls", name);
  return fixtures_glob(pattern, found);
}

/* Calls `test` with the path of each file with steps of all groups. Returns their number. */
static inline size_t fixtures_each_step(void (*test)(const char *path)) {
  glob_t found;
  const size_t count = fixtures_glob("*/*.step", &found);
  for (size_t i = 0; i < count; i++)
    test(found.gl_pathv[i]);
  globfree(&found);
  return count;
}

/* The number of calls in a step, from the file's comments. */
static inline size_t fixtures_step(const char *path) {
  char line[256];
  size_t step = 0;
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "# step %zu", &step) == 1)
      break;
  if (file)
    fclose(file);
  return step;
}

#endif
