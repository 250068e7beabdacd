/* SPDX-License-Identifier: BSD-3-Clause
 * Steps of a rank on a GPU, as programs vary them: the places of buffers, the streams of calls, the actions in between.
 * Values are small integers and sums exact with TAGC_CODEC=bf16, so only the right sum passes.
 *
 *   device_cases CASE [ARGUMENT]     under tests/standin/launch --cuda; TAGC_ASSUME=gradients
 *
 * A cycle is one reduce-scatter: its fourth call is the first that can be compressed. CASE_ENV=RANK:NAME=VALUE sets a
 * variable of one rank; CASE_CONTEXT=own, or =green, gives it a context of its own with its streams, =green-current
 * also makes that current; CASE_ROUGH=1 accepts the errors of any codec. Status: 0 all sums were right; 4 one was
 * wrong, or the case failed; 3 a call of NCCL failed, and stderr has its name; 1 the program's own call of the driver
 * failed.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "examples/rendezvous.h"
#include "interpose/nccl/nccl_newer.h"
#include "tests/standin/cuda/device.h"
#include "tests/standin/cuda/standin.h"

enum { N = 3000, MOST_RANKS = 4, ROOM = 16, STEPS = 9, VOTE = 3 };

/* A rank: a process, or a thread of one. */
struct rank {
  int rank, nranks;
  ncclComm_t comm;
  void *send, *recv;
  size_t n;
  CUstream stream;
  ncclRedOp_t op;
};

enum place { DEVICE, PINNED, MANAGED, PAGEABLE, ELSEWHERE };

static const char *const places[] = {"device", "pinned", "managed", "pageable", "elsewhere"};

static void must(ncclResult_t status, const char *what) {
  if (status == ncclSuccess)
    return;
  fprintf(stderr, "%s: %s\n", what, ncclGetErrorString(status));
  _exit(3); /* without waiting for the other ranks */
}
#define NCCL(call) must(call, #call)

static void *get(enum place place, size_t bytes) {
  CUdeviceptr memory = 0;
  void *host = NULL;
  switch (place) {
  case DEVICE: MUST(cuMemAlloc_v2(&memory, bytes)); break;
  case MANAGED: MUST(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL)); break;
  case PINNED: MUST(cuMemAllocHost_v2(&host, bytes)); return host;
  case PAGEABLE: return malloc(bytes);
  case ELSEWHERE:
    device_open(1);
    memory = device_buffer(bytes);
    device_open(0);
    break;
  }
  return (void *)(uintptr_t)memory;
}

static void take_buffers(struct rank *r, enum place place, size_t offset) {
  r->send = (char *)get(place, (MOST_RANKS * N + ROOM) * sizeof(float)) + offset;
  r->recv = (char *)get(place, (N + ROOM) * sizeof(float)) + offset;
}

static void copy(void *to, const void *from, size_t bytes, enum place place, bool to_device) {
  if (place == PINNED || place == PAGEABLE)
    memcpy(to, from, bytes);
  else
    MUST(to_device ? cuMemcpyHtoD_v2((uintptr_t)to, from, bytes) : cuMemcpyDtoH_v2(to, (uintptr_t)from, bytes));
}

static float value(int rank, int step, size_t i) {
  return (float)((int)(i * 7 + (size_t)step * 3 + (size_t)rank * 11) % 33 - 16);
}

static void fill(const struct rank *r, enum place place, int step) {
  static _Thread_local float host[MOST_RANKS * N];
  for (size_t i = 0; i < r->n * (size_t)r->nranks; i++)
    host[i] = value(r->rank, step, i);
  copy(r->send, host, r->n * (size_t)r->nranks * sizeof *host, place, true);
}

/* Ends the program if the result is not the sum of rank r's values times 1 + r * factor. */
static void check(const struct rank *r, enum place place, int step, int factor) {
  static _Thread_local float host[N];
  copy(host, r->recv, r->n * sizeof *host, place, false);
  for (size_t i = 0; i < r->n; i++) {
    float sum = 0;
    for (int other = 0; other < r->nranks; other++)
      sum += value(other, step, (size_t)r->rank * r->n + i) * (float)(1 + other * factor);
    if (host[i] == sum || (getenv("CASE_ROUGH") && host[i] > sum - 10 && host[i] < sum + 10))
      continue;
    fprintf(stderr, "step %d, rank %d: element %zu is %g and not %g\n", step, r->rank, i, (double)host[i], (double)sum);
    _exit(4);
  }
}

static ncclResult_t call(const struct rank *r) {
  return ncclReduceScatter(r->send, r->recv, r->n, ncclFloat, r->op, r->comm, (cudaStream_t)r->stream);
}

/* Waits for a call on a communicator that may be non-blocking. Returns its result. */
static ncclResult_t settled(const struct rank *r, ncclResult_t status) {
  while (status == ncclInProgress) {
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    if (ncclCommGetAsyncError(r->comm, &status) != ncclSuccess)
      return ncclInternalError;
  }
  return status;
}

/* Synchronizes, then asks for an asynchronous error: after another rank's end the buffer holds no result. */
static void synchronize(const struct rank *r) {
  ncclResult_t state = ncclSuccess;
  MUST(cuCtxSynchronize());
  NCCL(ncclCommGetAsyncError(r->comm, &state));
  must(state, "asynchronous error");
}

static void run(const struct rank *r, enum place place, int step) {
  fill(r, place, step);
  must(settled(r, call(r)), "ncclReduceScatter");
  synchronize(r);
  check(r, place, step, 0);
}

/* -- cases --------------------------------------------------------------------------------------------------------- */

/* Buffers in the memory `kind`, or a number of bytes after a multiple of 256. */
static void buffers(struct rank *r, const char *kind) {
  const size_t offset = strspn(kind, "0123456789") ? (size_t)atoi(kind) : 0;
  enum place place = DEVICE;
  for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
    if (strcmp(kind, places[i]) == 0)
      place = (enum place)i;
  take_buffers(r, place, offset);
  for (int step = 0; step < STEPS; step++)
    run(r, place, step);
}

/* Buffers that are on the device at first, and on the host later. */
static void moved(struct rank *r, const char *unused) {
  (void)unused;
  for (int step = 0; step < VOTE + 2; step++)
    run(r, DEVICE, step);
  take_buffers(r, PAGEABLE, 0);
  run(r, PAGEABLE, STEPS);
}

/* A scalar in device memory: on one rank from the start, or on all of them later. */
static void scalars(struct rank *r, const char *when) {
  const float factor = (float)(1 + r->rank);
  void *const on_device = get(DEVICE, sizeof factor);
  copy(on_device, &factor, sizeof factor, DEVICE, true);
  for (int step = 0; step < STEPS; step++) {
    bool hidden = strcmp(when, "later") == 0 ? step > VOTE : r->rank == 1;
    fill(r, DEVICE, step);
    NCCL(ncclRedOpCreatePreMulSum(&r->op, hidden ? on_device : (void *)&factor, ncclFloat,
                                  hidden ? ncclScalarDevice : ncclScalarHostImmediate, r->comm));
    must(call(r), "ncclReduceScatter");
    NCCL(ncclRedOpDestroy(r->op, r->comm));
    synchronize(r);
    check(r, DEVICE, step, 1);
  }
}

/* Calls take turns on all kinds of streams; or all are on the per-thread stream. */
static void streams(struct rank *r, const char *which) {
  CUstream kinds[6] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
  MUST(cuStreamCreateWithPriority(&kinds[3], CU_STREAM_NON_BLOCKING, -1));
  MUST(cuStreamCreate(&kinds[4], CU_STREAM_DEFAULT));
  MUST(cuStreamCreate(&kinds[5], CU_STREAM_NON_BLOCKING));
  for (int step = 0; step < 3 * STEPS; step++) {
    r->stream = *which ? CU_STREAM_PER_THREAD : kinds[step % 6];
    run(r, DEVICE, step);
  }
}

/* After the vote a stream of another context than the communicator's. */
static void contexts(struct rank *r, const char *unused) {
  CUcontext own;
  (void)unused;
  for (int step = 0; step < VOTE + 2; step++)
    run(r, DEVICE, step);
  MUST(cuCtxCreate_v2(&own, 0, 0));
  r->stream = device_stream(CU_STREAM_NON_BLOCKING);
  MUST(cuCtxPopCurrent_v2(&own));
  run(r, DEVICE, STEPS);
}

/* Captures a call of another size between the steps, before or after the vote, and launches it twice. */
static void captures(struct rank *r, const char *when) {
  const int captured = strcmp(when, "early") == 0 ? 1 : VOTE + 2;
  CUgraph graph;
  CUgraphExec exec;
  for (int step = 0; step < STEPS; step++) {
    if (step == captured) {
      r->n = N / 2;
      MUST(cuStreamBeginCapture_v2(r->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
      must(call(r), "ncclReduceScatter");
      MUST(cuStreamEndCapture(r->stream, &graph));
      MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
      for (int i = 0; i < 2; i++) {
        fill(r, DEVICE, 20 + i);
        MUST(cuGraphLaunch(exec, r->stream));
        synchronize(r);
        check(r, DEVICE, 20 + i, 0);
      }
      r->n = N;
    }
    run(r, DEVICE, step);
  }
  MUST(cuGraphExecDestroy(exec));
  MUST(cuGraphDestroy(graph));
}

/* Groups over two communicators with calls on two streams. */
static void groups(struct rank *r, const char *unused) {
  (void)unused;
  struct rank two[2] = {*r, *r};
  NCCL(ncclCommSplit(r->comm, 0, r->rank, &two[1].comm, NULL));
  two[1].stream = device_stream(CU_STREAM_NON_BLOCKING);
  take_buffers(&two[1], DEVICE, 0);
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < 2; i++)
      fill(&two[i], DEVICE, step + i);
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
      must(call(&two[i]), "ncclReduceScatter");
    NCCL(ncclGroupEnd());
    synchronize(r);
    for (int i = 0; i < 2; i++)
      check(&two[i], DEVICE, step + i, 0);
  }
  NCCL(ncclCommDestroy(two[1].comm));
}

/* From some step on the calls are shorter: the library must find a new cycle. */
static void changes(struct rank *r, const char *unused) {
  (void)unused;
  for (int step = 0; step < 100; step++) {
    r->n = step < STEPS ? N : N / 2;
    run(r, DEVICE, step);
  }
}

/* Makes many calls with a buffer each, so the host is far ahead of the device. */
static void ahead(struct rank *r, const char *unused) {
  (void)unused;
  enum { AHEAD = 12 };
  struct rank calls[AHEAD];
  for (int i = 0; i < AHEAD; i++) {
    calls[i] = *r;
    take_buffers(&calls[i], DEVICE, 0);
    fill(&calls[i], DEVICE, i);
  }
  for (int i = 0; i < AHEAD; i++)
    must(settled(r, call(&calls[i])), "ncclReduceScatter");
  MUST(cuCtxSynchronize());
  for (int i = 0; i < AHEAD; i++)
    check(&calls[i], DEVICE, i, 0);
}

/* -- the order of calls on a communicator, on any streams ---- */

static sem_t gate;

static void wait_at_gate(void *unused) {
  (void)unused;
  sem_wait(&gate);
}

/* Holds up a stream with a call of the communicator on it. The next call, on another stream, must come after that. */
static void hold_up(CUstream first, CUstream second, ncclResult_t (*calls[2])(const struct rank *), struct rank *r) {
  MUST(cuLaunchHostFunc(first, wait_at_gate, NULL));
  r->stream = first;
  must(calls[0](r), "the first call");
  r->stream = second;
  must(calls[1](r), "the second call");
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  if (cuStreamQuery(second) != CUDA_ERROR_NOT_READY) {
    fprintf(stderr, "rank %d: a call has passed another one of its communicator\n", r->rank);
    _exit(4);
  }
  sem_post(&gate);
  synchronize(r);
}

/* Two calls of a group on two streams: the group waits for both streams, so late input of one of them is in the sums.
 * */
static void joined(struct rank *r, const char *unused) {
  (void)unused;
  struct rank two[2] = {*r, *r};
  take_buffers(&two[1], DEVICE, 0);
  two[1].n = N / 2;
  two[1].stream = device_stream(CU_STREAM_NON_BLOCKING);
  sem_init(&gate, 0, 0);
  for (int step = 0; step < STEPS; step++) {
    float first[2];
    for (int i = 0; i < 2; i++)
      fill(&two[i], DEVICE, step + i);
    MUST(cuLaunchHostFunc(two[0].stream, wait_at_gate, NULL));
    if (step == VOTE)
      sem_post(&gate); /* the ranks meet, and the host waits */
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
      must(call(&two[i]), "ncclReduceScatter");
    NCCL(ncclGroupEnd());
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    if (step != VOTE && cuStreamQuery(two[1].stream) != CUDA_ERROR_NOT_READY) {
      fprintf(stderr, "step %d, rank %d: a stream has not waited for the other one of its group\n", step, r->rank);
      _exit(4);
    }
    if (step != VOTE)
      sem_post(&gate);
    MUST(cuMemcpyDtoHAsync_v2(&first[0], (uintptr_t)two[1].recv, sizeof *first, two[0].stream));
    MUST(cuMemcpyDtoHAsync_v2(&first[1], (uintptr_t)two[0].recv, sizeof *first, two[1].stream));
    synchronize(r);
    for (int i = 0; i < 2; i++)
      check(&two[i], DEVICE, step + i, 0);
  }
}

static ncclResult_t gather(const struct rank *r) {
  static _Thread_local float *from, *to;
  if (!from) {
    from = get(DEVICE, sizeof(float) * 8);
    to = get(DEVICE, sizeof(float) * 8 * MOST_RANKS);
  }
  return ncclAllGather(from, to, 8, ncclFloat, r->comm, (cudaStream_t)r->stream);
}

/* A call must not wait for its stream, nor for the set-up of the GPU. The gate opens after two minutes in any case, so
 * a call that waits returns. */
static atomic_bool opened;

static void *open_late(void *unused) {
  for (int i = 0; i < 120000 && !opened; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  if (!atomic_exchange(&opened, true))
    sem_post(&gate);
  return unused;
}

static void unwaited(struct rank *r, const char *unused) {
  (void)unused;
  sem_init(&gate, 0, 0);
  for (int step = 0; step < STEPS; step++) {
    pthread_t opener;
    fill(r, DEVICE, step);
    opened = false;
    MUST(cuLaunchHostFunc(r->stream, wait_at_gate, NULL));
    pthread_create(&opener, NULL, open_late, NULL);
    ncclResult_t status = call(r);
    if (atomic_exchange(&opened, true)) {
      fprintf(stderr, "step %d: the call has waited for its stream\n", step);
      _exit(4);
    }
    sem_post(&gate);
    must(settled(r, status), "ncclReduceScatter");
    pthread_join(opener, NULL);
    synchronize(r);
    check(r, DEVICE, step, 0);
  }
  if (standin_cuda_has_loaded()) {
    fprintf(stderr, "a call has set the GPU up before it returned\n");
    _exit(4);
  }
}

/* Sends and receives in a group. Returns the result of its end. */
static ncclResult_t message(const struct rank *r) {
  static _Thread_local float *from, *to;
  if (!from) {
    from = get(DEVICE, sizeof(float) * 8);
    to = get(DEVICE, sizeof(float) * 8);
  }
  const int next = (r->rank + 1) % r->nranks, last = (r->rank + r->nranks - 1) % r->nranks;
  NCCL(ncclGroupStart());
  NCCL(ncclSend(from, 8, ncclFloat, next, r->comm, (cudaStream_t)r->stream));
  NCCL(ncclRecv(to, 8, ncclFloat, last, r->comm, (cudaStream_t)r->stream));
  return ncclGroupEnd();
}

static void order(struct rank *r, const char *unused) {
  (void)unused;
  const CUstream other = device_stream(CU_STREAM_NON_BLOCKING), own = r->stream;
  sem_init(&gate, 0, 0);
  for (int step = 0; step < STEPS; step++) {
    must(gather(r), "ncclAllGather");
    run(r, DEVICE, step);
  }
  fill(r, DEVICE, STEPS);
  hold_up(other, own, (ncclResult_t(*[])(const struct rank *)){gather, call}, r);
  check(r, DEVICE, STEPS, 0);
  must(gather(r), "ncclAllGather");
  hold_up(own, other, (ncclResult_t(*[])(const struct rank *)){call, gather}, r);
  check(r, DEVICE, STEPS, 0);
  hold_up(other, own, (ncclResult_t(*[])(const struct rank *)){message, call}, r);
  check(r, DEVICE, STEPS, 0);
  must(gather(r), "ncclAllGather");
  hold_up(own, other, (ncclResult_t(*[])(const struct rank *)){call, message}, r);
  /* Several calls on one stream, then one on another. */
  r->stream = own;
  run(r, DEVICE, STEPS);
  must(gather(r), "ncclAllGather");
  hold_up(own, other, (ncclResult_t(*[])(const struct rank *)){gather, call}, r);
  check(r, DEVICE, STEPS, 0);
  r->stream = own;
  must(gather(r), "ncclAllGather");
  r->stream = other;
  must(gather(r), "ncclAllGather");
  hold_up(own, other, (ncclResult_t(*[])(const struct rank *)){call, gather}, r);
  check(r, DEVICE, STEPS, 0);
  /* The stream of the last calls is gone when one on another stream must wait for them. */
  r->stream = own;
  run(r, DEVICE, STEPS);
  must(gather(r), "ncclAllGather");
  MUST(cuStreamDestroy_v2(own));
  r->stream = other;
  run(r, DEVICE, STEPS + 1);
}

/* One thread aborts the other one's call; stalled streams end with that. */
static void *abort_it(void *argument) {
  const struct rank *r = argument;
  nanosleep(&(struct timespec){.tv_nsec = 3000000 * (1 + r->rank)}, NULL);
  ncclCommAbort(r->comm);
  return NULL;
}

static void aborted(struct rank *r, const char *unused) {
  (void)unused;
  pthread_t watchdog;
  ncclResult_t status = ncclSuccess;
  for (int step = 0; step < VOTE + 2; step++)
    run(r, DEVICE, step);
  if (pthread_create(&watchdog, NULL, abort_it, r) != 0)
    _exit(4);
  while (status == ncclSuccess)
    status = settled(r, call(r));
  pthread_join(watchdog, NULL);
  r->comm = NULL;
}

enum { SCATTERED = 40960 };

/* A gradient with few values. */
static void *scattered(void) {
  static float host[SCATTERED];
  void *gradient = get(DEVICE, sizeof host);
  for (size_t i = 0; i < SCATTERED; i += 101)
    host[i] = 1;
  copy(gradient, host, sizeof host, DEVICE, true);
  return gradient;
}

/* Buffers for waiting_call(). */
static void take_waiting_buffers(struct rank *r, const char *what) {
  take_buffers(r, DEVICE, 0);
  if (strcmp(what, "scattered") == 0)
    r->send = scattered();
}

/* A call in which the host waits for the device. */
static ncclResult_t waiting_call(const struct rank *r, const char *what) {
  const cudaStream_t stream = (cudaStream_t)r->stream;
  if (strcmp(what, "sums") == 0)
    return ncclReduceScatter(r->send, r->recv, r->n, ncclBfloat16, ncclSum, r->comm, stream);
  if (strcmp(what, "scattered") == 0)
    return ncclAllReduce(r->send, r->send, SCATTERED, ncclFloat, ncclSum, r->comm, stream);
  return ncclBroadcast(r->send, r->send, r->n, ncclFloat, 0, r->comm, stream);
}

/* Broadcasts, reduce-scatters of bf16 (`sums`) or all-reduces of few values (`scattered`), until the last rank does not
 * come: the others are aborted while they wait for it. */
static void lonely(struct rank *r, const char *what) {
  pthread_t watchdog;
  ncclResult_t status = ncclSuccess;
  take_waiting_buffers(r, what);
  for (int step = 0; step < (*what ? 6 : 3) && status == ncclSuccess; step++)
    status = settled(r, waiting_call(r, what));
  must(status, "the calls before");
  if (pthread_create(&watchdog, NULL, abort_it, r) != 0)
    _exit(4);
  if (r->rank + 1 < r->nranks)
    status = settled(r, waiting_call(r, what));
  pthread_join(watchdog, NULL);
  if (r->rank + 1 < r->nranks && status == ncclSuccess)
    _exit(4);
  r->comm = NULL;
}

/* Reduce-scatters of bf16 (`sums`) or all-reduces of few values (`scattered`) on two communicators: the first rank puts
 * them into a group, the others make one after the other, in either order. */
static void crossing(struct rank *r, const char *what) {
  struct rank two[2] = {*r, *r};
  NCCL(ncclCommSplit(r->comm, 0, r->rank, &two[1].comm, NULL));
  two[1].stream = device_stream(CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < 2; i++)
    take_waiting_buffers(&two[i], what);
  for (int step = 0; step < 2 * STEPS; step++) {
    if (r->rank == 0)
      NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++)
      must(waiting_call(&two[r->rank == 0 ? i : (i + step) % 2], what), what);
    if (r->rank == 0)
      NCCL(ncclGroupEnd());
  }
  synchronize(r);
  NCCL(ncclCommDestroy(two[1].comm));
}

/* Aborts a call as soon as it has returned, or a little later, and destroys its stream at once. */
static void gone(struct rank *r, const char *when) {
  const int step = atoi(when), us = strchr(when, ',') ? atoi(strchr(when, ',') + 1) : 0;
  for (int i = 0; i < step; i++)
    run(r, DEVICE, i);
  fill(r, DEVICE, step);
  (void)call(r);
  nanosleep(&(struct timespec){.tv_nsec = 1000 * us}, NULL);
  NCCL(ncclCommAbort(r->comm));
  MUST(cuStreamDestroy_v2(r->stream));
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL); /* leaves time for a wrong use of the stream */
  r->comm = NULL;
}

/* Ends the communicator as soon as a call has returned, by an abort, in a group or not, or a destroy. Then uses the
 * result buffer anew: nothing is written to it afterwards. */
static void reused(struct rank *r, const char *how) {
  static char pattern[N * sizeof(float)], found[sizeof pattern];
  for (int step = 0; step < VOTE + 2; step++)
    run(r, DEVICE, step);
  fill(r, DEVICE, VOTE + 2);
  (void)call(r);
  if (strcmp(how, "group") == 0)
    NCCL(ncclGroupStart());
  if (strcmp(how, "destroy") == 0)
    NCCL(ncclCommDestroy(r->comm));
  else
    NCCL(ncclCommAbort(r->comm));
  if (strcmp(how, "group") == 0)
    NCCL(ncclGroupEnd());
  r->comm = NULL;
  memset(pattern, 0x5a, sizeof pattern);
  copy(r->recv, pattern, sizeof pattern, DEVICE, true);
  MUST(cuCtxSynchronize());
  copy(found, r->recv, sizeof found, DEVICE, false);
  if (memcmp(found, pattern, sizeof found) != 0) {
    fprintf(stderr, "rank %d: the result of a call was written after its communicator's end\n", r->rank);
    _exit(4);
  }
}

/* -- ranks --------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  void (*run)(struct rank *r, const char *argument);
} cases[] = {
  {"buffers", buffers},   {"moved", moved},       {"scalars", scalars}, {"streams", streams}, {"captures", captures},
  {"groups", groups},     {"changes", changes},   {"ahead", ahead},     {"aborted", aborted}, {"order", order},
  {"unwaited", unwaited}, {"joined", joined},     {"gone", gone},       {"reused", reused},   {"contexts", contexts},
  {"lonely", lonely},     {"crossing", crossing},
};

static void start(struct rank *r) {
  r->n = N;
  r->op = ncclSum;
  r->stream = device_stream(CU_STREAM_NON_BLOCKING);
  if (getenv("CASE_CONTEXT") && strncmp(getenv("CASE_CONTEXT"), "green", 5) == 0) {
    CUgreenCtx green;
    CUcontext context;
    MUST(cuGreenCtxCreate(&green, NULL, 0, 0));
    MUST(cuGreenCtxStreamCreate(&r->stream, green, CU_STREAM_NON_BLOCKING, 0));
    MUST(cuCtxFromGreenCtx(&context, green));
    if (strcmp(getenv("CASE_CONTEXT"), "green-current") == 0)
      MUST(cuCtxSetCurrent(context));
  }
  take_buffers(r, DEVICE, 0);
}

/* The thread of a rank, if one process has all ranks, each on its own device. */
static void *run_thread(void *argument) {
  struct rank *r = argument;
  device_open(r->rank);
  start(r);
  for (int step = 0; step < STEPS; step++)
    run(r, DEVICE, step);
  return NULL;
}

static int run_threads(int nranks) {
  struct rank ranks[MOST_RANKS];
  ncclComm_t comms[MOST_RANKS];
  pthread_t threads[MOST_RANKS];
  NCCL(ncclCommInitAll(comms, nranks, NULL));
  for (int i = 0; i < nranks; i++) {
    ranks[i] = (struct rank){.rank = i, .nranks = nranks, .comm = comms[i]};
    if (pthread_create(&threads[i], NULL, run_thread, &ranks[i]) != 0)
      return 1;
  }
  for (int i = 0; i < nranks; i++)
    pthread_join(threads[i], NULL);
  NCCL(ncclGroupStart());
  for (int i = 0; i < nranks; i++)
    NCCL(ncclCommDestroy(comms[i]));
  NCCL(ncclGroupEnd());
  return 0;
}

static void meet(struct rank *r) {
  struct rendezvous meeting;
  ncclUniqueId id;
  CUcontext own;
  char why[200];
  if (!rendezvous_from_env(&meeting, why, sizeof why))
    must(ncclSystemError, why);
  *r = (struct rank){.rank = meeting.rank, .nranks = meeting.nranks};
  char *setting = getenv("CASE_ENV");
  if (setting && atoi(setting) == r->rank)
    putenv(strchr(setting, ':') + 1);
  device_open(0);
  if (getenv("CASE_CONTEXT") && strcmp(getenv("CASE_CONTEXT"), "own") == 0)
    MUST(cuCtxCreate_v2(&own, 0, 0));
  if (r->rank == 0)
    NCCL(ncclGetUniqueId(&id));
  if (!rendezvous_share(&meeting, &id, sizeof id, why, sizeof why))
    must(ncclSystemError, why);
  must(settled(r, ncclCommInitRank(&r->comm, r->nranks, id, r->rank)), "ncclCommInitRank");
}

int main(int argc, char **argv) {
  struct rank r;
  if (argc == 3 && strcmp(argv[1], "threads") == 0)
    return run_threads(atoi(argv[2]));
  for (unsigned i = 0; argc >= 2 && i < sizeof cases / sizeof *cases; i++)
    if (strcmp(argv[1], cases[i].name) == 0) {
      meet(&r);
      start(&r);
      cases[i].run(&r, argc > 2 ? argv[2] : "");
      MUST(cuCtxSynchronize());
      if (r.comm)
        NCCL(ncclCommDestroy(r.comm));
      return 0;
    }
  fprintf(stderr, "usage: device_cases CASE [ARGUMENT]\n");
  return 2;
}
