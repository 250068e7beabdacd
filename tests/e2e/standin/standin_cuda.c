/* SPDX-License-Identifier: BSD-3-Clause
 * The stand-in for NCCL on device memory, with the driver's own functions around it. Each run plays one scenario on all
 * ranks. standin_cuda.test chooses it and the number of ranks, and checks the outcome.
 *
 * Values are int32, computed from a seed, a rank and a place. A host function that waits on a gate holds up a stream.
 */
#include "tests/e2e/standin/standin_check.h"
#include "tests/standin/cuda/device.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define COUNT ((size_t)3000) /* a rank's block */

static ncclComm_t comm;
static CUstream stream;

static int32_t value(uint32_t seed, int rank, size_t i) { return (int32_t)(mix(seed, rank, i) % 100000); }

static int32_t sum(uint32_t seed, size_t i) {
  int32_t total = 0;
  for (int r = 0; r < check_nranks; r++)
    total += value(seed, r, i);
  return total;
}

/* This rank's values in device memory. */
static CUdeviceptr input(uint32_t seed, size_t count) {
  int32_t *host = malloc(count * sizeof *host);
  for (size_t i = 0; i < count; i++)
    host[i] = value(seed, check_rank, i);
  CUdeviceptr pointer = device_copy(host, count * sizeof *host);
  free(host);
  return pointer;
}

static CUdeviceptr output(size_t count) { return device_buffer(count * sizeof(int32_t)); }

/* Waits for the stream. True if the elements are those of `rank` from `first` on, or with SUM the sums. */
#define SUM (-1)
static bool holds(CUdeviceptr pointer, uint32_t seed, int rank, size_t first, size_t count) {
  int32_t *host = malloc(count * sizeof *host);
  bool good = true;
  MUST(cuMemcpyDtoHAsync_v2(host, pointer, count * sizeof *host, stream));
  MUST(cuStreamSynchronize(stream));
  for (size_t i = 0; i < count; i++)
    good &= host[i] == (rank == SUM ? sum(seed, first + i) : value(seed, rank, first + i));
  free(host);
  return good;
}

static void *host(CUdeviceptr pointer) { return (void *)(uintptr_t)pointer; }
static CUdeviceptr at(CUdeviceptr pointer, size_t element) { return pointer + element * sizeof(int32_t); }
static cudaStream_t on(CUstream s) { return (cudaStream_t)s; }

static ncclResult_t all_reduce(CUdeviceptr from, CUdeviceptr to, CUstream s) {
  return ncclAllReduce(host(from), host(to), COUNT, ncclInt32, ncclSum, comm, on(s));
}

/* -- streams that are held up ------------------------------------------------------------------------------------ */
struct gate {
  sem_t open;
  atomic_bool is_open;
};

static void wait_at(void *gate) { sem_wait(&((struct gate *)gate)->open); }

static void close_gate(struct gate *gate, CUstream s) {
  gate->is_open = false;
  sem_init(&gate->open, 0, 0);
  MUST(cuLaunchHostFunc(s, wait_at, gate));
}

static void open_gate(struct gate *gate) {
  gate->is_open = true;
  sem_post(&gate->open);
}

/* On a thread: opens so late that code which does not wait has finished. */
static void *open_late(void *gate) {
  usleep(100000);
  open_gate(gate);
  return NULL;
}

/* -- between ranks: a rank has come to a place ------------------------------------------------------------------- */
static void path_of(char *path, const char *place) {
  snprintf(path, 256, "%s.%s", getenv("STANDIN_CUDA_PLACES"), place);
}

static void reach(const char *place) {
  char path[256];
  path_of(path, place);
  fclose(fopen(path, "w"));
}

static bool is_reached(const char *place) {
  struct stat there;
  char path[256];
  path_of(path, place);
  return stat(path, &there) == 0;
}

/* False if no rank came within two minutes. */
static bool await(const char *place) {
  for (int i = 0; i < 12000 && !is_reached(place); i++)
    usleep(10000);
  return is_reached(place);
}

/* -- scenarios --------------------------------------------------------------------------------------------------- */
static void reductions(void) {
  size_t n = (size_t)check_nranks, own = (size_t)check_rank * COUNT;
  CUdeviceptr in = input(1, n * COUNT), out = output(COUNT), same = input(2, n * COUNT);
  NEED(ncclReduceScatter(host(in), host(out), COUNT, ncclInt32, ncclSum, comm, on(stream)));
  NEED(ncclReduceScatter(host(same), host(at(same, own)), COUNT, ncclInt32, ncclSum, comm, on(stream)));
  check(holds(out, 1, SUM, own, COUNT) && holds(at(same, own), 2, SUM, own, COUNT), "reduce-scatter, in place too");
  NEED(ncclAllReduce(host(in), host(in), n * COUNT, ncclInt32, ncclSum, comm, on(stream)));
  check(holds(in, 1, SUM, 0, n * COUNT), "all-reduce in place");
  CUdeviceptr part = input(3, COUNT);
  for (int root = 0; root < check_nranks; root++) {
    CUdeviceptr to = output(COUNT);
    NEED(
      ncclReduce(host(part), check_rank == root ? host(to) : NULL, COUNT, ncclInt32, ncclSum, root, comm, on(stream)));
    if (check_rank == root)
      check(holds(to, 3, SUM, 0, COUNT), "reduce to rank %d", root);
  }
  int32_t two = 2;
  ncclRedOp_t op;
  CUdeviceptr factor = device_copy(&two, sizeof two), twice = output(COUNT);
  NEED(ncclRedOpCreatePreMulSum(&op, host(factor), ncclInt32, ncclScalarDevice, comm));
  NEED(ncclAllReduce(host(part), host(twice), COUNT, ncclInt32, op, comm, on(stream)));
  NEED(ncclRedOpDestroy(op, comm));
  NEED(ncclAllReduce(host(part), host(part), COUNT, ncclInt32, ncclSum, comm, on(stream)));
  int32_t a[COUNT], b[COUNT];
  device_read(a, twice, sizeof a);
  device_read(b, part, sizeof b);
  bool good = true;
  for (size_t i = 0; i < COUNT; i++)
    good &= a[i] == 2 * b[i];
  check(good, "an operator whose scalar is in device memory");
}

static void copies(void) {
  size_t n = (size_t)check_nranks;
  CUdeviceptr in = input(4, n * COUNT), out = output(n * COUNT);
  bool good = true;
  NEED(ncclAllGather(host(in), host(out), COUNT, ncclInt32, comm, on(stream)));
  for (int r = 0; r < check_nranks; r++)
    good &= holds(at(out, (size_t)r * COUNT), 4, r, 0, COUNT);
  check(good, "all-gather");
  NEED(ncclAlltoAll(host(in), host(out), COUNT, ncclInt32, comm, on(stream)));
  for (int r = 0; r < check_nranks; r++)
    good &= holds(at(out, (size_t)r * COUNT), 4, r, (size_t)check_rank * COUNT, COUNT);
  check(good, "all-to-all");
  for (int root = 0; root < check_nranks; root++) {
    bool is_root = check_rank == root;
    CUdeviceptr to = output(COUNT);
    NEED(ncclBroadcast(is_root ? host(in) : NULL, host(to), COUNT, ncclInt32, root, comm, on(stream)));
    good &= holds(to, 4, root, 0, COUNT);
    NEED(ncclScatter(is_root ? host(in) : NULL, host(to), COUNT, ncclInt32, root, comm, on(stream)));
    good &= holds(to, 4, root, (size_t)check_rank * COUNT, COUNT);
    NEED(ncclGather(host(in), is_root ? host(out) : NULL, COUNT, ncclInt32, root, comm, on(stream)));
    for (int r = 0; r < check_nranks && is_root; r++)
      good &= holds(at(out, (size_t)r * COUNT), 4, r, 0, COUNT);
  }
  check(good, "broadcast, scatter and gather");
}

static void messages(void) {
  int next = (check_rank + 1) % check_nranks, before = (check_rank + check_nranks - 1) % check_nranks;
  CUdeviceptr in = input(5, COUNT), out = output(COUNT), sums = output(COUNT);
  NEED(ncclGroupStart());
  NEED(ncclSend(host(in), COUNT, ncclInt32, next, comm, on(stream)));
  NEED(ncclRecv(host(out), COUNT, ncclInt32, before, comm, on(stream)));
  NEED(all_reduce(in, sums, stream));
  NEED(ncclGroupEnd());
  check(holds(out, 5, before, 0, COUNT) && holds(sums, 5, SUM, 0, COUNT), "a group of messages and a collective");
}

static void memory(void) {
  void *given = NULL, *pinned;
  CUdeviceptr managed, in = input(6, COUNT);
  int device = -1, kind = -1;
  NEED(ncclCommCuDevice(comm, &device));
  NEED(ncclMemAlloc(&given, COUNT * sizeof(int32_t)));
  MUST(cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)given));
  check(device == 0 && kind == CU_MEMORYTYPE_DEVICE, "the communicator's device, and memory of it");
  NEED(ncclAllReduce(host(in), given, COUNT, ncclInt32, ncclSum, comm, on(stream)));
  check(holds((uintptr_t)given, 6, SUM, 0, COUNT), "into memory of ncclMemAlloc");
  check_result(ncclMemFree(given), ncclSuccess, "ncclMemFree");
  MUST(cuMemAllocManaged(&managed, COUNT * sizeof(int32_t), CU_MEM_ATTACH_GLOBAL));
  MUST(cuMemAllocHost_v2(&pinned, COUNT * sizeof(int32_t)));
  NEED(ncclAllReduce(host(in), host(managed), COUNT, ncclInt32, ncclSum, comm, on(stream)));
  NEED(ncclAllReduce(host(in), pinned, COUNT, ncclInt32, ncclSum, comm, on(stream)));
  MUST(cuStreamSynchronize(stream));
  check(memcmp(host(managed), pinned, COUNT * sizeof(int32_t)) == 0 && *(int32_t *)pinned == sum(6, 0),
        "into managed and into pinned memory");
  CUdeviceptr brief;
  MUST(cuMemAllocAsync(&brief, COUNT * sizeof(int32_t), stream));
  MUST(cuMemcpyAsync(brief, in, COUNT * sizeof(int32_t), stream));
  NEED(all_reduce(brief, in, stream));
  MUST(cuMemFreeAsync(brief, stream));
  check(holds(in, 6, SUM, 0, COUNT), "from memory that is freed behind the call, in the order of the stream");
}

static void calls(void) {
  reductions();
  copies();
  messages();
  memory();
  for (CUstream s = NULL; s <= CU_STREAM_PER_THREAD; s = (CUstream)((uintptr_t)s + 1)) {
    CUdeviceptr in = input(7, COUNT);
    NEED(all_reduce(in, in, s));
    MUST(cuStreamSynchronize(s));
    check(holds(in, 7, SUM, 0, COUNT), "on default stream %d", (int)(uintptr_t)s);
  }
}

/* Calls return while their stream waits; even the first one. */
static void late(void) {
  struct gate gate;
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  MUST(cuMemsetD8Async(out, 0, COUNT * sizeof(int32_t), stream));
  MUST(cuStreamSynchronize(stream));
  close_gate(&gate, stream);
  NEED(all_reduce(in, out, stream));
  NEED(ncclAllGather(host(at(in, 0)), host(output(COUNT * (size_t)check_nranks)), COUNT, ncclInt32, comm, on(stream)));
  check(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "calls return while their stream is held up");
  open_gate(&gate);
  check(holds(out, 1, SUM, 0, COUNT), "what they do is done in the stream's turn");
}

/* Only the group orders these; without it the stand-in for the driver would end the process. */
static void joined(void) {
  struct gate gate;
  CUstream other = device_stream(CU_STREAM_NON_BLOCKING);
  size_t bytes = COUNT * sizeof(int32_t);
  CUdeviceptr a = input(1, COUNT), b = input(2, COUNT), x = output(COUNT), y = output(COUNT), z = output(COUNT);
  close_gate(&gate, other);
  MUST(cuMemcpyAsync(x, a, bytes, other));
  NEED(ncclGroupStart());
  NEED(all_reduce(b, y, stream));
  NEED(all_reduce(x, z, other));
  NEED(ncclGroupEnd());
  MUST(cuMemsetD8Async(x, 0, bytes, stream));
  MUST(cuMemcpyAsync(a, y, bytes, other));
  check(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "a stream waits for what was on the group's other stream");
  open_gate(&gate);
  check(holds(z, 1, SUM, 0, COUNT), "all streams of a group join before it");
  MUST(cuStreamSynchronize(other));
  check(holds(a, 2, SUM, 0, COUNT), "and after it");
  NEED(all_reduce(b, x, stream));
  NEED(ncclBroadcast(host(x), host(x), COUNT, ncclInt32, 0, comm, on(other)));
  MUST(cuStreamSynchronize(other));
  check(holds(x, 2, SUM, 0, COUNT), "kernels of a communicator run one after another");
}

/* Two communicators on two streams each, in opposite order: neither waits for the other's kernel. */
static void crossed(void) {
  ncclComm_t child;
  CUstream other = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr in = input(1, COUNT), out[4];
  NEED(ncclCommSplit(comm, 0, check_rank, &child, NULL));
  bool good = true;
  for (int i = 0; i < 4; i++)
    out[i] = output(COUNT);
  MUST(cuCtxSynchronize());
  NEED(ncclGroupStart());
  for (int i = 0; i < 4; i++)
    NEED(ncclAllReduce(host(in), host(out[i]), COUNT, ncclInt32, ncclSum, i < 2 ? comm : child,
                       on(i == 0 || i == 3 ? stream : other)));
  NEED(ncclGroupEnd());
  MUST(cuCtxSynchronize());
  for (int i = 0; i < 4; i++)
    good &= holds(out[i], 1, SUM, 0, COUNT);
  check(good, "communicators that share their streams crosswise");
  NEED(ncclCommDestroy(child));
}

static void missing_before(void) {
  CUstream other = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  MUST(cuMemsetD8Async(in, 0, 4, other));
  all_reduce(in, out, stream);
}

static void missing_after(void) {
  CUstream other = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  NEED(all_reduce(in, out, stream));
  MUST(cuMemcpyAsync(in, out, 4, other));
}

static void refusals(void) {
  static char array[COUNT * 4];
  CUdeviceptr in = input(1, COUNT), out = output(COUNT), little = device_buffer(4);
  check_result(ncclAllReduce(array, host(out), COUNT, ncclInt32, ncclSum, comm, on(stream)), ncclInvalidArgument,
               "a host pointer");
  check(strstr(ncclGetLastError(NULL), "sendbuff") && strstr(ncclGetLastError(NULL), "not a valid pointer"),
        "and its text names the buffer");
  check_result(ncclRecv(array, COUNT, ncclInt32, 0, comm, on(stream)), ncclInvalidArgument,
               "a host pointer to receive");
  check_result(all_reduce(in, little, stream), ncclInvalidArgument, "a buffer that is too short");
  device_open(1);
  CUdeviceptr foreign = device_buffer(COUNT * 4);
  CUstream elsewhere = device_stream(CU_STREAM_NON_BLOCKING);
  device_open(0);
  check_result(all_reduce(in, foreign, stream), ncclInvalidArgument, "memory of another device");
  check_result(all_reduce(in, out, elsewhere), ncclUnhandledCudaError, "a stream of another device");
  NEED(all_reduce(in, out, stream));
  check(holds(out, 1, SUM, 0, COUNT), "the communicator lives on");
}

static void *abort_it(void *argument) {
  usleep(50000);
  ncclCommAbort(argument);
  return NULL;
}

static void aborts(void) {
  pthread_t thread;
  struct gate gate;
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  NEED(all_reduce(in, out, stream));
  MUST(cuStreamSynchronize(stream));
  if (check_rank == 0) {
    NEED(all_reduce(in, out, stream)); /* no other rank takes part */
    pthread_create(&thread, NULL, abort_it, comm);
    MUST(cuStreamSynchronize(stream));
    pthread_join(thread, NULL);
    check(true, "an abort ends work that waits in a stream");
    reach("aborted");
  } else {
    close_gate(&gate, stream);
    NEED(all_reduce(in, out, stream));
    NEED(ncclCommAbort(comm));
    check(!gate.is_open, "an abort does not wait for work whose turn has not come");
    open_gate(&gate);
    MUST(cuStreamSynchronize(stream));
    await("aborted");
  }
  comm = NULL;
}

/* The first contact with a rank that does not come. */
static void aborted_contact(void) {
  pthread_t thread;
  if (check_rank == 0) {
    pthread_create(&thread, NULL, abort_it, comm);
    ncclResult_t result = ncclRecv(host(output(COUNT)), COUNT, ncclInt32, 1, comm, on(stream));
    pthread_join(thread, NULL);
    check(result != ncclSuccess, "an abort ends a group that waits for its first contact");
    reach("aborted");
  } else {
    await("aborted");
    NEED(ncclCommAbort(comm));
  }
  comm = NULL;
}

static void contacts(void) {
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  if (check_rank == 0) {
    NEED(ncclRecv(host(out), COUNT, ncclInt32, 1, comm, on(stream)));
    check(is_reached("first"), "a group waits for its first contact");
    check(holds(out, 1, 1, 0, COUNT), "and the message arrives");
    NEED(ncclRecv(host(out), COUNT, ncclInt32, 1, comm, on(stream)));
    reach("second");
    check(holds(out, 1, 1, 0, COUNT), "a second message");
  } else if (check_rank == 1) {
    usleep(100000);
    reach("first");
    NEED(ncclSend(host(in), COUNT, ncclInt32, 0, comm, on(stream)));
    check(await("second"), "later groups wait for nobody");
    NEED(ncclSend(host(in), COUNT, ncclInt32, 0, comm, on(stream)));
  }
  /* Ranks 0 and 2 of four are no neighbours: they meet while other work of the communicator is held up. */
  struct gate gate;
  CUstream other = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr sums = output(COUNT);
  MUST(cuCtxSynchronize());
  close_gate(&gate, stream);
  NEED(all_reduce(in, sums, stream));
  if (check_nranks == 4) {
    NEED(ncclGroupStart());
    NEED(ncclSend(host(in), COUNT, ncclInt32, (check_rank + 2) % 4, comm, on(other)));
    NEED(ncclRecv(host(out), COUNT, ncclInt32, (check_rank + 2) % 4, comm, on(other)));
    NEED(ncclGroupEnd());
    check(!gate.is_open, "a contact does not wait for work of the communicator");
  }
  open_gate(&gate);
  MUST(cuStreamSynchronize(other));
  check(holds(sums, 1, SUM, 0, COUNT), "which runs in its turn");
  if (check_nranks == 4)
    check(holds(out, 1, (check_rank + 2) % 4, 0, COUNT), "and the messages after it");
}

/* A rank leaves: the others' calls succeed, and their work fails. */
static void async_errors(void) {
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  ncclResult_t error = ncclInternalError;
  NEED(all_reduce(in, out, stream));
  MUST(cuStreamSynchronize(stream));
  NEED(ncclCommGetAsyncError(comm, &error));
  check(error == ncclSuccess, "no error yet");
  if (check_rank == check_nranks - 1) {
    NEED(ncclCommAbort(comm));
  } else {
    struct gate gate;
    close_gate(&gate, stream);
    ncclResult_t result = all_reduce(in, out, stream);
    check(result == ncclSuccess, "a call whose work will fail succeeds");
    open_gate(&gate);
    MUST(cuStreamSynchronize(stream));
    NEED(ncclCommGetAsyncError(comm, &error));
    check(error == ncclRemoteError, "the error is the communicator's (%d)", (int)error);
    check(all_reduce(in, out, stream) == ncclRemoteError, "and that of later calls");
    NEED(ncclCommAbort(comm));
  }
  comm = NULL;
}

/* A rank is killed in between (NCCL_STANDIN_FAULT): the others get an error. */
static void deaths(void) {
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  ncclResult_t error = ncclSuccess;
  signal(SIGTERM, SIG_IGN); /* the launcher's, which gives survivors a second */
  for (int i = 0; i < 1000 && error == ncclSuccess; i++) {
    error = all_reduce(in, out, stream);
    MUST(cuStreamSynchronize(stream));
    if (error == ncclSuccess)
      ncclCommGetAsyncError(comm, &error);
  }
  printf("# rank %d: %s\n", check_rank, error == ncclRemoteError ? "heard of it" : ncclGetErrorString(error));
  ncclCommAbort(comm);
  comm = NULL;
}

static void ends(void) {
  struct gate gate;
  pthread_t thread;
  ncclComm_t child;
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  NEED(ncclCommSplit(comm, 0, check_rank, &child, NULL));
  close_gate(&gate, stream);
  NEED(ncclAllReduce(host(in), host(out), COUNT, ncclInt32, ncclSum, child, on(stream)));
  pthread_create(&thread, NULL, open_late, &gate);
  NEED(ncclCommFinalize(child));
  check(gate.is_open && cuStreamQuery(stream) == CUDA_SUCCESS, "finalize waits for what was launched");
  pthread_join(thread, NULL);
  NEED(ncclCommDestroy(child));
  close_gate(&gate, stream);
  NEED(all_reduce(in, out, stream));
  pthread_create(&thread, NULL, open_late, &gate);
  NEED(ncclCommDestroy(comm));
  comm = NULL;
  check(gate.is_open && holds(out, 1, SUM, 0, COUNT), "destroy waits for what was launched");
  pthread_join(thread, NULL);
}

static void captures(void) {
  CUgraph graph;
  CUgraphExec exec;
  CUstream other = device_stream(CU_STREAM_NON_BLOCKING);
  CUevent fork = device_event(), join = device_event();
  size_t bytes = COUNT * sizeof(int32_t);
  CUdeviceptr in = input(1, COUNT), second = input(2, COUNT), sums = output(COUNT), out = output(COUNT);
  MUST(cuCtxSynchronize());
  MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(cuEventRecord(fork, stream));
  MUST(cuStreamWaitEvent(other, fork, 0));
  NEED(ncclGroupStart());
  NEED(all_reduce(in, sums, stream));
  NEED(ncclBroadcast(host(in), host(out), COUNT, ncclInt32, 0, comm, on(other)));
  NEED(ncclGroupEnd());
  MUST(cuEventRecord(join, other));
  MUST(cuStreamWaitEvent(stream, join, 0));
  MUST(cuStreamEndCapture(stream, &graph));
  MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
  MUST(cuGraphDestroy(graph));
  MUST(cuMemsetD8Async(sums, 0, bytes, stream));
  int32_t first;
  device_read(&first, sums, sizeof first);
  check(first == 0, "a captured group does not run");
  for (uint32_t seed = 1; seed <= 2; seed++) {
    MUST(cuGraphLaunch(exec, stream));
    check(holds(sums, seed, SUM, 0, COUNT) && holds(out, seed, 0, 0, COUNT), "launch %d of the graph runs it",
          (int)seed);
    MUST(cuMemcpyAsync(in, second, bytes, stream));
  }
  MUST(cuCtxSynchronize());
  MUST(cuGraphExecDestroy(exec));
  NEED(all_reduce(in, sums, other));
  MUST(cuStreamSynchronize(other));
  check(holds(sums, 2, SUM, 0, COUNT), "calls go on beside it");
}

static ncclResult_t settled(ncclComm_t child, ncclResult_t result) {
  while (result == ncclInProgress)
    if (usleep(100) != 0 || ncclCommGetAsyncError(child, &result) != ncclSuccess)
      return ncclInternalError;
  return result;
}

static void nonblocking(void) {
  struct gate gate;
  ncclComm_t child;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  NEED(ncclCommSplit(comm, 0, check_rank, &child, &config));
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  close_gate(&gate, stream);
  ncclResult_t result = ncclAllReduce(host(in), host(out), COUNT, ncclInt32, ncclSum, child, on(stream));
  check_result(result, ncclInProgress, "a call on a non-blocking communicator");
  check(settled(child, result) == ncclSuccess && cuStreamQuery(stream) == CUDA_ERROR_NOT_READY,
        "it is launched while its stream is held up");
  open_gate(&gate);
  check(holds(out, 1, SUM, 0, COUNT), "its work is done in the stream's turn");
  check(settled(child, ncclCommFinalize(child)) == ncclSuccess, "and it is finalized");
  NEED(ncclCommDestroy(child));
}

/* A communicator grows: the existing ranks share the id. */
static void grows(void) {
  CUdeviceptr in = input(1, COUNT), out = output(COUNT);
  ncclComm_t half, whole;
  ncclUniqueId id = {{0}};
  bool stays = check_rank < check_nranks - 1;
  NEED(ncclCommSplit(comm, stays ? 0 : NCCL_SPLIT_NOCOLOR, check_rank, &half, NULL));
  if (check_rank == 0)
    NEED(ncclCommGetUniqueId(half, &id));
  CUdeviceptr shared = device_copy(&id, sizeof id);
  NEED(ncclBroadcast(host(shared), host(shared), sizeof id, ncclInt8, 0, comm, on(stream)));
  MUST(cuStreamSynchronize(stream));
  device_read(&id, shared, sizeof id);
  NEED(ncclCommGrow(stays ? half : NULL, check_nranks, check_rank == 0 || !stays ? &id : NULL, stays ? -1 : check_rank,
                    &whole, NULL));
  NEED(ncclAllReduce(host(in), host(out), COUNT, ncclInt32, ncclSum, whole, on(stream)));
  check(holds(out, 1, SUM, 0, COUNT), "a communicator that grew");
  NEED(ncclCommDestroy(whole));
  if (stays)
    NEED(ncclCommDestroy(half));
}

/* Two devices of one process, one thread. */
static void two_devices(void) {
  ncclComm_t comms[2];
  CUdeviceptr in[2], out[2];
  CUstream streams[2];
  int devices[2];
  NEED(ncclCommInitAll(comms, 2, NULL));
  for (int i = 0; i < 2; i++) {
    device_open(i);
    NEED(ncclCommCuDevice(comms[i], &devices[i]));
    streams[i] = device_stream(CU_STREAM_NON_BLOCKING);
    in[i] = input(1, COUNT);
    out[i] = output(COUNT);
  }
  NEED(ncclGroupStart());
  for (int i = 0; i < 2; i++)
    NEED(ncclAllReduce(host(in[i]), host(out[i]), COUNT, ncclInt32, ncclSum, comms[i], on(streams[i])));
  NEED(ncclGroupEnd());
  bool good = devices[0] == 0 && devices[1] == 1;
  for (int i = 0; i < 2; i++) {
    int32_t first;
    device_open(i);
    MUST(cuStreamSynchronize(streams[i]));
    device_read(&first, out[i], sizeof first);
    good &= first == 2 * value(1, check_rank, 0);
  }
  check(good, "two devices of one process");
  int beyond[] = {0, 2};
  check_result(ncclCommInitAll(comms, 2, beyond), ncclInvalidArgument, "a device that is not there");
  device_open(0);
}

static const struct {
  const char *name;
  void (*run)(void);
} scenarios[] = {
  {"calls", calls},
  {"late", late},
  {"joined", joined},
  {"crossed", crossed},
  {"missing-before", missing_before},
  {"missing-after", missing_after},
  {"refusals", refusals},
  {"aborts", aborts},
  {"aborted-contact", aborted_contact},
  {"contacts", contacts},
  {"async-errors", async_errors},
  {"deaths", deaths},
  {"ends", ends},
  {"captures", captures},
  {"nonblocking", nonblocking},
  {"grows", grows},
  {"two-devices", two_devices},
};

int main(int argc, char **argv) {
  device_open(0);
  stream = device_stream(CU_STREAM_NON_BLOCKING);
  bool known = false;
  comm = check_world();
  for (size_t i = 0; argc > 1 && i < sizeof scenarios / sizeof scenarios[0]; i++)
    if (strcmp(scenarios[i].name, argv[1]) == 0) {
      known = true;
      scenarios[i].run();
    }
  if (comm)
    NEED(ncclCommDestroy(comm));
  return known ? check_done() : 2;
}
