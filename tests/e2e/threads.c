/* SPDX-License-Identifier: BSD-3-Clause
 * Several communicators in one process: a thread a rank, one thread for all ranks (groups over two communicators), and a
 * watchdog that aborts a communicator while another thread is blocked in a call on it.
 *
 * Run with the library preloaded and TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 TAGC_SPARSITY=0.95.
 */
#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/tap.h"

enum { RANKS = 2, N = 20000, STEPS = 8 };

struct rank {
  ncclComm_t comm;
  int rank, steps;
  float *send, *out;
  bool good;
  ncclResult_t last;
};

static struct rank ranks[RANKS];

static float value(int rank, int step, size_t i) { return i % 61 ? 0 : (float)((int)i / 61 % 13 - 6 + step * (rank + 1)); }

static void fill(struct rank *r, int step)
{
  for (size_t i = 0; i < (size_t)N * RANKS; i++)
    r->send[i] = value(r->rank, step, i);
}

static bool is_sum(const struct rank *r, int step)
{
  for (size_t i = 0; i < N; i++)
    if (r->out[i] != value(0, step, (size_t)r->rank * N + i) + value(1, step, (size_t)r->rank * N + i))
      return false;
  return true;
}

static ncclResult_t reduce_scatter(struct rank *r)
{
  return ncclReduceScatter(r->send, r->out, N, ncclFloat, ncclSum, r->comm, NULL);
}

static void *run_rank(void *argument)
{
  struct rank *r = argument;
  r->good = true;
  for (int step = 0; step < r->steps; step++) {
    fill(r, step);
    r->last = reduce_scatter(r);
    r->good &= r->last == ncclSuccess && is_sum(r, step);
  }
  return NULL;
}

static bool start(int steps)
{
  ncclComm_t comms[RANKS];
  if (ncclCommInitAll(comms, RANKS, NULL) != ncclSuccess)
    return false;
  for (int i = 0; i < RANKS; i++) {
    ranks[i].comm = comms[i];
    ranks[i].rank = i;
    ranks[i].steps = steps;
  }
  return true;
}

static void finish(void)
{
  ncclGroupStart();
  for (int i = 0; i < RANKS; i++)
    ncclCommDestroy(ranks[i].comm);
  ncclGroupEnd();
}

static void thread_a_rank(void)
{
  pthread_t threads[RANKS];
  bool good = start(STEPS);
  for (int i = 0; i < RANKS; i++)
    pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
  for (int i = 0; i < RANKS; i++) {
    pthread_join(threads[i], NULL);
    good &= ranks[i].good;
  }
  finish();
  ok(good, "a thread a rank: %d steps are exact", STEPS);
}

static void one_thread(void)
{
  bool good = start(0);
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < RANKS; i++)
      fill(&ranks[i], step);
    good &= ncclGroupStart() == ncclSuccess;
    for (int i = 0; i < RANKS; i++)
      good &= reduce_scatter(&ranks[i]) == ncclSuccess;
    good &= ncclGroupEnd() == ncclSuccess;
    for (int i = 0; i < RANKS; i++)
      good &= is_sum(&ranks[i], step);
  }
  finish();
  ok(good, "one thread for all ranks, a group over their communicators: %d steps are exact", STEPS);
}

/* Rank 0 makes one call more than rank 1: it blocks until its communicator is aborted. */
static void abort_under_way(int steps, const char *what)
{
  pthread_t threads[RANKS];
  struct timespec while_it_blocks = {0, 500000000};
  bool good = start(steps);
  ranks[0].steps++;
  for (int i = 0; i < RANKS; i++)
    pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
  pthread_join(threads[1], NULL);
  nanosleep(&while_it_blocks, NULL);
  good &= ncclCommAbort(ranks[0].comm) == ncclSuccess;
  pthread_join(threads[0], NULL);
  good &= ranks[0].last != ncclSuccess && ranks[1].good;
  ncclCommAbort(ranks[1].comm);
  ok(good, "a watchdog aborts %s: the blocked thread gets error %d", what, ranks[0].last);
}

int main(void)
{
  for (int i = 0; i < RANKS; i++) {
    ranks[i].send = malloc(sizeof(float) * N * RANKS);
    ranks[i].out = malloc(sizeof(float) * N);
  }
  thread_a_rank();
  one_thread();
  abort_under_way(1, "a plain call");
  abort_under_way(STEPS, "a compressed call");
  for (int i = 0; i < RANKS; i++) {
    free(ranks[i].send);
    free(ranks[i].out);
  }
  return tap_done();
}
