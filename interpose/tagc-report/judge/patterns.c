/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/judge/patterns.h"

#include <stdlib.h>
#include <string.h>

static enum tagc_pattern_kind kind_of(const struct tagc_summary *summary, const struct tagc_sum_line *line) {
  static const struct {
    const char *function;
    enum tagc_pattern_kind kind;
  } kinds[] = {{"ncclReduceScatter", TAGC_PATTERN_REDUCE_SCATTER},
               {"ncclAllGather", TAGC_PATTERN_ALL_GATHER},
               {"ncclAllReduce", TAGC_PATTERN_ALL_REDUCE},
               {"ncclReduce", TAGC_PATTERN_REDUCE},
               {"ncclBroadcast", TAGC_PATTERN_BROADCAST},
               {"ncclBcast", TAGC_PATTERN_BROADCAST},
               {"ncclAlltoAll", TAGC_PATTERN_ALL_TO_ALL},
               {"ncclSend", TAGC_PATTERN_SEND},
               {"ncclRecv", TAGC_PATTERN_RECV}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (tagc_sum_is(summary, TAGC_TRACE_FUNCTIONS, line->function, kinds[i].function))
      return kinds[i].kind;
  return TAGC_PATTERN_OTHER;
}

double tagc_line_element(const struct tagc_summary *summary, const struct tagc_sum_line *line) {
  return tagc_sum_element(tagc_sum_name(summary, TAGC_TRACE_TYPES, line->type));
}

static bool is_float(const struct tagc_summary *summary, const struct tagc_sum_line *line) {
  return strstr(tagc_sum_name(summary, TAGC_TRACE_TYPES, line->type), "float") != NULL;
}

static void add_pattern_line(struct tagc_pattern *p, const struct tagc_sum_line *line,
                             const struct tagc_sum_calls *calls, double ranks, double element) {
  const double bytes = (double)calls->raw_bytes / ranks;
  p->calls += (double)calls->calls / ranks;
  p->raw_bytes += bytes;
  p->elements += element > 0 ? bytes / element : 0;
  p->plain_bytes += (double)tagc_sent_all(&calls->plain) / ranks;
  p->sent_bytes += (double)tagc_sent_all(&calls->sent) / ranks;
  p->least_count = p->lines == 0 || line->least_count < p->least_count ? line->least_count : p->least_count;
  p->most_count = line->most_count > p->most_count ? line->most_count : p->most_count;
  p->lines++;
  if (!p->main || bytes > p->main_bytes) {
    p->main = line;
    p->main_bytes = bytes;
    p->main_calls = (double)calls->calls / ranks;
  }
}

/* A line of a unit may be small: a norm of its own. */
static bool belongs_to_slots(const struct tagc_sum_comm *comm, const struct tagc_sum_line *line) {
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].lock == comm->last_lock && comm->slots[i].count >= line->least_count &&
        comm->slots[i].count <= line->most_count)
      return true;
  return false;
}

static void note_maxima(const struct tagc_summary *summary, const struct tagc_sum_line *line,
                        struct tagc_patterns *out) {
  if (!tagc_sum_is(summary, TAGC_TRACE_OPS, line->op, "max") || !is_float(summary, line) || line->least_count < 64)
    return;
  out->maxima = true;
  out->maxima_count = line->least_count;
}

static bool is_called_in_steps(const struct tagc_sum_comm *comm) {
  for (size_t i = 0; i < comm->line_count; i++)
    if (comm->lines[i].whole.calls)
      return true;
  return false;
}

struct tagc_patterns tagc_patterns_of(const struct tagc_summary *summary, const struct tagc_sum_comm *comm) {
  const bool called = comm->whole_steps > 0 && is_called_in_steps(comm);
  struct tagc_patterns out = {.steps = called, .beside_steps = comm->whole_steps > 0 && !called};
  const double ranks = out.steps ? (double)comm->whole_steps : comm->member_count ? (double)comm->member_count : 1;
  for (size_t i = 0; i < comm->line_count; i++) {
    const struct tagc_sum_line *line = &comm->lines[i];
    const struct tagc_sum_calls *calls = out.steps ? &line->whole : &line->calls;
    const enum tagc_pattern_kind kind = kind_of(summary, line);
    if (calls->calls == 0 || calls->raw_bytes == 0)
      continue;
    const bool small = calls->raw_bytes / calls->calls < TAGC_SMALL_CALL, allgather = kind == TAGC_PATTERN_ALL_GATHER;
    out.calls += (double)calls->calls / ranks;
    out.small_calls += small ? (double)calls->calls / ranks : 0;
    if (kind == TAGC_PATTERN_ALL_REDUCE)
      note_maxima(summary, line, &out);
    if (!small || ((allgather || kind == TAGC_PATTERN_REDUCE_SCATTER) && belongs_to_slots(comm, line)))
      if (allgather || is_float(summary, line))
        add_pattern_line(&out.of[kind], line, calls, ranks, tagc_line_element(summary, line));
  }
  return out;
}

double tagc_slots_parameters(const struct tagc_sum_comm *comm) {
  double elements = 0;
  for (size_t i = 0; i < comm->slot_count; i++)
    if (comm->slots[i].lock == comm->last_lock && comm->slots[i].pass == 0)
      elements += (double)comm->slots[i].count * (comm->slots[i].all_reduce ? 1 : comm->nranks);
  return comm->nranks > 0 ? elements : 0;
}

/* Members are sorted by rank in the communicator, mostly alike in both: `near` continues from the last hit. */
static bool comm_has_rank(const struct tagc_sum_comm *comm, size_t rank, size_t *near) {
  for (size_t i = 0; i < comm->member_count; i++, ++*near)
    if (comm->members[*near % comm->member_count].rank == rank)
      return true;
  return false;
}

bool tagc_comm_is_within(const struct tagc_sum_comm *inner, const struct tagc_sum_comm *outer) {
  size_t near = 0;
  for (size_t i = 0; i < inner->member_count; i++)
    if (!comm_has_rank(outer, inner->members[i].rank, &near))
      return false;
  return inner->member_count > 0 && inner->nranks <= outer->nranks;
}

void tagc_pattern_add(struct tagc_pattern *sum, const struct tagc_pattern *more) {
  sum->plain_bytes += more->plain_bytes;
  sum->sent_bytes += more->sent_bytes;
  sum->elements += more->elements;
  sum->calls += more->calls;
  sum->main = sum->main ? sum->main : more->main;
}

struct tagc_allgathers tagc_allgathers_find(const struct tagc_summary *summary) {
  struct tagc_allgathers out = {.list = malloc((summary->comm_count + 1) * sizeof *out.list), .of = SIZE_MAX};
  for (size_t i = 0; i < summary->comm_count && out.list; i++) {
    const struct tagc_patterns p = tagc_patterns_of(summary, &summary->comms[i]);
    double others = 0;
    for (int kind = 0; kind < TAGC_PATTERNS; kind++)
      others += kind == TAGC_PATTERN_ALL_GATHER ? 0 : p.of[kind].raw_bytes;
    if (p.of[TAGC_PATTERN_ALL_GATHER].raw_bytes > 0 && others == 0)
      out.list[out.count++] = i;
  }
  return out;
}

static bool is_same(const struct tagc_sum_comm *a, const struct tagc_sum_comm *b) {
  return a->nranks == b->nranks && tagc_comm_is_within(a, b) && tagc_comm_is_within(b, a);
}

bool tagc_allgathers_beside(const struct tagc_summary *summary, size_t comm, struct tagc_allgathers *g) {
  if (g->of != SIZE_MAX && is_same(&summary->comms[comm], &summary->comms[g->of]))
    return false;
  *g = (struct tagc_allgathers){
    .list = g->list, .count = g->count, .of = comm, .least_ranks = summary->comms[comm].nranks};
  for (size_t i = 0; i < g->count; i++) {
    const struct tagc_sum_comm *other = &summary->comms[g->list[i]];
    if (g->list[i] == comm || !tagc_comm_is_within(other, &summary->comms[comm]))
      continue;
    const struct tagc_patterns p = tagc_patterns_of(summary, other);
    tagc_pattern_add(&g->all, &p.of[TAGC_PATTERN_ALL_GATHER]);
    g->gathered += p.of[TAGC_PATTERN_ALL_GATHER].elements * other->nranks;
    g->least_ranks = other->nranks < g->least_ranks ? other->nranks : g->least_ranks;
    g->beside++;
  }
  return true;
}
