/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/device/host_side_stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "env/thread.h"

/* The most functions that a caller may be ahead. */
enum { ROOM = 64 };

struct side {
  pid_t process;        /* of its thread */
  pthread_mutex_t lock; /* guards the next members */
  pthread_cond_t changed;
  int references; /* its thread and its maker; the last one frees */
  bool closed, running;
  struct {
    tagc_side_function *function;
    void *argument;
  } queue[ROOM];                   /* event t is at t % ROOM */
  uint64_t submitted, begun, done; /* the last events; once closed, none after `done` comes */
  struct tagc_side_times times;
};

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Drops one reference. Releases the lock. */
static void let_go(struct side *side) {
  const bool last = --side->references == 0;
  pthread_mutex_unlock(&side->lock);
  if (!last)
    return;
  pthread_cond_destroy(&side->changed);
  pthread_mutex_destroy(&side->lock);
  free(side);
}

/* Called, and returns, with the lock held. */
static void run_next(struct side *side) {
  const uint64_t event = ++side->begun;
  tagc_side_function *function = side->queue[event % ROOM].function;
  void *argument = side->queue[event % ROOM].argument;
  side->running = true;
  pthread_mutex_unlock(&side->lock);
  const uint64_t began = now_ns();
  function(argument, NULL);
  const uint64_t worked = now_ns() - began;
  pthread_mutex_lock(&side->lock);
  side->running = false;
  side->done = event;
  side->times.worked_ns += worked;
  pthread_cond_broadcast(&side->changed);
}

static void *run_side_stream(void *argument) {
  struct side *side = argument;
  pthread_mutex_lock(&side->lock);
  while (!side->closed)
    if (side->begun < side->submitted)
      run_next(side);
    else
      pthread_cond_wait(&side->changed, &side->lock);
  let_go(side);
  return NULL;
}

void *tagc_host_side_stream_make(const struct tagc_device *self) {
  const int saved_errno = errno;
  struct side *side = calloc(1, sizeof *side);
  (void)self;
  if (side) {
    side->process = getpid();
    side->references = 2;
    pthread_mutex_init(&side->lock, NULL);
    pthread_cond_init(&side->changed, NULL);
    if (!tagc_thread_start(run_side_stream, side)) {
      pthread_cond_destroy(&side->changed);
      pthread_mutex_destroy(&side->lock);
      free(side);
      side = NULL;
    }
  }
  errno = saved_errno;
  return side;
}

/* In the child of a fork a thread that no longer exists may hold the lock. */
static bool is_this_process(const struct side *side) { return side->process == getpid(); }

uint64_t tagc_host_side_stream_submit(const struct tagc_device *self, void *side_, enum tagc_side_work work,
                                      tagc_side_function *function, void *argument) {
  struct side *side = side_;
  uint64_t event = 0;
  (void)self, (void)work;
  if (!is_this_process(side))
    return 0;
  pthread_mutex_lock(&side->lock);
  while (!side->closed && side->submitted - side->done >= ROOM)
    pthread_cond_wait(&side->changed, &side->lock);
  if (!side->closed) {
    event = ++side->submitted;
    side->queue[event % ROOM].function = function;
    side->queue[event % ROOM].argument = argument;
    pthread_cond_broadcast(&side->changed);
  }
  pthread_mutex_unlock(&side->lock);
  return event;
}

/* The work on a caller's stream is already done. */
bool tagc_host_side_stream_after(const struct tagc_device *self, void *side, void *stream) {
  (void)self, (void)side, (void)stream;
  return true;
}

bool tagc_host_side_stream_wait(const struct tagc_device *self, void *side_, uint64_t event, void *stream) {
  struct side *side = side_;
  (void)self, (void)stream;
  if (!is_this_process(side))
    return false;
  pthread_mutex_lock(&side->lock);
  if (side->done < event) {
    const uint64_t began = now_ns();
    while (side->done < event && (side->running || !side->closed))
      pthread_cond_wait(&side->changed, &side->lock);
    side->times.waited_ns += now_ns() - began;
  }
  const bool done = side->done >= event;
  pthread_mutex_unlock(&side->lock);
  return done;
}

void tagc_host_side_stream_close(const struct tagc_device *self, void *side_) {
  struct side *side = side_;
  (void)self;
  if (!is_this_process(side))
    return;
  pthread_mutex_lock(&side->lock);
  side->closed = true;
  pthread_cond_broadcast(&side->changed);
  while (side->running)
    pthread_cond_wait(&side->changed, &side->lock);
  pthread_mutex_unlock(&side->lock);
}

bool tagc_host_side_stream_times(const struct tagc_device *self, void *side_, struct tagc_side_times *times) {
  struct side *side = side_;
  (void)self;
  if (!is_this_process(side))
    return false;
  pthread_mutex_lock(&side->lock);
  *times = side->times;
  pthread_mutex_unlock(&side->lock);
  return true;
}

void tagc_host_side_stream_free(const struct tagc_device *self, void *side_) {
  struct side *side = side_;
  if (!side)
    return;
  if (!is_this_process(side)) {
    free(side); /* a child's copy: nobody else has it */
    return;
  }
  tagc_host_side_stream_close(self, side);
  pthread_mutex_lock(&side->lock);
  let_go(side);
}
