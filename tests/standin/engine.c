/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the jobs of a group: every job does what it can without blocking. If none can go on, the thread sleeps in poll
 * until a socket is ready, the rate limit allows more, or another thread aborts. No job ever waits for another one. So
 * several ranks of one communicator may live in one thread, and large messages may cross.
 *
 * A job belongs to the thread that runs it. A job that fails breaks its own communicator only; the others go on.
 */
#include "tests/standin/standin.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>

/* -- jobs -------------------------------------------------------------------------------------------------------- */
static void finish_job(struct job *job, ncclResult_t result) {
  standin_p2p_free(&job->p2p);
  if (result != ncclSuccess)
    standin_comm_break(job->comm, result);
  job->result = result;
  job->done = true;
  atomic_fetch_sub(&job->comm->running, 1);
  standin_comm_release(job->comm);
}

/* A first contact with some peers runs beside work with the others. */
static bool concerns(const struct job *job, int peer) { return job->comm->peers[peer].met != job->contact; }

static bool leaves_host(const struct job *job) { return job->comm->peers[job->ring.next].way == WAY_BETWEEN; }

static void profile_p2p(struct job *job, bool ends) {
  for (size_t i = job->ncollectives; i < job->ncalls; i++) {
    const struct call *call = job->calls[i];
    const bool one = call->function == FN_SEND || call->function == FN_RECV;
    const bool network = one && call->root != job->comm->rank && job->comm->peers[call->root].way == WAY_BETWEEN;
    const size_t bytes = network ? call->count * standin_type_size(call->type) : 0;
    if (!ends)
      standin_profiler_begins(job->comm, call, network);
    else
      standin_profiler_ends(job->comm, call, call->function == FN_SEND ? bytes : 0,
                            call->function == FN_RECV ? bytes : 0);
  }
}

/* Starts, continues or ends one collective. */
static ncclResult_t step_collective(struct job *job, bool *progress) {
  struct call *call = job->calls[job->current];
  bool done = false;
  if (!job->started) {
    job->started = *progress = true;
    job->started_at = standin_now();
    ncclResult_t result = standin_ring_start(job);
    if (result != ncclSuccess)
      return result;
    standin_profiler_begins(job->comm, call, leaves_host(job));
  }
  ncclResult_t result = standin_ring_step(&job->ring, job->comm, progress, &done);
  if (result == ncclSuccess && done) {
    standin_stats_sent(call->line, job->comm->peers[job->ring.next].way, job->ring.payload_sent);
    standin_stats_took(call->line, standin_now() - job->started_at);
    const size_t bytes = leaves_host(job) ? job->ring.payload_sent : 0;
    standin_profiler_ends(job->comm, call, bytes, bytes);
    job->current++;
    job->started = false;
  }
  return result;
}

static ncclResult_t step_p2p(struct job *job, bool *progress) {
  bool done = false;
  size_t ncalls = job->ncalls - job->ncollectives;
  struct call **calls = job->calls + job->ncollectives;
  if (!job->started) {
    job->started = *progress = true;
    job->started_at = standin_now();
    ncclResult_t result = standin_p2p_start(&job->p2p, job->comm, calls, ncalls);
    if (result != ncclSuccess)
      return result;
    profile_p2p(job, false);
  }
  ncclResult_t result = standin_p2p_step(&job->p2p, job->comm, progress, &done);
  if (result == ncclSuccess && done) {
    for (size_t i = 0; i < ncalls; i++)
      standin_stats_took(calls[i]->line, standin_now() - job->started_at);
    profile_p2p(job, true);
    job->current = job->ncalls;
  }
  return result;
}

static void step_job(struct job *job, bool *progress) {
  struct ncclComm *comm = job->comm;
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < comm->nranks; i++)
    if (concerns(job, i)) {
      comm->peers[i].wants_read = comm->peers[i].wants_write = false;
      comm->peers[i].paced_until = 0;
    }
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

/* -- sleeping ---------------------------------------------------------------------------------------------------- */
/* A rank on this host answers within microseconds. A few sched_yield() are cheaper than a sleep, and ranks that wake
 * each other end up on one processor. But if another process has work, it keeps the processor for milliseconds at each
 * of them, while a sleep ends as soon as the rank answers: then the next waits of this thread sleep. */
#define PATIENCE 50
#define LONG_YIELD_NS 500000
#define SLEEPS_AFTER_LONG_YIELD 1000
static _Thread_local int must_sleep; /* waits left */

static void give_way(void) {
  const int64_t began = standin_now();
  sched_yield();
  if (standin_now() - began > LONG_YIELD_NS)
    must_sleep = SLEEPS_AFTER_LONG_YIELD;
}

struct watch {
  struct pollfd *fds;
  size_t count;
  int64_t until; /* 0: no time limit */
  bool ready;    /* no need to sleep */
};

static void watch_peer(struct watch *watch, const struct peer *peer) {
  if (peer->paced_until && (!watch->until || peer->paced_until < watch->until))
    watch->until = peer->paced_until;
  short events = (short)((peer->wants_read ? POLLIN : 0) | (peer->wants_write ? POLLOUT : 0));
  if (!events)
    return;
  if (peer->channel) {
    watch->ready |= !standin_channel_may_sleep(peer->channel, peer->wants_read, peer->wants_write);
    events = POLLIN;
  }
  watch->fds[watch->count++] = (struct pollfd){.fd = peer->fd, .events = events};
}

static void watch_job(struct watch *watch, const struct job *job) {
  const struct ncclComm *comm = job->comm;
  watch->fds[watch->count++] = (struct pollfd){.fd = comm->wake, .events = POLLIN};
  for (int i = 0; i < comm->nranks; i++)
    if (concerns(job, i))
      watch_peer(watch, &comm->peers[i]);
}

static void sleep_until_ready(struct watch *watch, const struct job *jobs, size_t njobs) {
  *watch = (struct watch){.fds = watch->fds};
  for (size_t i = 0; i < njobs; i++)
    if (!jobs[i].done)
      watch_job(watch, &jobs[i]);
  struct timespec timeout = {0};
  if (watch->until) {
    int64_t left = watch->until - standin_now();
    if (left > 0)
      timeout = (struct timespec){.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
  }
  if (!watch->ready)
    ppoll(watch->fds, watch->count, watch->until ? &timeout : NULL, NULL);
}

/* True if the jobs wait only for ranks on this host. */
static bool may_give_way(const struct job *jobs, size_t njobs) {
  for (size_t i = 0; i < njobs; i++) {
    const struct ncclComm *comm = jobs[i].comm;
    if (jobs[i].done)
      continue;
    for (int j = 0; j < comm->nranks; j++) {
      const struct peer *peer = &comm->peers[j];
      if (concerns(&jobs[i], j) && (peer->paced_until || ((peer->wants_read || peer->wants_write) && !peer->channel)))
        return false;
    }
  }
  return true;
}

void standin_run(struct job *jobs, size_t njobs) {
  size_t room = 0;
  for (size_t i = 0; i < njobs; i++) {
    atomic_fetch_add(&jobs[i].comm->running, 1);
    room += 1 + (size_t)jobs[i].comm->nranks;
  }
  struct watch watch = {.fds = malloc(room * sizeof *watch.fds)};
  int tries = 0;
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
    tries = progress ? 0 : tries + 1;
    if (!left || progress)
      continue;
    if (tries <= PATIENCE && !must_sleep && may_give_way(jobs, njobs)) {
      give_way();
    } else {
      must_sleep -= must_sleep > 0;
      sleep_until_ready(&watch, jobs, njobs);
    }
  }
  free(watch.fds);
}
