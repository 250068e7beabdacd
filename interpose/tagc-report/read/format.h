/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers and sentences of tagc-report for people.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_FORMAT_H
#define INTERPOSE_TAGC_REPORT_READ_FORMAT_H

#include <stdio.h>

enum { TAGC_WORDS_COLUMNS = 120 };

/* Prints the text in lines of at most 120 columns that begin with `indent` spaces. */
void tagc_format_print(FILE *to, size_t indent, const char *text);
/* "12.3 MiB", "-" for NaN; returns `text`. */
const char *tagc_format_bytes(double bytes, char text[16]);
/* "124,439,808"; returns `text`. */
const char *tagc_format_count(double count, char text[32]);

#endif
