/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of tagc-report's text.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_TEXT_H
#define INTERPOSE_TAGC_REPORT_SHOW_TEXT_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

/* Prints a line behind a label; a long one continues beneath itself. */
void tagc_text_labelled(FILE *to, const char *label, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A number with `digits` behind the point; "-" for NaN. */
const char *tagc_text_real(double number, int digits, char text[24]);
/* "87%" for 0.87; "-" for NaN. */
const char *tagc_text_percent(double share, char text[24]);
static inline const char *tagc_text_plural(size_t n) { return n == 1 ? "" : "s"; }

/* Prints communicators, their calls and slots (text_comms.c). */
void tagc_text_comms(FILE *to, const struct tagc_summary *summary);

/* The bounds of a size class (struct tagc_sum_line) in words: "1-2 MiB". */
const char *tagc_text_class(int size_class, char text[24]);

#endif
