/* SPDX-License-Identifier: BSD-3-Clause
 * Ends this program with one line on stderr. The exit status is 2 for a mistake of the user, otherwise 1.
 */
#ifndef EXAMPLES_GPT_FAIL_H
#define EXAMPLES_GPT_FAIL_H

#include <errno.h>
#include <stdarg.h>
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

#endif
