/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: any sequence of collectives may be observed. The reports must agree with a simple oracle: from a
 * lock on, it remembers the last cycle of calls, and every call in sync equals the one at its place.
 *
 * Input  options, then steps: a call (kind, type and count from two bytes), or the newest calls once more, several
 *        times.
 * The evidence is smaller here than in the library (layermap/cycle/evidence.h), so short inputs fill it.
 */
#include "layermap/cycle/evidence.h"
#include "layermap/cycle/pattern.h"
#include "tests/fuzz/input.h"

enum { MOST_CALLS = 768, UNKNOWN = -1 };

struct oracle {
  struct tagc_cycle *cycle, *twin;
  struct tagc_signature tape[MOST_CALLS];
  size_t calls;
  const struct tagc_signature *known; /* the calls of the locked cycle, in the tape */
  size_t length;                      /* of it; 0: nothing is locked */
  int place;                          /* of the newest call in it, if known */
  uint64_t cycles;                    /* started since the lock */
};

/* A copy of the rule: the oracle uses no code that it checks. */
static bool equal(const struct tagc_signature *a, const struct tagc_signature *b) {
  return a->count == b->count && a->collective == b->collective && a->dtype == b->dtype && a->op == b->op &&
         a->is_float == b->is_float;
}

/* Either reduce-scatters are slots, or large all-reduces. These are if the cycle has no reduce-scatter of floats, or if
 * they are proven. */
static bool is_slot(const struct oracle *o, const struct tagc_signature *call) {
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(o->cycle, &count);
  const bool scattered = count && slots[0].signature.collective == TAGC_COLL_REDUCE_SCATTER;
  bool scatters = false;
  for (size_t place = 0; place < o->length; place++)
    scatters |= o->known[place].collective == TAGC_COLL_REDUCE_SCATTER && o->known[place].is_float;
  MUST(scattered ? scatters : !scatters || tagc_cycle_is_gradients(o->cycle));
  if (scattered)
    return call->collective == TAGC_COLL_REDUCE_SCATTER;
  return call->collective == TAGC_COLL_ALL_REDUCE && call->is_float && call->count >= TAGC_ALL_REDUCE_LEAST &&
         call->op <= TAGC_CODE_SCALED_SUM;
}

static void check_slots(const struct oracle *o) {
  size_t count, found = 0;
  const struct tagc_slot_info *slots = tagc_cycle_slots(o->cycle, &count);
  for (size_t place = 0; place < o->length; place++) {
    if (!is_slot(o, &o->known[place]))
      continue;
    MUST(found < count && slots[found].position == place && equal(&slots[found].signature, &o->known[place]));
    MUST(slots[found].unit < count && memchr(slots[found].name, '\0', sizeof slots[found].name));
    found++;
  }
  MUST(found == count && count > 0);
}

/* All-gathers of parameters: floats, of the count of a floating-point reduce-scatter of the same unit. */
static void check_allgathers(const struct oracle *o) {
  size_t count, slots_count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(o->cycle, &slots_count);
  const struct tagc_allgather_info *infos = tagc_cycle_allgathers(o->cycle, &count);
  for (size_t i = 0; i < count; i++) {
    MUST(infos[i].position < o->length && equal(&infos[i].signature, &o->known[infos[i].position]));
    MUST(infos[i].signature.collective == TAGC_COLL_ALL_GATHER && infos[i].signature.is_float &&
         infos[i].slot < slots_count);
    MUST(slots[infos[i].slot].signature.is_float && slots[infos[i].slot].signature.count == infos[i].signature.count);
    MUST(infos[i].sure || !infos[i].again);
  }
}

/* The newest call made a lock: the calls before it are the cycle, and it is their first again. */
static void lock(struct oracle *o) {
  o->length = tagc_cycle_length(o->cycle);
  MUST(o->length > 0 && o->length < o->calls);
  o->known = &o->tape[o->calls - 1 - o->length];
  o->place = 0;
  o->cycles = 1;
  MUST(equal(&o->known[0], &o->tape[o->calls - 1]));
  check_slots(o);
  check_allgathers(o);
}

/* Follows a newest call in sync, and checks its place. */
static void follow(struct oracle *o, const struct tagc_sighting *seen) {
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(o->cycle, &count);
  if (seen->lost || o->place == UNKNOWN)
    o->place = seen->starts ? 0 : seen->slot >= 0 ? (int)slots[seen->slot].position : UNKNOWN;
  else
    o->place = (int)((size_t)(o->place + 1) % o->length);
  o->cycles += seen->starts;
  if (o->place == UNKNOWN)
    return;
  const struct tagc_signature *call = &o->tape[o->calls - 1];
  MUST(equal(&o->known[o->place], call));
  MUST(seen->starts == (o->place == 0));
  MUST((seen->slot >= 0) == is_slot(o, call));
  MUST(seen->slot < 0 || ((size_t)seen->slot < count && slots[seen->slot].position == (uint32_t)o->place));
}

static void check_suspects(const struct oracle *o, const struct tagc_sighting *seen) {
  size_t suspects, slots;
  const uint32_t *suspect = tagc_cycle_suspects(o->cycle, &suspects);
  tagc_cycle_slots(o->cycle, &slots);
  MUST(suspects == 0 || seen->lost);
  MUST(suspects <= slots);
  for (size_t i = 0; i < suspects; i++)
    MUST(suspect[i] < slots);
}

static void observe(struct oracle *o, struct tagc_signature call) {
  struct tagc_sighting seen, twin;
  const bool locked = o->length > 0;
  if (o->calls == MOST_CALLS)
    return;
  o->tape[o->calls++] = call;
  tagc_cycle_observe(o->cycle, &call, &seen);
  if (o->twin)
    tagc_cycle_observe(o->twin, &call, &twin);
  MUST(!o->twin || (seen.state == twin.state && seen.slot == twin.slot && seen.locked == twin.locked &&
                    seen.starts == twin.starts && seen.cycle == twin.cycle && seen.lost == twin.lost &&
                    seen.calls_skipped == twin.calls_skipped));
  MUST(!seen.calls_skipped || (seen.state == TAGC_CYCLE_IN_SYNC && !seen.locked && (seen.lost || o->place == UNKNOWN)));
  MUST((seen.slot == -1 && seen.allgather == -1) || seen.state == TAGC_CYCLE_IN_SYNC);
  check_suspects(o, &seen);
  if (seen.state == TAGC_CYCLE_LEARNING) {
    MUST(tagc_cycle_length(o->cycle) == 0 && !tagc_cycle_is_gradients(o->cycle) && seen.cycle == 0 && !seen.locked);
    o->length = 0;
    return;
  }
  if (seen.locked)
    lock(o);
  else if (seen.state == TAGC_CYCLE_IN_SYNC)
    follow(o, &seen);
  else
    o->place = UNKNOWN;
  MUST(seen.locked || locked);
  MUST(o->length == tagc_cycle_length(o->cycle) && seen.cycle == o->cycles);
}

/* A call of few kinds, so equal ones are frequent. */
static struct tagc_signature some_call(uint8_t kind, uint8_t count) {
  return (struct tagc_signature){
    .count = count % 32 ? count % 32 : UINT64_MAX - count,
    .collective = (uint8_t)(kind & 1   ? TAGC_COLL_REDUCE_SCATTER
                            : kind & 2 ? TAGC_COLL_ALL_GATHER
                                       : kind >> 2 & 7),
    .dtype = (uint8_t)(kind >> 5 & 1    ? 1
                       : count >> 5 & 1 ? 9
                                        : 7),
    .op = (uint8_t)(kind >> 6),
    .is_float = !(kind >> 5 & 1),
  };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct oracle o;
  struct input in = {data, data + size};
  const uint8_t first = input_byte(&in);
  const struct tagc_cycle_options options = {.warmup = first & 1, .floor_calls = first >> 1 & 63, .nranks = 2};
  o.cycle = tagc_cycle_create(&options);
  o.twin = first & 128 ? tagc_cycle_create(&options) : NULL; /* equal sequences must give equal reports */
  o.calls = o.length = 0;
  MUST(o.cycle);
  while (input_left(&in) > 1 && o.calls < MOST_CALLS) {
    const uint8_t kind = input_byte(&in), count = input_byte(&in);
    if (kind < 208 || !o.calls) {
      observe(&o, some_call(kind, count));
      continue;
    }
    const size_t length = count % (o.calls < 64 ? o.calls : 64) + 1, from = o.calls - length;
    for (size_t i = 0; i < length * (1u + kind % 16); i++)
      observe(&o, o.tape[from + i % length]);
  }
  tagc_cycle_destroy(o.cycle);
  tagc_cycle_destroy(o.twin);
  return 0;
}
