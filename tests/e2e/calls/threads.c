/* SPDX-License-Identifier: BSD-3-Clause
 * Several communicators in one process: one thread per rank, one thread for all ranks (groups over two communicators),
 * and a watchdog that aborts a communicator while another thread is blocked in a call on it, or between two exchanges.
 */
#include <signal.h>
#include <sys/mman.h>

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

/* Memory whose first reader stays there until it is let go. */
enum { GATED = sizeof(float) * N * RANKS };
static float *gated;
static atomic_bool reached, let_go;

static void stay(int signal_, siginfo_t *info, void *context) {
  (void)context;
  if ((char *)info->si_addr < (char *)gated || (char *)info->si_addr >= (char *)gated + GATED) {
    signal(signal_, SIG_DFL);
    return;
  }
  atomic_store(&reached, true);
  while (!atomic_load(&let_go))
    pause_briefly();
  mprotect(gated, GATED, PROT_READ | PROT_WRITE);
}

static void *run_call(void *argument) {
  struct rank *r = argument;
  r->last = reduce_scatter(r);
  return NULL;
}

struct shrinking {
  ncclComm_t rest;
  ncclResult_t status;
  atomic_bool over;
};

static void *shrink(void *argument) {
  struct shrinking *s = argument;
  int lost[] = {1};
  s->status = ncclCommShrink(ranks[0].comm, lost, 1, &s->rest, NULL, NCCL_SHRINK_ABORT);
  atomic_store(&s->over, true);
  return NULL;
}

/* NCCL takes the abort of such a shrink back. If rank 0 went on after it, its call and rank 1's would succeed. */
static void shrink_under_way(void) {
  struct sigaction staying = {.sa_sigaction = stay, .sa_flags = SA_SIGINFO}, before;
  struct shrinking shrinking = {.over = false};
  pthread_t threads[RANKS], shrinker;
  bool good = start(0) && run_groups(0, STEPS);
  float *own = ranks[0].send;
  gated = ranks[0].send = mmap(NULL, GATED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < RANKS; i++)
    fill(&ranks[i], STEPS);
  sigaction(SIGSEGV, &staying, &before);
  mprotect(gated, GATED, PROT_NONE);
  pthread_create(&threads[0], NULL, run_call, &ranks[0]);
  while (!atomic_load(&reached))
    pause_briefly();
  pthread_create(&shrinker, NULL, shrink, &shrinking);
  for (int i = 0; i < 1000 && !atomic_load(&shrinking.over); i++) /* with the library it waits for the reader */
    pause_briefly();
  atomic_store(&let_go, true);
  pthread_join(shrinker, NULL);
  pthread_create(&threads[1], NULL, run_call, &ranks[1]);
  pthread_join(threads[0], NULL);
  good &= shrinking.status == ncclSuccess && ranks[0].last != ncclSuccess;
  good &= ncclCommAbort(ranks[1].comm) == ncclSuccess;
  pthread_join(threads[1], NULL);
  good &= ncclCommDestroy(shrinking.rest) == ncclSuccess && ncclCommDestroy(ranks[0].comm) == ncclSuccess;
  sigaction(SIGSEGV, &before, NULL);
  munmap(gated, GATED);
  ranks[0].send = own;
  ok(good, "a shrink that aborts, while a thread reads gradients: the call ends with error %d", ranks[0].last);
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
  shrink_under_way();
  thread_a_rank();
  return done();
}
