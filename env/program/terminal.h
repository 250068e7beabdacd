/* SPDX-License-Identifier: BSD-3-Clause
 * Output for people: without control characters, wrapped to the terminal, and errors. Threads: one.
 */
#ifndef ENV_PROGRAM_TERMINAL_H
#define ENV_PROGRAM_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Is this file a terminal that can move its cursor (TERM)? Does its user want colours there (NO_COLOR)? */
bool tagc_terminal_has_cursor(int file);
bool tagc_terminal_wants_colours(int file);

/* '?' replaces control characters, also those of C1 in UTF-8, which steer a terminal. `keep` stays ('\0': none). */
void tagc_tame(char *text, char keep);

/* Writes a text, tamed: the name of a file may hold anything. */
void tagc_put_tamed(FILE *to, const char *text);

/* Writes words and their spaces in lines of at most `width` columns. The text starts at `column`, further lines at
 * `indent`. Cuts no word; writes no newline at the end. */
void tagc_put_wrapped(FILE *to, const char *text, size_t column, size_t indent, size_t width);

/* Writes a line "PROGRAM: ..." on stderr, tamed. Returns `status`. */
__attribute__((format(printf, 3, 4))) int tagc_fail(const char *program, int status, const char *format, ...);

#endif
