/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-run's parts: what is asked for on the command line, and the environment that is made of it. See tagc-run(1).
 *
 * One thread; everything lives as long as the process. Errors are said on stderr by whoever finds them, and come back
 * as exit statuses.
 */
#ifndef ENV_TAGC_RUN_RUN_H
#define ENV_TAGC_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "env/program/command_line.h"
#include "env/options.h"

/* Exit statuses of tagc-run itself; any other is the command's. The last two are those of env(1). */
enum tagc_run_status {
  TAGC_RUN_GO = -1,
  TAGC_RUN_FAILED = 1,
  TAGC_RUN_USAGE = 2,
  TAGC_RUN_NOT_EXECUTABLE = 126,
  TAGC_RUN_NOT_FOUND = 127
};

struct tagc_run {
  const char *values[TAGC_OPTION_COUNT]; /* of the long options; NULL: not given */
  bool no_check, force, print;
  char **command; /* of argv; empty: none */
};

/* -- name.c ------------------------------------------------------------------------------------------------------ */

/* "--min-bytes" for TAGC_MIN_BYTES. Returns `name`. */
enum { TAGC_RUN_NAME = 64 };
const char *tagc_run_name(const struct tagc_option *option, char name[TAGC_RUN_NAME]);

/* What its value is: "off|observe|compress|ab", "NUMBER", "FILE". */
const char *tagc_run_value(const struct tagc_option *option);

/* -- options.c --------------------------------------------------------------------------------------------------- */

/* TAGC_RUN_GO, TAGC_RUN_USAGE, or 0 where --help or --version was written to stdout. */
int tagc_run_parse(struct tagc_run *run, char **argv);

/* -- environment.c ----------------------------------------------------------------------------------------------- */

/* Puts the options into the environment, over what is there. False: no memory. */
bool tagc_run_set_options(const struct tagc_run *run);

/* Appends the library to LD_PRELOAD, unless a library of that name stands there, which must exist (--no-check,
 * --force). TAGC_RUN_GO, or TAGC_RUN_FAILED. */
int tagc_run_set_preload(const struct tagc_run *run, const char *library);

/* Writes LD_PRELOAD and all TAGC_ variables to stdout, as lines for a shell. */
void tagc_run_print(void);

#endif
