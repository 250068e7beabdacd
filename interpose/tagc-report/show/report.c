/* SPDX-License-Identifier: BSD-3-Clause
 * The common start of both outputs of tagc-report; see report.h.
 */
#include "interpose/tagc-report/show/report.h"

#include <stdlib.h>
#include <string.h>

#include "env/options.h"

bool tagc_report_make(struct tagc_report *r, char *const *paths, size_t count, const struct tagc_volume_facts *facts) {
  *r = (struct tagc_report){.summary = tagc_sum_read(paths, count), .facts = *facts};
  r->checks = calloc(TAGC_REPORT_CHECKS, sizeof *r->checks);
  if (!r->summary || !r->checks)
    return false;
  tagc_sum_roles(r->summary);
  tagc_ab_compare(r->summary, &r->ab);
  tagc_advice_make(r->summary, &r->advice);
  r->check_count = tagc_volume_checks(r->summary, facts, r->checks, TAGC_REPORT_CHECKS);
  if (r->check_count > TAGC_REPORT_CHECKS)
    r->check_count = TAGC_REPORT_CHECKS;
  return tagc_traits_find(r->summary, &r->traits) && tagc_stragglers_find(r->summary, &r->stragglers);
}

void tagc_report_free(struct tagc_report *r) {
  tagc_stragglers_free(&r->stragglers);
  tagc_traits_free(&r->traits);
  tagc_sum_free(r->summary);
  free(r->checks);
}

/* True if the value is the default. Values may be written in several ways. */
static bool is_preset(const char *name, const char *value) {
  const struct tagc_option *option = tagc_option_find(name);
  struct tagc_options standard, set;
  char why[256];
  tagc_options_default(&standard);
  set = standard;
  if (!option || !tagc_options_set(&set, name, value, why, sizeof why))
    return false;
  if (option->kind == TAGC_OPTION_TEXT || option->kind == TAGC_OPTION_INPUT || option->kind == TAGC_OPTION_OUTPUT)
    return strcmp(value, option->text) == 0;
  set.given = standard.given;
  return memcmp(&set, &standard, sizeof set) == 0;
}

void tagc_report_options(const struct tagc_sum_rank *rank,
                         void (*f)(void *context, const char *name, const char *value), void *context) {
  char *copy = strdup(rank->options), *rest = copy, *line;
  while (copy && (line = strsep(&rest, "\n"))) {
    char *value = strchr(line, '=');
    if (!value || value == line)
      continue;
    *value++ = '\0';
    if (!is_preset(line, value))
      f(context, line, value);
  }
  free(copy);
}
