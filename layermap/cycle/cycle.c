/* SPDX-License-Identifier: BSD-3-Clause
 * Learns, locks and follows the cycle of a communicator; see cycle.h for the rules.
 *
 * Without a lock, every call goes into the evidence, and each call that could be an anchor is tried. In sync, a call is
 * compared with the expected one. An unexpected gradient starts new evidence and a leaky bucket of strikes: more such
 * calls fill it, expected ones drain it. Empty again, all was well. Full, the lock is dropped, and the next cycle is
 * learned from the evidence since then.
 */
#include "layermap/cycle/cycle.h"

#include <stdlib.h>

#include "layermap/cycle/forward.h"
#include "layermap/cycle/landmarks.h"
#include "layermap/cycle/replicas.h"

enum {
  /* The weight of an unexpected call, in calls in sync. A lock survives other traffic between steps (evaluation,
   * checkpoints), a third of a step's calls in unknown large all-reduces, or its gradients in every second step. In a
   * cycle that is no whole step, or for a gradient that the cycle lacks, one call in 256 is too many. */
  STRIKE = 2,
  GRADIENT_STRIKE = 8,
  HEAVY_STRIKE = 256,
  /* The floor after a lock without one has failed, and the highest floor that failures set. */
  SECOND_FLOOR = 32,
  HIGHEST_FLOOR = TAGC_EVIDENCE_CALLS / 4,
  /* Steps that take turns are one cycle, up to so many. Twice as many that differ are one step each. */
  TURNS = 3,
  /* The longest period tried without lone calls: every earlier like call is a candidate. */
  LONGEST_WITHOUT_LONE = TAGC_EVIDENCE_CALLS / 16
};

struct tagc_cycle {
  struct tagc_cycle_options options;
  uint64_t floor; /* in force now; see options.floor_calls */
  bool locked;
  bool in_sync;
  bool held;     /* the calls since the last landmark are those before `next`, calls that the pattern lacks aside */
  uint32_t next; /* the place expected next; out of sync: if only foreign calls came in between */
  uint64_t cycles;
  uint64_t strikes;
  uint32_t used;   /* slots passed since the last sure call ... */
  uint32_t newest; /* ... the last of them */
  uint32_t suspect_count;
  uint32_t candidate_count;
  uint32_t suspects[TAGC_PATTERN_CALLS];
  uint32_t candidates[TAGC_PATTERN_CALLS]; /* out of sync without landmarks: possible places of the newest call */
  struct tagc_pattern pattern;
  struct tagc_evidence evidence;
};

struct tagc_cycle *tagc_cycle_create(const struct tagc_cycle_options *options) {
  struct tagc_cycle *cycle = calloc(1, sizeof *cycle);
  if (!cycle)
    return NULL;
  cycle->options = *options;
  cycle->floor = options->warmup ? options->floor_calls : 0;
  cycle->pattern.nranks = options->nranks;
  return cycle;
}

void tagc_cycle_destroy(struct tagc_cycle *cycle) { free(cycle); }

/* Reports this call at a known place, and expects the next. */
static void take_place(struct tagc_cycle *cycle, uint32_t at, struct tagc_sighting *out) {
  const struct tagc_place *place = &cycle->pattern.places[at];
  if (at == 0) {
    out->starts = true;
    cycle->cycles++;
  }
  out->state = TAGC_CYCLE_IN_SYNC;
  out->slot = place->slot;
  out->allgather = place->allgather;
  out->cycle = cycle->cycles;
  if (place->lone || (place->landmark && place->slot >= 0))
    cycle->used = 0;
  else if (place->slot >= 0) {
    cycle->newest = (uint32_t)place->slot;
    cycle->used += cycle->used < cycle->pattern.slot_count;
  }
  cycle->in_sync = cycle->held = true;
  cycle->next = at + 1 == cycle->pattern.length ? 0 : at + 1;
}

/* Takes the calls of the last `period` as the pattern. True if it may be a cycle with the newest call as its anchor. */
static bool take_pattern(struct tagc_cycle *cycle, uint32_t period) {
  struct tagc_pattern *pattern = &cycle->pattern;
  if (!tagc_pattern_take(pattern, &cycle->evidence, period) || pattern->row)
    return false;
  return cycle->evidence.calls > cycle->floor || (pattern->proven && tagc_replicas_are_all(&cycle->evidence));
}

/* The same, and true if it has repeated often enough. */
static bool lockable(struct tagc_cycle *cycle, uint32_t period) {
  const struct tagc_pattern *pattern = &cycle->pattern;
  if (!take_pattern(cycle, period))
    return false;
  uint64_t proof = 2 * (uint64_t)period + 1;
  if (!pattern->whole && proof < cycle->floor)
    proof = cycle->floor < TAGC_EVIDENCE_CALLS / 2 ? cycle->floor : TAGC_EVIDENCE_CALLS / 2;
  return tagc_evidence_repeats(&cycle->evidence, period, (uint32_t)proof) &&
         !tagc_pattern_contradicted(pattern, &cycle->evidence);
}

/* The same for a step that does not repeat, as the others differ in what reduces nothing: they accumulate over other
 * numbers of rounds. True if an earlier one was like it, and all have long had the same reduce-scatters. */
static bool lockable_among_others(struct tagc_cycle *cycle, const struct tagc_seen *anchor, uint32_t period) {
  const struct tagc_evidence *evidence = &cycle->evidence;
  const uint64_t reductions = anchor->last_reduced - anchor->before_reduced;
  return reductions && evidence->calls > cycle->floor + TURNS * (uint64_t)period &&
         tagc_evidence_has_steps(evidence, reductions, 2 * TURNS) && tagc_evidence_recurs(evidence, period) &&
         take_pattern(cycle, period) && cycle->pattern.whole && !cycle->pattern.all_reduces &&
         !tagc_pattern_contradicted(&cycle->pattern, evidence);
}

/* True if `period` is the shortest, not several cycles in one. */
static bool is_shortest(const struct tagc_evidence *evidence, uint32_t period) {
  for (uint32_t part = 1; part <= period / 2; part++)
    if (period % part == 0 && tagc_evidence_repeats(evidence, part, 2 * period + 1))
      return false;
  return true;
}

/* True if the newest call completes a cycle, which is then the pattern. */
static bool find_cycle(struct tagc_cycle *cycle, uint16_t id) {
  const struct tagc_evidence *evidence = &cycle->evidence;
  const struct tagc_seen *seen = &evidence->seen[id];
  const uint16_t *newest = &evidence->history[evidence->kept - 1];
  uint64_t gap = seen->last - seen->before;
  if (seen->before == 0 || gap > TAGC_PATTERN_CALLS)
    return false;
  if (tagc_evidence_repeats(evidence, (uint32_t)gap, 2 * (uint32_t)gap + 1) && lockable(cycle, (uint32_t)gap))
    return true;
  if (lockable_among_others(cycle, seen, (uint32_t)gap))
    return true;
  /* In a cycle without lone calls the anchor is a slot, and never within a row of like ones. */
  if ((seen->signature.collective != TAGC_COLL_REDUCE_SCATTER && !tagc_signature_sums(&seen->signature)) || gap == 1)
    return false;
  /* As far as calls repeat with `gap`, a longer period of theirs is a multiple of a shorter one (Fine, Wilf 1965). */
  const uint32_t known = tagc_evidence_repeating(evidence, (uint32_t)gap, 2 * LONGEST_WITHOUT_LONE + 1);
  const uint32_t shortest = (known + 1) / 2 > gap ? (known + 1) / 2 : (uint32_t)gap + 1;
  for (uint32_t period = shortest; period <= LONGEST_WITHOUT_LONE && 2 * period < evidence->kept; period++)
    if (newest[-(ptrdiff_t)period] == id && tagc_evidence_repeats(evidence, period, 2 * period + 1) &&
        is_shortest(evidence, period) && lockable(cycle, period))
      return true;
  return false;
}

static void learn(struct tagc_cycle *cycle, const struct tagc_signature *call, struct tagc_sighting *out) {
  uint16_t id = tagc_evidence_add(&cycle->evidence, call);
  const bool early = cycle->evidence.calls <= cycle->floor;
  if ((early && !tagc_beginning_tells(&cycle->evidence.beginning)) || !cycle->evidence.reduces ||
      !find_cycle(cycle, id))
    return;
  tagc_pattern_name(&cycle->pattern, &cycle->evidence);
  cycle->locked = true;
  cycle->cycles = 0;
  cycle->strikes = 0;
  cycle->used = 0;
  out->locked = true;
  take_place(cycle, 0, out);
}

/* Lists the slots since the last sure call: a lone one, or a slot that is a landmark. (A gather that is a landmark may
 * be that of another pass.) */
static void list_suspects(struct tagc_cycle *cycle) {
  uint32_t slots = cycle->pattern.slot_count;
  for (uint32_t i = 0; i < cycle->used; i++)
    cycle->suspects[i] = (cycle->newest + slots - cycle->used + 1 + i) % slots;
  cycle->suspect_count = cycle->used;
  cycle->used = 0;
}

/* Without landmarks: the only place to which the calls since the loss can lead, or -1. */
static int32_t narrow_down(struct tagc_cycle *cycle, const struct tagc_signature *call) {
  const struct tagc_pattern *pattern = &cycle->pattern;
  uint32_t count = 0;
  for (uint32_t i = 0; i < cycle->candidate_count; i++) {
    uint32_t next = (cycle->candidates[i] + 1) % pattern->length;
    if (tagc_signature_equal(&pattern->places[next].signature, call))
      cycle->candidates[count++] = next;
  }
  for (uint32_t i = 0, begin = count; i < pattern->length && begin == 0; i++)
    if (tagc_signature_equal(&pattern->places[i].signature, call))
      cycle->candidates[count++] = i;
  cycle->candidate_count = count;
  return count == 1 ? (int32_t)cycle->candidates[0] : -1;
}

/* Drops the lock. It was false, or its time is over: the next one needs more proof. */
static void drop(struct tagc_cycle *cycle, struct tagc_sighting *out) {
  uint64_t highest = cycle->options.floor_calls > HIGHEST_FLOOR ? cycle->options.floor_calls : HIGHEST_FLOOR;
  cycle->floor = cycle->floor ? 2 * cycle->floor : SECOND_FLOOR;
  if (cycle->floor > highest)
    cycle->floor = highest;
  cycle->locked = false;
  cycle->in_sync = false;
  cycle->suspect_count = 0;
  out->state = TAGC_CYCLE_LEARNING;
  out->cycle = 0;
}

/* The place of an unexpected call, or -1. */
static int32_t find_place(struct tagc_cycle *cycle, const struct tagc_signature *call, bool known) {
  struct tagc_pattern *pattern = &cycle->pattern;
  if (!pattern->has_landmarks)
    return narrow_down(cycle, call);
  if (!known)
    return -1;
  if (cycle->held && tagc_signature_equal(&pattern->places[cycle->next].signature, call))
    return (int32_t)cycle->next;
  const int32_t at = tagc_landmarks_find(pattern, cycle->next, cycle->held, call);
  if (at < 0 && cycle->held)
    tagc_forward_begin(pattern, tagc_landmarks_last(pattern, cycle->next), cycle->next);
  cycle->held = false; /* unless the call gets a place */
  return at >= 0 ? at : tagc_forward_follow(pattern, call);
}

static unsigned weight(const struct tagc_pattern *pattern, const struct tagc_signature *call, bool known) {
  if (!pattern->whole)
    return HEAVY_STRIKE;
  if (tagc_pattern_reduces(pattern, call))
    return known ? GRADIENT_STRIKE : HEAVY_STRIKE;
  return !known && tagc_signature_sums(call) ? STRIKE : 0;
}

/* Counts an unexpected call against the lock. False: it was one too many. */
static bool count_strike(struct tagc_cycle *cycle, const struct tagc_signature *call, bool known) {
  const struct tagc_pattern *pattern = &cycle->pattern;
  const uint64_t patience = pattern->whole || cycle->options.warmup ? cycle->options.floor_calls : 0;
  const unsigned more = weight(pattern, call, known);
  if (cycle->strikes == 0 && more)
    tagc_evidence_begin(&cycle->evidence);
  cycle->strikes += more;
  if (cycle->strikes)
    tagc_evidence_add(&cycle->evidence, call);
  return cycle->strikes <= (pattern->whole ? STRIKE : HEAVY_STRIKE) * (2 * pattern->length + patience);
}

/* Handles a call that was unexpected, or that came out of sync. */
static void stray(struct tagc_cycle *cycle, const struct tagc_signature *call, struct tagc_sighting *out) {
  if (cycle->in_sync) {
    cycle->in_sync = false;
    cycle->candidate_count = 0;
    out->lost = true;
    list_suspects(cycle);
  }
  const struct tagc_pattern *pattern = &cycle->pattern;
  const bool known = tagc_pattern_has(pattern, call);
  const int32_t at = find_place(cycle, call, known);
  out->state = TAGC_CYCLE_OUT_OF_SYNC;
  out->cycle = cycle->cycles;
  if (!count_strike(cycle, call, known)) {
    drop(cycle, out);
  } else if (at >= 0) {
    out->calls_skipped = (uint32_t)at != cycle->next;
    take_place(cycle, (uint32_t)at, out);
  } else if (tagc_signature_equal(&pattern->places[cycle->next].signature, call)) {
    cycle->next = cycle->next + 1 == pattern->length ? 0 : cycle->next + 1;
  }
}

void tagc_cycle_observe(struct tagc_cycle *cycle, const struct tagc_signature *call, struct tagc_sighting *out) {
  *out = (struct tagc_sighting){.state = TAGC_CYCLE_LEARNING, .slot = -1, .allgather = -1};
  cycle->suspect_count = 0;
  if (!cycle->locked) {
    learn(cycle, call, out);
  } else if (cycle->in_sync && tagc_signature_equal(&cycle->pattern.places[cycle->next].signature, call)) {
    take_place(cycle, cycle->next, out);
    if (cycle->strikes) {
      cycle->strikes--;
      tagc_evidence_add(&cycle->evidence, call);
    }
  } else {
    stray(cycle, call, out);
  }
}

const struct tagc_slot_info *tagc_cycle_slots(const struct tagc_cycle *cycle, size_t *count) {
  *count = cycle->locked ? cycle->pattern.slot_count : 0;
  return cycle->locked ? cycle->pattern.slots : NULL;
}

const struct tagc_allgather_info *tagc_cycle_allgathers(const struct tagc_cycle *cycle, size_t *count) {
  *count = cycle->locked ? cycle->pattern.allgather_count : 0;
  return cycle->locked ? cycle->pattern.allgathers : NULL;
}

size_t tagc_cycle_length(const struct tagc_cycle *cycle) { return cycle->locked ? cycle->pattern.length : 0; }

const uint32_t *tagc_cycle_suspects(const struct tagc_cycle *cycle, size_t *count) {
  *count = cycle->suspect_count;
  return cycle->suspects;
}

bool tagc_cycle_is_gradients(const struct tagc_cycle *cycle) { return cycle->locked && cycle->pattern.whole; }

bool tagc_cycle_has_rebuilt_buckets(const struct tagc_cycle *cycle) { return cycle->locked && cycle->pattern.rebuilt; }
