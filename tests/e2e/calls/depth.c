/* SPDX-License-Identifier: BSD-3-Clause
 * Calls in many pieces (TAGC_DEPTH).
 *
 *   depth hash STEPS [in place|all reduce]
 *                       under tests/standin/launch: a hash of one unit's results on all ranks
 *   depth abort TIMES   two ranks in this process: aborts rank 0's communicator during a call that rank 1 does not
 *                       join, and frees the buffers as soon as the abort returns
 *   depth fork          forks a child in the middle of a training: it ends, and its parent goes on
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/harness.h"

/* Elements that an abort meets, and the unit of its moments. */
#ifdef __SANITIZE_THREAD__ /* work on a call takes ten times as long */
enum { LARGE = 1 << 18, MOMENT_NS = 62500 };
#else
enum { LARGE = 8 << 20, MOMENT_NS = 250000 };
#endif
enum { N = 150001, LEARNING = 6 };

/* ---- hash, fork -------------------------------------------------------------------------------------------------- */

static void fill(float *gradient, size_t n, int which, uint64_t step) {
  for (size_t i = 0; i < n * (size_t)nranks; i++) {
    const uint64_t h = draw(mix((uint64_t)which << 40 ^ step), i);
    const float x = (float)(int64_t)(h & 0xffffff) / 8388608 - 1;
    gradient[i] = x * x * x;
  }
}

static uint64_t train_replicas(uint64_t from, uint64_t to) {
  const size_t n = (size_t)N * (size_t)nranks + 1; /* and a tail */
  float *gradient = calloc(n + (size_t)nranks, sizeof *gradient), *result = malloc(sizeof(float) * n);
  uint64_t h = 0, all = 0;
  for (uint64_t step = from; step < to; step++) {
    fill(gradient, N + 1, rank, step);
    CHECK(ncclAllReduce(gradient, result, n, ncclFloat32, ncclAvg, world, NULL));
    for (size_t i = 0; i < n; i++)
      h = mix(h ^ float_to_bits(result[i]));
  }
  CHECK(ncclAllReduce(&h, &all, 1, ncclUint64, ncclSum, world, NULL));
  free(gradient);
  free(result);
  return all;
}

static uint64_t train(uint64_t from, uint64_t to, int in_place) {
  float *gradient = malloc(sizeof(float) * N * (size_t)nranks), *result = malloc(sizeof(float) * N);
  float *to_where = in_place ? gradient + (size_t)rank * N : result;
  uint64_t h = 0, all = 0;
  for (uint64_t step = from; step < to; step++) {
    fill(gradient, N, rank, step);
    CHECK(ncclReduceScatter(gradient, to_where, N, ncclFloat32, ncclAvg, world, NULL));
    for (size_t i = 0; i < N; i++)
      h = mix(h ^ float_to_bits(to_where[i]));
  }
  CHECK(ncclAllReduce(&h, &all, 1, ncclUint64, ncclSum, world, NULL));
  free(gradient);
  free(result);
  return all;
}

static int hash(uint64_t steps, const char *how) {
  meet();
  const uint64_t h = strcmp(how, "all") == 0 ? train_replicas(0, steps) : train(0, steps, strcmp(how, "in") == 0);
  CHECK(ncclCommDestroy(world));
  if (rank == 0)
    printf("hash %016llx\n", (unsigned long long)h);
  return 0;
}

static int fork_in_between(void) {
  int status = -1;
  meet();
  const uint64_t before = train(0, 8, 0);
  const pid_t child = fork();
  if (child == 0)
    exit(0); /* includes the library's work at exit */
  waitpid(child, &status, 0);
  all_ok(child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child of a fork ends");
  all_ok(train(8, 12, 0) != before, "and its parent goes on");
  return finish();
}

/* ---- abort ------------------------------------------------------------------------------------------------------- */

struct half {
  ncclComm_t comm;
  float *send, *out;
  atomic_int calling;
  bool joins; /* the last call, too */
  ncclResult_t last;
  bool good;
};

static float *room(size_t elements) {
  float *memory = mmap(NULL, elements * sizeof *memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

static void *run_half(void *argument) {
  struct half *half = argument;
  half->good = true;
  for (int step = 0; step < LEARNING + half->joins; step++) {
    half->calling = step;
    half->last = ncclReduceScatter(half->send, half->out, LARGE, ncclFloat32, ncclSum, half->comm, NULL);
    half->good &= step >= LEARNING || half->last == ncclSuccess;
  }
  return NULL;
}

/* Aborts rank 0 `ns` nanoseconds after it began a call in which it waits for rank 1. */
static bool abort_after(long ns) {
  struct half halves[2] = {{0}};
  ncclComm_t comms[2];
  pthread_t threads[2];
  if (ncclCommInitAll(comms, 2, NULL) != ncclSuccess)
    return false;
  for (int i = 0; i < 2; i++) {
    halves[i] = (struct half){.comm = comms[i], .send = room(2 * LARGE), .out = room(LARGE), .joins = i == 0};
    for (size_t at = 0; at < 2 * LARGE; at++)
      halves[i].send[at] = (float)(at % 1000) - 500;
    pthread_create(&threads[i], NULL, run_half, &halves[i]);
  }
  pthread_join(threads[1], NULL);
  while (halves[0].calling < LEARNING)
    pause_briefly();
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
  bool good = ncclCommAbort(comms[0]) == ncclSuccess;
  munmap(halves[0].send, sizeof(float) * 2 * LARGE);
  munmap(halves[0].out, sizeof(float) * LARGE);
  pthread_join(threads[0], NULL);
  good &= ncclCommAbort(comms[1]) == ncclSuccess;
  munmap(halves[1].send, sizeof(float) * 2 * LARGE);
  munmap(halves[1].out, sizeof(float) * LARGE);
  return good && halves[0].good && halves[1].good && halves[0].last != ncclSuccess;
}

static int abort_often(int times) {
  int wrong = 0;
  for (int i = 0; i < times; i++)
    wrong += !abort_after((long)MOMENT_NS * i * i);
  ok(wrong == 0, "aborted at %d moments of a call, with the program's buffers gone at once", times);
  return tap_done();
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "hash") == 0)
    return hash(strtoull(argv[2], NULL, 10), argc > 3 ? argv[3] : "");
  if (argc > 2 && strcmp(argv[1], "abort") == 0)
    return abort_often(atoi(argv[2]));
  if (argc > 1 && strcmp(argv[1], "fork") == 0)
    return fork_in_between();
  fprintf(stderr, "usage: depth hash STEPS [in place|all reduce] | abort TIMES | fork\n");
  return 2;
}
