/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/trace/record.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "env/files.h"
#include "env/log.h"
#include "env/signals.h"
#include "env/thread.h"
#include "interpose/nccl/process.h"
#include "layermap/cycle/calls.h"
#include "layermap/cycle/evidence.h"

enum { ROOM = 1 << 14, LINE = 128 };

static struct {
  pid_t owner;                /* 0: nothing has been recorded */
  struct tagc_kept_file file; /* none: over */
  uint64_t communicator;      /* its calls are being written */
  struct tagc_signature call; /* the last one, made `times` times and not in the text yet */
  uint64_t times, calls;      /* calls: all recorded ones */
  off_t good;                 /* bytes in the file */
  size_t used;
  char text[ROOM], path[PATH_MAX];
} record;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void fail_record(int error) {
  tagc_log(TAGC_LOG_WARN, "interpose", "TAGC_CALLS: %s: %s; no more calls are recorded", record.path,
           tagc_file_words(error));
  tagc_file_drop(&record.file);
}

/* After a failed write: removes the line that it has begun. */
static void end_with_line(void) {
  if (tagc_file_look(&record.file) != 0)
    return;
  off_t end = lseek(record.file.file, 0, SEEK_CUR);
  while (end > record.good && record.text[end - record.good - 1] != '\n')
    end--;
  if (end < record.good || ftruncate(record.file.file, end) != 0)
    tagc_log(TAGC_LOG_WARN, "interpose", "TAGC_CALLS: %s ends in the middle of a line", record.path);
}

static void write_text(void) {
  struct tagc_held_signals held;
  if (record.file.file < 0 || record.used == 0)
    return;
  tagc_signals_hold(&held);
  int error = tagc_file_look(&record.file);
  if (!error && (error = tagc_write_all(record.file.file, record.text, record.used)))
    end_with_line();
  tagc_signals_release(&held, error);
  record.good += (off_t)record.used;
  record.used = 0;
  if (error)
    fail_record(error);
}

/* Returns room for another line. */
static char *line_room(void) {
  if (record.used + LINE > ROOM)
    write_text();
  return record.text + record.used;
}

/* Adds the line at the end of the text to it. */
static void add_record_line(void) {
  size_t length = strlen(record.text + record.used);
  record.text[record.used + length] = '\n';
  record.used += length + 1;
}

static void add_last_call(void) {
  if (record.times == 0)
    return;
  char *line = line_room();
  tagc_calls_line(&record.call, line, LINE);
  if (record.times > 1)
    snprintf(line + strlen(line), LINE - strlen(line), " x%llu", (unsigned long long)record.times);
  add_record_line();
  record.times = 0;
}

/* With the lock. */
static void flush(void) {
  if (record.owner != getpid())
    return;
  if (record.file.file >= 0)
    add_last_call();
  write_text();
}

/* After a fork a thread that no longer exists may hold the lock: that process is then not recorded. */
static bool take_lock(void) {
  if (record.owner && record.owner != getpid())
    return tagc_thread_try_lock(&lock);
  pthread_mutex_lock(&lock);
  return true;
}

/* Other threads may still run. If one was interrupted for good while it held the lock, the held-back text is lost. */
static void flush_record_at_exit(void *unused) {
  (void)unused;
  if (!tagc_thread_try_lock(&lock))
    return;
  flush();
  pthread_mutex_unlock(&lock);
}

int __cxa_atexit(void (*function)(void *), void *argument, void *object);

static void begin_record(int rank) {
  static bool ends;
  record.owner = getpid();
  record.times = record.calls = record.used = 0;
  record.good = 0;
  record.communicator = UINT64_MAX;
  const bool named =
    tagc_file_name(record.path, sizeof record.path, tagc_library_options()->calls, "-rank%d.calls", rank);
  record.file.file = -1; /* in a child: its parent's */
  const int error = named ? tagc_file_keep(&record.file, record.path) : errno;
  if (error) {
    fail_record(error);
    return;
  }
  if (!ends)
    __cxa_atexit(flush_record_at_exit, NULL, NULL);
  ends = true;
  strcpy(line_room(), TAGC_CALLS_VERSION);
  add_record_line();
}

static void end_cut(void) {
  add_last_call();
  snprintf(line_room(), LINE, "# cut: the program has made more calls than the first %d, which are above",
           TAGC_RECORD_CALLS);
  add_record_line();
  write_text();
  tagc_file_drop(&record.file);
}

static void add_call(const struct tagc_call_list *of, const struct tagc_signature *call) {
  if (record.calls == TAGC_RECORD_CALLS) {
    end_cut();
    return;
  }
  record.calls++;
  if (record.communicator != of->communicator) {
    add_last_call();
    tagc_calls_communicator_line(of, line_room(), LINE);
    add_record_line();
    record.communicator = of->communicator;
  }
  if (record.times && !tagc_signature_equal(&record.call, call))
    add_last_call();
  record.call = *call;
  record.times++;
}

void tagc_record_call(uint64_t communicator, int rank, int nranks, const struct tagc_signature *call) {
  const int saved = errno;
  const struct tagc_call_list of = {.communicator = communicator, .rank = rank, .nranks = nranks};
  if (!take_lock())
    return;
  if (record.owner != getpid())
    begin_record(rank);
  if (record.file.file >= 0)
    add_call(&of, call);
  pthread_mutex_unlock(&lock);
  errno = saved;
}

void tagc_record_flush(void) {
  const int saved = errno;
  if (take_lock()) {
    flush();
    pthread_mutex_unlock(&lock);
  }
  errno = saved;
}
