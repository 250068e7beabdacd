/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers and sentences of tagc-report, as people read them.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_FORMAT_H
#define INTERPOSE_TAGC_REPORT_READ_FORMAT_H

#include <stdio.h>

enum { TAGC_WORDS_COLUMNS = 120 };

/* What a terminal would obey becomes '?': control characters, those of C1 in UTF-8, too; not `keep` ('\0': all do). */
void tagc_words_tame(char *text, char keep);
/* The text in lines of at most 120 columns, which begin with so many spaces. */
void tagc_words_print(FILE *to, int indent, const char *text);
/* "12.3 MiB", "-" for NaN; returns `text`. */
const char *tagc_words_bytes(double bytes, char text[16]);
/* "124,439,808"; returns `text`. */
const char *tagc_words_count(double count, char text[32]);

#endif
