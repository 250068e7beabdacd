/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/events/tensorboard.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/events/event_file.h"
#include "interpose/tagc-report/judge/steps.h"

/* The runs behind those of the ranks. */
enum { PLAIN, COMPRESSED, LAYERS, RUNS };
static const char *const run_names[RUNS] = {"plain", "compressed", "layers"};

static bool has_sides(const struct tagc_summary *summary) {
  bool seen[TAGC_SUM_SIDES] = {false};
  for (size_t r = 0; r < summary->rank_count; r++)
    for (size_t i = 0; i < summary->ranks[r].step_count; i++)
      seen[summary->ranks[r].steps[i].side] = true;
  return seen[TAGC_SUM_PLAIN] && seen[TAGC_SUM_COMPRESSED];
}

static bool has_points(const struct tagc_summary *summary) {
  const struct tagc_sum_comm *main = summary->has_main ? summary->comms : NULL;
  bool any = false;
  for (size_t i = 0; main && i < main->slot_count; i++)
    any |= main->slots[i].point_count > 0;
  for (size_t i = 0; main && i < main->allgather_count; i++)
    any |= main->allgathers[i].point_count > 0;
  return any;
}

static bool has_run(const struct tagc_summary *summary, int run) {
  return run == LAYERS ? has_points(summary) : has_sides(summary);
}

/* The kind of a run behind the ranks: those that the job lacks are left out. */
static int kind_of_run(const struct tagc_summary *summary, size_t run) {
  size_t at = summary->rank_count;
  for (int kind = 0; kind < RUNS; kind++)
    if (has_run(summary, kind) && at++ == run)
      return kind;
  return RUNS;
}

size_t tagc_tensorboard_runs(const struct tagc_summary *summary) {
  size_t count = summary->rank_count;
  for (int kind = 0; kind < RUNS; kind++)
    count += has_run(summary, kind);
  return count;
}

const char *tagc_tensorboard_run(const struct tagc_summary *summary, size_t run, char text[32]) {
  if (run < summary->rank_count)
    snprintf(text, 32, "rank%d", summary->ranks[run].number);
  else
    snprintf(text, 32, "%s", run_names[kind_of_run(summary, run)]);
  return text;
}

/* Seconds since 1970 at a time of the rank. */
static double wall_time(const struct tagc_sum_rank *rank, uint64_t ns) {
  return 1e-9 * ((double)rank->clock_ns + (double)ns);
}

static double seconds(uint64_t ns) { return 1e-9 * (double)ns; }

/* Of several hosts only bytes to other hosts count. */
static double wire_bytes_of(const struct tagc_summary *summary, const struct tagc_sum_sent *sent) {
  return (double)(tagc_sum_hosts(summary) > 1 ? sent->between : tagc_sent_all(sent));
}

static void write_rank(const struct tagc_summary *summary, const struct tagc_sum_rank *rank, FILE *file) {
  for (size_t i = 0; i < rank->step_count; i++) {
    const struct tagc_sum_step *step = &rank->steps[i];
    const size_t number = tagc_step_number(summary, step->lock, step->cycle);
    const double at = wall_time(rank, step->began_ns + step->ns), took = seconds(step->ns);
    /* As in judge/stragglers.h: on a GPU at most that. */
    const uint64_t waits = rank->blocking ? step->host_ns : step->wire_ns;
    const double exposed = fmin(seconds(waits), took);
    const double sent = wire_bytes_of(summary, &step->sent), plain = wire_bytes_of(summary, &step->plain);
    if (!step->whole || !number)
      continue;
    tagc_event_scalar(file, at, number, "step/seconds", took);
    tagc_event_scalar(file, at, number, "step/exposed_seconds", exposed);
    if (took > 0)
      tagc_event_scalar(file, at, number, "step/exposed_share", exposed / took);
    tagc_event_scalar(file, at, number, "bytes/sent", sent);
    tagc_event_scalar(file, at, number, "bytes/plain", plain);
    if (plain > 0)
      tagc_event_scalar(file, at, number, "bytes/ratio", sent / plain);
  }
}

/* Writes a step that all its ranks took on that side, undisturbed. */
static void write_step_of_side(const struct tagc_summary *summary, const struct tagc_rank_step *ranks, size_t count,
                               uint8_t side, FILE *file) {
  const struct tagc_sum_step *first = ranks->step;
  const struct tagc_sum_rank *rank = &summary->ranks[ranks->rank];
  const size_t number = tagc_step_number(summary, first->lock, first->cycle);
  double took = 0, sent = 0;
  bool counts = number > 0;
  for (size_t i = 0; i < count; i++) {
    counts = counts && ranks[i].step->side == side && ranks[i].step->whole;
    took += seconds(ranks[i].step->ns) / (double)count;
    sent += wire_bytes_of(summary, &ranks[i].step->sent) / (double)count;
  }
  if (!counts)
    return;
  const double at = wall_time(rank, first->began_ns + first->ns);
  tagc_event_scalar(file, at, number, "step/seconds", took);
  tagc_event_scalar(file, at, number, "bytes/sent", sent);
}

static bool write_side(const struct tagc_summary *summary, uint8_t side, FILE *file) {
  size_t count;
  struct tagc_rank_step *steps = tagc_steps_sorted(summary, &count);
  for (size_t i = 0, same; i < count; i += same) {
    same = tagc_steps_same(steps + i, count - i);
    write_step_of_side(summary, steps + i, same, side, file);
  }
  free(steps);
  return steps != NULL;
}

/* Further slots of a layer in the same lock get a number. */
static void tag_slot(const struct tagc_sum_slot *slots, size_t at, const char *group, char tag[TAGC_EVENT_TAG]) {
  unsigned before = 0;
  for (size_t i = 0; i < at; i++)
    before += slots[i].lock == slots[at].lock && strcmp(slots[i].name, slots[at].name) == 0;
  if (before)
    snprintf(tag, TAGC_EVENT_TAG, "%s/%s %u", group, slots[at].name, before + 1);
  else
    snprintf(tag, TAGC_EVENT_TAG, "%s/%s", group, slots[at].name);
}

static void write_points(const struct tagc_summary *summary, const struct tagc_sum_slot *slots, size_t at,
                         const char *error, const char *residual, FILE *file) {
  const struct tagc_sum_rank *leader = tagc_steps_leader(summary);
  char tags[2][TAGC_EVENT_TAG];
  tag_slot(slots, at, error, tags[0]);
  tag_slot(slots, at, residual ? residual : "", tags[1]);
  for (size_t i = 0; i < slots[at].point_count; i++) {
    const struct tagc_sum_point *point = &slots[at].points[i];
    const struct tagc_sum_step *step = leader ? tagc_step_find(leader, slots[at].lock, point->cycle) : NULL;
    if (!step)
      continue;
    const double time = wall_time(leader, step->began_ns + step->ns);
    const size_t number = tagc_step_number(summary, slots[at].lock, point->cycle);
    if (!isnan(point->error))
      tagc_event_scalar(file, time, number, tags[0], point->error);
    if (residual && !isnan(point->residual))
      tagc_event_scalar(file, time, number, tags[1], point->residual);
  }
}

static void write_layers_of(const struct tagc_summary *summary, FILE *file) {
  const struct tagc_sum_comm *main = summary->comms;
  for (size_t i = 0; i < main->slot_count; i++)
    write_points(summary, main->slots, i, "error", "residual", file);
  for (size_t i = 0; i < main->allgather_count; i++)
    write_points(summary, main->allgathers, i, "gather_error", NULL, file);
}

bool tagc_tensorboard_write(const struct tagc_summary *summary, size_t run, FILE *file) {
  const struct tagc_sum_rank *of = run < summary->rank_count ? &summary->ranks[run] : tagc_steps_leader(summary);
  tagc_event_version(file, of ? wall_time(of, of->first_ns) : 0);
  if (run < summary->rank_count) {
    write_rank(summary, of, file);
    return true;
  }
  switch (kind_of_run(summary, run)) {
  case PLAIN: return write_side(summary, TAGC_SUM_PLAIN, file);
  case COMPRESSED: return write_side(summary, TAGC_SUM_COMPRESSED, file);
  case LAYERS: write_layers_of(summary, file); return true;
  default: return true;
  }
}
