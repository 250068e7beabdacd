/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of a program: one table of its options is the parser, its messages and --help.
 *
 * Forms      --name=VALUE, --name VALUE, and for a row with a letter -l VALUE and -lVALUE. "--" ends options, and is
 *            no value. Every program has --help, -h and --version.
 * Errors     One line on stderr names the option, the value, and what is accepted.
 * Threads    One.
 */
#ifndef ENV_PROGRAM_COMMAND_LINE_H
#define ENV_PROGRAM_COMMAND_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Where a value goes: a field at an offset, of the type named here. */
enum tagc_argument_kind {
  TAGC_ARGUMENT_FLAG,   /* bool: it takes no value */
  TAGC_ARGUMENT_INT,    /* int, from 0 on */
  TAGC_ARGUMENT_COUNT,  /* uint64_t */
  TAGC_ARGUMENT_SIZE,   /* uint64_t, perhaps with K, M or G behind it */
  TAGC_ARGUMENT_REAL,   /* double */
  TAGC_ARGUMENT_CHOICE, /* int or an enumeration: the place in `names` */
  TAGC_ARGUMENT_FILE,   /* const char *, not empty */
  TAGC_ARGUMENT_TEXT,   /* const char * */
  TAGC_ARGUMENT_CALL,   /* `set` takes it */
};

/* An option. A row without a name is a heading of --help: `help`, as it is. */
struct tagc_argument {
  const char *name, *old; /* without the dashes; old: a former name, which is answered with the present one */
  const char *value;      /* what stands for its value in --help; NULL: it takes none */
  bool optional;          /* --name alone does, too: its value is "" then */
  enum tagc_argument_kind kind;
  size_t offset;
  const char *accepts; /* in words; of numbers "LEAST to MOST", and any words; NULL: `value` tells */
  const char *preset;  /* its default, for --help and tagc_command_line_preset(); NULL: none */
  const char *help;
  const char *const *names;                 /* of a choice, with NULL at the end */
  bool (*set)(void *to, const char *value); /* false: refused */
  char letter;                              /* 0: none */
};

struct tagc_command_line {
  const char *program;
  const char *head, *tail; /* of --help, above and below the options */
  size_t indent;           /* where their texts begin */
  const struct tagc_argument *rows;
  size_t count;
  bool command; /* the first word that is no option ends them */
};

enum { TAGC_COMMAND_LINE_GO = -1, TAGC_COMMAND_LINE_USAGE = 2 };

/* Gives all fields their defaults. */
void tagc_command_line_preset(const struct tagc_command_line *line, void *to);

/* Fills the fields of *to. GO: argv + 1 has the words that are no options, in their order, and NULL at the end.
 * 0: --help or --version was written to `out`. USAGE: refused, and said. */
int tagc_command_line_parse(const struct tagc_command_line *line, char **argv, void *to, FILE *out);

/* Says what is wrong; returns USAGE. */
__attribute__((format(printf, 2, 3))) int tagc_refuse(const struct tagc_command_line *line, const char *why, ...);

#endif
