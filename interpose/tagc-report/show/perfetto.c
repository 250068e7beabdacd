/* SPDX-License-Identifier: BSD-3-Clause
 * Traces as Chrome trace events; see perfetto.h. Files are read one after the other. Viewers sort by time; of two
 * events with one start the first in the file is the outer one.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/show/perfetto_parts.h"

/* -- events -------------------------------------------------------------------------------------------------------- */

void tagc_perfetto_begin(struct tagc_perfetto *w, const char *phase, uint32_t pid, uint32_t track, const char *name) {
  tagc_json_line(&w->json, 0);
  tagc_json_open(&w->json, NULL, '{');
  tagc_json_text(&w->json, "ph", phase);
  tagc_json_count(&w->json, "pid", pid);
  tagc_json_count(&w->json, "tid", (uint64_t)pid * 10000 + track);
  tagc_json_text(&w->json, "name", name);
}

void tagc_perfetto_put_us(struct tagc_perfetto *w, const char *name, int64_t ns) {
  if (ns < 0)
    ns = 0;
  tagc_json_format(&w->json, name, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

/* -- the document -------------------------------------------------------------------------------------------------- */

static int by_collective(const void *a, const void *b) {
  const struct tagc_perfetto_arrow *x = a, *y = b;
  if (x->comm != y->comm)
    return x->comm < y->comm ? -1 : 1;
  if (x->k != y->k)
    return x->k < y->k ? -1 : 1;
  return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* Writes the calls of one collective in order of their starts: a start, steps, a finish. */
static void put_arrows(struct tagc_perfetto *w) {
  uint64_t id = 0;
  size_t same;
  if (w->full || !w->arrow_count)
    return;
  qsort(w->arrows, w->arrow_count, sizeof *w->arrows, by_collective);
  for (size_t i = 0; i < w->arrow_count; i += same) {
    for (same = 1; i + same < w->arrow_count && w->arrows[i + same].comm == w->arrows[i].comm &&
                   w->arrows[i + same].k == w->arrows[i].k;
         same++)
      ;
    id++;
    for (size_t j = i; j < i + same && same > 1; j++) {
      const bool last = j + 1 == i + same;
      tagc_perfetto_begin(w, j == i ? "s" : last ? "f" : "t", w->arrows[j].pid, w->arrows[j].track, "collective");
      tagc_json_text(&w->json, "cat", "collective");
      tagc_json_count(&w->json, "id", id);
      if (last)
        tagc_json_text(&w->json, "bp", "e");
      tagc_perfetto_put_us(w, "ts", w->arrows[j].at_ns);
      tagc_json_close(&w->json, '}');
    }
  }
}

static void put_rest(struct tagc_perfetto *w) {
  struct tagc_json *j = &w->json;
  const struct tagc_summary *summary = w->summary;
  tagc_json_line(j, 0);
  tagc_json_close(j, ']');
  tagc_json_line(j, 0);
  tagc_json_text(j, "displayTimeUnit", "ms");
  tagc_json_line(j, 0);
  tagc_json_open(j, "otherData", '{');
  tagc_json_text(j, "written by", "tagc-report");
  if (w->full)
    tagc_json_text(j, "arrows", "there are too many collectives to join their calls; choose fewer steps with --steps");
  if (!w->linked)
    tagc_json_text(j, "collectives", "not counted, for records of a rank are missing");
  tagc_json_open(j, "problems", '[');
  for (size_t i = 0; i < summary->problem_count; i++) {
    tagc_json_line(j, 0);
    tagc_json_text(j, NULL, summary->problems[i]);
  }
  tagc_json_close(j, ']');
  tagc_json_close(j, '}');
  tagc_json_close(j, '}');
  putc('\n', j->out);
}

/* The range on the rank's clock: by its own steps, or without these by the clocks of the hosts. */
static void find_window(const struct tagc_sum_rank *rank, const struct tagc_sum_rank *leader,
                        struct tagc_step_range range, uint64_t *from_ns, uint64_t *to_ns) {
  *from_ns = 0;
  *to_ns = UINT64_MAX;
  if (!leader)
    return;
  uint64_t shift = (uint64_t)leader->clock_ns - (uint64_t)rank->clock_ns;
  if (range.first) {
    const struct tagc_sum_step *first = &leader->steps[range.first - 1],
                               *mine = tagc_step_find(rank, first->lock, first->cycle);
    *from_ns = mine ? mine->began_ns : first->began_ns + shift;
  }
  if (range.last) {
    const struct tagc_sum_step *last = &leader->steps[range.last - 1],
                               *mine = tagc_step_find(rank, last->lock, last->cycle);
    *to_ns = mine ? mine->began_ns + mine->ns : last->began_ns + last->ns + shift;
  }
}

/* The first rank with steps, which numbers them for ranges. NULL, and why: the range does not exist. */
static const struct tagc_sum_rank *find_leader(const struct tagc_summary *summary, struct tagc_step_range *range,
                                               char why[TAGC_TRACE_WHY]) {
  const struct tagc_sum_rank *leader = tagc_steps_leader(summary);
  if (!leader)
    snprintf(why, TAGC_TRACE_WHY, "there are no steps in these traces to choose from");
  else if (range->first > leader->step_count || (range->last && range->last < range->first)) {
    snprintf(why, TAGC_TRACE_WHY, "there are no such steps; these traces have 1 to %zu", leader->step_count);
    return NULL;
  } else if (range->last > leader->step_count)
    range->last = leader->step_count;
  return leader;
}

static bool is_undamaged(const struct tagc_summary *summary) {
  for (size_t i = 0; i < summary->rank_count; i++) {
    const struct tagc_trace_health *health = &summary->ranks[i].health;
    if (health->dropped || health->damaged_chunks || health->refused_records || health->skipped_bytes)
      return false;
  }
  return true;
}

/* The start of the first call in the ranges. */
static int64_t find_base(const struct tagc_summary *summary, const struct tagc_sum_rank *leader,
                         struct tagc_step_range range) {
  int64_t base = INT64_MAX;
  for (size_t i = 0; i < summary->rank_count; i++) {
    const struct tagc_sum_rank *rank = &summary->ranks[i];
    uint64_t from, to;
    find_window(rank, leader, range, &from, &to);
    int64_t at = (int64_t)((uint64_t)rank->clock_ns + (from ? from : rank->first_ns));
    if ((from || rank->calls.calls) && at < base)
      base = at;
  }
  return base == INT64_MAX ? 0 : base;
}

bool tagc_perfetto_write(const struct tagc_summary *summary, struct tagc_step_range range, FILE *file,
                         char why[TAGC_TRACE_WHY]) {
  struct tagc_perfetto w = {.json = {.out = file}, .summary = summary, .linked = is_undamaged(summary)};
  const struct tagc_sum_rank *leader = NULL;
  if ((range.first || range.last) && !(leader = find_leader(summary, &range, why)))
    return false;
  snprintf(why, TAGC_TRACE_WHY, "out of memory");
  w.base_ns = find_base(summary, leader, range);
  w.arrows = malloc(TAGC_PERFETTO_ARROWS * sizeof *w.arrows);
  bool fits = w.arrows != NULL;
  tagc_json_open(&w.json, NULL, '{');
  tagc_json_open(&w.json, "traceEvents", '[');
  for (size_t i = 0; i < summary->rank_count && fits; i++) {
    uint64_t from, to;
    find_window(&summary->ranks[i], leader, range, &from, &to);
    fits = tagc_perfetto_rank(&w, i, from, to);
  }
  if (fits)
    put_arrows(&w);
  put_rest(&w);
  free(w.arrows);
  return fits;
}
