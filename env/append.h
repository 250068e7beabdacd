/* SPDX-License-Identifier: BSD-3-Clause
 * Builds texts piece by piece.
 */
#ifndef ENV_APPEND_H
#define ENV_APPEND_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Appends to text, a buffer of `size` bytes. Excess is cut. */
__attribute__((format(printf, 3, 4))) static inline void tagc_append(char *text, size_t size, const char *format, ...) {
  const size_t used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, size - used, format, arguments);
  va_end(arguments);
}

#endif
