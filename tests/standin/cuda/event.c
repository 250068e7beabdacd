/* SPDX-License-Identifier: BSD-3-Clause
 * Events: the clock of a stream at some moment, and the time when it got there.
 */
#include "tests/standin/cuda/driver.h"

#include <stdlib.h>
#include <time.h>

/* The time of one record, shared by the event and the work that measures it. */
struct stamp {
  unsigned references;
  double milliseconds;
};

struct recording {
  struct task task;
  struct stamp *stamp;
};

static void drop(struct stamp *stamp) {
  if (stamp && --stamp->references == 0)
    free(stamp);
}

static CUresult run_recording(struct task *task) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  ((struct recording *)task)->stamp->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
  return CUDA_SUCCESS;
}

static void release_recording(struct task *task) { drop(((struct recording *)task)->stamp); }

CUDA_API CUresult cuEventCreate(CUevent *event, unsigned int flags) {
  CUcontext context;
  standin_lock();
  CUresult result = standin_context(&context);
  if (result == CUDA_SUCCESS && flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_EVENT);
  if (result == CUDA_SUCCESS && !(*event = calloc(1, sizeof **event)))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result == CUDA_SUCCESS) {
    (*event)->flags = flags;
    (*event)->context = context;
    (*event)->resets = context->resets;
  }
  standin_unlock();
  return result;
}

static void check_age(const struct CUevent_st *event) {
  if (event && event->resets != event->context->resets)
    standin_die("an event is used that was made before its device was reset");
}

CUDA_API CUresult cuEventDestroy_v2(CUevent event) {
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  standin_lock();
  check_age(event);
  drop(event->stamp);
  free(event);
  standin_unlock();
  return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream) {
  struct recording *r = standin_task(sizeof *r, "cuEventRecord", run_recording, 0);
  struct stamp *stamp = calloc(1, sizeof *stamp);
  if (!stamp) {
    standin_task_drop(&r->task);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  stamp->references = 2;
  r->stamp = stamp;
  r->task.release = release_recording;
  CUresult result = standin_enqueue(stream, &r->task);
  if (result != CUDA_SUCCESS) {
    drop(stamp);
    return result;
  }
  drop(event->stamp);
  event->stamp = stamp;
  event->clock = stream->clock;
  event->capture = 0;
  event->recorded = true;
  return CUDA_SUCCESS;
}

CUDA_API CUresult cuEventRecord(CUevent event, CUstream handle) {
  CUstream stream;
  standin_lock();
  check_age(event);
  CUresult result = event ? standin_stream(handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS && event->context != stream->context)
    result = CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_EVENT);
  if (result == CUDA_SUCCESS && stream->capture) {
    event->capture = standin_capture_id(stream->capture);
    event->captured = stream->captured;
  } else if (result == CUDA_SUCCESS)
    result = record(event, stream);
  standin_unlock();
  return result;
}

CUDA_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags) {
  CUstream stream;
  standin_lock();
  check_age(event);
  CUresult result = !event  ? CUDA_ERROR_INVALID_HANDLE
                    : flags ? CUDA_ERROR_INVALID_VALUE
                            : standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_WAIT);
  if (result == CUDA_SUCCESS && (stream->capture || event->capture))
    result = standin_capture_wait(stream, event);
  else if (result == CUDA_SUCCESS && event->recorded)
    standin_join(&stream->clock, &event->clock);
  standin_unlock();
  return result;
}

/* The common beginning of both ways to query an event. */
static CUresult look(CUevent event) {
  if (!event)
    return CUDA_ERROR_INVALID_HANDLE;
  check_age(event);
  return event->capture ? CUDA_ERROR_CAPTURED_EVENT : event->context->broken;
}

CUDA_API CUresult cuEventQuery(CUevent event) {
  standin_lock();
  CUresult result = look(event);
  if (result == CUDA_SUCCESS)
    result = standin_unsafe_call();
  if (result == CUDA_SUCCESS && event->recorded && !standin_is_over(&event->clock))
    result = CUDA_ERROR_NOT_READY;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuEventSynchronize(CUevent event) {
  standin_lock();
  CUresult result = look(event);
  if (result == CUDA_SUCCESS)
    result = standin_unsafe_call();
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_SYNC);
  if (result == CUDA_SUCCESS && event->recorded) {
    struct clock clock = event->clock;
    result = standin_wait(event->context, &clock);
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
  standin_lock();
  CUresult result = look(start);
  if (result == CUDA_SUCCESS)
    result = look(end);
  if (result == CUDA_SUCCESS && (!start->recorded || !end->recorded || (start->flags & CU_EVENT_DISABLE_TIMING) ||
                                 (end->flags & CU_EVENT_DISABLE_TIMING)))
    result = CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS && (!standin_is_over(&start->clock) || !standin_is_over(&end->clock)))
    result = CUDA_ERROR_NOT_READY;
  if (result == CUDA_SUCCESS)
    *milliseconds = (float)(end->stamp->milliseconds - start->stamp->milliseconds);
  standin_unlock();
  return result;
}
