/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/agree, agree_listener: processes report to each other over IPv4 and IPv6, with every kind of failure. The
 * ranks are light processes without NCCL: they report, meet in place of NCCL's init, and ask for the decision.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "env/descriptors.h"
#include "env/log.h"
#include "interpose/agree/agree.h"
#include "interpose/entry/start.h"
#include "interpose/nccl/process.h"
#include "tests/unit/self.h"
#include "tests/unit/tap.h"

/* An id as NCCL makes it, with an arbitrary port. */
static ncclUniqueId new_id(const char *address) {
  ncclUniqueId id;
  union tagc_agree_address at = {.v4 = {.sin_family = AF_INET, .sin_port = htons(9)}};
  memset(&id, 0, sizeof id);
  id.internal[0] = 1;
  if (inet_pton(AF_INET, address, &at.v4.sin_addr) != 1) {
    memset(&at, 0, sizeof at);
    at.v6.sin6_family = AF_INET6;
    inet_pton(AF_INET6, address, &at.v6.sin6_addr);
  }
  memcpy(id.internal + 8, &at, sizeof at);
  return id;
}

static bool is_stamped(const ncclUniqueId *id) {
  struct tagc_agree_stamp stamp;
  return tagc_agree_stamp_read((const uint8_t *)id->internal, &stamp) == TAGC_AGREE_STAMPED;
}

static union tagc_agree_address address_of(const ncclUniqueId *id) {
  struct tagc_agree_stamp stamp;
  tagc_agree_stamp_read((const uint8_t *)id->internal, &stamp);
  return stamp.address;
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

enum { MOST = 256 };

struct shared {
  pthread_barrier_t barrier;
  int states[MOST]; /* the final state of each rank: enum tagc_agree_state, -1 before */
  int reported[MOST];
};

static struct shared *shared;

struct part {
  int nranks;
  int version_of_last; /* NCCL's version on the last rank; 22809 on the others */
  int silent;          /* this rank does not report (-1: all do) */
  int slow;            /* this rank reports late */
};

static void rank_main(const ncclUniqueId *id, int rank, const struct part *part) {
  struct tagc_agreement a = {.state = TAGC_AGREED_NO};
  tagc_log_set_level(-1);
  if (rank == part->slow)
    nanosleep(&(struct timespec){0, 50000000}, NULL);
  if (rank != part->silent)
    a = tagc_agree_report(id, 1, part->nranks, rank, rank == part->nranks - 1 ? part->version_of_last : 22809, "host");
  shared->reported[rank] = (int)a.state;
  pthread_barrier_wait(&shared->barrier); /* NCCL's init */
  tagc_agree_settle(&a);
  shared->states[rank] = (int)a.state;
}

/* Runs the ranks as processes; this process made the id. Returns how many ended in `state`. */
static int play(const ncclUniqueId *id, const struct part *part, enum tagc_agree_state state) {
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, (unsigned)part->nranks);
  for (int r = 0; r < part->nranks; r++) {
    shared->states[r] = -1;
    if (fork() == 0) {
      rank_main(id, r, part);
      _exit(0);
    }
  }
  int count = 0;
  while (wait(NULL) > 0)
    ;
  for (int r = 0; r < part->nranks; r++)
    count += shared->states[r] == (int)state;
  pthread_barrier_destroy(&shared->barrier);
  return count;
}

static void wait_for_threads(int wanted) {
  while (count_of_self("task") > wanted)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void agreements(const char *address) {
  static const int sizes[] = {2, 3, 16, MOST};
  int before = count_of_self("task");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct part part = {sizes[i], 22809, -1, sizes[i] / 2};
    ncclUniqueId id = new_id(address);
    tagc_agree_stamp_id(&id);
    ok(is_stamped(&id), "%s: an id gets a stamp", address);
    int yes = play(&id, &part, TAGC_AGREED_YES);
    ok(yes == sizes[i], "%s: %d ranks, one of them slow: %d agree", address, sizes[i], yes);
    wait_for_threads(before);
    ok(1, "%s: the listener is gone when all have their decision", address);

    id = new_id(address);
    tagc_agree_stamp_id(&id);
    part.version_of_last = 22703;
    int no = play(&id, &part, TAGC_AGREED_NO);
    ok(no == sizes[i], "%s: %d ranks, one of them different: %d pass through", address, sizes[i], no);

    id = new_id(address);
    tagc_agree_stamp_id(&id);
    part.version_of_last = 22809;
    part.silent = sizes[i] / 3;
    no = play(&id, &part, TAGC_AGREED_NO);
    ok(no == sizes[i], "%s: %d ranks, one of them without the library: %d pass through", address, sizes[i], no);
    wait_for_threads(before);
  }
}

static void several_at_once(void) {
  enum { IDS = 20 };
  ncclUniqueId ids[IDS];
  int before = count_of_self("task"), yes = 0;
  for (int i = 0; i < IDS; i++) {
    ids[i] = new_id("127.0.0.1");
    tagc_agree_stamp_id(&ids[i]);
  }
  ok(count_of_self("task") == before + 1, "twenty ids, one listener");
  for (int i = IDS - 1; i >= 0; i -= 2)
    yes += play(&ids[i], &(struct part){3, 22809, -1, -1}, TAGC_AGREED_YES);
  ok(yes == 3 * IDS / 2, "every second one is used, in another order: %d ranks agree", yes);
  errno = EDOM;
  ncclUniqueId other = new_id("127.0.0.2");
  tagc_agree_stamp_id(&other);
  ok(!is_stamped(&other) && errno == EDOM, "an id on another interface meanwhile is left alone, and errno, too");
  ncclUniqueId again = ids[0]; /* as in NCCL before 2.23: only the first 40 bytes are new */
  again.internal[1]++;
  ok(!is_stamped(&again), "the stamp of an earlier id is none");
  tagc_agree_clear_id(&again);
  tagc_agree_stamp_id(&again);
  ok(is_stamped(&again) && memcmp(again.internal + 64, ids[0].internal + 64, 64) != 0, "it gets one of its own");
}

static void ids_of_one_communicator(void) {
  ncclUniqueId ids[3];
  for (int i = 0; i < 3; i++) {
    ids[i] = new_id("127.0.0.1");
    tagc_agree_stamp_id(&ids[i]);
  }
  struct tagc_agreement a[2];
  for (int r = 0; r < 2; r++)
    a[r] = tagc_agree_report(ids, 3, 2, r, 22809, "host");
  ok(tagc_agree_settle(&a[0]) && tagc_agree_settle(&a[1]) && a[0].state == TAGC_AGREED_YES &&
       a[1].state == TAGC_AGREED_YES,
     "three ids, all stamped: on");
  memset(ids[2].internal + 64, 0, 64);
  a[0] = tagc_agree_report(ids, 3, 2, 0, 22809, "host");
  ok(a[0].state == TAGC_AGREED_NO, "three ids, one of them not stamped: off");
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Starts a process that makes an id, and ends when `order` is closed. */
static pid_t maker(ncclUniqueId *id, int *order) {
  int to[2], from[2];
  if (pipe(to) || pipe(from))
    exit(1);
  pid_t child = fork();
  if (child == 0) {
    char byte;
    close(to[1]);
    *id = new_id("127.0.0.1");
    tagc_agree_stamp_id(id);
    if (write(from[1], id, sizeof *id) != sizeof *id)
      _exit(1);
    _exit(read(to[0], &byte, 1) != 0);
  }
  if (read(from[0], id, sizeof *id) != sizeof *id)
    exit(1);
  close(from[0]);
  close(from[1]);
  close(to[0]);
  *order = to[1];
  return child;
}

static struct tagc_options *options(void) { return (struct tagc_options *)(uintptr_t)tagc_library_options(); }

static void dead_and_deaf(void) {
  ncclUniqueId id;
  int order;
  pid_t child = maker(&id, &order);
  struct tagc_agreement a = tagc_agree_report(&id, 1, 2, 0, 22809, "host"), b;
  ok(a.state == TAGC_AGREED_UNKNOWN, "a child process is a decider, too");
  kill(child, SIGSTOP);
  const int usual = options()->agree_timeout;
  options()->agree_timeout = 1; /* a busy machine must not cut anything else short */
  b = tagc_agree_report(&id, 1, 2, 1, 22809, "host");
  options()->agree_timeout = usual;
  ok(b.state == TAGC_AGREED_UNKNOWN, "the decider does not answer: the report may have been heard or not");
  kill(child, SIGCONT);
  ok(tagc_agree_settle(&b) && b.state != TAGC_AGREED_LOST, "it answers again: the rank follows it");
  ok(tagc_agree_settle(&a) && a.state == b.state, "and so does the other, to the same decision");
  close(order);
  waitpid(child, NULL, 0);

  child = maker(&id, &order);
  a = tagc_agree_report(&id, 1, 2, 0, 22809, "host");
  close(order);
  waitpid(child, NULL, 0);
  b = tagc_agree_report(&id, 1, 2, 1, 22809, "host");
  ok(b.state == TAGC_AGREED_NO, "the decider is dead: a rank that never reached it passes through");
  ok(!tagc_agree_settle(&a) && a.state == TAGC_AGREED_LOST, "one that has reported is lost, and says so");

  child = maker(&id, &order);
  a = tagc_agree_report(&id, 1, 2, 0, 22809, "host");
  b = tagc_agree_report(&id, 1, 2, 1, 22809, "host");
  bool heard = tagc_agree_settle(&a);
  close(order);
  waitpid(child, NULL, 0);
  ok(heard && a.state == TAGC_AGREED_YES, "the decider ends when one rank has its decision: that one keeps it");
  ok(!tagc_agree_settle(&b) && b.state == TAGC_AGREED_LOST, "the other is lost: it does not guess");
}

/* One rank cannot connect; the others learn of it. */
static void unreachable(void) {
  ncclUniqueId id = new_id("127.0.0.1"), wrong;
  struct tagc_agree_stamp stamp;
  tagc_agree_stamp_id(&id);
  tagc_agree_stamp_read((const uint8_t *)id.internal, &stamp);
  stamp.address.v4.sin_port = htons(1); /* nobody listens there */
  wrong = id;
  tagc_agree_stamp_write((uint8_t *)wrong.internal, &stamp);
  struct tagc_agreement a = tagc_agree_report(&id, 1, 2, 0, 22809, "host");
  struct tagc_agreement b = tagc_agree_report(&wrong, 1, 2, 1, 22809, "host");
  ok(b.state == TAGC_AGREED_NO, "a rank that cannot connect passes through");
  ok(tagc_agree_settle(&a) && a.state == TAGC_AGREED_NO, "and so do those that can");
}

/* ---- strangers --------------------------------------------------------------------------------------------------- */

static int dial(const union tagc_agree_address *to) {
  int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, &to->any, tagc_agree_address_size(to)) != 0)
    exit(1);
  return fd;
}

/* Sends bytes. True if the connection was closed without an answer. */
static bool is_hung_up_on(const union tagc_agree_address *to, const void *bytes, size_t size) {
  char answer;
  int fd = dial(to);
  bool sent = send(fd, bytes, size, MSG_NOSIGNAL) >= 0;
  ssize_t n = recv(fd, &answer, 1, 0);
  close(fd);
  return sent && (n == 0 || (n < 0 && errno == ECONNRESET));
}

static void strangers(void) {
  enum { IDLE = 300 };
  ncclUniqueId id = new_id("127.0.0.1");
  tagc_agree_stamp_id(&id);
  union tagc_agree_address to = address_of(&id);
  struct tagc_agreement a = tagc_agree_report(&id, 1, 2, 0, 22809, "host"), b;
  char garbage[10000];
  for (size_t i = 0; i < sizeof garbage; i++)
    garbage[i] = (char)(i * i * 31 >> 3);
  ok(is_hung_up_on(&to, garbage, sizeof garbage), "garbage is hung up on");
  ok(is_hung_up_on(&to, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\nmore than forty bytes", 58), "a web browser, too");
  struct tagc_agree_request request = {.kind = TAGC_AGREE_ASK, .nranks = 2};
  uint8_t bytes[TAGC_AGREE_REQUEST_SIZE];
  tagc_agree_request_write(bytes, &request);
  ok(is_hung_up_on(&to, bytes, sizeof bytes), "a request with the wrong secret, too");
  int idle[IDLE];
  for (int i = 0; i < IDLE; i++) {
    idle[i] = dial(&to);
    if (i % 2)
      send(idle[i], bytes, 7, MSG_NOSIGNAL);
  }
  b = tagc_agree_report(&id, 1, 2, 1, 22809, "host");
  ok(b.state == TAGC_AGREED_UNKNOWN, "%d strangers who say nothing do not keep a rank out", IDLE);
  ok(tagc_agree_settle(&a) && tagc_agree_settle(&b) && a.state == TAGC_AGREED_YES && b.state == TAGC_AGREED_YES,
     "and the ranks agree in spite of all of them");
  for (int i = 0; i < IDLE; i++)
    close(idle[i]);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

/* A process with strangers: half of them send nothing, the others too little. It ends once the latter's connections
 * were closed. *there is readable after all have connected. */
static pid_t send_strangers(const union tagc_agree_address *to, int count, int *there) {
  int fds[2];
  if (pipe(fds))
    exit(1);
  pid_t child = fork();
  if (child) {
    close(fds[1]);
    *there = fds[0];
    return child;
  }
  for (int i = 0; i < count; i++)
    send(dial(to), "tagc..!", i % 2 ? 7 : 0, MSG_NOSIGNAL);
  bool said = write(fds[1], "", 1) == 1;
  for (int i = 1; i < count; i += 2) {
    char answer;
    said &= recv(fds[1] + 1 + i, &answer, 1, 0) <= 0;
  }
  _exit(!said);
}

static void use_up(int free) {
  while (tagc_descriptors_are_free(free + 1))
    if (dup(0) < 0)
      exit(1);
}

/* True if the library uses at most `most` of `limit` descriptors while strangers connect. Runs in its own process. */
static bool is_modest(int limit, int most) {
  ncclUniqueId id = new_id("127.0.0.1");
  struct tagc_agreement a[2];
  int there, status;
  char byte;
  if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)limit, (rlim_t)limit}) != 0)
    return false;
  for (int fd = 3; fd < limit; fd++)
    close(fd); /* the parent's */
  const int before = count_of_self("fd");
  tagc_agree_stamp_id(&id);
  const union tagc_agree_address to = address_of(&id);
  pid_t strangers = send_strangers(&to, 100, &there);
  bool good = read(there, &byte, 1) == 1;
  for (int r = 0; r < 2; r++)
    a[r] = tagc_agree_report(&id, 1, 2, r, 22809, "host");
  while (waitpid(strangers, &status, WNOHANG) == 0) {
    good &= count_of_self("fd") <= before + 2 + most; /* `there`, and the listener's own */
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  good &= status == 0;
  for (int r = 0; r < 2; r++)
    good &= tagc_agree_settle(&a[r]) && a[r].state == TAGC_AGREED_YES;
  return good;
}

/* The library needs 64 free descriptors. */
static bool is_cautious(void) {
  ncclUniqueId id = new_id("127.0.0.1"), other = id;
  use_up(65); /* a listener takes one */
  tagc_agree_stamp_id(&id);
  bool good = is_stamped(&id) && tagc_agree_report(&id, 1, 2, 0, 22809, "host").state == TAGC_AGREED_UNKNOWN;
  use_up(32);
  errno = EDOM;
  tagc_agree_stamp_id(&other);
  good &= !is_stamped(&other) && tagc_agree_report(&id, 1, 2, 1, 22809, "host").state == TAGC_AGREED_NO;
  return good && errno == EDOM;
}

/* Runs this program again, with "limited": this process has threads, and a fork of it must not allocate memory. */
static void limited(int limit, int most) {
  char limit_text[16], most_text[16];
  int status;
  snprintf(limit_text, sizeof limit_text, "%d", limit);
  snprintf(most_text, sizeof most_text, "%d", most);
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "test_agree", "limited", limit_text, most_text, (char *)NULL);
    _exit(127);
  }
  ok(waitpid(child, &status, 0) == child && status == 0,
     "ulimit -n %d: with 100 strangers no more than %d connections; where fewer than 64 are free, none", limit, most);
}

/* The program closes descriptors that it did not open; then it makes another id. */
static void closed(void) {
  int before = count_of_self("task");
  ncclUniqueId id = new_id("127.0.0.1");
  tagc_agree_stamp_id(&id);
  for (int fd = 3; fd < 400; fd++)
    close(fd);
  struct tagc_agreement a = tagc_agree_report(&id, 1, 2, 0, 22809, "host");
  wait_for_threads(before - 1); /* one thread served the earlier ids */
  tagc_agree_settle(&a);
  ok(a.state == TAGC_AGREED_NO || a.state == TAGC_AGREED_LOST, "a listener whose socket was closed under it ends");
  id = new_id("127.0.0.1");
  tagc_agree_stamp_id(&id);
  ok(is_stamped(&id) && play(&id, &(struct part){3, 22809, -1, -1}, TAGC_AGREED_YES) == 3,
     "the next id has one of its own");
}

int main(int argc, char **argv) {
  setenv("TAGC_LOG", "error", 1);
  /* So the ranks, which are forked beside a thread, read no file of NCCL: for that they would need memory, and the
   * sanitizer of addresses does not give its lock back in a child. */
  setenv("NCCL_HOSTID", "host", 1);
  tagc_library_start();
  tagc_log_set_level(-1);
  if (argc == 4 && strcmp(argv[1], "limited") == 0)
    return !is_modest(atoi(argv[2]), atoi(argv[3])) || !is_cautious();
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return 1;
  agreements("127.0.0.1");
  int six = socket(AF_INET6, SOCK_STREAM, 0);
  if (six >= 0 &&
      bind(six, &(union tagc_agree_address){.v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}}.any,
           sizeof(struct sockaddr_in6)) == 0)
    agreements("::1");
  else
    skip("ranks over IPv6", "this machine has no ::1");
  several_at_once();
  ids_of_one_communicator();
  dead_and_deaf();
  unreachable();
  strangers();
  limited(128, 4);
  limited(1024, 32);
  closed();
  setenv("NCCL_COMM_ID", "127.0.0.1:1234", 1);
  ncclUniqueId id = new_id("127.0.0.1");
  tagc_agree_stamp_id(&id);
  ok(!is_stamped(&id), "with NCCL_COMM_ID set, ids stay as they are");
  return tap_done();
}
