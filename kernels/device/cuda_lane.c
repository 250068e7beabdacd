/* SPDX-License-Identifier: BSD-3-Clause
 * Lanes of a GPU (device.h): a stream each, which does not wait for the program's default stream, and comes before others
 * where there is no room for all: what is done there is short, takes a small part of the GPU (tagc_cuda_beside), and the link
 * waits for it.
 *
 * Tickets    An event behind each function, in turns: TICKETS of them, all made with the lane. An older ticket than these is
 *            waited for by the later one that has its place, which comes after it.
 * Times      Of calls that want them (tagc_cuda_share) each function lies between two events, and so does each wait: a stretch. These
 *            are used in turns, too, read when the call is asked for or their turn comes again, and never waited for: a call that
 *            begins while too many are under way goes untimed. All on one stream each, so that no clocks are compared.
 * Threads    A function is called by who submits it; close waits for that call alone, never for the GPU.
 * Context    As with fences: of a lane whose context is gone nothing is touched but memory of the host.
 */
#include <stdlib.h>

#include "kernels/device/cuda_device.h"

enum { TICKETS = 64, STRETCHES = 256, STREAM_NON_BLOCKING = 1 };

/* Of a stream. */
struct stretch {
  void *before, *behind;           /* events */
  struct tagc_cuda_share *of;     /* whose it is, until it is read; NULL: nobody's */
  enum tagc_lane_work work;
  bool waits;                      /* of a caller's stream, for that work */
};

struct ticket {
  void *own;                       /* an event */
  void *event;                     /* that one, or that behind a stretch; NULL: there is none behind the function */
  enum tagc_lane_work work;
};

struct tagc_cuda_lane {
  pthread_mutex_t lock;            /* of what follows */
  pthread_cond_t changed;
  bool closed, running;

  void *stream, *joined;           /* an event on a caller's stream */
  struct ticket tickets[TICKETS];  /* of ticket t: t % TICKETS */
  uint64_t submitted;
  struct stretch stretches[STRETCHES];
  unsigned next;                   /* of these */
  struct tagc_cuda_share *now;    /* the call that it works for; NULL: none that is timed */
};

/* -- making ---------------------------------------------------------------------------------------------------------- */

/* Inside of a visit. */
static bool make_stream(struct tagc_cuda_device *d, struct tagc_cuda_lane *lane)
{
  int least = 0, greatest = 0;
  if (!tagc_cuda_did(d, d->driver->stream_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange"))
    return false;
  const int error = d->driver->stream_create_first(&lane->stream, STREAM_NON_BLOCKING, greatest);
  return tagc_cuda_did(d, error, "cuStreamCreateWithPriority");
}

static bool make_events(struct tagc_cuda_device *d, struct tagc_cuda_lane *lane)
{
  bool good = (lane->joined = tagc_cuda_event(d, false)) != NULL;
  for (int i = 0; i < TICKETS && good; i++)
    good = (lane->tickets[i].own = tagc_cuda_event(d, false)) != NULL;
  for (int i = 0; i < STRETCHES && good; i++)
    good = (lane->stretches[i].before = tagc_cuda_event(d, true)) && (lane->stretches[i].behind = tagc_cuda_event(d, true));
  return good;
}

static void drop_event(struct tagc_cuda_device *d, void *event)
{
  if (event)
    tagc_cuda_did(d, d->driver->event_destroy(event), "cuEventDestroy");
}

/* What is under way goes on to its end. Inside of a visit. */
static void drop(struct tagc_cuda_device *d, struct tagc_cuda_lane *lane)
{
  for (int i = 0; i < TICKETS; i++)
    drop_event(d, lane->tickets[i].own);
  for (int i = 0; i < STRETCHES; i++) {
    drop_event(d, lane->stretches[i].before);
    drop_event(d, lane->stretches[i].behind);
  }
  drop_event(d, lane->joined);
  if (lane->stream)
    tagc_cuda_did(d, d->driver->stream_destroy(lane->stream), "cuStreamDestroy");
}

void *tagc_cuda_lane_make(const struct tagc_device *self)
{
  struct tagc_cuda_visit visit;
  struct tagc_cuda_lane *lane = calloc(1, sizeof *lane);
  if (!lane || !tagc_cuda_enter_ready(self, &visit)) {
    free(lane);
    return NULL;
  }
  const bool good = make_stream(visit.device, lane) && make_events(visit.device, lane);
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

/* What may still be written of the call has been. */
static void release(struct tagc_cuda_share *share)
{
  if (share->lane && !share->unread && share->lane->now != share)
    share->lane = NULL;
}

/* False: it is not over. Inside of a visit. */
static bool is_read(struct tagc_cuda_device *d, struct stretch *stretch)
{
  struct tagc_cuda_share *of = stretch->of;
  float ms = 0;
  if (!of)
    return true;
  if (d->driver->event_query(stretch->behind))
    return false;
  if (tagc_cuda_did(d, d->driver->event_elapsed(&ms, stretch->before, stretch->behind), "cuEventElapsedTime"))
    (stretch->waits ? of->waited_ms : of->worked_ms)[stretch->work] += (double)ms;
  else
    of->lost = true;
  stretch->of = NULL;
  of->unread--;
  release(of);
  return true;
}

/* What begins here on the stream is timed, if NULL is not returned. Inside of a visit. */
static struct stretch *begin_stretch(struct tagc_cuda_device *d, struct tagc_cuda_lane *lane, enum tagc_lane_work work, bool waits,
                                     void *stream)
{
  struct stretch *stretch = &lane->stretches[lane->next];
  if (!lane->now || lane->now->lost)
    return NULL;
  if (!is_read(d, stretch) || !tagc_cuda_did(d, d->driver->event_record(stretch->before, stream), "cuEventRecord")) {
    lane->now->lost = true;
    return NULL;
  }
  lane->next = (lane->next + 1) % STRETCHES;
  stretch->work = work;
  stretch->waits = waits;
  return stretch;
}

static bool end_stretch(struct tagc_cuda_device *d, struct tagc_cuda_lane *lane, struct stretch *stretch, void *stream)
{
  if (!tagc_cuda_did(d, d->driver->event_record(stretch->behind, stream), "cuEventRecord")) {
    lane->now->lost = true;
    return false;
  }
  stretch->of = lane->now;
  lane->now->unread++;
  return true;
}

void tagc_cuda_share_begin(struct tagc_cuda_device *d, struct tagc_cuda_share *share, void *lane_, unsigned functions)
{
  struct tagc_cuda_lane *lane = lane_;
  if (lane->now)                   /* of a call that has failed */
    tagc_cuda_share_end(lane->now);
  const unsigned most = 2 * functions;
  share->lost = most > STRETCHES || (most && !is_read(d, &lane->stretches[(lane->next + most - 1) % STRETCHES]));
  share->lane = lane;
  lane->now = share;
}

void tagc_cuda_share_end(struct tagc_cuda_share *share)
{
  if (share->lane && share->lane->now == share)
    share->lane->now = NULL;
  release(share);
}

void tagc_cuda_share_read(struct tagc_cuda_device *d, struct tagc_cuda_share *share)
{
  struct tagc_cuda_lane *lane = share->lane;
  for (int i = 0; i < STRETCHES && share->unread; i++)
    if (lane->stretches[i].of == share)
      is_read(d, &lane->stretches[i]);
}

void tagc_cuda_share_forget(struct tagc_cuda_share *share)
{
  struct tagc_cuda_lane *lane = share->lane;
  tagc_cuda_share_end(share);
  for (int i = 0; i < STRETCHES && share->unread; i++)
    if (lane->stretches[i].of == share) {
      lane->stretches[i].of = NULL;
      share->unread--;
    }
  share->lane = NULL;
}

/* The lane ends: what is not over by now will never be known. */
static void leave_all(struct tagc_cuda_lane *lane)
{
  for (int i = 0; i < STRETCHES; i++)
    if (lane->stretches[i].of)
      lane->stretches[i].of->lost = true;
  for (int i = 0; i < STRETCHES; i++)
    if (lane->stretches[i].of)
      tagc_cuda_share_forget(lane->stretches[i].of);
  if (lane->now)
    tagc_cuda_share_forget(lane->now);
}

/* They are in the times of tallies. */
bool tagc_cuda_lane_times(const struct tagc_device *self, void *lane, struct tagc_lane_times *times)
{
  (void)self, (void)lane, (void)times;
  return false;
}

/* -- work ------------------------------------------------------------------------------------------------------------ */

/* False where the lane is closed. */
static bool open_gate(struct tagc_cuda_lane *lane)
{
  pthread_mutex_lock(&lane->lock);
  const bool open = !lane->closed;
  lane->running = open;
  pthread_mutex_unlock(&lane->lock);
  return open;
}

static void shut_gate(struct tagc_cuda_lane *lane)
{
  pthread_mutex_lock(&lane->lock);
  lane->running = false;
  pthread_cond_broadcast(&lane->changed);
  pthread_mutex_unlock(&lane->lock);
}

uint64_t tagc_cuda_lane_submit(const struct tagc_device *self, void *lane_, enum tagc_lane_work work, tagc_lane_function *function,
                               void *argument)
{
  struct tagc_cuda_lane *lane = lane_;
  struct ticket *ticket = &lane->tickets[(lane->submitted + 1) % TICKETS];
  struct stretch *stretch = NULL;
  struct tagc_cuda_visit visit;
  if (!open_gate(lane))
    return 0;
  const bool begun = tagc_cuda_enter_ready(self, &visit);
  if (begun) {
    struct tagc_cuda_device *d = visit.device;
    stretch = begin_stretch(d, lane, work, false, lane->stream);
    tagc_cuda_leave(&visit, true);
    function(argument, lane->stream);
    lane->submitted++;
    *ticket = (struct ticket){.own = ticket->own, .work = work};
    if (tagc_cuda_enter(self, &visit)) {             /* else waiting for it fails */
      if (stretch && end_stretch(d, lane, stretch, lane->stream))
        ticket->event = stretch->behind;
      else if (tagc_cuda_did(d, d->driver->event_record(ticket->own, lane->stream), "cuEventRecord"))
        ticket->event = ticket->own;
      tagc_cuda_leave(&visit, true);
    }
  }
  shut_gate(lane);
  return begun ? lane->submitted : 0;
}

bool tagc_cuda_lane_after(const struct tagc_device *self, void *lane_, void *stream)
{
  struct tagc_cuda_lane *lane = lane_;
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  const bool done = tagc_cuda_did(d, d->driver->event_record(lane->joined, stream), "cuEventRecord") &&
                    tagc_cuda_did(d, d->driver->stream_wait(lane->stream, lane->joined, 0), "cuStreamWaitEvent");
  return tagc_cuda_leave(&visit, done);
}

bool tagc_cuda_lane_wait(const struct tagc_device *self, void *lane_, uint64_t number, void *stream)
{
  struct tagc_cuda_lane *lane = lane_;
  const struct ticket *ticket = &lane->tickets[number % TICKETS];
  struct tagc_cuda_visit visit;
  if (number == 0 || number > lane->submitted || !ticket->event || !tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  struct stretch *wait = begin_stretch(d, lane, ticket->work, true, stream);
  const bool done = tagc_cuda_did(d, d->driver->stream_wait(stream, ticket->event, 0), "cuStreamWaitEvent");
  if (wait && done)
    (void)end_stretch(d, lane, wait, stream);
  else if (wait)
    lane->now->lost = true;
  return tagc_cuda_leave(&visit, done);
}

void tagc_cuda_lane_close(const struct tagc_device *self, void *lane_)
{
  struct tagc_cuda_lane *lane = lane_;
  (void)self;
  pthread_mutex_lock(&lane->lock);
  lane->closed = true;
  while (lane->running)
    pthread_cond_wait(&lane->changed, &lane->lock);
  pthread_mutex_unlock(&lane->lock);
}

void tagc_cuda_lane_free(const struct tagc_device *self, void *lane_)
{
  struct tagc_cuda_lane *lane = lane_;
  struct tagc_cuda_visit visit;
  if (!lane)
    return;
  tagc_cuda_lane_close(self, lane);
  if (tagc_cuda_enter(self, &visit)) {             /* else it is gone with the context */
    for (int i = 0; i < STRETCHES; i++)
      is_read(visit.device, &lane->stretches[i]);
    drop(visit.device, lane);
    tagc_cuda_leave(&visit, true);
  }
  leave_all(lane);
  pthread_cond_destroy(&lane->changed);
  pthread_mutex_destroy(&lane->lock);
  free(lane);
}
