/* SPDX-License-Identifier: BSD-3-Clause
 * The communicators of a trace: the number of each handle, and its records.
 *
 * This table is separate from that of table.c: a call that is only forwarded must find its communicator here without
 * asking for the agreement. It has its own lock, under which only tagc_trace_add() is called.
 */
#include <pthread.h>
#include <stdlib.h>

#include "env/clock.h"
#include "env/host.h"
#include "interpose/comm/comm.h"
#include "interpose/comm/placement.h"
#include "interpose/comm/traced.h"
#include "interpose/nccl/process.h"
#include "interpose/nccl/unknown.h"

#define HASH_NONFATAL_OOM 1 /* uthash must not end the host program */
#define uthash_nonfatal_oom(element) ((element)->unhashed = true)
#include <uthash.h>

struct traced {
  ncclComm_t handle;
  const struct tagc_nccl *nccl;  /* NULL: NCCL may not be asked */
  struct tagc_trace_comm record; /* as it was written last */
  struct tagc_hosts hosts;
  bool blocking, asked, ended, unhashed;
  UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct traced *table;
static uint32_t numbers; /* given so far */
static int version;      /* of NCCL, as in the PROCESS record */

void tagc_trace_forget_comms(void) {
  pthread_mutex_init(&lock, NULL);
  table = NULL;
  numbers = 0;
  version = 0;
}

static struct traced *find_traced(ncclComm_t handle) {
  struct traced *found = NULL;
  if (handle)
    HASH_FIND_PTR(table, &handle, found);
  return found;
}

static void remove_from_table(struct traced *comm) {
  HASH_DEL(table, comm);
  free(comm);
}

/* Adds a communicator for the handle. NULL without memory: its calls then have no communicator. */
static struct traced *add_traced(ncclComm_t handle) {
  struct traced *before = find_traced(handle), *comm = calloc(1, sizeof *comm);
  if (before)
    remove_from_table(before);
  if (!comm)
    return NULL;
  comm->handle = handle;
  comm->record = (struct tagc_trace_comm){{TAGC_TRACE_COMM, sizeof comm->record, ++numbers},
                                          .born_ns = tagc_clock_ns(),
                                          .number = UINT32_MAX,
                                          .rank = -1,
                                          .nranks = -1,
                                          .function = UINT16_MAX};
  HASH_ADD_PTR(table, handle, comm);
  if (!comm->unhashed)
    return comm;
  free(comm);
  return NULL;
}

/* ---- begin ------------------------------------------------------------------------------------------------------- */

static void trace_version(const struct tagc_nccl *nccl) {
  pthread_mutex_lock(&lock);
  const bool known = version != 0;
  pthread_mutex_unlock(&lock);
  const int said = known ? 0 : tagc_real_version(nccl);
  if (!said)
    return;
  pthread_mutex_lock(&lock);
  if (!version)
    tagc_trace_process(version = said);
  pthread_mutex_unlock(&lock);
}

void tagc_trace_comm_begins(ncclComm_t handle, bool nonblocking, const struct tagc_origin *origin) {
  if (!origin->nccl || !handle || !tagc_trace_on())
    return;
  trace_version(origin->nccl);
  pthread_mutex_lock(&lock);
  struct traced *comm = add_traced(handle);
  if (comm) {
    comm->nccl = origin->nccl;
    comm->blocking = !nonblocking;
    comm->record.on_host = origin->nccl->on_host;
    comm->record.unknown = *tagc_unknown_functions(origin->nccl) != '\0';
    comm->record.identity = origin->identity;
    comm->record.parent = origin->parent;
    comm->record.rank = origin->rank;
    comm->record.nranks = origin->nranks;
    comm->record.function = origin->function;
    tagc_trace_add(&comm->record.record);
  }
  pthread_mutex_unlock(&lock);
  if (origin->nranks < 0) {
    struct tagc_hosts hosts;
    (void)tagc_trace_place(handle, &hosts);
  }
}

/* ---- lives ------------------------------------------------------------------------------------------------------- */

uint32_t tagc_trace_comm(ncclComm_t handle) {
  if (!handle)
    return 0;
  pthread_mutex_lock(&lock);
  const struct traced *comm = find_traced(handle);
  const uint32_t number = comm ? comm->record.record.comm : 0;
  pthread_mutex_unlock(&lock);
  return number;
}

/* NCCL answers at once: a blocking communicator is ready when it is given out. */
static bool ask_place(const struct tagc_nccl *nccl, ncclComm_t handle, int *rank, int *nranks) {
  __typeof__(&ncclCommCount) count = (__typeof__(&ncclCommCount))nccl->functions[TAGC_ENTRY_ncclCommCount];
  __typeof__(&ncclCommUserRank) user_rank = (__typeof__(&ncclCommUserRank))nccl->functions[TAGC_ENTRY_ncclCommUserRank];
  return count && user_rank &&
         TAGC_IN_REAL(count(handle, nranks) == ncclSuccess && user_rank(handle, rank) == ncclSuccess);
}

static struct tagc_hosts unknown_hosts(int nranks) { return (struct tagc_hosts){.nranks = nranks, .local = nranks}; }

int tagc_trace_place(ncclComm_t handle, struct tagc_hosts *hosts) {
  int rank = -1, nranks = -1;
  const struct tagc_nccl *asked = NULL;
  uint32_t number = 0;
  *hosts = unknown_hosts(0);
  pthread_mutex_lock(&lock);
  struct traced *comm = find_traced(handle);
  if (comm) {
    number = comm->record.record.comm;
    rank = comm->record.rank;
    nranks = comm->record.nranks;
    *hosts = comm->hosts.nranks ? comm->hosts : unknown_hosts(nranks < 0 ? 0 : nranks);
    asked = nranks < 0 && comm->blocking && !comm->asked && !comm->ended ? comm->nccl : NULL;
    comm->asked |= asked != NULL;
  }
  pthread_mutex_unlock(&lock);
  if (!asked || !ask_place(asked, handle, &rank, &nranks))
    return rank;
  *hosts = unknown_hosts(nranks);
  pthread_mutex_lock(&lock);
  comm = find_traced(handle);
  if (comm && comm->record.record.comm == number) {
    comm->record.rank = rank;
    comm->record.nranks = nranks;
    tagc_trace_add(&comm->record.record);
  }
  pthread_mutex_unlock(&lock);
  return rank;
}

void tagc_trace_introduce(struct tagc_comm *of) {
  if (!tagc_trace_on())
    return;
  pthread_mutex_lock(&lock);
  struct traced *comm = find_traced(of->handle);
  if (!comm)
    comm = add_traced(of->handle);
  if (comm) {
    const struct tagc_hosts hosts = tagc_hierarchy_hosts(of);
    of->trace.number = comm->record.record.comm;
    comm->hosts = hosts;
    comm->record.number = (uint32_t)of->ledger->number;
    comm->record.rank = of->rank;
    comm->record.nranks = of->nranks;
    comm->record.agreed = tagc_comm_agreed(of);
    comm->record.on_host = of->nccl->on_host;
    comm->record.unknown = *of->ledger->unknown != '\0';
    comm->record.hosts = (uint32_t)hosts.hosts;
    tagc_trace_add(&comm->record.record);
  }
  pthread_mutex_unlock(&lock);
}

void tagc_trace_comm_ends(uint32_t number, ncclComm_t handle, uint16_t function, bool stays) {
  if (!number)
    return;
  const struct tagc_trace_comm_end end = {
    {TAGC_TRACE_COMM_END, sizeof end, number}, .at_ns = tagc_clock_ns(), .function = function};
  pthread_mutex_lock(&lock);
  struct traced *comm = find_traced(handle);
  const bool known = comm && comm->record.record.comm == number;
  if (!known || !comm->ended) /* the handle may belong to another communicator by now */
    tagc_trace_add(&end.record);
  if (known && stays)
    comm->ended = true;
  else if (known)
    remove_from_table(comm);
  pthread_mutex_unlock(&lock);
}
