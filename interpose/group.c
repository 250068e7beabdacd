/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/group.h"

#include <stdlib.h>

#include "interpose/background.h"
#include "interpose/comm.h"
#include "interpose/launch.h"

struct destroyed {
  ncclRedOp_t op;
  struct tagc_comm *comm;           /* a reference is held */
};

struct group {
  struct tagc_call *held;
  size_t held_count, held_room;
  struct destroyed *destroyed;      /* ops to destroy after the end */
  size_t destroyed_count;
};

/* The thread-local part is small on purpose: a preloaded library has little static TLS. */
#define OF_THREAD static _Thread_local __attribute__((tls_model("initial-exec")))
OF_THREAD int depth;
OF_THREAD bool mixed;
OF_THREAD struct group *group;      /* made when the first call is held */

bool tagc_group_is_open(void) { return depth > 0; }

/* A thread may end with a group open. NCCL forgets such a group, and so do we, but for what it refers to. */
static pthread_key_t of_thread;
static bool has_key;

static void group_free(void *group_)
{
  struct group *g = group_;
  if (!g)
    return;
  for (size_t i = 0; i < g->held_count; i++)
    tagc_comm_release(g->held[i].comm);
  for (size_t i = 0; i < g->destroyed_count; i++)
    tagc_comm_release(g->destroyed[i].comm);
  free(g->held);
  free(g->destroyed);
  free(g);
}

static void make_key(void) { has_key = pthread_key_create(&of_thread, group_free) == 0; }

/* The calling thread's group, or none (NULL). */
static void set_group(struct group *g)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_key);
  group = g;
  if (has_key)
    pthread_setspecific(of_thread, g);
}

enum tagc_hold tagc_group_hold(const struct tagc_call *call)
{
  if (mixed)
    return TAGC_HOLD_MIXED;
  if (!group)
    set_group(calloc(1, sizeof *group));
  if (!group)
    return TAGC_HOLD_NO_MEMORY;
  if (group->held_count == group->held_room) {
    size_t room = group->held_room ? 2 * group->held_room : 8;
    struct tagc_call *held = realloc(group->held, room * sizeof *held);
    if (!held)
      return TAGC_HOLD_NO_MEMORY;
    group->held = held;
    group->held_room = room;
  }
  group->held[group->held_count++] = *call;
  return TAGC_HOLD_HELD;
}

ncclResult_t tagc_group_mix(void)
{
  ncclResult_t status = ncclSuccess;
  if (depth == 0)
    return ncclSuccess;
  mixed = true;
  for (size_t i = 0; group && i < group->held_count; i++) {
    tagc_comm_pass_mixed(group->held[i].comm, &group->held[i]);
    if (status == ncclSuccess)
      status = tagc_forward(&group->held[i]);
    tagc_comm_release(group->held[i].comm);
  }
  if (group)
    group->held_count = 0;
  return status;
}

bool tagc_group_defer_destroy(ncclRedOp_t op, ncclComm_t comm)
{
  struct group *g = group;
  struct tagc_comm *user = NULL;
  for (size_t i = 0; g && i < g->held_count; i++)
    if (g->held[i].op == op && g->held[i].handle == comm)
      user = g->held[i].comm;
  if (!user)
    return false;
  struct destroyed *more = realloc(g->destroyed, (g->destroyed_count + 1) * sizeof *more);
  if (!more)
    return false;
  tagc_comm_retain(user);
  more[g->destroyed_count++] = (struct destroyed){op, user};
  g->destroyed = more;
  return true;
}

/* The outermost end has come: the thread has no group any more. What the group held is the caller's to free. */
static struct group *leave(void)
{
  struct group *g = group;
  depth = 0;
  mixed = false;
  if (g)
    set_group(NULL);
  return g;
}

static void finish(struct group *g, const void *caller)
{
  __typeof__(&ncclRedOpDestroy) destroy = g && g->destroyed_count ? TAGC_REAL(ncclRedOpDestroy, caller) : NULL;
  for (size_t i = 0; g && i < g->destroyed_count; i++) {
    struct destroyed *d = &g->destroyed[i];
    /* An aborted communicator has taken its ops with it; a launch in the background may still need them. */
    if (destroy && !tagc_comm_is_aborted(d->comm) && !tagc_background_defer_destroy(d->op, d->comm->handle)) {
      tagc_op_destroyed(d->op, d->comm->handle);
      tagc_real_depth++;
      destroy(d->op, d->comm->handle);
      tagc_real_depth--;
    }
  }
  group_free(g);
}

/* A group has been ended by the real library. */
static void close_one(const void *caller)
{
  if (depth == 1)
    finish(leave(), caller);
  else
    depth -= depth > 0;
}

ncclResult_t tagc_group_start(const void *caller)
{
  __typeof__(&ncclGroupStart) real = TAGC_REAL(ncclGroupStart, caller);
  if (!real)
    return ncclSystemError;
  tagc_real_depth++;
  ncclResult_t status = real();
  tagc_real_depth--;
  depth += status == ncclSuccess;
  return status;
}

ncclResult_t tagc_group_end(const void *caller)
{
  __typeof__(&ncclGroupEnd) real = TAGC_REAL(ncclGroupEnd, caller);
  if (!real)
    return ncclSystemError;
  ncclResult_t status;
  if (depth == 1 && group && group->held_count) {
    struct group *g = leave();
    status = tagc_launch_run(g->held, g->held_count, true);
    finish(g, caller);
    return status;
  }
  tagc_real_depth++;
  status = real();
  tagc_real_depth--;
  close_one(caller);
  return status;
}

ncclResult_t tagc_group_simulate_end(ncclSimInfo_t *info, const void *caller)
{
  __typeof__(&ncclGroupSimulateEnd) real = TAGC_REAL(ncclGroupSimulateEnd, caller);
  if (!real)
    return ncclSystemError;
  ncclResult_t status = tagc_group_mix();          /* nothing is launched: what was held must be part of the estimate */
  tagc_real_depth++;
  ncclResult_t ended = real(info);
  tagc_real_depth--;
  close_one(caller);
  return status == ncclSuccess ? ended : status;
}
