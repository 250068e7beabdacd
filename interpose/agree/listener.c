/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/agree/listener.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/clock.h"
#include "env/descriptors.h"
#include "env/log.h"
#include "env/thread.h"
#include "interpose/agree/decider.h"

enum {
  CONNECTIONS = 64,    /* at most at a time; others wait in the kernel */
  SHARE = 32,          /* one connection for so many descriptors that the process may have */
  PATIENCE_MS = 10000, /* for a connection, from its first to its last byte */
  STRANGER_MS = 1000,  /* for one without the secret of an id */
};

/* A request being received, then its reply being sent. */
struct connection {
  int fd;
  int64_t began_ms;
  bool known; /* has sent the secret of an id */
  struct tagc_agree_request request;
  size_t got; /* bytes of the request and its text, then of the confirmation */
  uint8_t *reply;
  size_t size, sent;
  uint8_t bytes[TAGC_AGREE_REQUEST_SIZE + TAGC_AGREE_TEXT];
};

struct listener {
  pid_t owner;          /* the process of its thread */
  pthread_mutex_t lock; /* guards what follows */
  struct tagc_agree_decider *decider;
  bool running;
  int fd;
  ino_t socket; /* fd must still be this one: programs close descriptors that they did not open */
  union tagc_agree_address address;
};

/* A thread's own data: it outlives its turn by a moment, when the next thread may already run. */
struct worker {
  int fd; /* the socket */
  ino_t socket;
  bool accepting;
  struct connection *connections[CONNECTIONS];
};

static _Atomic(struct listener *) current;

static int64_t now_ms(void) { return (int64_t)tagc_clock_ms(); }

/* ---- connections ------------------------------------------------------------------------------------------------- */

static void hang_up(struct connection **at) {
  close((*at)->fd);
  free((*at)->reply);
  free(*at);
  *at = NULL;
}

static size_t places(void) {
  const int share = tagc_descriptors_limit() / SHARE;
  return share < 2 ? 2 : share < CONNECTIONS ? (size_t)share : CONNECTIONS;
}

/* Returns a place for a new connection: a free one, or that of the oldest connection without a secret. NULL: none. */
static struct connection **place(struct worker *w) {
  struct connection **oldest = NULL;
  for (size_t i = 0, count = places(); i < count; i++) {
    struct connection **at = &w->connections[i];
    if (!*at)
      return at;
    if (!(*at)->known && (!oldest || (*at)->began_ms < (*oldest)->began_ms))
      oldest = at;
  }
  return oldest;
}

/* Accepts the next connection. Its first bytes are already here (open_socket()): a rank's are read before the next
 * connection is accepted. So only strangers are displaced. */
static void welcome(struct worker *w) {
  struct connection **at = place(w), *c;
  if (!at)
    return;
  if (*at)
    hang_up(at);
  int fd = tagc_descriptor_of_ours(accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
  w->accepting = fd >= 0 || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (fd < 0)
    return; /* mostly for lack of a descriptor: perhaps one is free soon */
  if (!(c = malloc(sizeof *c))) {
    close(fd);
    return;
  }
  memset(c, 0, offsetof(struct connection, bytes));
  c->fd = fd;
  c->began_ms = now_ms();
  *at = c;
}

/* Makes the reply to a complete request. */
static bool answer_connection(struct listener *l, struct connection *c) {
  pthread_mutex_lock(&l->lock);
  c->size =
    tagc_agree_decider_answer(l->decider, &c->request, (const char *)c->bytes + TAGC_AGREE_REQUEST_SIZE, &c->reply);
  pthread_mutex_unlock(&l->lock);
  return c->size > 0;
}

/* Logs the decision after the first rank has its answer: a blocked stderr must not delay ranks. */
static void warn_of_listener(struct listener *l) {
  char complaint[1000];
  pthread_mutex_lock(&l->lock);
  snprintf(complaint, sizeof complaint, "%s", tagc_agree_decider_complaint(l->decider));
  pthread_mutex_unlock(&l->lock);
  if (*complaint)
    tagc_log(TAGC_LOG_WARN, "agree", "the ranks of a communicator differ, so all of its calls pass through: %s",
             complaint);
}

/* Reads what has arrived of the request, in two steps: its fixed part, then the text. False: hang up. */
static bool read_request(struct listener *l, struct connection *c) {
  for (;;) {
    size_t want = c->got < TAGC_AGREE_REQUEST_SIZE ? TAGC_AGREE_REQUEST_SIZE
                                                   : TAGC_AGREE_REQUEST_SIZE + (size_t)c->request.text_size;
    if (c->got == want && c->got >= TAGC_AGREE_REQUEST_SIZE)
      return answer_connection(l, c);
    ssize_t n = recv(c->fd, c->bytes + c->got, want - c->got, 0);
    if (n <= 0)
      return n < 0 && (errno == EAGAIN || errno == EINTR);
    c->got += (size_t)n;
    if (c->known || c->got < TAGC_AGREE_REQUEST_SIZE)
      continue;
    if (!tagc_agree_request_read(c->bytes, &c->request))
      return false;
    pthread_mutex_lock(&l->lock);
    c->known = tagc_agree_decider_knows(l->decider, c->request.secret);
    pthread_mutex_unlock(&l->lock);
    if (!c->known)
      return false;
  }
}

static bool write_reply(struct listener *l, struct connection *c) {
  ssize_t n = send(c->fd, c->reply + c->sent, c->size - c->sent, MSG_NOSIGNAL);
  if (n < 0)
    return errno == EAGAIN || errno == EINTR;
  c->sent += (size_t)n;
  if (c->sent < c->size)
    return true;
  warn_of_listener(l);
  return c->request.kind == TAGC_AGREE_ASK; /* a report needs no confirmation */
}

/* Reads the byte that confirms the arrival of a decision. Either way, the connection ends. */
static bool read_confirmation(struct listener *l, struct connection *c) {
  uint8_t byte;
  ssize_t n = recv(c->fd, &byte, 1, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return true;
  if (n == 1 && c->request.kind == TAGC_AGREE_ASK) {
    pthread_mutex_lock(&l->lock);
    tagc_agree_decider_confirm(l->decider, &c->request);
    pthread_mutex_unlock(&l->lock);
  }
  return false;
}

static bool serve(struct listener *l, struct connection *c) {
  if (!c->reply && !read_request(l, c))
    return false;
  if (c->reply && c->sent < c->size)
    return write_reply(l, c);
  return !c->reply || read_confirmation(l, c);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Is it still our socket? */
static bool is_socket(int fd, ino_t socket) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == socket;
}

/* Ends the thread if nobody waits for a decision any more, or the program has closed our socket. The next id starts
 * another one. */
static bool is_over(struct listener *l, const struct worker *w) {
  pthread_mutex_lock(&l->lock);
  bool ours = is_socket(w->fd, w->socket), over = tagc_agree_decider_open(l->decider) == 0 || !ours;
  if (over && ours)
    close(w->fd);
  if (over)
    l->running = false;
  pthread_mutex_unlock(&l->lock);
  return over;
}

/* Time that is left for a connection; negative: it is over. */
static int64_t left_ms(const struct connection *c) {
  return c->began_ms + (c->known ? PATIENCE_MS : STRANGER_MS) - now_ms();
}

/* Waits for an event; fills fds[0] for the socket, and then one for each connection, in order. */
static void wait_for_any(struct worker *w, struct pollfd *fds) {
  int64_t patience = -1;
  nfds_t count = 1;
  fds[0] = (struct pollfd){.fd = w->accepting && place(w) ? w->fd : -1, .events = POLLIN};
  for (size_t i = 0; i < CONNECTIONS; i++) {
    const struct connection *c = w->connections[i];
    if (!c)
      continue;
    int64_t left = left_ms(c);
    left = left < 0 ? 0 : left;
    patience = patience < 0 || left < patience ? left : patience;
    fds[count++] = (struct pollfd){.fd = c->fd, .events = c->reply && c->sent < c->size ? POLLOUT : POLLIN};
  }
  if (!w->accepting && (patience < 0 || patience > 100))
    patience = 100; /* perhaps a descriptor is free then */
  if (poll(fds, count, (int)patience) < 0)
    for (nfds_t i = 0; i < count; i++)
      fds[i].revents = 0;
}

/* Takes the lock because the starter of the thread holds it until all is set. */
static struct worker begin_worker(struct listener *l) {
  pthread_mutex_lock(&l->lock);
  struct worker w = {.fd = l->fd, .socket = l->socket, .accepting = true};
  pthread_mutex_unlock(&l->lock);
  return w;
}

static void *work(void *argument) {
  struct listener *l = argument;
  struct worker w = begin_worker(l);
  pthread_setname_np(pthread_self(), "tagc-agree");
  struct pollfd fds[1 + CONNECTIONS];
  while (!is_over(l, &w)) {
    wait_for_any(&w, fds);
    nfds_t at = 1;
    for (size_t i = 0; i < CONNECTIONS; i++) {
      struct connection **c = &w.connections[i];
      if (!*c)
        continue;
      bool keep = !fds[at].revents || serve(l, *c);
      if (!keep || left_ms(*c) < 0)
        hang_up(c);
      at++;
    }
    bool waiting = fds[0].revents & POLLIN;
    w.accepting = true;
    if (waiting && is_socket(w.fd, w.socket))
      welcome(&w);
  }
  for (size_t i = 0; i < CONNECTIONS; i++)
    if (w.connections[i])
      hang_up(&w.connections[i]);
  return NULL;
}

static bool open_socket(struct listener *l, const union tagc_agree_address *host) {
  l->address = *host;
  socklen_t size = tagc_agree_address_size(host);
  l->fd = tagc_descriptor_of_ours(socket(host->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (l->fd < 0)
    return false;
  /* A silent connection stays in the kernel, which soon drops it, and takes no descriptor. */
  setsockopt(l->fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &(int){1}, sizeof(int));
  struct stat status;
  if (bind(l->fd, &l->address.any, size) == 0 && listen(l->fd, SOMAXCONN) == 0 &&
      getsockname(l->fd, &l->address.any, &size) == 0 && fstat(l->fd, &status) == 0) {
    l->socket = status.st_ino;
    return true;
  }
  int saved = errno;
  close(l->fd);
  errno = saved;
  return false;
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

/* The listener of this process. A forked child ignores its parent's: its thread is not here, its lock may be held. */
static struct listener *own_listener(void) {
  struct listener *l = atomic_load(&current);
  if (l && l->owner == getpid())
    return l;
  struct listener *fresh = calloc(1, sizeof *fresh);
  struct tagc_agree_decider *decider = fresh ? tagc_agree_decider_create() : NULL;
  if (!decider) {
    free(fresh);
    return NULL;
  }
  fresh->owner = getpid();
  fresh->decider = decider;
  pthread_mutex_init(&fresh->lock, NULL);
  if (atomic_compare_exchange_strong(&current, &l, fresh))
    return fresh;
  tagc_agree_decider_destroy(decider); /* another thread was first */
  free(fresh);
  return l;
}

static bool same_host(const union tagc_agree_address *a, const union tagc_agree_address *b) {
  if (a->any.sa_family != b->any.sa_family)
    return false;
  return a->any.sa_family == AF_INET6 ? memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0
                                      : a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

/* Adds an id; the caller holds the lock. */
static bool take_up(struct listener *l, const union tagc_agree_address *host, struct tagc_agree_stamp *stamp,
                    const char **why) {
  *why = "this process listens on another interface already";
  errno = 0;
  if (l->running && !same_host(&l->address, host))
    return false;
  *why = "no socket on NCCL's interface";
  if (!l->running && !open_socket(l, host))
    return false;
  *why = "no thread";
  if (!l->running && !tagc_thread_start(work, l)) {
    close(l->fd);
    return false;
  }
  l->running = true; /* the thread ends again if the next step fails */
  stamp->address = l->address;
  *why = "no memory";
  return tagc_agree_decider_expect(l->decider, stamp->secret);
}

bool tagc_agree_listen(const union tagc_agree_address *host, struct tagc_agree_stamp *stamp, const char **why) {
  memset(stamp, 0, sizeof *stamp);
  *why = "no random numbers";
  if (getrandom(stamp->secret, sizeof stamp->secret, 0) != (ssize_t)sizeof stamp->secret)
    return false;
  struct listener *l = own_listener();
  *why = "no memory";
  errno = 0;
  if (!l)
    return false;
  pthread_mutex_lock(&l->lock);
  bool good = take_up(l, host, stamp, why);
  pthread_mutex_unlock(&l->lock);
  return good;
}
