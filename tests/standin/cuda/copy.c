/* SPDX-License-Identifier: BSD-3-Clause
 * Copies, memsets and host functions, as work of a stream. As in the driver, a copy from pageable host memory has read
 * it when the call returns, and a copy to it is complete. Pinned memory is read and written late.
 */
#include "tests/standin/cuda/driver.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cuda/standin.h"

struct copy {
  struct task task;
  uintptr_t to, from;
  size_t bytes;
  void *staged; /* the source's bytes, if copied before; otherwise they are at `from` */
};

static CUresult run_copy(struct task *task) {
  struct copy *c = (struct copy *)task;
  memmove(standin_view(c->to), c->staged ? c->staged : standin_view(c->from), c->bytes);
  return CUDA_SUCCESS;
}

static void release_copy(struct task *task) { free(((struct copy *)task)->staged); }

static bool is_pageable(uintptr_t address) {
  const struct allocation *a = standin_allocation(address);
  return !standin_is_device_address(address) && (!a || a->freed);
}

/* The caller's claim about one side of the copy. */
enum end { ANY, HOST, DEVICE };

static bool fits(uintptr_t address, size_t bytes, enum end end) {
  const struct allocation *a = standin_allocation(address);
  if (is_pageable(address))
    return end != DEVICE;
  return a && !a->freed && bytes <= a->size - (address - a->begin) && (end != HOST || a->type != MEMORY_DEVICE);
}

static CUresult enqueue_copy(CUstream stream, const char *name, uintptr_t to, uintptr_t from, size_t bytes) {
  struct copy *c = standin_task(sizeof *c, name, run_copy, 2);
  c->to = to;
  c->from = from;
  c->bytes = bytes;
  c->task.release = release_copy;
  if (is_pageable(from) && !stream->capture) {
    c->staged = malloc(bytes);
    if (!c->staged) {
      standin_task_drop(&c->task);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(c->staged, (const void *)from, bytes);
  } else
    standin_task_touches(&c->task, from, bytes, false);
  standin_task_touches(&c->task, to, bytes, true);
  return standin_enqueue(stream, &c->task);
}

static CUresult copy(const char *name, uintptr_t to, enum end to_end, uintptr_t from, enum end from_end, size_t bytes,
                     CUstream handle, bool wait) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS && (!fits(to, bytes, to_end) || !fits(from, bytes, from_end)))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_COPY);
  if (result == CUDA_SUCCESS && wait)
    result = standin_unsafe_call();
  if (result == CUDA_SUCCESS && bytes) {
    result = enqueue_copy(stream, name, to, from, bytes);
    if (result == CUDA_SUCCESS && !stream->capture && (wait || is_pageable(to))) {
      struct clock clock = standin_stream_clock(stream);
      result = standin_wait(stream->context, &clock);
    }
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyAsync", to, ANY, from, ANY, bytes, stream, false);
}

CUDA_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyHtoDAsync", to, DEVICE, (uintptr_t)from, HOST, bytes, stream, false);
}

CUDA_API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoHAsync", (uintptr_t)to, HOST, from, DEVICE, bytes, stream, false);
}

CUDA_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy("cuMemcpyDtoDAsync", to, DEVICE, from, DEVICE, bytes, stream, false);
}

CUDA_API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return copy("cuMemcpyHtoD", to, DEVICE, (uintptr_t)from, HOST, bytes, NULL, true);
}

CUDA_API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return copy("cuMemcpyDtoH", (uintptr_t)to, HOST, from, DEVICE, bytes, NULL, true);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */
struct rows {
  struct task task;
  uintptr_t to, from;
  size_t to_pitch, from_pitch, width, height;
};

static CUresult run_rows(struct task *task) {
  struct rows *r = (struct rows *)task;
  for (size_t i = 0; i < r->height; i++)
    memmove(standin_view(r->to + i * r->to_pitch), standin_view(r->from + i * r->from_pitch), r->width);
  return CUDA_SUCCESS;
}

/* Checks one side: from the first byte to the last one, all of it memory that a stream accesses asynchronously. */
static bool rows_fit(CUmemorytype type, uintptr_t address, size_t pitch, size_t width, size_t height) {
  const size_t most = (size_t)standin_settings()->pitch;
  return (type == CU_MEMORYTYPE_UNIFIED || type == CU_MEMORYTYPE_DEVICE) && pitch >= width && pitch <= most &&
         !is_pageable(address) &&
         fits(address, (height - 1) * pitch + width, type == CU_MEMORYTYPE_DEVICE ? DEVICE : ANY);
}

/* Supports only one of the driver's kinds of copies: rows from the beginning of the pointers. Each row is work on its
 * own bytes; the bytes between two rows are not touched. */
CUDA_API CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream handle) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS &&
      (c->srcXInBytes || c->srcY || c->dstXInBytes || c->dstY || !c->WidthInBytes || !c->Height ||
       c->Height > UINT_MAX / 2 || !rows_fit(c->srcMemoryType, c->srcDevice, c->srcPitch, c->WidthInBytes, c->Height) ||
       !rows_fit(c->dstMemoryType, c->dstDevice, c->dstPitch, c->WidthInBytes, c->Height)))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_COPY);
  if (result == CUDA_SUCCESS) {
    struct rows *r = standin_task(sizeof *r, "cuMemcpy2DAsync", run_rows, 2 * (unsigned)c->Height);
    r->to = c->dstDevice, r->from = c->srcDevice;
    r->to_pitch = c->dstPitch, r->from_pitch = c->srcPitch;
    r->width = c->WidthInBytes, r->height = c->Height;
    for (size_t i = 0; i < r->height; i++) {
      standin_task_touches(&r->task, r->from + i * r->from_pitch, r->width, false);
      standin_task_touches(&r->task, r->to + i * r->to_pitch, r->width, true);
    }
    result = standin_enqueue(stream, &r->task);
  }
  standin_unlock();
  return result;
}

/* -- memsets ------------------------------------------------------------------------------------------------------- */
struct setting {
  struct task task;
  uintptr_t to;
  size_t count;
  uint32_t value;
  unsigned size; /* of the value: 1 or 4 */
};

static CUresult run_setting(struct task *task) {
  struct setting *s = (struct setting *)task;
  if (s->size == 1)
    memset(standin_view(s->to), (int)s->value, s->count);
  else
    for (size_t i = 0; i < s->count; i++)
      ((uint32_t *)standin_view(s->to))[i] = s->value;
  return CUDA_SUCCESS;
}

static CUresult set(const char *name, CUdeviceptr to, uint32_t value, unsigned size, size_t count, CUstream handle) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS && (to % size || count > SIZE_MAX / size || !fits(to, count * size, DEVICE)))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_COPY);
  if (result == CUDA_SUCCESS && count) {
    struct setting *s = standin_task(sizeof *s, name, run_setting, 1);
    s->to = to;
    s->count = count;
    s->value = value;
    s->size = size;
    standin_task_touches(&s->task, to, count * size, true);
    result = standin_enqueue(stream, &s->task);
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return set("cuMemsetD8Async", to, value, 1, count, stream);
}

CUDA_API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return set("cuMemsetD32Async", to, value, 4, count, stream);
}

/* -- functions of the host ----------------------------------------------------------------------------------------- */
struct calling {
  struct task task;
  CUhostFn function;
  void (*release)(void *);
  void *data;
};

static CUresult run_calling(struct task *task) {
  struct calling *c = (struct calling *)task;
  c->function(c->data);
  return CUDA_SUCCESS;
}

static void release_calling(struct task *task) {
  struct calling *c = (struct calling *)task;
  if (c->release)
    c->release(c->data);
}

CUDA_API CUresult standin_cuda_launch(CUstream handle, const char *name, CUhostFn function, void (*release)(void *),
                                      void *data, const struct standin_cuda_access *access, unsigned count) {
  CUstream stream;
  standin_lock();
  CUresult result = function ? standin_stream(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
  struct calling *c = standin_task(sizeof *c, name, run_calling, count);
  c->function = function;
  c->release = release;
  c->data = data;
  c->task.release = release_calling;
  for (unsigned i = 0; i < count; i++)
    standin_task_touches(&c->task, access[i].begin, access[i].bytes, access[i].writes);
  if (result == CUDA_SUCCESS)
    result = standin_enqueue(stream, &c->task);
  else
    standin_task_drop(&c->task);
  standin_unlock();
  return result;
}

CUDA_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *userData) {
  return standin_cuda_launch(stream, "cuLaunchHostFunc", function, NULL, userData, NULL, 0);
}
