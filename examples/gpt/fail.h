/* SPDX-License-Identifier: BSD-3-Clause
 * How this program ends when it cannot go on: one line on stderr. Exit status 2 for what the user asked for, 1 for
 * the rest.
 */
#ifndef EXAMPLES_GPT_FAIL_H
#define EXAMPLES_GPT_FAIL_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((format(printf, 2, 3), noreturn)) static inline void fail(int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  flockfile(stderr);
  fputs("train_gpt: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  funlockfile(stderr);
  va_end(args);
  exit(status);
}

#endif
