/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of a program: one table of options drives the parser, its messages and --help.
 *
 * Forms      --name=VALUE, --name VALUE, and for a row with a letter -l VALUE and -lVALUE. "--" ends the options and is
 *            no value. Every program has --help, -h and --version.
 * Errors     One line on stderr names the option, the value, and what is accepted.
 * Threads    One.
 */
#ifndef ENV_PROGRAM_COMMAND_LINE_H
#define ENV_PROGRAM_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The type of the field, at `offset`, that takes the value. */
enum tagc_argument_kind {
  TAGC_ARGUMENT_FLAG,   /* bool: takes no value */
  TAGC_ARGUMENT_INT,    /* int, at least 0 */
  TAGC_ARGUMENT_COUNT,  /* uint64_t */
  TAGC_ARGUMENT_SIZE,   /* uint64_t, with an optional K, M or G */
  TAGC_ARGUMENT_REAL,   /* double */
  TAGC_ARGUMENT_CHOICE, /* int or an enumeration: the index in `names` */
  TAGC_ARGUMENT_FILE,   /* const char *, not empty */
  TAGC_ARGUMENT_TEXT,   /* const char * */
  TAGC_ARGUMENT_CALL,   /* `set` takes it */
};

enum { TAGC_ARGUMENT_RIVALS = 2 }; /* of an option, at most: those that it does not go with */

/* An option. A row without a name is a heading of --help: its `help`, verbatim. */
struct tagc_argument {
  const char *name, *old; /* without the dashes; old: a former name, answered with the present one */
  const char *value;      /* stands for its value in --help; NULL: takes none */
  bool optional;          /* --name alone is allowed: its value is "" then */
  enum tagc_argument_kind kind;
  size_t offset;
  const char *accepts; /* in words; for numbers "LEAST to MOST", then any words; NULL: see `value` */
  const char *preset;  /* the default, for --help and tagc_command_line_preset(); NULL: none */
  const char *help;
  const char *const *names;                  /* of a choice, NULL-terminated */
  bool (*set)(void *to, const char *value);  /* false: refused */
  const char *with;                          /* the option without which it would do nothing, and is refused; or NULL */
  const char *without[TAGC_ARGUMENT_RIVALS]; /* options beside which it would do nothing, and is refused; or NULL */
  char letter;                               /* 0: none */
};
enum { TAGC_ARGUMENTS = 100 }; /* in a table, at most */

struct tagc_command_line {
  const char *program;
  const char *head, *tail; /* of --help, before and after the options */
  size_t indent;           /* column of their texts */
  const struct tagc_argument *rows;
  size_t count;
  bool command; /* the first word that is no option ends the options */
};

enum { TAGC_COMMAND_LINE_GO = -1, TAGC_COMMAND_LINE_USAGE = 2 };

/* Sets all fields to their defaults. */
void tagc_command_line_preset(const struct tagc_command_line *line, void *to);

/* Fills the fields of *to. GO: argv + 1 holds the words that are no options, in order, NULL-terminated. 0: --help or
 * --version was written to `out`. USAGE: refused, with a message. */
int tagc_command_line_parse(const struct tagc_command_line *line, char **argv, void *to, FILE *out);

/* Reports an error; returns USAGE. */
__attribute__((format(printf, 2, 3))) int tagc_refuse(const struct tagc_command_line *line, const char *why, ...);

#endif
