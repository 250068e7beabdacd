/* SPDX-License-Identifier: BSD-3-Clause
 * Lanes of a GPU (device.h): a stream each, which does not wait for the program's default stream, and comes before others
 * where there is no room for all: what is done there is short, takes a small part of the GPU (tagc_cuda_beside), and the link
 * waits for it.
 *
 * Tickets    An event behind each function, in turns: PLACES of them, all made with the lane. An older ticket than these is
 *            waited for by the later one that has its place, which comes after it.
 * Times      The events of a place are timed, and read when its turn comes again, or when somebody asks. What is not over by
 *            then is not counted.
 * Threads    A function is called by who submits it; close waits for that call alone, never for the GPU.
 * Context    As with fences: of a lane whose context is gone nothing is touched but memory of the host.
 */
#include <stdlib.h>

#include "kernels/cuda_device.h"

enum { PLACES = 64, STREAM_NON_BLOCKING = 1 };

/* A stretch of a stream. */
struct stretch {
  void *before, *behind;           /* events */
  bool good;                       /* the last one is behind it */
  bool unread;
};

struct lane {
  pthread_mutex_t lock;            /* of what follows */
  pthread_cond_t changed;
  bool closed, running;

  void *stream, *joined;           /* an event on a caller's stream */
  struct stretch work[PLACES];     /* of ticket t: t % PLACES */
  struct stretch waits[PLACES];    /* of callers' streams */
  uint64_t submitted, waited;
  struct tagc_lane_times times;
};

/* -- making ---------------------------------------------------------------------------------------------------------- */

/* Inside of a visit. */
static bool make_stream(struct tagc_cuda_device *d, struct lane *lane)
{
  int least = 0, greatest = 0;
  if (!tagc_cuda_did(d, d->driver->stream_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange"))
    return false;
  const int error = d->driver->stream_create_first(&lane->stream, STREAM_NON_BLOCKING, greatest);
  return tagc_cuda_did(d, error, "cuStreamCreateWithPriority");
}

static bool make_stretch(struct tagc_cuda_device *d, struct stretch *stretch)
{
  return (stretch->before = tagc_cuda_event(d, true)) && (stretch->behind = tagc_cuda_event(d, true));
}

static void drop_event(struct tagc_cuda_device *d, void *event)
{
  if (event)
    tagc_cuda_did(d, d->driver->event_destroy(event), "cuEventDestroy");
}

/* What is under way goes on to its end. Inside of a visit. */
static void drop(struct tagc_cuda_device *d, struct lane *lane)
{
  for (int i = 0; i < PLACES; i++) {
    drop_event(d, lane->work[i].before);
    drop_event(d, lane->work[i].behind);
    drop_event(d, lane->waits[i].before);
    drop_event(d, lane->waits[i].behind);
  }
  drop_event(d, lane->joined);
  if (lane->stream)
    tagc_cuda_did(d, d->driver->stream_destroy(lane->stream), "cuStreamDestroy");
}

void *tagc_cuda_lane_make(const struct tagc_device *self)
{
  struct tagc_cuda_visit visit;
  struct lane *lane = calloc(1, sizeof *lane);
  if (!lane || !tagc_cuda_enter_ready(self, &visit)) {
    free(lane);
    return NULL;
  }
  bool good = make_stream(visit.device, lane) && (lane->joined = tagc_cuda_event(visit.device, false));
  for (int i = 0; i < PLACES && good; i++)
    good = make_stretch(visit.device, &lane->work[i]) && make_stretch(visit.device, &lane->waits[i]);
  if (!good)
    drop(visit.device, lane);
  if (!tagc_cuda_leave(&visit, good)) {
    free(lane);
    return NULL;
  }
  pthread_mutex_init(&lane->lock, NULL);
  pthread_cond_init(&lane->changed, NULL);
  return lane;
}

/* -- times ----------------------------------------------------------------------------------------------------------- */

/* Adds what a stretch took, if it is over. Inside of a visit. */
static void read_stretch(struct tagc_cuda_device *d, struct stretch *stretch, uint64_t *ns)
{
  float ms = 0;
  if (!stretch->unread || d->driver->event_query(stretch->behind))
    return;
  stretch->unread = false;
  if (tagc_cuda_did(d, d->driver->event_elapsed(&ms, stretch->before, stretch->behind), "cuEventElapsedTime"))
    *ns += (uint64_t)((double)ms * 1e6);
}

/* The next turn of a stretch. Inside of a visit. */
static bool begin_stretch(struct tagc_cuda_device *d, struct stretch *stretch, uint64_t *ns, void *stream)
{
  read_stretch(d, stretch, ns);
  stretch->unread = stretch->good = false;
  return tagc_cuda_did(d, d->driver->event_record(stretch->before, stream), "cuEventRecord");
}

static bool end_stretch(struct tagc_cuda_device *d, struct stretch *stretch, void *stream)
{
  stretch->good = stretch->unread = tagc_cuda_did(d, d->driver->event_record(stretch->behind, stream), "cuEventRecord");
  return stretch->good;
}

bool tagc_cuda_lane_times(const struct tagc_device *self, void *lane_, struct tagc_lane_times *times)
{
  struct lane *lane = lane_;
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  for (int i = 0; i < PLACES; i++) {
    read_stretch(visit.device, &lane->work[i], &lane->times.worked_ns);
    read_stretch(visit.device, &lane->waits[i], &lane->times.waited_ns);
  }
  *times = lane->times;
  return tagc_cuda_leave(&visit, true);
}

/* -- work ------------------------------------------------------------------------------------------------------------ */

/* False where the lane is closed. */
static bool open_gate(struct lane *lane)
{
  pthread_mutex_lock(&lane->lock);
  const bool open = !lane->closed;
  lane->running = open;
  pthread_mutex_unlock(&lane->lock);
  return open;
}

static void shut_gate(struct lane *lane)
{
  pthread_mutex_lock(&lane->lock);
  lane->running = false;
  pthread_cond_broadcast(&lane->changed);
  pthread_mutex_unlock(&lane->lock);
}

uint64_t tagc_cuda_lane_submit(const struct tagc_device *self, void *lane_, tagc_lane_function *function, void *argument)
{
  struct lane *lane = lane_;
  struct stretch *stretch = &lane->work[(lane->submitted + 1) % PLACES];
  struct tagc_cuda_visit visit;
  if (!open_gate(lane))
    return 0;
  bool begun = tagc_cuda_enter_ready(self, &visit);
  if (begun)
    begun = tagc_cuda_leave(&visit, begin_stretch(visit.device, stretch, &lane->times.worked_ns, lane->stream));
  if (begun) {
    function(argument, lane->stream);
    lane->submitted++;
    if (tagc_cuda_enter(self, &visit))                /* else waiting for it fails */
      tagc_cuda_leave(&visit, end_stretch(visit.device, stretch, lane->stream));
  }
  shut_gate(lane);
  return begun ? lane->submitted : 0;
}

bool tagc_cuda_lane_after(const struct tagc_device *self, void *lane_, void *stream)
{
  struct lane *lane = lane_;
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  const bool done = tagc_cuda_did(d, d->driver->event_record(lane->joined, stream), "cuEventRecord") &&
                    tagc_cuda_did(d, d->driver->stream_wait(lane->stream, lane->joined, 0), "cuStreamWaitEvent");
  return tagc_cuda_leave(&visit, done);
}

bool tagc_cuda_lane_wait(const struct tagc_device *self, void *lane_, uint64_t ticket, void *stream)
{
  struct lane *lane = lane_;
  const struct stretch *work = &lane->work[ticket % PLACES];
  struct tagc_cuda_visit visit;
  if (ticket == 0 || ticket > lane->submitted || !work->good || !tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  struct stretch *wait = &lane->waits[lane->waited++ % PLACES];
  const bool timed = begin_stretch(d, wait, &lane->times.waited_ns, stream);
  const bool done = tagc_cuda_did(d, d->driver->stream_wait(stream, work->behind, 0), "cuStreamWaitEvent");
  if (timed && done)
    (void)end_stretch(d, wait, stream);
  return tagc_cuda_leave(&visit, done);
}

void tagc_cuda_lane_close(const struct tagc_device *self, void *lane_)
{
  struct lane *lane = lane_;
  (void)self;
  pthread_mutex_lock(&lane->lock);
  lane->closed = true;
  while (lane->running)
    pthread_cond_wait(&lane->changed, &lane->lock);
  pthread_mutex_unlock(&lane->lock);
}

void tagc_cuda_lane_free(const struct tagc_device *self, void *lane_)
{
  struct lane *lane = lane_;
  struct tagc_cuda_visit visit;
  if (!lane)
    return;
  tagc_cuda_lane_close(self, lane);
  if (tagc_cuda_enter(self, &visit)) {             /* else it is gone with the context */
    drop(visit.device, lane);
    tagc_cuda_leave(&visit, true);
  }
  pthread_cond_destroy(&lane->changed);
  pthread_mutex_destroy(&lane->lock);
  free(lane);
}
