/* SPDX-License-Identifier: BSD-3-Clause
 * Side streams of a GPU (device.h): a stream each, which does not wait for the program's default stream. It has the
 * highest priority: its work is short, takes a small part of the GPU (tagc_cuda_beside), and the link waits for it.
 *
 * Events     An event follows each function, in turns: TASKS of them, all made with the side stream. A wait for an
 *            older event waits for the later one in its place, which comes after it.
 * Times      For calls that want them (tagc_cuda_overlap) each function lies between two events, and so does each wait:
 *            an interval. Intervals are used in turns, too. They are read when the call's times are or when their turn
 *            comes again, and never waited for: a call that begins while too many are under way goes untimed. Each
 *            interval lies on one stream, so that no clocks are compared.
 * Threads    The submitting thread calls the function; close waits for that call alone, never for the GPU.
 * Context    As with fences: if the context of a side stream is gone, only host memory is touched.
 */
#include <stdlib.h>

#include "kernels/device/cuda_device.h"

enum { TASKS = 64, INTERVALS = 256, STREAM_NON_BLOCKING = 1 };

/* An interval of a stream. */
struct interval {
  void *before, *behind;        /* events */
  struct tagc_cuda_overlap *of; /* its owner, until it is read; NULL: none */
  enum tagc_side_work work;
  bool waits; /* a caller's stream waits for that work */
};

struct finished {
  void *own;   /* an event */
  void *event; /* `own`, or the interval's; NULL: no event follows the function */
  enum tagc_side_work work;
};

struct tagc_cuda_side_stream {
  pthread_mutex_t lock; /* of the next members */
  pthread_cond_t changed;
  bool closed, running;

  void *stream, *joined;           /* an event on a caller's stream */
  struct finished finished[TASKS]; /* of task t: t % TASKS */
  uint64_t submitted;
  struct interval intervals[INTERVALS];
  unsigned next;                 /* of the intervals */
  struct tagc_cuda_overlap *now; /* the call that it works for; NULL: none is timed */
};

/* -- making -------------------------------------------------------------------------------------------------------- */

/* Inside of a visit. */
static bool make_stream(struct tagc_cuda_device *d, struct tagc_cuda_side_stream *side) {
  int least = 0, greatest = 0;
  if (!tagc_cuda_did(d, d->driver->stream_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange"))
    return false;
  const int error = d->driver->stream_create_first(&side->stream, STREAM_NON_BLOCKING, greatest);
  return tagc_cuda_did(d, error, "cuStreamCreateWithPriority");
}

static bool make_events(struct tagc_cuda_device *d, struct tagc_cuda_side_stream *side) {
  bool good = (side->joined = tagc_cuda_event(d, false)) != NULL;
  for (int i = 0; i < TASKS && good; i++)
    good = (side->finished[i].own = tagc_cuda_event(d, false)) != NULL;
  for (int i = 0; i < INTERVALS && good; i++)
    good =
      (side->intervals[i].before = tagc_cuda_event(d, true)) && (side->intervals[i].behind = tagc_cuda_event(d, true));
  return good;
}

static void drop_event(struct tagc_cuda_device *d, void *event) {
  if (event)
    tagc_cuda_did(d, d->driver->event_destroy(event), "cuEventDestroy");
}

/* Work under way continues to its end. Inside of a visit. */
static void drop_side_stream(struct tagc_cuda_device *d, struct tagc_cuda_side_stream *side) {
  for (int i = 0; i < TASKS; i++)
    drop_event(d, side->finished[i].own);
  for (int i = 0; i < INTERVALS; i++) {
    drop_event(d, side->intervals[i].before);
    drop_event(d, side->intervals[i].behind);
  }
  drop_event(d, side->joined);
  if (side->stream)
    tagc_cuda_did(d, d->driver->stream_destroy(side->stream), "cuStreamDestroy");
}

void *tagc_cuda_side_stream_make(const struct tagc_device *self) {
  struct tagc_cuda_visit visit;
  struct tagc_cuda_side_stream *side = calloc(1, sizeof *side);
  if (!side || !tagc_cuda_enter_ready(self, &visit)) {
    free(side);
    return NULL;
  }
  const bool good = make_stream(visit.device, side) && make_events(visit.device, side);
  if (!good)
    drop_side_stream(visit.device, side);
  if (!tagc_cuda_leave(&visit, good)) {
    free(side);
    return NULL;
  }
  pthread_mutex_init(&side->lock, NULL);
  pthread_cond_init(&side->changed, NULL);
  return side;
}

/* -- times --------------------------------------------------------------------------------------------------------- */

/* Detaches a call with no interval to come. */
static void release(struct tagc_cuda_overlap *overlap) {
  if (overlap->side && !overlap->unread && overlap->side->now != overlap)
    overlap->side = NULL;
}

/* False: the interval is not over. Inside of a visit. */
static bool interval_is_read(struct tagc_cuda_device *d, struct interval *interval) {
  struct tagc_cuda_overlap *of = interval->of;
  float ms = 0;
  if (!of)
    return true;
  if (d->driver->event_query(interval->behind))
    return false;
  if (tagc_cuda_did(d, d->driver->event_elapsed(&ms, interval->before, interval->behind), "cuEventElapsedTime"))
    (interval->waits ? of->waited_ms : of->worked_ms)[interval->work] += (double)ms;
  else
    of->lost = true;
  interval->of = NULL;
  of->unread--;
  release(of);
  return true;
}

/* Begins to time work on the stream; NULL: it goes untimed. Inside of a visit. */
static struct interval *begin_interval(struct tagc_cuda_device *d, struct tagc_cuda_side_stream *side,
                                       enum tagc_side_work work, bool waits, void *stream) {
  struct interval *interval = &side->intervals[side->next];
  if (!side->now || side->now->lost)
    return NULL;
  if (!interval_is_read(d, interval) ||
      !tagc_cuda_did(d, d->driver->event_record(interval->before, stream), "cuEventRecord")) {
    side->now->lost = true;
    return NULL;
  }
  side->next = (side->next + 1) % INTERVALS;
  interval->work = work;
  interval->waits = waits;
  return interval;
}

static bool end_interval(struct tagc_cuda_device *d, struct tagc_cuda_side_stream *side, struct interval *interval,
                         void *stream) {
  if (!tagc_cuda_did(d, d->driver->event_record(interval->behind, stream), "cuEventRecord")) {
    side->now->lost = true;
    return false;
  }
  interval->of = side->now;
  side->now->unread++;
  return true;
}

void tagc_cuda_overlap_begin(struct tagc_cuda_device *d, struct tagc_cuda_overlap *overlap, void *side_,
                             unsigned functions) {
  struct tagc_cuda_side_stream *side = side_;
  if (side->now) /* of a call that has failed */
    tagc_cuda_overlap_end(side->now);
  const unsigned most = 2 * functions;
  overlap->lost =
    most > INTERVALS || (most && !interval_is_read(d, &side->intervals[(side->next + most - 1) % INTERVALS]));
  overlap->side = side;
  side->now = overlap;
}

void tagc_cuda_overlap_end(struct tagc_cuda_overlap *overlap) {
  if (overlap->side && overlap->side->now == overlap)
    overlap->side->now = NULL;
  release(overlap);
}

void tagc_cuda_overlap_read(struct tagc_cuda_device *d, struct tagc_cuda_overlap *overlap) {
  struct tagc_cuda_side_stream *side = overlap->side;
  for (int i = 0; i < INTERVALS && overlap->unread; i++)
    if (side->intervals[i].of == overlap)
      interval_is_read(d, &side->intervals[i]);
}

void tagc_cuda_overlap_forget(struct tagc_cuda_overlap *overlap) {
  struct tagc_cuda_side_stream *side = overlap->side;
  tagc_cuda_overlap_end(overlap);
  for (int i = 0; i < INTERVALS && overlap->unread; i++)
    if (side->intervals[i].of == overlap) {
      side->intervals[i].of = NULL;
      overlap->unread--;
    }
  overlap->side = NULL;
}

/* The side stream ends: times still outstanding will never be known. */
static void leave_all(struct tagc_cuda_side_stream *side) {
  for (int i = 0; i < INTERVALS; i++)
    if (side->intervals[i].of)
      side->intervals[i].of->lost = true;
  for (int i = 0; i < INTERVALS; i++)
    if (side->intervals[i].of)
      tagc_cuda_overlap_forget(side->intervals[i].of);
  if (side->now)
    tagc_cuda_overlap_forget(side->now);
}

/* A tally has these times. */
bool tagc_cuda_side_stream_times(const struct tagc_device *self, void *side, struct tagc_side_times *times) {
  (void)self, (void)side, (void)times;
  return false;
}

/* -- work ---------------------------------------------------------------------------------------------------------- */

/* False where the side stream is closed. */
static bool open_gate(struct tagc_cuda_side_stream *side) {
  pthread_mutex_lock(&side->lock);
  const bool open = !side->closed;
  side->running = open;
  pthread_mutex_unlock(&side->lock);
  return open;
}

static void shut_gate(struct tagc_cuda_side_stream *side) {
  pthread_mutex_lock(&side->lock);
  side->running = false;
  pthread_cond_broadcast(&side->changed);
  pthread_mutex_unlock(&side->lock);
}

uint64_t tagc_cuda_side_stream_submit(const struct tagc_device *self, void *side_, enum tagc_side_work work,
                                      tagc_side_function *function, void *argument) {
  struct tagc_cuda_side_stream *side = side_;
  struct finished *finished = &side->finished[(side->submitted + 1) % TASKS];
  struct interval *interval = NULL;
  struct tagc_cuda_visit visit;
  if (!open_gate(side))
    return 0;
  const bool begun = tagc_cuda_enter_ready(self, &visit);
  if (begun) {
    struct tagc_cuda_device *d = visit.device;
    interval = begin_interval(d, side, work, false, side->stream);
    tagc_cuda_leave(&visit, true);
    function(argument, side->stream);
    side->submitted++;
    *finished = (struct finished){.own = finished->own, .work = work};
    if (tagc_cuda_enter(self, &visit)) { /* else waiting for the function fails */
      if (interval && end_interval(d, side, interval, side->stream))
        finished->event = interval->behind;
      else if (tagc_cuda_did(d, d->driver->event_record(finished->own, side->stream), "cuEventRecord"))
        finished->event = finished->own;
      tagc_cuda_leave(&visit, true);
    }
  }
  shut_gate(side);
  return begun ? side->submitted : 0;
}

bool tagc_cuda_side_stream_after(const struct tagc_device *self, void *side_, void *stream) {
  struct tagc_cuda_side_stream *side = side_;
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  const bool done = tagc_cuda_did(d, d->driver->event_record(side->joined, stream), "cuEventRecord") &&
                    tagc_cuda_did(d, d->driver->stream_wait(side->stream, side->joined, 0), "cuStreamWaitEvent");
  return tagc_cuda_leave(&visit, done);
}

bool tagc_cuda_side_stream_wait(const struct tagc_device *self, void *side_, uint64_t number, void *stream) {
  struct tagc_cuda_side_stream *side = side_;
  const struct finished *finished = &side->finished[number % TASKS];
  struct tagc_cuda_visit visit;
  if (number == 0 || number > side->submitted || !finished->event || !tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  struct interval *wait = begin_interval(d, side, finished->work, true, stream);
  const bool done = tagc_cuda_did(d, d->driver->stream_wait(stream, finished->event, 0), "cuStreamWaitEvent");
  if (wait && done)
    (void)end_interval(d, side, wait, stream);
  else if (wait)
    side->now->lost = true;
  return tagc_cuda_leave(&visit, done);
}

void tagc_cuda_side_stream_close(const struct tagc_device *self, void *side_) {
  struct tagc_cuda_side_stream *side = side_;
  (void)self;
  pthread_mutex_lock(&side->lock);
  side->closed = true;
  while (side->running)
    pthread_cond_wait(&side->changed, &side->lock);
  pthread_mutex_unlock(&side->lock);
}

void tagc_cuda_side_stream_free(const struct tagc_device *self, void *side_) {
  struct tagc_cuda_side_stream *side = side_;
  struct tagc_cuda_visit visit;
  if (!side)
    return;
  tagc_cuda_side_stream_close(self, side);
  if (tagc_cuda_enter(self, &visit)) { /* else it is gone with the context */
    for (int i = 0; i < INTERVALS; i++)
      interval_is_read(visit.device, &side->intervals[i]);
    drop_side_stream(visit.device, side);
    tagc_cuda_leave(&visit, true);
  }
  leave_all(side);
  pthread_cond_destroy(&side->changed);
  pthread_mutex_destroy(&side->lock);
  free(side);
}
