/* SPDX-License-Identifier: BSD-3-Clause
 * The drawn part of a step: which step and ranks, their calls, and where these begin on a common scale of time.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_PAGE_PICTURE_H
#define INTERPOSE_TAGC_REPORT_SHOW_PAGE_PICTURE_H

#include "interpose/tagc-report/show/page.h"
#include "interpose/tagc-report/show/svg.h"
#include "interpose/tagc-report/show/window.h"

/* Limits. Lanes: of a rank's threads, and as many of its streams. */
enum { TAGC_PICTURE_RANKS = 8, TAGC_PICTURE_LANES = 4 };

/* A drawn rank of the step. */
struct tagc_drawn {
  size_t rank;
  const struct tagc_sum_step *step;
  struct tagc_time_window window;
  size_t *comms;
  uint32_t comm_count;
  double offset_ms;                       /* its start in the picture */
  uint64_t lanes[2 * TAGC_PICTURE_LANES]; /* threads, then streams */
  size_t threads, streams;
};

struct tagc_picture {
  struct tagc_page *page;
  const struct tagc_page_step *step;
  struct tagc_drawn parts[TAGC_PICTURE_RANKS];
  size_t count;
  bool aligned;            /* by the hosts' clocks; else all ranks begin at 0 */
  double length_ms, least; /* least: length, in units, of a bar drawn alone */
  struct tagc_axis x;
};

/* The whole step of the side (-1: any) whose time is nearest to their median; NULL: none. */
const struct tagc_page_step *tagc_picture_choose(const struct tagc_page *page, int side);

/* Reads the drawn ranks: the first ones, and the slowest. False: no memory. The caller frees in any case. */
bool tagc_picture_read(struct tagc_picture *picture);
void tagc_picture_free(struct tagc_picture *picture);

#endif
