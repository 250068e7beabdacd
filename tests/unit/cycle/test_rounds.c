/* SPDX-License-Identifier: BSD-3-Clause
 * Steps that differ: gradients are accumulated over varying numbers of rounds, and other forward passes come between
 * steps. The cycle is learned and followed all the same.
 */
#include "tests/unit/watch.h"

enum { LEARNING = 100, FOLLOWED = 200, RANKS = 8 };

static const struct model large = {80, 1, true, false, true, true, 1000, false, false};
static const struct model kept = {12, 1, true, false, false, true, 1000, false, false};
static const struct model unlike = {20, 20, true, true, true, true, 1000, false, false};
static const struct model normless = {12, 1, true, false, true, false, 1000, false, false};

static int turns(int step) {
  static const int rounds[] = {2, 3, 2, 4};
  return rounds[step % 4];
}

/* The last batches of an epoch are fewer; each epoch has another number of steps. */
static int epochs(int step) { return step * step % 11 == 0 ? 1 + step % 3 : 4; }

static int random_rounds(int step) { return 1 + (int)((unsigned)(step + 1) * 2654435761u >> 30); }
static int late_random_rounds(int step) { return step < LEARNING ? 2 : random_rounds(step); }
static int one(int step) { return 1 + 0 * step; }
static int two(int step) { return 2 + 0 * step; }
static int ten_in_ten(int step) { return step % 10 == 9 ? 10 : 0; }
static int now_and_then(int step) { return step % 3 == 2 ? random_rounds(step) * 3 : 0; }

enum {
  EVERY = 1,      /* each round reduces */
  ROOT_AGAIN = 2, /* the backward pass gathers the root, too (FSDP1) */
  ROOT_STAYS = 4  /* gathered behind an evaluation's first forward pass: the next ones lack it, and the step (FSDP2) */
};

static const struct {
  const char *what;
  const struct model *model;
  int (*rounds)(int step);
  int (*batches)(int step); /* of an evaluation behind the step */
  unsigned kind;            /* of the above */
} programs[] = {
  {"2, 3, 2 and 4 rounds", &gpt, turns, NULL, 0},
  {"2, 3, 2 and 4 rounds, a large model", &large, turns, NULL, ROOT_AGAIN},
  {"2, 3, 2 and 4 rounds that all reduce", &gpt, turns, NULL, EVERY},
  {"2, 3, 2 and 4 rounds that all reduce, the root gathered twice", &large, turns, NULL, EVERY | ROOT_AGAIN},
  {"2, 3, 2 and 4 rounds, parameters kept", &kept, turns, NULL, 0},
  {"2, 3, 2 and 4 rounds, no norm", &normless, turns, NULL, 0},
  {"2, 3, 2 and 4 rounds, no like blocks", &unlike, turns, NULL, 0},
  {"epochs of 4 rounds and a rest", &gpt, epochs, NULL, ROOT_AGAIN},
  {"2 rounds, later 1 to 4", &large, late_random_rounds, NULL, 0},
  {"2 rounds that all reduce, later 1 to 4", &large, late_random_rounds, NULL, EVERY | ROOT_AGAIN},
  {"1 to 4 rounds that all reduce", &kept, random_rounds, NULL, EVERY},
  {"ten batches every ten steps", &gpt, one, ten_in_ten, 0},
  {"ten batches every ten steps, the root gathered twice", &large, one, ten_in_ten, ROOT_AGAIN},
  {"ten batches every ten steps of two rounds", &large, two, ten_in_ten, 0},
  {"ten batches every ten steps of two rounds that all reduce", &large, two, ten_in_ten, EVERY | ROOT_AGAIN},
  {"some batches every third step, the root gathered twice", &large, one, now_and_then, ROOT_AGAIN},
  {"some batches every third step of 2, 3, 2 and 4 rounds", &gpt, turns, now_and_then, ROOT_AGAIN},
  {"ten batches every ten steps, the root stays gathered", &gpt, one, ten_in_ten, ROOT_STAYS},
  {"the same, a large model in two rounds", &large, two, ten_in_ten, ROOT_STAYS},
  {"the same, two rounds that all reduce", &large, two, ten_in_ten, EVERY | ROOT_STAYS},
  {"the same, 2, 3, 2 and 4 rounds", &gpt, turns, ten_in_ten, ROOT_STAYS},
};

static void tape_rounds(struct tape *tape, size_t program, int rounds) {
  const struct model *m = programs[program].model;
  for (int round = 1; round <= rounds; round++) {
    tape_forward(tape, m);
    if (programs[program].kind & ROOT_AGAIN)
      tape_allgather(tape, m, 0);
    tape_backward(tape, m, (programs[program].kind & EVERY) || round == rounds);
  }
  tape_finish(tape, m);
}

/* Plays a tape. Returns the number of gradients without the slot of their unit. */
static unsigned play_gradients(struct watch *w, struct tape *tape) {
  unsigned wrong = 0;
  for (size_t i = 0; i < tape->count; i++) {
    size_t count;
    watch_call(w, &tape->calls[i].signature);
    const struct tagc_slot_info *slots = tagc_cycle_slots(w->cycle, &count);
    wrong +=
      tape->calls[i].unit >= 0 && (w->last.slot < 0 || slots[w->last.slot].unit != (uint32_t)tape->calls[i].unit);
  }
  return wrong;
}

/* Removes gathers of the root: of an evaluation all but the first, of the step behind it the first. */
static void leave_root(struct tape *tape, bool evaluation) {
  size_t left = 0;
  unsigned roots = 0;
  for (size_t i = 0; i < tape->count; i++) {
    const bool root = tape->calls[i].gathered == 0;
    if (!root || (roots == 0) == evaluation)
      tape->calls[left++] = tape->calls[i];
    roots += root;
  }
  tape->count = left;
}

static void test_program(size_t program) {
  const struct tagc_cycle_options options = {1, 256, RANKS};
  struct watch w = {.cycle = tagc_cycle_create(&options)};
  struct tape tape = {NULL, 0, 0};
  unsigned calls = 0, in_sync = 0, wrong = 0, suspects = 0, locks = 0;
  for (int step = 0; step < LEARNING + FOLLOWED; step++) {
    const struct watch before = w;
    tape_rounds(&tape, program, programs[program].rounds(step));
    if ((programs[program].kind & ROOT_STAYS) && step && programs[program].batches(step - 1))
      leave_root(&tape, false);
    const unsigned mistaken = play_gradients(&w, &tape);
    if (step >= LEARNING) {
      calls += w.calls - before.calls;
      in_sync += w.in_sync - before.in_sync;
      wrong += mistaken;
    }
    tape_free(&tape);
    if (programs[program].batches && programs[program].batches(step))
      tape_evaluation(&tape, programs[program].model, programs[program].batches(step));
    if (programs[program].kind & ROOT_STAYS)
      leave_root(&tape, true);
    play_gradients(&w, &tape);
    tape_free(&tape);
    suspects += step >= LEARNING ? w.suspects : 0;
    locks += step >= LEARNING ? w.locks - before.locks : 0;
  }
  size_t slots;
  tagc_cycle_slots(w.cycle, &slots);
  ok(tagc_cycle_is_gradients(w.cycle) && locks == 0 && slots <= 3 * (size_t)model_units(programs[program].model),
     "%s: the lock is kept, a cycle of %zu calls with %zu slots", programs[program].what, tagc_cycle_length(w.cycle),
     slots);
  ok(10 * in_sync >= 9 * calls, "%s: of %u calls of training steps %u are on the track", programs[program].what, calls,
     in_sync);
  ok(wrong == 0 && suspects == 0, "%s: %u gradients lack the slot of their unit, %u slots are suspect",
     programs[program].what, wrong, suspects);
  tagc_cycle_destroy(w.cycle);
}

int main(void) {
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    test_program(i);
  return tap_done();
}
