/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/program/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "env/program/markup.h"

/* Writes the comma, the line break and the name of the next value. */
static void begin_value(struct tagc_json *j, const char *name) {
  fputs(j->comma ? "," : "", j->out);
  if (j->line)
    fprintf(j->out, "\n%*s", j->indent, "");
  else if (j->comma && j->spaced)
    putc(' ', j->out);
  j->comma = true;
  j->line = false;
  if (!name)
    return;
  tagc_put_json(j->out, name);
  fputs(j->spaced ? ": " : ":", j->out);
}

void tagc_json_open(struct tagc_json *j, const char *name, char bracket) {
  begin_value(j, name);
  putc(bracket, j->out);
  j->comma = false;
}

void tagc_json_close(struct tagc_json *j, char bracket) {
  j->comma = false;
  begin_value(j, NULL);
  putc(bracket, j->out);
}

size_t tagc_json_list(struct tagc_json *j, const char *name) {
  tagc_json_open(j, name, '[');
  return 0;
}

bool tagc_json_item(struct tagc_json *j, size_t i, size_t count) {
  if (i > 0)
    tagc_json_close(j, '}');
  if (i < count)
    tagc_json_open(j, NULL, '{');
  else
    tagc_json_close(j, ']');
  return i < count;
}

void tagc_json_line(struct tagc_json *j, int indent) {
  j->line = true;
  j->indent = indent;
}

void tagc_json_text(struct tagc_json *j, const char *name, const char *value) {
  begin_value(j, name);
  tagc_put_json(j->out, value);
}

void tagc_json_text_or_null(struct tagc_json *j, const char *name, const char *value) {
  if (value && *value)
    tagc_json_text(j, name, value);
  else
    tagc_json_null(j, name);
}

void tagc_json_number(struct tagc_json *j, const char *name, int64_t value) {
  tagc_json_format(j, name, "%" PRId64, value);
}

void tagc_json_count(struct tagc_json *j, const char *name, uint64_t value) {
  tagc_json_format(j, name, "%" PRIu64, value);
}

void tagc_json_real(struct tagc_json *j, const char *name, double value) {
  if (isfinite(value))
    tagc_json_format(j, name, "%.9g", value);
  else
    tagc_json_null(j, name);
}

void tagc_json_null(struct tagc_json *j, const char *name) { tagc_json_format(j, name, "null"); }

void tagc_json_truth(struct tagc_json *j, const char *name, bool value) {
  tagc_json_format(j, name, value ? "true" : "false");
}

void tagc_json_format(struct tagc_json *j, const char *name, const char *format, ...) {
  va_list arguments;
  begin_value(j, name);
  va_start(arguments, format);
  vfprintf(j->out, format, arguments);
  va_end(arguments);
}
