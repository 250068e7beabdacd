/* SPDX-License-Identifier: BSD-3-Clause
 * The communicators of this process: one list, one lock.
 *
 * A handle from a program is only compared with the list before it is used, so destroyed handles are refused, not read.
 * Calls hold a use while they run; destroying waits for them. Lock order: the list's lock is the last one taken.
 */
#include "tests/standin/standin.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t use_ended = PTHREAD_COND_INITIALIZER;
static struct ncclComm *list;
static uint64_t next_id;

static void close_if_open(int fd) {
  if (fd >= 0)
    close(fd);
}

struct ncclComm *standin_comm_new(int device) {
  struct ncclComm *comm = calloc(1, sizeof *comm);
  if (!comm)
    return NULL;
  comm->device = device;
  comm->listener = -1;
  comm->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (comm->wake < 0 || !standin_device_open(comm)) {
    close_if_open(comm->wake);
    free(comm);
    return NULL;
  }
  pthread_mutex_init(&comm->ops_lock, NULL);
  comm->busy = 1;
  pthread_mutex_lock(&list_lock);
  comm->id = next_id++;
  comm->next = list;
  list = comm;
  pthread_mutex_unlock(&list_lock);
  return comm;
}

/* The caller holds the lock. */
static struct ncclComm **find(struct ncclComm *comm) {
  struct ncclComm **at = &list;
  while (*at && *at != comm)
    at = &(*at)->next;
  return at;
}

bool standin_comm_acquire(struct ncclComm *comm) {
  pthread_mutex_lock(&list_lock);
  bool found = comm && *find(comm);
  if (found)
    comm->busy++;
  pthread_mutex_unlock(&list_lock);
  return found;
}

void standin_comm_acquire_again(struct ncclComm *comm) {
  pthread_mutex_lock(&list_lock);
  comm->busy++;
  pthread_mutex_unlock(&list_lock);
}

bool standin_comm_acquire_id(struct ncclComm *comm, uint64_t id) {
  if (!standin_comm_acquire(comm))
    return false;
  if (comm->id == id)
    return true;
  standin_comm_release(comm);
  return false;
}

void standin_comm_release(struct ncclComm *comm) {
  pthread_mutex_lock(&list_lock);
  if (--comm->busy == 0)
    pthread_cond_broadcast(&use_ended);
  pthread_mutex_unlock(&list_lock);
}

static void comm_free(struct ncclComm *comm) {
  standin_profiler_close(comm);
  for (int i = 0; comm->peers && i < comm->nranks; i++) {
    standin_channel_close(comm->peers[i].channel);
    close_if_open(comm->peers[i].fd);
  }
  close_if_open(comm->listener);
  close_if_open(comm->wake);
  standin_device_close(comm);
  pthread_mutex_destroy(&comm->ops_lock);
  free(comm->peers);
  free(comm->members);
  free(comm->ring);
  free(comm->place);
  free(comm->ops);
  free(comm->stage_in);
  free(comm->stage_out);
  free(comm->work);
  free(comm);
}

bool standin_comm_destroy(struct ncclComm *comm) {
  pthread_mutex_lock(&list_lock);
  struct ncclComm **at = find(comm);
  if (!*at) {
    pthread_mutex_unlock(&list_lock);
    return false;
  }
  *at = comm->next;
  while (comm->busy)
    pthread_cond_wait(&use_ended, &list_lock);
  pthread_mutex_unlock(&list_lock);
  comm_free(comm);
  return true;
}

void standin_comm_break(struct ncclComm *comm, ncclResult_t result) {
  int none = ncclSuccess, launching = ncclInProgress;
  if (!atomic_compare_exchange_strong(&comm->async_error, &none, result))
    atomic_compare_exchange_strong(&comm->async_error, &launching, result);
  standin_comm_shutdown(comm);
}

void standin_comm_shutdown(struct ncclComm *comm) {
  for (int i = 0; comm->connected && i < comm->nranks; i++)
    if (comm->peers[i].fd >= 0)
      shutdown(comm->peers[i].fd, SHUT_RDWR);
}

void standin_comm_wake(struct ncclComm *comm) { eventfd_write(comm->wake, 1); }

void standin_comm_interrupt(struct ncclComm *comm) {
  eventfd_t count;
  comm->aborted = true;
  standin_comm_wake(comm);
  standin_device_drain(comm);
  while (atomic_load(&comm->running) > 0)
    sched_yield();
  comm->aborted = false;
  eventfd_read(comm->wake, &count);
}

ncclResult_t standin_comm_ready(struct ncclComm *comm) {
  if (comm->revoked)
    return standin_fail(ncclInvalidUsage, "the communicator was revoked");
  if (comm->aborted)
    return standin_fail(ncclInternalError, "the communicator was aborted");
  if (comm->finalized)
    return standin_fail(ncclInvalidUsage, "the communicator was finalized");
  if (comm->suspended)
    return standin_fail(ncclInvalidUsage, "the communicator is suspended");
  ncclResult_t error = atomic_load(&comm->async_error);
  if (error == ncclInProgress)
    return standin_fail(ncclInvalidArgument, "the call before this one has not succeeded yet");
  if (error != ncclSuccess)
    return standin_fail(error, "the communicator has failed before");
  return ncclSuccess;
}
