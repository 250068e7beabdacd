/* SPDX-License-Identifier: BSD-3-Clause
 * The exported calls that make, query and end communicators. Making one is work for the group's end (group.c). A
 * child's handle appears there, an initial communicator's at the call, as in NCCL.
 */
#include "tests/standin/standin.h"

#include <stdlib.h>
#include <string.h>

/* -- new communicators ------------------------------------------------------------------------------------------- */
struct init_work {
  struct async_work base;
  struct ncclComm *comm;
  ncclComm_t *handle;
  int nids;
  ncclUniqueId ids[];
};

static ncclResult_t run_init(struct async_work *base) {
  struct init_work *work = (struct init_work *)base;
  struct ncclComm *comm = work->comm;
  ncclResult_t result = standin_join(comm, work->ids, work->nids);
  comm->connected = result == ncclSuccess;
  if (result == ncclSuccess)
    standin_profiler_open(comm);
  bool keep = result == ncclSuccess || comm->nonblocking; /* a query for its error must find it */
  standin_comm_release(comm);
  if (!keep) {
    standin_comm_destroy(comm);
    *work->handle = NULL;
  }
  return result;
}

/* NCCL_COMM_BLOCKING decides, then the configuration, then the inherited setting. */
static bool is_nonblocking(const ncclConfig_t *config, bool inherited) {
  const char *forced = getenv("NCCL_COMM_BLOCKING");
  if (forced && (strcmp(forced, "0") == 0 || strcmp(forced, "1") == 0))
    return *forced == '0';
  if (!config)
    return inherited;
  return config->size >= offsetof(ncclConfig_t, blocking) + sizeof config->blocking && config->blocking == 0;
}

static ncclResult_t add_init(ncclComm_t *handle, int nranks, const ncclUniqueId *ids, int nids, int rank, int device,
                             const ncclConfig_t *config) {
  if (!handle || !ids || nranks < 1 || rank < 0 || rank >= nranks || nids < 1 || nids > nranks)
    return standin_fail(ncclInvalidArgument, "CommInitRank: rank %d of %d, %d ids, comm %p", rank, nranks, nids,
                        (void *)handle);
  ncclResult_t result = standin_config_check(config);
  if (result == ncclSuccess)
    result = standin_device_find(&device);
  if (result != ncclSuccess)
    return result;
  struct init_work *work = malloc(sizeof *work + (size_t)nids * sizeof *ids);
  struct ncclComm *comm = standin_comm_new(device);
  if (!work || !comm) {
    free(work);
    return standin_fail(ncclSystemError, "no memory or no descriptor for a communicator");
  }
  *work = (struct init_work){.base.run = run_init, .comm = comm, .handle = handle, .nids = nids};
  memcpy(work->ids, ids, (size_t)nids * sizeof *ids);
  comm->rank = rank;
  comm->nranks = nranks;
  comm->nonblocking = is_nonblocking(config, false);
  if (comm->nonblocking)
    work->base.told = comm;
  *handle = comm;
  return standin_group_add_work(&work->base);
}

static ncclResult_t init_rank(ncclComm_t *handle, int nranks, const ncclUniqueId *ids, int nids, int rank,
                              const ncclConfig_t *config, const char *name) {
  size_t line = standin_stats_begin(name, -1, 0, -1);
  int64_t begin = standin_now();
  standin_group_start();
  ncclResult_t result = standin_group_note(add_init(handle, nranks, ids, nids, rank, -1, config));
  ncclResult_t ended = standin_group_end();
  standin_stats_took(line, standin_now() - begin);
  return result != ncclSuccess ? result : ended;
}

STANDIN_API ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId) {
  standin_stats_begin("ncclGetUniqueId", -1, 0, -1);
  if (!uniqueId)
    return standin_fail(ncclInvalidArgument, "GetUniqueId: uniqueId is NULL");
  return standin_unique_id(uniqueId, 0);
}

STANDIN_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank) {
  return init_rank(comm, nranks, &commId, 1, rank, NULL, __func__);
}

STANDIN_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                                ncclConfig_t *config) {
  return init_rank(comm, nranks, &commId, 1, rank, config, __func__);
}

STANDIN_API ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                                  ncclUniqueId *commIds, ncclConfig_t *config) {
  return init_rank(newcomm, nranks, commIds, nId, myrank, config, __func__);
}

static ncclResult_t check_devices(const int *devlist, int ndev) {
  for (int i = 0; i < ndev; i++) {
    int device = devlist ? devlist[i] : i;
    if (device < 0)
      return standin_fail(ncclInvalidArgument, "CommInitAll: invalid device %d", device);
    ncclResult_t result = standin_device_find(&device);
    if (result != ncclSuccess)
      return result;
    for (int j = 0; devlist && j < i; j++)
      if (devlist[i] == devlist[j])
        return standin_fail(ncclInvalidUsage, "CommInitAll: device %d twice", devlist[i]);
  }
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist) {
  standin_stats_begin("ncclCommInitAll", -1, (size_t)(ndev > 0 ? ndev : 0), -1);
  if (!comm || ndev < 0)
    return standin_fail(ncclInvalidArgument, "CommInitAll: %d devices, comm %p", ndev, (void *)comm);
  ncclResult_t result = check_devices(devlist, ndev);
  ncclUniqueId id;
  if (result == ncclSuccess)
    result = ncclGetUniqueId(&id);
  if (result != ncclSuccess)
    return result;
  standin_group_start();
  for (int i = 0; i < ndev; i++)
    standin_group_note(add_init(&comm[i], ndev, &id, 1, i, devlist ? devlist[i] : i, NULL));
  return standin_group_end();
}

/* -- children of a communicator ---------------------------------------------------------------------------------- */
struct child_work {
  struct async_work base;
  struct ncclComm *parent; /* in use */
  ncclComm_t *handle;
  int wake;         /* ends every wait: the parent's, unless that one was ended before; or -1 */
  uint64_t tag;     /* tells this rendezvous from others of the parent */
  int color, key;   /* NCCL_SPLIT_NOCOLOR: no child for this rank */
  bool nonblocking; /* the child */
  int nmembers;
  int members[]; /* ranks of the parent that take part, ascending */
};

/* True if member a of the parent precedes b in the child. Equal keys keep the parent's order. */
static bool comes_before(const struct member *table, int a, int b) {
  return table[a].key != table[b].key ? table[a].key < table[b].key : a < b;
}

static ncclResult_t fill_child(struct ncclComm *child, const struct child_work *work, const struct member *table,
                               int self) {
  child->members = calloc((size_t)work->nmembers, sizeof *child->members);
  if (!child->members)
    return standin_fail(ncclSystemError, "no memory for a communicator");
  for (int i = 0; i < work->nmembers; i++) {
    if (table[i].color != work->color)
      continue;
    int place = 0;
    for (int j = 0; j < work->nmembers; j++)
      place += table[j].color == work->color && comes_before(table, j, i);
    child->members[place] = table[i];
    child->nranks++;
    if (i == self)
      child->rank = place;
  }
  return standin_connect(child, work->wake);
}

static ncclResult_t make_child(struct child_work *work, struct ncclComm *child, struct member *table) {
  struct member mine = {.color = work->color, .key = work->key};
  uint64_t secret;
  int self = 0;
  while (work->members[self] != work->parent->rank)
    self++;
  if (child) {
    child->listener = standin_listen(&mine.address);
    mine.host = work->parent->members[work->parent->rank].host;
  }
  ncclResult_t result =
    standin_meet(work->parent, work->wake, work->members, work->nmembers, work->tag, &mine, table, &secret);
  if (result != ncclSuccess || !child)
    return result;
  if (child->listener < 0)
    return standin_fail(ncclSystemError, "no socket for a communicator");
  child->secret = secret + (uint64_t)(uint32_t)work->color;
  return fill_child(child, work, table, self);
}

static ncclResult_t run_child(struct async_work *base) {
  struct child_work *work = (struct child_work *)base;
  bool wanted = work->color != NCCL_SPLIT_NOCOLOR;
  struct ncclComm *child = wanted ? standin_comm_new(work->parent->device) : NULL;
  struct member *table = calloc((size_t)work->nmembers, sizeof *table);
  ncclResult_t result = (wanted && !child) || !table ? standin_fail(ncclSystemError, "no memory for a communicator")
                                                     : make_child(work, child, table);
  free(table);
  standin_comm_release(work->parent);
  if (child) {
    child->connected = result == ncclSuccess;
    if (result == ncclSuccess)
      standin_profiler_open(child);
    child->nonblocking = work->nonblocking;
    if (result == ncclSuccess)
      __atomic_store_n(work->handle, child, __ATOMIC_RELEASE); /* other threads may read it meanwhile */
    standin_comm_release(child);
    if (result != ncclSuccess)
      standin_comm_destroy(child);
  }
  return result;
}

/* Checks that the parent can have children. A revoked one can, and with `regardless` a failed one too. */
static ncclResult_t check_parent(struct ncclComm *parent, ncclComm_t *handle, const ncclConfig_t *config,
                                 bool regardless) {
  if (!handle)
    return standin_fail(ncclInvalidArgument, "newcomm is NULL");
  ncclResult_t result = regardless || parent->revoked ? ncclSuccess : standin_comm_ready(parent);
  return result == ncclSuccess ? standin_config_check(config) : result;
}

/* Takes over the caller's use of the parent. `members` are ascending. */
static ncclResult_t add_child(struct ncclComm *parent, ncclComm_t *handle, const ncclConfig_t *config, uint64_t tag,
                              int color, int key, const int *members, int nmembers) {
  struct child_work *work = malloc(sizeof *work + (size_t)nmembers * sizeof *members);
  if (!work) {
    standin_comm_release(parent);
    return standin_fail(ncclSystemError, "no memory for a communicator");
  }
  *work = (struct child_work){.base.run = run_child,
                              .parent = parent,
                              .handle = handle,
                              .tag = tag,
                              .color = color,
                              .wake = parent->revoked || parent->aborted ? -1 : parent->wake,
                              .key = key,
                              .nonblocking = is_nonblocking(config, parent->nonblocking),
                              .nmembers = nmembers};
  if (parent->nonblocking)
    work->base.told = parent;
  memcpy(work->members, members, (size_t)nmembers * sizeof *members);
  *handle = NULL;
  return standin_group_add_work(&work->base);
}

static ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, const ncclConfig_t *config) {
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommSplit: no such communicator");
  standin_stats_begin("ncclCommSplit", (int64_t)comm->id, 0, -1);
  int *members = malloc((size_t)comm->nranks * sizeof *members);
  ncclResult_t result = members ? check_parent(comm, newcomm, config, false)
                                : standin_fail(ncclSystemError, "no memory for a communicator");
  if (result != ncclSuccess) {
    standin_comm_release(comm);
  } else {
    for (int i = 0; i < comm->nranks; i++)
      members[i] = i;
    result = add_child(comm, newcomm, config, comm->splits++, color, key, members, comm->nranks);
  }
  free(members);
  return result;
}

STANDIN_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config) {
  standin_group_start();
  ncclResult_t result = standin_group_note(split(comm, color, key, newcomm, config));
  ncclResult_t ended = standin_group_end();
  return result != ncclSuccess ? result : ended;
}

static bool contains(const int *list, int count, int value) {
  for (int i = 0; i < count; i++)
    if (list[i] == value)
      return true;
  return false;
}

static ncclResult_t shrink(ncclComm_t comm, const int *excluded, int nexcluded, ncclComm_t *newcomm,
                           const ncclConfig_t *config, int flags) {
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommShrink: no such communicator");
  standin_stats_begin("ncclCommShrink", (int64_t)comm->id, 0, -1);
  int *members = malloc((size_t)comm->nranks * sizeof *members), nmembers = 0;
  ncclResult_t result = members ? check_parent(comm, newcomm, config, flags & NCCL_SHRINK_ABORT)
                                : standin_fail(ncclSystemError, "no memory for a communicator");
  if (result == ncclSuccess &&
      (!excluded || nexcluded <= 0 || nexcluded >= comm->nranks || contains(excluded, nexcluded, comm->rank)))
    result = standin_fail(ncclInvalidArgument, "CommShrink: rank %d excludes %d ranks", comm->rank, nexcluded);
  if (result != ncclSuccess) {
    standin_comm_release(comm);
  } else {
    if (flags & NCCL_SHRINK_ABORT)
      standin_comm_interrupt(comm);
    uint64_t tag = UINT64_C(1) << 63;
    for (int i = 0; i < comm->nranks; i++)
      if (!contains(excluded, nexcluded, i)) {
        members[nmembers++] = i;
        tag = tag * 31 + (uint64_t)i;
      }
    result = add_child(comm, newcomm, config, tag, 0, 0, members, nmembers);
  }
  free(members);
  return result;
}

STANDIN_API ncclResult_t ncclCommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                                        ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags) {
  standin_group_start();
  ncclResult_t result =
    standin_group_note(shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags));
  ncclResult_t ended = standin_group_end();
  return result != ncclSuccess ? result : ended;
}

/* True while a launch of a non-blocking communicator is in progress. */
static bool is_under_way(ncclComm_t comm) {
  if (!standin_comm_acquire(comm))
    return false;
  bool under_way = atomic_load(&comm->async_error) == ncclInProgress;
  standin_comm_release(comm);
  return under_way;
}

/* -- the end of a communicator ----------------------------------------------------------------------------------- */
static ncclResult_t run_drain(struct async_work *work) {
  standin_device_drain(work->told);
  return ncclSuccess;
}

/* A non-blocking communicator finalizes later and reports the end itself. The caller uses the communicator. */
static ncclResult_t finalize_later(struct ncclComm *comm) {
  struct async_work *work = malloc(sizeof *work);
  if (!work)
    return standin_fail(ncclSystemError, "no memory to finalize a communicator");
  *work = (struct async_work){.run = run_drain, .told = comm};
  standin_group_start();
  ncclResult_t result = standin_group_note(standin_group_add_work(work)), ended = standin_group_end();
  return result == ncclSuccess ? ended : result;
}

STANDIN_API ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!comm)
    return ncclSuccess;
  if (!standin_comm_acquire(comm))
    return standin_group_note(standin_fail(ncclInvalidArgument, "CommFinalize: no such communicator"));
  standin_stats_begin("ncclCommFinalize", (int64_t)comm->id, 0, -1);
  if (is_under_way(comm)) {
    standin_comm_release(comm);
    return standin_fail(ncclInvalidArgument, "CommFinalize: a call on it has not succeeded yet");
  }
  bool again = comm->finalized;
  comm->finalized = true;
  ncclResult_t result = ncclSuccess;
  if (again)
    result = standin_group_note(standin_fail(ncclInvalidArgument, "CommFinalize: a second time"));
  else if (comm->nonblocking && atomic_load(&comm->async_error) == ncclSuccess)
    result = finalize_later(comm);
  else
    standin_device_drain(comm);
  standin_comm_release(comm);
  return result;
}

/* What NCCL keeps of a call that has failed: not its arguments, nor an abort. */
static ncclResult_t stored_error(struct ncclComm *comm) {
  const ncclResult_t error = (ncclResult_t)atomic_load(&comm->async_error);
  const bool stays = error == ncclRemoteError || error == ncclSystemError;
  return stays && !comm->aborted && !comm->revoked ? error : ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!comm)
    return ncclSuccess;
  standin_stats_begin("ncclCommDestroy", -1, 0, -1);
  if (is_under_way(comm))
    return standin_fail(ncclInvalidArgument, "CommDestroy: a call on it has not succeeded yet");
  if (standin_comm_acquire(comm)) {
    const ncclResult_t failed = stored_error(comm);
    if (failed == ncclSuccess)
      standin_device_drain(comm);
    standin_comm_release(comm);
    if (failed != ncclSuccess) /* as NCCL (ncclCommEnsureReady), which wants an abort then */
      return standin_fail(failed, "CommDestroy: the communicator has failed before");
  }
  if (!standin_comm_destroy(comm))
    return standin_fail(ncclInvalidArgument, "CommDestroy: no such communicator");
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm)
    return ncclSuccess;
  if (!standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommAbort: no such communicator");
  standin_stats_begin("ncclCommAbort", (int64_t)comm->id, 0, -1);
  comm->aborted = true;
  standin_comm_wake(comm);
  /* As NCCL (ncclGroupJobAbort): once this returns, no launch of a group enqueues anything on a device. */
  while (!ncclStandinHostMemory && atomic_load(&comm->launching))
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  standin_comm_release(comm);
  standin_comm_destroy(comm);
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  if (!comm)
    return ncclSuccess;
  if (revokeFlags != 0 || !standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommRevoke: flags %d, or no such communicator", revokeFlags);
  standin_stats_begin("ncclCommRevoke", (int64_t)comm->id, 0, -1);
  bool refused = comm->finalized || atomic_exchange(&comm->revoked, true);
  if (!refused) {
    standin_comm_wake(comm);
    standin_comm_shutdown(comm);
  }
  standin_comm_release(comm);
  return refused ? standin_fail(ncclInvalidArgument, "CommRevoke: finalized or revoked before") : ncclSuccess;
}

/* -- questions --------------------------------------------------------------------------------------------------- */
STANDIN_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError) {
  if (!asyncError || !standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommGetAsyncError: no such communicator, or asyncError is NULL");
  *asyncError = (ncclResult_t)atomic_load(&comm->async_error);
  if (!ncclStandinHostMemory && atomic_load(&comm->launching))
    *asyncError = ncclInProgress; /* even if it has already failed */
  standin_comm_release(comm);
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
  if (!count || is_under_way(comm) || !standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommCount: no such communicator, or not ready, or count is NULL");
  *count = comm->nranks;
  standin_comm_release(comm);
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device) {
  if (!device || is_under_way(comm) || !standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommCuDevice: no such communicator, or not ready, or device is NULL");
  *device = comm->device;
  standin_comm_release(comm);
  return ncclSuccess;
}

STANDIN_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
  if (!rank || is_under_way(comm) || !standin_comm_acquire(comm))
    return standin_fail(ncclInvalidArgument, "CommUserRank: no such communicator, or not ready, or rank is NULL");
  *rank = comm->rank;
  standin_comm_release(comm);
  return ncclSuccess;
}
