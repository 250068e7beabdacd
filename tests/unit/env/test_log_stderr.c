/* SPDX-License-Identifier: BSD-3-Clause
 * The destination of a log line: descriptor 2 in every state in which a program can leave it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/log.h"
#include "tests/unit/tap.h"

/* Makes `fd` stderr (close-on-exec on request) and logs; errno must stay. */
static int log_to(int fd, int flags) {
  if (dup3(fd, STDERR_FILENO, flags) < 0)
    return 0;
  errno = EDOM;
  tagc_log(TAGC_LOG_WARN, "test", "a line");
  return errno == EDOM;
}

/* The number of bytes that have arrived at `fd`. */
static size_t arrived(int fd) {
  char text[4096];
  ssize_t got = recv(fd, text, sizeof text, MSG_DONTWAIT);
  if (got < 0 && errno == ENOTSOCK)
    got = poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1 ? read(fd, text, sizeof text) : 0;
  return got > 0 ? (size_t)got : 0;
}

static void connections(void) {
  int pair[2], listener = socket(AF_INET, SOCK_STREAM, 0), one = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  bind(listener, (struct sockaddr *)&address, size);
  listen(listener, 1);
  getsockname(listener, (struct sockaddr *)&address, &size);
  connect(one, (struct sockaddr *)&address, size);
  int other = accept(listener, NULL, NULL);
  ok(log_to(one, 0) && arrived(other) == 0, "a connection of the program that got its number is left alone");
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  ok(log_to(pair[0], 0) && arrived(pair[1]) > 0, "a local socket (a journal) gets the line");
  int counter = eventfd(0, EFD_NONBLOCK);
  eventfd_t value;
  ok(log_to(counter, 0) && eventfd_read(counter, &value) < 0, "an eventfd is left alone");
  close(listener);
  close(one);
  close(other);
  close(pair[0]);
  close(pair[1]);
  close(counter);
}

static void files(void) {
  char path[] = "/tmp/tagc-log.XXXXXX";
  int file = mkstemp(path), full = open("/dev/full", O_WRONLY);
  unlink(path);
  ok(log_to(file, 0) && lseek(file, 0, SEEK_END) > 0, "a file gets the line");
  off_t before = lseek(file, 0, SEEK_END);
  ok(log_to(file, O_CLOEXEC) && lseek(file, 0, SEEK_END) == before,
     "a file that is close-on-exec is the program's own");
  ok(full >= 0 && log_to(full, 0), "a full disk is no error");
  close(file);
  close(full);
}

static void make_pipe(int ends[2], int flags) {
  if (pipe2(ends, flags) != 0)
    abort();
}

/* Runs in a child, which the signal would end. */
static void file_at_its_limit(void) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    char path[] = "/tmp/tagc-log.XXXXXX";
    int file = mkstemp(path);
    unlink(path);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
    _exit(log_to(file, 0) && lseek(file, 0, SEEK_END) == 0 ? 0 : 1);
  }
  waitpid(child, &status, 0);
  ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a file that may not grow does not end the program");
}

/* The pipe has no reader. Runs in a child, which the signal would end. */
static void broken_pipe(void) {
  int ends[2], status = 0;
  make_pipe(ends, 0);
  pid_t child = fork();
  if (child == 0) {
    sigset_t pending;
    close(ends[0]);
    int kept = log_to(ends[1], 0);
    sigpending(&pending);
    _exit(kept && !sigismember(&pending, SIGPIPE) ? 0 : 1);
  }
  close(ends[0]);
  close(ends[1]);
  waitpid(child, &status, 0);
  ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
     "a pipe without a reader raises no SIGPIPE and leaves none pending");
}

/* A SIGPIPE that was blocked and pending belongs to the program. */
static void pending_signal(void) {
  int ends[2];
  sigset_t pipe_signal, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
  raise(SIGPIPE);
  make_pipe(ends, 0);
  close(ends[0]);
  log_to(ends[1], 0);
  close(ends[1]);
  sigpending(&pending);
  ok(sigismember(&pending, SIGPIPE), "a SIGPIPE that was pending before is still the program's");
  sigtimedwait(&pipe_signal, NULL, &(struct timespec){0, 0});
  sigprocmask(SIG_UNBLOCK, &pipe_signal, NULL);
}

static void interrupted(int signal) { (void)signal; }

static void *write_line(void *done) {
  tagc_say("%s", "said while the pipe was full");
  *(atomic_bool *)done = true;
  return NULL;
}

/* The pipe is full: the writer sleeps in write(2), is interrupted there, and goes on when the pipe is read. */
static void full_pipe(void) {
  int ends[2];
  char bytes[4096] = "";
  pthread_t writer;
  atomic_bool done = false;
  make_pipe(ends, O_NONBLOCK);
  while (write(ends[1], bytes, sizeof bytes) > 0)
    ;
  fcntl(ends[1], F_SETFL, 0);
  dup2(ends[1], STDERR_FILENO);
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = interrupted}, NULL);
  pthread_create(&writer, NULL, write_line, &done);
  for (int i = 0; i < 20; i++) { /* the line must be complete wherever a signal interrupts the writer */
    usleep(5000);
    pthread_kill(writer, SIGUSR1);
  }
  int waited = !done;
  static char all[2 << 20];
  const char *line = "said while the pipe was full\n";
  size_t size = 0, length = strlen(line);
  while (!done || poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 0) == 1) {
    ssize_t got = read(ends[0], all + size, sizeof all - size);
    size += got > 0 ? (size_t)got : 0;
  }
  pthread_join(writer, NULL);
  ok(waited && size >= length && memcmp(all + size - length, line, length) == 0,
     "a full pipe makes the writer wait, and a signal does not lose the line");
  close(ends[0]);
  close(ends[1]);
}

/* Like the first NCCL call of a program that was started with 2>&-. */
static void closed(void) {
  char path[] = "/tmp/tagc-log.XXXXXX";
  close(STDERR_FILENO);
  errno = EDOM;
  tagc_log_start();
  tagc_log(TAGC_LOG_WARN, "test", "nowhere");
  int taken = mkstemp(path);
  unlink(path);
  tagc_log(TAGC_LOG_WARN, "test", "not into data");
  ok(taken == STDERR_FILENO && lseek(taken, 0, SEEK_END) == 0,
     "closed at the first call: a data file that gets its number stays empty");
}

int main(void) {
  int before = dup(STDERR_FILENO);
  tagc_log_start();
  files();
  file_at_its_limit();
  connections();
  broken_pipe();
  pending_signal();
  full_pipe();
  dup2(before, STDERR_FILENO);
  closed();
  return tap_done();
}
