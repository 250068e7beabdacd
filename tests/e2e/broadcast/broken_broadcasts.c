/* SPDX-License-Identifier: BSD-3-Clause
 * Broadcasts that break off in the middle (TAGC_BROADCAST). The two ranks are threads of this process. At each call
 * that the library makes of NCCL, a communicator is aborted, or that call fails, on either rank; each allocation of the
 * library fails. No rank may ever have other values than the root.
 *
 *   broken_broadcasts aborts|errors|late|rounds|nonblocking|memory
 *
 * Run with the library preloaded and TAGC_BROADCAST=exact TAGC_MIN_BYTES=0; `memory` with failing_malloc.so after it.
 */
#define INPROCESS_N 9000
#include "tests/e2e/api/inprocess.h"

#include <execinfo.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/e2e/hierarchy/moments.h"
#include "tests/unit/self.h"

/* A step is one broadcast of one tensor, from rank 0 or in later steps from rank 1. */
enum { JUMP = 4, OTHER_ROOT = 6, LAST = 9, MOMENTS = 8, LATE = MOMENTS, HANG_S = 120 };

static const char *place = "the beginning\n";

/* This program looks for hangs of calls that should end by themselves. */
static void hung(int signal) {
  void *frames[64];
  (void)signal;
  (void)!write(STDERR_FILENO, place, strlen(place));
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  _exit(5);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static int root_of(int step) { return step >= OTHER_ROOT; }

/* A hundredth of the elements changes from step to step, and in step JUMP all of them. */
static float element(int step, size_t i) {
  const unsigned h = (unsigned)(i * 2654435761u) ^ (step >= JUMP ? 0xabcdef : 0);
  const unsigned steps = (unsigned)step + (i % 100 == (size_t)step % 100);
  return (float)(h % 10007 + 1) / 10007 + (i % 7 ? 0 : (float)steps / 4096);
}

/* The place of the fault: the library's call `at` in that step. at = 0: nowhere. */
static struct {
  int step, at;
  bool on[RANKS];
  void (*happens)(const char *function);
  ncclResult_t error;
} trouble;
static int moments_of[RANKS][LAST];
static bool notes; /* record the number of moments */

static bool fails_here(const struct rank *r, int step) {
  return trouble.at && trouble.on[r->rank] && trouble.step == step;
}

static bool make_step(struct rank *r, int step) {
  const bool root = r->rank == root_of(step);
  for (size_t i = 0; i < N; i++) {
    r->send[i] = root ? element(step, i) : -2;
    r->out[i] = -1;
  }
  const int at = fails_here(r, step) ? trouble.at : 0;
  if (at && trouble.error != ncclSuccess)
    moments_fail_at(at, trouble.error);
  else
    moments_at(at, trouble.happens);
  r->last = settled(r, ncclBroadcast(r->send, r->out, N, ncclFloat, root_of(step), r->comm, r->stream));
  if (notes)
    moments_of[r->rank][step] = moments_seen();
  for (size_t i = 0; i < N && r->last == ncclSuccess; i++)
    if (r->out[i] != element(step, i))
      return false;
  return true;
}

/* As programs do: the first error ends a rank with an abort, unless another thread has aborted its communicator. */
static bool aborts;

static void *run_until_error(void *argument) {
  struct rank *r = argument;
  int step = 0;
  r->good = true;
  r->last = ncclSuccess;
  moments_rank(r->rank);
  for (; step < r->steps && r->last == ncclSuccess; step++)
    r->good &= make_step(r, step);
  r->begun = step;
  if (r->last != ncclSuccess && (!trouble.on[r->rank] || !aborts))
    r->good &= ncclCommAbort(r->comm) == ncclSuccess;
  return NULL;
}

/* A program that ignores errors: calls after it are right. */
static void *run_regardless(void *argument) {
  struct rank *r = argument;
  bool good = true;
  moments_rank(r->rank);
  for (int step = 0; step < r->steps; step++) {
    bool right = make_step(r, step);
    right &= r->last == (fails_here(r, step) ? trouble.error : ncclSuccess);
    if (!right)
      printf("# rank %d, step %d: %d\n", r->rank, step, r->last);
    good &= right;
  }
  r->good = good;
  return NULL;
}

static bool end_all(void) {
  bool good = true;
  for (int i = 0; i < RANKS; i++)
    if (ranks[i].last == ncclSuccess)
      good &= (trouble.at ? ncclCommAbort(ranks[i].comm) : ncclCommDestroy(ranks[i].comm)) == ncclSuccess;
  return good;
}

/* ---- at each moment ---------------------------------------------------------------------------------------------- */

static bool count_moments(void) {
  trouble.at = 0;
  notes = true;
  bool good = start(LAST) && run_all(run_until_error), all = true;
  notes = false;
  for (int i = 0; i < RANKS; i++) {
    good &= ranks[i].last == ncclSuccess;
    for (int step = 0; step < LAST; step++)
      all &= moments_of[i][step] == MOMENTS;
  }
  finish();
  ok(good && all, "%d steps are right, and each is two groups of one call", LAST);
  return good && all;
}

static int wrong, runs, told;

/* Tries the faults of a step at each moment from `first` on, on these ranks. */
static void each_moment(bool (*try)(void), int first, bool on_0, bool on_1, const char *what) {
  static const ncclResult_t errors[] = {ncclInvalidUsage, ncclRemoteError, ncclSystemError, ncclInternalError,
                                        ncclUnhandledCudaError};
  const bool fails = trouble.error != ncclSuccess;
  wrong = runs = told = 0;
  trouble.on[0] = on_0;
  trouble.on[1] = on_1;
  for (trouble.step = 0; trouble.step < LAST; trouble.step++)
    for (trouble.at = first; trouble.at <= MOMENTS; trouble.at++) {
      char line[100];
      if (fails)
        trouble.error = errors[runs % 5];
      snprintf(line, sizeof line, "%s: step %d, before %d\n", what, trouble.step, trouble.at);
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
  trouble.at = 0;
  ok(wrong == 0 && told > 0, "%s: at %d moments, of which %d are heard of", what, runs, told);
}

/* ---- aborts ------------------------------------------------------------------------------------------------------ */

static pthread_t watchdog;
static bool watched, aborted;
static atomic_bool aborting;

static int troubled(void) { return trouble.on[1]; }

static void *abort_it(void *unused) {
  aborting = true;
  aborted = ncclCommAbort(ranks[troubled()].comm) == ncclSuccess;
  return unused;
}

static void abort_now(const char *function) {
  (void)function;
  watched = pthread_create(&watchdog, NULL, abort_it, NULL) == 0;
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static bool end_abort(void) {
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
  const int other = !troubled();
  if (ranks[other].last == ncclSuccess)
    good &= ncclCommAbort(ranks[other].comm) == ncclSuccess;
  return good;
}

static void sweep_aborts(void) {
  trouble.happens = abort_now;
  each_moment(try_abort, 1, true, false, "an abort of rank 0");
  each_moment(try_abort, 1, false, true, "an abort of rank 1");
}

/* ---- errors of NCCL ---------------------------------------------------------------------------------------------- */

static bool try_error(void) {
  bool good = start(trouble.step + 1) && run_all(run_until_error);
  const struct rank *r = &ranks[troubled()];
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

static void sweep_errors(void) {
  trouble.error = ncclSystemError;
  each_moment(try_error, 1, true, false, "an error of NCCL on rank 0");
  each_moment(try_error, 1, false, true, "an error of NCCL on rank 1");
  each_moment(try_going_on, 1, true, true, "an error on all ranks, who go on");
}

/* The last group is done, and yet returns an error on one rank: it does not know what the others know. */
static void sweep_late_errors(void) {
  trouble.error = ncclSystemError;
  each_moment(try_going_on, LATE, true, false, "a late error on rank 0, which goes on");
  each_moment(try_going_on, LATE, false, true, "a late error on rank 1, which goes on");
}

/* Calls that fail leave nothing. */
static void rounds(void) {
  enum { ROUNDS = 120 };
  long before = 0, after = 0;
  trouble.on[0] = trouble.on[1] = true;
  trouble.error = ncclSystemError;
  trouble.step = 0;
  bool good = start(0);
  for (int round = 0; round < ROUNDS && good; round++) {
    trouble.at = round % 3 == 2 ? 1 + round / 3 % MOMENTS : 0;
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

static void let_launches_end(void) {
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
      moments_of[0][step] = moments_strangers_seen();
  }
  r->begun = step;
  if (r->last != ncclSuccess && (r->rank || !aborts))
    r->good &= ncclCommAbort(r->comm) == ncclSuccess;
  return NULL;
}

static bool run_pair(int steps) {
  const ncclComm_t none[RANKS] = {NULL};
  adopt(none, steps);
  return ncclGetUniqueId(&id) == ncclSuccess && run_all(run_nonblocking);
}

static bool try_nonblocking(void) {
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

static void nonblocking(void) {
  static const ncclResult_t errors[] = {ncclInvalidUsage, ncclRemoteError, ncclSystemError};
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
  trouble.on[1] = false;
  for (int fails = 0; fails <= 1; fails++)
    for (trouble.step = 0; trouble.step < LAST; trouble.step++) {
      const int most = moments_of[0][trouble.step], stride = most / 10 + 1;
      for (trouble.at = 1 + trouble.step % stride; trouble.at <= most; trouble.at += stride) {
        trouble.error = fails ? errors[trouble.at % 3] : ncclSuccess;
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

/* One allocation fails, on either rank. Both have right results, or one has ncclSystemError and the other one some
 * error after the first has left. */
static void memory(void) {
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
    if (start(LAST)) {
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

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  signal(SIGALRM, hung);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (strcmp(what, "memory") == 0) {
    memory();
  } else if (strcmp(what, "nonblocking") == 0) {
    nonblocking();
  } else if (count_moments()) {
    if (strcmp(what, "aborts") == 0)
      sweep_aborts();
    else if (strcmp(what, "errors") == 0)
      sweep_errors();
    else if (strcmp(what, "late") == 0)
      sweep_late_errors();
    else if (strcmp(what, "rounds") == 0)
      rounds();
    else
      fprintf(stderr, "usage: broken_broadcasts aborts|errors|late|rounds|nonblocking|memory\n");
  }
  return done();
}
