/* SPDX-License-Identifier: BSD-3-Clause
 * A cycle and its reports on the tapes that it observes. Single-threaded.
 */
#ifndef TESTS_UNIT_WATCH_H
#define TESTS_UNIT_WATCH_H

#include <string.h>

#include "tests/unit/tap.h"
#include "tests/unit/cycle/tape.h"

/* A cycle with what it has reported so far. */
struct watch {
  struct tagc_cycle *cycle;
  struct tagc_sighting last;
  unsigned locks, losses, calls, in_sync;
  unsigned reductions, placed; /* reduce-scatters, and those of them that had a slot */
  unsigned suspects;           /* of the last loss */
  uint32_t suspect[64];
  unsigned lock_call; /* the number of the call that made the last lock */
};

static inline struct watch watch_new(uint32_t warmup) {
  struct tagc_cycle_options options = {warmup, 256, 0};
  return (struct watch){.cycle = tagc_cycle_create(&options)};
}

static inline void watch_call(struct watch *w, const struct tagc_signature *call) {
  tagc_cycle_observe(w->cycle, call, &w->last);
  w->calls++;
  w->locks += w->last.locked;
  if (w->last.locked)
    w->lock_call = w->calls;
  w->in_sync += w->last.state == TAGC_CYCLE_IN_SYNC;
  w->reductions += call->collective == TAGC_COLL_REDUCE_SCATTER;
  w->placed += w->last.slot >= 0;
  if (!w->last.lost)
    return;
  size_t count;
  const uint32_t *suspects = tagc_cycle_suspects(w->cycle, &count);
  w->losses++;
  w->suspects = (unsigned)count;
  memcpy(w->suspect, suspects, (count < 64 ? count : 64) * sizeof *suspects);
}

/* Shows the tape and empties it; the counts begin anew. */
static inline void play(struct watch *w, struct tape *tape) {
  *w = (struct watch){.cycle = w->cycle, .calls = w->calls, .lock_call = w->lock_call};
  for (size_t i = 0; i < tape->count; i++)
    watch_call(w, &tape->calls[i].signature);
  tape_free(tape);
}

static const struct model gpt = {12, 1, true, false, true, true, 1000, false, false};

/* True if every slot has the name of its true unit. Plays one clean step to check. */
static inline bool names_are_true(struct watch *w, const struct model *m) {
  struct tape tape = {NULL, 0, 0};
  bool right = true;
  tape_step(&tape, m);
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(w->cycle, &count);
  for (size_t i = 0; i < tape.count; i++) {
    char name[16];
    watch_call(w, &tape.calls[i].signature);
    if (tape.calls[i].unit < 0)
      continue;
    snprintf(name, sizeof name, "unit%d", tape.calls[i].unit);
    right &= w->last.slot >= 0 && (size_t)w->last.slot < count && !strcmp(slots[w->last.slot].name, name) &&
             slots[w->last.slot].unit == (uint32_t)tape.calls[i].unit;
  }
  tape_free(&tape);
  return right;
}

/* Learns `m` with the default options; the cycle must be its step. */
static inline struct watch learned(const struct model *m) {
  struct watch w = watch_new(1);
  struct tape tape = {NULL, 0, 0};
  tape_step(&tape, m);
  size_t length = tape.count;
  tape_steps(&tape, m, (int)(256 / length) + 3);
  play(&w, &tape);
  if (tagc_cycle_length(w.cycle) != length)
    ok(0, "the step of %zu calls is learned, not %zu calls", length, tagc_cycle_length(w.cycle));
  return w;
}

#endif
