/* SPDX-License-Identifier: BSD-3-Clause
 * Cycles in sequences of training programs: what is learned, and when.
 */
#include <sys/resource.h>

#include "tests/unit/watch.h"

static void test_models(void) {
  static const struct {
    const char *what;
    struct model model;
    bool gradients;
  } cases[] = {
    {"12 like blocks and a root", {12, 1, true, false, true, true, 1000, false, false}, true},
    {"the same, parameters kept after forward", {12, 1, true, false, false, true, 1000, false, false}, true},
    {"the same, no gradient norm", {12, 1, true, false, true, false, 1000, false, false}, true},
    {"80 like blocks, root and head", {80, 1, true, true, true, true, 1000, false, false}, true},
    {"160 units of two alternating kinds, root", {160, 2, true, false, true, true, 1000, false, false}, true},
    {"160 units of two alternating kinds, root, no norm", {160, 2, true, false, true, false, 1000, false, false}, true},
    {"160 units of two alternating kinds alone", {160, 2, false, false, true, false, 1000, false, false}, true},
    {"60 units, all different", {60, 60, true, true, true, true, 1000, false, false}, true},
    {"80 like blocks alone", {80, 1, false, false, true, false, 1000, false, false}, false},
    {"80 like blocks and a norm", {80, 1, false, false, true, true, 1000, false, false}, false},
    {"one unit", {1, 1, false, false, false, true, 1000, false, false}, false},
    {"one unit, nothing else", {1, 1, false, false, false, false, 1000, false, false}, false},
    {"12 like blocks, root and head alike: no call is lone", {12, 1, true, true, true, false, 1000, true, false}, true},
    {"root and one block", {1, 1, true, false, true, false, 1000, false, false}, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct model *m = &cases[i].model;
    struct watch w = learned(m);
    struct tape tape = {NULL, 0, 0};
    tape_steps(&tape, m, 20);
    play(&w, &tape);
    size_t count;
    const struct tagc_slot_info *slots = tagc_cycle_slots(w.cycle, &count);
    ok(w.losses == 0 && w.locks == 0 && w.placed == w.reductions && w.in_sync == 20 * tagc_cycle_length(w.cycle),
       "%s: every call of 20 steps is in sync", cases[i].what);
    ok(count == (size_t)model_units(m) && slots[0].gathered && names_are_true(&w, m),
       "%s: slots and names are the units", cases[i].what);
    ok(tagc_cycle_is_gradients(w.cycle) == cases[i].gradients, "%s: %s", cases[i].what,
       cases[i].gradients ? "gradients" : "not evidently gradients");
    tagc_cycle_destroy(w.cycle);
  }
}

static void test_floor(void) {
  struct tape tape = {NULL, 0, 0};
  tape_step(&tape, &gpt);
  unsigned length = (unsigned)tape.count;
  tape_steps(&tape, &gpt, 20);
  struct watch late = watch_new(1), soon = watch_new(0);
  struct tape same = {NULL, 0, 0};
  tape_steps(&same, &gpt, 21);
  play(&late, &tape);
  play(&soon, &same);
  ok(late.locks == 1 && late.lock_call > 256 && late.lock_call <= 256 + length,
     "locked at call %u, the floor being 256", late.lock_call);
  ok(soon.locks == 1 && soon.lock_call <= 3 * length + 1, "without warm-up locked at call %u of steps of %u",
     soon.lock_call, length);
  ok(late.last.cycle == (late.calls - late.lock_call) / length + 1, "%llu cycles have started since",
     (unsigned long long)late.last.cycle);
  tagc_cycle_destroy(late.cycle);
  tagc_cycle_destroy(soon.cycle);
}

/* Calls before a program's first step: broadcasts, odd gathers, validation. */
static void test_beginnings(void) {
  struct watch w = watch_new(1);
  struct tape tape = {NULL, 0, 0};
  for (int i = 0; i < 200; i++)
    tape_add(&tape, TAGC_COLL_BROADCAST, (uint64_t)(1000 + i % 7), FLOAT, -1);
  for (int i = 0; i < 30; i++)
    tape_add(&tape, TAGC_COLL_ALL_GATHER, (uint64_t)(5 + i), FLOAT, -1);
  tape_evaluation(&tape, &gpt, 9);
  tape_forward(&tape, &gpt); /* a first step unlike the others: the head's blocks come twice */
  tape_forward(&tape, &gpt);
  tape_backward(&tape, &gpt, true);
  tape_steps(&tape, &gpt, 5);
  play(&w, &tape);
  ok(w.locks == 1 && w.last.state == TAGC_CYCLE_IN_SYNC && names_are_true(&w, &gpt),
     "broadcasts, gathers, a validation and an odd first step come first: locked within 5 steps");
  tagc_cycle_destroy(w.cycle);

  w = watch_new(1);
  for (int i = 0; i < 5000; i++)
    tape_add(&tape, TAGC_COLL_ALL_REDUCE, 25, FLOAT, -1);
  play(&w, &tape);
  ok(w.locks == 0 && w.last.state == TAGC_CYCLE_LEARNING && w.last.cycle == 0,
     "nothing to lock without reduce-scatters");
  size_t count = 1;
  ok(!tagc_cycle_slots(w.cycle, &count) && count == 0 && tagc_cycle_length(w.cycle) == 0 &&
       !tagc_cycle_is_gradients(w.cycle),
     "and no slots, no length, no gradients");
  tagc_cycle_destroy(w.cycle);
}

/* Sequence parallelism: every layer gathers activations, multiplies and reduce-scatters them, both ways. */
static void test_activations(void) {
  struct tape tape = {NULL, 0, 0};
  for (int step = 0; step < 30; step++) {
    for (int layer = 0; layer < 48; layer++)
      for (int half = 0; half < 2; half++) {
        uint64_t count = layer % 24 < 12 ? 4096 : 8192; /* an encoder and a decoder of different lengths */
        tape_add(&tape, TAGC_COLL_ALL_GATHER, count, HALF, -1);
        tape_add(&tape, TAGC_COLL_REDUCE_SCATTER, count, HALF, -1);
      }
    tape_add(&tape, TAGC_COLL_ALL_REDUCE, 77, FLOAT, -1);
  }
  struct watch w = watch_new(1);
  play(&w, &tape);
  ok(w.last.state != TAGC_CYCLE_OUT_OF_SYNC && !tagc_cycle_is_gradients(w.cycle),
     "activations are no gradients (%zu calls)", tagc_cycle_length(w.cycle));
  tagc_cycle_destroy(w.cycle);
}

/* A pass with the counts of the first and another type is not a second pass of the same units. */
static void test_types_of_passes(void) {
  static const uint64_t counts[] = {7000, 5000, 5000, 9000};
  struct tape tape = {NULL, 0, 0};
  for (int step = 0; step < 20; step++)
    for (int pass = 0; pass < 2; pass++) {
      for (int i = 0; i < 4; i++)
        tape_add(&tape, TAGC_COLL_ALL_GATHER, counts[i], FLOAT, -1);
      for (int i = 3; i >= 0; i--)
        tape_add(&tape, TAGC_COLL_REDUCE_SCATTER, counts[i], pass ? BYTES : FLOAT, i);
    }
  struct watch w = watch_new(1);
  play(&w, &tape);
  size_t count, slot_count, other = 0;
  const struct tagc_slot_info *slots = tagc_cycle_slots(w.cycle, &slot_count);
  const struct tagc_allgather_info *infos = tagc_cycle_allgathers(w.cycle, &count);
  for (size_t i = 0; i < count; i++)
    other += !slots[infos[i].slot].signature.is_float;
  ok(w.locks == 1 && slot_count == 8 && count == 8 && other == 0,
     "%zu all-gathers of floats, %zu of them for reduce-scatters of integers", count, other);
  tagc_cycle_destroy(w.cycle);
}

static void test_other_programs(void) {
  /* ZeRO-3: parameters gathered one by one, gradients reduced in buckets whose counts match nothing. */
  struct tape tape = {NULL, 0, 0};
  for (int step = 0; step < 20; step++) {
    for (int pass = 0; pass < 2; pass++)
      for (int i = 0; i < 40; i++)
        tape_add(&tape, TAGC_COLL_ALL_GATHER, (uint64_t)(500 + i % 4), HALF, -1);
    for (int i = 0; i < 7; i++)
      tape_add(&tape, TAGC_COLL_REDUCE_SCATTER, i < 6 ? 90000 : 1234, HALF, i);
    tape_add(&tape, TAGC_COLL_ALL_REDUCE, 1, FLOAT, -1);
  }
  struct watch w = watch_new(1);
  play(&w, &tape);
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(w.cycle, &count);
  ok(w.locks == 1 && count == 7 && tagc_cycle_length(w.cycle) == 88 && !slots[0].gathered,
     "ZeRO-3 with buckets: locked, 7 slots, not matched by gathers");
  ok(!tagc_cycle_is_gradients(w.cycle), "so that TAGC_ASSUME has to say that they are gradients");
  tagc_cycle_destroy(w.cycle);

  /* Megatron: the buckets of the gradient buffer in a row, then the parameters. */
  for (int step = 0; step < 60; step++) {
    for (int i = 0; i < 5; i++)
      tape_add(&tape, TAGC_COLL_REDUCE_SCATTER, i < 4 ? 40000 : 25000, FLOAT, i);
    tape_add(&tape, TAGC_COLL_ALL_REDUCE, 1, FLOAT, -1);
    for (int i = 0; i < 5; i++)
      tape_add(&tape, TAGC_COLL_ALL_GATHER, i < 4 ? 40000 : 25000, HALF, -1);
  }
  w = watch_new(1);
  play(&w, &tape);
  slots = tagc_cycle_slots(w.cycle, &count);
  ok(w.locks == 1 && count == 5 && tagc_cycle_length(w.cycle) == 11 && tagc_cycle_is_gradients(w.cycle),
     "Megatron's buckets: locked, 5 slots, gradients");
  tagc_cycle_destroy(w.cycle);

  /* Equal buckets that nothing distinguishes. */
  for (int step = 0; step < 60; step++)
    for (int i = 0; i < 8; i++)
      tape_add(&tape, i < 4 ? TAGC_COLL_REDUCE_SCATTER : TAGC_COLL_ALL_GATHER, 40000, FLOAT, -1);
  w = watch_new(1);
  play(&w, &tape);
  tagc_cycle_slots(w.cycle, &count);
  ok(w.locks == 1 && count == 4, "equal buckets: 4 slots");
  tape_add(&tape, TAGC_COLL_REDUCE_SCATTER, 40000, FLOAT, -1);
  tape_add(&tape, TAGC_COLL_ALL_REDUCE, 1, FLOAT, -1);
  for (int i = 1; i < 24; i++)
    tape_add(&tape, i % 8 < 4 ? TAGC_COLL_REDUCE_SCATTER : TAGC_COLL_ALL_GATHER, 40000, FLOAT, -1);
  play(&w, &tape);
  ok(w.losses == 1 && w.last.state == TAGC_CYCLE_IN_SYNC && w.last.slot == -1 && w.placed >= 8,
     "equal buckets: back in sync after a stranger");
  tagc_cycle_destroy(w.cycle);
}

static void test_false_locks(void) {
  static const struct {
    const char *what;
    struct model model;
  } cases[] = {
    {"12 like blocks and a root", {12, 1, true, false, true, true, 1000, false, false}},
    {"80 like blocks, root and head", {80, 1, true, true, true, true, 1000, false, false}},
    {"12 like blocks, root and head alike", {12, 1, true, true, true, false, 1000, true, false}},
    {"80 like blocks and a norm", {80, 1, false, false, true, true, 1000, false, false}},
    {"80 like blocks alone", {80, 1, false, false, true, false, 1000, false, false}},
    {"160 like blocks, parameters kept", {160, 1, false, false, false, true, 1000, false, false}},
    {"160 units of two kinds alone", {160, 2, false, false, true, false, 1000, false, false}},
    {"160 units of two kinds, root", {160, 2, true, false, false, false, 1000, false, false}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct model *m = &cases[i].model;
    struct watch w = watch_new(0);
    struct tape tape = {NULL, 0, 0};
    tape_step(&tape, m);
    size_t length = tape.count;
    tape_steps(&tape, m, 19);
    play(&w, &tape);
    size_t count;
    tagc_cycle_slots(w.cycle, &count);
    ok(count == (size_t)model_units(m) && tagc_cycle_length(w.cycle) == length && names_are_true(&w, m),
       "without warm-up, %s: the true cycle is locked after %.1f steps, as lock %u", cases[i].what,
       (double)w.lock_call / (double)length, w.locks);
    tagc_cycle_destroy(w.cycle);
  }
  /* Only reduce-scatters, and one all-reduce per step: a cycle of one call at first sight. */
  struct watch w = watch_new(0);
  struct tape tape = {NULL, 0, 0};
  for (int step = 0; step < 30; step++) {
    for (int i = 0; i < 80; i++)
      tape_add(&tape, TAGC_COLL_REDUCE_SCATTER, 500, FLOAT, i);
    tape_add(&tape, TAGC_COLL_ALL_REDUCE, 1, FLOAT, -1);
  }
  play(&w, &tape);
  ok(tagc_cycle_length(w.cycle) == 81 && w.locks > 1,
     "80 like reduce-scatters and a norm: true after %.1f steps, as lock %u", w.lock_call / 81.0, w.locks);
  tagc_cycle_destroy(w.cycle);

  w = watch_new(0);
  for (int i = 0; i < 10; i++)
    tape_add(&tape, TAGC_COLL_REDUCE_SCATTER, 500, FLOAT, 0);
  play(&w, &tape);
  ok(w.lock_call == 3 && w.placed == 8 && w.last.cycle == 8, "a lone kind of call is a cycle of one at its third");
  tagc_cycle_destroy(w.cycle);
}

static void test_changes(void) {
  static const struct {
    const char *what;
    struct model model;
  } cases[] = {
    {"other shapes", {12, 1, true, false, true, true, 900, false, false}},
    {"more blocks", {20, 1, true, false, true, true, 1000, false, false}},
    {"parameters kept", {12, 1, true, false, false, true, 1000, false, false}},
    {"a head that was frozen", {12, 1, true, true, true, true, 1000, false, false}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct model *m = &cases[i].model;
    struct watch w = learned(&gpt);
    struct tape tape = {NULL, 0, 0};
    tape_steps(&tape, m, 40);
    unsigned before = w.calls;
    play(&w, &tape);
    size_t count;
    tagc_cycle_slots(w.cycle, &count);
    ok(w.locks == 1 && count == (size_t)model_units(m) && names_are_true(&w, m),
       "the model changes, %s: a new lock %u calls later", cases[i].what, w.lock_call - before);
    tagc_cycle_destroy(w.cycle);
  }
}

/* More signatures and longer sequences than are stored. */
static void test_bounds(void) {
  struct watch w = watch_new(1);
  struct tape tape = {NULL, 0, 0};
  for (int i = 0; i < 200000; i++)
    tape_add(&tape, i % 3 ? TAGC_COLL_ALL_REDUCE : TAGC_COLL_REDUCE_SCATTER, (uint64_t)(i * 7919 % 100003), BYTES, -1);
  for (int i = 0; i < 70000; i++)
    tape_add(&tape, TAGC_COLL_ALL_REDUCE, (uint64_t)i * (uint64_t)i % 4001, FLOAT, -1);
  tape_steps(&tape, &gpt, 10);
  play(&w, &tape);
  ok(w.locks == 1 && names_are_true(&w, &gpt), "after 270,000 calls of up to 100,000 kinds a cycle is still learned");
  tagc_cycle_destroy(w.cycle);

  for (int micro_batches = 600; micro_batches <= 700; micro_batches += 100) {
    w = watch_new(1);
    for (int step = 0; step < 4; step++)
      for (int micro = 1; micro <= micro_batches; micro++) {
        tape_forward(&tape, &gpt);
        tape_backward(&tape, &gpt, micro == micro_batches);
      }
    size_t length = tape.count / 4;
    play(&w, &tape);
    bool expected = length <= 16383;
    ok(w.locks == expected && tagc_cycle_length(w.cycle) == expected * length, "a cycle of %zu calls is %s", length,
       expected ? "learned" : "too long");
    tagc_cycle_destroy(w.cycle);
  }
}

static void test_no_memory(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip("without memory there is no cycle", "a sanitizer needs its address space");
#else
  struct tagc_cycle_options options = {1, 256, 0};
  struct rlimit before, none;
  getrlimit(RLIMIT_AS, &before);
  none = before;
  none.rlim_cur = 1;
  setrlimit(RLIMIT_AS, &none);
  struct tagc_cycle *first = tagc_cycle_create(&options), *second = tagc_cycle_create(&options);
  setrlimit(RLIMIT_AS, &before);
  ok(!first && !second, "without memory there is no cycle");
  tagc_cycle_destroy(first);
  tagc_cycle_destroy(second);
#endif
  tagc_cycle_destroy(NULL);
}

int main(void) {
  test_no_memory();
  test_models();
  test_floor();
  test_beginnings();
  test_activations();
  test_types_of_passes();
  test_other_programs();
  test_false_locks();
  test_changes();
  test_bounds();
  return tap_done();
}
