/* SPDX-License-Identifier: BSD-3-Clause
 * Possible further savings of a job: sentences with numbers from its traces. Pure.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_ADVICE_H
#define INTERPOSE_TAGC_REPORT_JUDGE_ADVICE_H

#include "interpose/tagc-report/read/summary.h"

enum { TAGC_ADVICE_MOST = 6, TAGC_ADVICE_TEXT = 480 };

struct tagc_advice {
  char text[TAGC_ADVICE_MOST][TAGC_ADVICE_TEXT];
  size_t count;
};

void tagc_advice_make(const struct tagc_summary *summary, struct tagc_advice *out);

#endif
