/* SPDX-License-Identifier: BSD-3-Clause
 * Counts of a CUDA device, which the host reads later.
 *
 * Counts     Kernels add to counts in device memory. The last mark of a call copies them to pinned host memory, then
 *            records its event.
 * Turns      Two calls of a slot can be under way, each with its own events and pinned memory. Nothing writes what the
 *            host reads: the event has passed, and no later call has that turn.
 * Reuse      A freed tally is reused once its last copies are over: pinned memory and events are never given back to
 *            the driver, which might wait. A tally whose copies may still run stays unused.
 */
#include <stdlib.h>

#include "kernels/device/cuda_device.h"

enum { TURNS = 2 };

struct turn {
  void *event[TAGC_MARKS];
  uint64_t number;                  /* the caller's */
  unsigned marked;                  /* one bit a mark */
  bool ended;                       /* and not yet read */
  struct tagc_counts *seen;         /* pinned */
  struct tagc_cuda_overlap overlap; /* times of a side stream */
};

struct tagc_cuda_tally {
  struct tagc_cuda_tally *next; /* of the freed ones */
  struct tagc_counts *counts;   /* in device memory */
  struct turn turn[TURNS];
  int now;
  struct tagc_counts *agreed; /* pinned: the counts when tagc_cuda_tally_denser() was last called */
  void *asked;                /* the event after that copy */
  bool was_asked;
  bool lost;               /* an answer was lost that the other ranks have: there are no more */
  bool unsure;             /* a copy without an event may be under way */
  struct tagc_counts read; /* counts that the host has read already */
};

struct tagc_counts *tagc_cuda_tally_counts(const void *tally) {
  return ((const struct tagc_cuda_tally *)tally)->counts;
}

/* -- make and free ------------------------------------------------------------------------------------------------- */

/* True if nothing writes to its pinned memory any more. An event that was never recorded has passed. */
static bool is_idle(const struct tagc_cuda_device *d, const struct tagc_cuda_tally *tally) {
  if (tally->unsure || (tally->asked && d->driver->event_query(tally->asked) != 0))
    return false;
  for (int i = 0; i < TURNS; i++) {
    void *last = tally->turn[i].event[TAGC_MARK_DECODED];
    if (last && d->driver->event_query(last) != 0)
      return false;
  }
  return true;
}

static struct tagc_cuda_tally *take_tally_again(struct tagc_cuda_device *d) {
  struct tagc_cuda_tally **at, *tally = NULL;
  pthread_mutex_lock(&d->lock);
  for (at = &d->tallies; *at && !tally;)
    if (is_idle(d, *at))
      tally = *at;
    else
      at = &(*at)->next;
  if (tally)
    *at = tally->next;
  pthread_mutex_unlock(&d->lock);
  return tally;
}

static void give_tally_back(struct tagc_cuda_device *d, struct tagc_cuda_tally *tally) {
  tally->counts = NULL;
  for (int i = 0; i < TURNS; i++)
    tagc_cuda_overlap_forget(&tally->turn[i].overlap);
  pthread_mutex_lock(&d->lock);
  tally->next = d->tallies;
  d->tallies = tally;
  pthread_mutex_unlock(&d->lock);
}

/* Makes the missing parts of a new tally, or of one whose making failed, and resets it. */
static bool complete_tally(struct tagc_cuda_device *d, struct tagc_cuda_tally *tally) {
  struct tagc_counts *pinned = tally->agreed ? tally->agreed : tagc_cuda_pinned(d, (1 + TURNS) * sizeof *pinned);
  bool whole = (tally->agreed = pinned) != NULL;
  for (int i = 0; i < TURNS && whole; i++) {
    struct turn *turn = &tally->turn[i];
    turn->seen = pinned + 1 + i;
    turn->ended = false;
    turn->marked = 0;
    turn->overlap = (struct tagc_cuda_overlap){0};
    for (int mark = 0; mark < TAGC_MARKS && whole; mark++)
      whole = turn->event[mark] || (turn->event[mark] = tagc_cuda_event(d, true));
  }
  tally->was_asked = tally->lost = false;
  tally->read = (struct tagc_counts){0};
  return whole && (tally->asked || (tally->asked = tagc_cuda_event(d, false)));
}

void *tagc_cuda_tally_make(const struct tagc_device *self, void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_ready(self, &visit))
    return NULL;
  struct tagc_cuda_device *d = visit.device;
  struct tagc_cuda_tally *tally = take_tally_again(d);
  if (!tally)
    tally = calloc(1, sizeof *tally);
  bool whole = tally && complete_tally(d, tally);
  tagc_cuda_leave(&visit, true);
  if (whole) {
    tally->counts = tagc_cuda_alloc(self, sizeof *tally->counts, stream);
    whole = tally->counts && tagc_cuda_clear(self, tally->counts, sizeof *tally->counts, stream);
  }
  if (whole || !tally)
    return tally;
  tagc_cuda_release(self, tally->counts, stream);
  give_tally_back(d, tally);
  return NULL;
}

void tagc_cuda_tally_free(const struct tagc_device *self, void *tally_, void *fence) {
  struct tagc_cuda_tally *tally = tally_;
  if (!tally)
    return;
  tagc_cuda_release_after(self, tally->counts, fence);
  give_tally_back(tagc_cuda_device_of(self), tally);
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

/* Copies the counts as of this point of the stream, and records an event after the copy. */
static bool snapshot(struct tagc_cuda_device *d, struct tagc_cuda_tally *tally, struct tagc_counts *to, void *event,
                     void *stream) {
  if (!tagc_cuda_did(d, d->driver->get(to, tagc_cuda_address(tally->counts), sizeof *to, stream), "cuMemcpyDtoHAsync"))
    return false;
  const bool recorded = tagc_cuda_did(d, d->driver->event_record(event, stream), "cuEventRecord");
  tally->unsure |= !recorded;
  return recorded;
}

bool tagc_cuda_tally_mark(const struct tagc_device *self, void *tally_, enum tagc_mark mark, uint64_t number,
                          void *stream) {
  struct tagc_cuda_tally *tally = tally_;
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  if (mark == TAGC_MARK_BEGUN) {
    tally->now = (tally->now + 1) % TURNS;
    tagc_cuda_overlap_forget(&tally->turn[tally->now].overlap);
    tally->turn[tally->now].overlap = (struct tagc_cuda_overlap){0};
    tally->turn[tally->now].number = number;
    tally->turn[tally->now].marked = 0;
    tally->turn[tally->now].ended = false;
  }
  struct turn *turn = &tally->turn[tally->now];
  const bool done = mark == TAGC_MARK_DECODED
                      ? snapshot(d, tally, turn->seen, turn->event[mark], stream)
                      : tagc_cuda_did(d, d->driver->event_record(turn->event[mark], stream), "cuEventRecord");
  turn->marked |= (unsigned)done << mark;
  turn->ended = done && mark == TAGC_MARK_DECODED;
  if (mark == TAGC_MARK_DECODED)
    tagc_cuda_overlap_end(&turn->overlap);
  return tagc_cuda_leave(&visit, done);
}

void tagc_cuda_tally_side_stream(const struct tagc_device *self, void *tally_, void *side, unsigned functions) {
  struct tagc_cuda_tally *tally = tally_;
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return;
  tagc_cuda_overlap_begin(visit.device, &tally->turn[tally->now].overlap, side, functions);
  tagc_cuda_leave(&visit, true);
}

/* The times between marks; 0 for a mark that was left out. */
static int turn_times(const struct tagc_cuda_device *d, const struct turn *turn, double ms[TAGC_MARKS - 1]) {
  int error = 0, from = TAGC_MARK_BEGUN;
  for (int to = 1; to < TAGC_MARKS && !error; to++) {
    float took = 0;
    ms[to - 1] = 0;
    if (!(turn->marked >> from & 1) || !(turn->marked >> to & 1))
      continue;
    error = d->driver->event_elapsed(&took, turn->event[from], turn->event[to]);
    ms[to - 1] = (double)took;
    from = to;
  }
  return error;
}

/* Called after the end of the call and of its side stream's work. */
static void tell_share(struct tagc_cuda_device *d, struct tagc_cuda_overlap *overlap, struct tagc_tally_times *times) {
  tagc_cuda_overlap_read(d, overlap);
  for (int work = 0; work < TAGC_SIDE_WORKS; work++) {
    times->worked_ms[work] = overlap->worked_ms[work];
    times->waited_ms[work] = overlap->waited_ms[work];
  }
  times->side_known = !overlap->lost && !overlap->unread;
}

static void add_counts(struct tagc_codec_stats *stats, const struct tagc_counts *now, struct tagc_counts *before) {
  stats->selected += now->selected - before->selected;
  stats->unrecovered += now->unrecovered - before->unrecovered;
  stats->nonfinite += now->nonfinite - before->nonfinite;
  stats->overflowed += now->overflowed - before->overflowed;
  stats->lost += now->lost - before->lost;
  stats->dropped += now->dropped - before->dropped;
  stats->residual_norm2 = now->residual_norm2;
  *before = *now;
}

bool tagc_cuda_tally_read(const struct tagc_device *self, void *tally_, struct tagc_tally_times *times,
                          struct tagc_codec_stats *stats) {
  struct tagc_cuda_tally *tally = tally_;
  struct turn *turn = NULL;
  struct tagc_cuda_visit visit;
  for (int i = 1; i <= TURNS && tally && !turn; i++) /* the oldest first */
    if (tally->turn[(tally->now + i) % TURNS].ended)
      turn = &tally->turn[(tally->now + i) % TURNS];
  if (!turn || !tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  int error = d->driver->event_query(turn->event[TAGC_MARK_DECODED]);
  if (!error)
    error = turn_times(d, turn, times->ms);
  if (!error) {
    turn->ended = false;
    times->number = turn->number;
    tell_share(d, &turn->overlap, times);
    add_counts(stats, turn->seen, &tally->read);
  }
  return tagc_cuda_leave(&visit, error != TAGC_CUDA_NOT_READY && tagc_cuda_did(d, error, "cuEventElapsedTime"));
}

bool tagc_cuda_tally_denser(const struct tagc_device *self, void *tally_, void *stream, bool *denser) {
  struct tagc_cuda_tally *tally = tally_;
  struct tagc_cuda_visit visit;
  *denser = false;
  if (tally->lost || !tagc_cuda_enter(self, &visit))
    return false;
  struct tagc_cuda_device *d = visit.device;
  bool done = true;
  if (tally->was_asked) {
    done = tagc_cuda_did(d, d->driver->event_synchronize(tally->asked), "cuEventSynchronize");
    *denser = done && tally->agreed->denser;
  }
  done = done && snapshot(d, tally, tally->agreed, tally->asked, stream);
  tally->was_asked = done;
  tally->lost = !done;
  return tagc_cuda_leave(&visit, done);
}
