/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report's own two outputs: text for people and JSON for programs; the page and the timeline have headers of
 * their own.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_REPORT_H
#define INTERPOSE_TAGC_REPORT_SHOW_REPORT_H

#include <stdio.h>

#include "interpose/tagc-report/judge/ab_compare.h"
#include "interpose/tagc-report/judge/advice.h"
#include "interpose/tagc-report/judge/stragglers.h"
#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/read/summary.h"

enum { TAGC_REPORT_CHECKS = 256 };

/* A summary and all that was judged of it. */
struct tagc_report {
  struct tagc_summary *summary;
  struct tagc_volume_facts facts;
  struct tagc_ab_result ab;
  struct tagc_stragglers stragglers;
  struct tagc_advice advice;
  struct tagc_volume_check *checks; /* room for TAGC_REPORT_CHECKS */
  size_t check_count;
};

/* Reads and judges. False without memory. */
bool tagc_report_make(struct tagc_report *report, char *const *paths, size_t count,
                      const struct tagc_volume_facts *facts);
void tagc_report_free(struct tagc_report *report);

/* Lines of at most 120 columns, but for the names of files. */
void tagc_report_print(const struct tagc_report *report, FILE *to);
/* One document; man/tagc-report.1 has its members. */
void tagc_report_json(const struct tagc_report *report, FILE *to);

/* Calls f(name, value) for each option of a rank that is not at its default. */
void tagc_report_options(const struct tagc_sum_rank *rank,
                         void (*f)(void *context, const char *name, const char *value), void *context);

#endif
