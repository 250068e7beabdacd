/* SPDX-License-Identifier: BSD-3-Clause
 * Plain against compressed: the outcome, its interval and its words, for synthetic runs. The test counts wrong
 * outcomes: the random numbers are the same in every run of this program.
 */
#include "interpose/tagc-report/judge/ab_compare.h"

#include <string.h>

#include "interpose/tagc-report/read/format.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/runs.h"

static bool near(double a, double b, double by) { return fabs(a - b) <= by; }

/* Milliseconds of all steps: base, `effect` times as long on the compressed side, and noise. */
static void fill(struct tagc_summary *run, double base, double effect, double noise) {
  for (size_t i = 0; i < run->ranks[0].step_count; i++) {
    const double side = run->ranks[0].steps[i].side == TAGC_SUM_COMPRESSED ? effect : 1,
                 ms = base * side * (1 + noise * run_normal());
    for (size_t r = 0; r < run->rank_count; r++)
      run->ranks[r].steps[i].ns = (uint64_t)(1e6 * fmax(0.01 * base, ms));
  }
}

static struct tagc_ab_result sides_of(const struct tagc_summary *run) {
  struct tagc_ab_result ab;
  tagc_ab_compare(run, &ab);
  return ab;
}

static void test_student(void) {
  static const struct {
    size_t degrees;
    double t;
  } known[] = {/* from printed tables */
               {1, 12.7062}, {2, 4.3027},  {3, 3.1824},  {4, 2.7764},   {5, 2.5706},    {9, 2.2622},
               {10, 2.2281}, {19, 2.0930}, {30, 2.0423}, {100, 1.9840}, {1000, 1.9623}, {1000000, 1.9600}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    ok(near(tagc_student(known[i].degrees), known[i].t, 6e-5), "t(0.975, %zu) = %.4f: %.6f", known[i].degrees,
       known[i].t, tagc_student(known[i].degrees));
}

static void test_outcomes(void) {
  struct tagc_summary *run = run_make(2, 400);
  struct tagc_ab_result s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_NONE && s.figures.pairs == 0 && strstr(s.words, "TAGC_MODE=ab"),
     "without sides there is no outcome");
  run_take_sides(run, 20);
  fill(run, 100, 0.8, 0.02);
  s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_FASTER && s.figures.pairs == 9, "faster, 9 pairs: %s", s.words);
  ok(near(s.figures.speed, 1.25, 0.02) && s.figures.low_speed < s.figures.speed &&
       s.figures.speed < s.figures.high_speed && near(s.figures.difference_ms, -20, 1),
     "by a quarter");
  ok(near(s.figures.deviation_ms[TAGC_SUM_PLAIN], 2, 0.4) && s.figures.steps[TAGC_SUM_PLAIN] == 190,
     "steps spread by 2%%, and first ones do not count");
  ok(s.sent[TAGC_SUM_PLAIN].between == 4000000 && s.sent[TAGC_SUM_COMPRESSED].between == 1000000,
     "bytes of either side");
  fill(run, 100, 1.1, 0.02);
  s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_SLOWER && strstr(s.words, "TAGC_MODE=off"), "slower: %s", s.words);
  fill(run, 100, 1, 0.02);
  s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_EQUAL && strstr(s.words, "does not wait for the network"), "equal, and surely so: %s",
     s.words);
  fill(run, 100, 1, 0.5);
  s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_EQUAL && strstr(s.words, "too few"), "equal, as far as can be seen: %s", s.words);
  fill(run, 100, 1, 0);
  s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_EQUAL && s.figures.difference_ms == 0, "no noise, no difference");
  fill(run, 100, 0.5, 0);
  s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_FASTER && near(s.figures.speed, 2, 1e-9) && near(s.figures.low_speed, 2, 1e-9),
     "no noise, twice as fast");
  fill(run, 100, 0.995, 0);
  s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_FASTER && strstr(s.words, "too little to matter") && !tagc_ab_matters(&s),
     "half a per cent: %s", s.words);
  fill(run, 100, 1.003, 0);
  s = sides_of(run);
  ok(s.figures.outcome == TAGC_AB_SLOWER && strstr(s.words, "0.997 times as fast") &&
       strstr(s.words, "too little to matter") && !tagc_ab_matters(&s),
     "and in the other direction: %s", s.words);
  run_free(run);
}

/* The report gives the cause of a slowdown if times of calls show it. */
static void test_cause(void) {
  static const struct {
    uint64_t encode_ns, packed_calls, packed_ns;
    bool cause;
  } times[] = {{0, 0, 0, false}, {90000000, 10, 20000000, true}, {70000000, 10, 20000000, false}};
  struct tagc_summary *run = run_make(2, 400);
  struct tagc_sum_slot slot = {.lock = 1};
  struct tagc_sum_comm comm = {.slots = &slot, .slot_count = 1};
  run->comms = &comm;
  run->comm_count = 1;
  run_take_sides(run, 20);
  fill(run, 100, 1.1, 0.02);
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) { /* plain calls: 10 ms each */
    slot.calls = (struct tagc_sum_calls){.wire_calls = times[i].packed_calls + 20,
                                         .wire_ns = times[i].packed_ns + 200000000,
                                         .encode_ns = times[i].encode_ns,
                                         .packed_wire_calls = times[i].packed_calls,
                                         .packed_wire_ns = times[i].packed_ns};
    const struct tagc_ab_result s = sides_of(run);
    ok(tagc_ab_matters(&s) && (strstr(s.words, "encoding and decoding take longer") != NULL) == times[i].cause,
       "encoding %.0f ms, saved %.0f: %s", s.coding_ms, s.saved_ms, s.words);
  }
  run_free(run);
}

static void test_few(void) {
  static const struct {
    size_t steps, pairs;
    enum tagc_ab_outcome outcome;
  } runs[] = {{20, 0, TAGC_AB_NONE},     {40, 0, TAGC_AB_TOO_FEW},  {60, 1, TAGC_AB_TOO_FEW},
              {100, 2, TAGC_AB_TOO_FEW}, {123, 2, TAGC_AB_TOO_FEW}, {140, 3, TAGC_AB_FASTER}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    struct tagc_summary *run = run_make(1, runs[i].steps);
    run_take_sides(run, 20);
    fill(run, 100, 0.5, 0.001);
    const struct tagc_ab_result s = sides_of(run);
    ok(s.figures.outcome == runs[i].outcome && s.figures.pairs == runs[i].pairs,
       "%zu steps in windows of 20: %zu pairs", runs[i].steps, s.figures.pairs);
    if (runs[i].steps == 123)
      ok(strstr(s.words, "2 pairs") != NULL, "%s", s.words);
    run_free(run);
  }
  struct tagc_summary none = {0}, *run = run_make(1, 50);
  ok(sides_of(&none).figures.outcome == TAGC_AB_NONE, "no ranks");
  run_take_sides(run, 1);
  ok(sides_of(run).figures.outcome == TAGC_AB_TOO_FEW, "windows of one step have none that counts");
  run_free(run);
}

/* Effects beside noise. */
static void drift(struct tagc_summary *run, double by) {
  const size_t n = run->ranks[0].step_count;
  for (size_t i = 0; i < n; i++)
    run->ranks[0].steps[i].ns = (uint64_t)((double)run->ranks[0].steps[i].ns * (1 + by * (double)i / (double)n));
}

static void test_drift(void) {
  struct tagc_summary *run = run_make(1, 400);
  run_take_sides(run, 20);
  static const double drifts[] = {0.5, -0.4, 5};
  for (size_t i = 0; i < 3; i++) {
    fill(run, 100, 1, 0);
    drift(run, drifts[i]);
    ok(sides_of(run).figures.outcome == TAGC_AB_EQUAL, "a drift of %g over the run is no difference", drifts[i]);
  }
  fill(run, 100, 0.95, 0.02);
  drift(run, 0.5);
  ok(sides_of(run).figures.outcome == TAGC_AB_FASTER, "and hides none");
  run_free(run);
}

static void test_outliers(void) {
  struct tagc_summary *run = run_make(1, 400);
  run_take_sides(run, 20);
  fill(run, 100, 0.9, 0.05);
  run->ranks[0].steps[110].ns = 30000000000; /* a checkpoint */
  ok(sides_of(run).figures.outcome == TAGC_AB_FASTER, "one step of 30 s hides no difference");
  for (size_t i = 50; i < 400; i += 40) /* always in a compressed window, or always in a plain one */
    run->ranks[0].steps[i].ns = 30000000000;
  ok(sides_of(run).figures.outcome == TAGC_AB_FASTER && near(sides_of(run).figures.mean_ms[TAGC_SUM_PLAIN], 100, 5),
     "nor do checkpoints on one side");
  fill(run, 100, 1, 0.05);
  for (size_t i = 25; i < 400; i += 40)
    run->ranks[0].steps[i].ns = 30000000000;
  ok(sides_of(run).figures.outcome == TAGC_AB_EQUAL, "nor make one");
  run_free(run);
}

static void test_missing(void) {
  struct tagc_summary *run = run_make(2, 400);
  run_take_sides(run, 20);
  fill(run, 100, 0.8, 0.02);
  run->ranks[1].step_count = 0;
  ok(sides_of(run).figures.outcome == TAGC_AB_FASTER && sides_of(run).figures.pairs == 9,
     "a rank without steps takes nothing away");
  struct tagc_sum_step *steps = run->ranks[0].steps;
  memmove(&steps[33], &steps[36], (400 - 36) * sizeof *steps);
  run->ranks[0].step_count = 397;
  ok(sides_of(run).figures.pairs == 9, "three steps that are missing leave a window whole");
  memmove(&steps[60], &steps[97], (397 - 97) * sizeof *steps);
  run->ranks[0].step_count = 360;
  ok(sides_of(run).figures.pairs == 7, "pairs over a long gap do not count: %zu", sides_of(run).figures.pairs);
  run_free(run);

  run = run_make(2, 400);
  run_take_sides(run, 20);
  fill(run, 100, 0.8, 0.02);
  for (size_t i = 0; i < 400; i++)
    run->ranks[1].steps[i].ns = 0; /* would be twice as fast, if they counted */
  for (size_t i = 120; i < 140; i++)
    run->ranks[1].steps[i].whole = false;
  ok(sides_of(run).figures.pairs == 8 || sides_of(run).figures.pairs == 7,
     "a window that was disturbed on one rank does not count: %zu pairs", sides_of(run).figures.pairs);
  ok(near(sides_of(run).figures.mean_ms[TAGC_SUM_PLAIN], 50, 2), "the time of a step is the mean over the ranks");
  for (size_t i = 200; i < 400; i++)
    run->ranks[0].steps[i].lock = run->ranks[1].steps[i].lock = 2,
    run->ranks[0].steps[i].cycle = run->ranks[1].steps[i].cycle = i - 199;
  const size_t before = sides_of(run).figures.pairs;
  ok(before == 6 && sides_of(run).figures.outcome == TAGC_AB_FASTER,
     "a lock that was lost ends a pair, and no more: %zu", before);
  run_free(run);
}

/* One window is a third as long, and slow. */
static void test_unequal(void) {
  struct tagc_summary *run = run_make(1, 400);
  run_take_sides(run, 20);
  fill(run, 100, 0.9, 0.02);
  for (size_t i = 386; i < 400; i++)
    run->ranks[0].steps[i].ns *= 3;
  run->ranks[0].step_count = 386;
  ok(sides_of(run).figures.pairs == 9 && sides_of(run).figures.outcome == TAGC_AB_FASTER, "the last window was cut");
  run->ranks[0].step_count = 366;
  ok(sides_of(run).figures.pairs == 8, "a plain window of 6 steps is no neighbour: %zu", sides_of(run).figures.pairs);
  run_free(run);
}

/* The number of runs, out of `runs`, with the outcome. Each has `windows` windows of 20 steps, noise per step and per
 * window, and `memory` of the previous window's noise. */
static unsigned count(enum tagc_ab_outcome outcome, unsigned runs, size_t windows, double effect, double step,
                      double window, double memory) {
  struct tagc_summary *run = run_make(1, 20 * windows);
  unsigned found = 0;
  run_take_sides(run, 20);
  for (unsigned k = 0; k < runs; k++) {
    double state = run_normal();
    fill(run, 100, effect, step);
    for (size_t i = 0; i < run->ranks[0].step_count; i++) {
      if (i % 20 == 0)
        state = memory * state + sqrt(1 - memory * memory) * run_normal();
      run->ranks[0].steps[i].ns = (uint64_t)((double)run->ranks[0].steps[i].ns * (1 + window * state));
    }
    found += sides_of(run).figures.outcome == outcome;
  }
  run_free(run);
  return found;
}

static void test_errors(void) {
  static const struct {
    size_t windows;
    double step, window, memory;
    const char *what;
  } kinds[] = {{20, 0.10, 0, 0, "20 windows, noise of steps"}, {8, 0.10, 0, 0, "8 windows: 3 pairs"},
               {9, 0.1, 0, 0, "9 windows: 4 pairs"},           {60, 0.10, 0, 0, "60 windows"},
               {20, 0.05, 0.05, 0, "noise of windows"},        {20, 0.05, 0.05, 0.9, "which resemble those before"}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const unsigned runs = i ? 2000 : 10000;
    run_state = 1 + i;
    const unsigned faster =
      count(TAGC_AB_FASTER, runs, kinds[i].windows, 1, kinds[i].step, kinds[i].window, kinds[i].memory);
    run_state = 1 + i;
    const unsigned slower =
      count(TAGC_AB_SLOWER, runs, kinds[i].windows, 1, kinds[i].step, kinds[i].window, kinds[i].memory);
    const double wrong = 100.0 * (faster + slower) / runs;
    ok(wrong < (i ? 6.5 : 5.6), "no effect, %s: an outcome in %.1f%% of %u runs (%u, %u)", kinds[i].what, wrong, runs,
       faster, slower);
  }
  run_state = 7;
  const unsigned found = count(TAGC_AB_FASTER, 1000, 20, 0.95, 0.10, 0, 0);
  ok(found > 960, "5%% faster, noise of 10%% a step, 20 windows of 20: found in %u of 1000 runs", found);
}

static void test_print(void) {
  char text[4096] = "";
  FILE *to = fmemopen(text, sizeof text, "w");
  struct tagc_summary *run = run_make(1, 400);
  tagc_ab_print(to, &(struct tagc_ab_result){.figures.outcome = TAGC_AB_NONE});
  ok(fflush(to) == 0 && text[0] == '\0', "nothing is printed without sides");
  run_take_sides(run, 20);
  fill(run, 100, 1.1, 0.02);
  const struct tagc_ab_result s = sides_of(run);
  tagc_ab_print(to, &s);
  fclose(to);
  const size_t longest = note_lines(text);
  ok(longest <= 120 && strstr(text, "difference"), "lines of at most 120 columns: %zu", longest);
  ok(strcmp(tagc_ab_outcome_name(s.figures.outcome), "slower") == 0, "its word");
  run_free(run);
}

/* A window of two steps counts one of them: the spread of such steps is unknown. */
static void test_unknown(void) {
  static const struct {
    size_t window;
    uint64_t ns;
    const char *words;
  } runs[] = {{2, 100000000, "(+- -)"}, {40, 100000000, "(+- -)"}, {20, 0, "- ms"}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    char text[4096] = "";
    FILE *to = fmemopen(text, sizeof text, "w");
    struct tagc_summary *run = run_make(1, i == 1 ? 42 : 400);
    run_take_sides(run, runs[i].window);
    for (size_t k = 0; k < run->ranks[0].step_count; k++)
      run->ranks[0].steps[k].ns = runs[i].ns;
    const struct tagc_ab_result s = sides_of(run);
    tagc_ab_print(to, &s);
    fclose(to);
    ok(strstr(text, runs[i].words) && !strstr(text, "nan") && !strstr(text, "inf"),
       "windows of %zu steps of %.0f ms: %s", runs[i].window, (double)runs[i].ns / 1e6, s.words);
    run_free(run);
  }
}

int main(void) {
  test_student();
  test_outcomes();
  test_cause();
  test_few();
  test_drift();
  test_outliers();
  test_missing();
  test_unequal();
  test_errors();
  test_print();
  test_unknown();
  return tap_done();
}
