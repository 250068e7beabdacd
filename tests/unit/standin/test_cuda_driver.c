/* SPDX-License-Identifier: BSD-3-Clause
 * The stand-in for the CUDA driver: contexts, memory and pointer attributes, modules and launches, faults on request.
 */
#include <stdint.h>

#include "tests/standin/cuda/standin.h"
#include "tests/unit/device/cuda_child.h"

/* -- the driver, its devices and contexts -------------------------------------------------------------------------- */
static void not_initialized(void) {
  CUstream stream;
  int count;
  EXPECT(cuStreamCreate(&stream, 0) == CUDA_ERROR_NOT_INITIALIZED &&
         cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
  EXPECT(cuInit(1) == CUDA_ERROR_INVALID_VALUE && cuInit(0) == CUDA_SUCCESS);
  EXPECT(cuStreamCreate(&stream, 0) == CUDA_ERROR_INVALID_CONTEXT);
}

static void devices(void) {
  int count, version, major, minor;
  CUdevice device;
  MUST(cuInit(0));
  MUST(cuDeviceGetCount(&count));
  MUST(cuDriverGetVersion(&version));
  EXPECT(count == 2 && version == 12020);
  MUST(cuDeviceGet(&device, 1));
  EXPECT(cuDeviceGet(&device, 2) == CUDA_ERROR_INVALID_DEVICE);
  MUST(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  MUST(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  EXPECT(major == 7 && minor == 5);
}

static void described(void) {
  char name[64] = "", id[16] = "", uuid[2][16];
  size_t bytes = 0, available = 0, total = 0;
  unsigned flags = 1;
  int active = 1;
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT(!active && flags == 0);
  device_open(1);
  MUST(cuDevicePrimaryCtxGetState(1, &flags, &active));
  MUST(cuDeviceGetName(name, sizeof name, 1));
  MUST(cuDeviceGetPCIBusId(id, sizeof id, 1));
  for (int i = 0; i < 2; i++)
    MUST(cuDeviceGetUuid_v2(uuid[i], i));
  MUST(cuDeviceTotalMem_v2(&bytes, 1));
  EXPECT(active && name[0] && strcmp(id, "0000:02:00.0") == 0 && memcmp(uuid[0], uuid[1], 16) != 0);
  CUdeviceptr p = device_buffer(1000), begin = 0;
  MUST(cuMemGetInfo_v2(&available, &total));
  EXPECT(bytes == 64 << 20 && total == bytes && total - available == 1000);
  MUST(cuMemGetAddressRange_v2(&begin, &bytes, p + 500));
  EXPECT(begin == p && bytes == 1000 && cuMemGetAddressRange_v2(NULL, NULL, p + 1000) == CUDA_ERROR_NOT_FOUND);
}

static void no_device(void) { EXPECT(cuInit(0) == CUDA_ERROR_NO_DEVICE); }

static void contexts(void) {
  CUcontext first = device_open(0), second, now;
  MUST(cuDevicePrimaryCtxRetain(&second, 1));
  MUST(cuCtxPushCurrent_v2(second));
  CUstream stream = device_stream(0);
  MUST(cuCtxPopCurrent_v2(&now));
  EXPECT(now == second);
  MUST(cuCtxGetCurrent(&now));
  EXPECT(now == first);
  MUST(cuStreamGetCtx(stream, &now));
  EXPECT(now == second);
  CUfunction f = device_kernel("sum");
  CUdeviceptr x = device_buffer(64), total = device_buffer(8);
  unsigned n = 1;
  EXPECT(LAUNCH(f, 1, 256, 0, stream, &x, &n, &total) == CUDA_ERROR_INVALID_HANDLE);
  MUST(cuCtxSetCurrent(second));
  EXPECT(LAUNCH(f, 1, 256, 0, stream, &x, &n, &total) == CUDA_ERROR_INVALID_HANDLE);
  MUST(cuDevicePrimaryCtxRelease_v2(1));
  EXPECT(cuMemAlloc_v2(&x, 1) == CUDA_ERROR_INVALID_CONTEXT);
}

static void addresses(void) {
  void *function;
  CUdriverProcAddressQueryResult status;
  MUST(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, &status));
  EXPECT(function == (void *)(uintptr_t)cuMemAlloc_v2 && status == CU_GET_PROC_ADDRESS_SUCCESS);
  MUST(cuGetProcAddress("cuLaunchKernel", &function, 11000, 0));
  EXPECT(function == (void *)(uintptr_t)cuLaunchKernel);
  EXPECT(cuGetProcAddress_v2("cuMemNothing", &function, 12000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  EXPECT(!function && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

static void names(void) {
  const char *name, *text;
  MUST(cuGetErrorName(CUDA_ERROR_NO_BINARY_FOR_GPU, &name));
  MUST(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT(strcmp(name, "CUDA_ERROR_NO_BINARY_FOR_GPU") == 0 && strcmp(text, "out of memory") == 0);
  EXPECT(cuGetErrorName(12345, &name) == CUDA_ERROR_INVALID_VALUE && !name);
}

/* -- memory -------------------------------------------------------------------------------------------------------- */
struct is {
  unsigned type, managed;
  int device;
  CUdeviceptr begin;
  size_t size;
};

static struct is what_is(CUdeviceptr pointer) {
  struct is is;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                      CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  MUST(
    cuPointerGetAttributes(5, attributes, (void *[]){&is.type, &is.managed, &is.device, &is.begin, &is.size}, pointer));
  return is;
}

static void pointers(void) {
  unsigned type;
  void *pinned, *at;
  CUdeviceptr managed;
  device_open(0);
  device_open(1);
  CUdeviceptr device = device_buffer(1000);
  MUST(cuMemAllocHost_v2(&pinned, 100));
  MUST(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
  struct is d = what_is(device + 999), p = what_is((uintptr_t)pinned), m = what_is(managed),
            h = what_is((uintptr_t)&type);
  EXPECT(d.type == CU_MEMORYTYPE_DEVICE && !d.managed && d.device == 1 && d.begin == device && d.size == 1000);
  EXPECT(p.type == CU_MEMORYTYPE_HOST && !p.managed && m.type == CU_MEMORYTYPE_DEVICE && m.managed == 1);
  EXPECT(h.type == 0 && h.device == CU_DEVICE_INVALID && h.size == 0 && what_is(device + 1000).type == 0);
  EXPECT(device % 256 == 0);
  EXPECT(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&type) == CUDA_ERROR_INVALID_VALUE);
  MUST(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_HOST_POINTER, managed));
  EXPECT(at == (void *)(uintptr_t)managed);
  memset(pinned, 1, 100);
  memset(at, 1, 100);
  MUST(cuMemFree_v2(device));
  EXPECT(what_is(device).type == 0);
  EXPECT(cuMemFree_v2(device) == CUDA_ERROR_INVALID_VALUE && cuMemFree_v2(managed + 1) == CUDA_ERROR_INVALID_VALUE);
  MUST(cuMemFree_v2(managed));
  MUST(cuMemFreeHost(pinned));
}

static void memory_ends(void) {
  CUdeviceptr p;
  device_open(0);
  EXPECT(cuMemAlloc_v2(&p, (size_t)5 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  MUST(cuMemAlloc_v2(&p, (size_t)3 << 20));
  EXPECT(cuMemAllocAsync(&p, (size_t)3 << 20, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
  MUST(cuMemFree_v2(p));
  MUST(cuMemAllocAsync(&p, (size_t)3 << 20, NULL));
}

static void copies(void) {
  unsigned char from[300], to[300] = {0};
  device_open(0);
  for (int i = 0; i < 300; i++)
    from[i] = (unsigned char)i;
  CUdeviceptr a = device_copy(from, sizeof from), b = device_buffer(300);
  MUST(cuMemsetD8Async(b, 7, 300, NULL));
  MUST(cuMemcpyDtoDAsync_v2(b + 10, a, 100, NULL));
  MUST(cuMemsetD32Async(b + 120, 0x01020304, 2, NULL));
  MUST(cuMemcpyDtoHAsync_v2(to, b, 300, NULL));
  for (int i = 0; i < 300; i++)
    EXPECT(to[i] == (i >= 10 && i < 110 ? i - 10 : i >= 120 && i < 128 ? 4 - (i - 120) % 4 : 7));
  EXPECT(cuMemcpyDtoHAsync_v2(to, b, 301, NULL) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemcpyHtoDAsync_v2((uintptr_t)to, from, 1, NULL) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuMemsetD32Async(b + 2, 0, 1, NULL) == CUDA_ERROR_INVALID_VALUE);
}

/* -- who must not touch it ----------------------------------------------------------------------------------------- */
static void host_reads(void) {
  device_open(0);
  EXPECT(*(volatile char *)(uintptr_t)(device_buffer(100) + 50) == 0);
}

static void host_writes_freed(void) {
  device_open(0);
  CUdeviceptr p = device_buffer(100);
  MUST(cuMemFree_v2(p));
  *(volatile char *)(uintptr_t)p = 0;
}

static void old_view(void) {
  device_open(0);
  CUdeviceptr p = device_buffer(100);
  volatile char *view = standin_cuda_view(p, 100);
  view[99] = 1;
  EXPECT(view[99] == 1);
  MUST(cuMemFree_v2(p));
  EXPECT(view[99] == 0);
}

static CUresult sum_of(CUdeviceptr x, CUdeviceptr total) {
  unsigned n = 4;
  return LAUNCH(device_kernel("sum"), 1, 256, 0, NULL, &x, &n, &total);
}

static void kernel_of_freed(void) {
  device_open(0);
  CUdeviceptr x = device_buffer(16), total = device_buffer(8);
  MUST(cuMemFree_v2(x));
  sum_of(x, total);
}

static void kernel_of_pageable(void) {
  uint32_t x[4] = {0};
  device_open(0);
  sum_of((uintptr_t)x, device_buffer(8));
}

static void kernel_of_other_device(void) {
  device_open(1);
  CUdeviceptr x = device_buffer(16);
  device_open(0);
  sum_of(x, device_buffer(8));
}

/* Pinned and managed memory, and a pointer one past a buffer. */
static void kernel_of_host(void) {
  void *pinned;
  CUdeviceptr managed;
  device_open(0);
  MUST(cuMemAllocHost_v2(&pinned, 16));
  MUST(cuMemAllocManaged(&managed, 8, CU_MEM_ATTACH_GLOBAL));
  memcpy(pinned, (uint32_t[]){1, 2, 3, 4}, 16);
  *(uint64_t *)(uintptr_t)managed = 0;
  MUST(sum_of((uintptr_t)pinned, managed));
  MUST(cuCtxSynchronize());
  EXPECT(*(uint64_t *)(uintptr_t)managed == 10);
  unsigned none = 0;
  CUdeviceptr end = device_buffer(100) + 100;
  MUST(LAUNCH(device_kernel("sum"), 1, 256, 0, NULL, &end, &none, &managed));
  MUST(cuCtxSynchronize());
}

/* -- modules and launches ------------------------------------------------------------------------------------------ */
static void modules(void) {
  CUmodule module;
  CUfunction f;
  device_open(0);
  EXPECT(cuModuleLoadData(&module, "ELF") == CUDA_ERROR_INVALID_IMAGE);
  MUST(cuModuleLoadFatBinary(&module, "\x50\xed\x55\xba..."));
  EXPECT(cuModuleGetFunction(&f, module, "nothing") == CUDA_ERROR_NOT_FOUND);
  MUST(cuModuleGetFunction(&f, module, "sum"));
  MUST(cuModuleUnload(module));
  EXPECT(cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE);
  EXPECT(LAUNCH(f, 1, 1, 0, NULL, NULL) == CUDA_ERROR_INVALID_HANDLE);
}

static CUresult load(const char *image) {
  CUmodule module;
  CUresult result = cuModuleLoadData(&module, image);
  if (result == CUDA_SUCCESS)
    MUST(cuModuleUnload(module));
  return result;
}

#define OLD_PTX "\n.version 6.3\n.target sm_75\n.address_size 64\n"
#define NEW_PTX ".version 9.0\n.target sm_75\n"

static void images(void) {
  device_open(0);
  EXPECT(load("CUDA-STANDIN") == CUDA_SUCCESS && load(OLD_PTX) == CUDA_SUCCESS && load(NEW_PTX) == CUDA_SUCCESS);
  EXPECT(load(".version 9.1\n.target sm_75\n") == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT(load(".version 6.3\n.target sm_90\n") == CUDA_ERROR_INVALID_PTX);
  EXPECT(load(".version\n.target sm_75\n") == CUDA_ERROR_INVALID_PTX &&
         load(".target sm_75\n") == CUDA_ERROR_INVALID_IMAGE);
}

static void images_of_newer_driver(void) {
  device_open(0);
  EXPECT(load("CUDA-STANDIN") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT(load("\x50\xed\x55\xba...") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT(load(NEW_PTX) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION && load(OLD_PTX) == CUDA_SUCCESS);
  EXPECT(load(".version 8.8\n.target sm_75\n") == CUDA_SUCCESS);
}

static void images_of_much_newer_driver(void) {
  device_open(0);
  EXPECT(load("CUDA-STANDIN") == CUDA_ERROR_NO_BINARY_FOR_GPU && load(OLD_PTX) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

static void launches(void) {
  int value;
  device_open(0);
  CUfunction f = device_kernel("places"), h = device_kernel("histogram");
  CUdeviceptr out = device_buffer(4096);
  MUST(cuMemsetD8Async(out, 0, 4096, NULL));
  MUST(LAUNCH(f, 1, 1024, 0, NULL, &out));
  EXPECT(LAUNCH(f, 1, 1025, 0, NULL, &out) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(LAUNCH(f, 0, 32, 0, NULL, &out) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, NULL, (void *[]){&out}, NULL) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_VALUE);
  EXPECT(LAUNCH(f, 1, 32, 49153, NULL, &out) == CUDA_ERROR_INVALID_VALUE);
  MUST(cuFuncSetAttribute(h, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 90000));
  MUST(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, h));
  EXPECT(value == 90000);
  struct {
    CUdeviceptr x, counts;
    unsigned n, bins;
  } none = {0, 0, 0, 20000};
  EXPECT(LAUNCH(h, 1, 32, 90001, NULL, &none) == CUDA_ERROR_INVALID_VALUE);
  MUST(LAUNCH(h, 1, 32, 90000, NULL, &none));
  EXPECT(cuFuncSetAttribute(h, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200000) == CUDA_ERROR_INVALID_VALUE);
  MUST(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, h, 512, 40000));
  EXPECT(value == 2);
  MUST(cuCtxSynchronize());
}

/* -- calls that fail on request ------------------------------------------------------------------------------------ */
static void faulty_alloc(void) {
  CUdeviceptr p;
  void *host;
  device_open(0);
  MUST(cuMemAlloc_v2(&p, 1));
  EXPECT(cuMemAlloc_v2(&p, 1) == CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(cuMemAllocAsync(&p, 1, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(cuMemAllocHost_v2(&host, 1) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void faulty_calls(void) {
  CUmodule module;
  CUfunction f;
  CUstream stream;
  CUevent event;
  device_open(0);
  EXPECT(cuStreamCreate(&stream, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  MUST(cuStreamCreate(&stream, 0));
  EXPECT(cuModuleLoadData(&module, "CUDA-STANDIN") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  MUST(cuModuleLoadData(&module, "CUDA-STANDIN"));
  EXPECT(cuModuleGetFunction(&f, module, "places") == CUDA_ERROR_NOT_FOUND);
  MUST(cuModuleGetFunction(&f, module, "places"));
  CUdeviceptr p = device_buffer(4096);
  EXPECT(cuMemsetD8Async(p, 0, 4096, stream) == CUDA_ERROR_UNKNOWN);
  MUST(cuMemsetD8Async(p, 0, 4096, stream));
  MUST(LAUNCH(f, 1, 32, 0, stream, &p));
  EXPECT(LAUNCH(f, 1, 32, 0, stream, &p) == 702);
  MUST(LAUNCH(f, 1, 32, 0, stream, &p));
  MUST(cuEventCreate(&event, 0));
  MUST(cuEventRecord(event, stream));
  EXPECT(cuEventRecord(event, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT(cuStreamSynchronize(stream) == CUDA_ERROR_LAUNCH_FAILED);
  MUST(cuStreamSynchronize(stream));
}

/* Every later call reports the error of failed work. */
static void faulty_work(void) {
  CUdeviceptr p, more;
  device_open(0);
  CUstream stream = device_stream(0);
  MUST(cuMemAlloc_v2(&p, 4));
  MUST(cuMemsetD8Async(p, 0, 4, stream));
  MUST(cuMemsetD8Async(p, 1, 4, stream));
  EXPECT(cuStreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(cuMemsetD8Async(p, 1, 4, stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT(cuMemAlloc_v2(&more, 4) == CUDA_ERROR_ILLEGAL_ADDRESS && cuStreamQuery(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void nothing(void) { cuInit(0); }

int main(void) {
  lives("", not_initialized, "nothing works before cuInit, or without a context");
  lives("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_DRIVER=12020 CUDA_STANDIN_CAPABILITY=75", devices,
        "devices as they are asked for");
  lives("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_MEMORY=64", described, "what a device and its memory are");
  lives("CUDA_STANDIN_DEVICES=0", no_device, "no device at all");
  lives("CUDA_STANDIN_DEVICES=2", contexts, "contexts: of threads, streams and modules");
  lives("", addresses, "cuGetProcAddress finds the newest form");
  lives("", names, "errors have names");
  lives("CUDA_STANDIN_DEVICES=2", pointers, "what pointers are: device, pinned, managed, none of ours, freed");
  lives("CUDA_STANDIN_MEMORY=4", memory_ends, "memory ends");
  lives("", copies, "copies and memsets");
  dies("", host_reads, "the host accesses device memory", "the host reads device memory: is found");
  ok(strstr(child_said, "byte 50 of 100 of a buffer\n") != NULL, "which names the place");
  dies("", host_writes_freed, "byte 0 of 100 of a buffer that was freed",
       "the host writes device memory that was freed");
  dies("", old_view, "byte 99 of 100 of a buffer that was freed", "a view of memory that was freed");
  dies("", kernel_of_freed, "kernel 'sum': parameter 0 points to memory that was freed",
       "a kernel of memory that was freed");
  dies("", kernel_of_pageable, "kernel 'sum': parameter 0 points to memory of the host that is not pinned",
       "a kernel of the host's memory");
  dies("CUDA_STANDIN_DEVICES=2", kernel_of_other_device, "kernel 'sum': parameter 0 points to memory of another device",
       "a kernel of another device's memory");
  lives("", kernel_of_host, "a kernel of pinned and managed memory, and of an empty range");
  lives("", modules, "modules");
  lives("", images, "images: binaries and PTX for this driver and its devices");
  lives("CUDA_STANDIN_DRIVER=12080", images_of_newer_driver, "an older driver takes PTX of its time alone");
  lives("CUDA_STANDIN_DRIVER=9020", images_of_much_newer_driver, "a much older driver takes neither");
  lives("", launches, "launches that no device could do are refused");
  lives("CUDA_STANDIN_FAULT=alloc:2+", faulty_alloc, "faults: allocations, from the second on");
  lives("CUDA_STANDIN_FAULT=stream:1,module:1,function:1,copy:1,launch:2=702,event:3,sync:1", faulty_calls,
        "faults: each kind of call");
  lives("CUDA_STANDIN_FAULT=run:2", faulty_work, "faults: work that fails when it runs");
  dies("CUDA_STANDIN_FAULT=alloc", nothing, "CUDA_STANDIN_FAULT=alloc is not understood",
       "a fault that is not understood");
  dies("CUDA_STANDIN_LAZY=2", nothing, "CUDA_STANDIN_LAZY=2 is not understood", "a setting that is not understood");
  return tap_done();
}
