/* SPDX-License-Identifier: BSD-3-Clause
 * Text files of lines of words, as map files (mapfile.h) and files of calls (calls.h) are: what is common to reading
 * them.
 *
 * Words are separated by spaces and tabs; a '#' and what follows it in its line is a comment; empty lines mean nothing.
 * A line ends with LF or CR LF, the last one may do without. The text need not end with a 0, and may have none in it.
 * Columns are counted in bytes, from 1 on. The first complaint ends the reading.
 */
#ifndef LAYERMAP_MODEL_TEXT_H
#define LAYERMAP_MODEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layermap/model/complaint.h"

/* The longest line, without its end. */
enum { TAGC_TEXT_LINE = 1000 };

struct tagc_text {
  const char *next, *end;           /* of the text that is left */
  const char *line, *at, *line_end; /* this line, what is left of it, and its end (that of what is no comment) */
  unsigned number;                  /* of this line */
  bool failed;
  struct tagc_complaint *complaint;
};

struct tagc_word {
  const char *text; /* `length` bytes; 0: the line has ended, and text is where */
  size_t length;
};

/* The contents of the file, to be freed; at most `limit` bytes. NULL: *complaint says why. */
char *tagc_text_load(const char *path, size_t limit, size_t *bytes, struct tagc_complaint *complaint);
/* The same, for who must not be kept waiting: what is no regular file (a pipe, a terminal) is refused. */
char *tagc_text_load_regular(const char *path, size_t limit, size_t *bytes, struct tagc_complaint *complaint);

void tagc_text_begin(struct tagc_text *text, const char *bytes, size_t count, struct tagc_complaint *complaint);

/* Goes to the next line with a word in it. False: there is none, or text->failed. */
bool tagc_text_line(struct tagc_text *text);

/* The next word of the line. */
struct tagc_word tagc_text_word(struct tagc_text *text);
bool tagc_word_is(struct tagc_word word, const char *what);

/* Reads a number from min to max, in digits alone; false, and a complaint, where the word is none. `what`: "rows". */
bool tagc_text_number(struct tagc_text *text, struct tagc_word word, const char *what, uint64_t min, uint64_t max,
                      uint64_t *number);

/* Has the line no more words? If it has, complains about the next one. */
bool tagc_text_ended(struct tagc_text *text);

/* Reads the first line, "KEYWORD 1": what the text is, and its version. */
bool tagc_text_version(struct tagc_text *text, const char *keyword, unsigned version);

/* Complains about missing memory. Always false. */
bool tagc_text_without_memory(struct tagc_text *text);

/* Complains about a word, "\"word\" MESSAGE", or at the end of a line "nothing MESSAGE". Always false. */
__attribute__((format(printf, 3, 4))) bool tagc_text_refuse(struct tagc_text *text, struct tagc_word word,
                                                            const char *message, ...);
/* Complains about a line, or with the line 0 about the file. Always false. */
__attribute__((format(printf, 2, 3))) bool tagc_text_fail(struct tagc_text *text, const char *message, ...);

#endif
