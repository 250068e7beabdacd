/* SPDX-License-Identifier: BSD-3-Clause
 * Shared code of programs that have all ranks of a communicator in one process: sparse gradients whose sums are exact,
 * and ways to run steps on them.
 *
 * There are two ranks, or INPROCESS_RANKS, and shards of 20000 elements, or INPROCESS_N, if these are defined before.
 *
 * Run them with the library preloaded and TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 TAGC_SPARSITY=0.95. A
 * communicator that repeats one reduce-scatter votes at the fourth, and compresses from then on. With ALL_REDUCES in
 * the environment these are all-reduces, whose sums come back in 8 bits an element.
 */
#ifndef TESTS_E2E_INPROCESS_H
#define TESTS_E2E_INPROCESS_H

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/unit/tap.h"

#ifndef INPROCESS_RANKS
#define INPROCESS_RANKS 2
#endif
#ifndef INPROCESS_N
#define INPROCESS_N 20000
#endif
enum { RANKS = INPROCESS_RANKS, N = INPROCESS_N, STEPS = 8, UNCOMPRESSED = 3 };

struct rank {
  ncclComm_t comm;
  int rank, steps;
  float *send, *out;
  bool good;
  atomic_int begun; /* steps whose call was about to be made */
  ncclResult_t last;
  cudaStream_t stream;
};

static struct rank ranks[RANKS];

static inline float value(int rank, int step, size_t i) {
  return i % 61 ? 0 : (float)((int)i / 61 % 13 - 6 + step * (rank + 1));
}

/* True if ALL_REDUCES is set, or INEXACT: then a codec may round. Read once, because every element needs them. */
static bool with_all_reduces, inexact;
__attribute__((constructor)) static void read_environment(void) {
  with_all_reduces = getenv("ALL_REDUCES") != NULL;
  inexact = getenv("INEXACT") != NULL;
}
static inline bool all_reduces(void) { return with_all_reduces; }

/* The elements of a result. */
static inline size_t count_out(void) { return all_reduces() ? (size_t)N * RANKS : N; }

/* Also marks the result, so that an unwritten element never looks like a sum. */
static inline void fill(struct rank *r, int step) {
  for (size_t i = 0; i < (size_t)N * RANKS; i++)
    r->send[i] = value(r->rank, step, i);
  for (size_t i = 0; i < count_out(); i++)
    r->out[i] = -1;
}

/* Sums must be exact, except in all-reduces. Their second half rounds by half a step of a block's largest sum; the
 * bound is slightly larger. A codec of 4 bits errs by less than a tenth of the largest sum. */
static inline bool is_sum(const struct rank *r, int step) {
  const size_t first = all_reduces() ? 0 : (size_t)r->rank * N;
  const float largest = (float)(RANKS * (6 + RANKS * step));
  const float allowed = inexact && step >= UNCOMPRESSED ? largest / 10 : all_reduces() ? largest / 250 : 0;
  for (size_t i = 0; i < count_out(); i++) {
    float sum = 0;
    for (int other = 0; other < RANKS; other++)
      sum += value(other, step, first + i);
    if (!(fabsf(r->out[i] - sum) <= allowed))
      return false;
  }
  return true;
}

/* True if nothing was written since fill(). */
static inline bool untouched(const struct rank *r) {
  for (size_t i = 0; i < count_out(); i++)
    if (r->out[i] != -1)
      return false;
  return true;
}

static inline bool all_untouched(void) {
  bool good = true;
  for (int i = 0; i < RANKS; i++)
    good &= untouched(&ranks[i]);
  return good;
}

static inline ncclResult_t reduce_into(struct rank *r, float *out, ncclRedOp_t op) {
  return all_reduces() ? ncclAllReduce(r->send, out, (size_t)N * RANKS, ncclFloat, op, r->comm, r->stream)
                       : ncclReduceScatter(r->send, out, N, ncclFloat, op, r->comm, r->stream);
}

static inline ncclResult_t reduce_scatter(struct rank *r) { return reduce_into(r, r->out, ncclSum); }

/* Waits for a call that may be in progress. Returns its result. */
static inline ncclResult_t settled(struct rank *r, ncclResult_t status) {
  while (status == ncclInProgress) {
    pause_briefly();
    if (ncclCommGetAsyncError(r->comm, &status) != ncclSuccess)
      return ncclInternalError;
  }
  return status;
}

/* The thread of a rank: runs its steps, one after the other. */
static inline void *run_rank(void *argument) {
  struct rank *r = argument;
  r->good = true;
  for (int step = 0; step < r->steps; step++) {
    fill(r, step);
    r->begun++;
    r->last = settled(r, reduce_scatter(r));
    r->good &= r->last == ncclSuccess && is_sum(r, step);
  }
  return NULL;
}

/* Runs a thread for each rank. True if all ranks are `good`. */
static inline bool run_all(void *(*run)(void *)) {
  pthread_t threads[RANKS];
  bool good = true;
  for (int i = 0; i < RANKS; i++)
    pthread_create(&threads[i], NULL, run, &ranks[i]);
  for (int i = 0; i < RANKS; i++) {
    pthread_join(threads[i], NULL);
    good &= ranks[i].good;
  }
  return good;
}

static inline bool run_threads(void) { return run_all(run_rank); }

/* Runs the steps of all ranks on this thread, each in a group. True if all are exact. */
static inline bool run_groups(int from, int to) {
  bool good = true;
  for (int step = from; step < to; step++) {
    for (int i = 0; i < RANKS; i++)
      fill(&ranks[i], step);
    good &= ncclGroupStart() == ncclSuccess;
    for (int i = 0; i < RANKS; i++)
      good &= reduce_scatter(&ranks[i]) == ncclSuccess;
    ncclResult_t status = ncclGroupEnd();
    for (int i = 0; i < RANKS; i++)
      good &= settled(&ranks[i], status) == ncclSuccess && is_sum(&ranks[i], step);
  }
  return good;
}

static inline void adopt(const ncclComm_t *comms, int steps) {
  for (int i = 0; i < RANKS; i++) {
    ranks[i].comm = comms[i];
    ranks[i].rank = i;
    ranks[i].steps = steps;
    ranks[i].begun = 0;
    if (!ranks[i].send) {
      ranks[i].send = malloc(sizeof(float) * N * RANKS);
      ranks[i].out = malloc(sizeof(float) * N * RANKS);
    }
  }
}

/* Makes new communicators for the ranks. */
static inline bool start(int steps) {
  ncclComm_t comms[RANKS];
  if (ncclCommInitAll(comms, RANKS, NULL) != ncclSuccess)
    return false;
  adopt(comms, steps);
  return true;
}

static inline void finish(void) {
  ncclGroupStart();
  for (int i = 0; i < RANKS; i++)
    ncclCommDestroy(ranks[i].comm);
  ncclGroupEnd();
}

static inline int done(void) {
  for (int i = 0; i < RANKS; i++) {
    free(ranks[i].send);
    free(ranks[i].out);
  }
  return tap_done();
}

#endif
