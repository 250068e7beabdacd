/* SPDX-License-Identifier: BSD-3-Clause
 * Merges a communicator's slots of all ranks; see merge.h.
 */
#include "interpose/tagc-report/read/merge.h"

#include <math.h>

static int by_lock_and_slot(const void *a, const void *b) {
  const struct tagc_sum_slot *x = a, *y = b;
  return x->lock != y->lock ? (x->lock > y->lock) - (x->lock < y->lock) : (x->slot > y->slot) - (x->slot < y->slot);
}

/* A sum of the ranks' samples of one cycle. */
struct samples {
  uint64_t cycle;
  double sum[3];
  unsigned count[3];
};

static int by_cycle(const void *a, const void *b) {
  const struct tagc_sum_point *x = a, *y = b;
  return (x->cycle > y->cycle) - (x->cycle < y->cycle);
}

/* Averages over the ranks, and thins out. */
static void settle_points(struct tagc_sum_slot *slot) {
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

static bool add_points(struct tagc_sum_slot *to, const struct tagc_sum_slot *from) {
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

/* Adds the calls of another rank's choices to the same ones here. Lost votes of a rank add nothing. */
static bool add_choices(struct tagc_sum_slot *to, const struct tagc_sum_slot *from) {
  for (size_t i = 0; i < from->choice_count; i++) {
    const struct tagc_sum_choice *choice = &from->choices[i];
    size_t at = 0;
    while (at < to->choice_count && to->choices[at].cycle < choice->cycle)
      at++;
    if (at < to->choice_count && to->choices[at].cycle == choice->cycle) {
      tagc_sum_add_calls(&to->choices[at].calls, &choice->calls);
      continue;
    }
    char *codec = strdup(choice->codec);
    if (!codec || !TAGC_SUM_ROOM(to->choices, to->choice_count)) {
      free(codec);
      return false;
    }
    memmove(&to->choices[at + 1], &to->choices[at], (to->choice_count++ - at) * sizeof *to->choices);
    to->choices[at] = *choice;
    to->choices[at].codec = codec;
  }
  return true;
}

/* A list with the slots of two ranks. */
struct slots {
  struct tagc_sum_slot **list;
  size_t *count;
};

static bool add_slots(struct slots to, struct slots from) {
  size_t count = *to.count + *from.count, at = 0;
  struct tagc_sum_slot *all = calloc(count + 1, sizeof *all), *a = *to.list, *b = *from.list;
  bool done = all != NULL;
  if (!done)
    return false;
  if (*from.count)
    qsort(b, *from.count, sizeof *b, by_lock_and_slot);
  for (size_t i = 0, j = 0; i < *to.count || j < *from.count;) {
    int order = i == *to.count ? 1 : j == *from.count ? -1 : by_lock_and_slot(&a[i], &b[j]);
    if (order == 0) {
      tagc_sum_add_calls(&a[i].calls, &b[j].calls);
      done = add_points(&a[i], &b[j]) && add_choices(&a[i], &b[j]) && done;
      tagc_sum_slot_free(&b[j++]);
    }
    all[at++] = order <= 0 ? a[i++] : b[j++];
  }
  free(*to.list);
  free(*from.list);
  *to.list = all;
  *to.count = at;
  *from.list = NULL;
  *from.count = 0;
  return done;
}

bool tagc_slots_add(struct tagc_sum_comm *to, struct tagc_sum_comm *from) {
  if (!to->vote_count) {
    to->votes = from->votes;
    to->vote_count = from->vote_count;
    from->votes = NULL;
    from->vote_count = 0;
  }
  return add_slots((struct slots){&to->slots, &to->slot_count}, (struct slots){&from->slots, &from->slot_count}) &&
         add_slots((struct slots){&to->allgathers, &to->allgather_count},
                   (struct slots){&from->allgathers, &from->allgather_count});
}

/* Drops slots of locks without calls. */
static void settle(struct slots slots) {
  size_t kept = 0;
  struct tagc_sum_slot *list = *slots.list;
  for (size_t i = 0, end; i < *slots.count; i = end) {
    bool called = false;
    for (end = i; end < *slots.count && list[end].lock == list[i].lock; end++)
      called |= list[end].calls.calls > 0;
    for (size_t j = i; j < end; j++)
      if (called) {
        settle_points(&list[j]);
        list[kept++] = list[j];
      } else
        tagc_sum_slot_free(&list[j]);
  }
  *slots.count = kept;
}

/* The slot of the same unit; NULL: unrecorded. */
static struct tagc_sum_slot *slot_of_allgather(struct tagc_sum_comm *c, const struct tagc_sum_slot *allgather) {
  const struct tagc_sum_slot key = {.lock = allgather->lock, .slot = allgather->of};
  return c->slot_count ? bsearch(&key, c->slots, c->slot_count, sizeof key, by_lock_and_slot) : NULL;
}

bool tagc_slots_settle(struct tagc_sum_comm *c) {
  settle((struct slots){&c->slots, &c->slot_count});
  settle((struct slots){&c->allgathers, &c->allgather_count});
  for (size_t i = 0; i < c->allgather_count; i++) {
    struct tagc_sum_slot *allgather = &c->allgathers[i], *slot = slot_of_allgather(c, allgather);
    if (!slot)
      continue;
    char *name = strdup(slot->name);
    if (!name)
      return false;
    free(allgather->name);
    allgather->name = name;
    allgather->unit = slot->unit;
    allgather->pass = slot->pass;
    allgather->kind = slot->kind;
    allgather->parts_known = slot->parts_known;
    tagc_sum_add_calls(&slot->gathered, &allgather->calls);
  }
  return true;
}
