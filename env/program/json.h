/* SPDX-License-Identifier: BSD-3-Clause
 * JSON of the programs: commas and quotes are right whatever is written. Of numbers that JSON has not, null is left.
 * Names: NULL inside an array. Threads: one at a time.
 */
#ifndef ENV_PROGRAM_JSON_H
#define ENV_PROGRAM_JSON_H

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "env/program/markup.h"

/* Where the next value goes: `first` says that no comma is due. {file, true} begins a document. */
struct tagc_json {
  FILE *out;
  bool first;
};

/* The comma and the name of what comes. */
static inline void tagc_json_begin(struct tagc_json *j, const char *name)
{
  fputs(j->first ? "" : ",", j->out);
  j->first = false;
  if (name) {
    tagc_put_json(j->out, name);
    putc(':', j->out);
  }
}

static inline void tagc_json_open(struct tagc_json *j, const char *name, char bracket)
{
  tagc_json_begin(j, name);
  putc(bracket, j->out);
  j->first = true;
}

static inline void tagc_json_close(struct tagc_json *j, char bracket)
{
  putc(bracket, j->out);
  j->first = false;
}

static inline void tagc_json_text(struct tagc_json *j, const char *name, const char *value)
{
  tagc_json_begin(j, name);
  tagc_put_json(j->out, value);
}

/* null where there is nothing to say. */
static inline void tagc_json_text_or_null(struct tagc_json *j, const char *name, const char *value)
{
  tagc_json_begin(j, name);
  if (value && *value)
    tagc_put_json(j->out, value);
  else
    fputs("null", j->out);
}

static inline void tagc_json_number(struct tagc_json *j, const char *name, int64_t value)
{
  tagc_json_begin(j, name);
  fprintf(j->out, "%" PRId64, value);
}

static inline void tagc_json_count(struct tagc_json *j, const char *name, uint64_t value)
{
  tagc_json_begin(j, name);
  fprintf(j->out, "%" PRIu64, value);
}

/* With nine digits; null for NaN and infinities. */
static inline void tagc_json_real(struct tagc_json *j, const char *name, double value)
{
  tagc_json_begin(j, name);
  if (isfinite(value))
    fprintf(j->out, "%.9g", value);
  else
    fputs("null", j->out);
}

static inline void tagc_json_truth(struct tagc_json *j, const char *name, bool value)
{
  tagc_json_begin(j, name);
  fputs(value ? "true" : "false", j->out);
}

#endif
