/* SPDX-License-Identifier: BSD-3-Clause
 * The files of calls in the rooms of tests/fixtures.
 */
#ifndef TESTS_UNIT_FIXTURES_H
#define TESTS_UNIT_FIXTURES_H

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the number of files with that name, a pattern without ".calls". found->gl_pathv has their paths, in the order
 * of the alphabet. The caller ends `found` with globfree(), also after 0. */
static inline size_t fixtures_find(const char *name, glob_t *found) {
  char pattern[2048];
  const char *top = getenv("abs_top_srcdir");
  snprintf(pattern, sizeof pattern, "%s/tests/fixtures/*/%s.calls", top ? top : "..", name);
  *found = (glob_t){.gl_pathc = 0};
  return glob(pattern, 0, NULL, found) == 0 ? found->gl_pathc : 0;
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
