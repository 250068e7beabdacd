/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of tagc-run: its long options are the variables of options.def in other words.
 */
#include <stdio.h>

#include "env/tagc-run/run.h"

enum { OWN = 4, ROWS = OWN + TAGC_OPTION_COUNT };

/* clang-format off */
static struct tagc_argument rows[ROWS] = {
  {.name = "print", .offset = offsetof(struct tagc_run, print),
   .help = "do not start anything: print these variables, as lines for a shell; a COMMAND is only checked"},
  {.name = "no-check", .offset = offsetof(struct tagc_run, no_check),
   .help = "look neither at the program (tagc-doctor) nor at files and folders that options name"},
  {.name = "force", .offset = offsetof(struct tagc_run, force), .without = {"no-check"},
   .help = "look at them, print the problems, and start the command all the same"},
  {.help = "Options of the library, with their defaults; a value may also stand behind a =, as in --mode=ab:"},
};
/* clang-format on */

static const struct tagc_command_line command_line = {
  .program = "tagc-run",
  .head = "usage: tagc-run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
          "       tagc-run [OPTION...] --print [[--] COMMAND [ARGUMENT...]]\n"
          "Starts a command with libtagc-preload.so in front of NCCL: sets LD_PRELOAD, and a TAGC_ variable\n"
          "for each option; those of the environment stay. Checks first whether this can work.\n"
          "\n",
  .tail = "\n"
          "More about them is in libtagc-preload(7).\n"
          "\n"
          "Exit status: that of the command; 127 it was not found; 126 it could not be started; 1 it would\n"
          "not work, or the library was not found; 2 wrong usage, or a value that the library would not\n"
          "understand.\n",
  .indent = 6,
  .rows = rows,
  .count = ROWS,
  .command = true,
};

/* Adds the rows of the library's options. The library itself checks their values. */
static void add_rows(void) {
  static struct {
    char name[TAGC_RUN_NAME], old[TAGC_RUN_NAME], preset[TAGC_OPTION_PRESET], limits[TAGC_RUN_LIMITS];
  } texts[TAGC_OPTION_COUNT];
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++) {
    const struct tagc_option *option = &tagc_option_table[i];
    rows[OWN + i] = (struct tagc_argument){.name = tagc_run_name(option, texts[i].name) + 2,
                                           .value = tagc_run_value(option),
                                           .kind = TAGC_ARGUMENT_TEXT,
                                           .offset = offsetof(struct tagc_run, values) + i * sizeof(const char *),
                                           .accepts = tagc_run_limits(option, texts[i].limits),
                                           .preset = tagc_option_preset(option, texts[i].preset),
                                           .help = option->help};
  }
  for (const struct tagc_option_rename *r = tagc_option_renames; r->old; r++)
    rows[OWN + r->option].old = tagc_run_name(&(struct tagc_option){.variable = r->old}, texts[r->option].old) + 2;
}

int tagc_run_parse(struct tagc_run *run, char **argv) {
  add_rows();
  const int status = tagc_command_line_parse(&command_line, argv, run, stdout);
  if (status != TAGC_COMMAND_LINE_GO)
    return status;
  run->command = argv + 1;
  if (!*run->command && !run->print)
    return tagc_refuse(&command_line, "no command to start");
  return TAGC_RUN_GO;
}
