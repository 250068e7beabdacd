/* SPDX-License-Identifier: BSD-3-Clause
 * Threads that all call NCCL for the first time at once. Some ask a handle for its functions by name, some use a
 * library that is linked with it. All must reach the same NCCL.
 *
 *   first_calls NCCL PLUGIN
 */
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 8, CALLS = 200 };

static pthread_barrier_t together;
static void *handles[2];
static atomic_int failures;

static void *run(void *argument) {
  int by_name = *(const int *)argument % 2 == 0;
  void *handle = handles[by_name ? 0 : 1];
  pthread_barrier_wait(&together);
  for (int i = 0; i < CALLS; i++) {
    void *functions[] = {dlsym(handle, by_name ? "ncclGroupStart" : "plugin_ncclGroupStart"),
                         dlsym(handle, by_name ? "ncclGroupEnd" : "plugin_ncclGroupEnd")};
    ncclResult_t (*start)(void) = (ncclResult_t(*)(void))functions[0];
    ncclResult_t (*end)(void) = (ncclResult_t(*)(void))functions[1];
    failures += !start || !end || start() != ncclSuccess || end() != ncclSuccess;
  }
  return NULL;
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  for (int i = 0; i < 2; i++)
    if (argc != 3 || !(handles[i] = dlopen(argv[i + 1], RTLD_NOW | RTLD_LOCAL)))
      return fprintf(stderr, "usage: first_calls NCCL PLUGIN (%s)\n", argc == 3 ? dlerror() : "two libraries"), 2;
  pthread_barrier_init(&together, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    if (pthread_create(&threads[i], NULL, run, &numbers[i]) != 0)
      return 2;
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  return failures != 0;
}
