/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/policy/changes: made-up contents from one step to the next, and what follows from their changes.
 */
#include "interpose/policy/changes.h"

#include <math.h>
#include <stdlib.h>

#include "tests/unit/tap.h"

enum { N = TAGC_CHANGE_BYTES / 4 };

static float before[N], after[N];

static float uniform(void) { return (float)rand() / (float)RAND_MAX * 2 - 1; }

static float normal(void) { return uniform() + uniform() + uniform(); }

static enum tagc_change change(void) { return tagc_change_between(before, after, N, TAGC_FLOAT32); }

/* after = keep * before + add * a normal number; if `positive`, magnitudes. */
static enum tagc_change move(float keep, float add, bool positive) {
  for (size_t i = 0; i < N; i++) {
    const float x = normal(), y = keep * x + add * normal();
    before[i] = positive ? fabsf(x) : x;
    after[i] = positive ? fabsf(y) : y;
  }
  return change();
}

/* Adam moves each weight by the same amount. */
static enum tagc_change step(float size) {
  for (size_t i = 0; i < N; i++) {
    before[i] = normal();
    after[i] = before[i] + (rand() % 2 ? size : -size);
  }
  return change();
}

static void contents(void) {
  ok(step(1e-4f) == TAGC_CHANGE_LITTLE && step(0.01f) == TAGC_CHANGE_LITTLE && step(0.05f) == TAGC_CHANGE_LITTLE,
     "parameters change a little, also at a high learning rate");
  ok(step(0.15f) == TAGC_CHANGE_MUCH, "not wholly even where no training would go well");
  ok(step(0) == TAGC_CHANGE_NONE, "or not at all");
  ok(move(0, 1, false) == TAGC_CHANGE_WHOLLY && move(0.8f, 0.6f, false) == TAGC_CHANGE_WHOLLY,
     "activations change wholly, also if those of one token are like those of the next");
  ok(move(0, 1, true) == TAGC_CHANGE_WHOLLY, "so do positive ones");
  ok(move(0.9f, 0.436f, false) == TAGC_CHANGE_WHOLLY, "and momentum that decays by 0.9");
  ok(move(0.99f, 0.02f, false) == TAGC_CHANGE_LITTLE, "what repeats but for a little, does not");
}

static void odd_contents(void) {
  for (size_t i = 0; i < N; i++)
    before[i] = after[i] = 0;
  ok(change() == TAGC_CHANGE_UNKNOWN, "zeros tell nothing");
  for (size_t i = 0; i < 15; i++)
    after[i] = 1;
  ok(change() == TAGC_CHANGE_UNKNOWN, "nor do a few values");
  after[15] = 1;
  ok(change() == TAGC_CHANGE_WHOLLY, "sixteen do");
  step(0.01f);
  for (size_t i = 0; i < N; i += 2)
    after[i] = i % 4 ? INFINITY : NAN;
  ok(change() == TAGC_CHANGE_LITTLE, "NaN and Inf are left out");
}

static void rows(void) {
  const struct tagc_change_rows all = tagc_change_rows(1000, 4), least = tagc_change_rows(TAGC_CHANGE_BYTES + 2, 2),
                                large = tagc_change_rows((size_t)1 << 33, 4);
  ok(all.rows == 1 && all.width == 1000, "a short buffer is sampled whole");
  ok(least.rows == TAGC_CHANGE_ROWS && least.pitch == TAGC_CHANGE_WIDTH, "one that is a little longer in rows");
  ok(large.pitch == (size_t)1 << 27 && large.width * large.rows == TAGC_CHANGE_BYTES, "so is one of 8 GiB");
}

/* The verdict on all-gathers of two changes and a reduce-scatter. Each range is that of all ranks. */
static enum tagc_proof judge(struct tagc_change_range one, struct tagc_change_range other, enum tagc_change reduced) {
  struct tagc_change_tally tally = {0};
  tagc_change_add_allgather(&tally, &one);
  tagc_change_add_allgather(&tally, &other);
  tagc_change_add_reduce_scatter(&tally, &(struct tagc_change_range){reduced, reduced});
  return tagc_change_judge(&tally);
}

static void verdicts(void) {
  const struct tagc_change_range whole = {TAGC_CHANGE_WHOLLY, TAGC_CHANGE_WHOLLY},
                                 little = {TAGC_CHANGE_LITTLE, TAGC_CHANGE_LITTLE},
                                 none = {TAGC_CHANGE_NONE, TAGC_CHANGE_NONE},
                                 unknown = {TAGC_CHANGE_UNKNOWN, TAGC_CHANGE_UNKNOWN},
                                 mixed = {TAGC_CHANGE_WHOLLY, TAGC_CHANGE_LITTLE};
  ok(judge(little, little, TAGC_CHANGE_WHOLLY) == TAGC_PROOF_PARAMETERS, "parameters, and their gradients");
  ok(judge(little, none, TAGC_CHANGE_WHOLLY) == TAGC_PROOF_PARAMETERS, "some are frozen");
  ok(judge(little, unknown, TAGC_CHANGE_WHOLLY) == TAGC_PROOF_PARAMETERS, "some were not sampled");
  ok(judge(whole, whole, TAGC_CHANGE_WHOLLY) == TAGC_PROOF_OTHER, "activations");
  ok(judge(whole, unknown, TAGC_CHANGE_UNKNOWN) == TAGC_PROOF_OTHER, "also if only they were sampled");
  ok(judge(none, none, TAGC_CHANGE_WHOLLY) == TAGC_PROOF_NONE, "weights that never change prove nothing");
  ok(judge(little, little, TAGC_CHANGE_LITTLE) == TAGC_PROOF_NONE, "nor does one batch that repeats");
  ok(judge(little, little, TAGC_CHANGE_UNKNOWN) == TAGC_PROOF_NONE, "nor do gradients of zeros");
  ok(judge(little, whole, TAGC_CHANGE_WHOLLY) == TAGC_PROOF_NONE, "nor do momentum and parameters together");
  ok(judge(mixed, mixed, TAGC_CHANGE_WHOLLY) == TAGC_PROOF_NONE, "nor do ranks that see different things");
  ok(judge(unknown, unknown, TAGC_CHANGE_WHOLLY) == TAGC_PROOF_NONE, "nor does nothing");
  struct tagc_change_tally still = {.gathered = 2, .little = 2, .reduced = 1, .reduced_wholly = 1};
  ok(tagc_change_is_missing(&still), "parameters that stand still may move later");
  still.moved = 1;
  ok(!tagc_change_is_missing(&still), "others need not");
}

/* Values of weights, each of which so many ranks have moved by so much, at random, ... */
static struct tagc_likeness of_ranks(int nranks, float keep, float move, size_t n) {
  struct tagc_likeness likeness = {0};
  for (size_t i = 0; i < n; i++) {
    const float x = normal();
    float least = INFINITY, largest = -INFINITY;
    for (int r = 0; r < nranks; r++) {
      const float own = keep * x + move * normal();
      least = fminf(least, own);
      largest = fmaxf(largest, own);
    }
    tagc_likeness_add(&likeness, least, largest);
  }
  return likeness;
}

/* ... and whether these are found. */
static bool are_found(int nranks, float keep, float move) {
  const struct tagc_likeness likeness = of_ranks(nranks, keep, move, N);
  return tagc_likeness_is_of_parameters(&likeness);
}

static void ranks(void) {
  ok(are_found(2, 1, 1e-5f) && are_found(2, 1, 0.02f) && are_found(8, 1, 0.008f),
     "ranks have nearly the same parameters");
  ok(!are_found(2, 0, 1) && !are_found(2, 1, 0.5f) && !are_found(8, 1, 0.2f), "and gradients of their own");
  ok(!are_found(2, 1, 0.1f), "also where those of all batches are much alike");
  ok(!are_found(2, 1, 0), "what is equal may be gradients of one batch");
  struct tagc_likeness likeness = of_ranks(2, 1, 0.01f, 63);
  ok(!tagc_likeness_is_known(&likeness) && !tagc_likeness_is_of_parameters(&likeness), "a few values tell nothing");
  tagc_likeness_add(&likeness, 0, 0);
  tagc_likeness_add(&likeness, -INFINITY, INFINITY);
  tagc_likeness_add(&likeness, 1, INFINITY);
  ok(likeness.values == 63, "nor do zeros, and values that some rank does not know");
}

static void picks(void) {
  float values[TAGC_CHANGE_VALUES];
  for (size_t i = 0; i < N; i++)
    before[i] = (float)i;
  tagc_change_pick(before, N, TAGC_FLOAT32, values);
  bool spread = true;
  for (size_t k = 0; k < TAGC_CHANGE_VALUES; k++)
    spread &= values[k] == (float)(k * (N / TAGC_CHANGE_VALUES) + k % (N / TAGC_CHANGE_VALUES));
  ok(spread, "values are spread, and not in one column");
  tagc_change_pick(NULL, 0, TAGC_FLOAT32, values);
  ok(isnan(values[0]) && isnan(values[TAGC_CHANGE_VALUES - 1]), "without a sample none is known");
}

int main(void) {
  srand(1);
  contents();
  odd_contents();
  rows();
  verdicts();
  ranks();
  picks();
  return tap_done();
}
