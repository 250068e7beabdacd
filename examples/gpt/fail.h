/* SPDX-License-Identifier: BSD-3-Clause
 * Ends this program with one line on stderr. The exit status is 2 for a mistake of the user, otherwise 1. Looks whether
 * output was written.
 */
#ifndef EXAMPLES_GPT_FAIL_H
#define EXAMPLES_GPT_FAIL_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((format(printf, 2, 3), noreturn)) static inline void fail(int status, const char *format, ...) {
  char line[8192]; /* in one piece: several ranks may share this stderr */
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  fprintf(stderr, "%s: %s\n", program_invocation_short_name, line);
  exit(status);
}

/* Closes a file. False: it lacks something that was written. */
static inline bool close_written(FILE *file) {
  bool good = !ferror(file);
  return fclose(file) == 0 && good;
}

/* Fails unless stdout has all that was printed. */
static inline void check_output(void) {
  if (fflush(stdout) != 0 || ferror(stdout))
    fail(1, "cannot write the output");
}

#endif
