/* SPDX-License-Identifier: BSD-3-Clause
 * Numbers the units in forward order; see units.h. Here a unit's rank is its place in the reverse of the
 * reduce-scatters of a pass, and its kind a number that stands for its count.
 */
#include "layermap/cycle/units.h"

#include <string.h>

/* A pass in work. All arrays are in the pattern's scratch. */
struct pass {
  const struct tagc_pattern *pattern;
  struct tagc_order_scratch *s;
  uint32_t units;      /* reduce-scatters of one pass */
  uint32_t allgathers; /* in s->gathered */
};

/* True for a gather whose count is also reduced. */
static bool tells(const struct tagc_place *place) { return place->slot < 0 && place->kind; }

/* Goes back from `at` to the place of the next gather that tells, or to that of a reduce-scatter before it. */
static uint32_t allgather_before(const struct tagc_pattern *pattern, uint32_t at) {
  do
    at = tagc_pattern_before(pattern, at);
  while (pattern->places[at].slot < 0 && !tells(&pattern->places[at]));
  return at;
}

/* Collects the gathers of the stretch before the first reduce-scatter, oldest first. */
static void collect_allgathers(struct pass *p) {
  p->allgathers = 0;
  uint32_t at = (p->pattern->first + p->pattern->length - p->pattern->stretch) % p->pattern->length;
  for (uint32_t i = 0; i < p->pattern->stretch; i++) {
    if (tells(&p->pattern->places[at]))
      p->s->gathered[p->allgathers++] = p->pattern->places[at].kind;
    at = at + 1 == p->pattern->length ? 0 : at + 1;
  }
}

/* True if the same units are gathered before these two reduce-scatters. */
static bool same_allgathers(const struct tagc_pattern *pattern, uint32_t a, uint32_t b) {
  if (a == b)
    return true;
  do {
    a = allgather_before(pattern, a);
    b = allgather_before(pattern, b);
    if (!tells(&pattern->places[a]) || !tells(&pattern->places[b]))
      return tells(&pattern->places[a]) == tells(&pattern->places[b]);
  } while (pattern->places[a].kind == pattern->places[b].kind);
  return false;
}

/* True if all units of a pass, and more, are gathered before this reduce-scatter. (A backward pass that gathers a few
 * like units before it reduces them looks like several passes, too.) */
static bool allgathers_pass(struct pass *p, uint32_t at) {
  const struct tagc_place *places = p->pattern->places;
  uint32_t missing = p->units, allgathers = 0;
  memset(p->s->open, 0, sizeof p->s->open);
  for (uint32_t i = 0; i < p->units; i++)
    p->s->open[places[p->s->reduced[i]].kind]++;
  for (at = allgather_before(p->pattern, at); tells(&places[at]); at = allgather_before(p->pattern, at)) {
    allgathers++;
    missing -= p->s->open[places[at].kind]-- > 0;
  }
  return !missing && allgathers > p->units;
}

/* True if these reduce-scatters could be of one unit, in two passes. */
static bool of_one_unit(const struct tagc_place *a, const struct tagc_place *b) {
  return a->kind == b->kind && a->signature.dtype == b->signature.dtype;
}

/* True if the reduce-scatters repeat every p->units of them, always after the same gathers or a forward pass.
 * (Evaluation before a pass leaves some units gathered.) */
static bool are_passes(struct pass *p) {
  const struct tagc_pattern *pattern = p->pattern;
  const uint16_t *reduced = p->s->reduced;
  for (uint32_t i = p->units; i < pattern->slot_count; i++)
    if (!of_one_unit(&pattern->places[reduced[i]], &pattern->places[reduced[i - p->units]]))
      return false;
  bool same = true, forward = true;
  for (uint32_t i = 0; i < pattern->slot_count; i += p->units) {
    same = same && same_allgathers(pattern, reduced[0], reduced[i]);
    forward = forward && allgathers_pass(p, reduced[i]);
  }
  return same || forward;
}

/* True if the all-reduces repeat after those of one pass. */
static bool are_proven_passes(struct pass *p) {
  const struct tagc_pattern *pattern = p->pattern;
  if (pattern->slot_count % pattern->passes)
    return false;
  p->units = (uint32_t)(pattern->slot_count / pattern->passes);
  for (uint32_t i = p->units; i < pattern->slot_count; i++)
    if (!of_one_unit(&pattern->places[p->s->reduced[i]], &pattern->places[p->s->reduced[i - p->units]]))
      return false;
  return true;
}

/* Finds the slots of one pass: at least two, or a row of like units would be passes of one. */
static void find_units(struct pass *p) {
  const uint32_t all = p->pattern->slot_count;
  if (p->pattern->passes > 1 && are_proven_passes(p))
    return;
  for (p->units = 2; p->pattern->whole && p->units <= all / 2 && p->units <= p->allgathers; p->units++)
    if (all % p->units == 0 && are_passes(p))
      return;
  p->units = all;
}

static uint16_t kind_of_rank(const struct pass *p, uint32_t rank) {
  return p->pattern->places[p->s->reduced[p->units - 1 - rank]].kind;
}

/* How many gathers of a row stand as in the reverse order (`turned`: the order of the reduce-scatters). */
static uint32_t agreement(const struct pass *p, const uint16_t *row, bool turned) {
  uint32_t equal = 0;
  for (uint32_t i = 0; i < p->units; i++)
    equal += row[i] == kind_of_rank(p, turned ? p->units - 1 - i : i);
  return equal;
}

/* The row of gathers that is the forward pass, or NULL. s->open: how many of each kind the row still lacks. */
static const uint16_t *find_row(struct pass *p) {
  const uint16_t *found = NULL;
  uint32_t best = 0, wrong = 0; /* kinds with a wrong number of gathers */
  int32_t *open = p->s->open;
  if (p->allgathers < p->units)
    return NULL;
  for (uint32_t i = 0; i < p->units; i++)
    wrong += open[kind_of_rank(p, i)]++ == 0;
  for (uint32_t i = 0; i < p->allgathers; i++) {
    int32_t *in = &open[p->s->gathered[i]];
    wrong += *in == 0;
    wrong -= --*in == 0;
    if (i >= p->units) {
      int32_t *out = &open[p->s->gathered[i - p->units]];
      wrong += *out == 0;
      wrong -= ++*out == 0;
    }
    if (i + 1 < p->units || wrong)
      continue;
    const uint16_t *row = &p->s->gathered[i + 1 - p->units];
    uint32_t equal = agreement(p, row, false);
    if (!found || equal > best) {
      found = row;
      best = equal;
    }
  }
  return found;
}

/* The first gathers of each kind, as many as its units; NULL: too few. */
static const uint16_t *first_of_each(struct pass *p) {
  uint32_t kept = 0;
  memset(p->s->open, 0, sizeof p->s->open);
  for (uint32_t i = 0; i < p->units; i++)
    p->s->open[kind_of_rank(p, i)]++;
  for (uint32_t i = 0; i < p->allgathers && kept < p->units; i++)
    if (p->s->open[p->s->gathered[i]]-- > 0)
      p->s->gathered[kept++] = p->s->gathered[i];
  return kept == p->units ? p->s->gathered : NULL;
}

/* Sets s->ranked, the forward place of each rank, if the gathers tell it. */
static enum tagc_order follow_allgathers(struct pass *p) {
  memset(p->s->open, 0, sizeof p->s->open);
  const uint16_t *row = find_row(p);
  if (!row)
    row = first_of_each(p);
  if (!row)
    return TAGC_ORDER_UNKNOWN;
  const bool turned = agreement(p, row, true) == p->units, reverse = agreement(p, row, false) == p->units;
  if (turned && !reverse)
    return TAGC_ORDER_REDUCING;
  /* Lists of the ranks of each kind, lowest first: open[] is the head, +1. */
  memset(p->s->open, 0, sizeof p->s->open);
  for (uint32_t rank = p->units; rank-- > 0;) {
    int32_t *head = &p->s->open[kind_of_rank(p, rank)];
    p->s->link[rank] = (uint16_t)*head;
    *head = (int32_t)rank + 1;
  }
  for (uint32_t i = 0; i < p->units; i++) {
    uint32_t rank = (uint32_t)p->s->open[row[i]] - 1;
    p->s->open[row[i]] = p->s->link[rank];
    p->s->ranked[rank] = (uint16_t)i;
  }
  return turned ? TAGC_ORDER_EITHER : TAGC_ORDER_FORWARD;
}

void tagc_units_number(struct tagc_pattern *pattern) {
  struct pass p = {.pattern = pattern, .s = &pattern->scratch};
  uint32_t at = pattern->first;
  for (uint32_t found = 0; found < pattern->slot_count;) {
    if (pattern->places[at].slot >= 0)
      p.s->reduced[found++] = (uint16_t)at;
    at = at + 1 == pattern->length ? 0 : at + 1;
  }
  collect_allgathers(&p);
  find_units(&p);
  pattern->units = p.units;
  pattern->order = follow_allgathers(&p);
  const bool told = pattern->order == TAGC_ORDER_FORWARD || pattern->order == TAGC_ORDER_EITHER;
  for (uint32_t i = 0; i < pattern->slot_count; i++) {
    struct tagc_slot_info *slot = &pattern->slots[pattern->places[p.s->reduced[i]].slot];
    const uint32_t rank = p.units - 1 - i % p.units;
    slot->unit = told ? p.s->ranked[rank] : rank;
    slot->pass = i / p.units;
    slot->told = told;
  }
}
