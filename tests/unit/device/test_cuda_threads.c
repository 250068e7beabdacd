/* SPDX-License-Identifier: BSD-3-Clause
 * The table of a CUDA device on streams of every kind, from several threads, for several devices at once, and during
 * captures.
 */
#include <pthread.h>

#include "tests/unit/device/cuda_child.h"
#include "tests/unit/device/life.h"

static void any_stream(void) {
  const struct tagc_device *d = life_device(0);
  struct sim sim = life_sim("q8", TAGC_STORAGE_BF16);
  CUstream prior;
  device_open(0);
  MUST(cuStreamCreateWithPriority(&prior, CU_STREAM_NON_BLOCKING, -1));
  void *const streams[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, prior, device_stream(0)};
  for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
    EXPECT(life_whole(d, &sim, 1, streams[i]));
  MUST(cuCtxSetCurrent(NULL)); /* a thread without a context, also afterwards */
  CUcontext current = (CUcontext)1;
  EXPECT(life_whole(d, &sim, 1, NULL));
  MUST(cuCtxGetCurrent(&current));
  EXPECT(!current);
  sim_free(&sim);
}

static struct sim of_threads; /* they only read it */

static void *live_on(void *ordinal) {
  const struct tagc_device *d = tagc_device_cuda((int)(intptr_t)ordinal);
  bool good = d != NULL;
  for (int i = 0; i < 2 && good; i++)
    good = life_whole(d, &of_threads, 1, CU_STREAM_PER_THREAD);
  return good ? NULL : ordinal;
}

enum { DEVICES = 2, THREADS = 4 };

static void threads(void) {
  pthread_t thread[THREADS];
  unsetenv("CUDA_STANDIN_KERNELS");
  of_threads = life_sim("q2", TAGC_STORAGE_INT8);
  for (intptr_t i = 0; i < THREADS; i++)
    EXPECT(pthread_create(&thread[i], NULL, live_on, (void *)(i % DEVICES)) == 0);
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    EXPECT(pthread_join(thread[i], &failed) == 0 && !failed);
  }
  EXPECT(tagc_device_cuda(0) == tagc_device_cuda(0) && tagc_device_cuda(0) != tagc_device_cuda(1));
}

/* From the set-up on, on this thread and on others, during a capture: the graph stays complete. */
static void during_captures(void) {
  CUgraph graph;
  pthread_t thread;
  void *failed;
  of_threads = life_sim("q2", TAGC_STORAGE_INT8);
  unsetenv("CUDA_STANDIN_KERNELS");
  device_open(0);
  CUstream captured = device_stream(CU_STREAM_NON_BLOCKING), stream = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr buffer = device_buffer(100);
  MUST(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT(pthread_create(&thread, NULL, live_on, (void *)0) == 0 && pthread_join(thread, &failed) == 0 && !failed);
  EXPECT(life_whole(life_device(0), &of_threads, 1, stream));
  MUST(cuMemsetD8Async(buffer, 1, 100, captured));
  CUresult refused = cuMemAlloc_v2(&buffer, 100); /* the thread's mode is restored */
  EXPECT(refused == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED || refused == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  cuStreamEndCapture(captured, &graph);
}

static void captures_whole(void) {
  struct sim sim = life_sim("q8", TAGC_STORAGE_FP32);
  CUgraph graph;
  unsetenv("CUDA_STANDIN_KERNELS");
  device_open(0);
  CUstream captured = device_stream(CU_STREAM_NON_BLOCKING), stream = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr buffer = device_buffer(100);
  for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
    MUST(cuStreamBeginCapture_v2(captured, (CUstreamCaptureMode)mode));
    EXPECT(life_whole(life_device(0), &sim, 1, stream));
    MUST(cuMemsetD8Async(buffer, 1, 100, captured));
    MUST(cuStreamEndCapture(captured, &graph));
    MUST(cuGraphDestroy(graph));
  }
  sim_free(&sim);
}

int main(void) {
  lives("CUDA_STANDIN_DELAY=100", any_stream, "streams of every kind, and a thread without a context");
  lives("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_DELAY=100", threads, "several devices, each by several threads");
  lives("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_POOLS=0", threads, "without pools, too");
  lives("", during_captures, "a thread captures meanwhile");
  lives("", captures_whole, "and its graphs are whole");
  return tap_done();
}
