/* SPDX-License-Identifier: BSD-3-Clause
 * The stand-in for the CUDA driver: late work, the order of streams and events, detection of its lack; capture, graphs.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "tests/standin/cuda/standin.h"
#include "tests/unit/device/cuda_child.h"

enum { N = 1024, BYTES = 4 * N };

static void *pinned(void) {
  void *p;
  MUST(cuMemAllocHost_v2(&p, BYTES));
  memset(p, 0, BYTES);
  return p;
}

static void set(CUdeviceptr p, unsigned value, CUstream stream) { MUST(cuMemsetD32Async(p, value, N, stream)); }

static void add(CUdeviceptr p, CUstream stream) { MUST(LAUNCH(device_kernel("places"), 1, N, 0, stream, &p)); }

static void after(CUstream stream, CUstream other) {
  CUevent event = device_event();
  MUST(cuEventRecord(event, other));
  MUST(cuStreamWaitEvent(stream, event, 0));
  MUST(cuEventDestroy_v2(event));
}

static unsigned first_of(CUdeviceptr p) {
  unsigned value;
  device_read(&value, p, sizeof value);
  return value;
}

/* -- lateness ------------------------------------------------------------------------------------------------------ */
static void lazy(void) {
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = device_buffer(BYTES);
  unsigned *host = pinned();
  set(p, 41, stream);
  add(p, stream);
  MUST(cuMemcpyDtoHAsync_v2(host, p, BYTES, stream));
  CUevent event = device_event();
  MUST(cuEventRecord(event, stream));
  usleep(20000);
  EXPECT(host[0] == 0 && cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  MUST(cuEventSynchronize(event));
  EXPECT(host[0] == 42 && host[N - 1] == 41 + N);
  MUST(cuEventQuery(event));
  MUST(cuStreamQuery(stream));
}

/* Pageable memory is read at once, pinned memory when the copy runs. */
static void sources(void) {
  unsigned pageable[2] = {1, 1}, got[4];
  device_open(0);
  CUstream stream = device_stream(0);
  CUdeviceptr p = device_buffer(16);
  unsigned *host = pinned();
  host[0] = host[1] = 1;
  MUST(cuMemcpyHtoDAsync_v2(p, pageable, 8, stream));
  MUST(cuMemcpyHtoDAsync_v2(p + 8, host, 8, stream));
  pageable[0] = host[0] = 2;
  device_read(got, p, 16);
  EXPECT(got[0] == 1 && got[2] == 2);
}

static void polled(void) {
  device_open(0);
  CUstream stream = device_stream(0);
  CUdeviceptr p = device_buffer(BYTES);
  set(p, 1, stream);
  while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
    usleep(100);
  MUST(cuMemFree_v2(p));
  MUST(cuStreamQuery(stream));
}

static void abandoned(void) {
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = device_buffer(BYTES);
  set(p, 6, stream);
  MUST(cuStreamDestroy_v2(stream));
  EXPECT(cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
  EXPECT(first_of(p) == 6);
}

static void times(void) {
  CUevent start, end;
  float milliseconds;
  device_open(0);
  MUST(cuEventCreate(&start, 0));
  MUST(cuEventCreate(&end, 0));
  EXPECT(cuEventElapsedTime(&milliseconds, start, end) == CUDA_ERROR_INVALID_HANDLE);
  MUST(cuEventRecord(start, NULL));
  MUST(cuEventRecord(end, NULL));
  MUST(cuEventSynchronize(end));
  MUST(cuEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds >= 0);
  MUST(cuEventDestroy_v2(start));
  MUST(cuEventDestroy_v2(end));
}

/* -- order --------------------------------------------------------------------------------------------------------- */
static void in_order(void) {
  device_open(0);
  CUstream a = device_stream(CU_STREAM_NON_BLOCKING), b = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr p = device_buffer(BYTES), q = device_buffer(BYTES);
  set(p, 0, a);
  for (unsigned round = 0; round < 20; round++) {
    add(p, a);
    after(b, a);
    MUST(cuMemcpyDtoDAsync_v2(q, p, BYTES, b));
    add(q, b);
    after(a, b);
    MUST(cuMemcpyDtoDAsync_v2(p, q, BYTES, a));
  }
  EXPECT(first_of(p) == 40);
}

/* The legacy stream is in order with all blocking streams. */
static void legacy(void) {
  device_open(0);
  CUstream a = device_stream(CU_STREAM_DEFAULT), b = device_stream(CU_STREAM_DEFAULT);
  CUdeviceptr p = device_buffer(BYTES);
  set(p, 0, a);
  for (unsigned round = 0; round < 20; round++) {
    add(p, NULL);
    add(p, round % 2 ? a : CU_STREAM_PER_THREAD);
    add(p, CU_STREAM_LEGACY);
    add(p, b);
  }
  MUST(cuStreamSynchronize(CU_STREAM_LEGACY));
  EXPECT(first_of(p) == 80);
}

static void *per_thread(void *context) {
  CUstream stream = CU_STREAM_PER_THREAD;
  MUST(cuCtxSetCurrent(context));
  CUdeviceptr p = device_buffer(BYTES);
  set(p, 3, stream);
  MUST(cuStreamSynchronize(stream));
  return (void *)(uintptr_t)p;
}

static void threads(void) {
  pthread_t thread;
  void *p;
  CUcontext context = device_open(0);
  EXPECT(pthread_create(&thread, NULL, per_thread, context) == 0 && pthread_join(thread, &p) == 0);
  EXPECT(first_of((uintptr_t)p) == 3);
}

/* -- what is not in order ------------------------------------------------------------------------------------------ */
static struct {
  CUstream a, b;
  CUdeviceptr p, q;
} o;

static void two_streams(unsigned flags) {
  device_open(0);
  o.a = device_stream(flags);
  o.b = device_stream(flags);
  o.p = device_buffer(BYTES);
  o.q = device_buffer(BYTES);
}

static void read_too_early(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  add(o.p, o.a);
  MUST(cuMemcpyDtoDAsync_v2(o.q, o.p, BYTES, o.b));
}

static void write_too_early(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  MUST(cuMemcpyDtoDAsync_v2(o.q, o.p, BYTES, o.a));
  add(o.p, o.b);
}

static void free_too_early(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  add(o.p, o.a);
  MUST(cuMemFreeAsync(o.p, o.b));
}

static void use_too_early(void) {
  CUdeviceptr p;
  two_streams(CU_STREAM_NON_BLOCKING);
  MUST(cuMemAllocAsync(&p, BYTES, o.a));
  add(p, o.b);
}

static void use_after_free(void) {
  CUdeviceptr p;
  two_streams(CU_STREAM_NON_BLOCKING);
  MUST(cuMemAllocAsync(&p, BYTES, o.a));
  MUST(cuMemFreeAsync(p, o.a));
  add(p, o.a);
}

/* The legacy stream does not wait for non-blocking streams. */
static void legacy_too_early(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  add(o.p, o.a);
  add(o.p, NULL);
}

static void old_event(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  CUevent event = device_event();
  MUST(cuEventRecord(event, o.a));
  add(o.p, o.a);
  MUST(cuStreamWaitEvent(o.b, event, 0));
  add(o.p, o.b);
}

/* A structure's pointers count. */
static void in_structure(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  struct {
    CUdeviceptr x, counts;
    unsigned n, bins;
  } arguments = {o.p, o.q, N, 16};
  MUST(LAUNCH(device_kernel("histogram"), 1, 32, 64, o.a, &arguments));
  set(o.q, 0, o.b);
}

static void seen_twice(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  set(o.p, 1, o.a);
  after(o.b, o.a);
  MUST(cuMemcpyDtoDAsync_v2(o.q, o.p, BYTES, o.a)); /* two readers do no harm... */
  MUST(cuMemcpyDtoDAsync_v2(o.q + BYTES / 2, o.p, 0, o.b));
  MUST(cuMemcpyAsync(device_buffer(BYTES), o.p, BYTES, o.b));
  after(o.a, o.b);
  set(o.p, 2, o.a); /* ... if the writer comes after both */
  set(o.p, 3, o.b); /* and this is too early */
}

/* A second reader does not hide the first. */
static void hidden_reader(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  MUST(cuMemcpyDtoDAsync_v2(o.q, o.p, BYTES, o.a));
  MUST(cuMemcpyDtoDAsync_v2(device_buffer(BYTES), o.p, BYTES, o.b));
  set(o.p, 1, o.b);
}

/* Nor does a write to one half hide that to the other. */
static void hidden_half(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  set(o.p, 1, o.a);
  MUST(cuMemsetD8Async(o.p, 1, BYTES / 2, o.a));
  MUST(cuMemcpyDtoDAsync_v2(o.q, o.p + BYTES / 2, BYTES / 2, o.b));
}

static void well_ordered(void) {
  CUdeviceptr r;
  two_streams(CU_STREAM_NON_BLOCKING);
  MUST(cuMemsetD8Async(o.p, 1, BYTES / 2, o.a)); /* two halves */
  MUST(cuMemsetD8Async(o.p + BYTES / 2, 1, BYTES / 2, o.b));
  MUST(cuStreamSynchronize(o.a));
  MUST(cuMemsetD8Async(o.p, 2, BYTES / 2, o.b)); /* the host has waited */
  MUST(cuStreamSynchronize(o.b));
  MUST(cuMemAllocAsync(&r, BYTES, o.a));
  after(o.b, o.a);
  add(r, o.b);
  after(o.a, o.b);
  MUST(cuMemFreeAsync(r, o.a));
  MUST(cuMemFree_v2(o.p));
  MUST(cuCtxSynchronize());
}

/* -- functions of the host ----------------------------------------------------------------------------------------- */
static atomic_uint seen;

static void look(void *p) { seen = *(unsigned *)standin_cuda_view(*(CUdeviceptr *)p, 4); }

static void host_functions(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  set(o.p, 8, o.a);
  add(o.p, o.a);
  MUST(cuLaunchHostFunc(o.a, look, &o.p));
  MUST(cuStreamSynchronize(o.a));
  EXPECT(seen == 9);
  EXPECT(!standin_cuda_view(o.p, BYTES + 1) && standin_cuda_view((uintptr_t)&o, 1) == &o);
}

static void host_function_too_early(void) {
  two_streams(CU_STREAM_NON_BLOCKING);
  set(o.p, 8, o.a);
  struct standin_cuda_access access = {o.p, 4, 0};
  MUST(standin_cuda_launch(o.b, "a send", look, NULL, &o.p, &access, 1));
}

/* -- capture and graphs -------------------------------------------------------------------------------------------- */
static CUgraph graph;

static void begin(CUstreamCaptureMode mode) {
  two_streams(CU_STREAM_NON_BLOCKING);
  set(o.p, 5, o.a);
  MUST(cuStreamSynchronize(o.a));
  MUST(cuStreamBeginCapture_v2(o.a, mode));
}

static void graphs(void) {
  CUgraphExec exec;
  CUstreamCaptureStatus status;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  MUST(cuThreadExchangeStreamCaptureMode(&relaxed));
  add(o.p, o.a); /* loads a module */
  after(o.b, o.a);
  MUST(cuStreamIsCapturing(o.b, &status));
  EXPECT(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  MUST(cuMemcpyDtoDAsync_v2(o.q, o.p, BYTES, o.b));
  after(o.a, o.b);
  add(o.q, o.a);
  MUST(cuStreamEndCapture(o.a, &graph));
  MUST(cuStreamIsCapturing(o.b, &status));
  EXPECT(status == CU_STREAM_CAPTURE_STATUS_NONE && first_of(o.p) == 5);
  MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
  MUST(cuGraphDestroy(graph));
  for (int i = 0; i < 3; i++)
    MUST(cuGraphLaunch(exec, o.b));
  MUST(cuGraphExecDestroy(exec)); /* a launched graph runs all the same */
  EXPECT(first_of(o.p) == 8 && first_of(o.q) == 9);
}

static void graph_too_early(void) {
  CUgraphExec exec;
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  add(o.p, o.a);
  MUST(cuStreamEndCapture(o.a, &graph));
  MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
  set(o.p, 1, o.a);
  MUST(cuGraphLaunch(exec, o.b));
}

static void expect_end(CUresult result) {
  EXPECT(cuStreamEndCapture(o.a, &graph) == result && (result != CUDA_SUCCESS) == !graph);
}

static void spoiled(void) {
  CUdeviceptr p;
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT(cuStreamSynchronize(o.a) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT(cuMemsetD8Async(o.p, 1, 1, o.a) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT(cuMemAlloc_v2(&p, 1) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT(cuMemAlloc_v2(&p, 1) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  MUST(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  MUST(cuMemAlloc_v2(&p, 1));
  MUST(cuThreadExchangeStreamCaptureMode(&mode));
  expect_end(CUDA_SUCCESS);
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  after(o.b, o.a);
  set(o.q, 1, o.b);
  EXPECT(cuStreamEndCapture(o.b, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  after(o.b, o.a);
  set(o.q, 1, o.b);
  expect_end(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

static void *end_elsewhere(void *context) {
  MUST(cuCtxSetCurrent(context));
  EXPECT(cuStreamEndCapture(o.a, &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  return NULL;
}

static void other_thread(void) {
  pthread_t thread;
  CUcontext context = device_open(0);
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT(pthread_create(&thread, NULL, end_elsewhere, context) == 0 && pthread_join(thread, NULL) == 0);
  expect_end(CUDA_SUCCESS);
}

static void between_captures(void) {
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  CUevent outside = device_event(), inside = device_event();
  MUST(cuEventRecord(outside, o.b));
  MUST(cuEventRecord(inside, o.a));
  EXPECT(cuEventQuery(inside) == CUDA_ERROR_CAPTURED_EVENT && cuEventSynchronize(inside) == CUDA_ERROR_CAPTURED_EVENT);
  EXPECT(cuStreamWaitEvent(o.a, outside, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  MUST(cuStreamBeginCapture_v2(o.b, CU_STREAM_CAPTURE_MODE_RELAXED));
  MUST(cuEventRecord(inside, o.b));
  EXPECT(cuStreamWaitEvent(o.a, inside, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
  expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void legacy_in_capture(void) {
  CUstreamCaptureStatus status;
  two_streams(CU_STREAM_DEFAULT);
  MUST(cuStreamBeginCapture_v2(o.a, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT(cuStreamIsCapturing(NULL, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  set(o.p, 1, o.a);
  EXPECT(cuMemsetD8Async(o.p, 1, 1, NULL) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  expect_end(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

#define NOT_IN_ORDER "without being in order after"

int main(void) {
  static const char *const delays[] = {"", "CUDA_STANDIN_DELAY=500 CUDA_STANDIN_SEED=7", "CUDA_STANDIN_LAZY=1"};
  lives("CUDA_STANDIN_LAZY=1", lazy, "nothing runs before somebody waits for it");
  lives("CUDA_STANDIN_LAZY=1", polled, "or asks for it");
  lives("CUDA_STANDIN_LAZY=1", sources, "pageable memory is copied at once, pinned memory late");
  lives("CUDA_STANDIN_DELAY=2000", abandoned, "a stream that is destroyed does its work");
  lives("", times, "events take the time");
  for (int i = 0; i < 3; i++) {
    lives(delays[i], in_order, "streams, and events between them, give the order");
    lives(delays[i], legacy, "the legacy stream is in order with blocking streams");
    lives(delays[i], well_ordered, "what is in order is not complained of");
    lives(delays[i], graphs, "graphs run when they are launched, as often as they are");
  }
  lives("", threads, "every thread has a stream of its own");
  dies("", read_too_early, NOT_IN_ORDER, "a read that is not after the write");
  ok(strstr(child_said, "'cuMemcpyDtoDAsync' reads bytes 0 to 4096 of a buffer of 4096") &&
       strstr(child_said, "'places'"),
     "which names both");
  dies("", write_too_early, NOT_IN_ORDER, "a write that is not after the read");
  dies("", free_too_early, NOT_IN_ORDER, "memory that is freed before its use");
  dies("", use_too_early, NOT_IN_ORDER, "memory that is used before it is there");
  dies("", use_after_free, "points to memory that was freed", "memory that is used after it was freed in stream order");
  dies("", legacy_too_early, NOT_IN_ORDER, "the legacy stream and a non-blocking one");
  dies("", old_event, NOT_IN_ORDER, "an event that was recorded too early");
  dies("", in_structure, NOT_IN_ORDER, "pointers in a structure");
  dies("", seen_twice, "'cuMemsetD32Async' writes", "a write after two readers, too early");
  dies("", hidden_reader, "'cuMemsetD32Async' writes", "a write after one of two readers");
  dies("", hidden_half, NOT_IN_ORDER, "a read of a half that was not written again");
  dies("", graph_too_early, NOT_IN_ORDER, "a graph that is launched too early");
#ifndef __SANITIZE_THREAD__ /* it detects this very race */
  lives("CUDA_STANDIN_ORDER=0", read_too_early, "and all that can be switched off");
#endif
  lives("", host_functions, "functions of the host");
  dies("", host_function_too_early, "'a send' reads", "functions of the host that work on device memory");
  lives("", spoiled, "what spoils a capture, or leaves it unjoined");
  lives("", other_thread, "a capture that is not relaxed ends in the thread that began it");
  lives("", between_captures, "captures keep apart from what is outside of them");
  lives("", legacy_in_capture, "the legacy stream while a blocking stream is captured");
  return tap_done();
}
