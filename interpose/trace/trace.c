/* SPDX-License-Identifier: BSD-3-Clause
 * The buffer of a trace, and its writers.
 */
#include "interpose/trace/trace.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "env/clock.h"
#include "env/files.h"
#include "env/hash.h"
#include "env/log.h"
#include "env/signals.h"
#include "env/thread.h"
#include "interpose/nccl/process.h"

enum {
  NAMES = 1000,
  ROOM_LEAST = 64 << 10,
  MOST_LEAST = 1 << 20,
  CHUNK = 64 << 10
}; /* CHUNK is small: a full disk cuts, and loses, a chunk */
_Static_assert(CHUNK <= (int)TAGC_TRACE_CHUNK_MOST && CHUNK >= (int)TAGC_TRACE_RECORD_MOST, "what readers expect");
#define PERIOD_NS UINT64_C(200000000)
#define PATIENCE_NS UINT64_C(2000000000) /* at exit, for a thread that waits for a slow disk */

atomic_bool tagc_trace_is_on;

/* The owner of the trace: in a page that a forked child finds empty, as its copy of the rest is useless. */
enum { NOBODYS, BEGINNING, OURS };
static atomic_int *state;
static bool wiped; /* else (older kernels, sandboxes) children find their parent's state, and are not traced */

/* This thread holds the lock, or waits for it: a signal handler that now exits will hardly get the lock. */
static _Thread_local __attribute__((tls_model("initial-exec"))) volatile bool adding;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled;
static struct {
  uint8_t *rooms[2]; /* one is filled while the other one is written */
  size_t room, used; /* bytes of each, and filled bytes */
  int filling;
  bool writing; /* a thread writes the other one, without the lock */
  bool over;    /* the file has its END record: later records are written at once */
  uint64_t dropped;

  /* Used by the writer. */
  pid_t owner;
  struct tagc_kept_file file;
  bool failed;
  off_t good; /* bytes of whole chunks */
  uint64_t chunks;
  char path[PATH_MAX];
} trace;

static _Atomic uint64_t calls; /* made so far */
static void (*forget)(void);

uint64_t tagc_trace_number(void) { return atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1; }
void tagc_trace_at_restart(void (*function)(void)) { forget = function; }

void tagc_trace_start(const struct tagc_options *options) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void *memory;
  if (!*options->trace)
    return;
  if (posix_memalign(&memory, page, page) != 0) {
    tagc_log(TAGC_LOG_WARN, "interpose", "TAGC_TRACE: no memory; calls are not traced");
    return;
  }
  memset(memory, 0, page);
  wiped = madvise(memory, page, MADV_WIPEONFORK) == 0;
  state = memory;
  atomic_store(&tagc_trace_is_on, true);
}

/* ---- writing; one at a time -------------------------------------------------------------------------------------- */

/* A process that ends now waits for the writer while the trace is on: so switch it off last. */
static void fail_trace(int error) {
  trace.failed = true;
  tagc_log(TAGC_LOG_WARN, "interpose", "TAGC_TRACE: %s: %s; the trace of this process ends here", trace.path,
           tagc_file_words(error));
  atomic_store(&tagc_trace_is_on, false);
}

/* Creates a file under a free name: in a container, a process of an earlier run may have had the same number. Returns
 * the errno of a failure, else 0. */
static int create_file(void) {
  const char *prefix = tagc_library_options()->trace;
  int error = EEXIST;
  for (int turn = 1; turn <= NAMES && error == EEXIST; turn++) {
    const bool named = turn == 1 ? tagc_file_name(trace.path, sizeof trace.path, prefix, ".trace")
                                 : tagc_file_name(trace.path, sizeof trace.path, prefix, "-%d.trace", turn);
    error = named ? tagc_file_keep(&trace.file, trace.path) : errno;
  }
  return error;
}

static int open_file(void) {
  const struct tagc_trace_head head = {.magic = TAGC_TRACE_MAGIC,
                                       .order = TAGC_TRACE_ORDER,
                                       .major = TAGC_TRACE_MAJOR,
                                       .minor = TAGC_TRACE_MINOR,
                                       .head_bytes = sizeof head};
  const int error = create_file();
  if (error)
    return error;
  trace.good = sizeof head;
  return tagc_write_all(trace.file.file, (const char *)&head, sizeof head);
}

static int write_chunk(const uint8_t *records, size_t size, uint64_t dropped) {
  struct tagc_trace_chunk chunk = {
    .magic = TAGC_TRACE_CHUNK_MAGIC, .bytes = (uint32_t)size, .number = trace.chunks, .dropped = dropped};
  chunk.sum = tagc_hash_add(tagc_hash_add(TAGC_HASH_START, &chunk, sizeof chunk), records, size);
  int error = tagc_file_look(&trace.file);
  if (error)
    return error;
  error = tagc_write_all(trace.file.file, (const char *)&chunk, sizeof chunk);
  if (!error)
    error = tagc_write_all(trace.file.file, (const char *)records, size);
  if (error) { /* remove all of it */
    if (tagc_file_look(&trace.file) == 0 && ftruncate(trace.file.file, trace.good) != 0)
      tagc_log(TAGC_LOG_WARN, "interpose", "TAGC_TRACE: %s ends in the middle of a chunk", trace.path);
    return error;
  }
  trace.good += (off_t)(sizeof chunk + size);
  trace.chunks++;
  return 0;
}

static uint64_t most_bytes(void) {
  const uint64_t asked = tagc_library_options()->trace_max;
  return asked < MOST_LEAST ? MOST_LEAST : asked;
}

/* An END record always has room. */
static bool has_room(const uint8_t *records, size_t size) {
  return ((const struct tagc_trace_record *)(const void *)records)->kind == TAGC_TRACE_END ||
         (uint64_t)trace.good + sizeof(struct tagc_trace_chunk) + size + sizeof(struct tagc_trace_chunk) +
             sizeof(struct tagc_trace_end) <=
           most_bytes();
}

static int end_at_bound(uint64_t dropped) {
  trace.failed = true;
  const struct tagc_trace_end end = {
    {TAGC_TRACE_END, sizeof end, 0}, tagc_clock_ns(), atomic_load(&calls), dropped, .bounded = 1};
  const int error = write_chunk((const uint8_t *)&end, sizeof end, dropped);
  if (error)
    return error; /* fail_trace() switches it off */
  tagc_log(TAGC_LOG_WARN, "interpose",
           "TAGC_TRACE: %s: the file would grow beyond %llu bytes (TAGC_TRACE_MAX); the trace of this process "
           "ends here",
           trace.path, (unsigned long long)most_bytes());
  atomic_store(&tagc_trace_is_on, false);
  return 0;
}

/* Bytes of whole records that fit into a chunk. */
static size_t of_chunk(const uint8_t *records, size_t size) {
  size_t taken = 0;
  while (taken < size) {
    const size_t next = ((const struct tagc_trace_record *)(const void *)(records + taken))->bytes;
    if (taken + next > CHUNK)
      break;
    taken += next;
  }
  return taken;
}

static void write_records(const uint8_t *records, size_t size, uint64_t dropped) {
  struct tagc_held_signals held;
  if (trace.failed || !size)
    return;
  tagc_signals_hold(&held);
  int error = trace.file.file < 0 ? open_file() : 0;
  for (size_t taken; size && !error && !trace.failed; records += taken, size -= taken) {
    taken = of_chunk(records, size);
    error = has_room(records, taken) ? write_chunk(records, taken, dropped) : end_at_bound(dropped);
  }
  tagc_signals_release(&held, error);
  if (!error)
    return;
  tagc_file_drop(&trace.file);
  fail_trace(error);
}

static void write_end(uint64_t dropped) {
  const struct tagc_trace_end end = {
    {TAGC_TRACE_END, sizeof end, 0}, tagc_clock_ns(), atomic_load(&calls), dropped, .bounded = 0};
  write_records((const uint8_t *)&end, sizeof end, dropped);
}

/* With the lock, which it releases meanwhile. */
static void write_filled(void) {
  const uint8_t *records = trace.rooms[trace.filling];
  const size_t size = trace.used;
  const uint64_t dropped = trace.dropped;
  trace.filling ^= 1;
  trace.used = 0;
  trace.writing = true;
  pthread_mutex_unlock(&lock);
  write_records(records, size, dropped);
  pthread_mutex_lock(&lock);
  trace.writing = false;
}

static void *write_on(void *unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  while (!trace.over && !trace.failed) {
    const uint64_t until = tagc_clock_ns() + PERIOD_NS;
    const struct timespec deadline = {(time_t)(until / 1000000000), (long)(until % 1000000000)};
    while (!trace.over && trace.used < trace.room / 2 && pthread_cond_timedwait(&filled, &lock, &deadline) == 0)
      ;
    if (!trace.over)
      write_filled();
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Takes the lock when nobody writes. Gives up after a while: its holder may be gone, or a disk may hang. */
static bool take_over_trace(void) {
  const uint64_t until = tagc_clock_ns() + (adding ? PATIENCE_NS / 100 : PATIENCE_NS);
  do {
    if (pthread_mutex_trylock(&lock) == 0) {
      if (!trace.writing)
        return true;
      pthread_mutex_unlock(&lock);
    }
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  } while (tagc_clock_ns() < until);
  return false;
}

static void write_rest(void) {
  write_records(trace.rooms[trace.filling], trace.used, trace.dropped);
  trace.used = 0;
  write_end(trace.dropped);
}

/* Other threads may still run. */
static void end_trace_at_exit(void *unused) {
  (void)unused;
  const int saved = errno;
  if (!tagc_trace_on() || atomic_load(state) != OURS || trace.owner != getpid())
    return;
  if (!take_over_trace()) {
    atomic_store(&tagc_trace_is_on, false);
    tagc_log(TAGC_LOG_WARN, "interpose",
             "TAGC_TRACE: %s: it was being written when the process ended; its end is missing", trace.path);
    errno = saved;
    return;
  }
  trace.over = true;
  write_rest();
  if (trace.dropped && !trace.failed)
    tagc_log(TAGC_LOG_WARN, "interpose",
             "TAGC_TRACE: %s lacks %llu records, which came faster than they could be written; a larger "
             "TAGC_TRACE_BUFFER than %llu bytes keeps them",
             trace.path, (unsigned long long)trace.dropped, (unsigned long long)(2 * trace.room));
  pthread_mutex_unlock(&lock);
  errno = saved;
}

/* ---- the beginning ----------------------------------------------------------------------------------------------- */

int __cxa_atexit(void (*function)(void *), void *argument, void *object);

static void set_up(void) {
  static bool ends;
  const uint64_t asked = tagc_library_options()->trace_buffer;
  pthread_condattr_t attributes;
  pthread_mutex_init(&lock, NULL); /* in a child a lost thread may hold it */
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&filled, &attributes);
  pthread_condattr_destroy(&attributes);
  trace.room = (size_t)(asked < ROOM_LEAST ? ROOM_LEAST : asked) / 2;
  for (int i = 0; i < 2; i++)
    trace.rooms[i] = trace.rooms[i] ? trace.rooms[i] : malloc(trace.room);
  trace.used = trace.dropped = trace.chunks = 0;
  trace.writing = trace.over = trace.failed = false;
  trace.owner = getpid();
  trace.file.file = -1;
  snprintf(trace.path, sizeof trace.path, "%s", tagc_library_options()->trace);
  atomic_store(&calls, 0);
  if (forget)
    forget();
  if (!trace.rooms[0] || !trace.rooms[1]) {
    fail_trace(ENOMEM);
    return;
  }
  if (!ends)
    __cxa_atexit(end_trace_at_exit, NULL, NULL);
  ends = true;
  tagc_trace_head();
  if (!tagc_thread_start(write_on, NULL))
    fail_trace(errno);
}

/* A process that finds its parent's trace leaves it alone: its locks may have been held at the fork. */
static bool belongs_to_process(void) {
  if (wiped || trace.owner == getpid())
    return true;
  atomic_store(&tagc_trace_is_on, false);
  return false;
}

bool tagc_trace_begin(void) {
  int found = atomic_load_explicit(state, memory_order_acquire);
  if (found == OURS)
    return tagc_trace_on() && belongs_to_process();
  const int saved = errno;
  found = NOBODYS;
  if (atomic_compare_exchange_strong(state, &found, BEGINNING)) {
    set_up();
    atomic_store(state, OURS);
  }
  while (atomic_load(state) == BEGINNING)
    sched_yield();
  errno = saved;
  return tagc_trace_on();
}

bool tagc_trace_is_adding(void) { return adding; }

void tagc_trace_add(const struct tagc_trace_record *record) {
  if (!tagc_trace_on() || !belongs_to_process())
    return;
  /* The many CALL, TIMES and PROFILE records leave room for others: without a communicator's record its calls say
   * little. */
  const bool one_of_many =
    record->kind == TAGC_TRACE_CALL || record->kind == TAGC_TRACE_TIMES || record->kind == TAGC_TRACE_PROFILE;
  const bool interrupted = adding;
  adding = true;
  pthread_mutex_lock(&lock);
  const size_t before = trace.used;
  if (before + record->bytes > (one_of_many ? trace.room - trace.room / 4 : trace.room)) {
    trace.dropped++;
  } else {
    memcpy(trace.rooms[trace.filling] + before, record, record->bytes);
    trace.used += record->bytes;
    if (before < trace.room / 2 && trace.used >= trace.room / 2)
      pthread_cond_signal(&filled);
  }
  if (trace.over)
    write_rest();
  pthread_mutex_unlock(&lock);
  adding = interrupted;
}
