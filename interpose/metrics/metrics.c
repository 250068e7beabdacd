/* SPDX-License-Identifier: BSD-3-Clause
 * Copies of accounts, and the thread that writes them.
 */
#include "interpose/metrics/metrics.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "env/clock.h"
#include "env/log.h"
#include "env/thread.h"
#include "interpose/metrics/files.h"
#include "interpose/nccl/process.h"
#include "kernels/codec/fpmode.h"

#define PAUSE_NS UINT64_C(100000000)     /* from one writing to the next, at least */
#define PATIENCE_NS UINT64_C(2000000000) /* at exit, for a thread that waits for a slow disk */

atomic_bool tagc_metrics_is_on;

/* Of a communicator: one copy is filled by the caller, the other one is read by the writer. */
struct copy {
  struct tagc_figures figures; /* its rows and allgathers are its own */
  size_t row_room, allgather_room;
};

struct handed {
  struct handed *next;
  const struct tagc_ledger *of; /* NULL: gone */
  struct copy copies[2];
  int filling;
  bool fresh; /* the filled one is newer than the other */
};

static atomic_int owner; /* the process; 0: none has begun. A forked child finds its parent's, and touches nothing */
static struct {
  bool begun;
  struct handed *first, **last;
  size_t count;
  bool pending;                  /* some copy is fresh */
  bool writing;                  /* a thread writes, without the lock */
  bool over;                     /* the process ends */
  struct tagc_figures_view view; /* the writer's */
} metrics;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled;

/* The thread that copies, with the lock: a signal handler of its own that now exits will not get the lock. */
static atomic_ulong taker;
_Static_assert(sizeof(pthread_t) == sizeof(unsigned long), "a thread of glibc");

void tagc_metrics_start(const struct tagc_options *options) {
  atomic_store(&tagc_metrics_is_on, *options->metrics != '\0');
}

/* ---- copies; with the lock --------------------------------------------------------------------------------------- */

/* Copies `count` rows into an array that grows. False: no memory. */
static bool copy_rows(struct tagc_ledger_row **to, size_t *room, const struct tagc_ledger_row *from, size_t count) {
  if (count > *room) {
    struct tagc_ledger_row *more = realloc(*to, count * sizeof *more);
    if (!more)
      return false;
    *to = more;
    *room = count;
  }
  if (count)
    memcpy(*to, from, count * sizeof *from);
  return true;
}

/* Without memory the copy has no layers. */
static void fill_copy(struct handed *h) {
  const struct tagc_ledger *ledger = h->of;
  struct copy *copy = &h->copies[h->filling];
  struct tagc_ledger *to = &copy->figures.ledger;
  struct tagc_ledger_row *rows = to->rows, *allgathers = to->allgathers;
  const bool copied = copy_rows(&rows, &copy->row_room, ledger->rows, ledger->row_count) &&
                      copy_rows(&allgathers, &copy->allgather_room, ledger->allgathers, ledger->allgather_count);
  /* All but `next`: another thread may be making the next communicator. */
  const size_t own = offsetof(struct tagc_ledger, rank);
  _Static_assert(offsetof(struct tagc_ledger, rank) == sizeof to->next, "next comes first");
  memcpy((char *)to + own, (const char *)ledger + own, sizeof *to - own);
  to->rows = rows;
  to->allgathers = allgathers;
  if (!copied) {
    to->row_count = to->allgather_count = 0;
    tagc_metrics_lack("memory");
  }
  if (ledger->broadcasts) {
    copy->figures.broadcasts = *ledger->broadcasts;
    to->broadcasts = &copy->figures.broadcasts;
  }
  if (ledger->ab)
    tagc_ab_so_far(ledger->ab, &copy->figures.ab);
  h->fresh = metrics.pending = true;
}

/* NULL without memory. */
static struct handed *handed_of(const struct tagc_ledger *ledger) {
  for (struct handed *h = metrics.first; h; h = h->next)
    if (h->of == ledger)
      return h;
  struct handed *h = calloc(1, sizeof *h);
  if (!h)
    return NULL;
  h->of = ledger;
  *metrics.last = h;
  metrics.last = &h->next;
  metrics.count++;
  return h;
}

/* Removes what is gone. With the lock, and nobody writes. */
static void drop_gone(void) {
  struct handed **at = &metrics.first;
  while (*at) {
    struct handed *h = *at;
    if (h->of) {
      at = &h->next;
      continue;
    }
    *at = h->next;
    for (int i = 0; i < 2; i++) {
      free(h->copies[i].figures.ledger.rows);
      free(h->copies[i].figures.ledger.allgathers);
    }
    free(h);
    metrics.count--;
  }
  metrics.last = at;
}

/* ---- writing; one at a time -------------------------------------------------------------------------------------- */

/* Takes the fresh copies. With the lock. */
static void take_fresh(void) {
  for (struct handed *h = metrics.first; h; h = h->next) {
    h->filling ^= h->fresh;
    h->fresh = false;
  }
  metrics.pending = false;
}

/* Communicators that come meanwhile are behind the first `count`. */
static void write_taken(size_t count) {
  const struct tagc_figures **figures = malloc(count * sizeof(*figures));
  struct timespec now;
  size_t n = 0;
  if (!figures) {
    tagc_metrics_lack("memory");
    return;
  }
  for (const struct handed *h = metrics.first; n < count; h = n < count ? h->next : NULL) /* the last one's changes */
    figures[n++] = &h->copies[!h->filling].figures;
  const tagc_fpmode mode = tagc_fpmode_enter(); /* a thread has the traps of the one that started it */
  clock_gettime(CLOCK_REALTIME, &now);
  metrics.view.now = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
  metrics.view.figures = figures;
  metrics.view.count = count;
  tagc_metrics_write(&metrics.view);
  tagc_fpmode_leave(mode);
  free(figures);
}

/* With the lock, which it releases meanwhile. */
static void write_pending(void) {
  const size_t count = metrics.count;
  take_fresh();
  metrics.writing = true;
  pthread_mutex_unlock(&lock);
  write_taken(count);
  pthread_mutex_lock(&lock);
  metrics.writing = false;
  drop_gone();
}

static void *write_figures(void *unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  while (!metrics.over) {
    while (!metrics.over && !metrics.pending)
      pthread_cond_wait(&filled, &lock);
    if (!metrics.over)
      write_pending();
    const uint64_t until = tagc_clock_ns() + PAUSE_NS;
    const struct timespec deadline = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    while (!metrics.over && pthread_cond_timedwait(&filled, &lock, &deadline) == 0)
      ;
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Takes the lock when nobody writes. Gives up after a while: its holder may be gone, or a disk may hang. */
static bool take_over_metrics(void) {
  const uint64_t until = tagc_clock_ns() + (atomic_load(&taker) == pthread_self() ? PATIENCE_NS / 100 : PATIENCE_NS);
  do {
    if (pthread_mutex_trylock(&lock) == 0) {
      if (!metrics.writing)
        return true;
      pthread_mutex_unlock(&lock);
    }
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  } while (tagc_clock_ns() < until);
  return false;
}

/* Other threads may still run, and change accounts. */
static void end_metrics_at_exit(void *unused) {
  (void)unused;
  const int saved = errno;
  if (!tagc_metrics_on() || atomic_load(&owner) != getpid())
    return;
  atomic_store(&tagc_metrics_is_on, false);
  if (!take_over_metrics()) {
    tagc_log(TAGC_LOG_WARN, "interpose",
             "TAGC_METRICS: the figures were being written when the process ended; the last "
             "ones are missing");
    errno = saved;
    return;
  }
  metrics.over = true;
  if (tagc_ledgers_hold()) {
    for (struct handed *h = metrics.first; h; h = h->next)
      fill_copy(h);
    tagc_ledgers_release();
  }
  take_fresh();
  write_taken(metrics.count);
  pthread_mutex_unlock(&lock);
  errno = saved;
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

int __cxa_atexit(void (*function)(void *), void *argument, void *object);

static void begin_metrics(void) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&filled, &attributes);
  pthread_condattr_destroy(&attributes);
  metrics.begun = true;
  metrics.last = &metrics.first;
  tagc_metrics_name(tagc_library_options()->metrics, &metrics.view);
  __cxa_atexit(end_metrics_at_exit, NULL, NULL);
  if (!tagc_thread_start(write_figures, NULL))
    tagc_metrics_lack("thread to write them before the end");
}

static bool metrics_are_of_process(void) {
  int found = 0;
  const pid_t self = getpid();
  return atomic_compare_exchange_strong(&owner, &found, self) || found == self;
}

void tagc_metrics_take(const struct tagc_ledger *ledger) {
  const int saved = errno;
  if (!tagc_metrics_on() || !metrics_are_of_process())
    return;
  pthread_mutex_lock(&lock);
  atomic_store(&taker, pthread_self());
  if (!metrics.begun)
    begin_metrics();
  struct handed *h = metrics.over ? NULL : handed_of(ledger);
  if (h)
    fill_copy(h);
  else if (!metrics.over)
    tagc_metrics_lack("memory");
  pthread_cond_signal(&filled);
  atomic_store(&taker, 0);
  pthread_mutex_unlock(&lock);
  errno = saved;
}

void tagc_metrics_forget(const struct tagc_ledger *ledger) {
  if (!*tagc_library_options()->metrics || atomic_load(&owner) != getpid())
    return;
  pthread_mutex_lock(&lock);
  for (struct handed *h = metrics.first; h; h = h->next)
    if (h->of == ledger)
      h->of = NULL;
  if (metrics.begun && !metrics.writing)
    drop_gone();
  pthread_mutex_unlock(&lock);
}
