/* SPDX-License-Identifier: BSD-3-Clause
 * Reads a cycle of calls as a training step; see pattern.h.
 */
#include "layermap/cycle/pattern.h"

#include <stdio.h>

#include "layermap/cycle/activations.h"
#include "layermap/cycle/allgathers.h"
#include "layermap/cycle/forward.h"
#include "layermap/cycle/landmarks.h"
#include "layermap/cycle/replicas.h"
#include "layermap/cycle/units.h"

/* A call last seen longer ago than this, and than four cycles, does not come back: gathers of the start. A long cycle
 * is no row of like blocks: having repeated is enough. DDP refills its buckets after the first step, and its earlier
 * all-reduces do not come back either: there fewer calls suffice. */
enum { STALE_CALLS = 4096, STALE_ALL_REDUCES = 512, LONG_CYCLE = 256 };

bool tagc_pattern_has(const struct tagc_pattern *pattern, const struct tagc_signature *s) {
  for (uint32_t i = 0; i < pattern->length; i++)
    if (tagc_signature_equal(&pattern->places[i].signature, s))
      return true;
  return false;
}

/* The place, in the pattern, where the period of the newest calls begins: its first call repeated since then. */
static uint32_t find_beginning(const struct tagc_evidence *evidence, uint32_t period) {
  uint32_t begin = evidence->kept - 1 - period;
  const uint32_t anchor = begin;
  while (begin && evidence->history[begin - 1] == evidence->history[begin - 1 + period])
    begin--;
  return (period - (anchor - begin) % period) % period;
}

/* Finds the start of the backward pass: the first slot after the longest stretch without any. Among equals, takes the
 * one nearest to the start, so that some rotation of a pattern has its anchor at 0. If all calls are slots (DDP),
 * assumes that the steps began with one. */
static void find_first(struct tagc_pattern *pattern, const struct tagc_evidence *evidence) {
  uint32_t without = 0;
  while (pattern->places[pattern->length - 1 - without].slot < 0)
    without++;
  pattern->stretch = 0;
  pattern->first = UINT32_MAX;
  for (uint32_t i = 0; i < pattern->length; i++) {
    if (pattern->places[i].slot < 0) {
      without++;
      continue;
    }
    if (pattern->first == UINT32_MAX || without > pattern->stretch) {
      pattern->first = i;
      pattern->stretch = without;
    }
    without = 0;
  }
  if (pattern->slot_count == pattern->length && pattern->all_reduces)
    pattern->first = find_beginning(evidence, pattern->length);
}

static uint32_t find_anchor(const struct tagc_pattern *pattern) {
  for (uint32_t back = 0; back < pattern->length && pattern->has_lone; back++) {
    uint32_t at = (pattern->first + pattern->length - back) % pattern->length;
    if (pattern->places[at].lone)
      return at;
  }
  return pattern->first;
}

/* True if the stretch before the first reduce-scatter all-gathers this count. */
static bool gathered_ahead(const struct tagc_pattern *pattern, uint64_t count) {
  for (uint32_t back = 1; back <= pattern->stretch; back++) {
    uint32_t at = (pattern->first + pattern->length - back) % pattern->length;
    if (pattern->places[at].signature.count == count && tagc_signature_allgathers(&pattern->places[at].signature))
      return true;
  }
  return false;
}

/* True if the pattern has an all-gather of this count. */
static bool gathered(const struct tagc_evidence *evidence, uint64_t count) {
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    const struct tagc_seen *seen = &evidence->seen[i];
    if (seen->times && seen->signature.count == count && tagc_signature_allgathers(&seen->signature))
      return true;
  }
  return false;
}

/* All reduce-scatters of a count, and its gathers, share one kind. If all-reduces are slots, these alone have kinds. */
static uint16_t kind_of_signature(const struct tagc_pattern *pattern, const struct tagc_evidence *evidence,
                                  uint32_t id) {
  const struct tagc_signature *s = &evidence->seen[id].signature;
  if (pattern->all_reduces)
    return tagc_signature_sums(s) ? (uint16_t)(id + 1) : 0;
  if (s->collective != TAGC_COLL_REDUCE_SCATTER && !tagc_signature_allgathers(s))
    return 0;
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    const struct tagc_seen *seen = &evidence->seen[i];
    if (seen->times && seen->signature.count == s->count && seen->signature.collective == TAGC_COLL_REDUCE_SCATTER)
      return (uint16_t)(i + 1);
  }
  return 0;
}

static void set_kinds(struct tagc_pattern *pattern, struct tagc_evidence *evidence) {
  for (uint32_t i = 0; i < evidence->signatures; i++)
    evidence->seen[i].kind = evidence->seen[i].times ? kind_of_signature(pattern, evidence, i) : 0;
  const uint16_t *ids = evidence->history + (evidence->kept - 1 - pattern->length);
  for (uint32_t i = 0; i < pattern->length; i++)
    pattern->places[i].kind = evidence->seen[ids[i]].kind;
}

/* Sets the facts that all-gathers tell about the reduce-scatters. */
static void match_allgathers(struct tagc_pattern *pattern, struct tagc_evidence *evidence) {
  uint64_t least = UINT64_MAX, most = 0;
  bool all_ahead = true, averages = false, sums = true;
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    const struct tagc_seen *seen = &evidence->seen[i];
    averages |= seen->times && tagc_signature_reduces(&seen->signature) && tagc_signature_averages(&seen->signature);
  }
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    struct tagc_seen *seen = &evidence->seen[i];
    uint64_t count = seen->signature.count;
    seen->gathered = seen->times && tagc_signature_reduces(&seen->signature) && gathered(evidence, count);
    seen->evident = !averages || tagc_signature_averages(&seen->signature);
    if (!seen->times || !tagc_signature_reduces(&seen->signature) || !seen->evident)
      continue;
    all_ahead &= seen->gathered && gathered_ahead(pattern, count);
    sums &= seen->signature.op == TAGC_CODE_SUM;
    least = count < least ? count : least;
    most = count > most ? count : most;
  }
  pattern->whole = all_ahead && least < most;
  if (!pattern->whole || !sums)
    return;
  set_kinds(pattern, evidence);
  pattern->row = tagc_pattern_is_row(pattern, evidence);
  pattern->whole = !pattern->row && !tagc_pattern_has_activations(pattern, evidence, pattern->nranks);
}

/* The kind of reduction of most elements. Others are something else (statistics that are averaged). */
static uint8_t main_op(const struct tagc_evidence *evidence) {
  uint64_t elements[TAGC_CODE_SCALED_SUM + 1] = {0};
  uint8_t most = 0;
  for (uint32_t i = 0; i < evidence->signatures; i++)
    if (tagc_signature_sums(&evidence->seen[i].signature))
      elements[evidence->seen[i].signature.op] += evidence->seen[i].times * evidence->seen[i].signature.count;
  for (uint8_t op = 1; op <= TAGC_CODE_SCALED_SUM; op++)
    most = elements[op] > elements[most] ? op : most;
  return most;
}

/* Sets the facts that all-reduces tell about themselves: see tagc_cycle_is_gradients(). */
static void weigh_all_reduces(struct tagc_pattern *pattern, struct tagc_evidence *evidence) {
  const uint8_t op = main_op(evidence);
  const struct tagc_replicas proof = tagc_replicas_prove(evidence, pattern->nranks, op);
  pattern->proven = proof.passes > 0;
  pattern->passes = proof.passes;
  pattern->rebuilt = proof.rebuilt;
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    struct tagc_seen *seen = &evidence->seen[i];
    seen->gathered = false;
    seen->evident = pattern->proven && seen->signature.op == op && seen->signature.count >= proof.least &&
                    seen->signature.count <= proof.most;
  }
  pattern->whole = pattern->proven;
}

/* True if replicas of a model, whose gradients are all-reduced, also reduce-scatter something else: features. */
static bool has_replicas(const struct tagc_pattern *pattern, const struct tagc_evidence *evidence) {
  return tagc_pattern_has_replicas(evidence, pattern->nranks) &&
         tagc_replicas_prove(evidence, pattern->nranks, main_op(evidence)).passes;
}

bool tagc_pattern_take(struct tagc_pattern *pattern, struct tagc_evidence *evidence, uint32_t period) {
  const uint16_t *ids = evidence->history + (evidence->kept - 1 - period);
  bool reduces = false;
  for (uint32_t i = 0; i < evidence->signatures; i++)
    evidence->seen[i].times = 0;
  for (uint32_t i = 0; i < period; i++)
    evidence->seen[ids[i]].times++;
  pattern->length = period;
  pattern->slot_count = 0;
  pattern->passes = 0;
  pattern->has_lone = pattern->row = pattern->proven = pattern->rebuilt = false;
  for (uint32_t i = 0; i < evidence->signatures; i++)
    reduces |= evidence->seen[i].times && tagc_signature_reduces(&evidence->seen[i].signature);
  pattern->all_reduces = !reduces || has_replicas(pattern, evidence);
  for (uint32_t i = 0; i < period; i++) {
    const struct tagc_seen *seen = &evidence->seen[ids[i]];
    pattern->places[i] =
      (struct tagc_place){.signature = seen->signature, .slot = -1, .allgather = -1, .lone = seen->times == 1};
    if (pattern->all_reduces ? tagc_signature_sums(&seen->signature)
                             : seen->signature.collective == TAGC_COLL_REDUCE_SCATTER)
      pattern->places[i].slot = (int32_t)pattern->slot_count++;
    pattern->has_lone |= seen->times == 1;
  }
  if (!pattern->slot_count)
    return false;
  find_first(pattern, evidence);
  if (find_anchor(pattern) != 0)
    return false;
  (pattern->all_reduces ? weigh_all_reduces : match_allgathers)(pattern, evidence);
  for (uint32_t i = 0; i < period; i++) {
    pattern->places[i].gathered = evidence->seen[ids[i]].gathered;
    pattern->places[i].evident = evidence->seen[ids[i]].evident;
  }
  return true;
}

bool tagc_pattern_contradicted(const struct tagc_pattern *pattern, const struct tagc_evidence *evidence) {
  if (pattern->proven)
    return false;
  uint64_t stale = 4 * (uint64_t)pattern->length;
  const uint64_t least = pattern->all_reduces ? STALE_ALL_REDUCES : STALE_CALLS;
  if (stale < least)
    stale = least;
  if (pattern->length >= LONG_CYCLE && !pattern->whole)
    stale = 2 * (uint64_t)pattern->length;
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    const struct tagc_seen *seen = &evidence->seen[i];
    bool parameters = tagc_signature_allgathers(&seen->signature),
         gradients = tagc_pattern_reduces(pattern, &seen->signature);
    bool expected = pattern->whole ? gradients && seen->before : gradients || parameters;
    if (expected && !seen->times && evidence->calls - seen->last <= stale)
      return true;
  }
  return false;
}

void tagc_pattern_name(struct tagc_pattern *pattern, struct tagc_evidence *evidence) {
  set_kinds(pattern, evidence);
  for (uint32_t i = 0; i < pattern->length; i++) {
    const struct tagc_place *place = &pattern->places[i];
    if (place->slot < 0)
      continue;
    struct tagc_slot_info *slot = &pattern->slots[place->slot];
    *slot = (struct tagc_slot_info){
      .signature = place->signature, .position = i, .gathered = place->gathered, .evident = place->evident};
  }
  tagc_units_number(pattern);
  tagc_allgathers_pair(pattern);
  tagc_landmarks_set(pattern);
  tagc_forward_mark(pattern);
  for (uint32_t i = 0; i < pattern->slot_count; i++)
    snprintf(pattern->slots[i].name, sizeof pattern->slots[i].name, "unit%u", pattern->slots[i].unit);
}
