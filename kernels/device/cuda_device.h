/* SPDX-License-Identifier: BSD-3-Clause
 * The parts of the CUDA device (cuda.c) share this: its state, and the begin and end of driver calls.
 *
 * Set-up     Once, at the first use; other threads wait for it. If it fails, it is never repeated: what needs it fails.
 * Self-test  After the set-up each codec is tried (self_test.h). A wrong one is refused for good; one that could not be
 *            tried, until a later layout() can try it. Threads that want a codec wait meanwhile.
 * Context    The primary one of the GPU, which the CUDA runtime uses, too. Every function makes it current, and then
 *            restores the caller's. Streams of a context that a program makes itself (cuCtxCreate) take no kernels or
 *            events of ours: takes_stream() says so. Those of green contexts, which are parts of the primary one, do.
 *            A cudaDeviceReset ends the context with everything in it. The device is then
 *            lost: we touch nothing of it again, and the next request for the GPU gets a new device.
 * Capture    While a thread captures a stream into a graph, others must not allocate or query. These functions switch
 *            their thread to relaxed mode, because none of their work belongs to that graph.
 * Ownership  A device lives as long as the process, lost or not: communicators point to it.
 */
#ifndef KERNELS_DEVICE_CUDA_DEVICE_H
#define KERNELS_DEVICE_CUDA_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "kernels/cuda/call.h"
#include "kernels/cuda/driver.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/device.h"

enum tagc_cuda_condition {
  TAGC_CUDA_UNTRIED,
  TAGC_CUDA_FAILED,   /* no context */
  TAGC_CUDA_CRIPPLED, /* a context, but no kernels: only host memory and copies */
  TAGC_CUDA_READY,
  TAGC_CUDA_LOST, /* its context existed, and is gone */
};

struct tagc_cuda_device {
  struct tagc_device base;
  const struct tagc_cuda_driver *driver;
  int ordinal, number; /* as the program counts, as the driver does */
  _Atomic(enum tagc_cuda_condition) state;
  char why[320]; /* why the set-up failed */
  void *context;
  unsigned long long context_id; /* if the driver has ids */
  atomic_bool has_context;       /* both are known */
  void *service;                 /* a stream for work outside of calls */
  bool reaches_managed, reaches_pageable;
  struct tagc_gpu_rates rates;                /* of memory and instructions, at best */
  struct tagc_cuda_launcher launcher, beside; /* beside: for calls that leave most of the GPU to the program */

  pthread_mutex_t set_up_lock;
  pthread_mutex_t self_test_lock; /* of the next members; recursive: a self-test calls the table that it tests */
  bool self_testing;
  uint32_t not_run; /* codecs (a bit each, cuda_self_test.c) that once could not be tried and were logged */
  _Atomic uint32_t passed, failed; /* tried codecs; read without the lock */
  pthread_mutex_t lock;            /* of the next members */
  void *pool;                      /* NULL: the driver has none. Set up once */
  struct tagc_cuda_block *blocks;  /* without a pool: all memory ever allocated */
  char *pinned;                    /* the unused rest of the last piece */
  size_t pinned_left;
  struct tagc_cuda_stage *stages;  /* not being filled */
  struct tagc_cuda_tally *tallies; /* given back */
  struct tagc_cuda_device *next;   /* of the process's devices that are set up (cuda_memory.c) */
};

static inline struct tagc_cuda_device *tagc_cuda_device_of(const struct tagc_device *self) {
  return (struct tagc_cuda_device *)(uintptr_t)self;
}

static inline uint64_t tagc_cuda_address(const void *memory) { return (uint64_t)(uintptr_t)memory; }

/* The state that tagc_cuda_leave() restores. */
struct tagc_cuda_visit {
  struct tagc_cuda_device *device;
  int capture_mode;
};

/* Sets the device up if nobody tried, and makes its context current. False: it has none. */
bool tagc_cuda_enter(const struct tagc_device *self, struct tagc_cuda_visit *visit);
/* The same; false also if the device cannot run kernels. */
bool tagc_cuda_enter_ready(const struct tagc_device *self, struct tagc_cuda_visit *visit);
/* The same, without a set-up: false while a set-up under way has no context yet. */
bool tagc_cuda_enter_context(const struct tagc_device *self, struct tagc_cuda_visit *visit);
/* Returns `result`. */
bool tagc_cuda_leave(struct tagc_cuda_visit *visit, bool result);
/* tagc_cuda_good() for a driver call between the two. It also detects that the context is gone. */
bool tagc_cuda_did(struct tagc_cuda_device *device, int error, const char *call);

/* True if the device was set up and its context has ended since. */
bool tagc_cuda_is_lost(struct tagc_cuda_device *device);

/* takes_stream of device.h. Inside of a visit. */
bool tagc_cuda_takes(struct tagc_cuda_device *device, void *stream);

/* NULL on failure. Inside of a visit. */
void *tagc_cuda_event(struct tagc_cuda_device *device, bool timed);

/* -- cuda_self_test.c ---------------------------------------------------------------------------------------------- */

/* True if the codec gives the host's bits on this GPU. Runs the self-test if there is no result yet: the first time, or
 * again if memory or the driver failed. False if the codec does not run on GPUs. */
bool tagc_cuda_codec_passes(struct tagc_cuda_device *device, const struct tagc_codec *codec);
bool tagc_cuda_allgather_passes(struct tagc_cuda_device *device, const struct tagc_allgather_codec *codec);
/* The end of the set-up: tests all codecs. */
void tagc_cuda_self_test_codecs(struct tagc_cuda_device *device);

/* -- cuda_allgather.c ---------------------------------------------------------------------------------------------- */

/* Members of the table. */
bool tagc_cuda_allgather_layout(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out);
bool tagc_cuda_allgather_cost(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                              struct tagc_gpu_cost *out);
bool tagc_cuda_allgather_encode(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                struct tagc_allgather_job *job, void *stream);
bool tagc_cuda_allgather_decode(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                struct tagc_allgather_job *job, void *stream);
bool tagc_cuda_allgather_refer(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                               struct tagc_allgather_job *job, void *stream);
bool tagc_cuda_allgather_refused(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                 struct tagc_allgather_job *job, void *stream, bool *refused);
bool tagc_cuda_allgather_digest(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                struct tagc_allgather_job *job, void *stream);

/* -- cuda_memory.c ------------------------------------------------------------------------------------------------- */

/* The last step of the set-up, in the context: creates a pool, or falls back to allocation without one. False if memory
 * of another GPU of the process is out of reach; device->why says so. */
bool tagc_cuda_memory_set_up(struct tagc_cuda_device *device);

/* Pinned host memory, 64-byte aligned, not freed; NULL: none. 0 bytes: a new piece if the last is full. In a visit. */
void *tagc_cuda_pinned(struct tagc_cuda_device *device, size_t bytes);

/* Members of the table. */
void *tagc_cuda_alloc(const struct tagc_device *self, size_t bytes, void *stream);
void tagc_cuda_release(const struct tagc_device *self, void *memory, void *stream);
void tagc_cuda_release_after(const struct tagc_device *self, void *memory, void *fence);
void *tagc_cuda_alloc_pinned(const struct tagc_device *self, size_t bytes);
size_t tagc_cuda_spare(const struct tagc_device *self);
bool tagc_cuda_reaches(const struct tagc_device *self, const void *buffer);
bool tagc_cuda_clear(const struct tagc_device *self, void *memory, size_t bytes, void *stream);
bool tagc_cuda_put(const struct tagc_device *self, void *to_device, const void *from_host, size_t bytes, void *stream);
bool tagc_cuda_copy(const struct tagc_device *self, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                    size_t width, size_t rows, void *stream);
bool tagc_cuda_get(const struct tagc_device *self, void *to_host, const void *from_device, size_t bytes, void *stream);

/* -- cuda_tally.c -------------------------------------------------------------------------------------------------- */

/* The counts in device memory that kernels add to. */
struct tagc_counts *tagc_cuda_tally_counts(const void *tally);

/* Members of the table. */
void *tagc_cuda_tally_make(const struct tagc_device *self, void *stream);
bool tagc_cuda_tally_mark(const struct tagc_device *self, void *tally, enum tagc_mark mark, uint64_t number,
                          void *stream);
bool tagc_cuda_tally_read(const struct tagc_device *self, void *tally, struct tagc_tally_times *times,
                          struct tagc_codec_stats *stats);
void tagc_cuda_tally_side_stream(const struct tagc_device *self, void *tally, void *side, unsigned functions);
bool tagc_cuda_tally_denser(const struct tagc_device *self, void *tally, void *stream, bool *denser);
void tagc_cuda_tally_free(const struct tagc_device *self, void *tally, void *fence);

/* -- cuda_timer.c -------------------------------------------------------------------------------------------------- */

/* Members of the table. */
void *tagc_cuda_timer_make(const struct tagc_device *self);
int tagc_cuda_timer_begin(const struct tagc_device *self, void *timer, uint64_t number, void *stream);
void tagc_cuda_timer_end(const struct tagc_device *self, void *timer, int begun, void *stream, bool good);
size_t tagc_cuda_timer_read(const struct tagc_device *self, void *timer, size_t least, struct tagc_timed *out,
                            size_t most);
void tagc_cuda_timer_free(const struct tagc_device *self, void *timer);

/* -- cuda_side_stream.c -------------------------------------------------------------------------------------------- */

/* How long a side stream worked for one call, and how long the call's stream waited for that. The side stream writes it
 * until it is ended and read, or forgotten. The thread that uses side stream and tally does all of that. */
struct tagc_cuda_overlap {
  struct tagc_cuda_side_stream *side; /* which may still write; NULL: none */
  unsigned unread;                    /* timed intervals whose times are outstanding */
  bool lost;                          /* some times will never be known */
  double worked_ms[TAGC_SIDE_WORKS], waited_ms[TAGC_SIDE_WORKS];
};

/* From now on the side stream works for this call. Inside of a visit. */
void tagc_cuda_overlap_begin(struct tagc_cuda_device *d, struct tagc_cuda_overlap *overlap, void *side,
                             unsigned functions);
/* Ends that. Unread intervals stay to be read. */
void tagc_cuda_overlap_end(struct tagc_cuda_overlap *overlap);
/* Reads the finished intervals: all of them after the end of the call. Inside of a visit. */
void tagc_cuda_overlap_read(struct tagc_cuda_device *d, struct tagc_cuda_overlap *overlap);
/* Detaches it from its side stream. Touches host memory alone. */
void tagc_cuda_overlap_forget(struct tagc_cuda_overlap *overlap);

/* Members of the table. */
void *tagc_cuda_side_stream_make(const struct tagc_device *self);
uint64_t tagc_cuda_side_stream_submit(const struct tagc_device *self, void *side, enum tagc_side_work work,
                                      tagc_side_function *function, void *argument);
bool tagc_cuda_side_stream_after(const struct tagc_device *self, void *side, void *stream);
bool tagc_cuda_side_stream_wait(const struct tagc_device *self, void *side, uint64_t event, void *stream);
void tagc_cuda_side_stream_close(const struct tagc_device *self, void *side);
bool tagc_cuda_side_stream_times(const struct tagc_device *self, void *side, struct tagc_side_times *times);
void tagc_cuda_side_stream_free(const struct tagc_device *self, void *side);

#endif
