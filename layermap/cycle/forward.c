/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/cycle/forward.h"

#include <string.h>

static bool gathers_unit(const struct tagc_pattern *pattern, uint32_t at, uint32_t unit) {
  const int32_t allgather = pattern->places[at].allgather;
  return allgather >= 0 && pattern->slots[pattern->allgathers[allgather].slot].unit == unit;
}

/* Marks the forward pass that begins at a place, if there is one. */
static void mark_pass(struct tagc_pattern *pattern, uint32_t begin) {
  uint32_t end = begin;
  for (uint32_t unit = 0; unit < pattern->units; unit++, end++)
    if (end == pattern->length || !gathers_unit(pattern, end, unit))
      return;
  uint32_t calls = 0;
  for (uint32_t at = begin; at < end; at++) {
    bool again = false;
    for (uint32_t later = end; later < pattern->length && !gathers_unit(pattern, later, 0); later++)
      again |= gathers_unit(pattern, later, at - begin);
    pattern->places[at].stays = !again;
    calls += again;
  }
  if (!pattern->forward_calls || calls < pattern->forward_calls)
    pattern->forward_calls = calls;
  for (uint32_t at = begin; at < end; at++) {
    pattern->places[at].forward_end = (uint16_t)end;
    if (!pattern->places[at].stays)
      break;
  }
}

void tagc_forward_mark(struct tagc_pattern *pattern) {
  pattern->forward_calls = 0;
  for (uint32_t at = 0; at < pattern->length; at++)
    if (gathers_unit(pattern, at, 0))
      mark_pass(pattern, at);
}

/* True if a call behind place `at` may come next: the newest one may be there, or nothing but units that stay gathered
 * comes in between. */
static bool may_follow(const struct tagc_pattern *pattern, uint32_t at) {
  for (uint32_t i = 0; i < pattern->length && pattern->places[at].stays && !pattern->places[at].may_be; i++)
    at = tagc_pattern_before(pattern, at);
  return pattern->places[at].may_be;
}

/* Sets the places of the next call. Returns their number. */
static uint32_t advance(struct tagc_pattern *pattern, const struct tagc_signature *call) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < pattern->length; i++) {
    struct tagc_place *place = &pattern->places[i];
    place->may_be_next = tagc_signature_equal(&place->signature, call) &&
                         (may_follow(pattern, tagc_pattern_before(pattern, i)) ||
                          (place->forward_end && may_follow(pattern, place->forward_end - 1u)));
    count += place->may_be_next;
  }
  for (uint32_t i = 0; i < pattern->length; i++)
    pattern->places[i].may_be = pattern->places[i].may_be_next;
  return count;
}

void tagc_forward_begin(struct tagc_pattern *pattern, uint32_t landmark, uint32_t next) {
  const struct tagc_signature *first = &pattern->places[landmark].signature;
  pattern->followed = 0;
  for (uint32_t i = 0; i < pattern->length; i++)
    pattern->places[i].may_be = tagc_signature_equal(&pattern->places[i].signature, first);
  for (uint32_t at = (landmark + 1) % pattern->length; at != next; at = (at + 1) % pattern->length)
    advance(pattern, &pattern->places[at].signature);
}

int32_t tagc_forward_follow(struct tagc_pattern *pattern, const struct tagc_signature *call) {
  int32_t found = -1;
  if (!pattern->forward_calls || !advance(pattern, call) || pattern->followed++ < pattern->forward_calls)
    return -1;
  for (uint32_t i = 0; i < pattern->length; i++) {
    const struct tagc_place *place = &pattern->places[i];
    if (!place->may_be)
      continue;
    if (place->slot < 0 ||
        (found >= 0 && pattern->slots[place->slot].unit != pattern->slots[pattern->places[found].slot].unit))
      return -1;
    found = (int32_t)i;
  }
  return found;
}
