/* SPDX-License-Identifier: BSD-3-Clause
 * Compressed calls that break off in the middle: all-reduces, and all-gathers of parameters with a reduce-scatter after
 * each. The two ranks are threads of this process. At each call that the library makes of NCCL, in the vote and after
 * it, a communicator is aborted, or that call fails. Each allocation and each thread start of the library fails, too.
 *
 *   broken_calls aborts|errors|nonblocking|rounds|memory
 *
 * Run with the library preloaded and TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 TAGC_CODEC=sparse
 * TAGC_SPARSITY=0.95; `memory` with failing_malloc.so after it. ALL_REDUCES=1 selects all-reduces. Otherwise
 * TAGC_ALLGATHER is the codec of parameters; with REFUSED=1 rank 1 has some in step 6 that no codec can carry.
 */
#define INPROCESS_N 16500
#include "tests/e2e/api/inprocess.h"

#include <execinfo.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/e2e/hierarchy/moments.h"
#include "tests/unit/self.h"

/* The vote is held in step 2 or 3, and a reference taken in the next one at the latest. */
enum { VOTE = 2, REFUSED_STEP = 6, LAST = 8, HANG_S = 120 };

/* The calls of a step. */
enum call { GATHERS, REDUCES, CALLS };

static float *shards[RANKS], *wholes[RANKS];
static const char *place = "the beginning";

/* This program looks for hangs of calls that should end by themselves. */
static void hung(int signal) {
  void *frames[64];
  (void)signal;
  (void)!write(STDERR_FILENO, place, strlen(place));
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  _exit(5);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Like trained parameters: small, of many sizes, and a little different in every step; `wild` ones have any size. */
static struct { float start, slope, wild; } drawn[RANKS][N];
static bool refuses;

static void draw_parameters(void) {
  refuses = getenv("REFUSED") != NULL;
  for (int rank = 0; rank < RANKS; rank++)
    for (size_t i = 0; i < N; i++) {
      const uint64_t h = mix((uint64_t)rank << 40 ^ (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
      const float x = (float)(h & 0xffffff) / 8388608 - 1, y = (float)(h >> 24 & 0xffffff) / 8388608 - 1;
      drawn[rank][i].start = 0.05f * x * y;
      drawn[rank][i].slope = 1e-4f * x;
      drawn[rank][i].wild = ldexpf(x, (int)(h >> 48 & 63) - 31);
    }
}

static float parameter(int rank, int step, size_t i) {
  if (refuses && step == REFUSED_STEP && rank == 1 && i % 3)
    return drawn[rank][i].wild;
  return drawn[rank][i].start + drawn[rank][i].slope * (float)step;
}

/* True if the gathered parameters are within the codec's error; exact if the codec refuses them. */
static bool is_gathered(int rank, int step) {
  const char *codec = getenv("TAGC_ALLGATHER");
  const bool exact =
    !codec || strcmp(codec, "lossless") == 0 || strcmp(codec, "exact") == 0 || (refuses && step == REFUSED_STEP);
  for (int r = 0; r < RANKS; r++) {
    double error2 = 0, norm2 = 0;
    for (size_t i = 0; i < N; i++) {
      const double wanted = (double)parameter(r, step, i), error = (double)wholes[rank][(size_t)r * N + i] - wanted;
      error2 += error * error;
      norm2 += wanted * wanted;
    }
    if (!(error2 <= (exact ? 0 : 0.012 * 0.012 * norm2)))
      return false;
  }
  return true;
}

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

static void begin_call(const struct rank *r, int step, enum call call) {
  const int at = trouble.on[r->rank] && trouble.step == step && trouble.call == call ? trouble.at : 0;
  if (at && trouble.error != ncclSuccess)
    moments_fail_at(at, trouble.error);
  else
    moments_at(at, trouble.happens);
}

static void end_call(const struct rank *r, int step, enum call call) {
  if (notes)
    moments_of[r->rank][step][call] = moments_seen();
}

/* The first error of a step ends it. */
static bool make_step(struct rank *r, int step) {
  const int rank = r->rank;
  bool good = true;
  r->last = ncclSuccess;
  if (!all_reduces()) {
    for (size_t i = 0; i < N; i++)
      shards[rank][i] = parameter(rank, step, i);
    memset(wholes[rank], 0x7f, sizeof(float) * N * RANKS);
    begin_call(r, step, GATHERS);
    r->last = settled(r, ncclAllGather(shards[rank], wholes[rank], N, ncclFloat, r->comm, r->stream));
    end_call(r, step, GATHERS);
    good = r->last != ncclSuccess || is_gathered(rank, step);
  }
  if (r->last != ncclSuccess)
    return good;
  fill(r, step);
  begin_call(r, step, REDUCES);
  r->last = settled(r, reduce_scatter(r));
  end_call(r, step, REDUCES);
  return good && (r->last != ncclSuccess || is_sum(r, step));
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
  if (r->last != ncclSuccess && (r->rank || !aborts))
    r->good &= ncclCommAbort(r->comm) == ncclSuccess;
  return NULL;
}

/* A program that ignores errors: if all ranks have the same error, they all go on. */
static void *run_regardless(void *argument) {
  struct rank *r = argument;
  bool good = true;
  moments_rank(r->rank);
  for (int step = 0; step < r->steps; step++) {
    bool right = make_step(r, step);
    const bool fails = trouble.at && step == trouble.step;
    right &= r->last == (fails ? trouble.error : ncclSuccess);
    if (fails && trouble.call == GATHERS) { /* its reduction is still to come */
      fill(r, step);
      right &= reduce_scatter(r) == ncclSuccess && is_sum(r, step);
    }
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

/* Makes a run without faults: checks its results, and counts the moments. */
static bool count_moments(void) {
  trouble.at = 0;
  notes = true;
  bool good = start(LAST) && run_all(run_until_error);
  notes = false;
  for (int i = 0; i < RANKS; i++)
    good &= ranks[i].last == ncclSuccess;
  finish();
  const enum call call = all_reduces() ? REDUCES : GATHERS;
  const int plain = moments_of[0][0][call], compressed = moments_of[0][VOTE + 3][call];
  ok(good && compressed > plain, "%d steps are right; calls that make %d of NCCL's make %d when they are compressed",
     LAST, plain, compressed);
  return good;
}

/* Chooses the calls that get faults: those of the vote, the first of a kind after it, and those from a refusal on.
 * Other tests cover reduce-scatters. */
static void choose_calls(bool chosen[LAST][CALLS]) {
  for (enum call call = GATHERS; call < CALLS; call++)
    for (int step = VOTE; step < LAST; step++) {
      const int its = moments_of[0][step][call];
      int before = 0;
      for (int earlier = VOTE; earlier < step; earlier++)
        before += moments_of[0][earlier][call] == its;
      chosen[step][call] = its > moments_of[0][0][call] && (all_reduces() || call == GATHERS || step <= VOTE + 1) &&
                           (!before || (refuses && step >= REFUSED_STEP));
    }
}

static int wrong, runs, told;

static void each_moment(bool (*try)(void), const char *what) {
  static const ncclResult_t errors[] = {ncclInvalidUsage, ncclRemoteError, ncclSystemError, ncclInternalError,
                                        ncclUnhandledCudaError};
  const bool fails = trouble.error != ncclSuccess;
  bool chosen[LAST][CALLS];
  wrong = runs = told = 0;
  choose_calls(chosen);
  for (int step = VOTE; step < LAST; step++)
    for (enum call call = GATHERS; call < CALLS; call++)
      for (int at = 1; chosen[step][call] && at <= moments_of[0][step][call]; at++) {
        char line[100];
        trouble.step = step;
        trouble.call = call;
        trouble.at = at;
        if (fails)
          trouble.error = errors[runs % 5];
        snprintf(line, sizeof line, "%s: step %d, call %d, before %d\n", what, step, (int)call, at);
        place = line;
        alarm(HANG_S);
        runs++;
        if (!try()) {
          printf("# %s# rank 0 gets %d, rank 1 %d\n", line, ranks[0].last, ranks[1].last);
          wrong++;
        }
        told += ranks[0].last != ncclSuccess;
        place = "after it";
      }
  trouble.at = 0;
  ok(wrong == 0 && told > 0, "%s: at %d moments, of which rank 0 hears %d times", what, runs, told);
}

/* ---- aborts ------------------------------------------------------------------------------------------------------ */

static pthread_t watchdog;
static bool watched, aborted;
static atomic_bool aborting;

static void *abort_rank_0(void *unused) {
  aborting = true;
  aborted = ncclCommAbort(ranks[0].comm) == ncclSuccess;
  return unused;
}

/* If the library is adding calls to a group, the abort waits for that; so does the abort of a non-blocking communicator
 * in a group's end. */
static void abort_now(const char *function) {
  (void)function;
  watched = pthread_create(&watchdog, NULL, abort_rank_0, NULL) == 0;
  nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* Aborts rank 0 before another rank goes on. */
static void wait_for_abort(const char *function) {
  (void)function;
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  abort_rank_0(NULL);
}

/* True if rank 0 was aborted. */
static bool end_abort(void) {
  if (watched)
    pthread_join(watchdog, NULL);
  const bool good = aborted;
  watched = false;
  aborted = false;
  aborting = false;
  return good;
}

static bool try_abort(void) {
  aborts = true;
  bool good = start(trouble.step + 1) && run_all(run_until_error);
  aborts = false;
  good &= end_abort();
  for (int i = 1; i < RANKS; i++)
    if (ranks[i].last == ncclSuccess)
      good &= ncclCommAbort(ranks[i].comm) == ncclSuccess;
  return good;
}

static void sweep_aborts(void) {
  trouble.on[0] = true;
  trouble.happens = abort_now;
  each_moment(try_abort, "an abort");
  trouble.on[0] = false;
  trouble.on[1] = true;
  trouble.happens = wait_for_abort;
  each_moment(try_abort, "an abort while the other rank does not come");
}

/* ---- errors of NCCL ---------------------------------------------------------------------------------------------- */

/* The call fails on rank 0 only, which must get that error. */
static bool try_error(void) {
  bool good = start(trouble.step + 1) && run_all(run_until_error);
  good &= ranks[0].last == trouble.error && ranks[0].begun == trouble.step + 1;
  return end_all() && good;
}

static bool try_error_on_all(void) {
  bool good = start(trouble.step + 4) && run_all(run_regardless);
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  ranks[0].last = trouble.error; /* for the count */
  return good;
}

static void sweep_errors(void) {
  trouble.error = ncclSystemError;
  trouble.on[0] = true;
  each_moment(try_error, "an error of NCCL on one rank");
  trouble.on[1] = true;
  each_moment(try_error_on_all, "an error on all ranks, who go on");
}

/* ---- a non-blocking communicator --------------------------------------------------------------------------------- */

static ncclUniqueId id;
static int threads_at_rest;

/* Waits for the end of launches whose communicator was aborted: they would count for the next one. */
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
      moments_of[0][step][REDUCES] = moments_strangers_seen();
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

/* State queries count as moments, and their number varies. So each moment is an early query, or late in the call. */
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
  for (int fails = 0; fails <= 1; fails++)
    for (trouble.step = VOTE; trouble.step < VOTE + 4; trouble.step++) {
      const int most = moments_of[0][trouble.step][REDUCES], stride = most / 10 + 1;
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

/* ---- calls that fail leave nothing ------------------------------------------------------------------------------- */

static void rounds(void) {
  enum { ROUNDS = 120 };
  const enum call call = all_reduces() ? REDUCES : GATHERS;
  long before = 0, after = 0;
  bool good = true;
  trouble.on[0] = trouble.on[1] = true;
  trouble.error = ncclSystemError;
  trouble.call = call;
  good &= start(0);
  for (int i = 0; i < RANKS; i++)
    ranks[i].steps = VOTE + 3;
  trouble.at = 0;
  good &= run_all(run_regardless);
  for (int round = 0; round < ROUNDS && good; round++) {
    trouble.step = 0;
    trouble.at = round % 3 == 2 ? 1 + round / 3 % moments_of[0][VOTE + 3][call] : 0;
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
    if (start(VOTE + 5)) {
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
  draw_parameters();
  for (int i = 0; i < RANKS; i++) {
    shards[i] = malloc(sizeof(float) * N);
    wholes[i] = malloc(sizeof(float) * N * RANKS);
  }
  if (strcmp(what, "memory") == 0) {
    memory();
  } else if (strcmp(what, "nonblocking") == 0) {
    nonblocking();
  } else if (count_moments()) {
    if (strcmp(what, "aborts") == 0)
      sweep_aborts();
    else if (strcmp(what, "errors") == 0)
      sweep_errors();
    else if (strcmp(what, "rounds") == 0)
      rounds();
    else
      fprintf(stderr, "usage: broken_calls aborts|errors|nonblocking|rounds|memory\n");
  }
  for (int i = 0; i < RANKS; i++) {
    free(shards[i]);
    free(wholes[i]);
  }
  return done();
}
