/* SPDX-License-Identifier: BSD-3-Clause
 * Groups: what was called since the outermost ncclGroupStart runs at its ncclGroupEnd.
 *
 * The state of a group belongs to its thread. Calls are kept as copies, with the communicator's handle and id. The end
 * refuses a communicator that was destroyed in the meantime. Work that makes or ends communicators runs first, each on
 * its own thread. Then the calls of all communicators run at once, each communicator's collectives in order and then
 * its point-to-point calls together, as in NCCL. On device memory they are launched then, and run on their streams.
 */
#include "tests/standin/standin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct task {
  struct ncclComm *comm;
  uint64_t comm_id;
  struct call call;
};

struct group {
  int depth;
  ncclResult_t error;
  struct task *tasks;
  size_t ntasks, task_room;
  struct async_work **works;
  size_t nworks, work_room;
};

static __thread struct group group;

/* Makes room for one more element of `size` bytes. */
static bool make_room(void **array, size_t used, size_t *room, size_t size) {
  if (used < *room)
    return true;
  size_t larger = *room ? 2 * *room : 8;
  void *moved = realloc(*array, larger * size);
  if (!moved)
    return false;
  *array = moved;
  *room = larger;
  return true;
}

void standin_group_start(void) { group.depth++; }

ncclResult_t standin_group_note(ncclResult_t result) {
  if (group.depth > 0 && result != ncclSuccess && group.error == ncclSuccess)
    group.error = result;
  return result;
}

ncclResult_t standin_group_add_call(struct ncclComm *comm, const struct call *call) {
  if (!make_room((void **)&group.tasks, group.ntasks, &group.task_room, sizeof *group.tasks))
    return standin_fail(ncclSystemError, "no memory for another call in the group");
  group.tasks[group.ntasks++] = (struct task){.comm = comm, .comm_id = comm->id, .call = *call};
  return ncclSuccess;
}

ncclResult_t standin_group_add_work(struct async_work *work) {
  if (!make_room((void **)&group.works, group.nworks, &group.work_room, sizeof *group.works)) {
    free(work);
    return standin_fail(ncclSystemError, "no memory for another call in the group");
  }
  group.works[group.nworks++] = work;
  return ncclSuccess;
}

/* -- the end of a group ------------------------------------------------------------------------------------------ */
static void *work_main(void *argument) {
  struct async_work *work = argument;
  work->result = work->run(work);
  return NULL;
}

/* Work items of a group may wait for each other (several ranks in this process), so each has its own thread. */
static ncclResult_t run_works(struct async_work **works, size_t nworks) {
  ncclResult_t result = ncclSuccess;
  pthread_t *threads = calloc(nworks + 1, sizeof *threads);
  bool *started = calloc(nworks + 1, sizeof *started);
  for (size_t i = 0; i < nworks; i++) {
    works[i]->result = ncclSystemError;
    if (nworks == 1)
      work_main(works[0]);
    else if (threads && started)
      started[i] = pthread_create(&threads[i], NULL, work_main, works[i]) == 0;
  }
  for (size_t i = 0; i < nworks; i++) {
    if (started && started[i])
      pthread_join(threads[i], NULL);
    if (result == ncclSuccess)
      result = works[i]->result;
    free(works[i]);
  }
  free(threads);
  free(started);
  return result;
}

/* The job of the task's communicator; a new job takes a use of it. NULL: the communicator is gone. */
static struct job *find_job(struct job *jobs, size_t *njobs, const struct task *task) {
  for (size_t i = 0; i < *njobs; i++)
    if (jobs[i].comm == task->comm && jobs[i].comm->id == task->comm_id)
      return &jobs[i];
  if (!standin_comm_acquire_id(task->comm, task->comm_id))
    return NULL;
  jobs[*njobs].comm = task->comm;
  return &jobs[(*njobs)++];
}

/* Appends the calls of one kind; the first pass over the tasks takes the collectives. */
static ncclResult_t fill_jobs(struct job *jobs, size_t *njobs, struct group *from, bool collectives) {
  for (size_t i = 0; i < from->ntasks; i++) {
    struct task *task = &from->tasks[i];
    if (standin_is_collective(task->call.function) != collectives)
      continue;
    struct job *job = find_job(jobs, njobs, task);
    if (!job)
      return standin_fail(ncclInvalidArgument, "a communicator of the group was destroyed before its end");
    if (!job->calls && !(job->calls = calloc(from->ntasks, sizeof *job->calls)))
      return standin_fail(ncclSystemError, "no memory for the group");
    job->calls[job->ncalls++] = &task->call;
    job->ncollectives += collectives;
  }
  return ncclSuccess;
}

static ncclResult_t run_tasks(struct group *from) {
  size_t njobs = 0;
  struct job *jobs = calloc(from->ntasks, sizeof *jobs);
  if (!jobs)
    return standin_fail(ncclSystemError, "no memory for the group");
  ncclResult_t result = fill_jobs(jobs, &njobs, from, true);
  if (result == ncclSuccess)
    result = fill_jobs(jobs, &njobs, from, false);
  for (size_t i = 0; result == ncclSuccess && i < njobs; i++)
    standin_profiler_launch(&jobs[i]);
  if (result == ncclSuccess && ncclStandinHostMemory) {
    standin_run(jobs, njobs);
  } else {
    if (result == ncclSuccess)
      result = standin_device_launch(jobs, njobs);
    for (size_t i = 0; i < njobs; i++)
      standin_comm_release(jobs[i].comm);
  }
  for (size_t i = 0; i < njobs; i++) {
    if (result == ncclSuccess)
      result = jobs[i].result;
    free(jobs[i].calls);
  }
  free(jobs);
  return result;
}

static ncclResult_t estimate(ncclSimInfo_t *info) {
  if (info->magic != 0x74685283)
    return standin_fail(ncclInvalidArgument, "GroupSimulateEnd: the info was not made with NCCL_SIM_INFO_INITIALIZER");
  info->estimatedTime = 0;
  return ncclSuccess;
}

/* The work is always done, because the program has its handles. */
static ncclResult_t run_group(struct group *ended, ncclResult_t result, bool tasks) {
  ncclResult_t work_result = run_works(ended->works, ended->nworks);
  if (result == ncclSuccess)
    result = work_result;
  if (result == ncclSuccess && ended->ntasks && tasks)
    result = run_tasks(ended);
  free(ended->works);
  free(ended->tasks);
  return result;
}

/* -- groups of non-blocking communicators ------------------------------------------------------------------------ */
struct launch {
  struct group group;
  struct ncclComm **comms; /* in use until it is over */
  size_t ncomms;
};

static void tell(struct launch *launch, ncclResult_t result) {
  for (size_t i = 0; i < launch->ncomms; i++) {
    int launching = ncclInProgress; /* or an error of its own */
    atomic_compare_exchange_strong(&launch->comms[i]->async_error, &launching, result);
    atomic_fetch_sub(&launch->comms[i]->launching, 1);
    standin_comm_release(launch->comms[i]);
  }
  free(launch->comms);
  free(launch);
}

/* Runs a little later than the call that began it, so that a caller that does not wait finds nothing done. */
static void *launch_main(void *argument) {
  struct launch *launch = argument;
  nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
  tell(launch, run_group(&launch->group, ncclSuccess, true));
  return NULL;
}

static void add_comm(struct launch *launch, struct ncclComm *comm, uint64_t id) {
  for (size_t i = 0; i < launch->ncomms; i++)
    if (launch->comms[i] == comm)
      return;
  if (!standin_comm_acquire_id(comm, id))
    return;
  if (!comm->nonblocking) {
    standin_comm_release(comm);
    return;
  }
  atomic_store(&comm->async_error, ncclInProgress);
  atomic_fetch_add(&comm->launching, 1);
  launch->comms[launch->ncomms++] = comm;
}

/* Hands a group with a non-blocking communicator to a thread. False: there is none. */
static bool launch_later(const struct group *ended) {
  pthread_t thread;
  struct launch *launch = calloc(1, sizeof *launch);
  struct ncclComm **comms = calloc(ended->ntasks + ended->nworks + 1, sizeof *comms);
  if (launch && comms) {
    *launch = (struct launch){.group = *ended, .comms = comms};
    for (size_t i = 0; i < ended->nworks; i++)
      if (ended->works[i]->told)
        add_comm(launch, ended->works[i]->told, ended->works[i]->told->id);
    for (size_t i = 0; i < ended->ntasks; i++)
      add_comm(launch, ended->tasks[i].comm, ended->tasks[i].comm_id);
    if (launch->ncomms && pthread_create(&thread, NULL, launch_main, launch) == 0) {
      pthread_detach(thread);
      return true;
    }
    tell(launch, ncclSuccess);
    return false;
  }
  free(launch);
  free(comms);
  return false;
}

/* -- captured groups --------------------------------------------------------------------------------------------- */
/* The stream on which the group is captured, or NULL. NCCL requires that all of a group is captured, or nothing. */
static cudaStream_t captured_on(const struct group *ended, ncclResult_t *result) {
  cudaStream_t stream = NULL;
  for (size_t i = 0; i < ended->ntasks; i++)
    if (standin_is_captured(ended->tasks[i].call.stream))
      stream = ended->tasks[i].call.stream;
  for (size_t i = 0; stream && i < ended->ntasks; i++)
    if (!standin_is_captured(ended->tasks[i].call.stream))
      *result = standin_fail(ncclInvalidUsage, "all communicators of a group can be captured, or none");
  return *result == ncclSuccess ? stream : NULL;
}

/* Runs the tasks at a launch of the graph, and keeps them for the next one. */
static void run_captured(void *kept) { run_tasks(kept); }

static ncclResult_t capture(const struct group *ended, cudaStream_t stream) {
  struct group *kept = malloc(sizeof *kept);
  ncclResult_t result = kept ? ncclSuccess : standin_fail(ncclSystemError, "no memory for a captured group");
  if (kept) {
    *kept = (struct group){.tasks = ended->tasks, .ntasks = ended->ntasks};
    result = standin_capture(stream, run_captured, kept);
  }
  if (result != ncclSuccess) {
    free(kept);
    free(ended->tasks);
  }
  free(ended->works);
  return result;
}

/* The outermost end runs everything, or with `info` only estimates it. */
static ncclResult_t end_group(ncclSimInfo_t *info) {
  if (group.depth == 0)
    return standin_fail(ncclInvalidUsage, "GroupEnd without GroupStart");
  if (group.depth > 1) {
    group.depth--;
    return ncclSuccess;
  }
  struct group ended = group;
  group = (struct group){0};
  ncclResult_t result = ended.error;
  if (result == ncclSuccess && info)
    result = estimate(info);
  cudaStream_t stream = result == ncclSuccess && !info && !ended.nworks ? captured_on(&ended, &result) : NULL;
  if (stream && ncclStandinHostMemory)
    return capture(&ended, stream);
  if (result == ncclSuccess && !info && !stream && launch_later(&ended))
    return ncclInProgress;
  return run_group(&ended, result, !info);
}

ncclResult_t standin_group_end(void) { return end_group(NULL); }

STANDIN_API ncclResult_t ncclGroupStart(void) {
  standin_stats_begin("ncclGroupStart", -1, 0, -1);
  standin_group_start();
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclGroupEnd(void) {
  standin_stats_begin("ncclGroupEnd", -1, 0, -1);
  return end_group(NULL);
}

/* Without an info this equals ncclGroupEnd, as in NCCL. */
STANDIN_API ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *simInfo) {
  standin_stats_begin("ncclGroupSimulateEnd", -1, 0, -1);
  return end_group(simInfo);
}
