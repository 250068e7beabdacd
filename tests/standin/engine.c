/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the jobs of a group: every job does what it can without blocking, and when none can, the thread sleeps in poll
 * until a socket is ready, the rate limit allows more, or another thread aborts. Because no job ever waits for another
 * one, several ranks of one communicator may live in one thread, and large messages may cross.
 *
 * A job belongs to the thread that runs it. A job that fails breaks its own communicator only; the others go on.
 */
#include "standin.h"

#include <poll.h>
#include <stdlib.h>

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
    bool wants_input = peer->wants_read || (peer->wants_write && peer->channel); /* a channel's bell is input */
    short events = (short)((wants_input ? POLLIN : 0) | (peer->wants_write && !peer->channel ? POLLOUT : 0));
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
