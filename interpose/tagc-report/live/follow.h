/* SPDX-License-Identifier: BSD-3-Clause
 * A trace that grows: gives the records of each whole chunk once, when it is there.
 *
 * The writer appends a chunk in two steps, and takes a part of one back if its disk is full. So a chunk that is not
 * whole yet is left for the next time. A damaged one is skipped, as records.h does.
 * Memory   The new bytes, at most TAGC_FOLLOW_MOST at a time.
 * Threads  One at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_LIVE_FOLLOW_H
#define INTERPOSE_TAGC_REPORT_LIVE_FOLLOW_H

#include <stdint.h>

#include "interpose/tagc-report/read/records.h"

enum { TAGC_FOLLOW_MOST = 8 << 20 };

/* All zeros but for the path, which its user keeps. */
struct tagc_follow {
  const char *path;
  uint64_t at;              /* behind the last chunk that was read; 0: not even the head */
  double changed;           /* seconds since 1970: the last change of the file; 0: it is not there */
  char why[TAGC_TRACE_WHY]; /* "": no trouble; else why nothing is read */
};

typedef void tagc_follow_take(void *context, const struct tagc_trace_record *record);

/* Gives all records that are new. */
void tagc_follow_read(struct tagc_follow *follow, tagc_follow_take *take, void *context);

#endif
