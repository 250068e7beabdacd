/* SPDX-License-Identifier: BSD-3-Clause
 * Sending and receiving without blocking: an envelope and its payload, within the rate limits. Ranks that share memory
 * use it (channel.c), others TCP. An operation that would block leaves a note in the peer for engine.c's poll. Belongs
 * to the thread that runs the communicator.
 */
#include "tests/standin/standin.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* The most that one call moves. It is large enough to be cheap, and small enough that the payload is still in the cache
 * when it is reduced. It also keeps one direction from starving the other. */
#define PIECE ((size_t)512 << 10)

static ncclResult_t lost(const char *what, int peer) {
  return standin_fail(ncclRemoteError, "%s rank %d: %s", what, peer,
                      errno ? strerror(errno) : "it has closed the connection");
}

/* Both return the bytes moved, 0 if it would block, -1 if the connection has ended (errno 0: by the peer). */
static ssize_t send_parts(struct peer *peer, const struct iovec *parts, int nparts) {
  errno = 0;
  if (peer->channel) {
    size_t passed = 0;
    for (int i = 0; i < nparts && passed == (i ? parts[0].iov_len : 0); i++)
      passed += standin_channel_write(peer->channel, parts[i].iov_base, parts[i].iov_len);
    return !passed && standin_channel_hung_up(peer->channel) ? -1 : (ssize_t)passed;
  }
  struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)nparts};
  ssize_t sent = standin_fault_interrupts() ? -1 : sendmsg(peer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent;
}

static ssize_t receive_parts(struct peer *peer, const struct iovec *parts, int nparts) {
  errno = 0;
  if (peer->channel) {
    size_t passed = 0;
    for (int i = 0; i < nparts && passed == (i ? parts[0].iov_len : 0); i++)
      passed += standin_channel_read(peer->channel, parts[i].iov_base, parts[i].iov_len);
    return !passed && standin_channel_hung_up(peer->channel) ? -1 : (ssize_t)passed;
  }
  struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)nparts};
  ssize_t got = standin_fault_interrupts() ? -1 : recvmsg(peer->fd, &message, MSG_DONTWAIT);
  if (got == 0)
    return -1;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : got;
}

static void trace(const struct header *header) {
  static const char *const names[] = {
    [FN_REDUCE_SCATTER] = "reduce-scatter", [FN_ALL_GATHER] = "all-gather", [FN_ALL_REDUCE] = "all-reduce",
    [FN_BROADCAST] = "broadcast",           [FN_REDUCE] = "reduce",         [FN_SEND] = "send"};
  standin_fault_begin(names[header->function], header->type, header->size);
}

ncclResult_t standin_wire_send(struct ncclComm *comm, int peer, struct envelope *envelope, const void *data,
                               size_t size, size_t *moved) {
  *moved = 0;
  size_t head = sizeof envelope->header - envelope->done;
  int64_t until = 0;
  if (!envelope->done)
    trace(&envelope->header);
  size_t wanted = standin_fault_send(comm->peers[peer].fd, head + (size < PIECE ? size : PIECE));
  if (!wanted)
    return lost("cannot send to", peer);
  enum way way = comm->peers[peer].way;
  size_t allowed = standin_rate_take(way, wanted, &until);
  if (!allowed) {
    comm->peers[peer].paced_until = until;
    return ncclSuccess;
  }
  size_t head_now = head < allowed ? head : allowed;
  const struct iovec parts[] = {
    {.iov_base = (char *)&envelope->header + envelope->done, .iov_len = head_now},
    {.iov_base = (void *)data, .iov_len = allowed - head_now},
  };
  ssize_t sent = send_parts(&comm->peers[peer], parts + !head_now, 2 - !head_now);
  size_t passed = sent > 0 ? (size_t)sent : 0;
  standin_rate_return(way, allowed - passed);
  standin_fault_sent(passed);
  if (sent < 0)
    return lost("cannot send to", peer);
  comm->peers[peer].wants_write |= !passed;
  size_t head_passed = passed < head_now ? passed : head_now;
  envelope->done += head_passed;
  *moved = passed - head_passed;
  return ncclSuccess;
}

static ncclResult_t check_header(const struct header *expected, const struct header *arrived, int peer) {
  if (memcmp(expected, arrived, sizeof *expected) == 0)
    return ncclSuccess;
  return standin_fail(ncclInvalidUsage,
                      "rank %d runs another call: function %d type %d operator %d root %d sequence %llu size %llu, "
                      "%d of %d in its group; "
                      "here function %d type %d operator %d root %d sequence %llu size %llu, %d of %d",
                      peer, arrived->function, arrived->type, arrived->kind, (int)arrived->root,
                      (unsigned long long)arrived->sequence, (unsigned long long)arrived->size, arrived->place,
                      arrived->grouped, expected->function, expected->type, expected->kind, (int)expected->root,
                      (unsigned long long)expected->sequence, (unsigned long long)expected->size, expected->place,
                      expected->grouped);
}

ncclResult_t standin_wire_recv(struct ncclComm *comm, int peer, struct envelope *envelope, void *data, size_t size,
                               size_t *moved) {
  *moved = 0;
  size_t head = sizeof envelope->arrived - envelope->done;
  size_t allowed = standin_fault_receive(head + (size < PIECE ? size : PIECE));
  size_t head_now = head < allowed ? head : allowed;
  const struct iovec parts[] = {
    {.iov_base = (char *)&envelope->arrived + envelope->done, .iov_len = head_now},
    {.iov_base = data, .iov_len = allowed - head_now},
  };
  ssize_t got = receive_parts(&comm->peers[peer], parts + !head_now, 2 - !head_now);
  if (got < 0)
    return lost("cannot receive from", peer);
  comm->peers[peer].wants_read |= !got;
  size_t head_passed = (size_t)got < head_now ? (size_t)got : head_now;
  envelope->done += head_passed;
  *moved = (size_t)got - head_passed;
  if (head_passed && envelope->done == sizeof envelope->arrived)
    return check_header(&envelope->header, &envelope->arrived, peer);
  return ncclSuccess;
}
