/* SPDX-License-Identifier: BSD-3-Clause
 * Streams. Each has a queue and, from its first work on, a worker. Work runs there only once all work in its clock is
 * over. The default streams are the driver's: the legacy one (0) comes after the work of all blocking streams of its
 * context, and they after it. Each thread has one of its own (2).
 *
 * A destroyed stream lives on until its work is done. A slot of the clocks belongs to one stream at a time.
 */
#include "tests/standin/cuda/driver.h"
#include "tests/standin/cuda/ptx/ptx.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct entry {
  struct task *task;
  struct clock clock;
  struct entry *next;
};

/* A thread of the host that waits for work. */
struct waiter {
  const struct clock *clock;
  pthread_cond_t over;
  struct waiter *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct waiter *waiters;

CUstream standin_streams;
static struct clock enqueued, completed, wanted; /* of each slot; wanted: how far lazy work must go */
static struct clock host;                        /* the work that the host has waited for */
static bool taken[SLOTS];
static unsigned last_slot, used_slots; /* used: from here on no slot has ever been taken */
static __thread CUstream of_thread[DEVICES];

void standin_lock(void) { pthread_mutex_lock(&mutex); }
void standin_unlock(void) { pthread_mutex_unlock(&mutex); }

/* -- clocks -------------------------------------------------------------------------------------------------------- */
void standin_join(struct clock *clock, const struct clock *other) {
  for (unsigned i = 0; i < used_slots; i++)
    if (clock->at[i] < other->at[i])
      clock->at[i] = other->at[i];
}

static bool reached(const struct clock *clock, const struct clock *at, unsigned but) {
  for (unsigned i = 0; i < used_slots; i++)
    if (i != but && at->at[i] < clock->at[i])
      return false;
  return true;
}

/* -- who may go on ------------------------------------------------------------------------------------------------- */
static bool may_run(const struct CUstream_st *stream) {
  const struct entry *e = stream->first;
  unsigned slot = stream->slot;
  return e && reached(&e->clock, &completed, slot) &&
         (!standin_settings()->lazy || wanted.at[slot] >= e->clock.at[slot]);
}

/* Wakes those alone that can go on: with one condition for all, most threads would wake in vain most of the time. A
 * worker that runs already hears nothing. */
static void wake(void) {
  for (CUstream s = standin_streams; s; s = s->next)
    if (may_run(s))
      pthread_cond_signal(&s->news);
  for (struct waiter *w = waiters; w; w = w->next)
    if (reached(w->clock, &completed, SLOTS))
      pthread_cond_signal(&w->over);
}

bool standin_is_over(const struct clock *clock) {
  bool over = reached(clock, &completed, SLOTS);
  standin_join(over ? &host : &wanted, clock);
  if (!over && standin_settings()->lazy)
    wake();
  return over;
}

CUresult standin_wait(CUcontext context, const struct clock *clock) {
  if (standin_is_over(clock))
    return context->broken;
  struct waiter waiter = {clock, PTHREAD_COND_INITIALIZER, waiters};
  waiters = &waiter;
  while (!reached(clock, &completed, SLOTS))
    pthread_cond_wait(&waiter.over, &mutex);
  for (struct waiter **at = &waiters; *at; at = &(*at)->next)
    if (*at == &waiter) {
      *at = waiter.next;
      break;
    }
  pthread_cond_destroy(&waiter.over);
  standin_join(&host, clock);
  return context->broken;
}

CUresult standin_wait_device(CUcontext context) {
  struct clock all = {{0}};
  for (CUstream s = standin_streams; s; s = s->next)
    if (s->context == context)
      standin_join(&all, &s->clock);
  return standin_wait(context, &all);
}

/* -- work ---------------------------------------------------------------------------------------------------------- */
void *standin_task(size_t size, const char *name, CUresult (*run)(struct task *), unsigned accesses) {
  struct task *task = calloc(1, size);
  if (!task || (accesses && !(task->access = calloc(accesses, sizeof *task->access))))
    standin_die("no memory for work");
  task->name = name;
  task->run = run;
  task->references = 1;
  return task;
}

void standin_task_touches(struct task *task, uintptr_t begin, size_t bytes, bool writes) {
  if (bytes)
    task->access[task->accesses++] = (struct access){begin, begin + bytes, writes};
}

void standin_task_drop(struct task *task) {
  if (--task->references > 0)
    return;
  if (task->release)
    task->release(task);
  free(task->access);
  free(task);
}

static void delay(unsigned slot, uint64_t sequence) {
  const struct standin_settings *s = standin_settings();
  if (!s->delay_us)
    return;
  uint64_t drawn = standin_mix((uint64_t)s->seed ^ standin_mix((uint64_t)slot << 48 ^ sequence));
  long us = (long)(drawn % ((uint64_t)s->delay_us + 1));
  nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static void run_first(struct CUstream_st *stream) {
  struct entry *entry = stream->first;
  bool broken = stream->context->broken != CUDA_SUCCESS;
  standin_unlock();
  delay(stream->slot, entry->clock.at[stream->slot]);
  CUresult result = standin_fault(CALL_RUN);
  if (result == CUDA_SUCCESS && !broken)
    result = entry->task->run(entry->task);
  standin_lock();
  if (result != CUDA_SUCCESS && stream->context->broken == CUDA_SUCCESS)
    stream->context->broken = result;
  completed.at[stream->slot] = entry->clock.at[stream->slot];
  stream->first = entry->next;
  standin_task_drop(entry->task);
  free(entry);
  wake();
}

static void remove_stream(CUstream stream) {
  for (CUstream *at = &standin_streams; *at; at = &(*at)->next)
    if (*at == stream) {
      *at = stream->next;
      break;
    }
  taken[stream->slot] = false;
  pthread_cond_destroy(&stream->news);
  free(stream);
}

static void *work(void *argument) {
  CUstream stream = argument;
  standin_lock();
  for (;;)
    if (may_run(stream))
      run_first(stream);
    else if (!stream->first && stream->ends)
      break;
    else
      pthread_cond_wait(&stream->news, &mutex);
  remove_stream(stream);
  standin_unlock();
  emulate_end_thread();
  ptx_end_thread();
  return NULL;
}

/* The worker blocks all signals, so that the program's threads take them. */
static bool start_worker(CUstream stream) {
  if (stream->has_worker)
    return true;
  pthread_t worker;
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGABRT);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  stream->has_worker = pthread_create(&worker, NULL, work, stream) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (stream->has_worker)
    pthread_detach(worker);
  return stream->has_worker;
}

static bool is_legacy(const struct CUstream_st *stream) { return stream == stream->context->legacy; }

struct clock standin_stream_clock(CUstream stream) {
  struct clock clock = stream->clock;
  if (is_legacy(stream)) {
    for (CUstream s = standin_streams; s; s = s->next)
      if (s->context == stream->context && s->flags != CU_STREAM_NON_BLOCKING)
        standin_join(&clock, &s->clock);
  } else if (stream->flags != CU_STREAM_NON_BLOCKING && stream->context->legacy)
    standin_join(&clock, &stream->context->legacy->clock);
  return clock;
}

CUresult standin_enqueue(CUstream stream, struct task *task) {
  CUresult result = stream->context->broken;
  if (result == CUDA_SUCCESS && stream->capture)
    return standin_capture_task(stream, task);
  if (result == CUDA_SUCCESS && is_legacy(stream) && standin_blocking_is_captured(stream->context)) {
    standin_invalidate_captures(stream->context);
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  struct entry *entry = calloc(1, sizeof *entry);
  if (result == CUDA_SUCCESS && (!entry || !start_worker(stream)))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS) {
    standin_task_drop(task);
    free(entry);
    return result;
  }
  stream->clock = standin_stream_clock(stream);
  standin_join(&stream->clock, &host);
  stream->clock.at[stream->slot] = ++enqueued.at[stream->slot];
  standin_check_order(task, &stream->clock, stream->slot);
  *entry = (struct entry){.task = task, .clock = stream->clock};
  if (!stream->first)
    stream->last = &stream->first;
  *stream->last = entry;
  stream->last = &entry->next;
  if (may_run(stream))
    pthread_cond_signal(&stream->news);
  return CUDA_SUCCESS;
}

/* -- streams ------------------------------------------------------------------------------------------------------- */
/* Takes the slot that was released longest ago: a later stream's work must not seem to follow an earlier stream's. */
static bool take_slot(unsigned *slot) {
  for (unsigned i = 1; i <= SLOTS; i++) {
    unsigned s = (last_slot + i) % SLOTS;
    if (!taken[s]) {
      taken[s] = true;
      last_slot = *slot = s;
      if (used_slots <= s)
        used_slots = s + 1;
      return true;
    }
  }
  return false;
}

static CUstream create(CUcontext context, unsigned flags, int priority) {
  CUstream stream = calloc(1, sizeof *stream);
  if (!stream || !take_slot(&stream->slot)) {
    free(stream);
    return NULL;
  }
  pthread_cond_init(&stream->news, NULL);
  stream->context = context;
  stream->resets = context->resets;
  stream->flags = flags;
  stream->priority = priority;
  stream->next = standin_streams;
  standin_streams = stream;
  return stream;
}

CUresult standin_stream(CUstream handle, CUstream *stream) {
  CUcontext context;
  if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    CUresult result = standin_context(&context);
    if (result != CUDA_SUCCESS)
      return result;
    CUstream *known = handle == CU_STREAM_PER_THREAD ? &of_thread[context->device] : &context->legacy;
    if (!*known)
      *known = create(context, CU_STREAM_DEFAULT, 0);
    *stream = *known;
    return *known ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (CUstream s = standin_streams; s; s = s->next)
    if (s == handle && !s->ends) {
      if (s->resets != s->context->resets)
        standin_die("a stream is used that was made before its device was reset");
      *stream = s;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_HANDLE;
}

/* Priorities have no effect here. */
CUDA_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  CUcontext context;
  standin_lock();
  const CUresult result = standin_context(&context);
  standin_unlock();
  if (result == CUDA_SUCCESS && least)
    *least = 0;
  if (result == CUDA_SUCCESS && greatest)
    *greatest = -5;
  return result;
}

CUDA_API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
  CUcontext context;
  standin_lock();
  CUresult result = standin_context(&context);
  if (result == CUDA_SUCCESS && flags > CU_STREAM_NON_BLOCKING)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_STREAM);
  if (result == CUDA_SUCCESS && !(*stream = create(context, flags, priority)))
    result = CUDA_ERROR_OUT_OF_MEMORY;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

static bool is_created(CUstream handle) {
  return handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD;
}

CUDA_API CUresult cuStreamDestroy_v2(CUstream handle) {
  CUstream stream;
  standin_lock();
  CUresult result = is_created(handle) ? standin_stream(handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
  if (result == CUDA_SUCCESS) {
    standin_capture_leave(stream);
    stream->ends = true;
    if (!stream->has_worker)
      remove_stream(stream);
    else
      pthread_cond_signal(&stream->news);
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuStreamSynchronize(CUstream handle) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS)
    result = standin_capture_spoiled(stream);
  if (result == CUDA_SUCCESS)
    result = standin_fault(CALL_SYNC);
  if (result == CUDA_SUCCESS) {
    struct clock clock = standin_stream_clock(stream);
    result = standin_wait(stream->context, &clock);
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuStreamQuery(CUstream handle) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS)
    result = standin_capture_spoiled(stream);
  if (result == CUDA_SUCCESS) {
    struct clock clock = standin_stream_clock(stream);
    result = standin_is_over(&clock) ? stream->context->broken : CUDA_ERROR_NOT_READY;
  }
  standin_unlock();
  return result;
}

CUDA_API CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext *context, CUgreenCtx *green) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS) {
    const bool special = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
    *context = stream->context;
    *green = special ? standin_green() : stream->green;
  }
  standin_unlock();
  return result;
}

/* The handle for a green context is not the primary one's. */
CUDA_API CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
  CUgreenCtx green = NULL;
  const CUresult result = cuStreamGetCtx_v2(handle, context, &green);
  if (result == CUDA_SUCCESS && green)
    *context = (CUcontext)green;
  return result;
}

CUDA_API CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority) {
  standin_lock();
  *stream = create(standin_context_of(green->device), flags, priority);
  if (*stream)
    (*stream)->green = green;
  standin_unlock();
  return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUDA_API CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS)
    *flags = stream->flags;
  standin_unlock();
  return result;
}

CUDA_API CUresult cuStreamGetPriority(CUstream handle, int *priority) {
  CUstream stream;
  standin_lock();
  CUresult result = standin_stream(handle, &stream);
  if (result == CUDA_SUCCESS)
    *priority = stream->priority;
  standin_unlock();
  return result;
}
