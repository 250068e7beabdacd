/* SPDX-License-Identifier: BSD-3-Clause
 * The stand-in for CUDA's runtime: its ABI, devices and contexts of threads, memory, copies, streams, events, and
 * errors that are told: as CUDA's documentation has them.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "tests/standin/cuda/standin.h"
#include "tests/standin/cudart/cudart.h"
#include "tests/unit/device/cuda_child.h"
#include "tests/unit/standin/cudart_table.h"

#define WELL(call) EXPECT((call) == cudaSuccess)
#define FAILS(error, call) \
  EXPECT((call) == (error) && cudaGetLastError() == (error) && cudaGetLastError() == cudaSuccess)

/* -- the ABI ------------------------------------------------------------------------------------------------------- */
static void check_abi(void) {
  static const struct cudart_fact ours[] = {CUDART_FACTS};
  if (!cudart_theirs[0].name) {
    skip("the layout is that of NVIDIA's header", "there is no cuda_runtime_api.h of CUDA 13");
    return;
  }
  bool same = true;
  for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
    if (strcmp(ours[i].name, cudart_theirs[i].name) != 0 || ours[i].value != cudart_theirs[i].value) {
      printf("# %s is %zu, NVIDIA's %zu\n", ours[i].name, ours[i].value, cudart_theirs[i].value);
      same = false;
    }
  ok(same, "the layout is that of NVIDIA's header");
}

/* -- devices and contexts ------------------------------------------------------------------------------------------ */
static void *another_thread(void *begins_at) {
  int device = -1;
  WELL(cudaGetDevice(&device));
  *(int *)begins_at = device;
  WELL(cudaSetDevice(0));
  return NULL;
}

static void devices(void) {
  int count = 0, device = -1, value = 0, elsewhere = -1;
  char id[16];
  struct cudaDeviceProp p;
  pthread_t thread;
  WELL(cudaGetDeviceCount(&count));
  WELL(cudaGetDevice(&device));
  EXPECT(count == 2 && device == 0);
  WELL(cudaSetDevice(1));
  FAILS(cudaErrorInvalidDevice, cudaSetDevice(2));
  EXPECT(pthread_create(&thread, NULL, another_thread, &elsewhere) == 0 && pthread_join(thread, NULL) == 0);
  WELL(cudaGetDevice(&device));
  EXPECT(device == 1 && elsewhere == 0); /* each thread has its own */
  WELL(cudaDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1));
  WELL(cudaGetDeviceProperties(&p, 1));
  EXPECT(value == 7 && p.major == 7 && p.minor == 5 && p.warpSize == 32 && p.totalGlobalMem == 64 << 20 && p.name[0]);
  FAILS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&p, 2));
  WELL(cudaDeviceGetPCIBusId(id, sizeof id, 1));
  WELL(cudaDeviceGetByPCIBusId(&elsewhere, id));
  EXPECT(elsewhere == 1);
  FAILS(cudaErrorInvalidValue, cudaDeviceGetByPCIBusId(&elsewhere, "0000:7f:00.0"));
  FAILS(cudaErrorInvalidValue, cudaDeviceGetByPCIBusId(&elsewhere, "none"));
}

/* A context that the driver made current is the runtime's. */
static void contexts_of_driver(void) {
  CUcontext now;
  int device = -1;
  void *p;
  device_open(1);
  WELL(cudaGetDevice(&device));
  EXPECT(device == 1);
  WELL(cudaMalloc(&p, 16));
  WELL(cudaSetDevice(0));
  MUST(cuCtxGetCurrent(&now));
  EXPECT(now == device_open(0));
}

static void no_device(void) {
  int count;
  void *p;
  FAILS(cudaErrorNoDevice, cudaGetDeviceCount(&count));
  FAILS(cudaErrorNoDevice, cudaMalloc(&p, 16));
}

/* -- memory and copies --------------------------------------------------------------------------------------------- */
static void memory(void) {
  void *device, *pinned, *managed, *none = &device;
  size_t before, left, total;
  WELL(cudaMemGetInfo(&before, &total));
  WELL(cudaMalloc(&device, 1000));
  WELL(cudaMallocHost(&pinned, 100));
  WELL(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal));
  WELL(cudaMemGetInfo(&left, &total));
  EXPECT(total == 64 << 20 && before - left == 1000);
  WELL(cudaMalloc(&none, 0));
  EXPECT(!none);
  struct cudaPointerAttributes d, p, m, h;
  WELL(cudaPointerGetAttributes(&d, (char *)device + 999));
  WELL(cudaPointerGetAttributes(&p, pinned));
  WELL(cudaPointerGetAttributes(&m, managed));
  WELL(cudaPointerGetAttributes(&h, &total));
  EXPECT(d.type == cudaMemoryTypeDevice && d.devicePointer == (char *)device + 999 && !d.hostPointer);
  EXPECT(p.type == cudaMemoryTypeHost && p.hostPointer == pinned && m.type == cudaMemoryTypeManaged);
  EXPECT(h.type == cudaMemoryTypeUnregistered && !h.devicePointer);
  FAILS(cudaErrorMemoryAllocation, cudaMalloc(&none, 65 << 20));
  FAILS(cudaErrorInvalidValue, cudaFree((char *)device + 1));
  WELL(cudaFree(device));
  WELL(cudaFree(NULL));
  WELL(cudaFree(managed));
  WELL(cudaFreeHost(pinned));
  WELL(cudaFreeHost(NULL));
}

/* Memory of the program is pinned from its registration to its end. */
static void registered(void) {
  static uint32_t words[64];
  struct cudaPointerAttributes attributes;
  void *device, *pinned, *pointer;
  WELL(cudaMalloc(&device, sizeof words));
  WELL(cudaMallocHost(&pinned, sizeof words));
  FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(words));
  FAILS(cudaErrorInvalidValue, cudaHostGetDevicePointer(&pointer, words, 0));
  FAILS(cudaErrorInvalidValue, cudaHostRegister(words, 0, 0));
  WELL(cudaHostRegister(words + 16, 128, 0));
  FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(words, 68, 0));
  FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(words + 47, 4, 0));
  FAILS(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(pinned, 4, 0));
  WELL(cudaHostGetDevicePointer(&pointer, words + 17, 0));
  EXPECT(pointer == words + 17);
  WELL(cudaHostGetDevicePointer(&pointer, pinned, 0));
  EXPECT(pointer == pinned);
  WELL(cudaPointerGetAttributes(&attributes, words + 16));
  EXPECT(attributes.type == cudaMemoryTypeHost);
  FAILS(cudaErrorInvalidValue, cudaFreeHost(words + 16)); /* it is the program's */
  FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(pinned));
  WELL(cudaHostUnregister(words + 16));
  WELL(cudaPointerGetAttributes(&attributes, words + 16));
  EXPECT(attributes.type == cudaMemoryTypeUnregistered);
  WELL(cudaHostRegister(words, sizeof words, 0));
}

static void pools(void) {
  struct cudaMemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
  struct cudaPointerAttributes attributes;
  cudaMemPool_t pool;
  uint64_t threshold = UINT64_MAX;
  uint32_t word = 0;
  void *p, *none = &p;
  WELL(cudaMemPoolCreate(&pool, &properties));
  WELL(cudaMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  FAILS(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, 99, &threshold));
  WELL(cudaMallocFromPoolAsync(&none, 0, pool, NULL));
  EXPECT(!none);
  WELL(cudaMallocFromPoolAsync(&p, 4, pool, NULL));
  WELL(cudaPointerGetAttributes(&attributes, p));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 1);
  WELL(cudaMemsetAsync(p, 0x11, 4, NULL));
  WELL(cudaMemcpy(&word, p, 4, cudaMemcpyDeviceToHost));
  EXPECT(word == 0x11111111);
  WELL(cudaFreeAsync(p, NULL));
  WELL(cudaMemPoolDestroy(pool));
  properties.location.id = 2;
  FAILS(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &properties));
}

static void copies(void) {
  uint32_t from[64], to[64] = {0};
  void *a, *b;
  cudaStream_t stream;
  for (uint32_t i = 0; i < 64; i++)
    from[i] = i;
  WELL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  WELL(cudaMalloc(&a, sizeof from));
  WELL(cudaMallocAsync(&b, sizeof from, stream));
  WELL(cudaMemcpyAsync(a, from, sizeof from, cudaMemcpyHostToDevice, stream));
  WELL(cudaMemcpyAsync(b, a, sizeof from, cudaMemcpyDefault, stream));
  WELL(cudaMemsetAsync(b, 0xff, 4, stream));
  WELL(cudaMemcpy2DAsync((char *)b + 128, 16, a, 32, 8, 2, cudaMemcpyDeviceToDevice, stream));
  WELL(cudaMemcpyAsync(to, b, sizeof to, cudaMemcpyDeviceToHost, stream));
  EXPECT(to[0] == 0xffffffff && to[1] == 1 && to[63] == 63); /* pageable: the copy is complete */
  EXPECT(to[32] == 0 && to[33] == 1 && to[34] == 34 && to[36] == 8 && to[37] == 9);
  WELL(cudaFreeAsync(b, stream));
  WELL(cudaStreamSynchronize(stream));
  WELL(cudaMemset(a, 0, sizeof from));
  WELL(cudaMemcpy(to, a, sizeof to, cudaMemcpyDeviceToHost));
  EXPECT(to[63] == 0);
  FAILS(cudaErrorInvalidValue, cudaMemcpy(a, to, sizeof to + 4, cudaMemcpyHostToDevice)); /* beyond the end */
  FAILS(cudaErrorInvalidValue, cudaMemcpy(to, a, sizeof to, cudaMemcpyHostToDevice));     /* the other direction */
}

/* -- streams and events -------------------------------------------------------------------------------------------- */
static void count_calls(void *calls) { ++*(int *)calls; }

static void wait_for(void *go) {
  while (!*(atomic_bool *)go)
    pause_briefly();
}

static void streams(void) {
  cudaStream_t first, second;
  cudaEvent_t event, timed[2];
  int calls = 0, least, greatest, priority, status = -1;
  float milliseconds = -1;
  atomic_bool go = false;
  WELL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  WELL(cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking, greatest));
  WELL(cudaStreamGetPriority(first, &priority));
  WELL(cudaStreamCreate(&second));
  EXPECT(least == 0 && greatest < 0 && priority == greatest);
  WELL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (int i = 0; i < 2; i++)
    WELL(cudaEventCreate(&timed[i]));
  WELL(cudaEventQuery(event)); /* not recorded yet */
  WELL(cudaEventRecord(timed[0], first));
  WELL(cudaLaunchHostFunc(first, count_calls, &calls));
  WELL(cudaLaunchHostFunc(first, wait_for, &go)); /* lazy work begins with the first query */
  WELL(cudaEventRecord(event, first));
  FAILS(cudaErrorNotReady, cudaEventQuery(event));
  FAILS(cudaErrorNotReady, cudaStreamQuery(second) ?: cudaStreamQuery(first));
  go = true;
  WELL(cudaStreamWaitEvent(second, event, 0));
  WELL(cudaEventRecord(timed[1], second));
  WELL(cudaEventSynchronize(timed[1]));
  EXPECT(calls == 1);
  WELL(cudaEventElapsedTime(&milliseconds, timed[0], timed[1]));
  FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&milliseconds, timed[0], event));
  EXPECT(milliseconds >= 0);
  WELL(cudaStreamIsCapturing(first, &status));
  EXPECT(status == 0);
  WELL(cudaDeviceSynchronize());
  WELL(cudaEventDestroy(event));
  WELL(cudaStreamDestroy(first));
  FAILS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(first));
}

/* As many as PyTorch makes, and some more. */
static void many_streams(void) {
  enum { MANY = 300 };
  cudaStream_t stream[MANY];
  int calls = 0;
  for (int i = 0; i < MANY; i++)
    WELL(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
  WELL(cudaLaunchHostFunc(stream[MANY - 1], count_calls, &calls));
  WELL(cudaStreamSynchronize(stream[MANY - 1]));
  EXPECT(calls == 1);
}

/* -- kernels of PyTorch -------------------------------------------------------------------------------------------- */
static cudaError_t look_for_nan(const char *name, const void *data, size_t count, size_t bytes) {
  static char stubs[8]; /* one a call: the runtime remembers them */
  static int calls;
  const char *stub = &stubs[calls++];
  void *memory, *parameters[] = {&memory, &count};
  WELL(cudaMalloc(&memory, count * bytes));
  WELL(cudaMemcpy(memory, data, count * bytes, cudaMemcpyHostToDevice));
  __cudaRegisterFunction(__cudaRegisterFatBinary(NULL), stub, NULL, name, 0, NULL, NULL, NULL, NULL, NULL);
  const cudaError_t error = cudaLaunchKernel(stub, (cudart_dim3){1, 1, 1}, (cudart_dim3){1, 1, 1}, parameters, 0, NULL);
  EXPECT(cudaGetLastError() == error);
  WELL(cudaFree(memory));
  return error;
}

static void nan_checked(void) {
  static const float numbers[] = {1, -2, INFINITY, NAN};
  static const uint16_t halves[] = {0x7c00, 0xfc00, 0x7c01}, bf16s[] = {0x7c01, 0xff80, 0xff81};
  EXPECT(look_for_nan("_ZN4c10d11checkForNaNIfEEvPT_m", numbers, 3, 4) == cudaSuccess);
  EXPECT(look_for_nan("_ZN4c10d11checkForNaNIfEEvPT_m", numbers, 4, 4) == cudaErrorAssert);
  EXPECT(look_for_nan("_ZN4c10d11checkForNaNIN3c104HalfEEEvPT_m", halves, 2, 2) == cudaSuccess);
  EXPECT(look_for_nan("_ZN4c10d11checkForNaNIN3c104HalfEEEvPT_m", halves, 3, 2) == cudaErrorAssert);
  EXPECT(look_for_nan("_ZN4c10d11checkForNaNIN3c108BFloat16EEEvPT_m", bf16s, 2, 2) == cudaSuccess);
  EXPECT(look_for_nan("_ZN4c10d11checkForNaNIN3c108BFloat16EEEvPT_m", bf16s, 3, 2) == cudaErrorAssert);
}

/* -- errors -------------------------------------------------------------------------------------------------------- */
static void told(void) {
  static const char stub[] = "the function of the host";
  void *p;
  WELL(cudaMalloc(&p, 16));
  __cudaRegisterFunction(__cudaRegisterFatBinary(NULL), stub, NULL, "scale", 0, NULL, NULL, NULL, NULL, NULL);
  cudart_dim3 grid = {2, 1, 1}, block = {3, 1, 1};
  size_t shared = 0;
  cudaStream_t stream = NULL;
  EXPECT(__cudaPushCallConfiguration((cudart_dim3){5, 1, 1}, (cudart_dim3){7, 1, 1}, 11, NULL) == 0);
  WELL(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  EXPECT(grid.x == 5 && block.x == 7 && shared == 11);
  CUfunction function = (CUfunction)&p;
  FAILS(cudaErrorNotSupported, cudaLaunchKernel(stub, grid, block, NULL, shared, stream));
  FAILS(cudaErrorNotSupported, cudaGetFuncBySymbol(&function, stub));
  EXPECT(!function);
  EXPECT(strcmp(cudaGetErrorName(cudaErrorNotSupported), "cudaErrorNotSupported") == 0);
  EXPECT(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
  EXPECT(strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code") == 0);
}

struct addition {
  CUdeviceptr to;
  uint32_t value;
};

static void add(const void *parameters) {
  const struct addition *a = parameters;
  *(uint32_t *)standin_cuda_view(a->to, 4) += a->value;
}

/* A kernel that the program plays: in stream order, with the parameters at its launch. */
static void played(void) {
  static const char stub[] = "the function of the host";
  uint32_t word = 0;
  void *p;
  CUfunction function;
  cudaStream_t stream;
  WELL(cudaMalloc(&p, 4));
  WELL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  WELL(cudaStandinPlays(stub, "add", add));
  WELL(cudaGetFuncBySymbol(&function, stub));
  struct addition five = {(CUdeviceptr)(uintptr_t)p, 5};
  size_t bytes = sizeof five;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_BUFFER_POINTER, &five, CU_LAUNCH_PARAM_END};
  CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
  WELL(cudaMemsetAsync(p, 1, 4, stream));
  MUST(cuLaunchKernelEx(&config, function, NULL, extra));
  five.value = 7;
  WELL(cudaMemcpyAsync(&word, p, 4, cudaMemcpyDeviceToHost, stream));
  EXPECT(word == 0x01010106);
  EXPECT(cuLaunchKernelEx(&config, function, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
  config.numAttrs = 1;
  EXPECT(cuLaunchKernelEx(&config, function, NULL, extra) == CUDA_ERROR_NOT_SUPPORTED);
}

static void entry_points(void) {
  void *function = NULL;
  int status = -1;
  WELL(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, 0, &status));
  EXPECT(function == (void *)(uintptr_t)cuMemAlloc_v2 && status == 0);
  WELL(cudaGetDriverEntryPointByVersion("cuMemNothing", &function, 12000, 0, &status));
  EXPECT(!function && status == 1);
  WELL(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 99000, 0, &status));
  EXPECT(!function && status == 2);
}

/* Work that fails spoils its context: every later call says so. */
static void failed_work(void) {
  void *p;
  WELL(cudaMalloc(&p, 16));
  WELL(cudaMemsetAsync(p, 0, 16, NULL));
  FAILS(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  FAILS(cudaErrorIllegalAddress, cudaMemset(p, 0, 16));
}

int main(void) {
  check_abi();
  lives("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_CAPABILITY=75 CUDA_STANDIN_MEMORY=64", devices,
        "devices, and the one of each thread");
  lives("CUDA_STANDIN_DEVICES=2", contexts_of_driver, "contexts of the driver");
  lives("CUDA_STANDIN_DEVICES=0", no_device, "no device: every call says so");
  lives("CUDA_STANDIN_MEMORY=64", memory, "memory, and what pointers are");
  lives("", registered, "memory of the program");
  lives("CUDA_STANDIN_DEVICES=2", pools, "pools");
  lives("", copies, "copies and memsets");
  lives("CUDA_STANDIN_LAZY=1", streams, "streams and events");
  lives("", many_streams, "more streams than PyTorch makes");
  const int status = child_run("", told);
  if (!ok(status == 0 && strcmp(child_said, "CUDA runtime stand-in: scale is not played\n") == 0,
          "launches are refused, and tell the kernel's name once"))
    child_show(status);
  lives("CUDA_STANDIN_LAZY=1", played, "a kernel that the program plays");
  lives("", nan_checked, "the kernel by which PyTorch finds NaN");
  lives("", entry_points, "functions of the driver");
  lives("CUDA_STANDIN_FAULT=run:1", failed_work, "work that fails");
  return tap_done();
}
