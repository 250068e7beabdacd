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

/* The calls of a step. */
enum call { GATHERS, REDUCES, CALLS };

/* The vote is held in step 2 or 3, and a reference taken in the next one at the latest. */
enum { VOTE = 2, REFUSED_STEP = 6, LAST = 8 };

#include "tests/e2e/faults/broken.h"

static float *shards[RANKS], *wholes[RANKS];
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

/* If all ranks have the same error, they all go on. */
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

/* ---- at each moment ---------------------------------------------------------------------------------------------- */

static bool count_moments(void) {
  const bool good = run_with_notes();
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

static void each_moment(bool (*try)(void), const char *what) {
  bool chosen[LAST][CALLS];
  begin_sweep();
  choose_calls(chosen);
  for (int step = VOTE; step < LAST; step++)
    for (enum call call = GATHERS; call < CALLS; call++)
      for (int at = 1; chosen[step][call] && at <= moments_of[0][step][call]; at++)
        at_moment(try, what, step, call, at);
  end_sweep(what);
}

/* Aborts rank 0 before another rank goes on. */
static void wait_for_abort(const char *function) {
  (void)function;
  nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  abort_it(NULL);
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

static void sweep_errors(void) {
  trouble.error = ncclSystemError;
  trouble.on[0] = true;
  each_moment(try_error, "an error of NCCL on one rank");
  trouble.on[1] = true;
  each_moment(try_going_on, "an error on all ranks, who go on");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  const enum call call = all_reduces() ? REDUCES : GATHERS;
  begin_broken();
  draw_parameters();
  for (int i = 0; i < RANKS; i++) {
    shards[i] = malloc(sizeof(float) * N);
    wholes[i] = malloc(sizeof(float) * N * RANKS);
  }
  if (strcmp(what, "memory") == 0) {
    memory(VOTE + 5);
  } else if (strcmp(what, "nonblocking") == 0) {
    nonblocking(VOTE, VOTE + 4);
  } else if (count_moments()) {
    if (strcmp(what, "aborts") == 0)
      sweep_aborts();
    else if (strcmp(what, "errors") == 0)
      sweep_errors();
    else if (strcmp(what, "rounds") == 0)
      rounds(VOTE + 3, call, moments_of[0][VOTE + 3][call]);
    else
      fprintf(stderr, "usage: broken_calls aborts|errors|nonblocking|rounds|memory\n");
  }
  for (int i = 0; i < RANKS; i++) {
    free(shards[i]);
    free(wholes[i]);
  }
  return done();
}
