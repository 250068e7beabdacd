/* SPDX-License-Identifier: BSD-3-Clause
 * Several communicators in one process: one thread per rank, one thread for all ranks (groups over two communicators),
 * and a watchdog that aborts a communicator while another thread is blocked in a call on it.
 */
#include "tests/e2e/api/inprocess.h"

static void thread_a_rank(void) {
  bool good = start(STEPS) && run_threads();
  finish();
  ok(good, "a thread a rank: %d steps are exact", STEPS);
}

static void one_thread(void) {
  bool good = start(0) && run_groups(0, STEPS);
  finish();
  ok(good, "one thread for all ranks, a group over their communicators: %d steps are exact", STEPS);
}

/* Every rank is a thread with several communicators, which all call in the same order. */
enum { COMMS = 3 };

struct worker {
  struct rank ranks[COMMS];
  bool good;
};

static void *run_worker(void *argument) {
  struct worker *w = argument;
  w->good = true;
  for (int step = 0; step < STEPS; step++)
    for (int c = 0; c < COMMS; c++) {
      struct rank *r = &w->ranks[c];
      fill(r, step + c);
      w->good &= reduce_scatter(r) == ncclSuccess && is_sum(r, step + c);
    }
  return NULL;
}

static void several_communicators(void) {
  static struct worker workers[RANKS];
  pthread_t threads[RANKS];
  bool good = true;
  for (int c = 0; c < COMMS; c++) {
    good &= start(0);
    for (int i = 0; i < RANKS; i++) {
      workers[i].ranks[c].comm = ranks[i].comm;
      workers[i].ranks[c].rank = i;
      workers[i].ranks[c].send = malloc(sizeof(float) * N * RANKS);
      workers[i].ranks[c].out = malloc(sizeof(float) * N);
    }
  }
  for (int i = 0; i < RANKS; i++)
    pthread_create(&threads[i], NULL, run_worker, &workers[i]);
  for (int i = 0; i < RANKS; i++) {
    pthread_join(threads[i], NULL);
    good &= workers[i].good;
  }
  for (int i = 0; i < RANKS; i++)
    for (int c = 0; c < COMMS; c++) {
      good &= ncclCommDestroy(workers[i].ranks[c].comm) == ncclSuccess;
      free(workers[i].ranks[c].send);
      free(workers[i].ranks[c].out);
    }
  ok(good, "a thread a rank, each with %d communicators: %d steps are exact", COMMS, STEPS);
}

static void *run_rank_in_groups(void *argument) {
  struct rank *r = argument;
  r->good = true;
  for (int step = 0; step < r->steps; step++) {
    fill(r, step);
    r->begun++;
    r->good &= ncclGroupStart() == ncclSuccess && reduce_scatter(r) == ncclSuccess;
    r->last = ncclGroupEnd();
    r->good &= r->last == ncclSuccess && is_sum(r, step);
  }
  return NULL;
}

/* Rank 0 makes one call more than rank 1: it blocks until its communicator is aborted. */
static void abort_under_way(int steps, void *(*run)(void *), const char *what) {
  pthread_t threads[RANKS];
  struct timespec while_it_blocks = {0, 100000000};
  bool good = start(steps);
  ranks[0].steps++;
  for (int i = 0; i < RANKS; i++)
    pthread_create(&threads[i], NULL, run, &ranks[i]);
  pthread_join(threads[1], NULL);
  while (ranks[0].begun <= steps)
    pause_briefly();
  nanosleep(&while_it_blocks, NULL);
  good &= ncclCommAbort(ranks[0].comm) == ncclSuccess;
  pthread_join(threads[0], NULL);
  good &= ranks[0].last != ncclSuccess && ranks[1].good;
  ncclCommAbort(ranks[1].comm);
  ok(good, "a watchdog aborts %s: the blocked thread gets error %d", what, ranks[0].last);
}

int main(void) {
  thread_a_rank();
  one_thread();
  several_communicators();
  abort_under_way(1, run_rank, "a plain call");
  abort_under_way(UNCOMPRESSED, run_rank, "a vote");
  abort_under_way(STEPS, run_rank, "a compressed call");
  abort_under_way(1, run_rank_in_groups, "a plain call in a group");
  abort_under_way(UNCOMPRESSED, run_rank_in_groups, "a vote at the end of a group");
  abort_under_way(STEPS, run_rank_in_groups, "a compressed call in a group");
  thread_a_rank();
  return done();
}
