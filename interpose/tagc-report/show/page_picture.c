/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/ab/windows.h"
#include "interpose/tagc-report/show/page_picture.h"

#include <math.h>
#include <stdlib.h>

#include "interpose/tagc-report/judge/steps.h"

const struct tagc_page_step *tagc_picture_choose(const struct tagc_page *page, int side) {
  double *ms = malloc((page->step_count + 1) * sizeof *ms);
  size_t count = 0;
  for (size_t i = 0; ms && i < page->step_count; i++)
    if (page->steps[i].whole && (side < 0 || (int)page->steps[i].side == side))
      ms[count++] = page->steps[i].ms;
  double middle = ms ? tagc_quantile(ms, count, 0.5) : NAN;
  free(ms);
  const struct tagc_page_step *best = NULL;
  for (size_t i = 0; i < page->step_count; i++) {
    const struct tagc_page_step *step = &page->steps[i];
    if (step->whole && (side < 0 || (int)step->side == side) &&
        (!best || fabs(step->ms - middle) < fabs(best->ms - middle)))
      best = step;
  }
  return best;
}

static void add_lane(uint64_t *lanes, size_t *count, uint64_t what) {
  for (size_t i = 0; i < *count; i++)
    if (lanes[i] == what)
      return;
  if (*count < TAGC_PICTURE_LANES)
    lanes[(*count)++] = what;
}

/* Reads a rank's calls of the step. False: no memory. */
static bool read_part(struct tagc_picture *picture, size_t rank, const struct tagc_sum_step *step) {
  struct tagc_drawn *part = &picture->parts[picture->count];
  const struct tagc_summary *summary = picture->page->summary;
  *part = (struct tagc_drawn){.rank = rank, .step = step};
  picture->count++;
  part->comms = tagc_rank_comms(summary, rank, &part->comm_count);
  if (!part->comms ||
      !tagc_time_window_read(&summary->ranks[rank], step->began_ns, step->began_ns + step->ns, &part->window))
    return false;
  for (size_t i = 0; i < part->window.count; i++) {
    add_lane(part->lanes, &part->threads, part->window.calls[i].call.thread);
    if (part->window.calls[i].times.call && !part->window.calls[i].under)
      add_lane(part->lanes + TAGC_PICTURE_LANES, &part->streams, part->window.calls[i].call.stream);
  }
  return true;
}

/* Up to the end of the step, or of the last call that began in it unless that is much later. */
static double length_of(const struct tagc_drawn *part) {
  double length = tagc_ms((double)part->step->ns), most = 1.25 * length;
  for (size_t i = 0; i < part->window.count; i++) {
    const struct tagc_trace_call *call = &part->window.calls[i].call;
    length = fmax(length, fmin(most, tagc_ms((double)(call->began_ns - part->step->began_ns) + (double)call->host_ns)));
  }
  return length;
}

/* The start by its host's clock; absurd clocks wrap around. */
static int64_t began_at(const struct tagc_summary *summary, const struct tagc_drawn *part) {
  return (int64_t)(part->step->began_ns + (uint64_t)summary->ranks[part->rank].clock_ns);
}

bool tagc_picture_read(struct tagc_picture *picture) {
  const struct tagc_page *page = picture->page;
  const struct tagc_summary *summary = page->summary;
  bool slowest = page->stragglers.slowest < summary->rank_count && page->stragglers.slowest >= TAGC_PICTURE_RANKS;
  for (size_t i = 0; i < summary->rank_count && picture->count < TAGC_PICTURE_RANKS; i++) {
    size_t rank = slowest && picture->count == TAGC_PICTURE_RANKS - 1 ? page->stragglers.slowest : i;
    const struct tagc_sum_step *step = tagc_step_find(&summary->ranks[rank], picture->step->lock, picture->step->cycle);
    if (step && !read_part(picture, rank, step))
      return false;
  }
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (size_t i = 0; i < picture->count; i++) {
    int64_t began = began_at(summary, &picture->parts[i]);
    first = began < first ? began : first;
    last = began > last ? began : last;
  }
  picture->aligned = picture->count && tagc_ms((double)((uint64_t)last - (uint64_t)first)) < picture->step->ms / 2;
  for (size_t i = 0; i < picture->count; i++) {
    struct tagc_drawn *part = &picture->parts[i];
    part->offset_ms = picture->aligned ? tagc_ms((double)(began_at(summary, part) - first)) : 0;
    picture->length_ms = fmax(picture->length_ms, part->offset_ms + length_of(part));
  }
  return true;
}

void tagc_picture_free(struct tagc_picture *picture) {
  for (size_t i = 0; i < picture->count; i++) {
    tagc_time_window_free(&picture->parts[i].window);
    free(picture->parts[i].comms);
  }
}
