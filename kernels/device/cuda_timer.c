/* SPDX-License-Identifier: BSD-3-Clause
 * Times calls on a CUDA device that this library does not make: an event before and after each, on its stream.
 *
 * Ring       Pairs of events are used in turns, and again after the host has read them. Reading stops at the first pair
 *            that has not passed: streams mostly end in the order in which they began, and nobody waits.
 * Threads    One thread at a time begins or reads; another one finds the timer busy, and its call goes untimed. Only
 *            the thread that began a call ends it.
 * Context    A timer needs only the device's context, which exists: it sets nothing up.
 */
#include <stdlib.h>

#include "kernels/device/cuda_device.h"

enum { PAIRS = 64 };

enum condition { FREE, OPEN, OVER, VOID };

struct pair {
  void *before, *behind; /* events */
  uint64_t number;       /* the caller's */
  _Atomic(enum condition) is;
};

struct timer {
  atomic_flag busy;
  unsigned next, first; /* the next to use; the oldest that is not free, if any */
  struct pair pairs[PAIRS];
};

void *tagc_cuda_timer_make(const struct tagc_device *self) {
  (void)self;
  struct timer *timer = calloc(1, sizeof *timer);
  if (timer)
    atomic_flag_clear(&timer->busy);
  return timer;
}

/* Inside of a visit. */
static bool has_events(struct tagc_cuda_device *d, struct pair *pair) {
  return (pair->before || (pair->before = tagc_cuda_event(d, true))) &&
         (pair->behind || (pair->behind = tagc_cuda_event(d, true)));
}

int tagc_cuda_timer_begin(const struct tagc_device *self, void *timer_, uint64_t number, void *stream) {
  struct timer *timer = timer_;
  struct tagc_cuda_visit visit;
  int begun = -1;
  if (!timer || atomic_flag_test_and_set(&timer->busy))
    return -1;
  struct pair *pair = &timer->pairs[timer->next];
  if (atomic_load(&pair->is) == FREE && tagc_cuda_enter_context(self, &visit)) {
    struct tagc_cuda_device *d = visit.device;
    const bool good = has_events(d, pair) && tagc_cuda_takes(d, stream) &&
                      tagc_cuda_did(d, d->driver->event_record(pair->before, stream), "cuEventRecord");
    if (tagc_cuda_leave(&visit, good)) {
      begun = (int)timer->next;
      timer->next = (timer->next + 1) % PAIRS;
      pair->number = number;
      atomic_store(&pair->is, OPEN);
    }
  }
  atomic_flag_clear(&timer->busy);
  return begun;
}

void tagc_cuda_timer_end(const struct tagc_device *self, void *timer, int begun, void *stream, bool good) {
  struct tagc_cuda_visit visit;
  if (begun < 0)
    return;
  struct pair *pair = &((struct timer *)timer)->pairs[begun];
  good = good && tagc_cuda_enter_context(self, &visit);
  if (good) {
    const int error = visit.device->driver->event_record(pair->behind, stream);
    good = tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuEventRecord"));
  }
  atomic_store(&pair->is, good ? OVER : VOID);
}

/* False: the pair has not passed. */
static bool pair_is_read(struct tagc_cuda_device *d, struct pair *pair, struct tagc_timed *out, size_t *count) {
  float took = 0;
  int error = d->driver->event_query(pair->behind);
  if (error == TAGC_CUDA_NOT_READY)
    return false;
  if (!error)
    error = d->driver->event_elapsed(&took, pair->before, pair->behind);
  if (tagc_cuda_did(d, error, "cuEventElapsedTime"))
    out[(*count)++] = (struct tagc_timed){pair->number, (double)took};
  return true;
}

size_t tagc_cuda_timer_read(const struct tagc_device *self, void *timer_, size_t least, struct tagc_timed *out,
                            size_t most) {
  struct timer *timer = timer_;
  struct tagc_cuda_visit visit;
  size_t count = 0;
  if (!timer || atomic_flag_test_and_set(&timer->busy))
    return 0;
  const bool full = timer->next == timer->first && atomic_load(&timer->pairs[timer->first].is) != FREE;
  const size_t unread = full ? PAIRS : (timer->next + PAIRS - timer->first) % PAIRS;
  if (unread && unread >= least && tagc_cuda_enter_context(self, &visit)) {
    for (size_t i = 0; i < unread && count < most; i++) {
      struct pair *pair = &timer->pairs[timer->first];
      const enum condition is = atomic_load(&pair->is);
      if (is == OPEN || (is == OVER && !pair_is_read(visit.device, pair, out, &count)))
        break;
      atomic_store(&pair->is, FREE);
      timer->first = (timer->first + 1) % PAIRS;
    }
    tagc_cuda_leave(&visit, true);
  }
  atomic_flag_clear(&timer->busy);
  return count;
}

void tagc_cuda_timer_free(const struct tagc_device *self, void *timer_) {
  struct timer *timer = timer_;
  struct tagc_cuda_visit visit;
  if (!timer)
    return;
  if (tagc_cuda_enter_context(self, &visit)) { /* else the events are gone with the context */
    for (int i = 0; i < PAIRS; i++) {
      if (timer->pairs[i].before)
        tagc_cuda_did(visit.device, visit.device->driver->event_destroy(timer->pairs[i].before), "cuEventDestroy");
      if (timer->pairs[i].behind)
        tagc_cuda_did(visit.device, visit.device->driver->event_destroy(timer->pairs[i].behind), "cuEventDestroy");
    }
    tagc_cuda_leave(&visit, true);
  }
  free(timer);
}
