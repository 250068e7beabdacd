/* SPDX-License-Identifier: BSD-3-Clause
 * How ranks find each other: a root collects one hello from every rank and answers all with the table of addresses.
 * Then every rank connects to all ranks above it. ncclGetUniqueId starts a root on its own thread, which serves one
 * rendezvous. For children of a communicator the lowest rank among the members is the root.
 *
 * The id is laid out as NCCL's: a magic number, a socket address, and a number of ranks, 40 bytes in all. The other 88
 * are the callers' and part of the identity, as in NCCL: ranks whose ids differ anywhere do not meet. Byte order: the
 * machine's.
 *
 * Sockets here block, but a wake descriptor (-1: none) ends every wait. Connections of strangers are dropped.
 */
#include "tests/standin/standin.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROTOCOL UINT64_C(0x746167632d737432)
#define PATIENCE_MS 10000 /* for the first bytes of a connection */
#define MOST_RANKS 65536

/* The used part of ncclUniqueId. */
struct id_head {
  uint64_t magic;
  struct address address;
  int32_t nranks; /* since 2.29: of the communicator that grows */
};
_Static_assert(sizeof(struct id_head) == 40, "NCCL uses 40 bytes of its id");

struct hello {
  uint64_t protocol, identity;
  int32_t nranks, rank;
  struct member member;
};

struct answer {
  uint64_t protocol, secret;
  int32_t result, unused;
};

/* From the lower rank; the answer is one byte: true if the memory is now shared. */
struct greeting {
  uint64_t secret;
  int32_t rank;
  int32_t process, descriptor; /* of the memory; descriptor -1: none */
  int32_t unused;
};

/* -- blocking sockets -------------------------------------------------------------------------------------------- */
static bool wait_for(int fd, int wake, int timeout_ms) {
  struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = wake, .events = POLLIN}};
  int ready;
  do
    ready = standin_fault_interrupts() ? -1 : poll(fds, 2, timeout_ms);
  while (ready < 0 && errno == EINTR);
  return ready > 0 && !fds[1].revents;
}

static bool read_all(int fd, int wake, int timeout_ms, void *data, size_t size) {
  for (char *at = data; size;) {
    if (!wait_for(fd, wake, timeout_ms))
      return false;
    ssize_t got = standin_fault_interrupts() ? -1 : recv(fd, at, standin_fault_receive(size), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
      return false;
    at += got > 0 ? got : 0;
    size -= got > 0 ? (size_t)got : 0;
  }
  return true;
}

static bool write_all(int fd, const char *what, const void *data, size_t size) {
  standin_fault_begin(what, 0, size);
  for (const char *at = data; size;) {
    size_t wanted = standin_fault_send(fd, size);
    if (!wanted)
      return false;
    ssize_t sent = standin_fault_interrupts() ? -1 : send(fd, at, wanted, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR)
      return false;
    size_t passed = sent > 0 ? (size_t)sent : 0;
    standin_fault_sent(passed);
    at += passed;
    size -= passed;
  }
  return true;
}

static int accept_one(int listener, int wake) {
  while (wait_for(listener, wake, -1)) {
    int fd = standin_fault_interrupts() ? -1 : accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
      return fd;
    if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN)
      return -1;
  }
  return -1;
}

static uint64_t random_number(void) {
  uint64_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number)
    ;
  return number;
}

/* -- the root ---------------------------------------------------------------------------------------------------- */
struct rendezvous {
  int nranks; /* 0: nobody has come yet */
  int arrived;
  uint64_t identity;
  struct member *table;
  int *fds; /* -1: absent; the root's own entry holds its listener */
};

static bool open_rendezvous(struct rendezvous *meeting, const struct hello *first) {
  meeting->table = calloc((size_t)first->nranks, sizeof *meeting->table);
  meeting->fds = malloc((size_t)first->nranks * sizeof *meeting->fds);
  if (!meeting->table || !meeting->fds)
    return false;
  for (int i = 0; i < first->nranks; i++)
    meeting->fds[i] = -1;
  meeting->nranks = first->nranks;
  meeting->identity = first->identity;
  return true;
}

static ncclResult_t enter(struct rendezvous *meeting, const struct hello *hello, int fd) {
  if (hello->nranks < 1 || hello->nranks > MOST_RANKS || hello->rank < 0 || hello->rank >= hello->nranks)
    return standin_fail(ncclInvalidArgument, "rank %d of %d cannot be", hello->rank, hello->nranks);
  if (!meeting->nranks && !open_rendezvous(meeting, hello))
    return standin_fail(ncclSystemError, "no memory for %d ranks", hello->nranks);
  if (hello->identity != meeting->identity || hello->nranks != meeting->nranks)
    return standin_fail(ncclInvalidUsage, "rank %d came with another unique id or number of ranks", hello->rank);
  if (meeting->fds[hello->rank] != -1)
    return standin_fail(ncclInvalidUsage, "two ranks say that they are rank %d", hello->rank);
  meeting->fds[hello->rank] = fd;
  meeting->table[hello->rank] = hello->member;
  meeting->arrived++;
  return ncclSuccess;
}

static void answer_all(const struct rendezvous *meeting, int listener, const struct answer *answer) {
  for (int i = 0; i < meeting->nranks; i++) {
    if (meeting->fds[i] < 0 || meeting->fds[i] == listener)
      continue;
    if (write_all(meeting->fds[i], "answer", answer, sizeof *answer) && answer->result == ncclSuccess)
      write_all(meeting->fds[i], "table", meeting->table, (size_t)meeting->nranks * sizeof *meeting->table);
    close(meeting->fds[i]);
  }
}

/* The meeting place of ranks; for children, that of a parent's members. */
struct place {
  int listener, wake;
  const struct ncclComm *parent; /* NULL: none */
  const int *ranks;              /* of the members, in the parent */
};

/* True if nobody listens at a member's address any more. A closed link is not enough: a failure or ncclCommRevoke
 * closes it while the member lives on. */
static bool has_left(const struct ncclComm *parent, int rank) {
  struct pollfd link = {.fd = parent->peers[rank].fd, .events = POLLRDHUP};
  if (link.fd < 0 || poll(&link, 1, 0) <= 0)
    return false;
  int fd = standin_connect_to(&parent->members[rank].address);
  bool refused = fd < 0 && errno == ECONNREFUSED;
  if (fd >= 0)
    close(fd);
  return refused;
}

/* True if a member has left before it arrived. NCCL detects this too: there the ranks gather over the parent. */
static bool misses(const struct place *place, const struct rendezvous *meeting) {
  for (int i = 0; place->parent && i < meeting->nranks; i++)
    if (meeting->fds[i] == -1 && has_left(place->parent, place->ranks[i]))
      return true;
  return false;
}

/* Waits for the next rank. */
static ncclResult_t await(const struct place *place, const struct rendezvous *meeting) {
  struct pollfd fds[] = {{.fd = place->listener, .events = POLLIN}, {.fd = place->wake, .events = POLLIN}};
  for (;;) {
    int ready = poll(fds, 2, place->parent ? 100 : -1);
    if (ready > 0 && !fds[1].revents)
      return ncclSuccess;
    if (ready > 0 || (ready < 0 && errno != EINTR))
      return standin_fail(ncclInternalError, "the rendezvous was ended");
    if (misses(place, meeting))
      return standin_fail(ncclRemoteError, "a rank of the parent has gone");
  }
}

/* Serves one rendezvous. `own`: the root is a member and gets the secret and the table, which the caller frees. */
static ncclResult_t serve(const struct place *place, const struct hello *own, struct member **table, uint64_t *secret) {
  const int listener = place->listener, wake = place->wake;
  struct rendezvous meeting = {0};
  struct answer answer = {.protocol = PROTOCOL, .secret = random_number()};
  ncclResult_t result = own ? enter(&meeting, own, listener) : ncclSuccess;
  while (result == ncclSuccess && (!meeting.nranks || meeting.arrived < meeting.nranks)) {
    struct hello hello;
    result = await(place, &meeting);
    int fd = result == ncclSuccess ? accept_one(listener, wake) : -1;
    if (result == ncclSuccess && fd < 0)
      result = standin_fail(ncclInternalError, "the rendezvous was ended");
    if (result != ncclSuccess)
      break;
    if (!read_all(fd, wake, PATIENCE_MS, &hello, sizeof hello) || hello.protocol != PROTOCOL) {
      close(fd);
      continue;
    }
    result = enter(&meeting, &hello, fd);
    if (result != ncclSuccess) {
      answer.result = result;
      write_all(fd, "answer", &answer, sizeof answer);
      close(fd);
    }
  }
  /* If the root aborted, the others report a remote error. */
  answer.result = result == ncclInternalError ? ncclRemoteError : result;
  answer_all(&meeting, listener, &answer);
  free(meeting.fds);
  if (own && result == ncclSuccess) {
    *table = meeting.table;
    *secret = answer.secret;
  } else {
    free(meeting.table);
  }
  return result;
}

static void *root_main(void *argument) {
  int listener = (int)(intptr_t)argument;
  serve(&(struct place){.listener = listener, .wake = -1}, NULL, NULL, NULL);
  close(listener);
  return NULL;
}

ncclResult_t standin_unique_id(ncclUniqueId *id, int nranks) {
  struct address address;
  int listener = standin_listen(&address);
  pthread_t thread;
  if (listener < 0)
    return standin_fail(errno == EADDRNOTAVAIL ? ncclInvalidUsage : ncclSystemError, "GetUniqueId: cannot listen: %s",
                        strerror(errno));
  if (pthread_create(&thread, NULL, root_main, (void *)(intptr_t)listener) != 0) {
    close(listener);
    return standin_fail(ncclSystemError, "GetUniqueId: no thread");
  }
  pthread_detach(thread);
  struct id_head head = {.magic = random_number(), .address = address, .nranks = nranks};
  if (standin_version >= 22304) /* earlier ones leave the rest as it was */
    memset(id, 0, sizeof *id);
  memcpy(id->internal, &head, sizeof head);
  return ncclSuccess;
}

/* -- members ----------------------------------------------------------------------------------------------------- */
/* Sends one hello to the root and takes its answer. `known`: the root is a rank of the parent, gone if not
 * listening. */
static ncclResult_t ask(const struct address *root, bool known, int wake, const struct hello *hello,
                        struct member *table, uint64_t *secret) {
  int fd = standin_connect_to(root);
  if (fd < 0)
    return standin_fail(known && errno == ECONNREFUSED ? ncclRemoteError : ncclSystemError,
                        "cannot reach the root of the unique id: %s", strerror(errno));
  struct answer answer;
  ncclResult_t result = ncclSuccess;
  if (!write_all(fd, "hello", hello, sizeof *hello) || !read_all(fd, wake, -1, &answer, sizeof answer) ||
      answer.protocol != PROTOCOL)
    result = standin_fail(ncclRemoteError, "the root of the unique id has gone");
  else if (answer.result != ncclSuccess)
    result = standin_fail((ncclResult_t)answer.result, "the root refused: the ranks disagree on id, size or ranks");
  else if (!read_all(fd, wake, -1, table, (size_t)hello->nranks * sizeof *table))
    result = standin_fail(ncclRemoteError, "the root of the unique id has gone");
  else
    *secret = answer.secret;
  close(fd);
  return result;
}

ncclResult_t standin_meet(struct ncclComm *parent, int wake, const int *ranks, int nranks, uint64_t tag,
                          struct member *mine, struct member *table, uint64_t *secret) {
  struct hello hello = {.protocol = PROTOCOL,
                        .identity = standin_hash(parent->secret, &tag, sizeof tag),
                        .nranks = nranks,
                        .member = *mine};
  while (ranks[hello.rank] != parent->rank)
    hello.rank++;
  if (hello.rank)
    return ask(&parent->members[ranks[0]].address, true, wake, &hello, table, secret);
  struct member *served = NULL;
  ncclResult_t result = serve(&(struct place){parent->listener, wake, parent, ranks}, &hello, &served, secret);
  if (result == ncclSuccess)
    memcpy(table, served, (size_t)nranks * sizeof *table);
  free(served);
  return result;
}

static void keep_connection(struct ncclComm *comm, int rank, int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  comm->peers[rank].fd = fd;
}

/* With more ranks than this, only neighbours in the ring share memory. Sharing by all pairs takes longer to set up than
 * it saves, and costs a descriptor per pair. */
#define SHARING_RANKS 32

/* Ranks of different hosts use the network, even an emulated one (launch's hosts, network namespaces). So do ranks of
 * one host if that link has a rate. The variable is NCCL's. */
static bool may_share_memory(const struct ncclComm *comm, int rank) {
  const char *disabled = getenv("NCCL_SHM_DISABLE");
  int apart = abs(comm->place[rank] - comm->place[comm->rank]);
  if (comm->nranks > SHARING_RANKS && apart > 1 && apart < comm->nranks - 1)
    return false;
  return !(disabled && atoi(disabled)) && !standin_rate_is_limited(WAY_INSIDE) && comm->peers[rank].way == WAY_INSIDE;
}

/* Says hello to a higher rank. *offer: the descriptor to close after the answer, -1: none. */
static ncclResult_t greet(struct ncclComm *comm, int rank, int *offer) {
  struct greeting greeting = {.secret = comm->secret, .rank = comm->rank, .process = getpid(), .descriptor = -1};
  int fd = standin_connect_to(&comm->members[rank].address);
  if (fd < 0)
    return standin_fail(ncclRemoteError, "cannot connect to rank %d: %s", rank, strerror(errno));
  keep_connection(comm, rank, fd);
  if (may_share_memory(comm, rank))
    comm->peers[rank].channel = standin_channel_create(comm->secret, fd, offer);
  if (comm->peers[rank].channel)
    greeting.descriptor = *offer;
  return write_all(fd, "greeting", &greeting, sizeof greeting)
           ? ncclSuccess
           : standin_fail(ncclRemoteError, "rank %d has gone while it connected", rank);
}

/* Waits for the answer of a greeted rank. */
static ncclResult_t hear(struct ncclComm *comm, int rank, int wake) {
  struct peer *peer = &comm->peers[rank];
  bool shared = false;
  if (!read_all(peer->fd, wake, -1, &shared, sizeof shared))
    return standin_fail(ncclRemoteError, "rank %d has gone while it connected", rank);
  if (!shared) {
    standin_channel_close(peer->channel);
    peer->channel = NULL;
  }
  return ncclSuccess;
}

/* Takes one connection. A stranger's is dropped, and *taken is then false. */
static ncclResult_t be_greeted(struct ncclComm *comm, int wake, bool *taken) {
  struct greeting greeting;
  int fd = accept_one(comm->listener, wake);
  if (fd < 0)
    return standin_fail(ncclInternalError, "the communicator was aborted while it connected");
  *taken = read_all(fd, wake, PATIENCE_MS, &greeting, sizeof greeting) && greeting.secret == comm->secret &&
           greeting.rank >= 0 && greeting.rank < comm->rank && comm->peers[greeting.rank].fd < 0;
  if (!*taken) {
    close(fd);
    return ncclSuccess;
  }
  keep_connection(comm, greeting.rank, fd);
  if (greeting.descriptor >= 0)
    comm->peers[greeting.rank].channel = standin_channel_open(comm->secret, fd, greeting.process, greeting.descriptor);
  bool shared = comm->peers[greeting.rank].channel != NULL;
  return write_all(fd, "greeting-back", &shared, sizeof shared)
           ? ncclSuccess
           : standin_fail(ncclRemoteError, "rank %d has gone while it connected", greeting.rank);
}

/* Every rank greets the ranks above it, answers those below, then hears the answers. So no rank waits for a waiting
 * rank, and all pairs meet at once. */
ncclResult_t standin_connect(struct ncclComm *comm, int wake) {
  comm->peers = calloc((size_t)comm->nranks, sizeof *comm->peers);
  int *offers = malloc((size_t)comm->nranks * sizeof *offers);
  if (!comm->peers || !offers || !standin_order_ring(comm)) {
    free(offers);
    return standin_fail(ncclSystemError, "no memory for %d ranks", comm->nranks);
  }
  for (int i = 0; i < comm->nranks; i++) {
    bool together = comm->members[i].host == comm->members[comm->rank].host;
    comm->peers[i] = (struct peer){.fd = -1, .way = together ? WAY_INSIDE : WAY_BETWEEN, .met = ncclStandinHostMemory};
    offers[i] = -1;
  }
  ncclResult_t result = ncclSuccess;
  for (int i = comm->rank + 1; i < comm->nranks && result == ncclSuccess; i++)
    result = greet(comm, i, &offers[i]);
  for (int missing = comm->rank; missing && result == ncclSuccess;) {
    bool taken = false;
    result = be_greeted(comm, wake, &taken);
    missing -= taken;
  }
  for (int i = comm->rank + 1; i < comm->nranks && result == ncclSuccess; i++)
    result = hear(comm, i, wake);
  for (int i = comm->rank + 1; i < comm->nranks; i++)
    if (offers[i] >= 0)
      close(offers[i]);
  free(offers);
  return result;
}

ncclResult_t standin_join(struct ncclComm *comm, const ncclUniqueId *ids, int nids) {
  struct id_head head;
  memcpy(&head, ids[0].internal, sizeof head);
  if (!standin_is_address(&head.address))
    return standin_fail(ncclInvalidArgument, "this is no unique id");
  struct hello hello = {.protocol = PROTOCOL,
                        .identity = standin_hash(PROTOCOL, ids, (size_t)nids * sizeof *ids),
                        .nranks = comm->nranks,
                        .rank = comm->rank};
  comm->listener = standin_listen(&hello.member.address);
  hello.member.host = standin_host(&hello.member.address);
  comm->members = calloc((size_t)comm->nranks, sizeof *comm->members);
  ncclResult_t result = ncclSuccess;
  if (comm->listener < 0 || !comm->members)
    result = standin_fail(ncclSystemError, "no memory or no socket for %d ranks", comm->nranks);
  if (result == ncclSuccess)
    result = ask(&head.address, false, comm->wake, &hello, comm->members, &comm->secret);
  return result == ncclSuccess ? standin_connect(comm, comm->wake) : result;
}
