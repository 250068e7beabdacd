/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the traces of one job; see merge.h.
 */
#include "interpose/tagc-report/read/merge.h"

static bool same_process(const struct tagc_part *a, const struct tagc_part *b) {
  return a->realtime_ns && a->realtime_ns == b->realtime_ns && a->rank.pid == b->rank.pid &&
         a->rank.clock_ns == b->rank.clock_ns && strcmp(a->rank.host, b->rank.host) == 0;
}

static void leave_out(struct tagc_part *parts, size_t *count, size_t i) {
  tagc_part_free(&parts[i]);
  memmove(&parts[i], &parts[i + 1], (--*count - i) * sizeof *parts);
}

static bool drop_copies(struct tagc_summary *s, struct tagc_part *parts, size_t *count) {
  for (size_t i = 1; i < *count; i++)
    for (size_t j = 0; j < i; j++)
      if (same_process(&parts[j], &parts[i])) {
        if (!tagc_sum_complain(s, "%s is another copy of %s, and is left out", parts[i].rank.path, parts[j].rank.path))
          return false;
        leave_out(parts, count, i--);
        break;
      }
  return true;
}

static size_t root_of(size_t *parent, size_t i) {
  while (parent[i] != i)
    i = parent[i] = parent[parent[i]];
  return i;
}

static int by_identity(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* Groups parts that share a communicator. `alone`: a part without one that could tell. */
static bool connect(const struct tagc_part *parts, size_t count, size_t *parent, bool *alone) {
  uint64_t(*pairs)[2] = NULL; /* identity, part */
  size_t pair_count = 0;
  for (size_t i = 0; i < count; i++) {
    parent[i] = i;
    alone[i] = true;
    for (size_t j = 0; j < parts[i].comm_count; j++)
      if (parts[i].comms[j].identity && parts[i].comms[j].nranks > 1) {
        if (!TAGC_SUM_ROOM(pairs, pair_count)) {
          free(pairs);
          return false;
        }
        pairs[pair_count][0] = parts[i].comms[j].identity;
        pairs[pair_count++][1] = i;
        alone[i] = false;
      }
  }
  if (pair_count)
    qsort(pairs, pair_count, sizeof *pairs, by_identity);
  for (size_t i = 1; i < pair_count; i++)
    if (pairs[i][0] == pairs[i - 1][0])
      parent[root_of(parent, pairs[i][1])] = root_of(parent, pairs[i - 1][1]);
  free(pairs);
  return true;
}

/* Keeps, among several jobs, the one with most ranks, then the latest. */
static bool keep_one_job(struct tagc_summary *s, struct tagc_part *parts, size_t *count) {
  size_t *parent = calloc(2 * *count + 1, sizeof *parent), *sizes = parent + *count, best = SIZE_MAX, left = 0;
  bool *alone = calloc(*count + 1, sizeof *alone), done = parent && alone && connect(parts, *count, parent, alone);
  const char *first = NULL;
  for (size_t i = 0; done && i < *count; i++)
    sizes[root_of(parent, i)] += !alone[i];
  for (size_t i = 0; done && i < *count; i++) {
    size_t root = root_of(parent, i);
    if (!alone[i] && (best == SIZE_MAX || sizes[root] > sizes[best] ||
                      (sizes[root] == sizes[best] && parts[root].realtime_ns > parts[best].realtime_ns)))
      best = root;
  }
  for (size_t i = *count; done && best != SIZE_MAX && i-- > 0;)
    if (!alone[i] && root_of(parent, i) != best) {
      left++;
      first = parts[i].rank.path;
    }
  if (left)
    done = tagc_sum_complain(
      s, "%zu of the %zu traces are of other jobs: they share no communicator with the rest; left out: %s%s", left,
      *count, first, left > 1 ? ", ..." : "");
  for (size_t i = *count; done && left && i-- > 0;) /* from the end: the others keep their indices */
    if (!alone[i] && root_of(parent, i) != best)
      leave_out(parts, count, i);
  free(parent);
  free(alone);
  return done;
}

bool tagc_parts_of_one_job(struct tagc_summary *s, struct tagc_part *parts, size_t *count) {
  return drop_copies(s, parts, count) && keep_one_job(s, parts, count);
}
