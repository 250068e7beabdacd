/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/device/host_lane.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "env/thread.h"

/* A caller is at most so many functions ahead. */
enum { ROOM = 64 };

struct lane {
  pid_t process;                   /* whose thread it is */
  pthread_mutex_t lock;            /* guards all that follows */
  pthread_cond_t changed;
  int references;                  /* its thread, and whoever made it; the last one frees */
  bool closed, running;
  struct {
    tagc_lane_function *function;
    void *argument;
  } queue[ROOM];                   /* ticket t is in place t % ROOM */
  uint64_t submitted, begun, done; /* the last tickets; from `done` + 1 on nothing comes any more once it is closed */
  struct tagc_lane_times times;
};

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Gives one reference back. Takes the lock's place. */
static void let_go(struct lane *lane)
{
  const bool last = --lane->references == 0;
  pthread_mutex_unlock(&lane->lock);
  if (!last)
    return;
  pthread_cond_destroy(&lane->changed);
  pthread_mutex_destroy(&lane->lock);
  free(lane);
}

/* Called with the lock held, as it is when it returns. */
static void run_next(struct lane *lane)
{
  const uint64_t ticket = ++lane->begun;
  tagc_lane_function *function = lane->queue[ticket % ROOM].function;
  void *argument = lane->queue[ticket % ROOM].argument;
  lane->running = true;
  pthread_mutex_unlock(&lane->lock);
  const uint64_t began = now_ns();
  function(argument, NULL);
  const uint64_t worked = now_ns() - began;
  pthread_mutex_lock(&lane->lock);
  lane->running = false;
  lane->done = ticket;
  lane->times.worked_ns += worked;
  pthread_cond_broadcast(&lane->changed);
}

static void *run_lane(void *argument)
{
  struct lane *lane = argument;
  pthread_mutex_lock(&lane->lock);
  while (!lane->closed)
    if (lane->begun < lane->submitted)
      run_next(lane);
    else
      pthread_cond_wait(&lane->changed, &lane->lock);
  let_go(lane);
  return NULL;
}

void *tagc_host_lane_make(const struct tagc_device *self)
{
  const int saved_errno = errno;
  struct lane *lane = calloc(1, sizeof *lane);
  (void)self;
  if (lane) {
    lane->process = getpid();
    lane->references = 2;
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
    if (!tagc_thread_start(run_lane, lane)) {
      pthread_cond_destroy(&lane->changed);
      pthread_mutex_destroy(&lane->lock);
      free(lane);
      lane = NULL;
    }
  }
  errno = saved_errno;
  return lane;
}

/* In a child of a fork the lock may be held by a thread that is not there. */
static bool is_ours(const struct lane *lane) { return lane->process == getpid(); }

uint64_t tagc_host_lane_submit(const struct tagc_device *self, void *lane_, enum tagc_lane_work work, tagc_lane_function *function,
                               void *argument)
{
  struct lane *lane = lane_;
  uint64_t ticket = 0;
  (void)self, (void)work;
  if (!is_ours(lane))
    return 0;
  pthread_mutex_lock(&lane->lock);
  while (!lane->closed && lane->submitted - lane->done >= ROOM)
    pthread_cond_wait(&lane->changed, &lane->lock);
  if (!lane->closed) {
    ticket = ++lane->submitted;
    lane->queue[ticket % ROOM].function = function;
    lane->queue[ticket % ROOM].argument = argument;
    pthread_cond_broadcast(&lane->changed);
  }
  pthread_mutex_unlock(&lane->lock);
  return ticket;
}

/* What a caller has put on its stream is done. */
bool tagc_host_lane_after(const struct tagc_device *self, void *lane, void *stream)
{
  (void)self, (void)lane, (void)stream;
  return true;
}

bool tagc_host_lane_wait(const struct tagc_device *self, void *lane_, uint64_t ticket, void *stream)
{
  struct lane *lane = lane_;
  (void)self, (void)stream;
  if (!is_ours(lane))
    return false;
  pthread_mutex_lock(&lane->lock);
  if (lane->done < ticket) {
    const uint64_t began = now_ns();
    while (lane->done < ticket && (lane->running || !lane->closed))
      pthread_cond_wait(&lane->changed, &lane->lock);
    lane->times.waited_ns += now_ns() - began;
  }
  const bool done = lane->done >= ticket;
  pthread_mutex_unlock(&lane->lock);
  return done;
}

void tagc_host_lane_close(const struct tagc_device *self, void *lane_)
{
  struct lane *lane = lane_;
  (void)self;
  if (!is_ours(lane))
    return;
  pthread_mutex_lock(&lane->lock);
  lane->closed = true;
  pthread_cond_broadcast(&lane->changed);
  while (lane->running)
    pthread_cond_wait(&lane->changed, &lane->lock);
  pthread_mutex_unlock(&lane->lock);
}

bool tagc_host_lane_times(const struct tagc_device *self, void *lane_, struct tagc_lane_times *times)
{
  struct lane *lane = lane_;
  (void)self;
  if (!is_ours(lane))
    return false;
  pthread_mutex_lock(&lane->lock);
  *times = lane->times;
  pthread_mutex_unlock(&lane->lock);
  return true;
}

void tagc_host_lane_free(const struct tagc_device *self, void *lane_)
{
  struct lane *lane = lane_;
  if (!lane)
    return;
  if (!is_ours(lane)) {
    free(lane);                    /* the copy of a child: nobody else has it */
    return;
  }
  tagc_host_lane_close(self, lane);
  pthread_mutex_lock(&lane->lock);
  let_go(lane);
}
