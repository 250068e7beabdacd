/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/cycle/landmarks.h"

#include <string.h>

void tagc_landmarks_set(struct tagc_pattern *pattern) {
  uint16_t *units = pattern->allgather_scratch.total; /* by kind */
  memset(units, 0, sizeof pattern->allgather_scratch.total);
  for (uint32_t i = 0; i < pattern->slot_count; i++)
    units[pattern->places[pattern->slots[i].position].kind] += pattern->slots[i].pass == 0;
  pattern->has_landmarks = false;
  for (uint32_t i = 0; i < pattern->length; i++) {
    struct tagc_place *place = &pattern->places[i];
    place->landmark = place->lone || (place->kind && units[place->kind] == 1);
    pattern->has_landmarks |= place->landmark;
  }
}

/* The place of the call behind the same calls as those from `landmark` to `next`; -1: none. */
static int32_t find_alike(const struct tagc_pattern *pattern, uint32_t landmark, uint32_t next,
                          const struct tagc_signature *call) {
  const struct tagc_place *places = pattern->places;
  const uint32_t length = pattern->length, calls = (next + length - landmark - 1) % length + 1;
  for (uint32_t from = tagc_pattern_before(pattern, landmark); from != landmark;
       from = tagc_pattern_before(pattern, from)) {
    uint32_t alike = 0;
    while (alike < calls && tagc_signature_equal(&places[(from + alike) % length].signature,
                                                 &places[(landmark + alike) % length].signature))
      alike++;
    if (alike == calls && tagc_signature_equal(&places[(from + calls) % length].signature, call))
      return (int32_t)((from + calls) % length);
  }
  return -1;
}

/* The nearest place of the call that is a landmark, before `next` or behind it; -1: none. */
static int32_t find_landmark(const struct tagc_pattern *pattern, uint32_t next, const struct tagc_signature *call) {
  for (uint32_t i = 0; i <= pattern->length; i++) {
    const uint32_t steps = i % 2 ? pattern->length - (i + 1) / 2 : i / 2, at = (next + steps) % pattern->length;
    if (pattern->places[at].landmark && tagc_signature_equal(&pattern->places[at].signature, call))
      return (int32_t)at;
  }
  return -1;
}

uint32_t tagc_landmarks_last(const struct tagc_pattern *pattern, uint32_t next) {
  do
    next = tagc_pattern_before(pattern, next);
  while (!pattern->places[next].landmark);
  return next;
}

int32_t tagc_landmarks_find(const struct tagc_pattern *pattern, uint32_t next, bool held,
                            const struct tagc_signature *call) {
  const int32_t alike = held ? find_alike(pattern, tagc_landmarks_last(pattern, next), next, call) : -1;
  return alike >= 0 ? alike : find_landmark(pattern, next, call);
}
