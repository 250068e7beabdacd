/* SPDX-License-Identifier: BSD-3-Clause
 * The names of tagc-run's long options, also for the manual and the completions.
 */
#include <ctype.h>
#include <string.h>

#include "env/tagc-run/run.h"

const char *tagc_run_name(const struct tagc_option *option, char name[TAGC_RUN_NAME]) {
  char *to = name;
  *to++ = '-';
  *to++ = '-';
  for (const char *c = option->variable + strlen("TAGC_"); *c && to < name + TAGC_RUN_NAME - 1; c++)
    *to++ = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
  *to = '\0';
  return name;
}

const char *tagc_run_value(const struct tagc_option *option) {
  static const char *const words[] = {[TAGC_OPTION_NUMBER] = "NUMBER",
                                      [TAGC_OPTION_BYTES] = "BYTES[K|M|G]",
                                      [TAGC_OPTION_SCHEDULE] = "FRACTION[,FRACTION@CYCLE]...",
                                      [TAGC_OPTION_BUDGET] = "TIME|PERCENT",
                                      [TAGC_OPTION_TEXT] = "TEXT",
                                      [TAGC_OPTION_INPUT] = "FILE",
                                      [TAGC_OPTION_OUTPUT] = "PREFIX"};
  return option->kind == TAGC_OPTION_CHOICE ? option->text : words[option->kind];
}
