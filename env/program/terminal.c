/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/program/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool tagc_terminal_has_cursor(int file) {
  const char *kind = getenv("TERM");
  return isatty(file) && kind && *kind && strcmp(kind, "dumb") != 0;
}

bool tagc_terminal_wants_colours(int file) {
  const char *none = getenv("NO_COLOR");
  return tagc_terminal_has_cursor(file) && !(none && *none);
}

void tagc_tame(char *text, char keep) {
  for (unsigned char *c = (unsigned char *)text; *c; c++)
    if ((*c < 0x20 && *c != (unsigned char)keep) || *c == 0x7f ||
        (*c >= 0x80 && *c < 0xa0 && c > (unsigned char *)text && c[-1] == 0xc2))
      *c = '?';
}

void tagc_put_tamed(FILE *to, const char *text) {
  char *copy = strdup(text);
  if (copy) {
    tagc_tame(copy, '\0');
    fputs(copy, to);
  }
  free(copy);
}

void tagc_put_wrapped(FILE *to, const char *text, size_t column, size_t indent, size_t width) {
  while (*text) {
    size_t space = strspn(text, " ");
    const size_t word = strcspn(text + space, " ");
    const bool breaks = column > indent && column + space + word > width;
    text += space;
    if (breaks) {
      putc('\n', to);
      column = 0;
    }
    if (breaks || column < indent)
      space = indent - column;
    fprintf(to, "%*s%.*s", (int)space, "", (int)word, text);
    column += space + word;
    text += word;
  }
}

int tagc_fail(const char *program, int status, const char *format, ...) {
  char text[8192];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  tagc_tame(text, '\0');
  fprintf(stderr, "%s: %s\n", program, text);
  return status;
}
