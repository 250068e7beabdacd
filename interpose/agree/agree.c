/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/agree/agree.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "env/clock.h"
#include "env/descriptors.h"
#include "env/host.h"
#include "env/log.h"
#include "interpose/agree/listener.h"
#include "interpose/nccl/process.h"

/* Once a process: a fault of one id is mostly a fault of all. */
#define COMPLAIN_ONCE(...) \
  do { \
    static atomic_flag complained = ATOMIC_FLAG_INIT; \
    if (!atomic_flag_test_and_set(&complained)) \
      tagc_log(TAGC_LOG_WARN, "agree", __VA_ARGS__); \
  } while (0)

/* NCCL's init may need many descriptors: if no more than these are free, it gets all of them. */
enum { DESCRIPTORS_FREE = 64 };

void tagc_agree_clear_id(ncclUniqueId *id) {
  memset(id->internal + TAGC_AGREE_USED, 0, TAGC_AGREE_ID - TAGC_AGREE_USED);
}

void tagc_agree_stamp_id(ncclUniqueId *id) {
  int saved = errno;
  uint8_t *bytes = (uint8_t *)id->internal;
  union tagc_agree_address host;
  struct tagc_agree_stamp stamp;
  const char *why;
  if (tagc_host_ids_are_fixed())
    COMPLAIN_ONCE(
      "NCCL_COMM_ID is set, so every rank makes its ids by itself and the ranks cannot agree: every call passes "
      "through");
  else if (!tagc_agree_id_address(bytes, &host))
    COMPLAIN_ONCE(
      "this NCCL's unique ids are not laid out as those of 2.18 to 2.32, so the ranks cannot agree: every call "
      "passes through");
  else if (!tagc_descriptors_are_free(DESCRIPTORS_FREE))
    COMPLAIN_ONCE(
      "fewer than %d file descriptors are free (ulimit -n %d), and NCCL may need them, so the ranks cannot agree: "
      "every call passes through",
      DESCRIPTORS_FREE, tagc_descriptors_limit());
  else if (!tagc_agree_listen(&host, &stamp, &why))
    COMPLAIN_ONCE("the ranks cannot agree (%s%s%s): every call passes through", why, errno ? ": " : "",
                  errno ? strerror(errno) : "");
  else
    tagc_agree_stamp_write(bytes, &stamp);
  errno = saved;
}

/* ---- one request, one reply -------------------------------------------------------------------------------------- */

struct talk {
  struct tagc_agree_request request;
  const char *text; /* request.text_size bytes */
  bool sent;        /* a part of it has left this process */
  struct tagc_agree_reply reply;
  char answer[TAGC_AGREE_TEXT + 1];
};

/* Waits until the socket is ready for `events`. False at the deadline. */
static bool ready(int fd, short events, double deadline) {
  for (;;) {
    double left = deadline - tagc_clock_ms();
    struct pollfd p = {.fd = fd, .events = events};
    int n = poll(&p, 1, left > 1000 ? 1000 : left > 0 ? (int)left + 1 : 0); /* polls once more after the deadline */
    if (n > 0)
      return true;
    if (n < 0 ? errno != EINTR : left <= 0) {
      errno = n < 0 ? errno : ETIMEDOUT;
      return false;
    }
  }
}

static int dial(const union tagc_agree_address *address, double deadline) {
  int fd = tagc_descriptor_of_ours(socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  socklen_t size = sizeof error;
  if (fd < 0)
    return -1;
  if (connect(fd, &address->any, tagc_agree_address_size(address)) != 0)
    error = errno == EINTR ? EINPROGRESS : errno;
  if (error == EINPROGRESS &&
      (!ready(fd, POLLOUT, deadline) || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0))
    error = errno;
  if (!error)
    return fd;
  close(fd);
  errno = error;
  return -1;
}

static bool send_all(int fd, const void *data, size_t size, double deadline, bool *sent) {
  for (const char *at = data; size;) {
    ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
      return false;
    if (n > 0) {
      *sent = true;
      at += n;
      size -= (size_t)n;
    } else if (!ready(fd, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

static bool receive_all(int fd, void *data, size_t size, double deadline) {
  for (char *at = data; size;) {
    ssize_t n = recv(fd, at, size, 0);
    if (n == 0)
      errno = ECONNRESET;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    if (n > 0) {
      at += n;
      size -= (size_t)n;
    } else if (!ready(fd, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

static bool exchange(int fd, struct talk *t, double deadline) {
  uint8_t head[TAGC_AGREE_REQUEST_SIZE], reply[TAGC_AGREE_REPLY_SIZE];
  tagc_agree_request_write(head, &t->request);
  if (!send_all(fd, head, sizeof head, deadline, &t->sent) ||
      !send_all(fd, t->text, t->request.text_size, deadline, &t->sent) ||
      !receive_all(fd, reply, sizeof reply, deadline))
    return false;
  errno = EPROTO;
  if (!tagc_agree_reply_read(reply, &t->reply))
    return false;
  t->answer[t->reply.text_size] = '\0';
  return receive_all(fd, t->answer, t->reply.text_size, deadline);
}

/* Talks to the decider until it has answered, the deadline has come, or nobody listens there any more (ECONNREFUSED).
 * Other errors may pass: no free descriptor, a network that is down, a decider with too many connections. */
static bool talk(const union tagc_agree_address *address, struct talk *t, double seconds) {
  double deadline = tagc_clock_ms() + 1e3 * seconds;
  for (;;) {
    int fd = dial(address, deadline);
    bool good = fd >= 0 && exchange(fd, t, deadline), confirmed;
    int saved = errno;
    if (good && t->request.kind == TAGC_AGREE_ASK)
      send_all(fd, "", 1, deadline, &confirmed);
    if (fd >= 0)
      close(fd);
    if (good)
      return true;
    if ((fd < 0 && saved == ECONNREFUSED) || tagc_clock_ms() > deadline) {
      errno = saved;
      return false;
    }
    poll(NULL, 0, 100);
  }
}

static const char *name_of(const union tagc_agree_address *address, char *text, size_t size) {
  char host[INET6_ADDRSTRLEN] = "?";
  bool six = address->any.sa_family == AF_INET6;
  inet_ntop(address->any.sa_family, six ? (const void *)&address->v6.sin6_addr : &address->v4.sin_addr, host,
            sizeof host);
  snprintf(text, size, six ? "[%s]:%u" : "%s:%u", host, ntohs(six ? address->v6.sin6_port : address->v4.sin_port));
  return text;
}

/* ---- reports and decisions --------------------------------------------------------------------------------------- */

/* Finds the stamp to report to: that of the first id. All of several ids must have one. */
static bool find_stamp(const ncclUniqueId *ids, int count, struct tagc_agree_stamp *stamp) {
  for (int i = count - 1; i >= 0; i--)
    switch (tagc_agree_stamp_read((const uint8_t *)ids[i].internal, stamp)) {
    case TAGC_AGREE_STAMPED: break;
    case TAGC_AGREE_UNSTAMPED:
      COMPLAIN_ONCE("a communicator's unique id comes from a process that has not this library in front of it, has "
                    "TAGC_MODE=off, or could not listen: its calls pass through");
      return false;
    case TAGC_AGREE_OTHER_PROTOCOL:
      COMPLAIN_ONCE("a communicator's unique id comes from another version of this library: its calls pass through");
      return false;
    }
  return true;
}

/* Describes the facts that must be equal on all ranks. */
static bool describe_rank(char *text, size_t size, int nccl_version, const char *memory) {
  const struct tagc_options *options = tagc_library_options();
  char map[20] = "none"; /* the file may lie elsewhere on other hosts: only its content counts */
  uint64_t digest;
  if (tagc_options_ask_torch(options))
    snprintf(map, sizeof map, "torch");
  else if (tagc_library_asks_torch())
    snprintf(map, sizeof map, "not set");
  else if (tagc_library_map(&digest))
    snprintf(map, sizeof map, "#%016" PRIx64, digest);
  int n = snprintf(text, size, "tagc version=%s\nNCCL version=%d\nmemory=%s\noptions=%s\nTAGC_LAYERMAP=%s\n",
                   PACKAGE_VERSION, nccl_version, memory, options->bad ? "refused" : "understood", map);
  return n > 0 && (size_t)n < size && tagc_options_describe(options, text + n, size - (size_t)n);
}

/* A rank that has reported must also be able to ask. */
static bool can_ask(void) {
  if (tagc_descriptors_are_free(DESCRIPTORS_FREE))
    return true;
  COMPLAIN_ONCE(
    "fewer than %d file descriptors are free (ulimit -n %d), and NCCL may need them, so this rank does not report: "
    "the calls of its communicators pass through",
    DESCRIPTORS_FREE, tagc_descriptors_limit());
  return false;
}

/* Reports this rank. After a report that did not get through within TAGC_AGREE_TIMEOUT, the next communicator's will
 * hardly do so: it waits for only a second. */
static struct tagc_agreement report(const ncclUniqueId *ids, int count, int nranks, int rank, int nccl_version,
                                    const char *memory) {
  static atomic_bool unreachable;
  struct tagc_agreement a = {.state = TAGC_AGREED_NO, .rank = (uint32_t)rank, .nranks = (uint32_t)nranks};
  char text[TAGC_AGREE_TEXT + 1], name[80];
  if (nranks > TAGC_AGREE_RANKS || !find_stamp(ids, count, &a.stamp) || !can_ask() ||
      !describe_rank(text, sizeof text, nccl_version, memory))
    return a;
  struct talk t = {.request = {.kind = TAGC_AGREE_REPORT,
                               .rank = a.rank,
                               .nranks = a.nranks,
                               .host = tagc_host_id(),
                               .text_size = (uint16_t)strlen(text)},
                   .text = text};
  memcpy(t.request.secret, a.stamp.secret, sizeof t.request.secret);
  bool heard =
    talk(&a.stamp.address, &t, atomic_load(&unreachable) ? 1 : (double)tagc_library_options()->agree_timeout);
  if (heard && t.reply.kind == TAGC_AGREE_REFUSED)
    tagc_log(TAGC_LOG_WARN, "agree", "rank %d of %d: %s refuses its report: %s", rank, nranks,
             name_of(&a.stamp.address, name, sizeof name), t.answer);
  else if (!heard)
    tagc_log(TAGC_LOG_WARN, "agree", "rank %d of %d cannot report to %s (%s)%s", rank, nranks,
             name_of(&a.stamp.address, name, sizeof name), strerror(errno),
             t.sent ? "" : ": the calls of this communicator pass through");
  atomic_store(&unreachable, !t.sent);
  if (t.sent)
    a.state = TAGC_AGREED_UNKNOWN;
  return a;
}

struct tagc_agreement tagc_agree_report(const ncclUniqueId *ids, int count, int nranks, int rank, int nccl_version,
                                        const char *memory) {
  int saved = errno;
  struct tagc_agreement agreement = report(ids, count, nranks, rank, nccl_version, memory);
  errno = saved;
  return agreement;
}

static void ask(struct tagc_agreement *a) {
  struct talk t = {.request = {.kind = TAGC_AGREE_ASK, .rank = a->rank, .nranks = a->nranks}, .text = ""};
  char name[80];
  memcpy(t.request.secret, a->stamp.secret, sizeof t.request.secret);
  bool heard = talk(&a->stamp.address, &t, (double)tagc_library_options()->agree_timeout);
  if (heard && t.reply.kind == TAGC_AGREE_ON) {
    a->state = TAGC_AGREED_YES;
    a->hosts = t.reply.hosts;
    a->host = t.reply.host;
    tagc_log(TAGC_LOG_INFO, "agree", "rank %u: %u ranks on %u %s agree", a->rank, a->nranks, a->hosts,
             a->hosts == 1 ? "host" : "hosts");
  } else if (heard && t.reply.kind == TAGC_AGREE_OFF) {
    a->state = TAGC_AGREED_NO;
    tagc_log(TAGC_LOG_INFO, "agree", "rank %u of %u passes every call through: %s", a->rank, a->nranks, t.answer);
  } else {
    a->state = TAGC_AGREED_LOST;
    tagc_log(TAGC_LOG_ERROR, "agree",
             "rank %u of %u has reported to %s, but gets no verdict (%s); its collectives fail with "
             "ncclRemoteError, because the other ranks may compress",
             a->rank, a->nranks, name_of(&a->stamp.address, name, sizeof name), heard ? t.answer : strerror(errno));
  }
}

bool tagc_agree_settle(struct tagc_agreement *a) {
  int saved = errno;
  if (a->state == TAGC_AGREED_UNKNOWN)
    ask(a);
  errno = saved;
  return a->state != TAGC_AGREED_LOST;
}
