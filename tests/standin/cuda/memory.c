/* SPDX-License-Identifier: BSD-3-Clause
 * Memory. A pointer to device memory is an address in a range without access. The memory lies in a second range, at the
 * same offset: its view. Copies, memsets and kernels get views (module.c). Any other access through such a pointer dies
 * at once, and a handler reports the pointer. Addresses are never reused, and freed memory becomes inaccessible. Every
 * allocation ends (rounded up to 256 bytes) at an inaccessible page; the address sanitizer checks the rest. New memory
 * holds a pattern.
 *
 * Pinned, registered and managed memory is host memory: its view is itself.
 */
#include "tests/standin/cuda/driver.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/standin/cuda/standin.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, size) ((void)(from), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(from, size) ((void)(from), (void)(size))
#endif

enum { ALIGNMENT = 256, PAGE = 64 << 10, POISON = 0xcd };

static struct {
  uintptr_t begin, view, used; /* used: offset of the part never allocated */
  size_t size;
} range;

/* Device allocations are in address order, because their addresses only grow, and stay. Those of the host's memory are
 * few: freed ones make room. */
static struct list {
  struct allocation *all;
  unsigned count, room;
} of_device, of_host;
static uint64_t ids;

/* -- who touches it ------------------------------------------------------------------------------------------------ */
static struct sigaction before;

static void say(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0)
    _exit(2);
}

/* Does not take the lock: the thread that faulted may hold it. */
static void describe_address(char *text, size_t size, uintptr_t address) {
  struct allocation *a = standin_allocation(address);
  if (a)
    snprintf(text, size, "byte %zu of %zu of a buffer%s", (size_t)(address - a->begin), a->size,
             a->freed ? " that was freed" : "");
  else
    snprintf(text, size, "which belongs to no buffer");
}

static void on_fault(int number, siginfo_t *info, void *context) {
  char text[1024], what[128], where[320];
  uintptr_t address = (uintptr_t)info->si_addr;
  const char *kernel = emulate_where(where, sizeof where);
  (void)number, (void)context;
  bool direct = address - range.begin < range.size, viewed = address - range.view < range.size;
  if (direct || viewed) {
    describe_address(what, sizeof what, viewed ? address - range.view + range.begin : address);
    snprintf(text, sizeof text, "CUDA stand-in: %s accesses device memory at %#lx, %s%s\n",
             kernel ? kernel : "the host", (unsigned long)(viewed ? address - range.view + range.begin : address), what,
             kernel && direct ? ": a pointer that was not a parameter" : "");
    say(text);
  }
  sigaction(SIGSEGV, &before, NULL); /* the access is repeated */
}

/* Reserves addresses for all future allocations: many times the memory, or as much as the system has. */
static bool reserve(void) {
  if (range.size)
    return true;
  for (size_t size = standin_settings()->memory * 32; size >= standin_settings()->memory; size /= 2) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *begin = mmap(NULL, size, PROT_NONE, flags, -1, 0), *view = mmap(NULL, size, PROT_NONE, flags, -1, 0);
    if (begin != MAP_FAILED && view != MAP_FAILED) {
      range.begin = (uintptr_t)begin;
      range.view = (uintptr_t)view;
      range.size = size;
      struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
      return sigaction(SIGSEGV, &action, &before) == 0;
    }
    if (begin != MAP_FAILED)
      munmap(begin, size);
    if (view != MAP_FAILED)
      munmap(view, size);
  }
  return false;
}

/* -- allocations --------------------------------------------------------------------------------------------------- */
bool standin_is_device_address(uintptr_t address) { return address - range.begin < range.size; }

void *standin_view(uintptr_t address) {
  return (void *)(standin_is_device_address(address) ? address - range.begin + range.view : address);
}

static struct allocation *device_allocation(uintptr_t address) {
  unsigned low = 0, high = of_device.count;
  while (low < high) { /* behind the last that begins at or before the address */
    unsigned middle = low + (high - low) / 2;
    if (of_device.all[middle].begin <= address)
      low = middle + 1;
    else
      high = middle;
  }
  struct allocation *a = low ? &of_device.all[low - 1] : NULL;
  return a && address - a->begin < a->size ? a : NULL;
}

/* Returns freed allocations only of device memory: the host reuses its addresses. */
struct allocation *standin_allocation(uintptr_t address) {
  if (standin_is_device_address(address))
    return device_allocation(address);
  for (unsigned i = of_host.count; i-- > 0;) {
    struct allocation *a = &of_host.all[i];
    if (address - a->begin < a->size && !a->freed)
      return a;
  }
  return NULL;
}

static struct allocation *new_allocation(struct list *list) {
  for (unsigned i = list == &of_host ? list->count : 0; i-- > 0;)
    if (list->all[i].freed)
      return &list->all[i];
  if (list->count == list->room) {
    unsigned more = list->room ? 2 * list->room : 64;
    struct allocation *moved = realloc(list->all, more * sizeof *moved);
    if (!moved)
      return NULL;
    list->all = moved;
    list->room = more;
  }
  return &list->all[list->count++];
}

static struct allocation *remember(uintptr_t begin, size_t size, enum memory type, CUcontext context) {
  struct allocation *a = new_allocation(type == MEMORY_DEVICE ? &of_device : &of_host);
  if (a)
    *a = (struct allocation){.begin = begin, .size = size, .type = type, .context = context, .id = ++ids};
  return a;
}

/* Marks the allocation as freed and drops its accesses. A host allocation is not found any more. */
static void forget(struct allocation *a) {
  a->freed = true;
  free(a->touches);
  a->touches = NULL;
  a->count = 0;
}

static size_t rounded(size_t size, size_t to) { return (size + to - 1) / to * to; }

/* The size of an allocation's pages: `bytes` end where the last page begins, which stays inaccessible. */
static size_t pages_of(size_t bytes) { return rounded(rounded(bytes, ALIGNMENT), PAGE) + PAGE; }

static CUresult allocate(CUcontext context, size_t bytes, struct allocation **allocation) {
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult injected = standin_fault(CALL_ALLOC);
  if (injected != CUDA_SUCCESS)
    return injected;
  size_t whole = pages_of(bytes), usable = whole - PAGE;
  if (!reserve() || bytes > standin_settings()->memory - context->allocated || whole > range.size - range.used ||
      mprotect((void *)(range.view + range.used), usable, PROT_READ | PROT_WRITE) != 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  uintptr_t begin = range.begin + range.used + usable - rounded(bytes, ALIGNMENT);
  *allocation = remember(begin, bytes, MEMORY_DEVICE, context);
  if (!*allocation)
    return CUDA_ERROR_OUT_OF_MEMORY;
  range.used += whole;
  context->allocated += bytes;
  memset(standin_view(begin), POISON, bytes);
  ASAN_POISON_MEMORY_REGION((char *)standin_view(begin) + bytes, rounded(bytes, ALIGNMENT) - bytes);
  return CUDA_SUCCESS;
}

static void unmap(uintptr_t begin, size_t bytes) {
  size_t usable = pages_of(bytes) - PAGE;
  char *end = (char *)standin_view(begin) + rounded(bytes, ALIGNMENT);
  ASAN_UNPOISON_MEMORY_REGION(end - rounded(bytes, ALIGNMENT) + bytes, rounded(bytes, ALIGNMENT) - bytes);
  if (madvise(end - usable, usable, MADV_DONTNEED) != 0 || mprotect(end - usable, usable, PROT_NONE) != 0)
    standin_die("device memory cannot be given back");
}

/* The allocation that begins there and was not freed. */
static struct allocation *allocated_at(uintptr_t address, enum memory type) {
  struct allocation *a = standin_allocation(address);
  return a && !a->freed && a->begin == address && a->type == type ? a : NULL;
}

/* Takes the lock, and checks that the thread may allocate and free now. */
static CUresult begin_call(CUcontext *context, bool may_synchronize) {
  standin_lock();
  CUresult result = standin_context(context);
  return result == CUDA_SUCCESS && may_synchronize ? standin_unsafe_call() : result;
}

CUDA_API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  CUcontext context;
  struct allocation *a;
  CUresult result = begin_call(&context, true);
  if (result == CUDA_SUCCESS)
    result = allocate(context, bytes, &a);
  if (result == CUDA_SUCCESS)
    *pointer = a->begin;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemFree_v2(CUdeviceptr pointer) {
  CUcontext context;
  CUresult result = begin_call(&context, true);
  struct allocation *a = allocated_at(pointer, MEMORY_DEVICE), *managed = allocated_at(pointer, MEMORY_MANAGED);
  if (result == CUDA_SUCCESS && pointer && !a && !managed)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && pointer)
    result = standin_wait_device(a ? a->context : managed->context);
  a = allocated_at(pointer, MEMORY_DEVICE); /* the table may have moved meanwhile */
  managed = allocated_at(pointer, MEMORY_MANAGED);
  if (result == CUDA_SUCCESS && a) {
    a->context->allocated -= a->size;
    unmap(a->begin, a->size);
    forget(a);
  } else if (result == CUDA_SUCCESS && managed) {
    forget(managed);
    free((void *)(uintptr_t)pointer);
  }
  standin_unlock();
  return result;
}

struct freeing {
  struct task task;
  uintptr_t begin;
  size_t bytes;
};

static CUresult run_nothing(struct task *task) {
  (void)task;
  return CUDA_SUCCESS;
}

static CUresult run_free(struct task *task) {
  struct freeing *f = (struct freeing *)task;
  unmap(f->begin, f->bytes);
  return CUDA_SUCCESS;
}

/* In stream order the memory exists from here on; for other streams only if they come after it. */
static CUresult allocate_in_order(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream handle) {
  CUcontext context;
  CUstream stream;
  struct allocation *a;
  CUresult result = begin_call(&context, false);
  if (result == CUDA_SUCCESS)
    result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS && stream->capture)
    result = CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS)
    result = allocate(pool ? standin_context_of(pool->device) : stream->context, bytes, &a);
  if (result == CUDA_SUCCESS) {
    a->pool = pool ? pool : &stream->context->pool;
    *pointer = a->begin;
    struct task *task = standin_task(sizeof *task, "cuMemAllocAsync", run_nothing, 1);
    standin_task_touches(task, a->begin, a->size, true);
    result = standin_enqueue(stream, task);
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
  return allocate_in_order(pointer, bytes, NULL, stream);
}

CUDA_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return pool ? allocate_in_order(pointer, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUDA_API CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream handle) {
  CUcontext context;
  CUstream stream;
  CUresult result = begin_call(&context, false);
  struct allocation *a = allocated_at(pointer, MEMORY_DEVICE);
  if (result == CUDA_SUCCESS)
    result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS && !a)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_FREE);
  if (result == CUDA_SUCCESS && stream->capture)
    result = CUDA_ERROR_NOT_SUPPORTED;
  if (result == CUDA_SUCCESS) {
    struct freeing *f = standin_task(sizeof *f, "cuMemFreeAsync", run_free, 1);
    f->begin = a->begin;
    f->bytes = a->size;
    standin_task_touches(&f->task, a->begin, a->size, true);
    result = standin_enqueue(stream, &f->task);
    a->context->allocated -= a->size;
    forget(a);
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemAllocHost_v2(void **pointer, size_t bytes) {
  CUcontext context;
  void *memory = NULL;
  CUresult result = begin_call(&context, true);
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_ALLOC);
  if (result == CUDA_SUCCESS && (bytes == 0 || posix_memalign(&memory, PAGE, bytes) != 0))
    result = bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && !remember((uintptr_t)memory, bytes, MEMORY_PINNED, context)) {
    free(memory);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) {
    memset(memory, POISON, bytes);
    *pointer = memory;
  }
  standin_unlock();
  return result;
}

/* Pinned memory that begins there: the driver's own, or the program's. */
static struct allocation *pinned_at(void *pointer, bool registered) {
  struct allocation *a = allocated_at((uintptr_t)pointer, MEMORY_PINNED);
  return a && a->registered == registered ? a : NULL;
}

/* Forgets pinned memory once the device is idle. */
static CUresult unpin(void *pointer, bool registered, CUresult otherwise) {
  CUcontext context;
  CUresult result = begin_call(&context, true);
  if (result == CUDA_SUCCESS && !pinned_at(pointer, registered))
    result = otherwise;
  if (result == CUDA_SUCCESS)
    result = standin_wait_device(pinned_at(pointer, registered)->context);
  struct allocation *a = pinned_at(pointer, registered);
  if (result == CUDA_SUCCESS && a) {
    forget(a);
    if (!registered)
      free(pointer);
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemFreeHost(void *pointer) { return unpin(pointer, false, CUDA_ERROR_INVALID_VALUE); }

/* -- host memory of the program ------------------------------------------------------------------------------------ */
static bool is_known_to_cuda(uintptr_t begin, size_t bytes) {
  if (standin_is_device_address(begin))
    return true;
  for (const struct allocation *a = of_host.all; a < of_host.all + of_host.count; a++)
    if (!a->freed && begin < a->begin + a->size && a->begin < begin + bytes)
      return true;
  return false;
}

CUDA_API CUresult cuMemHostRegister_v2(void *pointer, size_t bytes, unsigned int flags) {
  CUcontext context;
  struct allocation *a = NULL;
  (void)flags; /* as with all pinned memory, each context may use it, and it has a device pointer */
  CUresult result = begin_call(&context, true);
  if (result == CUDA_SUCCESS && (!pointer || bytes == 0))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS && is_known_to_cuda((uintptr_t)pointer, bytes))
    result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_ALLOC);
  if (result == CUDA_SUCCESS && !(a = remember((uintptr_t)pointer, bytes, MEMORY_PINNED, context)))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  if (a)
    a->registered = true;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemHostUnregister(void *pointer) {
  return unpin(pointer, true, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUDA_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host, unsigned int flags) {
  CUcontext context;
  CUresult result = begin_call(&context, false);
  const struct allocation *a = standin_allocation((uintptr_t)host);
  if (result == CUDA_SUCCESS && (flags || !a || a->type != MEMORY_PINNED))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    *pointer = (uintptr_t)host;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags) {
  CUcontext context;
  void *memory = NULL;
  CUresult result = begin_call(&context, true);
  if (result == CUDA_SUCCESS && (bytes == 0 || flags != CU_MEM_ATTACH_GLOBAL))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_ALLOC);
  if (result == CUDA_SUCCESS &&
      (posix_memalign(&memory, PAGE, bytes) != 0 || !remember((uintptr_t)memory, bytes, MEMORY_MANAGED, context))) {
    free(memory);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) {
    memset(memory, POISON, bytes);
    *pointer = (uintptr_t)memory;
  }
  standin_unlock();
  return result;
}

/* -- pools: one per device, and those that are created; they keep nothing ------------------------------------------ */
CUDA_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
  CUcontext context = standin_context_of(device);
  if (!context)
    return CUDA_ERROR_INVALID_DEVICE;
  *pool = &context->pool;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  return cuDeviceGetMemPool(pool, device);
}

CUDA_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  if (attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES || attribute > CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    memcpy(&pool->threshold, value, sizeof pool->threshold);
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  static const CUmemPoolProps empty;
  if (!standin_settings()->pools)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !standin_context_of(properties->location.id) ||
      properties->win32SecurityAttributes || memcmp(properties->reserved, empty.reserved, sizeof empty.reserved) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const CUresult injected = standin_fault(CALL_POOL);
  if (injected != CUDA_SUCCESS)
    return injected;
  *pool = calloc(1, sizeof **pool);
  if (!*pool)
    return CUDA_ERROR_OUT_OF_MEMORY;
  (*pool)->device = properties->location.id;
  return CUDA_SUCCESS;
}

/* A pool lives as long as memory of it is used: here, forever. */
CUDA_API CUresult cuMemPoolDestroy(CUmemoryPool pool) { return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUDA_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t number) {
  CUresult result = pool ? standin_fault(CALL_POOL) : CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < number && result == CUDA_SUCCESS; i++)
    if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !standin_context_of(access[i].location.id) ||
        access[i].location.id == pool->device || access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      result = CUDA_ERROR_INVALID_VALUE;
    else
      pool->peers |= 1u << access[i].location.id;
  return result;
}

CUDA_API CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location) {
  if (!pool || location->type != CU_MEM_LOCATION_TYPE_DEVICE || !standin_context_of(location->id))
    return CUDA_ERROR_INVALID_VALUE;
  const bool may = location->id == pool->device || (pool->peers >> location->id & 1);
  *flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

/* -- what a pointer is --------------------------------------------------------------------------------------------- */
static CUresult attribute_of(const struct allocation *a, CUpointer_attribute attribute, void *data, uintptr_t pointer) {
  switch (attribute) {
  case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)data = a ? a->context : NULL; break;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)data = !a ? 0 : a->type == MEMORY_PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)data = a ? pointer : 0; break;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    *(void **)data = a && a->type != MEMORY_DEVICE ? (void *)pointer : NULL;
    return a && a->type == MEMORY_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID: *(uint64_t *)data = a ? a->id : 0; break;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)data = a && a->type == MEMORY_MANAGED; break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)data = a ? a->context->device : CU_DEVICE_INVALID; break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)data = a ? a->begin : 0; break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = a ? a->size : 0; break;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: *(CUmemoryPool *)data = a ? a->pool : NULL; break;
  case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned char *)data = a != NULL; break;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static const struct allocation *living(uintptr_t pointer) {
  const struct allocation *a = standin_allocation(pointer);
  return a && !a->freed ? a : NULL;
}

CUDA_API CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  CUcontext context;
  standin_lock();
  CUresult result = standin_context(&context);
  const struct allocation *a = living(pointer);
  if (result == CUDA_SUCCESS)
    result = a ? attribute_of(a, attribute, data, pointer) : CUDA_ERROR_INVALID_VALUE;
  standin_unlock();
  return result;
}

/* A pointer that is not CUDA's is no error here: its attributes are zero, and it has no device. */
CUDA_API CUresult cuPointerGetAttributes(unsigned int number, CUpointer_attribute *attributes, void **data,
                                         CUdeviceptr pointer) {
  CUcontext context;
  standin_lock();
  CUresult result = standin_context(&context);
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_POINTER);
  const struct allocation *a = living(pointer);
  for (unsigned i = 0; i < number && result == CUDA_SUCCESS; i++)
    if (attribute_of(a, attributes[i], data[i], pointer) != CUDA_SUCCESS &&
        attributes[i] != CU_POINTER_ATTRIBUTE_HOST_POINTER)
      result = CUDA_ERROR_INVALID_VALUE;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *begin, size_t *bytes, CUdeviceptr pointer) {
  CUcontext context;
  standin_lock();
  CUresult result = standin_context(&context);
  const struct allocation *a = living(pointer);
  if (result == CUDA_SUCCESS && !a)
    result = CUDA_ERROR_NOT_FOUND;
  if (result == CUDA_SUCCESS && begin)
    *begin = a->begin;
  if (result == CUDA_SUCCESS && bytes)
    *bytes = a->size;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  CUcontext context;
  standin_lock();
  CUresult result = standin_context(&context);
  if (result == CUDA_SUCCESS) {
    *total = standin_settings()->memory;
    *available = *total - context->allocated;
  }
  standin_unlock();
  return result;
}

CUDA_API void *standin_cuda_view(CUdeviceptr pointer, size_t bytes) {
  standin_lock();
  const struct allocation *a = living(pointer);
  bool inside = a && bytes <= a->size - (pointer - a->begin);
  bool foreign = !a && !standin_is_device_address(pointer);
  standin_unlock();
  return inside || foreign ? standin_view(pointer) : NULL;
}
