/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static atomic_int threshold = TAGC_LOG_WARN;
static atomic_int own_rank = -1;

void tagc_log_set_level(int level) { atomic_store(&threshold, level); }
void tagc_log_set_rank(int rank) { atomic_store(&own_rank, rank); }

/* Formats behind `used` bytes of line, ends it with a newline and writes it out. */
static void write_line(char *line, size_t size, size_t used, const char *format, va_list args)
{
  int n = vsnprintf(line + used, size - used, format, args);
  used = n < 0 ? used : used + (size_t)n;
  if (used > size - 1)
    used = size - 1;
  line[used++] = '\n';
  /* A pipe whose reader has gone must not end the program: the signal is held back, and taken if it is ours. */
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  sigpending(&pending);
  if (write(STDERR_FILENO, line, used) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
    sigtimedwait(&pipe_signal, NULL, &(struct timespec){0, 0});
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void tagc_log(enum tagc_log_level level, const char *component, const char *message, ...)
{
  static const char *const names[] = {"error", "warn", "info", "debug"};
  if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed))
    return;
  int saved = errno, rank = atomic_load_explicit(&own_rank, memory_order_relaxed);
  char line[1100];
  int used = rank < 0 ? snprintf(line, sizeof line, "tagc %s %s: ", names[level], component)
                      : snprintf(line, sizeof line, "tagc[%d] %s %s: ", rank, names[level], component);
  va_list args;
  va_start(args, message);
  write_line(line, sizeof line, (size_t)used, message, args);
  va_end(args);
  errno = saved;
}

void tagc_say(const char *format, ...)
{
  int saved = errno;
  char line[1100];
  va_list args;
  va_start(args, format);
  write_line(line, sizeof line, 0, format, args);
  va_end(args);
  errno = saved;
}
