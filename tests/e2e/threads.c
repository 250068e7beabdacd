/* SPDX-License-Identifier: BSD-3-Clause
 * Several communicators in one process: a thread a rank, one thread for all ranks (groups over two communicators), and a
 * watchdog that aborts a communicator while another thread is blocked in a call on it.
 */
#include "tests/e2e/inprocess.h"

static void thread_a_rank(void)
{
  bool good = start(STEPS) && run_threads();
  finish();
  ok(good, "a thread a rank: %d steps are exact", STEPS);
}

static void one_thread(void)
{
  bool good = start(0) && run_groups(0, STEPS);
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
  thread_a_rank();
  one_thread();
  abort_under_way(1, "a plain call");
  abort_under_way(STEPS, "a compressed call");
  return done();
}
