/* SPDX-License-Identifier: BSD-3-Clause
 * Foreign texts in XML and JSON.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>

#include "env/program/markup.h"

/* The length of the UTF-8 character at `c`; 0: not one (also overlong forms, surrogates and stray bytes). */
static int character(const unsigned char *c) {
  if (c[0] < 0x80)
    return 1;
  if (c[0] >= 0xc2 && c[0] < 0xe0)
    return (c[1] & 0xc0) == 0x80 ? 2 : 0;
  if (c[0] >= 0xe0 && c[0] < 0xf0) {
    if ((c[1] & 0xc0) != 0x80 || (c[2] & 0xc0) != 0x80 || (c[0] == 0xe0 && c[1] < 0xa0) ||
        (c[0] == 0xed && c[1] >= 0xa0))
      return 0;
    return 3;
  }
  if (c[0] < 0xf0 || c[0] > 0xf4 || (c[1] & 0xc0) != 0x80 || (c[2] & 0xc0) != 0x80 || (c[3] & 0xc0) != 0x80 ||
      (c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90))
    return 0;
  return 4;
}

/* Controls (also U+0080 to U+009F), marks of direction, U+FFFE and U+FFFF. */
static bool is_unfit(const unsigned char *c, int length) {
  if (length == 1)
    return *c < 0x20 || *c == 0x7f;
  if (length == 2)
    return c[0] == 0xc2 && c[1] < 0xa0;
  if (length != 3)
    return false;
  return (c[0] == 0xe2 && c[1] == 0x80 && ((c[2] >= 0x8e && c[2] <= 0x8f) || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
         (c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9) ||
         (c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe);
}

static void put_escaped(FILE *file, const char *text) {
  for (const unsigned char *c = (const unsigned char *)text; *c;) {
    int length = character(c);
    if (!length || is_unfit(c, length))
      fputc('?', file);
    else if (*c == '<')
      fputs("&lt;", file);
    else if (*c == '>')
      fputs("&gt;", file);
    else if (*c == '&')
      fputs("&amp;", file);
    else if (*c == '"')
      fputs("&quot;", file);
    else
      fwrite(c, 1, (size_t)length, file);
    c += length ? length : 1;
  }
}

void tagc_markup(FILE *file, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  for (const char *c = format; *c; c++) {
    if (*c != '%') {
      putc(*c, file);
      continue;
    }
    int precision = 6;
    if (*++c == '.')
      for (precision = 0; isdigit((unsigned char)*++c);)
        precision = 10 * precision + *c - '0';
    const bool wide = *c == 'l' || *c == 'z';
    switch (*(c += wide)) {
    case 's': put_escaped(file, va_arg(arguments, const char *)); break;
    case 'f': fprintf(file, "%.*f", precision, va_arg(arguments, double)); break;
    case 'g': fprintf(file, "%.*g", precision, va_arg(arguments, double)); break;
    case 'd': fprintf(file, "%ld", wide ? va_arg(arguments, long) : va_arg(arguments, int)); break;
    case 'u': fprintf(file, "%lu", wide ? va_arg(arguments, unsigned long) : va_arg(arguments, unsigned)); break;
    default: putc(*c, file); /* %% */
    }
  }
  va_end(arguments);
}

void tagc_put_json(FILE *file, const char *text) {
  putc('"', file);
  for (const unsigned char *c = (const unsigned char *)text; *c;) {
    int length = character(c);
    if (!length)
      fputs("\\ufffd", file);
    else if (*c == '"' || *c == '\\')
      fprintf(file, "\\%c", *c);
    else if (*c < 0x20 || *c == 0x7f)
      fprintf(file, "\\u%04x", *c);
    else
      fwrite(c, 1, (size_t)length, file);
    c += length ? length : 1;
  }
  putc('"', file);
}
