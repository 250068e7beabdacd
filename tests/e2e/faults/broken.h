/* SPDX-License-Identifier: BSD-3-Clause
 * Programs whose calls break off in the middle. The two ranks are threads of this process (inprocess.h). At one call
 * that the library makes of NCCL a communicator is aborted, or that call fails; or one allocation of the library fails.
 *
 * A program includes inprocess.h first and defines `enum call`, its calls of a step, with CALLS behind the last one,
 * and LAST, the number of steps of a run. Then it defines what is only declared here.
 */
#ifndef TESTS_E2E_FAULTS_BROKEN_H
#define TESTS_E2E_FAULTS_BROKEN_H

#include <execinfo.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/e2e/hierarchy/moments.h"
#include "tests/unit/self.h"

/* Makes the calls of a step between begin_call() and end_call(). The first error, in r->last, ends it. Returns false if
 * a call succeeds with wrong results. */
static bool make_step(struct rank *r, int step);

/* A thread's main function: a program that ignores errors. All steps must be right but for the error of `trouble`. */
static void *run_regardless(void *argument);

enum { HANG_S = 120 };
static const ncclResult_t some_errors[] = {ncclInvalidUsage, ncclRemoteError, ncclSystemError, ncclInternalError,
                                           ncclUnhandledCudaError};
static const char *place = "the beginning\n";

/* This program looks for hangs of calls that should end by themselves. */
static void hung(int signal) {
  void *frames[64];
  (void)signal;
  (void)!write(STDERR_FILENO, place, strlen(place));
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  _exit(5);
}

static inline void begin_broken(void) {
  signal(SIGALRM, hung);
  setvbuf(stdout, NULL, _IOLBF, 0);
}

/* ---- the fault --------------------------------------------------------------------------------------------------- */

/* The place of the fault: the library's call `at` in the program's call. at = 0: nowhere. */
static struct {
  int step, at;
  enum call call;
  bool on[RANKS];
  void (*happens)(const char *function);
  ncclResult_t error;
} trouble;
static int moments_of[RANKS][LAST][CALLS];
static bool notes; /* record the number of moments */

static inline void begin_call(const struct rank *r, int step, enum call call) {
  const int at = trouble.on[r->rank] && trouble.step == step && trouble.call == call ? trouble.at : 0;
  if (at && trouble.error != ncclSuccess)
    moments_fail_at(at, trouble.error);
  else
    moments_at(at, trouble.happens);
}

static inline void end_call(const struct rank *r, int step, enum call call) {
  if (notes)
    moments_of[r->rank][step][call] = moments_seen();
}

/* As programs do: the first error ends a rank with an abort, unless another thread has aborted its communicator. */
static bool aborts;
static int aborted_rank;

static bool is_aborted_by_another(const struct rank *r) { return aborts && r->rank == aborted_rank; }

static void *run_until_error(void *argument) {
  struct rank *r = argument;
  int step = 0;
  r->good = true;
  r->last = ncclSuccess;
  moments_rank(r->rank);
  for (; step < r->steps && r->last == ncclSuccess; step++)
    r->good &= make_step(r, step);
  r->begun = step;
  if (r->last != ncclSuccess && !is_aborted_by_another(r))
    r->good &= ncclCommAbort(r->comm) == ncclSuccess;
  return NULL;
}

static inline bool end_all(void) {
  bool good = true;
  for (int i = 0; i < RANKS; i++)
    if (ranks[i].last == ncclSuccess)
      good &= (trouble.at ? ncclCommAbort(ranks[i].comm) : ncclCommDestroy(ranks[i].comm)) == ncclSuccess;
  return good;
}

/* Makes a run without faults, and counts the moments. */
static inline bool run_with_notes(void) {
  trouble.at = 0;
  notes = true;
  bool good = start(LAST) && run_all(run_until_error);
  notes = false;
  for (int i = 0; i < RANKS; i++)
    good &= ranks[i].last == ncclSuccess;
  finish();
  return good;
}

/* ---- one moment of a sweep --------------------------------------------------------------------------------------- */

static int wrong, runs, told;

static inline void begin_sweep(void) { wrong = runs = told = 0; }

/* Tries the fault at this moment. Errors take turns. */
static inline void at_moment(bool (*try)(void), const char *what, int step, enum call call, int at) {
  char line[100];
  trouble.step = step;
  trouble.call = call;
  trouble.at = at;
  if (trouble.error != ncclSuccess)
    trouble.error = some_errors[runs % 5];
  snprintf(line, sizeof line, "%s: step %d, call %d, before %d\n", what, step, (int)call, at);
  place = line;
  alarm(HANG_S);
  runs++;
  if (!try()) {
    printf("# %s# rank 0 gets %d, rank 1 %d\n", line, ranks[0].last, ranks[1].last);
    wrong++;
  }
  told += ranks[0].last != ncclSuccess || ranks[1].last != ncclSuccess;
  place = "after it\n";
}

static inline void end_sweep(const char *what) {
  trouble.at = 0;
  ok(wrong == 0 && told > 0, "%s: at %d moments, of which %d are heard of", what, runs, told);
}

/* ---- aborts ------------------------------------------------------------------------------------------------------ */

static pthread_t watchdog;
static bool watched, aborted;
static atomic_bool aborting;

static void *abort_it(void *unused) {
  aborting = true;
  aborted = ncclCommAbort(ranks[aborted_rank].comm) == ncclSuccess;
  return unused;
}

/* If the library is adding calls to a group, the abort waits for that; so does the abort of a non-blocking communicator
 * in a group's end. */
static void abort_now(const char *function) {
  (void)function;
  watched = pthread_create(&watchdog, NULL, abort_it, NULL) == 0;
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* True if the rank was aborted. */
static inline bool end_abort(void) {
  if (watched)
    pthread_join(watchdog, NULL);
  const bool good = aborted;
  watched = aborted = false;
  aborting = false;
  return good;
}

static bool try_abort(void) {
  aborts = true;
  bool good = start(trouble.step + 1) && run_all(run_until_error);
  aborts = false;
  good &= end_abort();
  for (int i = 0; i < RANKS; i++)
    if (i != aborted_rank && ranks[i].last == ncclSuccess)
      good &= ncclCommAbort(ranks[i].comm) == ncclSuccess;
  return good;
}

/* ---- errors of NCCL ---------------------------------------------------------------------------------------------- */

/* The call fails on one rank, which must get that error. */
static bool try_error(void) {
  bool good = start(trouble.step + 1) && run_all(run_until_error);
  const struct rank *r = &ranks[trouble.on[1]];
  good &= r->last == trouble.error && r->begun == trouble.step + 1;
  return end_all() && good;
}

/* The ranks with the error go on, like the others. */
static bool try_going_on(void) {
  bool good = start(trouble.step + 4) && run_all(run_regardless);
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  ranks[0].last = trouble.error; /* for the count */
  return good;
}

/* Calls that fail leave nothing. A run of `warm_up` steps comes first; every third of the next ones has a fault in
 * `call`, which makes `moments` calls of NCCL. */
static inline void rounds(int warm_up, enum call call, int moments) {
  enum { ROUNDS = 120 };
  long before = 0, after = 0;
  trouble.on[0] = trouble.on[1] = true;
  trouble.error = ncclSystemError;
  trouble.call = call;
  trouble.step = trouble.at = 0;
  bool good = start(0);
  for (int i = 0; i < RANKS; i++)
    ranks[i].steps = warm_up;
  good &= run_all(run_regardless);
  for (int round = 0; round < ROUNDS && good; round++) {
    trouble.at = round % 3 == 2 ? 1 + round / 3 % moments : 0;
    for (int i = 0; i < RANKS; i++)
      ranks[i].steps = 1;
    good &= run_all(run_regardless);
    if (round == ROUNDS / 2 - 1)
      before = (long)mallinfo2().uordblks;
  }
  after = (long)mallinfo2().uordblks;
  trouble.at = 0;
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  ok(good, "every third call of a communicator fails, %d of them: the others are right", ROUNDS / 3);
  ok(after - before < 4096, "memory in use has grown by %ld bytes in %d calls", after - before, ROUNDS / 2);
}

/* ---- a non-blocking communicator --------------------------------------------------------------------------------- */

static ncclUniqueId id;
static int threads_at_rest;

/* Waits for the end of launches whose communicator was aborted: they would count for the next one. */
static inline void let_launches_end(void) {
  while (count_of_self("task") > threads_at_rest)
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Only rank 0's communicator is non-blocking: a thread of the library makes its calls of NCCL. */
static void *run_nonblocking(void *argument) {
  struct rank *r = argument;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  int step = 0;
  config.blocking = r->rank > 0;
  moments_rank(r->rank);
  r->last = ncclCommInitRankConfig(&r->comm, RANKS, id, r->rank, &config);
  r->last = settled(r, r->last);
  r->good = r->last == ncclSuccess;
  for (; step < r->steps && r->last == ncclSuccess; step++) {
    if (r->rank == 0)
      moments_of_strangers(trouble.on[0] && trouble.at && step == trouble.step ? trouble.at : 0, trouble.happens,
                           trouble.error);
    const bool right = make_step(r, step);
    if (r->rank == 0 && aborting) /* the communicator may be gone already */
      r->last = ncclInternalError;
    r->good &= right || r->last != ncclSuccess;
    if (notes && r->rank == 0)
      moments_of[0][step][CALLS - 1] = moments_strangers_seen();
  }
  r->begun = step;
  if (r->last != ncclSuccess && !is_aborted_by_another(r))
    r->good &= ncclCommAbort(r->comm) == ncclSuccess;
  return NULL;
}

static inline bool run_pair(int steps) {
  const ncclComm_t none[RANKS] = {NULL};
  adopt(none, steps);
  return ncclGetUniqueId(&id) == ncclSuccess && run_all(run_nonblocking);
}

static inline bool try_nonblocking(void) {
  const bool fails = trouble.error != ncclSuccess;
  aborts = !fails;
  bool good = run_pair(trouble.step + 1);
  aborts = false;
  /* The number of state queries varies, so the run may not have come to this moment. */
  const bool ended = end_abort();
  good &= !fails || ranks[0].last == trouble.error || ranks[0].last == ncclSuccess;
  for (int i = 0; i < RANKS; i++)
    if (i == 0 ? !ended && (!fails || ranks[0].last == ncclSuccess) : ranks[i].last == ncclSuccess)
      good &= ncclCommAbort(ranks[i].comm) == ncclSuccess;
  let_launches_end();
  return good;
}

/* Faults in these steps, of rank 0. State queries count as moments, and their number varies. So each moment is an early
 * query, or late in the call. */
static inline void nonblocking(int from, int to) {
  int tried[2] = {0}, hit[2] = {0}, bad[2] = {0};
  bool good = ncclGetUniqueId(&id) == ncclSuccess; /* starts the threads that serve ids and the agreement */
  threads_at_rest = count_of_self("task");
  notes = true;
  good &= run_pair(LAST);
  notes = false;
  for (int i = 0; i < RANKS; i++)
    good &= ranks[i].last == ncclSuccess && ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  ok(good, "%d steps are right", LAST);
  let_launches_end();
  trouble.on[0] = true;
  for (int fails = 0; fails <= 1; fails++)
    for (trouble.step = from; trouble.step < to; trouble.step++) {
      const int most = moments_of[0][trouble.step][CALLS - 1], stride = most / 10 + 1;
      for (trouble.at = 1 + trouble.step % stride; trouble.at <= most; trouble.at += stride) {
        trouble.error = fails ? some_errors[trouble.at % 3] : ncclSuccess;
        trouble.happens = fails ? NULL : abort_now;
        alarm(HANG_S);
        place = fails ? "an error of a non-blocking communicator\n" : "an abort of one\n";
        tried[fails]++;
        if (!try_nonblocking()) {
          printf("# step %d, before %d: %d and %d\n", trouble.step, trouble.at, ranks[0].last, ranks[1].last);
          bad[fails]++;
        }
        hit[fails] += ranks[0].last != ncclSuccess;
      }
    }
  moments_of_strangers(-1, NULL, ncclSuccess);
  ok(!bad[0] && hit[0], "a non-blocking communicator is aborted at %d moments, %d of them in time", tried[0], hit[0]);
  ok(!bad[1] && hit[1], "and its calls fail at %d, of which its rank hears %d times", tried[1], hit[1]);
}

/* ---- no memory --------------------------------------------------------------------------------------------------- */

extern void failing_malloc_at(unsigned long number) __attribute__((weak));
extern unsigned long failing_malloc_made(void) __attribute__((weak));

/* One allocation fails in a run of these steps, on either rank. Both have right results, or one has ncclSystemError and
 * the other one some error after the first has left. */
static inline void memory(int steps) {
  int on = 0, up = 0;
  unsigned long number = 0;
  wrong = 0;
  if (!failing_malloc_at) {
    ok(false, "failing_malloc.so is there");
    return;
  }
  for (bool more = true; more;) {
    number++;
    alarm(HANG_S);
    failing_malloc_at(number);
    bool good = true, all = true, no_memory = false;
    if (start(steps)) {
      good &= run_all(run_until_error);
      for (int i = 0; i < RANKS; i++) {
        all &= ranks[i].last == ncclSuccess;
        no_memory |= ranks[i].last == ncclSystemError;
      }
      for (int i = 0; i < RANKS; i++)
        if (ranks[i].last == ncclSuccess)
          good &= (all ? ncclCommDestroy(ranks[i].comm) : ncclCommAbort(ranks[i].comm)) == ncclSuccess;
    } else {
      all = false;
      no_memory = true;
    }
    more = failing_malloc_made() >= number;
    failing_malloc_at(0);
    if (!good || (!all && !no_memory)) {
      printf("# allocation %lu: %d and %d, %s\n", number, ranks[0].last, ranks[1].last,
             good ? "right results" : "wrong results");
      wrong++;
    }
    on += all;
    up += !all;
  }
  ok(wrong == 0 && on > 1 && up > 0,
     "%lu allocations and threads fail, one in each run: %d runs go on, %d end with an error", number - 1, on - 1, up);
}

#endif
