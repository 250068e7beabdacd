/* SPDX-License-Identifier: BSD-3-Clause
 * JSON output of the programs: commas and quotes are always right. Numbers that JSON lacks become null. `name` is NULL
 * inside an array. Threads: one at a time.
 */
#ifndef ENV_PROGRAM_JSON_H
#define ENV_PROGRAM_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* {file} starts a document. */
struct tagc_json {
  FILE *out;
  bool spaced; /* a space behind commas and colons */
  bool comma;  /* one is due before the next value */
  bool line;   /* the next value starts a line, behind `indent` spaces */
  int indent;
};

/* Objects '{' '}', arrays '[' ']'. */
void tagc_json_open(struct tagc_json *j, const char *name, char bracket);
void tagc_json_close(struct tagc_json *j, char bracket);
/* An array of objects, brackets included: for (size_t i = tagc_json_list(j, name); tagc_json_item(j, i, count); i++)
 * writes the members of each. */
size_t tagc_json_list(struct tagc_json *j, const char *name);
bool tagc_json_item(struct tagc_json *j, size_t i, size_t count);
/* Starts a line before the next value or closing bracket. */
void tagc_json_line(struct tagc_json *j, int indent);

void tagc_json_text(struct tagc_json *j, const char *name, const char *value);
/* null for NULL and "". */
void tagc_json_text_or_null(struct tagc_json *j, const char *name, const char *value);
void tagc_json_number(struct tagc_json *j, const char *name, int64_t value);
void tagc_json_count(struct tagc_json *j, const char *name, uint64_t value);
/* Nine digits; null for NaN and infinities. */
void tagc_json_real(struct tagc_json *j, const char *name, double value);
void tagc_json_null(struct tagc_json *j, const char *name);
void tagc_json_truth(struct tagc_json *j, const char *name, bool value);
/* A number in the given format. */
__attribute__((format(printf, 3, 4))) void tagc_json_format(struct tagc_json *j, const char *name, const char *format,
                                                            ...);

#endif
