/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/entry/background.h"

#include <stdlib.h>
#include <string.h>

#include "env/thread.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/table.h"
#include "interpose/entry/beside.h"

struct destroyed {
  ncclRedOp_t op;
  struct tagc_comm *comm; /* one of the launch's communicators */
};

struct tagc_background {
  atomic_int references; /* held by the thread and by the communicators that it works on */
  atomic_int status;     /* ncclInProgress until the end */
  struct tagc_nccl_group real;
  tagc_launch_function *run;
  void *context;           /* current when the calls were made; NULL: none */
  struct tagc_call *calls; /* each holds a reference to its communicator until the thread ends */
  size_t count;

  pthread_mutex_t lock; /* guards what follows */
  bool over;            /* no op is in use any more */
  struct destroyed *destroyed;
  size_t destroyed_count;
};

/* Launches that some communicator still refers to. Usually none, and then the check costs one load. */
static atomic_int alive;

void tagc_background_release(struct tagc_background *launch) {
  if (!launch || atomic_fetch_sub(&launch->references, 1) != 1)
    return;
  pthread_mutex_destroy(&launch->lock);
  free(launch->calls);
  free(launch->destroyed);
  free(launch);
  atomic_fetch_sub(&alive, 1);
}

/* Makes a launch the last one of a communicator (NULL: none). */
static void attach_launch(struct tagc_comm *comm, struct tagc_background *launch) {
  if (launch)
    atomic_fetch_add(&launch->references, 1);
  pthread_mutex_lock(&comm->lock);
  struct tagc_background *before = comm->background;
  comm->background = launch;
  pthread_mutex_unlock(&comm->lock);
  tagc_background_release(before);
}

/* Destroys the ops that the program destroyed meanwhile. After a failure, a part may still run (beside.h). */
static void destroy_ops(struct tagc_background *launch, ncclResult_t status) {
  pthread_mutex_lock(&launch->lock);
  launch->over = true;
  pthread_mutex_unlock(&launch->lock);
  for (size_t i = 0; i < launch->destroyed_count && status == ncclSuccess; i++)
    tagc_nccl_group_destroy_op(launch->destroyed[i].comm, launch->destroyed[i].op);
}

/* A per-thread default stream is another one on this thread, and on NCCL's thread. The legacy stream is the same on all
 * threads; it waits for their default streams, and they wait for it. */
static cudaStream_t shared_stream(cudaStream_t stream) {
  enum { LEGACY = 1, PER_THREAD = 2 }; /* of cuda.h */
  return (uintptr_t)stream == PER_THREAD ? (cudaStream_t)(uintptr_t)LEGACY : stream;
}

static void *run_launch(void *argument) {
  struct tagc_background *launch = argument;
  tagc_beside_enter(launch->context);
  ncclResult_t status = launch->run(&launch->real, launch->calls, launch->count);
  destroy_ops(launch, status);
  for (size_t i = 0; i < launch->count; i++)
    tagc_trace_call(&launch->calls[i], status); /* before the program learns of the end: it may end then */
  atomic_store(&launch->status, (int)status);
  for (size_t i = 0; i < launch->count; i++)
    tagc_call_release(&launch->calls[i]);
  tagc_background_release(launch);
  return NULL;
}

/* NULL without memory. */
static struct tagc_call *copy_calls(const struct tagc_call *calls, size_t count) {
  struct tagc_call *copies = malloc(count * sizeof *copies);
  if (!copies)
    return NULL;
  memcpy(copies, calls, count * sizeof *copies);
  for (size_t i = 0; i < count; i++)
    if (!tagc_call_retain(&copies[i])) {
      while (i-- > 0)
        tagc_call_release(&copies[i]);
      free(copies);
      return NULL;
    }
  return copies;
}

bool tagc_background_start(const struct tagc_nccl_group *real, tagc_launch_function *run, struct tagc_call *calls,
                           size_t count) {
  struct tagc_background *launch = calloc(1, sizeof *launch);
  struct tagc_call *copies = launch ? copy_calls(calls, count) : NULL;
  if (!copies) {
    free(launch);
    return false;
  }
  atomic_fetch_add(&alive, 1);
  *launch = (struct tagc_background){
    .real = *real, .run = run, .calls = copies, .count = count, .context = tagc_beside_context(calls, count)};
  atomic_init(&launch->references, 2); /* this function's too, until the communicators are attached */
  atomic_init(&launch->status, ncclInProgress);
  pthread_mutex_init(&launch->lock, NULL);
  for (size_t i = 0; i < count; i++) {
    copies[i].stream = shared_stream(copies[i].stream);
    tagc_trace_return(&copies[i]);
    attach_launch(calls[i].comm, launch);
  }
  bool started = tagc_thread_start(run_launch, launch);
  for (size_t i = 0; i < count && started; i++)
    calls[i].trace.number = 0;
  if (!started) {
    for (size_t i = 0; i < count; i++) {
      attach_launch(calls[i].comm, NULL);
      tagc_call_release(&copies[i]);
    }
    tagc_background_release(launch);
  }
  tagc_background_release(launch);
  return started;
}

/* The state of the last launch. Forgets a launch that has succeeded or, with `forget_errors`, any that is over. */
static ncclResult_t check_launch(struct tagc_comm *comm, bool forget_errors) {
  struct tagc_background *over = NULL;
  pthread_mutex_lock(&comm->lock);
  ncclResult_t state = comm->background ? (ncclResult_t)atomic_load(&comm->background->status) : ncclSuccess;
  if (state == ncclSuccess || (forget_errors && state != ncclInProgress)) {
    over = comm->background;
    comm->background = NULL;
  }
  pthread_mutex_unlock(&comm->lock);
  tagc_background_release(over);
  return state;
}

bool tagc_background_clear(struct tagc_comm *comm) {
  return atomic_load_explicit(&alive, memory_order_relaxed) == 0 || check_launch(comm, true) != ncclInProgress;
}

ncclResult_t tagc_background_ask(ncclComm_t handle) {
  if (atomic_load_explicit(&alive, memory_order_relaxed) == 0)
    return ncclSuccess;
  struct tagc_comm *comm = tagc_comm_find(handle);
  ncclResult_t state = comm ? check_launch(comm, false) : ncclSuccess;
  tagc_comm_release(comm);
  return state;
}

static bool defer_op(struct tagc_background *launch, ncclRedOp_t op, struct tagc_comm *comm) {
  pthread_mutex_lock(&launch->lock);
  struct destroyed *more =
    launch->over ? NULL : realloc(launch->destroyed, (launch->destroyed_count + 1) * sizeof *more);
  if (more) {
    more[launch->destroyed_count++] = (struct destroyed){op, comm};
    launch->destroyed = more;
  }
  pthread_mutex_unlock(&launch->lock);
  return more != NULL;
}

bool tagc_background_defer_destroy(ncclRedOp_t op, ncclComm_t handle) {
  if (atomic_load_explicit(&alive, memory_order_relaxed) == 0)
    return false;
  struct tagc_comm *comm = tagc_comm_find(handle);
  if (!comm)
    return false;
  pthread_mutex_lock(&comm->lock);
  bool deferred = comm->background && defer_op(comm->background, op, comm);
  pthread_mutex_unlock(&comm->lock);
  tagc_comm_release(comm);
  return deferred;
}
