/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the parts of the stand-in for the CUDA driver.
 *
 * One lock, standin_lock(), guards everything declared here. Work of a stream runs without it, on the stream's worker.
 * Time is a clock: for each stream, how much of its work comes before. It decides both when work may run and whether
 * two pieces of work are ordered at all. Settings come from the environment (settings.c lists them).
 */
#ifndef TESTS_STANDIN_CUDA_DRIVER_H
#define TESTS_STANDIN_CUDA_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/standin/cuda/cuda.h"
#include "tests/standin/cuda/emulator.h"

#define CUDA_API __attribute__((visibility("default")))
#define EMULATE_API CUDA_API

enum { DEVICES = 8, SLOTS = 640 }; /* PyTorch alone makes 128 streams a device, here of four */

/* -- settings.c ---------------------------------------------------------------------------------------------------- */
struct standin_settings {
  long devices, driver, capability, multiprocessors, delay_us, seed, pitch;
  size_t memory; /* bytes of each device */
  bool lazy, order, pools, self_test, stops;
  const char *kernels; /* NULL: kernels.so beside the driver */
  bool plays_ptx;      /* kernels run as PTX */
  const char *ptx;     /* a file in place of the module's own PTX; NULL: none */
  const char *counts;  /* a file; NULL: none */
  long schedule;       /* 0: the usual one */
};

const struct standin_settings *standin_settings(void);

/* Reports an error on stderr, and aborts: a test must not go on. */
void standin_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

uint64_t standin_mix(uint64_t x); /* every bit of the result depends on every bit of x */

enum standin_call {
  CALL_ALLOC,
  CALL_CONTEXT,
  CALL_COPY,
  CALL_EVENT,
  CALL_FREE,
  CALL_FUNCTION,
  CALL_LAUNCH,
  CALL_MODULE,
  CALL_POINTER,
  CALL_POOL,
  CALL_RUN,
  CALL_STREAM,
  CALL_SYNC,
  CALL_WAIT,
  CALLS
};

/* The error that CUDA_STANDIN_FAULT requests for this call, mostly none. Needs no lock. */
CUresult standin_fault(enum standin_call call);

/* -- device.c ------------------------------------------------------------------------------------------------------ */
struct CUmemPoolHandle_st {
  CUdevice device;
  uint64_t threshold;
  unsigned peers; /* devices with access, a bit each */
};

struct CUctx_st {
  CUdevice device;
  CUgreenCtx green; /* the handle for a green context; its primary one does all work. NULL: a context */
  unsigned retained, resets;
  bool destroyed;  /* reset, and not retained since */
  CUresult broken; /* an error of work that ran: every later call returns it */
  size_t allocated;
  CUstream legacy;
  struct CUmemPoolHandle_st pool;
};

/* A part of a device's primary context. It may be current on one thread at a time (cuGreenCtxCreate()). */
struct CUgreenCtx_st {
  CUdevice device;
  struct CUctx_st handle;
  pthread_t thread; /* on whose stack it is `uses` times */
  unsigned uses;
};

/* The calling thread's context if it is valid; otherwise the error of the call. */
CUresult standin_context(CUcontext *context);
CUcontext standin_context_of(CUdevice device); /* NULL if there is no such device */
bool standin_is_context(CUcontext context);    /* and retained */
CUgreenCtx standin_green(void);                /* the calling thread's current one; NULL: none */

/* -- stream.c: the lock, clocks, work, streams --------------------------------------------------------------------- */
void standin_lock(void);
void standin_unlock(void);

struct clock {
  uint64_t at[SLOTS];
};

struct access {
  uintptr_t begin, end; /* as the program names them: not views */
  bool writes;
};

/* A piece of work. Graphs and queues hold references; it does not change once it is enqueued. */
struct task {
  const char *name;
  CUresult (*run)(struct task *task);
  void (*release)(struct task *task); /* frees the task's own data, if any; not the task itself */
  struct access *access;
  unsigned accesses, references;
};

/* Zeroed memory of `size` bytes that begins with a task, which has one reference and room for that many accesses. */
void *standin_task(size_t size, const char *name, CUresult (*run)(struct task *), unsigned accesses);
void standin_task_touches(struct task *task, uintptr_t begin, size_t bytes, bool writes);
void standin_task_drop(struct task *task);

struct CUstream_st {
  CUcontext context;
  CUgreenCtx green;             /* NULL: none */
  unsigned flags, slot, resets; /* resets: of the context, before it was made */
  int priority;
  struct clock clock;          /* what the next piece of work comes after */
  struct entry *first, **last; /* enqueued, not yet over */
  bool has_worker, ends;
  pthread_cond_t news;      /* for the worker */
  struct capture *capture;  /* the capture that it takes part in */
  struct clock captured;    /* like `clock`, for nodes of the graph */
  struct CUstream_st *next; /* of all streams */
};

/* Resolves the handle for this thread; CUDA_ERROR_INVALID_HANDLE for an unknown or destroyed one. */
CUresult standin_stream(CUstream handle, CUstream *stream);

extern CUstream standin_streams;

/* The work that a wait for the stream waits for. */
struct clock standin_stream_clock(CUstream stream);

/* Enqueues (or captures) the task, and takes over the reference, even on failure. */
CUresult standin_enqueue(CUstream stream, struct task *task);

/* Waits until all work in the clock is over; releases the lock meanwhile. */
CUresult standin_wait(CUcontext context, const struct clock *clock);
CUresult standin_wait_device(CUcontext context);

/* True if the work is over: then the host counts as having waited for it. False: lazy work begins. */
bool standin_is_over(const struct clock *clock);
void standin_join(struct clock *clock, const struct clock *other);

/* -- order.c ------------------------------------------------------------------------------------------------------- */
/* Records the accesses of `task` under this clock. Dies if one may overlap with another access to the same memory. */
void standin_check_order(const struct task *task, const struct clock *clock, unsigned slot);

/* -- memory.c ------------------------------------------------------------------------------------------------------ */
enum memory { MEMORY_UNKNOWN, MEMORY_DEVICE, MEMORY_PINNED, MEMORY_MANAGED };

struct touch {
  uintptr_t begin, end;
  bool writes;
  unsigned slot;
  uint64_t sequence;
  const char *name;
};

struct allocation {
  uintptr_t begin;
  size_t size;
  enum memory type;
  CUcontext context;
  CUmemoryPool pool;
  uint64_t id;
  bool freed, registered; /* registered: of the program */
  struct touch *touches;
  unsigned count;
};

/* The allocation that holds the address, even a freed one of device memory; NULL for anything else. */
struct allocation *standin_allocation(uintptr_t address);
bool standin_is_device_address(uintptr_t address); /* even if nothing is allocated there */

/* The real address of the memory. */
void *standin_view(uintptr_t address);

/* -- capture.c ----------------------------------------------------------------------------------------------------- */
/* Makes the task a node of the graph that the stream is captured into. */
CUresult standin_capture_task(CUstream stream, struct task *task);
bool standin_blocking_is_captured(CUcontext context);
void standin_invalidate_captures(CUcontext context); /* those of blocking streams */
CUresult standin_capture_spoiled(CUstream stream);   /* the stream is synchronised with: the call's error */
void standin_capture_leave(CUstream stream);         /* the stream is destroyed */
CUresult standin_capture_wait(CUstream stream, CUevent event);
/* For calls that may synchronise implicitly: the error if a capture forbids them to this thread. */
CUresult standin_unsafe_call(void);
uint64_t standin_capture_id(const struct capture *capture);

/* -- event.c ------------------------------------------------------------------------------------------------------- */
struct CUevent_st {
  unsigned flags, resets;
  CUcontext context;
  bool recorded;
  struct clock clock;
  struct stamp *stamp; /* when its last record ran */
  uint64_t capture;    /* recorded in this capture; 0: in none */
  struct clock captured;
};

/* -- emulator.c ---------------------------------------------------------------------------------------------------- */
struct emulate_launch {
  const struct emulate_kernel *kernel;
  void **parameters;
  struct emulate_index grid, block;
  unsigned shared; /* bytes of dynamic shared memory */
  bool cooperative;
  uint64_t seed; /* 0: blocks and threads begin in their order */
};

void emulate_run(const struct emulate_launch *launch);
void emulate_end_thread(void);                      /* frees what this thread keeps for the next launch */
const char *emulate_where(char *text, size_t size); /* the kernel and thread running here; NULL: none */

#endif
