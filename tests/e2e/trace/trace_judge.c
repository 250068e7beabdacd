/* SPDX-License-Identifier: BSD-3-Clause
 * trace_judge [PARAMETERS] TRACE...: prints the judgement of traces, as lines of words for scripts, and then as text.
 */
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/judge/stragglers.h"
#include "interpose/tagc-report/judge/ab_compare.h"
#include "interpose/tagc-report/judge/volume.h"

enum { MOST = 64 };

static void print_checks(const struct tagc_summary *summary, const struct tagc_volume_check *checks, size_t count) {
  for (size_t i = 0; i < summary->comm_count; i++)
    printf("role %zu %d %s\n", i, summary->comms[i].nranks, tagc_role_words(summary->comms[i].role));
  for (size_t i = 0; i < count; i++)
    printf("check %zu expected=%.17g measured=%.17g sent=%.17g deviation=%.17g %s: %s\n", checks[i].comm,
           checks[i].expected, checks[i].measured, checks[i].sent, checks[i].deviation, checks[i].what,
           checks[i].formula);
}

int main(int argc, char **argv) {
  char *end = NULL;
  struct tagc_volume_facts facts = {.parameters = argc > 1 ? strtoull(argv[1], &end, 10) : 0};
  const int first = end && *end == '\0' ? 2 : 1;
  struct tagc_volume_check checks[MOST];
  struct tagc_ab_result ab;
  struct tagc_stragglers stragglers;
  struct tagc_summary *summary = tagc_sum_read(&argv[first], (size_t)(argc - first));
  if (!summary || !tagc_stragglers_find(summary, &stragglers))
    return 1;
  tagc_sum_roles(summary);
  const size_t checked =
    tagc_volume_checks(summary, first == 2 ? &facts : &(struct tagc_volume_facts){0}, checks, MOST);
  const size_t count = checked < MOST ? checked : MOST;
  tagc_ab_compare(summary, &ab);
  printf("ranks %zu problems %zu steps %zu verdict %s pairs %zu\n", summary->rank_count, summary->problem_count,
         stragglers.steps, tagc_ab_outcome_name(ab.figures.outcome), ab.figures.pairs);
  for (size_t i = 0; i < summary->problem_count; i++)
    printf("problem %s\n", summary->problems[i]);
  print_checks(summary, checks, count);
  tagc_volume_print(stdout, summary, checks, count);
  tagc_stragglers_print(stdout, summary, &stragglers);
  tagc_ab_print(stdout, &ab);
  tagc_stragglers_free(&stragglers);
  tagc_sum_free(summary);
  return 0;
}
