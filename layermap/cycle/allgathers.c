/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/cycle/allgathers.h"

#include <string.h>

/* One pass: the places from behind the previous pass's last reduce-scatter up to its own last one. */
struct stretch {
  struct tagc_pattern *pattern;
  struct tagc_allgathers_scratch *s;
  uint32_t begin, length;
  bool interleaved;   /* parameters are gathered between its reduce-scatters */
  uint16_t delimiter; /* the kind of the first unit, if that is unique; else 0 */
};

static struct tagc_place *place_at(const struct stretch *w, uint32_t i) {
  return &w->pattern->places[(w->begin + i) % w->pattern->length];
}

static const struct tagc_slot_info *reduction_slot(const struct tagc_pattern *pattern, uint32_t i) {
  return &pattern->slots[pattern->places[pattern->scratch.reduced[i]].slot];
}

static uint32_t units_of(const struct tagc_allgathers_scratch *s, uint16_t kind) {
  return (uint32_t)(s->begin[kind + 1] - s->begin[kind]);
}

/* True if this is a gather that needs a unit. */
static bool pairs(const struct tagc_allgathers_scratch *s, const struct tagc_place *place) {
  return place->slot < 0 && place->kind && units_of(s, place->kind);
}

/* Lists the units of each kind in both orders, only of floating-point gradients. */
static void list_units(struct tagc_pattern *pattern) {
  struct tagc_allgathers_scratch *s = &pattern->allgather_scratch;
  const uint16_t *reduced = pattern->scratch.reduced;
  memset(s->begin, 0, sizeof s->begin);
  memset(s->seen, 0, sizeof s->seen);
  memset(s->total, 0, sizeof s->total);
  for (uint32_t i = 0; i < pattern->units; i++) {
    s->nth[reduction_slot(pattern, i)->unit] = (uint16_t)i;
    if (tagc_signature_reduces(&pattern->places[reduced[i]].signature))
      s->begin[pattern->places[reduced[i]].kind + 1]++;
  }
  for (uint32_t kind = 1; kind < TAGC_EVIDENCE_SIGNATURES + 2; kind++)
    s->begin[kind] = (uint16_t)(s->begin[kind] + s->begin[kind - 1]);
  for (uint32_t i = 0; i < pattern->units; i++) {
    const struct tagc_place *place = &pattern->places[reduced[i]], *forward = &pattern->places[reduced[s->nth[i]]];
    if (tagc_signature_reduces(&place->signature))
      s->reducing[s->begin[place->kind] + s->seen[place->kind]++] = (uint16_t)reduction_slot(pattern, i)->unit;
    if (tagc_signature_reduces(&forward->signature))
      s->ascending[s->begin[forward->kind] + s->total[forward->kind]++] = (uint16_t)i;
  }
}

/* Sets `early`: the kinds whose last gathers cannot be those of a backward pass. */
static void hold_against_reductions(struct stretch *w) {
  struct tagc_allgathers_scratch *s = w->s;
  bool reducing = false;
  memset(s->seen, 0, sizeof s->seen);
  memset(s->total, 0, sizeof s->total);
  memset(s->reduced, 0, sizeof s->reduced);
  memset(s->early, 0, sizeof s->early);
  for (uint32_t i = 0; i < w->length; i++)
    if (pairs(s, place_at(w, i)))
      s->total[place_at(w, i)->kind]++;
  for (uint32_t i = 0; i < w->length; i++) {
    const struct tagc_place *place = place_at(w, i);
    if (pairs(s, place)) {
      s->seen[place->kind]++;
      w->interleaved |= reducing;
    } else if (place->slot >= 0 && tagc_signature_reduces(&place->signature)) {
      reducing = true;
      const uint32_t units = units_of(s, place->kind), nth = ++s->reduced[place->kind];
      s->early[place->kind] |= s->seen[place->kind] + units < s->total[place->kind] + nth;
    }
  }
  memset(s->seen, 0, sizeof s->seen);
}

/* Assigns units to the gathers of a segment, the places [from, to) of the stretch. s->seen counts them by kind. */
static void pair_segment(struct stretch *w, uint32_t from, uint32_t to) {
  struct tagc_allgathers_scratch *s = w->s;
  const enum tagc_order order = w->pattern->order;
  for (uint32_t i = from; i < to; i++) {
    const struct tagc_place *place = place_at(w, i);
    if (!pairs(s, place))
      continue;
    const uint32_t at = (w->begin + i) % w->pattern->length, all = s->seen[place->kind],
                   units = units_of(s, place->kind);
    const uint32_t rows = all / units;
    /* Few units are reduced right behind one another, even if their parameters were gathered for it. */
    const bool again = rows > 1 && !s->early[place->kind] && (w->interleaved || w->pattern->units <= 3);
    const bool backward = again && s->index[at] + units >= all;
    const uint16_t *list =
      (backward || order == TAGC_ORDER_REDUCING ? s->reducing : s->ascending) + s->begin[place->kind];
    s->unit[at] = list[backward ? s->index[at] + units - all : s->index[at] % units];
    s->sure[at] =
      order != TAGC_ORDER_UNKNOWN &&
      (units == 1 || (all % units == 0 && (rows == 1 ? order != TAGC_ORDER_EITHER || w->interleaved
                                                     : again && w->interleaved && (rows == 2 || w->delimiter))));
  }
  for (uint32_t i = from; i < to; i++)
    s->seen[place_at(w, i)->kind] = 0;
}

static void pair_stretch(struct stretch *w) {
  struct tagc_allgathers_scratch *s = w->s;
  uint32_t from = 0;
  hold_against_reductions(w);
  for (uint32_t i = 0; i < w->length; i++) {
    const struct tagc_place *place = place_at(w, i);
    if (!pairs(s, place))
      continue;
    if (place->kind == w->delimiter) {
      pair_segment(w, from, i);
      from = i;
    }
    s->index[(w->begin + i) % w->pattern->length] = s->seen[place->kind]++;
  }
  pair_segment(w, from, w->length);
}

/* A gather belongs to the next reduce-scatter in its own pass. */
static void name_slots(struct tagc_pattern *pattern) {
  const struct tagc_allgathers_scratch *s = &pattern->allgather_scratch;
  pattern->allgather_count = 0;
  for (uint32_t i = 0; i < pattern->length; i++) {
    struct tagc_place *place = &pattern->places[i];
    if (!pairs(s, place))
      continue;
    pattern->allgathers[pattern->allgather_count] = (struct tagc_allgather_info){
      .signature = place->signature,
      .position = i,
      .slot = (uint32_t)place->allgather,
      .sure = s->sure[i],
    };
    place->allgather = (int32_t)pattern->allgather_count++;
  }
}

/* Follows the cycle twice: its beginning may gather again what its end gathered. */
static void find_repetitions(struct tagc_pattern *pattern) {
  struct tagc_allgathers_scratch *s = &pattern->allgather_scratch;
  memset(s->held, 0, pattern->units * sizeof *s->held);
  for (uint32_t i = 0; i < 2 * pattern->length; i++) {
    const struct tagc_place *place = &pattern->places[i % pattern->length];
    if (place->slot >= 0)
      s->held[pattern->slots[place->slot].unit] = false;
    if (place->allgather < 0)
      continue;
    struct tagc_allgather_info *info = &pattern->allgathers[place->allgather];
    bool *held = &s->held[s->unit[info->position]];
    info->again = info->sure && *held;
    *held |= info->sure;
  }
}

void tagc_allgathers_pair(struct tagc_pattern *pattern) {
  struct tagc_allgathers_scratch *s = &pattern->allgather_scratch;
  const uint16_t *reduced = pattern->scratch.reduced;
  list_units(pattern);
  const uint16_t first = pattern->places[reduced[s->nth[0]]].kind;
  uint32_t last = reduced[pattern->slot_count - 1];
  for (uint32_t pass = 0; pass < pattern->slot_count / pattern->units; pass++) {
    const uint32_t end = reduced[(pass + 1) * pattern->units - 1];
    struct stretch w = {.pattern = pattern,
                        .s = s,
                        .begin = (last + 1) % pattern->length,
                        .length = last == end ? pattern->length : (end + pattern->length - last) % pattern->length,
                        .delimiter = units_of(s, first) == 1 ? first : 0};
    pair_stretch(&w);
    for (uint32_t i = 0; i < w.length; i++) {
      const uint32_t at = (w.begin + i) % pattern->length;
      if (pairs(s, &pattern->places[at]))
        pattern->places[at].allgather = pattern->places[reduced[pass * pattern->units + s->nth[s->unit[at]]]].slot;
    }
    last = end;
  }
  name_slots(pattern);
  find_repetitions(pattern);
}
