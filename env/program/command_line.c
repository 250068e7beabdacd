/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/program/command_line.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "env/append.h"
#include "env/options.h"
#include "env/program/terminal.h"
#include "env/units.h"

enum { WIDTH = 100, TEXT = 2000 };

enum { OWN_HELP, OWN_VERSION, OWN };
static const struct tagc_argument own[OWN] = {
  [OWN_HELP] = {.name = "help", .letter = 'h'},
  [OWN_VERSION] = {.name = "version"},
};

int tagc_refuse(const struct tagc_command_line *line, const char *why, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, why);
  vsnprintf(text, sizeof text, why, arguments);
  va_end(arguments);
  return tagc_fail(line->program, TAGC_COMMAND_LINE_USAGE, "%s (%s --help lists the options)", text, line->program);
}

/* -- values -------------------------------------------------------------------------------------------------------- */

/* Describes the accepted values; "" if only the kind of value is known. */
static const char *accepted(const struct tagc_argument *row, char text[TEXT]) {
  snprintf(text, TEXT, "%s", row->accepts ? row->accepts : "");
  for (const char *const *name = row->names; name && *name; name++)
    tagc_append(text, TEXT, "%s%s", name == row->names ? "" : name[1] ? ", " : " or ", *name);
  return text;
}

static const char *wanted(const struct tagc_argument *row, char text[TEXT]) {
  return *accepted(row, text) ? text : row->value;
}

/* True if the value is between the limits that begin `accepts`. */
static bool is_accepted(const struct tagc_argument *row, double value) {
  char *end;
  const double least = strtod(row->accepts, &end), most = strtod(end + strlen(" to "), NULL);
  return value >= least && value <= most;
}

static bool store_number(const struct tagc_argument *row, const char *value, void *field) {
  uint64_t number;
  const char *end;
  const bool read = tagc_units_read(value, row->kind == TAGC_ARGUMENT_SIZE, &number, &end) && !*end;
  if (!read || !is_accepted(row, (double)number))
    return false;
  if (row->kind == TAGC_ARGUMENT_INT)
    *(int *)field = (int)number;
  else
    *(uint64_t *)field = number;
  return true;
}

static bool store_real(const struct tagc_argument *row, const char *value, double *field) {
  char *end;
  const double number = strtod(value, &end);
  if (end == value || *end || !is_accepted(row, number))
    return false;
  *field = number;
  return true;
}

static bool store_choice(const struct tagc_argument *row, const char *value, int *field) {
  for (int i = 0; row->names[i]; i++)
    if (strcmp(row->names[i], value) == 0) {
      *field = i;
      return true;
    }
  return false;
}

static bool store_value(const struct tagc_argument *row, const char *value, void *to) {
  void *field = (char *)to + row->offset;
  switch (row->kind) {
  case TAGC_ARGUMENT_FLAG: return *(bool *)field = true;
  case TAGC_ARGUMENT_INT:
  case TAGC_ARGUMENT_COUNT:
  case TAGC_ARGUMENT_SIZE: return store_number(row, value, field);
  case TAGC_ARGUMENT_REAL: return store_real(row, value, field);
  case TAGC_ARGUMENT_CHOICE: return store_choice(row, value, field);
  case TAGC_ARGUMENT_FILE:
  case TAGC_ARGUMENT_TEXT: *(const char **)field = value; return *value || row->kind == TAGC_ARGUMENT_TEXT;
  case TAGC_ARGUMENT_CALL: return row->set(to, value);
  }
  return false;
}

void tagc_command_line_preset(const struct tagc_command_line *line, void *to) {
  for (size_t i = 0; i < line->count; i++)
    if (line->rows[i].preset)
      store_value(&line->rows[i], line->rows[i].preset, to);
}

/* -- help ---------------------------------------------------------------------------------------------------------- */

static void put_row(const struct tagc_command_line *line, const struct tagc_argument *row, FILE *out) {
  char head[TEXT] = "  ", text[TEXT] = "", words[TEXT];
  if (row->letter)
    tagc_append(head, TEXT, "-%c, ", row->letter);
  tagc_append(head, TEXT, "--%s", row->name);
  if (row->value)
    tagc_append(head, TEXT, row->optional ? "[=%s]" : " %s", row->value);
  const bool fits = strlen(head) + 2 <= line->indent;
  fprintf(out, "%s%s", head, fits ? "" : "\n");
  accepted(row, words);
  if (row->preset && *row->preset)
    tagc_append(words, TEXT, "%sdefault %s", *words ? "; " : "", row->preset);
  tagc_append(text, TEXT, *words ? "%s (%s)" : "%s", row->help, words);
  tagc_put_wrapped(out, text, fits ? strlen(head) : 0, line->indent, WIDTH);
  putc('\n', out);
}

static int put_version(const struct tagc_command_line *line, FILE *out) {
  fprintf(out, "%s " PACKAGE_VERSION "\n", line->program);
  return 0;
}

static int put_help(const struct tagc_command_line *line, FILE *out) {
  fputs(line->head, out);
  for (size_t i = 0; i < line->count; i++)
    if (line->rows[i].name)
      put_row(line, &line->rows[i], out);
    else
      fprintf(out, "\n%s\n", line->rows[i].help);
  fprintf(out, "  --help, --version\n%s", line->tail);
  return 0;
}

/* -- the parser ---------------------------------------------------------------------------------------------------- */

static const struct tagc_argument *row_at(const struct tagc_command_line *line, size_t i) {
  return i < line->count ? &line->rows[i] : &own[i - line->count];
}

static bool is_name(const char *name, const char *text, size_t length) {
  return name && strlen(name) == length && memcmp(name, text, length) == 0;
}

/* The row of an argument that begins with a dash, or NULL. *value: the text behind an = or a letter, or NULL. */
static const struct tagc_argument *find_argument(const struct tagc_command_line *line, const char *argument,
                                                 const char **value) {
  const bool is_long = argument[1] == '-';
  const size_t length = is_long ? strcspn(argument + 2, "=") : 0;
  const char *rest = argument + 2 + length;
  *value = is_long && *rest ? rest + 1 : *rest ? rest : NULL;
  for (size_t i = 0; i < line->count + OWN; i++) {
    const struct tagc_argument *row = row_at(line, i);
    if (is_long ? is_name(row->name, argument + 2, length) : row->letter == argument[1])
      return row;
    if (is_long && is_name(row->old, argument + 2, length)) {
      tagc_fail(line->program, 0, "--%s is called --%s now", row->old, row->name);
      return row;
    }
  }
  return NULL;
}

static int refuse_unknown(const struct tagc_command_line *line, const char *argument) {
  char name[64];
  const char *nearest = NULL;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
  size_t least = argument[1] == '-' ? strlen(name) / 2 : 0; /* farther is no typo */
  for (size_t i = 0; i < line->count + OWN && least; i++) {
    const char *other = row_at(line, i)->name;
    const size_t distance = other ? tagc_options_distance(name + 2, other) : least;
    if (distance < least) {
      nearest = other;
      least = distance;
    }
  }
  return nearest ? tagc_refuse(line, "there is no option %s; did you mean --%s?", name, nearest)
                 : tagc_refuse(line, "there is no option %s", name);
}

/* `value` NULL: none. */
static int take_value(const struct tagc_command_line *line, const struct tagc_argument *row, const char *value,
                      void *to, FILE *out) {
  char text[TEXT];
  if (row->kind == TAGC_ARGUMENT_FLAG && value)
    return tagc_refuse(line, "--%s takes no value", row->name);
  if (row == &own[OWN_HELP])
    return put_help(line, out);
  if (row == &own[OWN_VERSION])
    return put_version(line, out);
  if (!value && row->optional) {
    *(const char **)((char *)to + row->offset) = "";
    return TAGC_COMMAND_LINE_GO;
  }
  if (!value && row->kind != TAGC_ARGUMENT_FLAG)
    return tagc_refuse(line, "--%s needs a value: %s", row->name, wanted(row, text));
  if (!store_value(row, value, to))
    return tagc_refuse(line, "--%s does not take '%s': accepted is %s", row->name, value, wanted(row, text));
  return TAGC_COMMAND_LINE_GO;
}

static bool was_given(const struct tagc_command_line *line, const bool given[TAGC_ARGUMENTS], const char *name) {
  for (size_t i = 0; i < line->count && i < TAGC_ARGUMENTS; i++)
    if (given[i] && strcmp(line->rows[i].name, name) == 0)
      return true;
  return false;
}

static int check_row(const struct tagc_command_line *line, const bool given[TAGC_ARGUMENTS],
                     const struct tagc_argument *row) {
  if (row->with && !was_given(line, given, row->with))
    return tagc_refuse(line, "--%s needs --%s", row->name, row->with);
  for (int i = 0; i < TAGC_ARGUMENT_RIVALS && row->without[i]; i++)
    if (was_given(line, given, row->without[i]))
      return tagc_refuse(line, "--%s does not go with --%s", row->name, row->without[i]);
  return TAGC_COMMAND_LINE_GO;
}

static int check_company(const struct tagc_command_line *line, const bool given[TAGC_ARGUMENTS]) {
  int status = TAGC_COMMAND_LINE_GO;
  for (size_t i = 0; i < line->count && i < TAGC_ARGUMENTS && status == TAGC_COMMAND_LINE_GO; i++)
    if (given[i])
      status = check_row(line, given, &line->rows[i]);
  return status;
}

int tagc_command_line_parse(const struct tagc_command_line *line, char **argv, void *to, FILE *out) {
  bool options = true, given[TAGC_ARGUMENTS] = {false};
  char **word = argv + (*argv != NULL);
  for (char **at = word; *at; at++) {
    const char *argument = *at, *value;
    if (!options || argument[0] != '-' || !argument[1]) {
      options &= !line->command;
      *word++ = *at;
      continue;
    }
    if (strcmp(argument, "--") == 0) {
      options = false;
      continue;
    }
    const struct tagc_argument *row = find_argument(line, argument, &value);
    if (!row)
      return refuse_unknown(line, argument);
    const bool follows = !value && row->kind != TAGC_ARGUMENT_FLAG && !row->optional;
    if (follows && at[1] && strcmp(at[1], "--") != 0)
      value = *++at;
    const int status = take_value(line, row, value, to, out);
    if (status != TAGC_COMMAND_LINE_GO)
      return status;
    if (row >= line->rows && row < line->rows + line->count && row - line->rows < TAGC_ARGUMENTS)
      given[row - line->rows] = true;
  }
  *word = NULL;
  return check_company(line, given);
}
