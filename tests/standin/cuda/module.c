/* SPDX-License-Identifier: BSD-3-Clause
 * Modules, and kernels as work of a stream. Any loaded image has the kernels of the shared objects in
 * CUDA_STANDIN_KERNELS, found by name. The image must be valid for a driver of this version: binaries if it is new
 * enough, PTX up to its version and for its devices.
 *
 * A kernel gets views of the memory that its parameters point to (memory.c). It is assumed to access that from there to
 * the end of the buffer: to read through a pointer to const, otherwise to write. Inside structures every word that
 * could be a pointer to device memory counts as one.
 */
#include "tests/standin/cuda/driver.h"
#include "tests/standin/cuda/ptx/ptx.h"
#include "tests/standin/cuda/standin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The oldest driver that takes binaries: CUDA 13 makes them. */
enum { BINARIES = 13000 };

enum { SHARED = 48 << 10, SHARED_OPTIN = 99 << 10, SHARED_MULTIPROCESSOR = 100 << 10, SHARED_RESERVED = 1 << 10 };

struct CUfunc_st {
  CUmodule module;
  const struct emulate_kernel *kernel;
  const struct ptx_function *ptx; /* NULL: runs as the host's code */
  int most_shared;
  struct CUfunc_st *next;
};

struct CUmod_st {
  CUcontext context;
  struct CUfunc_st *functions;
  const struct ptx_module *ptx;
  struct CUmod_st *next;
};

static CUmodule modules;

/* -- the kernels of this process ----------------------------------------------------------------------------------- */
static pthread_mutex_t kernels_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct emulate_kernel *kernels;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

EMULATE_API void emulate_register(struct emulate_kernel *kernel) {
  pthread_mutex_lock(&kernels_mutex);
  kernel->next = kernels;
  kernels = kernel;
  pthread_mutex_unlock(&kernels_mutex);
}

static const struct emulate_kernel *find_kernel(const char *name) {
  pthread_mutex_lock(&kernels_mutex);
  const struct emulate_kernel *k = kernels;
  while (k && strcmp(k->name, name) != 0)
    k = k->next;
  pthread_mutex_unlock(&kernels_mutex);
  return k;
}

static void open_object(const char *path) {
  if (!dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
    standin_die("no kernels in %s: %s", path, dlerror());
}

static void open_beside(void) {
  Dl_info self;
  char path[4096];
  if (!dladdr((void *)(uintptr_t)emulate_register, &self) || !strrchr(self.dli_fname, '/'))
    return;
  int length = (int)(strrchr(self.dli_fname, '/') - self.dli_fname);
  snprintf(path, sizeof path, "%.*s/kernels.so", length, self.dli_fname);
  FILE *there = fopen(path, "re");
  if (!there)
    return;
  fclose(there);
  open_object(path);
}

static void open_kernels(void) {
  const char *list = standin_settings()->kernels;
  if (!list)
    open_beside();
  char *copy = list ? strdup(list) : NULL, *rest = NULL;
  for (char *one = copy ? strtok_r(copy, ":", &rest) : NULL; one; one = strtok_r(NULL, ":", &rest))
    open_object(one);
  free(copy);
}

/* -- modules ------------------------------------------------------------------------------------------------------- */
/* A fatbin, nvcc's wrapper around one, or our own marker: as new as the CUDA that built them. */
static bool is_binary(const void *image) {
  static const uint32_t fatbin = 0xba55ed50, wrapper = 0x466243b1;
  static const char own[] = "CUDA-STANDIN";
  return memcmp(image, &fatbin, sizeof fatbin) == 0 || memcmp(image, &wrapper, sizeof wrapper) == 0 ||
         strncmp(image, own, strlen(own)) == 0;
}

/* Checks text that begins with a PTX version and then its target. Comments are not supported. */
static CUresult check_ptx(const char *text) {
  int major, minor, capability, used = 0;
  if (sscanf(text, " .version %d.%d .target sm_%d%n", &major, &minor, &capability, &used) != 3)
    return CUDA_ERROR_INVALID_PTX;
  /* 6.3 came with CUDA 10.0, 7.0 with 11.0, and so on; older 6.x are not distinguished. */
  int cuda = major < 6 || (major == 6 && minor < 3) ? 0
             : major == 6                           ? 10000 + 10 * (minor - 3)
                                                    : (major + 4) * 1000 + 10 * minor;
  if (cuda > standin_settings()->driver)
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  return capability > standin_settings()->capability ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

static CUresult check_image(const void *image) {
  if (!image)
    return CUDA_ERROR_INVALID_VALUE;
  if (standin_settings()->ptx)
    return CUDA_SUCCESS;
  if (is_binary(image) && standin_settings()->plays_ptx)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  if (is_binary(image))
    return standin_settings()->driver < BINARIES ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_SUCCESS;
  const char *text = (const char *)image + strspn(image, " \n\t");
  return strncmp(text, ".version", 8) == 0 ? check_ptx(text) : CUDA_ERROR_INVALID_IMAGE;
}

static _Thread_local int has_loaded;

CUDA_API int standin_cuda_has_loaded(void) { return has_loaded; }

CUDA_API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  CUcontext context;
  has_loaded = 1;
  pthread_once(&opened, open_kernels);
  standin_lock();
  CUresult result = standin_context(&context);
  if (result == CUDA_SUCCESS)
    result = standin_unsafe_call();
  if (result == CUDA_SUCCESS)
    result = check_image(image);
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_MODULE);
  if (result == CUDA_SUCCESS && !(*module = calloc(1, sizeof **module)))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) {
    **module = (struct CUmod_st){.context = context, .next = modules};
    if (standin_settings()->plays_ptx)
      (*module)->ptx = ptx_load(standin_settings()->ptx ? NULL : image, standin_settings()->ptx);
    modules = *module;
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }

CUDA_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int number, int *options,
                                     void **values) {
  (void)number, (void)options, (void)values; /* of a compilation that does not happen here */
  return cuModuleLoadData(module, image);
}

static CUmodule *find_module(CUmodule module) {
  CUmodule *at = &modules;
  while (*at && *at != module)
    at = &(*at)->next;
  return at;
}

CUDA_API CUresult cuModuleUnload(CUmodule module) {
  standin_lock();
  CUmodule *at = find_module(module);
  bool known = module && *at;
  if (known) {
    *at = module->next;
    for (CUfunction f = module->functions, next; f; f = next) {
      next = f->next;
      free(f);
    }
    free(module);
  }
  standin_unlock();
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUDA_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  standin_lock();
  CUresult result = module && *find_module(module) ? standin_fault(CALL_FUNCTION) : CUDA_ERROR_INVALID_HANDLE;
  const struct emulate_kernel *kernel = result == CUDA_SUCCESS ? find_kernel(name) : NULL;
  if (result == CUDA_SUCCESS && !kernel)
    result = CUDA_ERROR_NOT_FOUND;
  struct CUfunc_st *f = kernel ? calloc(1, sizeof *f) : NULL;
  if (kernel && !f)
    result = CUDA_ERROR_OUT_OF_MEMORY;
  if (f) {
    *f = (struct CUfunc_st){.module = module, .kernel = kernel, .most_shared = SHARED, .next = module->functions};
    f->ptx = module->ptx ? ptx_find(module->ptx, name) : NULL;
    module->functions = *function = f;
  }
  standin_unlock();
  return result;
}

static bool is_function(CUfunction function) {
  for (CUmodule m = modules; m; m = m->next)
    for (CUfunction f = m->functions; f; f = f->next)
      if (f == function)
        return true;
  return false;
}

CUDA_API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  standin_lock();
  CUresult result = is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS)
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function->most_shared; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = (int)standin_settings()->capability; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = function->ptx ? (int)function->ptx->shared : 0; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
    default: result = CUDA_ERROR_INVALID_VALUE;
    }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  standin_lock();
  CUresult result = is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (value < 0 || value > SHARED_OPTIN)
      result = CUDA_ERROR_INVALID_VALUE;
    else
      function->most_shared = value;
  } else if (result == CUDA_SUCCESS && attribute != CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
    result = CUDA_ERROR_INVALID_VALUE;
  standin_unlock();
  return result;
}

static unsigned occupancy(size_t threads, size_t shared) {
  size_t warps = (threads + EMULATE_WARP - 1) / EMULATE_WARP, blocks = 2048 / EMULATE_WARP / warps;
  size_t by_shared = SHARED_MULTIPROCESSOR / (shared + SHARED_RESERVED);
  blocks = blocks < by_shared ? blocks : by_shared;
  return (unsigned)(blocks < 16 ? blocks : 16);
}

CUDA_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                              size_t shared) {
  standin_lock();
  bool known = is_function(function);
  standin_unlock();
  if (!known)
    return CUDA_ERROR_INVALID_HANDLE;
  if (threads < 1 || threads > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  *blocks = (int)occupancy((size_t)threads, shared);
  return CUDA_SUCCESS;
}

/* -- launches ------------------------------------------------------------------------------------------------------ */
struct running {
  struct task task;
  struct emulate_launch launch;
  void *values; /* of the parameters, 16 bytes aligned each */
  const struct ptx_module *module;
  const struct ptx_function *ptx; /* NULL: the host's code */
  struct ptx_range *ranges;       /* that the parameters point to */
  unsigned count;
};

static CUresult run_kernel(struct task *task) {
  struct running *r = (struct running *)task;
  if (r->ptx)
    ptx_run(r->module, r->ptx, &r->launch, r->ranges, r->count);
  else
    emulate_run(&r->launch);
  return CUDA_SUCCESS;
}

static void release_kernel(struct task *task) {
  struct running *r = (struct running *)task;
  free(r->launch.parameters);
  free(r->values);
  free(r->ranges);
}

/* A pointer one past a buffer is no access: empty ranges end there. */
static bool is_end(uintptr_t address) {
  const struct allocation *a = standin_allocation(address - 1);
  return a && !a->freed && a->begin + a->size == address;
}

static void touch(struct running *r, CUcontext context, unsigned parameter, uintptr_t pointer, bool writes) {
  const struct allocation *a = standin_allocation(pointer);
  const char *wrong = NULL;
  if (!a && standin_is_device_address(pointer) && is_end(pointer))
    return;
  if (!a)
    wrong = standin_is_device_address(pointer) ? "points to device memory that belongs to no buffer"
                                               : "points to memory of the host that is not pinned";
  else if (a->freed)
    wrong = "points to memory that was freed";
  else if (a->type == MEMORY_DEVICE && a->context != context)
    wrong = "points to memory of another device";
  if (wrong)
    standin_die("kernel '%s': parameter %u %s", r->launch.kernel->name, parameter, wrong);
  standin_task_touches(&r->task, pointer, a->begin + a->size - pointer, writes);
  if (r->ptx)
    r->ranges[r->count++] = (struct ptx_range){(uintptr_t)standin_view(a->begin), a->size};
}

/* Copies the value, with views in place of pointers to device memory. */
static void take_parameter(struct running *r, CUcontext context, unsigned i, void *to, const void *from) {
  const struct emulate_parameter *p = &r->launch.kernel->parameters[i];
  memcpy(to, from, p->size);
  uintptr_t word;
  for (size_t at = 0; p->kind != EMULATE_VALUE && at + sizeof word <= p->size; at += sizeof word) {
    memcpy(&word, (char *)to + at, sizeof word);
    if (!word || (p->kind == EMULATE_STRUCT && !standin_is_device_address(word)))
      continue;
    touch(r, context, i, word, p->kind != EMULATE_READS);
    word = (uintptr_t)standin_view(word);
    memcpy((char *)to + at, &word, sizeof word);
  }
}

static struct task *make_launch(CUcontext context, const struct emulate_launch *launch, CUfunction function,
                                void **parameters) {
  const struct emulate_kernel *k = launch->kernel;
  size_t bytes = 16, words = 0;
  for (unsigned i = 0; i < k->count; i++) {
    bytes += (k->parameters[i].size + 15) / 16 * 16;
    words += k->parameters[i].size / sizeof(uintptr_t);
  }
  struct running *r = standin_task(sizeof *r, k->name, run_kernel, (unsigned)words);
  r->task.release = release_kernel;
  r->launch = *launch;
  r->module = function->module->ptx;
  r->ptx = function->ptx;
  r->ranges = calloc(words + 1, sizeof *r->ranges);
  r->launch.parameters = calloc(k->count + 1, sizeof *r->launch.parameters);
  if (posix_memalign(&r->values, 16, bytes) != 0 || !r->launch.parameters || !r->ranges)
    standin_die("no memory for a launch");
  char *to = r->values;
  for (unsigned i = 0; i < k->count; i++) {
    take_parameter(r, context, i, to, parameters[i]);
    r->launch.parameters[i] = to;
    to += (k->parameters[i].size + 15) / 16 * 16;
  }
  return &r->task;
}

static bool fits_device(const struct emulate_launch *l, const struct CUfunc_st *function) {
  const struct emulate_index *g = &l->grid, *b = &l->block;
  return g->x && g->y && g->z && g->x <= 2147483647u && g->y <= 65535 && g->z <= 65535 && b->x && b->y && b->z &&
         b->x <= 1024 && b->y <= 1024 && b->z <= 64 && b->x * b->y * b->z <= 1024 &&
         l->shared <= (unsigned)function->most_shared;
}

static bool all_alive(const struct emulate_launch *l) {
  uint64_t most = (uint64_t)occupancy(l->block.x * l->block.y * l->block.z, l->shared) *
                  (uint64_t)standin_settings()->multiprocessors;
  return (uint64_t)l->grid.x * l->grid.y * l->grid.z <= most;
}

static CUresult launch(CUfunction function, struct emulate_launch *l, CUstream handle, void **parameters) {
  CUcontext context;
  CUstream stream;
  standin_lock();
  CUresult result = standin_context(&context);
  if (result == CUDA_SUCCESS)
    result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS &&
      (!is_function(function) || function->module->context != context || stream->context != context))
    result = CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS && (!fits_device(l, function) || (function->kernel->count && !parameters)))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && l->cooperative && !all_alive(l))
    result = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_LAUNCH);
  if (result == CUDA_SUCCESS) {
    l->kernel = function->kernel;
    l->seed = (uint64_t)standin_settings()->seed;
    result = standin_enqueue(stream, make_launch(context, l, function, parameters));
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
                                 unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared,
                                 CUstream stream, void **parameters, void **extra) {
  struct emulate_launch l = {.grid = {gridX, gridY, gridZ}, .block = {blockX, blockY, blockZ}, .shared = shared};
  return extra ? CUDA_ERROR_NOT_SUPPORTED : launch(function, &l, stream, parameters);
}

CUDA_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int gridX, unsigned int gridY,
                                            unsigned int gridZ, unsigned int blockX, unsigned int blockY,
                                            unsigned int blockZ, unsigned int shared, CUstream stream,
                                            void **parameters) {
  struct emulate_launch l = {
    .grid = {gridX, gridY, gridZ}, .block = {blockX, blockY, blockZ}, .shared = shared, .cooperative = true};
  return launch(function, &l, stream, parameters);
}

/* -- what is not played: PyTorch must find these names ------------------------------------------------------------- */
/* clang-format off */
#define EACH_REFUSED(X) \
  X(cuDevResourceGenerateDesc) X(cuDevSmResourceSplitByCount) X(cuDeviceGetDevResource) \
  X(cuFuncSetCacheConfig) X(cuGreenCtxDestroy) X(cuLinkAddData_v2) X(cuLinkComplete) X(cuLinkCreate_v2) \
  X(cuMemAddressFree) X(cuMemAddressReserve) X(cuMemCreate) X(cuMemExportToShareableHandle) \
  X(cuMemGetAllocationGranularity) X(cuMemGetAllocationPropertiesFromHandle) X(cuMemImportFromShareableHandle) \
  X(cuMemMap) X(cuMemRelease) X(cuMemRetainAllocationHandle) X(cuMemSetAccess) X(cuMemUnmap) X(cuModuleLoad) \
  X(cuMulticastAddDevice) X(cuMulticastBindMem) X(cuMulticastCreate) X(cuMulticastUnbind) X(cuStreamWriteValue32) \
  X(cuTensorMapEncodeTiled)
/* clang-format on */
#define REFUSED(name) \
  CUresult name(void); \
  CUDA_API CUresult name(void) { return CUDA_ERROR_NOT_SUPPORTED; }
EACH_REFUSED(REFUSED)
