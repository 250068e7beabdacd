/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/beside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "env/thread.h"
#include "interpose/comm.h"
#include "kernels/cuda_driver.h"

/* NCCL takes a call as one of the thread's current device: it asks whether the call's stream is captured, and what the default
 * stream is depends on the device (taskAppend() in enqueue.cc). On a thread that has chosen none that is device 0, on which every
 * process of a host would get a context then. What NCCL launches itself it launches on the communicator's device (cudaSetDevice() in
 * group.cc), also on threads of its own. Our own work makes its context current where it needs one. */
void *tagc_beside_context(const struct tagc_nccl *nccl)
{
  const struct tagc_cuda_driver *driver = nccl->on_host || nccl->on_rocm ? NULL : tagc_cuda_driver(NULL);
  void *context = NULL;
  return driver && driver->context_current(&context) == 0 ? context : NULL;
}

void tagc_beside_enter(void *context)
{
  if (context)
    tagc_cuda_good(tagc_cuda_driver(NULL)->context_set(context), "cuCtxSetCurrent");
}

struct crew;

struct member {
  struct crew *crew;
  struct tagc_beside_task task;
  ncclResult_t status;
  bool started;
};

/* The last one to leave frees it: a thread may still be inside its mutex when the caller has heard that all are over. */
struct crew {
  atomic_int references;
  pthread_mutex_t lock;
  pthread_cond_t over;
  size_t working;
  void *context;
  struct member members[];
};

static void leave(struct crew *crew)
{
  if (atomic_fetch_sub(&crew->references, 1) != 1)
    return;
  pthread_cond_destroy(&crew->over);
  pthread_mutex_destroy(&crew->lock);
  free(crew);
}

static void *work(void *member_)
{
  struct member *member = member_;
  struct crew *crew = member->crew;
  tagc_beside_enter(crew->context);
  member->status = member->task.run(member->task.argument);
  pthread_mutex_lock(&crew->lock);
  if (--crew->working == 0)
    pthread_cond_signal(&crew->over);
  pthread_mutex_unlock(&crew->lock);
  leave(crew);
  return NULL;
}

static struct crew *gather_crew(const struct tagc_nccl *nccl, const struct tagc_beside_task *tasks, size_t count)
{
  struct crew *crew = calloc(1, sizeof *crew + count * sizeof *crew->members);
  if (!crew)
    return NULL;
  atomic_init(&crew->references, 1);
  pthread_mutex_init(&crew->lock, NULL);
  pthread_cond_init(&crew->over, NULL);
  crew->context = tagc_beside_context(nccl);
  for (size_t i = 0; i < count; i++)
    crew->members[i] = (struct member){crew, tasks[i], ncclSuccess, false};
  return crew;
}

static void start(struct crew *crew, struct member *member)
{
  pthread_mutex_lock(&crew->lock);
  crew->working++;
  pthread_mutex_unlock(&crew->lock);
  atomic_fetch_add(&crew->references, 1);
  member->started = tagc_thread_start(work, member);
  if (member->started)
    return;
  pthread_mutex_lock(&crew->lock);
  crew->working--;
  pthread_mutex_unlock(&crew->lock);
  atomic_fetch_sub(&crew->references, 1);
}

static void await_all(struct crew *crew)
{
  pthread_mutex_lock(&crew->lock);
  while (crew->working)
    pthread_cond_wait(&crew->over, &crew->lock);
  pthread_mutex_unlock(&crew->lock);
}

ncclResult_t tagc_beside_run(const struct tagc_nccl *nccl, const struct tagc_beside_task *tasks, size_t count)
{
  struct crew *crew = gather_crew(nccl, tasks, count);
  ncclResult_t status = crew ? ncclSuccess : tagc_no_memory("the calls of a group");
  if (!crew)
    return status;
  for (size_t i = 0; i + 1 < count; i++)
    start(crew, &crew->members[i]);
  for (size_t i = count; i-- > 0;)                /* the last one is the caller's own */
    if (!crew->members[i].started)
      crew->members[i].status = tasks[i].run(tasks[i].argument);
  await_all(crew);
  for (size_t i = 0; i < count && status == ncclSuccess; i++)
    status = crew->members[i].status;
  leave(crew);
  return status;
}
