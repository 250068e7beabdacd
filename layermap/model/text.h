/* SPDX-License-Identifier: BSD-3-Clause
 * Shared reader of map files (mapfile.h) and files of calls (calls.h): text files of lines of words.
 *
 * Spaces and tabs separate words. A '#' begins a comment to the end of the line; empty lines mean nothing. Lines end
 * with LF or CR LF; the last one may lack it. The text needs no NUL, and may contain none. Columns count bytes, from 1.
 * The first complaint ends the reading.
 */
#ifndef LAYERMAP_MODEL_TEXT_H
#define LAYERMAP_MODEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layermap/model/complaint.h"

/* The longest line, without its newline. */
enum { TAGC_TEXT_LINE = 1000 };

struct tagc_text {
  const char *next, *end;           /* of the text left */
  const char *line, *at, *line_end; /* this line, the rest of it, and its end (without the comment) */
  unsigned number;                  /* of this line */
  bool failed;
  struct tagc_complaint *complaint;
};

struct tagc_word {
  const char *text; /* `length` bytes; 0: end of the line, at `text` */
  size_t length;
};

/* The contents of the file, which the caller frees; at most `limit` bytes. NULL: see *complaint. */
char *tagc_text_load(const char *path, size_t limit, size_t *bytes, struct tagc_complaint *complaint);
/* As tagc_text_load(), but never blocks: refuses all but regular files (a pipe, a terminal). */
char *tagc_text_load_regular(const char *path, size_t limit, size_t *bytes, struct tagc_complaint *complaint);

void tagc_text_begin(struct tagc_text *text, const char *bytes, size_t count, struct tagc_complaint *complaint);

/* Goes to the next line that has words. False: none, or text->failed. */
bool tagc_text_line(struct tagc_text *text);

/* The next word of the line. */
struct tagc_word tagc_text_word(struct tagc_text *text);
bool tagc_word_is(struct tagc_word word, const char *what);

/* Reads a number from min to max, digits only. False with a complaint: not one. `what`: "rows". */
bool tagc_text_number(struct tagc_text *text, struct tagc_word word, const char *what, uint64_t min, uint64_t max,
                      uint64_t *number);

/* True at the end of the line; else complains about the next word. */
bool tagc_text_ended(struct tagc_text *text);

/* Reads the first line, "KEYWORD 1": the text's format and version. */
bool tagc_text_version(struct tagc_text *text, const char *keyword, unsigned version);

/* Complains about missing memory. Always false. */
bool tagc_text_without_memory(struct tagc_text *text);

/* Complains about a word, "\"word\" MESSAGE", or at the end of a line "nothing MESSAGE". Always false. */
__attribute__((format(printf, 3, 4))) bool tagc_text_refuse(struct tagc_text *text, struct tagc_word word,
                                                            const char *message, ...);
/* Complains about a line, or with line 0 about the file. Always false. */
__attribute__((format(printf, 2, 3))) bool tagc_text_fail(struct tagc_text *text, const char *message, ...);

#endif
