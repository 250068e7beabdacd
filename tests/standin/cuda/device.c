/* SPDX-License-Identifier: BSD-3-Clause
 * The driver, its devices and their primary contexts, the only ones. A context without a retain is refused, but its
 * objects stay. After a reset it is refused until the next retain; using an older stream or event ends the process.
 */
#include "tests/standin/cuda/driver.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { STACK = 16, OWN = 8 };

static atomic_bool initialized;
static struct CUctx_st contexts[DEVICES]; /* the primary ones */
static struct CUctx_st own[OWN];          /* of programs: never destroyed */
static unsigned owned;
static struct CUgreenCtx_st part_of[OWN]; /* never destroyed */
static unsigned parts;

/* The calling thread's contexts: the last is current. */
static __thread CUcontext stack[STACK];
static __thread unsigned depth;

CUDA_API CUresult cuInit(unsigned int flags) {
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (standin_settings()->devices == 0)
    return CUDA_ERROR_NO_DEVICE;
  for (int i = 0; i < DEVICES; i++)
    contexts[i].device = contexts[i].pool.device = i;
  initialized = true;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuDriverGetVersion(int *version) {
  *version = (int)standin_settings()->driver;
  return CUDA_SUCCESS;
}

static const struct {
  const char *name, *text;
  CUresult value;
} results[] = {
#define ROW(name, value, text) {#name, text, value},
  CUDA_RESULTS(ROW)
#undef ROW
};

CUDA_API CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = NULL;
  for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
    if (results[i].value == error)
      *name = results[i].name;
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = NULL;
  for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
    if (results[i].value == error)
      *text = results[i].text;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Like the driver, gives programs built with a new cuda.h the newest form of a name. */
CUDA_API CUresult cuGetProcAddress_v2(const char *symbol, void **function, int cudaVersion, uint64_t flags,
                                      CUdriverProcAddressQueryResult *status) {
  char newer[128];
  Dl_info self;
  (void)flags;
  *function = NULL;
  if (status)
    *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (strncmp(symbol, "cu", 2) != 0 || !dladdr((void *)(uintptr_t)cuInit, &self))
    return CUDA_ERROR_NOT_FOUND;
  if (cudaVersion > standin_settings()->driver) {
    if (status)
      *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return CUDA_ERROR_NOT_FOUND;
  }
  void *driver = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  snprintf(newer, sizeof newer, "%s_v2", symbol);
  if (driver)
    *function = dlsym(driver, newer);
  if (driver && !*function)
    *function = dlsym(driver, symbol);
  if (driver)
    dlclose(driver);
  if (*function && status)
    *status = CU_GET_PROC_ADDRESS_SUCCESS;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUDA_API CUresult cuGetProcAddress(const char *symbol, void **function, int cudaVersion, uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, cudaVersion, flags, NULL);
}

/* -- devices ------------------------------------------------------------------------------------------------------- */
static bool is_device(CUdevice device) { return device >= 0 && device < standin_settings()->devices; }

CUDA_API CUresult cuDeviceGetCount(int *count) {
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  *count = (int)standin_settings()->devices;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  const struct standin_settings *s = standin_settings();
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; break;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = EMULATE_WARP; break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = (int)s->multiprocessors; break;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 40 << 20; break;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = (int)s->capability / 10; break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = (int)s->capability % 10; break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = 100 << 10; break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 99 << 10; break;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 16; break;
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
  case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: /* so PyTorch takes memory from NCCL if it is asked to */
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = 1; break;
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = s->pools; break;
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: *value = 0; break; /* their functions are missing */
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  if (!is_device(device) || length < 1)
    return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, (size_t)length, "Stand-in for a GPU");
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuDeviceGetUuid_v2(void *uuid, CUdevice device) {
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  memcpy(uuid, (char[16]){'T', 'A', 'G', 'C', [15] = (char)device}, 16);
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
  if (!is_device(device) || length < 13)
    return is_device(device) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
  snprintf(id, (size_t)length, "0000:%02x:00.0", (unsigned)device + 1);
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  *bytes = standin_settings()->memory;
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Every device can access every other. */
CUDA_API CUresult cuDeviceCanAccessPeer(int *yes, CUdevice device, CUdevice peer) {
  if (!is_device(device) || !is_device(peer))
    return CUDA_ERROR_INVALID_DEVICE;
  *yes = device != peer;
  return CUDA_SUCCESS;
}

/* -- contexts ------------------------------------------------------------------------------------------------------ */
CUcontext standin_context_of(CUdevice device) { return is_device(device) ? &contexts[device] : NULL; }

bool standin_is_context(CUcontext context) {
  for (unsigned i = 0; i < parts; i++)
    if (context == &part_of[i].handle)
      return true;
  for (int i = 0; i < standin_settings()->devices; i++)
    if (context == &contexts[i])
      return context->retained > 0;
  return context >= own && context < own + owned;
}

CUresult standin_context(CUcontext *context) {
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  *context = depth ? stack[depth - 1] : NULL;
  if (!*context || !standin_is_context(*context))
    return CUDA_ERROR_INVALID_CONTEXT;
  if ((*context)->green)
    *context = &contexts[(*context)->device];
  return (*context)->destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : (*context)->broken;
}

CUgreenCtx standin_green(void) { return depth ? stack[depth - 1]->green : NULL; }

CUDA_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  const CUresult injected = standin_fault(CALL_CONTEXT);
  if (injected != CUDA_SUCCESS)
    return injected;
  standin_lock();
  contexts[device].retained++;
  contexts[device].destroyed = false;
  standin_unlock();
  *context = &contexts[device];
  return CUDA_SUCCESS;
}

/* Memory stays after a reset: its later use is not detected. */
CUDA_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  standin_lock();
  const CUresult result = standin_wait_device(&contexts[device]);
  contexts[device].destroyed = true;
  contexts[device].resets++;
  contexts[device].legacy = NULL;
  standin_unlock();
  return result;
}

static CUresult look_at(CUcontext context) {
  standin_lock();
  const CUresult result = !standin_is_context(context) ? CUDA_ERROR_INVALID_CONTEXT
                          : context->destroyed         ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                       : CUDA_SUCCESS;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version) {
  *version = 3020;
  return look_at(context);
}

CUDA_API CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
  const CUresult result = look_at(context);
  if (result == CUDA_SUCCESS)
    *id = 1 + (unsigned)context->device + (unsigned long long)DEVICES * context->resets;
  return result;
}

CUDA_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  standin_lock();
  bool retained = contexts[device].retained > 0;
  contexts[device].retained -= retained;
  standin_unlock();
  return retained ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUDA_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  standin_lock();
  *flags = 0;
  *active = contexts[device].retained > 0;
  standin_unlock();
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuCtxGetCurrent(CUcontext *context) {
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  *context = depth ? stack[depth - 1] : NULL;
  return CUDA_SUCCESS;
}

static CUresult check_context(CUcontext context) {
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  standin_lock();
  bool good = standin_is_context(context);
  standin_unlock();
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static void push(CUcontext context) {
  CUgreenCtx green = context->green;
  standin_lock();
  if (green && green->uses++ && !pthread_equal(green->thread, pthread_self()))
    standin_die("a green context is made current on a second thread");
  if (green)
    green->thread = pthread_self();
  standin_unlock();
  stack[depth++] = context;
}

static void pop(void) {
  CUcontext context = stack[--depth];
  standin_lock();
  if (context->green)
    context->green->uses--;
  standin_unlock();
}

CUDA_API CUresult cuCtxSetCurrent(CUcontext context) {
  CUresult result = context ? check_context(context) : CUDA_SUCCESS;
  if (result != CUDA_SUCCESS)
    return result;
  if (depth > 0)
    pop();
  if (context)
    push(context);
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuCtxPushCurrent_v2(CUcontext context) {
  CUresult result = check_context(context);
  if (result == CUDA_SUCCESS && depth == STACK)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    push(context);
  return result;
}

CUDA_API CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  if (depth == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (context)
    *context = stack[depth - 1];
  pop();
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuCtxGetDevice(CUdevice *device) {
  CUcontext context;
  CUresult result = standin_context(&context);
  if (result == CUDA_SUCCESS)
    *device = context->device;
  return result;
}

CUDA_API CUresult cuCtxSynchronize(void) {
  CUcontext context;
  standin_lock();
  CUresult result = standin_context(&context);
  if (result == CUDA_SUCCESS)
    result = standin_unsafe_call();
  if (result == CUDA_SUCCESS)
    result = standin_wait_device(context);
  standin_unlock();
  return result;
}

/* Like the driver, makes it current. */
CUDA_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
  (void)flags;
  if (!initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!is_device(device))
    return CUDA_ERROR_INVALID_DEVICE;
  standin_lock();
  *context = owned < OWN ? &own[owned++] : NULL;
  if (*context)
    (*context)->device = (*context)->pool.device = device;
  standin_unlock();
  return *context ? cuCtxPushCurrent_v2(*context) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Its part of the GPU is not played. */
CUDA_API CUresult cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc part, CUdevice device, unsigned int flags) {
  (void)part, (void)flags;
  if (!is_device(device) || !contexts[device].retained)
    return CUDA_ERROR_INVALID_CONTEXT;
  standin_lock();
  *green = parts < OWN ? &part_of[parts++] : NULL;
  if (*green)
    **green = (struct CUgreenCtx_st){.device = device, .handle = {.device = device, .green = *green}};
  standin_unlock();
  return *green ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUDA_API CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green) {
  *context = &green->handle;
  return CUDA_SUCCESS;
}
