/* SPDX-License-Identifier: BSD-3-Clause
 * The parts of a step's time in synthetic runs: exposed and hidden communication, slowest rank, stragglers, long steps.
 */
#include "interpose/ab/windows.h"
#include "interpose/tagc-report/judge/stragglers.h"

#include <string.h>

#include "interpose/tagc-report/judge/steps.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/runs.h"

enum { STEPS = 100 };

static bool near(double a, double b) { return fabs(a - b) <= 1e-6 * (1 + fabs(b)); }

/* Steps of 100 ms: 70 of work, 30 in calls, which are in progress for 40. */
static struct tagc_summary *make(size_t ranks, bool blocking) {
  struct tagc_summary *run = run_make(ranks, STEPS);
  for (size_t r = 0; r < ranks; r++) {
    run->ranks[r].blocking = blocking;
    for (size_t i = 0; i < STEPS; i++) {
      run->ranks[r].steps[i].host_ns = blocking ? 30000000 : 1000000;
      run->ranks[r].steps[i].wire_ns = 40000000;
    }
  }
  return run;
}

/* The rank works `ms` longer in a step, and waits less; the others wait for it. */
static void be_late(struct tagc_summary *run, size_t rank, size_t step, uint64_t ms) {
  for (size_t r = 0; r < run->rank_count; r++) {
    struct tagc_sum_step *s = &run->ranks[r].steps[step];
    s->ns += ms * 1000000;
    if (r != rank) {
      s->host_ns += run->ranks[r].blocking ? ms * 1000000 : 0;
      s->wire_ns += ms * 1000000;
    }
  }
}

static struct tagc_stragglers pace_of(const struct tagc_summary *run) {
  struct tagc_stragglers stragglers;
  if (!tagc_stragglers_find(run, &stragglers))
    abort();
  return stragglers;
}

/* Calls on a GPU of which half of the bytes have no known time: nothing is known but the least that it can be. */
static void test_untimed(void) {
  struct tagc_summary *run = make(3, false);
  for (size_t r = 0; r < 3; r++)
    for (size_t i = 0; i < STEPS; i++) {
      run->ranks[r].steps[i].raw_bytes = 1000;
      run->ranks[r].steps[i].untimed_bytes = 50;
    }
  for (size_t i = 0; i < STEPS; i++)
    be_late(run, 1, i, 10);
  struct tagc_stragglers p = pace_of(run);
  ok(!p.wire_least && p.slowest == 1 && strstr(p.words, "under way for 4") && strstr(p.words, "wait for rank 1"),
     "a few bytes without times: %s", p.words);
  tagc_stragglers_free(&p);
  for (size_t r = 0; r < 3; r++)
    for (size_t i = 0; i < STEPS; i++)
      run->ranks[r].steps[i].untimed_bytes = 500;
  p = pace_of(run);
  ok(p.wire_least && p.slowest == SIZE_MAX && isnan(p.ranks[0].exposed_ms) && isnan(p.ranks[0].outside_ms) &&
       near(p.ranks[1].wire_ms, 40) && !p.behind_count && strstr(p.words, "for at least 4") &&
       strstr(p.words, "with 50% of the bytes") && !strstr(p.words, "rank"),
     "many bytes without times: %s", p.words);
  tagc_stragglers_free(&p);
  for (size_t i = 0; i < 3; i++)
    run->ranks[i].blocking = true;
  p = pace_of(run);
  ok(!p.wire_least && p.exposed_known, "calls that return when done need none");
  tagc_stragglers_free(&p);
  run_free(run);
}

/* NCCL's profiler saw the kernels: of all steps, of all but one, and of one rank alone. */
static void test_kernels(void) {
  struct tagc_summary *run = make(2, false);
  for (size_t r = 0; r < 2; r++)
    for (size_t i = 0; i < STEPS; i++) {
      struct tagc_sum_step *s = &run->ranks[r].steps[i];
      s->kernels_due = s->kernels = 3;
      s->profiled = true;
      s->network = (struct tagc_sum_network){.bytes = 5000, .sending_ns = 12000000};
    }
  struct tagc_stragglers p = pace_of(run);
  ok(p.wire_exact && p.ranks[1].wire_exact && near(p.ranks[1].wire_ms, 40) && near(p.ranks[1].outside_ms, 60) &&
       near(p.ranks[1].network_ms, 12) && near(p.ranks[1].network_bytes, 5000),
     "kernels that are all known");
  ok(!p.exposed_known && near(p.ranks[1].exposed_ms, 40) && strstr(p.words, "for 40% of a step, exactly") &&
       strstr(p.words, "sends for 12%"),
     "%s", p.words);
  tagc_stragglers_free(&p);
  run->ranks[1].steps[7].kernels = 2;
  p = pace_of(run);
  ok(!p.wire_exact && p.ranks[0].wire_exact && !p.ranks[1].wire_exact && strstr(p.words, "under way for 40%"),
     "one that is not known: %s", p.words);
  tagc_stragglers_free(&p);
  for (size_t i = 0; i < STEPS; i++) {
    run->ranks[1].steps[i].kernels = 3;
    run->ranks[1].steps[i].wire_ns = 99000000;
  }
  p = pace_of(run);
  ok(p.wire_exact && near(p.ranks[1].outside_ms, 1), "kernels that fill a step leave a time outside that is known");
  tagc_stragglers_free(&p);
  for (size_t i = 0; i < STEPS; i++) {
    run->ranks[0].steps[i].wire_ns = 25000000;
    run->ranks[0].steps[i].host_ns = 30000000;
  }
  run->ranks[0].blocking = true;
  p = pace_of(run);
  ok(near(p.ranks[0].wire_ms, 25) && near(p.ranks[0].exposed_ms, 30) && near(p.ranks[0].hidden_ms, 0),
     "on host memory, kernels shorter than their calls hide nothing");
  tagc_stragglers_free(&p);
  run_free(run);
}

static void test_exposed(void) {
  struct tagc_summary *run = make(4, true);
  struct tagc_stragglers p = pace_of(run);
  ok(p.exposed_known && near(p.ranks[2].exposed_ms, 30) && near(p.ranks[2].hidden_ms, 10) &&
       near(p.ranks[2].outside_ms, 70) && near(p.ranks[2].step_ms, 100) && p.ranks[2].steps == STEPS,
     "calls that return when they are done");
  ok(p.slowest == SIZE_MAX && p.behind_count == 0 && strstr(p.words, "30% of a step") && strstr(p.words, "No rank"),
     "%s", p.words);
  tagc_stragglers_free(&p);
  for (size_t r = 0; r < 4; r++)
    for (size_t i = 0; i < STEPS; i++)
      run->ranks[r].steps[i].host_ns += 90000000;
  p = pace_of(run);
  ok(near(p.ranks[2].exposed_ms, 100) && strstr(p.words, "100% of a step is"), "calls of two threads at once: %s",
     p.words);
  tagc_stragglers_free(&p);
  for (size_t i = 0; i < STEPS; i++)
    run->ranks[1].steps[i].host_ns = 30000000;
  run->ranks[1].blocking = false;
  p = pace_of(run);
  ok(!p.exposed_known && near(p.ranks[1].exposed_ms, 40) && isnan(p.ranks[1].hidden_ms) &&
       near(p.ranks[1].outside_ms, 60),
     "calls that enqueue: at most what is under way");
  tagc_stragglers_free(&p);
  run_free(run);
  run = make(2, false);
  run->ranks[0].steps[3].wire_ns = run->ranks[1].steps[3].wire_ns = 150000000;
  p = pace_of(run);
  ok(strstr(p.words, "under way for 41% of a step") != NULL, "%s", p.words);
  tagc_stragglers_free(&p);
  for (size_t i = 0; i < STEPS; i++)
    run->ranks[0].steps[i].wire_ns = run->ranks[1].steps[i].wire_ns = 0;
  p = pace_of(run);
  ok(isnan(p.ranks[0].exposed_ms) && isnan(p.ranks[0].outside_ms) && isnan(p.ranks[0].wire_ms) &&
       p.slowest == SIZE_MAX && strstr(p.words, "not known"),
     "%s", p.words);
  ok(isnan(p.ranks[0].slowest_share), "nor who is the last one");
  tagc_stragglers_free(&p);
  for (size_t i = 0; i < STEPS; i++)
    run->ranks[0].steps[i].wire_ns = run->ranks[1].steps[i].wire_ns = 120000000;
  p = pace_of(run);
  ok(p.slowest == SIZE_MAX && isnan(p.ranks[1].outside_ms) && !strstr(p.words, "No rank"),
     "calls that are under way all the time do not tell who waits: %s", p.words);
  tagc_stragglers_free(&p);
  run_free(run);
}

/* One rank is late in 8 steps, and another one is the last in 20. */
static void test_hiccups(void) {
  struct tagc_summary *run = make(4, true);
  for (size_t i = 0; i < STEPS; i++)
    if (i % 12 == 0 || i % 5 == 2)
      be_late(run, i % 12 == 0 ? 0 : 2, i, i % 12 == 0 ? 35 : 4);
  struct tagc_stragglers p = pace_of(run);
  ok(p.ranks[0].slowest_share > 0 && p.ranks[2].slowest_share > p.ranks[0].slowest_share && p.behind_ms > 2 &&
       p.slowest == SIZE_MAX,
     "the last one in %.0f%% of the steps is not the one that others wait for: another one is in %.0f%%",
     100 * p.ranks[0].slowest_share, 100 * p.ranks[2].slowest_share);
  tagc_stragglers_free(&p);
  run_free(run);
}

static void test_slowest(bool blocking) {
  struct tagc_summary *run = make(4, blocking);
  for (size_t i = 0; i < STEPS; i++)
    be_late(run, i < 80 ? 2 : i % 4, i, 10);
  struct tagc_stragglers p = pace_of(run);
  ok(p.slowest == 2 && near(p.behind_ms, 8.5 - 0.5) && near(p.ranks[2].slowest_share, 0.85),
     "rank 2 is behind by %.2f ms, in %.2f of the steps", p.behind_ms, p.ranks[2].slowest_share);
  ok(strstr(p.words, "wait for rank 2") != NULL, "%s", p.words);
  ok(p.behind_count == 0, "nobody is far behind");
  tagc_stragglers_free(&p);
  run_free(run);
  run = make(4, blocking);
  for (size_t i = 0; i < STEPS; i++)
    be_late(run, 1, i, 1);
  p = pace_of(run);
  ok(p.slowest == SIZE_MAX, "1%% of a step is nothing: %.2f ms", p.behind_ms);
  tagc_stragglers_free(&p);
  run_free(run);
}

/* The trace of one rank begins where that of the other one ends; and a clock that stands still. */
static void test_odd_steps(void) {
  struct tagc_summary *run = make(2, true);
  for (size_t i = 0; i < STEPS; i++) {
    be_late(run, 1, i, 10);
    run->ranks[1].steps[i].cycle += STEPS;
  }
  struct tagc_stragglers p = pace_of(run);
  ok(p.slowest == 1 && isnan(p.ranks[1].slowest_share) && strstr(p.words, "wait for rank 1: ") &&
       !strstr(p.words, "nan") && !strstr(p.words, "last one"),
     "without a step of all ranks no share of steps is told: %s", p.words);
  tagc_stragglers_free(&p);
  for (size_t r = 0; r < 2; r++)
    for (size_t i = 0; i < STEPS; i++)
      run->ranks[r].steps[i].ns = 0;
  p = pace_of(run);
  ok(strstr(p.words, "the steps took no time") && !strstr(p.words, "inf") && !strstr(p.words, "nan"),
     "steps without a length: %s", p.words);
  tagc_stragglers_free(&p);
  run_free(run);
}

static void test_stragglers(void) {
  struct tagc_summary *run = make(4, true);
  static const struct {
    size_t step, rank;
    uint64_t ms;
  } late[] = {{10, 3, 50}, {20, 1, 90}, {30, 0, 30}, {40, 3, 400}, {50, 2, 25}, {60, 1, 60}, {70, 1, 15}};
  for (size_t i = 0; i < sizeof late / sizeof *late; i++)
    be_late(run, late[i].rank, late[i].step, late[i].ms);
  struct tagc_stragglers p = pace_of(run);
  static const size_t order[] = {3, 1, 5, 0, 2};
  bool right = p.behind_count == 6;
  for (size_t i = 0; i < TAGC_STRAGGLERS_WORST; i++)
    right = right && p.behind[i].rank == late[order[i]].rank && p.behind[i].cycle == late[order[i]].step + 1 &&
            near(p.behind[i].ms, (double)late[order[i]].ms);
  ok(right, "six steps with a straggler, the worst first: %zu", p.behind_count);
  ok(p.steps == STEPS && near(p.median_ms, 100) && p.p95_ms > 100 && p.longest_count == 5 && p.longest[0].cycle == 41 &&
       near(p.longest[0].ms, 500) && p.longest[1].cycle == 21 && p.longest[0].rank == SIZE_MAX,
     "and the longest: %.2f", p.longest[0].ms);
  tagc_stragglers_free(&p);
  run->ranks[2].steps[40].whole = false;
  p = pace_of(run);
  ok(p.behind_count == 5 && p.behind[0].cycle == 21 && p.longest[0].cycle == 41 && !p.longest[0].whole &&
       p.longest[1].whole && p.ranks[2].steps == STEPS - 1,
     "a step that was disturbed has no straggler, but a length");
  tagc_stragglers_free(&p);
  for (size_t i = 0; i < 60; i++)
    for (size_t r = 0; r < 4; r++) {
      run->ranks[r].steps[i].whole = r != 1;
      run->ranks[r].steps[i].ns *= 7;
    }
  p = pace_of(run);
  ok(p.steps == STEPS - 60 && near(p.median_ms, 100) && p.p95_ms < 120,
     "steps that were disturbed on a rank are no measure of a step: %.2f ms", p.median_ms);
  tagc_stragglers_free(&p);
  run_free(run);
}

static void test_little(void) {
  struct tagc_summary none = {0};
  struct tagc_stragglers p = pace_of(&none);
  ok(p.steps == 0 && isnan(p.median_ms) && p.slowest == SIZE_MAX, "nothing: %s", p.words);
  tagc_stragglers_free(&p);
  struct tagc_summary *run = make(1, true);
  p = pace_of(run);
  ok(p.slowest == SIZE_MAX && isnan(p.ranks[0].slowest_share) && !strstr(p.words, "rank"), "one rank: %s", p.words);
  tagc_stragglers_free(&p);
  run_free(run);
  run = make(3, true);
  run->ranks[0].step_count = 0;
  be_late(run, 2, 5, 77);
  p = pace_of(run);
  ok(p.ranks[0].steps == 0 && isnan(p.ranks[0].step_ms) && p.behind_count == 1 && p.behind[0].rank == 2 &&
       near(p.behind[0].ms, 38.5),
     "a rank without steps; of two ranks the median lies between them");
  tagc_stragglers_free(&p);
  run_free(run);
}

static void test_print(void) {
  char text[8192] = "";
  FILE *to = fmemopen(text, sizeof text, "w");
  struct tagc_summary *run = make(4, true);
  for (size_t i = 0; i < STEPS; i++)
    be_late(run, 2, i, i % 50 == 7 ? 130 : 30);
  const struct tagc_summary none = {0};
  struct tagc_stragglers p = pace_of(&none);
  tagc_stragglers_print(to, &none, &p);
  ok(fflush(to) == 0 && text[0] == '\0', "nothing is printed without steps");
  tagc_stragglers_free(&p);
  p = pace_of(run);
  tagc_stragglers_print(to, run, &p);
  fclose(to);
  const size_t longest = note_lines(text);
  ok(p.behind_count == 2 && strstr(text, "step 8: rank 2, by 130.00 ms"),
     "a rank that is always late is a straggler where it is later");
  ok(longest <= 120 && strstr(text, "The others wait for rank 2"), "lines of at most 120 columns: %zu", longest);
  tagc_stragglers_free(&p);
  run_free(run);
}

static void test_quantiles(void) {
  double values[] = {5, 1, 4, 2, 3};
  ok(near(tagc_quantile(values, 5, 0.5), 3) && near(tagc_quantile(values, 5, 0.25), 2) &&
       near(tagc_quantile(values, 5, 0.9), 4.6) && near(tagc_quantile(values, 5, 1), 5) &&
       isnan(tagc_quantile(values, 0, 0.5)),
     "quantiles");
}

/* A lock restarts the numbers of cycles, but not those of steps. */
static void test_numbers(void) {
  char text[8192] = "";
  FILE *to = fmemopen(text, sizeof text, "w");
  struct tagc_summary *run = make(3, true);
  run->ranks[0].step_count = 0;
  for (size_t r = 1; r < 3; r++)
    for (size_t i = 60; i < STEPS; i++) {
      run->ranks[r].steps[i].lock = 2;
      run->ranks[r].steps[i].cycle = i - 59;
    }
  be_late(run, 2, 66, 300);
  struct tagc_stragglers p = pace_of(run);
  tagc_stragglers_print(to, run, &p);
  fclose(to);
  ok(strstr(text, "400.00 (step 67)") && strstr(text, "    step 67: rank 2") && tagc_step_number(run, 1, 7) == 7 &&
       tagc_step_number(run, 2, 41) == 0,
     "the seventh step of the second lock is not step 7");
  tagc_stragglers_free(&p);
  run_free(run);
}

int main(void) {
  test_quantiles();
  test_exposed();
  test_untimed();
  test_kernels();
  test_slowest(true);
  test_slowest(false);
  test_hiccups();
  test_odd_steps();
  test_stragglers();
  test_little();
  test_print();
  test_numbers();
  return tap_done();
}
