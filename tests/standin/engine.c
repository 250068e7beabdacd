/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the jobs of a group: every job does what it can without blocking, and when none can, the thread sleeps in poll
 * until a socket is ready, the rate limit allows more, or another thread aborts. Because no job ever waits for another
 * one, several ranks of one communicator may live in one thread, and large messages may cross.
 *
 * A job belongs to the thread that runs it. A job that fails breaks its own communicator only; the others go on.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* What one system call moves at most: large enough to be cheap, small enough that the payload is still in the cache
 * when it is reduced, and that one direction does not starve the other. */
#define PIECE ((size_t)512 << 10)

static ncclResult_t io_error(const char *what, int peer)
{
  return standin_fail(ncclRemoteError, "%s rank %d: %s", what, peer, errno ? strerror(errno) : "it has closed the connection");
}

ncclResult_t standin_wire_send(struct ncclComm *comm, int peer, struct envelope *envelope, const void *data, size_t size,
                               size_t *moved)
{
  *moved = 0;
  size_t head = sizeof envelope->header - envelope->done;
  size_t wanted = head + (size < PIECE ? size : PIECE);
  int64_t until = 0;
  size_t allowed = standin_rate_take(wanted, &until);
  if (!allowed) {
    if (!comm->paced_until || until < comm->paced_until)
      comm->paced_until = until;
    return ncclSuccess;
  }
  size_t head_now = head < allowed ? head : allowed;
  struct iovec parts[] = {
    {.iov_base = (char *)&envelope->header + envelope->done, .iov_len = head_now},
    {.iov_base = (void *)data, .iov_len = allowed - head_now},
  };
  struct msghdr message = {.msg_iov = parts + (head_now == 0), .msg_iovlen = 2 - (head_now == 0)};
  ssize_t sent = sendmsg(comm->peers[peer].fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  size_t passed = sent > 0 ? (size_t)sent : 0;
  standin_rate_return(allowed - passed);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EINTR) {
      comm->peers[peer].wants_write = true;
      return ncclSuccess;
    }
    return io_error("cannot send to", peer);
  }
  size_t head_passed = passed < head_now ? passed : head_now;
  envelope->done += head_passed;
  *moved = passed - head_passed;
  return ncclSuccess;
}

static ncclResult_t check_header(const struct header *expected, const struct header *arrived, int peer)
{
  if (memcmp(expected, arrived, sizeof *expected) == 0)
    return ncclSuccess;
  return standin_fail(ncclInvalidUsage,
                      "rank %d runs another call: function %d type %d operator %d root %d sequence %llu size %llu, here "
                      "function %d type %d operator %d root %d sequence %llu size %llu",
                      peer, arrived->function, arrived->type, arrived->kind, (int)arrived->root,
                      (unsigned long long)arrived->sequence, (unsigned long long)arrived->size, expected->function,
                      expected->type, expected->kind, (int)expected->root, (unsigned long long)expected->sequence,
                      (unsigned long long)expected->size);
}

ncclResult_t standin_wire_recv(struct ncclComm *comm, int peer, struct envelope *envelope, void *data, size_t size,
                               size_t *moved)
{
  *moved = 0;
  bool head_missing = envelope->done < sizeof envelope->arrived;
  size_t head = sizeof envelope->arrived - envelope->done;
  struct iovec parts[] = {
    {.iov_base = (char *)&envelope->arrived + envelope->done, .iov_len = head},
    {.iov_base = data, .iov_len = size < PIECE ? size : PIECE},
  };
  struct msghdr message = {.msg_iov = parts + !head_missing, .msg_iovlen = 2 - !head_missing};
  errno = 0;
  ssize_t got = recvmsg(comm->peers[peer].fd, &message, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    comm->peers[peer].wants_read = true;
    return ncclSuccess;
  }
  if (got <= 0)
    return io_error("cannot receive from", peer);
  size_t head_passed = (size_t)got < head ? (size_t)got : head;
  envelope->done += head_passed;
  *moved = (size_t)got - head_passed;
  if (head_missing && envelope->done == sizeof envelope->arrived)
    return check_header(&envelope->header, &envelope->arrived, peer);
  return ncclSuccess;
}

/* -- jobs ----------------------------------------------------------------------------------------------------------- */
static void finish_job(struct job *job, ncclResult_t result)
{
  standin_p2p_free(&job->p2p);
  if (result != ncclSuccess)
    standin_comm_break(job->comm, result);
  job->result = result;
  job->done = true;
  standin_comm_release(job->comm);
}

/* One collective: started, moved on, or closed. */
static ncclResult_t step_collective(struct job *job, bool *progress)
{
  struct call *call = job->calls[job->current];
  bool done = false;
  if (!job->started) {
    job->started = *progress = true;
    job->started_at = standin_now();
    ncclResult_t result = standin_ring_start(&job->ring, job->comm, call);
    if (result != ncclSuccess)
      return result;
  }
  ncclResult_t result = standin_ring_step(&job->ring, job->comm, progress, &done);
  if (result == ncclSuccess && done) {
    standin_stats_add(call->line, job->ring.payload_sent, standin_now() - job->started_at);
    job->current++;
    job->started = false;
  }
  return result;
}

static ncclResult_t step_p2p(struct job *job, bool *progress)
{
  bool done = false;
  size_t ncalls = job->ncalls - job->ncollectives;
  struct call **calls = job->calls + job->ncollectives;
  if (!job->started) {
    job->started = *progress = true;
    job->started_at = standin_now();
    ncclResult_t result = standin_p2p_start(&job->p2p, job->comm, calls, ncalls);
    if (result != ncclSuccess)
      return result;
  }
  ncclResult_t result = standin_p2p_step(&job->p2p, job->comm, progress, &done);
  if (result == ncclSuccess && done) {
    for (size_t i = 0; i < ncalls; i++)
      standin_stats_add(calls[i]->line, 0, standin_now() - job->started_at);
    job->current = job->ncalls;
  }
  return result;
}

static void step_job(struct job *job, bool *progress)
{
  struct ncclComm *comm = job->comm;
  ncclResult_t result = ncclSuccess;
  comm->paced_until = 0;
  for (int i = 0; i < comm->nranks; i++)
    comm->peers[i].wants_read = comm->peers[i].wants_write = false;
  if (comm->aborted || comm->revoked)
    result = standin_fail(ncclInternalError, "the communicator was aborted");
  else if (job->current < job->ncollectives)
    result = step_collective(job, progress);
  else if (job->current < job->ncalls)
    result = step_p2p(job, progress);
  if (result != ncclSuccess || job->current == job->ncalls) {
    finish_job(job, result);
    *progress = true;
  }
}

/* -- sleeping ------------------------------------------------------------------------------------------------------- */
struct watch {
  struct pollfd *fds;
  size_t count;
  int64_t until; /* 0: no time limit */
};

static void watch_job(struct watch *watch, const struct job *job)
{
  const struct ncclComm *comm = job->comm;
  watch->fds[watch->count++] = (struct pollfd){.fd = comm->wake, .events = POLLIN};
  for (int i = 0; i < comm->nranks; i++) {
    const struct peer *peer = &comm->peers[i];
    short events = (short)((peer->wants_read ? POLLIN : 0) | (peer->wants_write ? POLLOUT : 0));
    if (events)
      watch->fds[watch->count++] = (struct pollfd){.fd = peer->fd, .events = events};
  }
  if (comm->paced_until && (!watch->until || comm->paced_until < watch->until))
    watch->until = comm->paced_until;
}

static void sleep_until_ready(struct watch *watch, const struct job *jobs, size_t njobs)
{
  watch->count = 0;
  watch->until = 0;
  for (size_t i = 0; i < njobs; i++)
    if (!jobs[i].done)
      watch_job(watch, &jobs[i]);
  struct timespec timeout = {0};
  if (watch->until) {
    int64_t left = watch->until - standin_now();
    if (left > 0)
      timeout = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
  }
  ppoll(watch->fds, watch->count, watch->until ? &timeout : NULL, NULL);
}

void standin_run(struct job *jobs, size_t njobs)
{
  size_t room = 0;
  for (size_t i = 0; i < njobs; i++)
    room += 1 + (size_t)jobs[i].comm->nranks;
  struct watch watch = {.fds = malloc(room * sizeof *watch.fds)};
  for (size_t left = njobs; left;) {
    bool progress = false;
    left = 0;
    for (size_t i = 0; i < njobs; i++) {
      if (!jobs[i].done && !watch.fds)
        finish_job(&jobs[i], standin_fail(ncclSystemError, "no memory"));
      if (!jobs[i].done)
        step_job(&jobs[i], &progress);
      left += !jobs[i].done;
    }
    if (left && !progress)
      sleep_until_ready(&watch, jobs, njobs);
  }
  free(watch.fds);
}
