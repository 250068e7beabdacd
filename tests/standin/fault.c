/* SPDX-License-Identifier: BSD-3-Clause
 * Faults on request, for tests: NCCL_STANDIN_FAULT=KIND:NAME=VALUE,...
 *
 *   die:rank=R,after=BYTES     rank R kills itself (SIGKILL) after sending that many bytes
 *   reset:rank=R,after=BYTES   rank R resets the connection on which it then sends (a real RST: ECONNRESET)
 *   short:most=K               every transfer moves at most 1 to K bytes, pseudo-randomly
 *   eintr:most=K               a system call is interrupted before it does anything, K-1 times in K, pseudo-randomly
 *   trace:rank=R               rank R reports on stderr how many bytes it had sent when it began each message
 *
 * The bytes are all that a rank sends to other ranks, from its first hello on: the rendezvous, headers and payloads.
 * RANK holds this process's rank; without `rank` a fault applies to every one. An unknown fault ends the process: a
 * test without its fault would show nothing. Any thread; the count is exact if one thread sends.
 */
#include "tests/standin/standin.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum kind { NO_FAULT, DIE, RESET, SHORT, EINTR_NOW, TRACE };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum kind kind;
static uint64_t after, most = 2;
static atomic_uint_fast64_t sent, drawn;

static enum kind kind_of(const char *text, size_t length) {
  static const char *const names[] = {
    [DIE] = "die", [RESET] = "reset", [SHORT] = "short", [EINTR_NOW] = "eintr", [TRACE] = "trace"};
  for (size_t i = DIE; i < sizeof names / sizeof names[0]; i++)
    if (strlen(names[i]) == length && memcmp(names[i], text, length) == 0)
      return (enum kind)i;
  return NO_FAULT;
}

/* Parses NAME=VALUE,...; false if it is malformed. */
static bool parse_values(const char *at, long *rank) {
  while (at && *at) {
    char name[8];
    unsigned long long value;
    int used = 0;
    if (sscanf(at, "%7[a-z]=%llu%n", name, &value, &used) != 2 || (at[used] && at[used] != ','))
      return false;
    if (strcmp(name, "rank") == 0)
      *rank = (long)value;
    else if (strcmp(name, "after") == 0)
      after = value;
    else if (strcmp(name, "most") == 0 && value > 0)
      most = value;
    else
      return false;
    at += used + (at[used] == ',');
  }
  return true;
}

static void setup(void) {
  const char *text = getenv("NCCL_STANDIN_FAULT"), *own = getenv("RANK");
  if (!text || !*text)
    return;
  const char *colon = strchr(text, ':');
  long rank = -1;
  kind = kind_of(text, colon ? (size_t)(colon - text) : strlen(text));
  if (kind == NO_FAULT || !parse_values(colon ? colon + 1 : NULL, &rank)) {
    fprintf(stderr, "NCCL stand-in: NCCL_STANDIN_FAULT=%s is not understood\n", text);
    _exit(2);
  }
  if (rank >= 0 && (!own || strtol(own, NULL, 10) != rank))
    kind = NO_FAULT;
}

static enum kind wanted(void) {
  pthread_once(&once, setup);
  return kind;
}

/* 0 to most - 1 (splitmix64 of a counter). */
static uint64_t draw(void) {
  uint64_t x = (atomic_fetch_add(&drawn, 1) + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (x ^ x >> 31) % most;
}

static size_t shortened(size_t size) {
  size_t limit = wanted() == SHORT ? (size_t)draw() + 1 : size;
  return size < limit ? size : limit;
}

/* Disconnecting a TCP socket this way sends a reset, and both ends see it. */
static void reset(int fd) {
  connect(fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr));
  errno = ECONNRESET;
}

size_t standin_fault_send(int fd, size_t size) {
  enum kind now = wanted();
  if (now != DIE && now != RESET)
    return shortened(size);
  uint64_t before = atomic_load(&sent);
  if (before < after)
    return size < after - before ? size : (size_t)(after - before);
  if (now == RESET) {
    reset(fd);
    return 0;
  }
  fprintf(stderr, "NCCL stand-in: dies after %llu bytes\n", (unsigned long long)before);
  raise(SIGKILL);
  return 0;
}

size_t standin_fault_receive(size_t size) { return shortened(size); }

void standin_fault_sent(size_t size) {
  if (wanted() != NO_FAULT)
    atomic_fetch_add(&sent, size);
}

bool standin_fault_interrupts(void) {
  if (wanted() != EINTR_NOW || draw() == 0)
    return false;
  errno = EINTR;
  return true;
}

void standin_fault_begin(const char *what, int type, uint64_t size) {
  if (wanted() == TRACE)
    fprintf(stderr, "NCCL stand-in: after %llu bytes: %s/%d of %llu bytes\n", (unsigned long long)atomic_load(&sent),
            what, type, (unsigned long long)size);
}
