/* SPDX-License-Identifier: BSD-3-Clause
 * The names and limits of tagc-run's long options, also for the manual and the completions.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
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
  return option == &tagc_option_table[TAGC_OPTION_layermap] ? "FILE|torch|infer"
         : option->kind == TAGC_OPTION_CHOICE               ? option->text
                                                            : words[option->kind];
}

const char *tagc_run_limits(const struct tagc_option *option, char text[TAGC_RUN_LIMITS]) {
  const uint64_t least = option->min, most = option->max;
  text[0] = '\0';
  switch (option->kind) {
  case TAGC_OPTION_NUMBER:
    if (most < UINT64_MAX)
      snprintf(text, TAGC_RUN_LIMITS, "%" PRIu64 " to %" PRIu64, least, most);
    else if (least)
      snprintf(text, TAGC_RUN_LIMITS, "%" PRIu64 " and more", least);
    break;
  case TAGC_OPTION_BYTES:
    if (most < UINT64_C(1) << 50)
      snprintf(text, TAGC_RUN_LIMITS, "up to %" PRIu64 "G", most >> 30);
    break;
  case TAGC_OPTION_SCHEDULE:
    snprintf(text, TAGC_RUN_LIMITS, "0 to 0.%06" PRIu64 ", and cycles from 2 to %d", most, TAGC_SCHEDULE_LAST);
    break;
  case TAGC_OPTION_BUDGET: strcpy(text, "more than 0, up to an hour or 100%"); break;
  default: break;
  }
  return text;
}
