/* SPDX-License-Identifier: BSD-3-Clause
 * Runs training steps on two communicators, the world and its halves, with gradients that every rank knows. Then checks
 * the files of TAGC_DUMP. The halves are both communicator 1 of their processes, and have equal ranks and slots.
 *
 *   dump STEPS                 only trains; prints a hash of all results to compare runs
 *   dump STEPS PREFIX          and checks the files: those of one step, to the last byte
 *   dump STEPS PREFIX stages   the same on the halves alone: both are communicator 0 then, as in stages of a pipeline
 *   dump STEPS PREFIX abort    another thread aborts the communicator while its gradient is being written
 */
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/e2e/harness.h"

enum { UNITS = 2, SIDES = 2 };

static const size_t sizes[UNITS] = {3000, 5001};
static float *gradient, *result;
static int first_side; /* 1: the halves alone */

static bool aborts;
static atomic_bool aborted;

static void *abort_world(void *unused) {
  ncclCommAbort(world);
  atomic_store(&aborted, true);
  return unused;
}

/* The library writes with it. The sleep lets an abort return too early; the program could then free the buffer. */
ssize_t write(int file, const void *data, size_t size) {
  pthread_t thread;
  if (aborts && data == gradient) {
    if (pthread_create(&thread, NULL, abort_world, NULL) != 0)
      _exit(1);
    usleep(200000);
    if (atomic_load(&aborted))
      dprintf(1, "# rank %d: the abort has returned while the gradient was read\n", rank);
    _exit(atomic_load(&aborted) ? 1 : 42); /* the thread goes with it */
  }
  return syscall(SYS_write, file, data, size);
}

/* Depends on the communicator, so the files of one differ from the other's. */
static float gradient_at(int side, uint64_t step, int unit, size_t i) {
  uint64_t h = mix(mix((uint64_t)rank << 40 ^ step << 16 ^ (uint64_t)(2 * unit + side)) ^ i);
  return (float)(int64_t)(h & 0xffffff) / 8388608 - 1;
}

static uint64_t train(ncclComm_t *comms, uint64_t steps) {
  uint64_t h = 0;
  for (uint64_t step = 0; step < steps; step++)
    for (int side = first_side; side < SIDES; side++) {
      int n = nranks;
      CHECK(ncclCommCount(comms[side], &n));
      for (int u = 0; u < UNITS; u++)
        CHECK(ncclAllGather(result, gradient, sizes[u], ncclFloat32, comms[side], NULL));
      for (int u = UNITS; u-- > 0;) {
        for (size_t i = 0; i < sizes[u] * (size_t)n; i++)
          gradient[i] = gradient_at(side, step, u, i);
        CHECK(ncclReduceScatter(gradient, result, sizes[u], ncclFloat32, ncclSum, comms[side], NULL));
        for (size_t i = 0; i < sizes[u]; i++)
          h = mix(h ^ float_to_bits(result[i]));
      }
    }
  return h;
}

/* Returns the step whose gradient is the whole file, or -1. */
static int64_t step_of(const char *path, int side, int unit, size_t count, uint64_t steps) {
  FILE *file = fopen(path, "rb");
  size_t got = file ? fread(result, sizeof *result, count, file) : 0;
  int more = file ? fgetc(file) : 0;
  if (file)
    fclose(file);
  for (uint64_t step = 0; step < steps && got == count && more == EOF; step++) {
    size_t i = 0;
    while (i < count && float_to_bits(result[i]) == float_to_bits(gradient_at(side, step, unit, i)))
      i++;
    if (i == count)
      return (int64_t)step;
  }
  fprintf(stderr, "%s is not what was sent\n", path);
  return -1;
}

/* Finds the one file of this process that matches the pattern. */
static void find_file(const char *pattern, char *path, size_t size) {
  glob_t found = {0};
  int status = glob(pattern, 0, NULL, &found);
  snprintf(path, size, "%s", status == 0 && found.gl_pathc == 1 ? found.gl_pathv[0] : pattern);
  globfree(&found);
}

static void check_files(ncclComm_t *comms, const char *prefix, uint64_t steps) {
  for (int side = first_side; side < SIDES; side++) {
    int64_t first = -1;
    bool good = true, closed = true;
    for (int u = 0; u < UNITS; u++) {
      char pattern[500], path[500];
      int n, r;
      struct stat status;
      CHECK(ncclCommCount(comms[side], &n));
      CHECK(ncclCommUserRank(comms[side], &r));
      snprintf(pattern, sizeof pattern, "%s-*-pid%d-comm%d-rank%d-unit%d-fp32-W%d-n%zu.raw", prefix, (int)getpid(),
               side - first_side, r, u, n, sizes[u]);
      find_file(pattern, path, sizeof path);
      int64_t step = step_of(path, side, u, sizes[u] * (size_t)n, steps);
      good &= step >= 0 && (u == 0 || step == first);
      first = step;
      closed &= stat(path, &status) == 0 && (status.st_mode & 0777) == 0600;
    }
    all_ok(good, "communicator %d: the files hold what was sent in one step", side);
    all_ok(closed, "communicator %d: nobody else may read them", side);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: dump STEPS [PREFIX [stages|abort]]\n");
    return 2;
  }
  const uint64_t steps = strtoull(argv[1], NULL, 10);
  first_side = argc > 3 && strcmp(argv[3], "stages") == 0;
  aborts = argc > 3 && !first_side;
  meet();
  ncclComm_t comms[SIDES] = {world, NULL};
  CHECK(ncclCommSplit(world, rank / 2, rank, &comms[1], NULL));
  gradient = calloc(sizes[1] * (size_t)nranks, sizeof *gradient);
  result = calloc(sizes[1] * (size_t)nranks, sizeof *result);
  uint64_t h = train(comms, steps), all = 0;
  CHECK(ncclAllReduce(&h, &all, 1, ncclUint64, ncclSum, world, NULL));
  if (rank == 0)
    printf("# hash %016llx\n", (unsigned long long)all);
  if (argc > 2)
    check_files(comms, argv[2], steps);
  free(gradient);
  free(result);
  CHECK(ncclCommDestroy(comms[1]));
  return finish();
}
