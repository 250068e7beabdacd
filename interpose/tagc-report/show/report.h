/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report's own outputs: text for people and JSON for programs. The page and the timeline have their own headers.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_REPORT_H
#define INTERPOSE_TAGC_REPORT_SHOW_REPORT_H

#include <stdio.h>

#include "interpose/tagc-report/judge/ab_compare.h"
#include "interpose/tagc-report/judge/advice.h"
#include "interpose/tagc-report/judge/characterise.h"
#include "interpose/tagc-report/judge/stragglers.h"
#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/read/summary.h"

enum { TAGC_REPORT_CHECKS = 256 };

/* A summary and all judgements of it. */
struct tagc_report {
  struct tagc_summary *summary;
  struct tagc_volume_facts facts;
  struct tagc_ab_result ab;
  struct tagc_stragglers stragglers;
  struct tagc_advice advice;
  struct tagc_traits traits;
  struct tagc_volume_check *checks; /* room for TAGC_REPORT_CHECKS */
  size_t check_count;
};

/* Reads and judges. False: no memory. */
bool tagc_report_make(struct tagc_report *report, char *const *paths, size_t count,
                      const struct tagc_volume_facts *facts);
void tagc_report_free(struct tagc_report *report);

/* Lines of at most 120 columns, except file names. */
void tagc_report_print(const struct tagc_report *report, FILE *to);
/* Tables of what the job communicates (judge/characterise.h), in place of that. */
void tagc_report_characterise(const struct tagc_report *report, FILE *to);
/* One document; man/tagc-report.1 has its members. */
void tagc_report_json(const struct tagc_report *report, FILE *to);

/* Calls f(name, value) for each option of a rank that differs from its default. */
void tagc_report_options(const struct tagc_sum_rank *rank,
                         void (*f)(void *context, const char *name, const char *value), void *context);

#endif
