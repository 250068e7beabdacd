/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/entry/beside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "env/thread.h"
#include "interpose/nccl/process.h"
#include "kernels/cuda/driver.h"

/* NCCL assigns a call to the thread's current device: it asks whether the call's stream is captured, and the default
 * stream depends on the device (taskAppend() in enqueue.cc). A thread that has chosen no device has device 0, on which
 * every process of a host would then get a context. NCCL launches its own work on the communicator's device
 * (cudaSetDevice() in group.cc), also on its own threads. Our own work makes its context current where it needs one. */
void *tagc_beside_context(const struct tagc_call *calls, size_t count) {
  const struct tagc_nccl *nccl = calls->nccl;
  const struct tagc_cuda_driver *driver = nccl->on_host || nccl->on_rocm ? NULL : tagc_cuda_driver(NULL);
  void *context = NULL, *primary = NULL, *green = NULL;
  if (!driver || driver->context_current(&context) != 0)
    return NULL;
  for (size_t i = 0; i < count; i++)
    if (tagc_beside_is_default(calls[i].stream))
      return context;
  /* A green context may be current on one thread at a time (cuGreenCtxCreate()). Its streams do not need it. */
  if (driver->stream_contexts && driver->stream_contexts(NULL, &primary, &green) == 0 && green && primary)
    context = primary;
  return context;
}

bool tagc_beside_is_default(cudaStream_t stream) {
  enum { PER_THREAD = 2 }; /* of cuda.h: 0 and 1 are the legacy one */
  return (uintptr_t)stream <= PER_THREAD;
}

void tagc_beside_enter(void *context) {
  if (context)
    tagc_cuda_good(tagc_cuda_driver(NULL)->context_set(context), "cuCtxSetCurrent");
}

struct crew;

struct member {
  struct crew *crew;
  struct tagc_strand strand;
};

/* The last member to leave frees it: a strand may outlive the call. */
struct crew {
  atomic_int references;
  pthread_mutex_t lock;
  pthread_cond_t news;
  size_t working;
  ncclResult_t failed; /* the first error */
  void *context;
  struct tagc_nccl_group real;
  tagc_strand_function *run;
  struct tagc_call *calls; /* each holds a reference to its communicator */
  size_t call_count;
  struct member members[];
};

static void leave_crew(struct crew *crew) {
  if (atomic_fetch_sub(&crew->references, 1) != 1)
    return;
  for (size_t i = 0; i < crew->call_count; i++)
    tagc_call_release(&crew->calls[i]);
  pthread_cond_destroy(&crew->news);
  pthread_mutex_destroy(&crew->lock);
  free(crew->calls);
  free(crew);
}

static void count_strand(const struct tagc_strand *strand, int more) {
  for (size_t i = 0; i < strand->count; i++)
    if (strand->calls[i].comm)
      atomic_fetch_add(&strand->calls[i].comm->strands, more);
}

static void end_work(struct member *member, ncclResult_t status) {
  struct crew *crew = member->crew;
  count_strand(&member->strand, -1);
  pthread_mutex_lock(&crew->lock);
  crew->working--;
  if (status != ncclSuccess && crew->failed == ncclSuccess)
    crew->failed = status;
  pthread_cond_signal(&crew->news);
  pthread_mutex_unlock(&crew->lock);
  leave_crew(crew);
}

static void *run_member(void *member_) {
  struct member *member = member_;
  const struct crew *crew = member->crew;
  tagc_beside_enter(crew->context);
  end_work(member, crew->run(&crew->real, member->strand.calls, member->strand.count));
  return NULL;
}

static struct crew *make_crew(const struct tagc_nccl_group *real, const struct tagc_strand *strands, size_t count,
                              tagc_strand_function *run) {
  const struct tagc_call *first = strands[0].calls;
  const size_t call_count = (size_t)(strands[count - 1].calls - first) + strands[count - 1].count;
  struct crew *crew = calloc(1, sizeof *crew + count * sizeof *crew->members);
  struct tagc_call *calls = malloc(call_count * sizeof *calls);
  if (!crew || !calls) {
    free(crew);
    free(calls);
    return NULL;
  }
  memcpy(calls, first, call_count * sizeof *calls);
  for (size_t i = 0; i < call_count; i++)
    (void)tagc_call_retain(&calls[i]); /* the group has kept its configuration, so this takes no memory */
  atomic_init(&crew->references, (int)count + 1);
  pthread_mutex_init(&crew->lock, NULL);
  pthread_cond_init(&crew->news, NULL);
  crew->working = count;
  crew->context = tagc_beside_context(first, call_count);
  crew->real = *real;
  crew->run = run;
  crew->calls = calls;
  crew->call_count = call_count;
  for (size_t i = 0; i < count; i++) {
    crew->members[i] = (struct member){crew, {calls + (strands[i].calls - first), strands[i].count}};
    count_strand(&crew->members[i].strand, 1);
  }
  return crew;
}

ncclResult_t tagc_beside_run(const struct tagc_nccl_group *real, const struct tagc_strand *strands, size_t count,
                             tagc_strand_function *run) {
  struct crew *crew = make_crew(real, strands, count, run);
  if (!crew)
    return tagc_no_memory("the calls of a group");
  for (size_t i = 0; i < count; i++)
    if (!tagc_thread_start(run_member, &crew->members[i]))
      end_work(&crew->members[i], tagc_no_memory("a thread for a communicator of a group"));
  pthread_mutex_lock(&crew->lock);
  while (crew->working && crew->failed == ncclSuccess)
    pthread_cond_wait(&crew->news, &crew->lock);
  const ncclResult_t status = crew->failed;
  if (!crew->working)
    memcpy(strands[0].calls, crew->calls, crew->call_count * sizeof *crew->calls);
  pthread_mutex_unlock(&crew->lock);
  leave_crew(crew);
  return status;
}
