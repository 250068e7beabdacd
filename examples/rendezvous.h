/* SPDX-License-Identifier: BSD-3-Clause
 * Rank 0 hands a few bytes (an ncclUniqueId) to all other ranks over TCP, using torchrun's environment variables.
 *
 * Ports       torchrun's agent listens on MASTER_PORT itself, so rank 0 takes the first free one of the next 16 ports.
 *             The others try these in turn until rank 0 of this very job answers. Other servers give no such answer
 *             and are passed over. Ports above 65535 continue at 1024.
 * Late ranks  A rank may start long before or after rank 0: everybody tries until timeout_s has passed.
 * Trust       The bytes travel in clear, to anyone who knows the job: for examples and tests on one's own network.
 * Failure     Functions return false and explain in `why`. Nothing is allocated, printed, or left open.
 * Threads     Reentrant, except for getenv.
 */
#ifndef EXAMPLES_RENDEZVOUS_H
#define EXAMPLES_RENDEZVOUS_H

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RENDEZVOUS_PORTS 16
#define RENDEZVOUS_MAX_RANKS 1024
#define RENDEZVOUS_HELLO 0x31736b6e61726f68u
#define RENDEZVOUS_REPLY 0x31796c7065726f68u

struct rendezvous {
  int rank, nranks;
  const char *address; /* a name or number of rank 0's host */
  int port;            /* MASTER_PORT */
  const char *job;     /* tells jobs with the same port apart; may be "" */
  double timeout_s;
};

/* The first message of both sides. Ranks of one job run on machines of one kind, so no byte order is agreed. */
struct rendezvous_greeting {
  uint64_t magic, key;
  uint32_t rank, bytes;
};

__attribute__((format(printf, 3, 4))) static inline bool rendezvous_fail(char *why, size_t size, const char *format,
                                                                         ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(why, size, format, args);
  va_end(args);
  return false;
}

static inline double rendezvous_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Reads an integer from the environment; `fallback` if the variable is not set. */
static inline bool rendezvous_env(const char *name, long low, long high, long fallback, int *out, char *why,
                                  size_t size) {
  const char *text = getenv(name);
  char *end = NULL;
  errno = 0;
  long value = text ? strtol(text, &end, 10) : fallback;
  if (text && (errno || end == text || *end || value < low || value > high))
    return rendezvous_fail(why, size, "%s=%s: expected an integer from %ld to %ld", name, text, low, high);
  *out = (int)value;
  return true;
}

/* Fills *r from RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TORCHELASTIC_RUN_ID; without them: one rank alone. */
static inline bool rendezvous_from_env(struct rendezvous *r, char *why, size_t size) {
  *r = (struct rendezvous){.nranks = 1, .timeout_s = 60.0};
  const char *address = getenv("MASTER_ADDR"), *job = getenv("TORCHELASTIC_RUN_ID");
  if (!rendezvous_env("WORLD_SIZE", 1, RENDEZVOUS_MAX_RANKS, 1, &r->nranks, why, size) ||
      !rendezvous_env("RANK", 0, r->nranks - 1, 0, &r->rank, why, size) ||
      !rendezvous_env("MASTER_PORT", 1, 65535, 29500, &r->port, why, size))
    return false;
  if (r->nranks > 1 && !getenv("RANK"))
    return rendezvous_fail(why, size, "WORLD_SIZE=%d, but RANK is not set", r->nranks);
  r->address = address && *address ? address : "127.0.0.1";
  r->job = job ? job : "";
  return true;
}

static inline uint64_t rendezvous_key(const struct rendezvous *r) {
  uint64_t key = 0xcbf29ce484222325u; /* FNV-1a */
  for (const char *c = r->job; *c; c++)
    key = (key ^ (unsigned char)*c) * 0x100000001b3u;
  key = (key ^ (uint64_t)r->port) * 0x100000001b3u;
  return (key ^ (uint64_t)r->nranks) * 0x100000001b3u;
}

static inline int rendezvous_port(const struct rendezvous *r, int i) {
  int port = r->port + 1 + i;
  return port <= 65535 ? port : port - 65536 + 1024;
}

/* Reads all of `bytes`, in any pieces; false at the end of the stream, on an error, or after the socket's timeout. */
static inline bool rendezvous_read(int fd, void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t got = recv(fd, (char *)data + done, bytes - done, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    done += (size_t)got;
  }
  return true;
}

static inline bool rendezvous_write(int fd, const void *data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t put = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return false;
    done += (size_t)put;
  }
  return true;
}

/* A silent peer must not hold anybody for long. On Linux the sending timeout also bounds connect(). */
static inline void rendezvous_set_timeouts(int fd) {
  struct timeval limit = {.tv_sec = 2};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* Lists the addresses of rank 0's host, with one of its ports: freeaddrinfo() it. If there are none, returns why. */
static inline const char *rendezvous_resolve(const struct rendezvous *r, int port, struct addrinfo **found) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  char service[16];
  snprintf(service, sizeof service, "%d", port);
  *found = NULL;
  int error = getaddrinfo(r->address, service, &hints, found);
  return error == 0 ? NULL : error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
}

static inline bool rendezvous_has_address(const struct rendezvous *r, char *why, size_t size) {
  struct addrinfo *found;
  const char *error = rendezvous_resolve(r, rendezvous_port(r, 0), &found);
  if (error)
    return rendezvous_fail(why, size, "rank %d finds no address of MASTER_ADDR=%s: %s", r->rank, r->address, error);
  freeaddrinfo(found);
  return true;
}

/* A socket listening on (or connected to) the given port of rank 0's host, or -1. */
static inline int rendezvous_open(const struct rendezvous *r, int port, bool listening) {
  struct addrinfo *all;
  int fd = -1;
  rendezvous_resolve(r, port, &all);
  for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0)
      continue;
    rendezvous_set_timeouts(fd);
    int on = 1;
    bool good;
    if (listening) {
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      good = bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, RENDEZVOUS_MAX_RANKS) == 0;
    } else {
      good = connect(fd, a->ai_addr, a->ai_addrlen) == 0;
    }
    if (!good) {
      close(fd);
      fd = -1;
    }
  }
  if (all)
    freeaddrinfo(all);
  return fd;
}

/* Serves one connection of rank 0. Returns the rank that has confirmed the data, or -1. */
static inline int rendezvous_answer(int fd, const struct rendezvous *r, const void *data, size_t bytes) {
  struct rendezvous_greeting hello, reply = {RENDEZVOUS_REPLY, rendezvous_key(r), 0, (uint32_t)bytes};
  char received;
  rendezvous_set_timeouts(fd);
  if (!rendezvous_read(fd, &hello, sizeof hello) || hello.magic != RENDEZVOUS_HELLO || hello.key != reply.key ||
      hello.bytes != reply.bytes || hello.rank < 1 || hello.rank >= (uint32_t)r->nranks)
    return -1;
  if (!rendezvous_write(fd, &reply, sizeof reply) || !rendezvous_write(fd, data, bytes) ||
      !rendezvous_read(fd, &received, 1))
    return -1;
  return (int)hello.rank;
}

static inline bool rendezvous_serve(const struct rendezvous *r, const void *data, size_t bytes, char *why,
                                    size_t size) {
  if (!rendezvous_has_address(r, why, size))
    return false;
  int listener = -1;
  for (int i = 0; i < RENDEZVOUS_PORTS && listener < 0; i++)
    listener = rendezvous_open(r, rendezvous_port(r, i), true);
  if (listener < 0)
    return rendezvous_fail(why, size, "rank 0 can listen on none of the ports %d to %d of MASTER_ADDR=%s: %s",
                           rendezvous_port(r, 0), rendezvous_port(r, RENDEZVOUS_PORTS - 1), r->address,
                           strerror(errno));
  bool served[RENDEZVOUS_MAX_RANKS] = {false};
  int missing = r->nranks - 1;
  double end = rendezvous_clock() + r->timeout_s, left;
  while (missing > 0 && (left = end - rendezvous_clock()) > 0.0) {
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    if (poll(&wait, 1, (int)(left * 1e3) + 1) <= 0)
      continue;
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
      continue;
    int rank = rendezvous_answer(fd, r, data, bytes);
    close(fd);
    if (rank > 0 && !served[rank]) {
      served[rank] = true;
      missing--;
    }
  }
  close(listener);
  return missing == 0 || rendezvous_fail(why, size, "%d of %d ranks did not come to %s within %g s", missing, r->nranks,
                                         r->address, r->timeout_s);
}

static inline bool rendezvous_ask(const struct rendezvous *r, int port, void *data, size_t bytes) {
  struct rendezvous_greeting hello = {RENDEZVOUS_HELLO, rendezvous_key(r), (uint32_t)r->rank, (uint32_t)bytes}, reply;
  int fd = rendezvous_open(r, port, false);
  if (fd < 0)
    return false;
  bool good = rendezvous_write(fd, &hello, sizeof hello) && rendezvous_read(fd, &reply, sizeof reply) &&
              reply.magic == RENDEZVOUS_REPLY && reply.key == hello.key && reply.bytes == hello.bytes &&
              rendezvous_read(fd, data, bytes) && rendezvous_write(fd, "", 1);
  close(fd);
  return good;
}

/* Copies rank 0's data to all ranks. False: this rank does not have it; the others may. */
static inline bool rendezvous_share(const struct rendezvous *r, void *data, size_t bytes, char *why, size_t size) {
  if (r->nranks == 1)
    return true;
  if (r->rank == 0)
    return rendezvous_serve(r, data, bytes, why, size);
  double end = rendezvous_clock() + r->timeout_s;
  do {
    for (int i = 0; i < RENDEZVOUS_PORTS; i++)
      if (rendezvous_ask(r, rendezvous_port(r, i), data, bytes))
        return true;
    poll(NULL, 0, 50);
  } while (rendezvous_clock() < end);
  if (!rendezvous_has_address(r, why, size))
    return false;
  return rendezvous_fail(why, size, "rank %d found no rank 0 on ports %d to %d of MASTER_ADDR=%s within %g s", r->rank,
                         rendezvous_port(r, 0), rendezvous_port(r, RENDEZVOUS_PORTS - 1), r->address, r->timeout_s);
}

#endif
