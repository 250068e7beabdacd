/* SPDX-License-Identifier: BSD-3-Clause
 * What programs write for people: nothing that a terminal would obey, lines that fit it, and errors. Threads: one.
 */
#ifndef ENV_PROGRAM_TERMINAL_H
#define ENV_PROGRAM_TERMINAL_H

#include <stddef.h>
#include <stdio.h>

/* What a terminal would obey becomes '?': control characters, those of C1 in UTF-8, too; not `keep` ('\0': all do). */
void tagc_tame(char *text, char keep);

/* Words, with the spaces between them, from `column` on, in lines of at most `width` columns, which begin at `indent`.
 * No word is cut. No newline ends the last line. */
void tagc_put_wrapped(FILE *to, const char *text, size_t column, size_t indent, size_t width);

/* A line "PROGRAM: ..." on stderr, tame. Returns `status`. */
__attribute__((format(printf, 3, 4))) int tagc_fail(const char *program, int status, const char *format, ...);

#endif
