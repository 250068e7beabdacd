/* SPDX-License-Identifier: BSD-3-Clause
 * Who works on a communicator: its owner. An abort from another thread waits for our own work, never for NCCL's.
 */
#include <sched.h>
#include <time.h>

#include "env/clock.h"
#include "interpose/comm/table.h"

bool tagc_comm_is_aborted(const struct tagc_comm *comm) {
  return atomic_load(&comm->ownership.owner) == TAGC_OWNER_ABORTED;
}

struct tagc_comm *tagc_comm_abort(ncclComm_t handle) {
  struct tagc_comm *comm = tagc_comm_drop(handle);
  while (comm) {
    int owner = atomic_load(&comm->ownership.owner);
    if (owner == TAGC_OWNER_ABORTED)
      break;
    if (owner != TAGC_OWNER_LIBRARY && atomic_compare_exchange_weak(&comm->ownership.owner, &owner, TAGC_OWNER_ABORTED))
      break;
    sched_yield();
  }
  /* The side stream may be reading the program's buffers while the thread of the call waits for NCCL. */
  void *side_stream = comm ? atomic_load(&comm->memory.side_stream) : NULL;
  if (side_stream && comm->device->host_reads) /* else the driver may wait for us: tagc_comms_enter_driver() */
    comm->device->side_stream_close(comm->device, side_stream);
  return comm;
}

static bool change_when_free(struct tagc_comm *comm, enum tagc_owner from, enum tagc_owner to) {
  for (;;) {
    int owner = (int)from;
    if (atomic_compare_exchange_strong(&comm->ownership.owner, &owner, (int)to))
      return true;
    if (owner == TAGC_OWNER_ABORTED)
      return false;
    sched_yield();
  }
}

bool tagc_comms_enter(struct tagc_comm *const *comms, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (!change_when_free(comms[i], TAGC_OWNER_NONE, TAGC_OWNER_LIBRARY)) {
      tagc_comms_leave(comms, i);
      return false;
    }
    atomic_store(&comms[i]->ownership.entered, true);
  }
  return true;
}

void tagc_comms_lend(struct tagc_comm *const *comms, size_t count) {
  for (size_t i = 0; i < count; i++)
    (void)change_when_free(comms[i], TAGC_OWNER_LIBRARY, TAGC_OWNER_NCCL);
}

void tagc_comms_take_back(struct tagc_comm *const *comms, size_t count) {
  for (size_t i = 0; i < count; i++)
    (void)change_when_free(comms[i], TAGC_OWNER_NCCL, TAGC_OWNER_LIBRARY);
}

void tagc_comms_leave(struct tagc_comm *const *comms, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int owner = atomic_load(&comms[i]->ownership.owner);
    atomic_store(&comms[i]->ownership.entered, false);
    while (owner != TAGC_OWNER_ABORTED &&
           !atomic_compare_exchange_weak(&comms[i]->ownership.owner, &owner, TAGC_OWNER_NONE))
      ;
  }
}

static bool has_driver(const struct tagc_comm *comm) { return comm->device && !comm->device->host_reads; }

bool tagc_comms_enter_driver(struct tagc_comm *const *comms, size_t count) {
  bool all = true;
  for (size_t i = 0; i < count; i++)
    if (has_driver(comms[i]))
      all &= change_when_free(comms[i], TAGC_OWNER_LIBRARY, TAGC_OWNER_NCCL);
  return all;
}

bool tagc_comms_leave_driver(struct tagc_comm *const *comms, size_t count) {
  bool all = true;
  for (size_t i = 0; i < count; i++)
    if (has_driver(comms[i]))
      all &= change_when_free(comms[i], TAGC_OWNER_NCCL, TAGC_OWNER_LIBRARY);
  return all;
}

bool tagc_comm_has_streams(const struct tagc_comm *comm) {
  return !has_driver(comm) || !tagc_comm_is_aborted(comm) || !atomic_load(&comm->ownership.streams_gone);
}

/* Waits until it is so, a second at most. False: it is not yet. */
static bool await(bool (*is_so)(const struct tagc_comm *comm), const struct tagc_comm *comm) {
  bool so;
  for (const uint64_t began = tagc_clock_ns(); !(so = is_so(comm)) && tagc_clock_ns() - began < 1000000000;)
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  return so;
}

/* The fence is behind the last work on the program's buffers; the side stream's work is before it. */
static bool is_at_rest(const struct tagc_comm *comm) {
  return !has_driver(comm) || (!atomic_load(&comm->ownership.entered) &&
                               (!comm->sync.fence || comm->device->fence_is_over(comm->device, comm->sync.fence)));
}

void tagc_comm_abort_is_over(struct tagc_comm *comm) {
  if (comm && tagc_comm_is_aborted(comm))
    atomic_store(&comm->ownership.abort_over, true);
}

void tagc_comm_await_rest(struct tagc_comm *comm) {
  if (!comm)
    return;
  (void)await(is_at_rest, comm);
  if (tagc_comm_is_aborted(comm))
    atomic_store(&comm->ownership.streams_gone, true);
}

static bool is_abort_over(const struct tagc_comm *comm) {
  return !tagc_comm_is_aborted(comm) || atomic_load(&comm->ownership.abort_over);
}

bool tagc_comm_await_abort(const struct tagc_comm *comm) { return await(is_abort_over, comm); }
