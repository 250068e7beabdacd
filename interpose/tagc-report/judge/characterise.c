/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/judge/characterise.h"

#include <math.h>
#include <stdlib.h>

#include "interpose/tagc-report/judge/patterns.h"
#include "interpose/tagc-report/read/merge.h"

/* Messages below this are small. */
static const double SMALL_MESSAGE = 65536;

/* What nccl-tests do with a function: `whole`, the message is the buffer of all ranks; `raw_whole`, so are raw bytes;
 * shares: busbw / algbw in units of (n-1)/n, 0: it is 1. */
struct measure {
  const char *function;
  bool whole, raw_whole;
  int shares;
};

static const struct measure *measure_of_function(const struct tagc_summary *summary, uint16_t function) {
  static const struct measure measures[] = {
    {"ncclReduceScatter", true, true, 1}, {"ncclAllGather", true, false, 1},  {"ncclAllReduce", false, false, 2},
    {"ncclReduce", false, false, 0},      {"ncclBroadcast", false, false, 0}, {"ncclBcast", false, false, 0},
    {"ncclAlltoAll", true, true, 1},      {"ncclGather", true, false, 1},     {"ncclScatter", true, true, 1},
    {"ncclSend", false, false, 0},        {"ncclRecv", false, false, 0},      {"ncclPutSignal", false, false, 0}};
  for (size_t i = 0; i < sizeof measures / sizeof *measures; i++)
    if (tagc_sum_is(summary, TAGC_TRACE_FUNCTIONS, function, measures[i].function))
      return &measures[i];
  return NULL;
}

double tagc_message_bytes(const struct tagc_summary *summary, uint16_t function, int nranks, double bytes) {
  const struct measure *measure = measure_of_function(summary, function);
  return measure && measure->whole && nranks > 0 ? bytes * nranks : bytes;
}

double tagc_busbw_factor(const struct tagc_summary *summary, uint16_t function, int nranks) {
  const struct measure *measure = measure_of_function(summary, function);
  return measure && measure->shares && nranks > 0 ? measure->shares * (nranks - 1.0) / nranks : 1;
}

/* The mean message of calls; NaN: unknown. */
static double mean_message(const struct tagc_sum_line *line, const struct tagc_sum_calls *calls, double element,
                           int nranks, const struct measure *measure) {
  const double ranks = nranks > 0 ? nranks : 1;
  if (line->least_count == line->most_count)
    return (double)line->least_count * element * (measure->whole ? ranks : 1);
  if (!calls->raw_bytes)
    return NAN;
  return (double)calls->raw_bytes / (double)calls->calls * (measure->whole && !measure->raw_whole ? ranks : 1);
}

static int8_t message_class(double bytes) { return bytes >= 1 ? (int8_t)fmin(ilogb(bytes), 62) : -1; }

static struct tagc_traits_row *traits_row_of(struct tagc_traits *traits, const struct tagc_traits_row *like) {
  for (size_t i = 0; i < traits->count; i++) {
    struct tagc_traits_row *row = &traits->rows[i];
    if (row->role == like->role && row->nranks == like->nranks && row->function == like->function &&
        row->size_class == like->size_class)
      return row;
  }
  if (!TAGC_SUM_ROOM(traits->rows, traits->count))
    return NULL;
  traits->rows[traits->count] = *like;
  return &traits->rows[traits->count++];
}

static void add_message_times(struct tagc_call_times *times, uint64_t calls, double ns, double message) {
  times->calls += calls;
  times->ns += ns;
  times->bytes += (double)calls * message;
}

static void add_traits_times(struct tagc_traits_row *row, const struct tagc_sum_calls *calls, double message,
                             bool blocking) {
  const uint64_t plain = calls->wire_calls - calls->packed_wire_calls;
  if (isnan(message))
    return;
  add_message_times(&row->plain, plain, (double)(calls->wire_ns - calls->packed_wire_ns), message);
  add_message_times(&row->packed, calls->packed_wire_calls, (double)calls->packed_wire_ns, message);
  if (blocking && calls->wire_calls == 0 && calls->compressed == 0 && calls->alone_calls) {
    add_message_times(&row->plain, calls->alone_calls, (double)calls->alone_ns, message);
    row->by_thread = true;
  }
}

/* Where no call of a line is in a whole step, its calls are outside of all numbers. False: no memory. */
static bool add_traits_line(struct tagc_traits *traits, const struct tagc_summary *summary,
                            const struct tagc_sum_comm *comm, const struct tagc_sum_line *line) {
  const struct measure *measure = measure_of_function(summary, line->function);
  const struct tagc_sum_calls *calls = traits->steps ? &line->whole : &line->calls;
  const double element = tagc_line_element(summary, line), ranks = comm->nranks > 0 ? comm->nranks : 1;
  if (!measure)
    return true;
  traits->outside += line->calls.calls - calls->calls;
  if (!calls->calls)
    return true;
  const double message = mean_message(line, calls, element, comm->nranks, measure),
               one = element * (measure->whole ? ranks : 1);
  struct tagc_traits_row like = {.role = comm->role,
                                 .nranks = comm->nranks,
                                 .function = line->function,
                                 .size_class = isnan(message) ? -1 : message_class(message),
                                 .least = INFINITY};
  struct tagc_traits_row *row = traits_row_of(traits, &like);
  if (!row)
    return false;
  row->calls += (double)calls->calls;
  row->raw_bytes += (double)calls->raw_bytes;
  row->plain_bytes += (double)tagc_sent_all(&calls->plain);
  row->sent_bytes += (double)tagc_sent_all(&calls->sent);
  row->sized_calls += isnan(message) ? 0 : (double)calls->calls;
  row->message_bytes += isnan(message) ? 0 : (double)calls->calls * message;
  row->least = fmin(row->least, (double)line->least_count * one);
  row->most = fmax(row->most, (double)line->most_count * one);
  add_traits_times(row, calls, message, traits->blocking);
  return true;
}

static int by_role_and_ranks(const void *a, const void *b) {
  const struct tagc_traits_row *x = a, *y = b;
  return x->role != y->role           ? (int)x->role - (int)y->role
         : x->nranks != y->nranks     ? x->nranks - y->nranks
         : x->function != y->function ? x->function - y->function
                                      : x->size_class - y->size_class;
}

static void add_to_traits_share(struct tagc_traits_share *share, const struct tagc_traits_row *row) {
  share->calls += row->calls;
  share->raw_bytes += row->raw_bytes;
  share->plain_bytes += row->plain_bytes;
  share->sent_bytes += row->sent_bytes;
}

static void count_traits_comm(struct tagc_traits_share *share, const struct tagc_sum_comm *comm) {
  share->least_ranks = !share->comms++ || comm->nranks < share->least_ranks ? comm->nranks : share->least_ranks;
  share->most_ranks = comm->nranks > share->most_ranks ? comm->nranks : share->most_ranks;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

static void add_times(struct tagc_call_times *sum, const struct tagc_call_times *times) {
  sum->calls += times->calls;
  sum->bytes += times->bytes;
  sum->ns += times->ns;
}

static void add_traits_row(struct tagc_traits_row *sum, const struct tagc_traits_row *row) {
  sum->calls += row->calls;
  sum->raw_bytes += row->raw_bytes;
  sum->plain_bytes += row->plain_bytes;
  sum->sent_bytes += row->sent_bytes;
  sum->sized_calls += row->sized_calls;
  sum->message_bytes += row->message_bytes;
  sum->least = fmin(sum->least, row->least);
  sum->most = fmax(sum->most, row->most);
  add_times(&sum->plain, &row->plain);
  add_times(&sum->packed, &row->packed);
  sum->by_thread |= row->by_thread;
}

static bool is_same_call(const struct tagc_traits_row *a, const struct tagc_traits_row *b) {
  return a->role == b->role && a->nranks == b->nranks && a->function == b->function;
}
static bool is_same_size(const struct tagc_traits_row *a, const struct tagc_traits_row *b) {
  return a->size_class == b->size_class;
}
static bool is_same_message(const struct tagc_traits_row *a, const struct tagc_traits_row *b) {
  return a->function == b->function && a->nranks == b->nranks && is_same_size(a, b);
}

static int by_size_class(const void *a, const void *b) {
  return ((const struct tagc_traits_row *)a)->size_class - ((const struct tagc_traits_row *)b)->size_class;
}

/* Sums of the rows that are the same. False: no memory. */
static bool fill_traits_table(const struct tagc_traits *traits, struct tagc_traits_table *table,
                              bool (*same)(const struct tagc_traits_row *, const struct tagc_traits_row *)) {
  table->rows = calloc(traits->count + 1, sizeof *table->rows);
  for (size_t i = 0; table->rows && i < traits->count; i++) {
    size_t at = 0;
    while (at < table->count && !same(&table->rows[at], &traits->rows[i]))
      at++;
    if (at < table->count)
      add_traits_row(&table->rows[at], &traits->rows[i]);
    else
      table->rows[table->count++] = traits->rows[i];
  }
  return table->rows;
}

static bool fill_traits_tables(struct tagc_traits *traits) {
  struct tagc_traits_table *times = &traits->times;
  if (!fill_traits_table(traits, &traits->calls, is_same_call) ||
      !fill_traits_table(traits, &traits->sizes, is_same_size) || !fill_traits_table(traits, times, is_same_message))
    return false;
  qsort(traits->sizes.rows, traits->sizes.count, sizeof *traits->sizes.rows, by_size_class);
  const size_t all = times->count;
  times->count = 0;
  for (size_t i = 0; i < all; i++)
    if (times->rows[i].plain.ns + times->rows[i].packed.ns > 0)
      times->rows[times->count++] = times->rows[i];
  return true;
}

enum tagc_sum_role tagc_traits_main_role(const struct tagc_traits *traits, const struct tagc_traits_row *size,
                                         double *share) {
  double of[TAGC_ROLES] = {0};
  int best = 0;
  for (size_t i = 0; i < traits->count; i++)
    if (is_same_size(&traits->rows[i], size))
      of[traits->rows[i].role] += traits->rows[i].calls;
  for (int role = 0; role < TAGC_ROLES; role++)
    best = of[role] > of[best] ? role : best;
  *share = of[best] / size->calls;
  return (enum tagc_sum_role)best;
}

double tagc_traits_mean(const struct tagc_traits_row *row) {
  return row->sized_calls > 0 ? row->message_bytes / row->sized_calls : NAN;
}

bool tagc_traits_small(double bytes) { return bytes < SMALL_MESSAGE; }

/* -- groups of messages -------------------------------------------------------------------------------------------- */

static int by_group(const void *a, const void *b) {
  const struct tagc_traits_group *x = a, *y = b;
  return x->role != y->role             ? (int)x->role - (int)y->role
         : x->nranks != y->nranks       ? x->nranks - y->nranks
         : x->sum.sends != y->sum.sends ? (x->sum.sends > y->sum.sends) - (x->sum.sends < y->sum.sends)
         : x->sum.receives != y->sum.receives
           ? (x->sum.receives > y->sum.receives) - (x->sum.receives < y->sum.receives)
           : x->sum.size_class - y->sum.size_class;
}

static bool add_traits_groups(struct tagc_traits *traits, const struct tagc_sum_comm *comm) {
  for (size_t i = 0; i < comm->group_count; i++) {
    struct tagc_traits_group like = {comm->role, comm->nranks, comm->groups[i]};
    size_t at = 0;
    if (traits->steps)
      like.sum.all = like.sum.whole;
    if (!like.sum.all.groups)
      continue;
    while (at < traits->group_count && by_group(&traits->groups[at], &like) != 0)
      at++;
    if (at < traits->group_count) {
      tagc_sum_add_group_times(&traits->groups[at].sum.all, &like.sum.all);
      continue;
    }
    if (!TAGC_SUM_ROOM(traits->groups, traits->group_count))
      return false;
    traits->groups[traits->group_count++] = like;
  }
  return true;
}

/* The messages that neither have times themselves nor are in groups with one. NCCL's profiler times those in groups,
 * too: which of them have both is not known, so as many as can be. */
static void count_untimed(struct tagc_traits *traits, const struct tagc_summary *summary) {
  double by_profiler = 0, in_groups = 0;
  for (size_t i = 0; i < traits->count; i++) {
    const struct tagc_traits_row *row = &traits->rows[i];
    if (tagc_sum_is(summary, TAGC_TRACE_FUNCTIONS, row->function, "ncclSend") ||
        tagc_sum_is(summary, TAGC_TRACE_FUNCTIONS, row->function, "ncclRecv")) {
      const double timed = (double)(row->plain.calls + row->packed.calls);
      traits->untimed += row->calls - (row->by_thread ? timed : 0);
      by_profiler += row->by_thread ? 0 : timed;
    }
  }
  for (size_t i = 0; i < traits->group_count; i++)
    in_groups += (double)traits->groups[i].sum.all.groups *
                 ((double)traits->groups[i].sum.sends + (double)traits->groups[i].sum.receives);
  traits->untimed = fmax(traits->untimed - fmax(by_profiler, in_groups), 0);
}

bool tagc_traits_find(const struct tagc_summary *summary, struct tagc_traits *traits) {
  *traits = (struct tagc_traits){.steps = false};
  double whole = 0;
  traits->blocking = summary->rank_count > 0;
  for (size_t i = 0; i < summary->rank_count; i++) {
    traits->blocking &= summary->ranks[i].blocking;
    for (size_t k = 0; k < summary->ranks[i].step_count; k++)
      whole += summary->ranks[i].steps[k].whole;
  }
  traits->steps = whole > 0;
  traits->each = traits->steps ? whole : summary->rank_count ? (double)summary->rank_count : 1;
  for (size_t i = 0; i < summary->comm_count; i++) {
    const struct tagc_sum_comm *comm = &summary->comms[i];
    if (!comm->calls.calls)
      continue;
    count_traits_comm(&traits->of[comm->role], comm);
    count_traits_comm(&traits->all, comm);
    for (size_t k = 0; k < comm->line_count; k++)
      if (!add_traits_line(traits, summary, comm, &comm->lines[k]))
        return false;
    if (traits->blocking && !add_traits_groups(traits, comm))
      return false;
  }
  if (traits->count)
    qsort(traits->rows, traits->count, sizeof *traits->rows, by_role_and_ranks);
  for (size_t i = 0; i < traits->count; i++) {
    add_to_traits_share(&traits->of[traits->rows[i].role], &traits->rows[i]);
    add_to_traits_share(&traits->all, &traits->rows[i]);
  }
  if (traits->group_count)
    qsort(traits->groups, traits->group_count, sizeof *traits->groups, by_group);
  count_untimed(traits, summary);
  return fill_traits_tables(traits);
}

void tagc_traits_free(struct tagc_traits *traits) {
  free(traits->rows);
  free(traits->calls.rows);
  free(traits->sizes.rows);
  free(traits->times.rows);
  free(traits->groups);
}
