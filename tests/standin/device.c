/* SPDX-License-Identifier: BSD-3-Clause
 * Work on device memory. A group's calls on one communicator become one kernel: work on a stream of the stand-in for
 * the CUDA driver (cuda/). That knows what the kernel reads and writes, and runs it late, on the stream's worker.
 *
 * As in NCCL a kernel follows all earlier work on the streams of its calls, and their later work follows the kernel.
 * Kernels of one communicator run one after another. Under capture the kernel becomes a node of the graph, and runs in
 * its turn when that is launched. A kernel knows its communicator by id: it skips one that was aborted in the meantime.
 * An orderly end first waits for the communicator's kernels (standin_device_drain).
 *
 * The driver is the dynamic linker's libcuda.so.1, loaded at the first need. Contexts are the primary ones. On host
 * memory none of this is used.
 */
#include "tests/standin/standin.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "tests/standin/cuda/standin.h"

/* clang-format off */
#define EACH_FUNCTION(X) \
  X(cuInit) X(cuGetErrorName) X(cuDeviceGetCount) X(cuCtxGetDevice) X(cuCtxGetCurrent) X(cuCtxSetCurrent) \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) \
  X(cuPointerGetAttribute) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) \
  X(cuEventSynchronize) X(cuStreamWaitEvent) X(cuThreadExchangeStreamCaptureMode) X(standin_cuda_launch) \
  X(standin_cuda_view)
/* clang-format on */

static struct {
#define FIELD(name) __typeof__(&name) name;
  EACH_FUNCTION(FIELD)
#undef FIELD
} driver;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *missing; /* why the driver cannot be used; NULL: it can */

static void find_driver(void) {
  void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    missing = "libcuda.so.1";
#define FIND(name) \
  if (!missing && !(driver.name = (__typeof__(&name))dlsym(handle, #name))) \
    missing = #name;
  EACH_FUNCTION(FIND)
#undef FIND
  if (!missing && driver.cuInit(0) != CUDA_SUCCESS)
    missing = "a device";
}

static ncclResult_t refused(CUresult result, const char *call) {
  const char *name = NULL;
  driver.cuGetErrorName(result, &name);
  return standin_fail(ncclUnhandledCudaError, "%s: %s", call, name ? name : "an unknown error");
}

/* -- devices, contexts, memory ----------------------------------------------------------------------------------- */
/* Finds the thread's current device; as in CUDA's runtime the default is device 0. */
static CUresult find_current(int *device) {
  CUcontext context;
  CUresult result = driver.cuCtxGetDevice(device);
  if (result != CUDA_ERROR_INVALID_CONTEXT)
    return result;
  *device = 0;
  result = driver.cuDevicePrimaryCtxRetain(&context, 0);
  return result == CUDA_SUCCESS ? driver.cuCtxSetCurrent(context) : result;
}

ncclResult_t standin_device_find(int *device) {
  int count;
  if (ncclStandinHostMemory) {
    *device = *device < 0 ? 0 : *device;
    return ncclSuccess;
  }
  pthread_once(&once, find_driver);
  if (missing)
    return standin_fail(ncclUnhandledCudaError, "no stand-in for the CUDA driver can be used: %s is missing", missing);
  CUresult result = *device < 0 ? find_current(device) : CUDA_SUCCESS;
  if (result != CUDA_SUCCESS)
    return refused(result, "cuCtxGetDevice");
  result = driver.cuDeviceGetCount(&count);
  if (result != CUDA_SUCCESS)
    return refused(result, "cuDeviceGetCount");
  return *device < count ? ncclSuccess : standin_fail(ncclInvalidArgument, "there is no device %d", *device);
}

/* A communicator lives in the context that is current where it is made, if that is one of its device. */
bool standin_device_open(struct ncclComm *comm) {
  CUcontext current;
  int device;
  if (ncclStandinHostMemory)
    return true;
  if (driver.cuDevicePrimaryCtxRetain(&comm->context, comm->device) != CUDA_SUCCESS)
    return false;
  if (driver.cuCtxGetDevice(&device) == CUDA_SUCCESS && device == comm->device &&
      driver.cuCtxGetCurrent(&current) == CUDA_SUCCESS)
    comm->context = current;
  driver.cuCtxPushCurrent_v2(comm->context);
  bool good = driver.cuEventCreate(&comm->over, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
              driver.cuEventCreate(&comm->joint, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
  driver.cuCtxPopCurrent_v2(NULL);
  pthread_mutex_init(&comm->turn, NULL);
  if (!good)
    standin_device_close(comm);
  return good;
}

void standin_device_close(struct ncclComm *comm) {
  if (ncclStandinHostMemory)
    return;
  if (comm->over)
    driver.cuEventDestroy_v2(comm->over);
  if (comm->joint)
    driver.cuEventDestroy_v2(comm->joint);
  driver.cuDevicePrimaryCtxRelease_v2(comm->device);
  pthread_mutex_destroy(&comm->turn);
}

ncclResult_t standin_device_alloc(void **pointer, size_t size) {
  int device = -1;
  CUdeviceptr memory;
  ncclResult_t result = standin_device_find(&device);
  if (result != ncclSuccess)
    return result;
  CUresult got = driver.cuMemAlloc_v2(&memory, size);
  if (got != CUDA_SUCCESS)
    return refused(got, "cuMemAlloc");
  *pointer = (void *)(uintptr_t)memory;
  return ncclSuccess;
}

ncclResult_t standin_device_free(void *pointer) {
  int device = -1;
  ncclResult_t result = standin_device_find(&device);
  CUresult got = result == ncclSuccess ? driver.cuMemFree_v2((uintptr_t)pointer) : CUDA_SUCCESS;
  return got == CUDA_SUCCESS ? result : refused(got, "cuMemFree");
}

/* Host memory is fine if the device can reach it: NCCL checks no more. */
ncclResult_t standin_device_check(const struct ncclComm *comm, const void *pointer, const char *name,
                                  const char *which) {
  unsigned type = 0;
  int device = 0;
  if (ncclStandinHostMemory)
    return ncclSuccess;
  driver.cuCtxPushCurrent_v2(comm->context);
  CUdeviceptr address = (uintptr_t)pointer;
  bool known = driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
               driver.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS;
  unsigned managed = 0;
  if (known)
    driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address);
  driver.cuCtxPopCurrent_v2(NULL);
  if (!known)
    return standin_fail(ncclInvalidArgument, "%s: %s %p is not a valid pointer", name, which, pointer);
  if (type == CU_MEMORYTYPE_DEVICE && !managed && device != comm->device)
    return standin_fail(ncclInvalidArgument, "%s: %s was allocated on device %d, the communicator's is %d", name, which,
                        device, comm->device);
  return ncclSuccess;
}

/* -- kernels ----------------------------------------------------------------------------------------------------- */
struct kernel {
  struct ncclComm *comm;
  uint64_t comm_id;
  size_t ncalls, ncollectives;
  struct call **order; /* for the job */
  struct call calls[]; /* with the buffers' real addresses */
};

/* Runs on the stream's worker. */
static void run_kernel(void *data) {
  struct kernel *kernel = data;
  struct ncclComm *comm = kernel->comm;
  if (!standin_comm_acquire_id(comm, kernel->comm_id))
    return;
  pthread_mutex_lock(&comm->turn);
  if (comm->nranks == 1 && kernel->ncollectives) {
    int64_t begin = standin_now();
    standin_run_alone(kernel->calls);
    standin_stats_took(kernel->calls->line, standin_now() - begin);
  } else {
    struct job job = {
      .comm = comm, .calls = kernel->order, .ncalls = kernel->ncalls, .ncollectives = kernel->ncollectives};
    standin_comm_acquire_again(comm); /* the job releases this use */
    standin_run(&job, 1);
  }
  pthread_mutex_unlock(&comm->turn);
  standin_comm_release(comm);
}

static void free_kernel(void *data) {
  struct kernel *kernel = data;
  free(kernel->order);
  free(kernel);
}

/* The memory accesses of a group's kernels. */
struct touched {
  struct standin_cuda_access *access;
  unsigned count;
  bool outside; /* some of it cannot be reached */
};

/* Notes an access, and returns the buffer's real address. */
static void *touch(struct touched *touched, const void *buffer, size_t bytes, bool writes) {
  CUdeviceptr begin = (uintptr_t)buffer;
  if (!buffer || !bytes)
    return NULL;
  touched->access[touched->count++] = (struct standin_cuda_access){.begin = begin, .bytes = bytes, .writes = writes};
  void *view = driver.standin_cuda_view(begin, bytes);
  touched->outside |= !view;
  return view;
}

static void touch_buffers(struct touched *touched, const struct ncclComm *comm, struct call *call) {
  size_t element = standin_type_size(call->type), block = call->count * element;
  call->send = touch(touched, call->send, standin_blocks_sent(comm, call) * block, false);
  call->recv = touch(touched, call->recv, standin_blocks_received(comm, call) * block, true);
  call->reduction.device_scalar = touch(touched, call->reduction.device_scalar, element, false);
}

static const char *name_of(const struct job *job) {
  static const char *const names[] = {[FN_REDUCE_SCATTER] = "ncclReduceScatter",
                                      [FN_ALL_GATHER] = "ncclAllGather",
                                      [FN_ALL_REDUCE] = "ncclAllReduce",
                                      [FN_BROADCAST] = "ncclBroadcast",
                                      [FN_REDUCE] = "ncclReduce",
                                      [FN_SEND] = "ncclSend",
                                      [FN_RECV] = "ncclRecv",
                                      [FN_ALL_TO_ALL] = "ncclAlltoAll",
                                      [FN_GATHER] = "ncclGather",
                                      [FN_SCATTER] = "ncclScatter"};
  return job->ncalls == 1 ? names[job->calls[0]->function] : "a group of NCCL's calls";
}

static CUstream stream_of(const struct job *job, size_t call) { return (CUstream)job->calls[call]->stream; }

static ncclResult_t launch(const struct job *job) {
  struct kernel *kernel = calloc(1, sizeof *kernel + job->ncalls * sizeof *kernel->calls);
  struct call **order = calloc(job->ncalls, sizeof *order);
  struct touched touched = {.access = calloc(job->ncalls, 3 * sizeof *touched.access)};
  if (!kernel || !order || !touched.access) {
    free(kernel);
    free(order);
    free(touched.access);
    return standin_fail(ncclSystemError, "no memory for a kernel");
  }
  *kernel = (struct kernel){.comm = job->comm,
                            .comm_id = job->comm->id,
                            .ncalls = job->ncalls,
                            .ncollectives = job->ncollectives,
                            .order = order};
  for (size_t i = 0; i < job->ncalls; i++) {
    kernel->calls[i] = *job->calls[i];
    order[i] = &kernel->calls[i];
    touch_buffers(&touched, job->comm, &kernel->calls[i]);
  }
  CUresult result = CUDA_SUCCESS;
  if (touched.outside)
    free_kernel(kernel);
  else
    result = driver.standin_cuda_launch(stream_of(job, 0), name_of(job), run_kernel, free_kernel, kernel,
                                        touched.access, touched.count);
  free(touched.access);
  if (touched.outside)
    return standin_fail(ncclInvalidArgument, "%s: a buffer is shorter than the call, or was freed", name_of(job));
  return result == CUDA_SUCCESS ? ncclSuccess : refused(result, "the launch of a kernel");
}

/* -- streams ----------------------------------------------------------------------------------------------------- */
/* True if the call is the first on its stream. */
static bool brings_stream(const struct job *job, size_t call) {
  for (size_t i = 0; i < call; i++)
    if (stream_of(job, i) == stream_of(job, call))
      return false;
  return true;
}

/* The kernel runs on its first call's stream. That waits for the others, and for the communicator's previous kernel. */
static CUresult join_before(const struct job *job) {
  struct ncclComm *comm = job->comm;
  CUstream lead = stream_of(job, 0);
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < job->ncalls && result == CUDA_SUCCESS; i++) {
    if (!brings_stream(job, i))
      continue;
    result = driver.cuEventRecord(comm->joint, stream_of(job, i));
    if (result == CUDA_SUCCESS)
      result = driver.cuStreamWaitEvent(lead, comm->joint, 0);
  }
  if (result == CUDA_SUCCESS && comm->launched && !standin_is_captured((cudaStream_t)lead))
    result = driver.cuStreamWaitEvent(lead, comm->over, 0);
  return result;
}

static CUresult join_after(const struct job *job) {
  struct ncclComm *comm = job->comm;
  CUstream lead = stream_of(job, 0);
  bool captured = standin_is_captured((cudaStream_t)lead);
  CUevent event = captured ? comm->joint : comm->over;
  CUresult result = driver.cuEventRecord(event, lead);
  for (size_t i = 1; i < job->ncalls && result == CUDA_SUCCESS; i++)
    if (brings_stream(job, i))
      result = driver.cuStreamWaitEvent(stream_of(job, i), event, 0);
  comm->launched |= !captured;
  return result;
}

/* Communicators of one group may share streams, so all join before any launches: none waits for another's kernel. */
ncclResult_t standin_device_launch(const struct job *jobs, size_t njobs) {
  enum { BEFORE, LAUNCH, AFTER, PHASES };
  ncclResult_t result = standin_contact(jobs, njobs);
  for (int phase = BEFORE; phase < PHASES; phase++)
    for (size_t i = 0; i < njobs && result == ncclSuccess; i++) {
      driver.cuCtxPushCurrent_v2(jobs[i].comm->context);
      CUresult joined = phase == BEFORE ? join_before(&jobs[i]) : phase == AFTER ? join_after(&jobs[i]) : CUDA_SUCCESS;
      if (joined != CUDA_SUCCESS)
        result = refused(joined, "the streams of a group");
      else if (phase == LAUNCH)
        result = launch(&jobs[i]);
      driver.cuCtxPopCurrent_v2(NULL);
    }
  return result;
}

void standin_device_drain(struct ncclComm *comm) {
  if (ncclStandinHostMemory || !comm->launched)
    return;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* a capture in this thread must not object */
  driver.cuThreadExchangeStreamCaptureMode(&mode);
  driver.cuCtxPushCurrent_v2(comm->context);
  driver.cuEventSynchronize(comm->over);
  driver.cuCtxPopCurrent_v2(NULL);
  driver.cuThreadExchangeStreamCaptureMode(&mode);
}
