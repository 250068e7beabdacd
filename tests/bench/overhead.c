/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the host time of a call that the library lets pass, in nanoseconds: all-gathers, and reduce-scatters below
 * TAGC_MIN_BYTES, of no and of a few elements. Run it plain and preloaded (overhead_lib.sh does); the difference is the
 * library's cost per call.
 *
 *   overhead host|cuda BURSTS        two ranks or more, as torchrun starts them; cuda: memory and a stream of the GPU
 *                                    LOCAL_RANK
 *
 * Calls come in bursts of one kind. The wait for their enqueued work is outside of the time. A kind's time is the mean
 * of its fastest burst, on rank 0, which prints "KIND ELEMENTS NS" for each. On host memory the stand-in for NCCL
 * finishes a call before it returns. There, calls of a few elements measure the other ranks rather than the library.
 */
#include <dlfcn.h>
#include <time.h>

#include "tests/e2e/harness.h"

enum { BURST = 32, MOST = 64, KINDS = 4, BYTES = 1 << 20 };

static const struct {
  const char *name;
  bool gathers;
  size_t n;
} kinds[KINDS] = {
  {"all-gather", true, 0},
  {"all-gather", true, MOST},
  {"reduce-scatter", false, 0},
  {"reduce-scatter", false, MOST},
};

static struct {
  float *send, *recv; /* BYTES each */
  cudaStream_t stream;
  int (*synchronize)(void *stream);
} memory;

static int synchronize_host(void *stream) {
  (void)stream;
  return 0;
}

static void need(int error, const char *what) {
  if (error) {
    fprintf(stderr, "%s: CUDA error %d\n", what, error);
    exit(1);
  }
}

static void find(void *driver, const char *name, void *function) {
  if (!driver || !(*(void **)function = dlsym(driver, name))) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
}

/* Makes the primary context current, as the CUDA runtime does for a program. */
static void use_cuda(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL, *stream = NULL;
  uint64_t send = 0, recv = 0;
  int (*init)(unsigned), (*count)(int *), (*retain)(void **, int), (*set)(void *), (*create)(void **, unsigned);
  int (*alloc)(uint64_t *, size_t), gpus = 1;
  const char *number = getenv("LOCAL_RANK");
  find(driver, "cuInit", &init);
  find(driver, "cuDeviceGetCount", &count);
  find(driver, "cuDevicePrimaryCtxRetain", &retain);
  find(driver, "cuCtxSetCurrent", &set);
  find(driver, "cuStreamCreate", &create);
  find(driver, "cuMemAlloc_v2", &alloc);
  find(driver, "cuStreamSynchronize", &memory.synchronize);
  need(init(0), "cuInit");
  need(count(&gpus), "cuDeviceGetCount");
  need(retain(&context, (number ? atoi(number) : 0) % gpus), "cuDevicePrimaryCtxRetain");
  need(set(context), "cuCtxSetCurrent");
  need(create(&stream, 1), "cuStreamCreate");
  need(alloc(&send, BYTES), "cuMemAlloc");
  need(alloc(&recv, BYTES), "cuMemAlloc");
  memory.stream = stream;
  memory.send = (float *)(uintptr_t)send;
  memory.recv = (float *)(uintptr_t)recv;
}

static void use_host(void) {
  memory.synchronize = synchronize_host;
  memory.send = calloc(1, BYTES);
  memory.recv = calloc(1, BYTES);
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Returns the nanoseconds of each call. */
static double time_burst(bool gathers, size_t n) {
  ncclResult_t status = ncclSuccess;
  const double began = now_ns();
  for (int i = 0; i < BURST && status == ncclSuccess; i++)
    status = gathers ? ncclAllGather(memory.send, memory.recv, n, ncclFloat32, world, memory.stream)
                     : ncclReduceScatter(memory.send, memory.recv, n, ncclFloat32, ncclSum, world, memory.stream);
  const double each = (now_ns() - began) / BURST;
  CHECK(status);
  need(memory.synchronize(memory.stream), "cuStreamSynchronize");
  return each;
}

int main(int argc, char **argv) {
  const bool host = argc == 3 && strcmp(argv[1], "host") == 0;
  const int bursts = argc == 3 ? atoi(argv[2]) : 0;
  double best[KINDS] = {1e30, 1e30, 1e30, 1e30};
  if (bursts < 1 || (!host && strcmp(argv[1], "cuda") != 0)) {
    fprintf(stderr, "usage: overhead host|cuda BURSTS\n");
    return 2;
  }
  if (host)
    use_host();
  else
    use_cuda();
  meet();
  if ((size_t)nranks * MOST * sizeof(float) > BYTES || !memory.send || !memory.recv)
    return 1;
  for (int burst = 0; burst < bursts; burst++)
    for (int i = 0; i < KINDS; i++) {
      const double each = time_burst(kinds[i].gathers, kinds[i].n);
      best[i] = each < best[i] ? each : best[i];
    }
  for (int i = 0; i < KINDS && rank == 0; i++)
    printf("%s %zu %.1f\n", kinds[i].name, kinds[i].n, best[i]);
  CHECK(ncclCommDestroy(world));
  return 0;
}
