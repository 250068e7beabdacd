/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/numbers.h"
#include "env/signals.h"

static atomic_int threshold = TAGC_LOG_WARN;
static atomic_int own_rank = -1;
static atomic_bool was_closed;

void tagc_log_set_level(int level) { atomic_store(&threshold, level); }
void tagc_log_set_rank(int rank) { atomic_store(&own_rank, rank); }
int tagc_log_rank(void) { return atomic_load_explicit(&own_rank, memory_order_relaxed); }

void tagc_log_start(void) { atomic_store(&was_closed, fcntl(STDERR_FILENO, F_GETFD) < 0); }

/* True if descriptor 2 is a stderr. If it was closed, the program's next file or connection gets its number, and our
 * line would damage it. A stderr came through exec or dup2, so it is not close-on-exec; most files of libraries are. It
 * is a file, a pipe, a terminal or a local socket, never a connection to another host, an eventfd or an epoll. */
static bool is_stderr(void) {
  struct stat status;
  int flags = fcntl(STDERR_FILENO, F_GETFD), domain = AF_UNSPEC;
  if (flags < 0 || flags & FD_CLOEXEC || atomic_load(&was_closed) || fstat(STDERR_FILENO, &status) != 0)
    return false;
  if (S_ISSOCK(status.st_mode))
    return getsockopt(STDERR_FILENO, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof domain}) == 0 &&
           domain == AF_UNIX;
  return S_ISREG(status.st_mode) || S_ISCHR(status.st_mode) || S_ISFIFO(status.st_mode);
}

/* Continues after an interrupting signal. Returns 0 or the errno. */
static int write_all(const char *data, size_t size) {
  while (size) {
    ssize_t written = write(STDERR_FILENO, data, size);
    if (written == 0 || (written < 0 && errno != EINTR))
      return written < 0 ? errno : 0;
    data += written > 0 ? written : 0;
    size -= written > 0 ? (size_t)written : 0;
  }
  return 0;
}

enum { LONGEST_LINE = 1100 };

size_t tagc_log_escape(char *out, size_t size, const char *text) {
  static const char digits[] = "0123456789abcdef";
  size_t used = 0;
  for (; *text; text++) {
    const unsigned char byte = (unsigned char)*text;
    const bool plain = byte >= ' ' && byte <= '~';
    if (used + (plain ? 1 : 4) >= size)
      break;
    if (plain) {
      out[used++] = *text;
      continue;
    }
    out[used++] = '\\';
    out[used++] = 'x';
    out[used++] = digits[byte >> 4];
    out[used++] = digits[byte & 15];
  }
  out[used] = '\0';
  return used;
}

__attribute__((format(printf, 2, 0))) static void write_line(const char *prefix, const char *format, va_list args) {
  char raw[LONGEST_LINE], line[LONGEST_LINE + 1];
  int n = snprintf(raw, sizeof raw, "%s", prefix);
  const struct tagc_numbers numbers = tagc_numbers_begin();
  if (vsnprintf(raw + n, sizeof raw - (size_t)n, format, args) < 0)
    raw[n] = '\0';
  tagc_numbers_end(&numbers);
  size_t used = tagc_log_escape(line, LONGEST_LINE, raw);
  line[used++] = '\n';
  if (!is_stderr())
    return;
  /* A pipe without reader, or a file at its limit, must not end the program. */
  struct tagc_held_signals held;
  tagc_signals_hold(&held);
  tagc_signals_release(&held, write_all(line, used));
}

void tagc_log(enum tagc_log_level level, const char *component, const char *message, ...) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  if ((int)level > atomic_load_explicit(&threshold, memory_order_relaxed))
    return;
  int saved = errno, rank = atomic_load_explicit(&own_rank, memory_order_relaxed);
  char prefix[100];
  if (rank < 0)
    snprintf(prefix, sizeof prefix, "tagc %s %s: ", names[level], component);
  else
    snprintf(prefix, sizeof prefix, "tagc[%d] %s %s: ", rank, names[level], component);
  va_list args;
  va_start(args, message);
  write_line(prefix, message, args);
  va_end(args);
  errno = saved;
}

void tagc_say(const char *format, ...) {
  int saved = errno;
  va_list args;
  va_start(args, format);
  write_line("", format, args);
  va_end(args);
  errno = saved;
}
