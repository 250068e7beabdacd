/* SPDX-License-Identifier: BSD-3-Clause
 * Slots of a communicator, of all its ranks; see trace_merge.h.
 */
#include "interpose/trace_merge.h"

#include <math.h>

static int by_lock_and_slot(const void *a, const void *b)
{
  const struct tagc_sum_slot *x = a, *y = b;
  return x->lock != y->lock ? (x->lock > y->lock) - (x->lock < y->lock) : (x->slot > y->slot) - (x->slot < y->slot);
}

/* A sum of samples of one cycle, of all ranks. */
struct samples {
  uint64_t cycle;
  double sum[3];
  unsigned count[3];
};

static int by_cycle(const void *a, const void *b)
{
  const struct tagc_sum_point *x = a, *y = b;
  return (x->cycle > y->cycle) - (x->cycle < y->cycle);
}

/* Means over the ranks, and few enough of them. */
static void settle_points(struct tagc_sum_slot *slot)
{
  size_t count = 0;
  struct tagc_sum_point *points = slot->points;
  if (slot->point_count)
    qsort(points, slot->point_count, sizeof *points, by_cycle);
  for (size_t i = 0, next; i < slot->point_count; i = next) {
    struct samples s = {.cycle = points[i].cycle};
    for (next = i; next < slot->point_count && points[next].cycle == s.cycle; next++) {
      const double values[] = {points[next].error, points[next].residual, points[next].gradient};
      for (int j = 0; j < 3; j++)
        if (isfinite(values[j])) {
          s.sum[j] += values[j];
          s.count[j]++;
        }
    }
    for (int j = 0; j < 3; j++)
      s.sum[j] = s.count[j] ? s.sum[j] / s.count[j] : NAN;
    points[count++] = (struct tagc_sum_point){s.cycle, s.sum[0], s.sum[1], s.sum[2]};
  }
  slot->point_count = count;
  if (count <= TAGC_SUM_POINTS)
    return;
  for (size_t i = 0; i < TAGC_SUM_POINTS; i++)
    points[i] = points[i * (count - 1) / (TAGC_SUM_POINTS - 1)];
  slot->point_count = TAGC_SUM_POINTS;
}

static bool add_points(struct tagc_sum_slot *to, const struct tagc_sum_slot *from)
{
  if (!from->point_count)
    return true;
  struct tagc_sum_point *more = realloc(to->points, (to->point_count + from->point_count) * sizeof *more);
  if (!more)
    return false;
  memcpy(more + to->point_count, from->points, from->point_count * sizeof *more);
  to->points = more;
  to->point_count += from->point_count;
  return true;
}

static void free_slot(struct tagc_sum_slot *slot)
{
  free(slot->name);
  free(slot->codec);
  free(slot->points);
}

bool tagc_slots_add(struct tagc_sum_comm *to, struct tagc_sum_comm *from)
{
  size_t count = to->slot_count + from->slot_count, at = 0;
  struct tagc_sum_slot *all = calloc(count + 1, sizeof *all), *a = to->slots, *b = from->slots;
  bool done = all != NULL;
  if (!done)
    return false;
  if (from->slot_count)
    qsort(b, from->slot_count, sizeof *b, by_lock_and_slot);
  for (size_t i = 0, j = 0; i < to->slot_count || j < from->slot_count;) {
    int order = i == to->slot_count ? 1 : j == from->slot_count ? -1 : by_lock_and_slot(&a[i], &b[j]);
    if (order == 0) {
      tagc_sum_add_calls(&a[i].calls, &b[j].calls);
      done = add_points(&a[i], &b[j]) && done;
      free_slot(&b[j++]);
    }
    all[at++] = order <= 0 ? a[i++] : b[j++];
  }
  free(to->slots);
  free(from->slots);
  to->slots = all;
  to->slot_count = at;
  from->slots = NULL;
  from->slot_count = 0;
  return done;
}

void tagc_slots_settle(struct tagc_sum_comm *c)
{
  size_t kept = 0;
  for (size_t i = 0, end; i < c->slot_count; i = end) {
    bool called = false;
    for (end = i; end < c->slot_count && c->slots[end].lock == c->slots[i].lock; end++)
      called |= c->slots[end].calls.calls > 0;
    for (size_t j = i; j < end; j++)
      if (called) {
        settle_points(&c->slots[j]);
        c->slots[kept++] = c->slots[j];
      } else
        free_slot(&c->slots[j]);
  }
  c->slot_count = kept;
}
