/* SPDX-License-Identifier: BSD-3-Clause
 * Known cycles: they are followed, lost and found again; their suspect slots; the cost of a call.
 */
#include <time.h>

#include "tests/unit/watch.h"

static void test_accumulation(void) {
  struct tape tape = {NULL, 0, 0};
  struct watch w = watch_new(1);
  for (int step = 0; step < 10; step++) {
    for (int micro = 0; micro < 4; micro++) {
      tape_forward(&tape, &gpt);
      tape_backward(&tape, &gpt, micro == 3);
    }
    tape_finish(&tape, &gpt);
  }
  play(&w, &tape);
  size_t count;
  tagc_cycle_slots(w.cycle, &count);
  ok(w.locks == 1 && w.losses == 0 && count == 13 && w.last.state == TAGC_CYCLE_IN_SYNC,
     "accumulation without reduction: one cycle of all micro-batches, 13 slots");
  ok(tagc_cycle_is_gradients(w.cycle), "and they are gradients");
  tagc_cycle_destroy(w.cycle);

  w = watch_new(1);
  for (int step = 0; step < 20; step++) {
    if (step == 10)
      play(&w, &tape);
    for (int micro = 0; micro < 4; micro++) {
      tape_forward(&tape, &gpt);
      tape_backward(&tape, &gpt, true);
    }
    tape_finish(&tape, &gpt);
  }
  play(&w, &tape);
  tagc_cycle_slots(w.cycle, &count);
  ok(w.locks == 0 && count % 13 == 0 && w.placed == w.reductions && tagc_cycle_is_gradients(w.cycle),
     "accumulation with reduction: %zu slots, every gradient has one (%u losses)", count, w.losses);
  ok(w.suspects == 0, "and the norm between steps makes none of them suspect");
  tagc_cycle_destroy(w.cycle);
}

/* An interruption every few steps from the start on. */
static void test_regular_visitors(void) {
  static const struct {
    const char *what;
    int every, batches;
  } cases[] = {
    {"an evaluation pass every 5 steps", 5, 1},          {"an evaluation pass every 2 steps", 2, 1},
    {"an evaluation pass after every step", 1, 1},       {"10 evaluation batches every 5 steps", 5, 10},
    {"an all-reduce for the log every 10 steps", 10, 0}, {"an all-reduce for the log every 3 steps", 3, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct watch w = watch_new(1);
    struct tape tape = {NULL, 0, 0};
    for (int step = 1; step <= 60; step++) {
      tape_step(&tape, &gpt);
      if (step % cases[i].every == 0)
        tape_evaluation(&tape, &gpt, cases[i].batches);
      if (step == 30)
        play(&w, &tape);
    }
    play(&w, &tape);
    size_t count;
    tagc_cycle_slots(w.cycle, &count);
    ok(w.locks == 0 && w.placed == w.reductions && count == 13,
       "%s: all %u gradients of 30 steps have a slot, %zu slots", cases[i].what, w.reductions, count);
    ok(tagc_cycle_is_gradients(w.cycle) && w.suspects == 0, "%s: they are gradients, none is suspect", cases[i].what);
    tagc_cycle_destroy(w.cycle);
  }
}

static void test_skips(void) {
  struct watch w = learned(&gpt);
  struct tape tape = {NULL, 0, 0};
  tape_forward(&tape, &gpt);
  tape_backward(&tape, &gpt, false);
  tape_finish(&tape, &gpt);
  play(&w, &tape);
  ok(w.losses >= 1 && w.suspects == 0, "a step without its reduce-scatters loses the track, and nothing is suspect");
  tape_step(&tape, &gpt);
  play(&w, &tape);
  ok(w.placed == 13 && w.losses == 0, "the step after it is followed from its first gradient on");

  tape_step(&tape, &gpt);
  tape.count--; /* the step is skipped: no norm, and so no optimizer */
  tape_steps(&tape, &gpt, 1);
  play(&w, &tape);
  ok(w.placed == 26 && w.suspects == 0, "a step without its norm costs no slot");

  tape_forward(&tape, &gpt); /* a checkpoint, a barrier and an object gather between steps */
  tape_free(&tape);
  for (int i = 0; i < 26; i++)
    tape_add(&tape, TAGC_COLL_ALL_GATHER, (uint64_t)(90 + i), FLOAT, -1);
  tape_add(&tape, TAGC_COLL_ALL_REDUCE, 1, FLOAT, -1);
  tape_add(&tape, TAGC_COLL_ALL_GATHER, 123, BYTES, -1);
  tape_steps(&tape, &gpt, 2);
  play(&w, &tape);
  ok(w.placed == 26 && w.locks == 0 && names_are_true(&w, &gpt), "a checkpoint and a barrier cost no slot");
  tagc_cycle_destroy(w.cycle);
}

/* Removes the reduce-scatter of a unit from the tape's only step. */
static void remove_gradient(struct tape *tape, int unit) {
  size_t at = 0;
  while (tape->calls[at].unit != unit)
    at++;
  memmove(&tape->calls[at], &tape->calls[at + 1], (tape->count - at - 1) * sizeof *tape->calls);
  tape->count--;
}

static void test_suspects(void) {
  struct model kept = {12, 1, true, false, false, true, 1000, false, false}; /* reduce-scatters in a row: hardest */
  struct watch w = learned(&kept);
  struct tape tape = {NULL, 0, 0};
  tape_step(&tape, &kept);
  remove_gradient(&tape, 5);
  play(&w, &tape);
  /* Slot k is unit 12 - k: eleven of the twelve equal blocks had passed before the root's call showed the gap. */
  bool exact = w.losses == 1 && w.suspects == 11;
  for (unsigned i = 0; i < w.suspects && exact; i++)
    exact = w.suspect[i] == i;
  ok(exact && w.placed == 12, "a like block skipped: exactly the 11 slots passed since the last lone call are suspect");
  tape_step(&tape, &kept);
  play(&w, &tape);
  ok(w.losses == 0 && w.placed == 13, "and the next step is in sync");

  struct watch v = learned(&gpt);
  tape_step(&tape, &gpt);
  remove_gradient(&tape, 5);
  play(&v, &tape);
  exact = v.suspects == 7; /* units 12 to 6 were reduced, then two all-gathers met */
  for (unsigned i = 0; i < v.suspects && exact; i++)
    exact = v.suspect[i] == i;
  ok(exact, "between all-gathers the skip shows at once: the 7 slots before it");

  tape_step(&tape, &gpt);
  remove_gradient(&tape, 0);
  tape_step(&tape, &gpt);
  play(&v, &tape);
  ok(v.losses == 1 && v.placed == 25, "the root's gradient missing costs nothing but itself");

  struct model different = {12, 12, true, false, true, true, 1000, false, false};
  struct watch u = learned(&different);
  tape_step(&tape, &different);
  remove_gradient(&tape, 5);
  play(&u, &tape);
  ok(u.losses == 1 && u.suspects == 0 && u.placed == 12, "among blocks that all differ a skip makes nothing suspect");
  tagc_cycle_destroy(w.cycle);
  tagc_cycle_destroy(v.cycle);
  tagc_cycle_destroy(u.cycle);
}

static void test_two_communicators(void) {
  struct model other = {3, 1, true, true, false, false, 7, false, false};
  struct tape a = {NULL, 0, 0}, b = {NULL, 0, 0};
  tape_steps(&a, &gpt, 20);
  tape_steps(&b, &other, 80);
  struct watch alone = watch_new(1), first = watch_new(1), second = watch_new(1);
  bool same = true;
  for (size_t i = 0; i < a.count || i < b.count; i++) {
    if (i < a.count) {
      watch_call(&alone, &a.calls[i].signature);
      watch_call(&first, &a.calls[i].signature);
      same &= alone.last.slot == first.last.slot && alone.last.cycle == first.last.cycle &&
              alone.last.state == first.last.state;
    }
    if (i < b.count)
      watch_call(&second, &b.calls[i].signature);
  }
  ok(same && first.locks == 1 && second.locks == 1 && tagc_cycle_length(second.cycle) != tagc_cycle_length(first.cycle),
     "two communicators do not disturb each other");
  tape_free(&a);
  tape_free(&b);
  tagc_cycle_destroy(alone.cycle);
  tagc_cycle_destroy(first.cycle);
  tagc_cycle_destroy(second.cycle);
}

static double nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static void measure(void) {
  static const struct {
    const char *what;
    struct model model;
    int period;
  } cases[] = {
    {"in sync, 12 blocks", {12, 1, true, false, true, true, 1000, false, false}, 0},
    {"in sync, 160 units of two kinds", {160, 2, true, false, true, true, 1000, false, false}, 0},
    {"12 blocks, an evaluation pass every 5 steps", {12, 1, true, false, true, true, 1000, false, false}, 5},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct watch w = learned(&cases[i].model);
    struct tape tape = {NULL, 0, 0};
    for (int step = 1; step <= 100; step++) {
      tape_step(&tape, &cases[i].model);
      if (cases[i].period && step % cases[i].period == 0)
        tape_evaluation(&tape, &cases[i].model, 2);
    }
    double begin = nanoseconds();
    for (int round = 0; round < 20; round++)
      for (size_t j = 0; j < tape.count; j++)
        tagc_cycle_observe(w.cycle, &tape.calls[j].signature, &w.last);
    note("%s: %.1f ns a call", cases[i].what, (nanoseconds() - begin) / 20 / (double)tape.count);
    tape_free(&tape);
    tagc_cycle_destroy(w.cycle);
  }
}

/* About so many times 10,000 floats, as parameters of many shapes add up to. */
static uint64_t floats(uint64_t size) { return size * (10000 + size); }

static struct tagc_sighting reduce(struct tagc_cycle *cycle, uint64_t size, uint8_t op) {
  const struct tagc_signature call = {floats(size), TAGC_COLL_ALL_REDUCE, FLOAT, op, true};
  struct tagc_sighting seen;
  tagc_cycle_observe(cycle, &call, &seen);
  return seen;
}

static const uint64_t buckets[] = {11, 12, 12, 13, 14, 15};

/* The parameters are broadcast first, as DDP does. */
static struct tagc_cycle *learned_buckets(uint64_t statistics, uint8_t their_op) {
  const struct tagc_cycle_options options = {0, 256, 0};
  struct tagc_cycle *cycle = tagc_cycle_create(&options);
  struct tagc_signature parameters = {0, TAGC_COLL_BROADCAST, FLOAT, 0, true};
  struct tagc_sighting seen;
  for (size_t bucket = 0; bucket < sizeof buckets / sizeof *buckets; bucket++)
    parameters.count += floats(buckets[bucket]);
  tagc_cycle_observe(cycle, &parameters, &seen);
  for (int step = 0; step < 5; step++) {
    for (size_t bucket = 0; bucket < sizeof buckets / sizeof *buckets; bucket++)
      reduce(cycle, buckets[bucket], TAGC_CODE_SUM);
    if (statistics)
      reduce(cycle, statistics, their_op);
  }
  return cycle;
}

/* Buckets with the sizes of parameters: an interruption between two steps may leave calls out, or not. */
static void test_calls_skipped(void) {
  struct tagc_cycle *cycle = learned_buckets(0, 0);
  bool in_place = true;
  for (size_t stranger = 0; stranger < sizeof buckets / sizeof *buckets; stranger++)
    for (size_t bucket = 0; bucket < sizeof buckets / sizeof *buckets; bucket++) {
      if (bucket == stranger)
        reduce(cycle, 1, TAGC_CODE_SUM);
      in_place &= !reduce(cycle, buckets[bucket], TAGC_CODE_SUM).calls_skipped;
    }
  ok(in_place, "behind a stranger the calls that were expected before it are where they should be");
  reduce(cycle, 11, TAGC_CODE_SUM);
  const struct tagc_sighting seen = reduce(cycle, 11, TAGC_CODE_SUM);
  ok(seen.lost && seen.slot == 0 && seen.calls_skipped, "one that comes too soon is not");
  reduce(cycle, 2, TAGC_CODE_SUM);
  ok(reduce(cycle, 15, TAGC_CODE_SUM).calls_skipped, "nor is one behind a stranger, where others were left out");
  ok(!reduce(cycle, 11, TAGC_CODE_SUM).calls_skipped, "the next one is");
  tagc_cycle_destroy(cycle);
}

static void test_other_reductions(void) {
  static const struct {
    const char *what;
    uint64_t size;
    uint8_t op;
  } cases[] = {
    {"a smaller sum beside them is none", 5, TAGC_CODE_SUM},
    {"an average is none", 40, TAGC_CODE_AVERAGE},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tagc_cycle *cycle = learned_buckets(cases[i].size, cases[i].op);
    size_t count, evident = 0;
    const struct tagc_slot_info *slots = tagc_cycle_slots(cycle, &count);
    for (size_t k = 0; k < count; k++)
      evident += slots[k].evident;
    ok(tagc_cycle_is_gradients(cycle) && count == 7 && evident == 6, "%s: %zu gradients of %zu", cases[i].what, evident,
       count);
    tagc_cycle_destroy(cycle);
  }
}

int main(void) {
  test_accumulation();
  test_regular_visitors();
  test_skips();
  test_calls_skipped();
  test_other_reductions();
  test_suspects();
  test_two_communicators();
  measure();
  return tap_done();
}
