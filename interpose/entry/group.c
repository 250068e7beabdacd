/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/entry/group.h"

#include <errno.h>
#include <stdlib.h>

#include "env/log.h"
#include "interpose/calls/calls.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/table.h"
#include "interpose/entry/background.h"
#include "interpose/entry/dispatch.h"
#include "interpose/entry/launch.h"
#include "interpose/entry/rounds.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/nccl_group.h"
#include "interpose/exec/order.h"
#include "interpose/nccl/process.h"

/* Work for the end of a group. */
struct deferred {
  enum {
    PASSED,    /* notes a plain call on the stream */
    DESTROYED, /* destroys op */
    ENDED,     /* waits for our work on the communicator */
  } what;
  struct tagc_comm *comm; /* holds a reference; NULL: done */
  ncclRedOp_t op;
  cudaStream_t stream;
};

struct group {
  int depth;
  uint32_t number;
  ncclResult_t error; /* of a call in it that failed in this library */
  struct tagc_call *held;
  size_t held_count, held_room;
  struct deferred *deferred;
  size_t deferred_count;
};

/* The open groups of this thread; NULL: none. One for each copy of NCCL, and one without any. The thread-local part is
 * small on purpose: a preloaded library has little static TLS. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct group *of_thread[TAGC_NCCL_MAX + 1];

static atomic_uint started; /* groups of this process, so far */

bool tagc_group_is_open(const struct tagc_nccl *nccl) { return of_thread[nccl->group] != NULL; }

uint32_t tagc_group_number(const struct tagc_nccl *nccl) {
  const struct group *group = of_thread[nccl->group];
  return group ? group->number : 0;
}

/* Ends the held calls: they have been launched, or never will be. */
static void end_held(struct group *group, ncclResult_t result) {
  for (size_t i = 0; i < group->held_count; i++)
    tagc_trace_call(&group->held[i], result);
}

static void group_free(struct group *g) {
  if (!g)
    return;
  end_held(g, g->error == ncclSuccess ? ncclInvalidUsage : g->error);
  for (size_t i = 0; i < g->held_count; i++)
    tagc_call_release(&g->held[i]);
  for (size_t i = 0; i < g->deferred_count; i++)
    tagc_comm_release(g->deferred[i].comm);
  free(g->held);
  free(g->deferred);
  free(g);
}

/* A thread may end with open groups. NCCL forgets them, and so do we, with the children expected in them. Other code at
 * the thread's end may call us again, and finds no group. */
static void thread_ends(void *groups) {
  bool open = false;
  for (struct group **g = groups; g <= (struct group **)groups + TAGC_NCCL_MAX; g++) {
    open |= *g != NULL;
    group_free(*g);
    *g = NULL;
  }
  if (open)
    tagc_comm_children_done(NULL, ncclInvalidUsage);
}

static pthread_key_t threads;
static bool has_key;

static void make_key(void) { has_key = pthread_key_create(&threads, thread_ends) == 0; }

/* Registers this thread's groups for its end. */
static void note_thread(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_key);
  if (has_key)
    pthread_setspecific(threads, of_thread);
}

bool tagc_group_hold(struct tagc_call *call) {
  struct group *group = of_thread[call->nccl->group];
  if (group->held_count == group->held_room) {
    size_t room = group->held_room ? 2 * group->held_room : 8;
    struct tagc_call *held = realloc(group->held, room * sizeof *held);
    if (!held)
      return false;
    group->held = held;
    group->held_room = room;
  }
  struct tagc_call held = *call;
  if (!tagc_call_retain(&held))
    return false;
  tagc_trace_return(&held);
  group->held[group->held_count++] = held;
  call->trace.number = 0;
  return true;
}

void tagc_group_fail(const struct tagc_nccl *nccl, ncclResult_t error) {
  struct group *group = of_thread[nccl->group];
  if (group && group->error == ncclSuccess)
    group->error = error;
}

/* False without memory. */
static bool defer(struct group *g, struct deferred what) {
  struct deferred *more = realloc(g->deferred, (g->deferred_count + 1) * sizeof *more);
  if (!more)
    return false;
  tagc_comm_retain(what.comm);
  more[g->deferred_count++] = what;
  g->deferred = more;
  return true;
}

bool tagc_group_passed(const struct tagc_nccl *nccl, struct tagc_comm *comm, cudaStream_t stream) {
  struct group *g = of_thread[nccl->group];
  if (!comm || !comm->sync.order.kept)
    return true;
  if (g)
    return defer(g, (struct deferred){.comm = comm, .stream = stream});
  tagc_order_after_plain(comm, stream);
  return true;
}

ncclResult_t tagc_group_forward(const struct tagc_call *call) {
  tagc_order_before_plain(call->comm, call->stream);
  ncclResult_t status = tagc_forward(call);
  return tagc_group_passed(call->nccl, call->comm, call->stream) ? status : tagc_no_memory("a call of a group");
}

bool tagc_group_defer_destroy(const struct tagc_nccl *nccl, ncclRedOp_t op, ncclComm_t comm) {
  struct group *g = of_thread[nccl->group];
  struct tagc_comm *user = NULL;
  for (size_t i = 0; g && i < g->held_count; i++)
    if (g->held[i].op == op && g->held[i].handle == comm)
      user = g->held[i].comm;
  if (!user)
    return false;
  if (!defer(g, (struct deferred){.comm = user, .what = DESTROYED, .op = op}))
    tagc_log(TAGC_LOG_WARN, "interpose", "no memory: a user-defined reduction lives until its communicator ends");
  return true;
}

void tagc_group_ended(const struct tagc_nccl *nccl, struct tagc_comm *comm) {
  struct group *g = of_thread[nccl->group];
  tagc_comm_abort_is_over(comm);
  if (comm && (!g || !defer(g, (struct deferred){.what = ENDED, .comm = comm})))
    tagc_comm_await_rest(comm);
}

/* The real group has ended. It has launched the calls forwarded in it, and ended communicators. */
static void real_has_ended(void *group) {
  struct group *g = group;
  for (size_t i = 0; i < g->deferred_count; i++) {
    struct deferred *d = &g->deferred[i];
    if (!d->comm || d->what == DESTROYED)
      continue;
    if (d->what == PASSED)
      tagc_order_after_plain(d->comm, d->stream);
    else
      tagc_comm_await_rest(d->comm);
    tagc_comm_release(d->comm);
    d->comm = NULL;
  }
}

/* After a failure, a strand may still use the ops (beside.h): they live until their communicators end. */
static void finish_group(struct group *g, bool failed) {
  real_has_ended(g);
  for (size_t i = 0; i < g->deferred_count && !failed; i++) {
    const struct deferred *d = &g->deferred[i];
    /* A launch in the background may still need the op. An aborted communicator's handle may be another's by now. */
    if (d->what == DESTROYED && !tagc_comm_is_aborted(d->comm) &&
        !tagc_background_defer_destroy(d->op, d->comm->handle))
      tagc_nccl_group_destroy_op(d->comm, d->op);
  }
  group_free(g);
}

/* The real library has ended a group. */
static void close_one(const struct tagc_nccl *nccl) {
  struct group *g = of_thread[nccl->group];
  if (!g || --g->depth)
    return;
  of_thread[nccl->group] = NULL;
  finish_group(g, false);
}

ncclResult_t tagc_group_start(const struct tagc_nccl *nccl, int *real_errno) {
  __typeof__(&ncclGroupStart) real = TAGC_REAL(ncclGroupStart, nccl);
  if (!real)
    return ncclSystemError;
  struct group *open = of_thread[nccl->group], *g = open ? open : calloc(1, sizeof *g);
  if (!g)
    return tagc_no_memory("a group");
  const ncclResult_t status = TAGC_IN_REAL_ERRNO(real(), real_errno);
  g->depth += status == ncclSuccess;
  g->number = open ? g->number : atomic_fetch_add(&started, 1) + 1;
  if (!open && status == ncclSuccess) {
    of_thread[nccl->group] = g;
    note_thread();
  } else if (!open) {
    free(g);
  }
  return status;
}

/* The held collectives will run. An error spoils the group. */
static ncclResult_t observe_held(struct group *g) {
  for (size_t i = 0; i < g->held_count && g->error == ncclSuccess; i++)
    if (g->held[i].comm && tagc_call_is_collective(&g->held[i]))
      g->error = tagc_call_observe(&g->held[i]);
  return g->error;
}

ncclResult_t tagc_group_end(const struct tagc_nccl *nccl, int *real_errno) {
  __typeof__(&ncclGroupEnd) real = TAGC_REAL(ncclGroupEnd, nccl);
  struct group *g = of_thread[nccl->group];
  if (!real)
    return ncclSystemError;
  const bool last = g && g->depth == 1;
  ncclResult_t status, failed = last ? observe_held(g) : ncclSuccess;
  if (last && g->held_count && failed == ncclSuccess) {
    of_thread[nccl->group] = NULL;
    status = tagc_launch_run(g->held, g->held_count, real_has_ended, g);
    end_held(g, status);
    finish_group(g, !tagc_real_accepts(status));
    return status;
  }
  status = TAGC_IN_REAL_ERRNO(real(), real_errno);
  close_one(nccl);
  return failed == ncclSuccess ? status : failed;
}

/* Nothing is launched, but the estimate must include the held calls. */
static ncclResult_t forward_held(struct group *group) {
  ncclResult_t status = ncclSuccess;
  for (size_t i = 0; i < group->held_count; i++) {
    struct tagc_call *call = &group->held[i];
    if (call->comm && tagc_rounds_takes(call))
      tagc_call_pass(call, TAGC_REASON_simulated);
    if (status == ncclSuccess)
      status = tagc_forward(call);
    tagc_trace_call(call, status);
    tagc_call_release(call);
  }
  group->held_count = 0;
  return status;
}

ncclResult_t tagc_group_simulate_end(const struct tagc_nccl *nccl, ncclSimInfo_t *info, int *real_errno) {
  __typeof__(&ncclGroupSimulateEnd) real = TAGC_REAL(ncclGroupSimulateEnd, nccl);
  if (!real)
    return ncclSystemError;
  struct group *g = of_thread[nccl->group];
  ncclResult_t status = g && g->depth == 1 ? forward_held(g) : ncclSuccess;
  const ncclResult_t ended = TAGC_IN_REAL_ERRNO(real(info), real_errno);
  close_one(nccl);
  if (!of_thread[nccl->group] && ended != ncclInProgress && !tagc_comm_children_done(NULL, ncclInvalidUsage))
    return tagc_no_memory("a communicator"); /* no later end makes the missing ones */
  return status == ncclSuccess ? ended : status;
}
