/* SPDX-License-Identifier: BSD-3-Clause
 * Parts of tagc-run: its command line, and the environment made from that. See tagc-run(1).
 *
 * One thread; everything lives as long as the process. Each part reports its errors on stderr, and returns a status.
 */
#ifndef ENV_TAGC_RUN_RUN_H
#define ENV_TAGC_RUN_RUN_H

#include <limits.h>
#include <stdbool.h>

#include "env/program/command_line.h"
#include "env/options.h"

/* Exit statuses of tagc-run itself; others are the command's. The last two are those of env(1). */
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

/* The form of its value: "off|observe|compress|ab", "NUMBER", "FILE". */
const char *tagc_run_value(const struct tagc_option *option);

/* Limits of the value that somebody may reach: "0 to 16", "up to 4G"; "": none. */
enum { TAGC_RUN_LIMITS = 64 };
const char *tagc_run_limits(const struct tagc_option *option, char text[TAGC_RUN_LIMITS]);

/* -- options.c --------------------------------------------------------------------------------------------------- */

/* TAGC_RUN_GO, TAGC_RUN_USAGE, or 0 after --help or --version was written to stdout. */
int tagc_run_parse(struct tagc_run *run, char **argv);

/* -- environment.c ----------------------------------------------------------------------------------------------- */

/* Puts the options into the environment, replacing present values. False: no memory. */
bool tagc_run_set_options(const struct tagc_run *run);

/* Appends the library to LD_PRELOAD, unless the list has a library of that name. That one must exist, except with
 * --no-check or --force. Returns TAGC_RUN_GO or TAGC_RUN_FAILED. */
int tagc_run_set_preload(const struct tagc_run *run, const char *library);

/* Writes LD_PRELOAD and all TAGC_ variables to stdout as lines for a shell. */
void tagc_run_print(void);

#endif
