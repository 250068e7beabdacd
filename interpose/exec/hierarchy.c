/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/hierarchy.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/log.h"
#include "interpose/comm/table.h"
#include "interpose/nccl/process.h"
#include "kernels/codec/bits.h"

/* ---- the first vote ---------------------------------------------------------------------------------------------- */

bool tagc_hierarchy_passes_all(const struct tagc_comm *comm) {
  return comm->hierarchy.located && comm->hierarchy.settled.reason != TAGC_REASON_NONE;
}

bool tagc_hierarchy_can_split(const struct tagc_comm *comm, const struct tagc_nccl_group *real) {
  return real->split && real->reduce && real->create_op && real->destroy_op && !comm->nonblocking &&
         !comm->hierarchy.captured;
}

/* Could some slot be compressed, whatever comm->hierarchy.scope says? Call it with the lock held. */
static bool has_use(const struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot_question question = tagc_slot_question(comm, i);
    question.scope.reason = TAGC_REASON_NONE;
    if (tagc_plan_slot_gate(&question) == TAGC_REASON_NONE)
      return true;
  }
  return false;
}

/* Is it flat though the user wants levels? A codec that adds a host's values itself asks for more. */
static bool lacks_levels(const struct tagc_comm *comm) {
  return tagc_library_options()->scope == TAGC_SCOPE_INTER && tagc_plan_is_exact(tagc_library_options()) &&
         comm->hierarchy.scope.reason == TAGC_REASON_NONE && !comm->hierarchy.scope.two_levels &&
         comm->hierarchy.topology.hosts.local > 1;
}

/* Warns unasked where a user expects compression, or two levels, and gets none. */
static void log_scope(const struct tagc_comm *comm) {
  const struct tagc_topology *t = &comm->hierarchy.topology;
  const bool passes = comm->hierarchy.scope.reason != TAGC_REASON_NONE, warns = passes || lacks_levels(comm);
  char local[32];
  snprintf(local, sizeof local, t->even ? "%d on each" : "uneven, %d on this one", t->hosts.local);
  tagc_log(warns && comm->rank == 0 && has_use(comm) ? TAGC_LOG_WARN : TAGC_LOG_INFO, "interpose",
           "communicator %llu: %d ranks on %d %s, %s: %s%s", (unsigned long long)comm->ledger->number, comm->nranks,
           t->hosts.hosts, t->hosts.hosts == 1 ? "host" : "hosts", local, passes ? "every call passes: " : "",
           passes                             ? tagc_reason_words(comm->hierarchy.scope.reason)
           : comm->hierarchy.scope.two_levels ? "two levels"
           : lacks_levels(comm)               ? "flat: precise takes two levels only on hosts of three ranks or more"
                                              : "flat");
}

bool tagc_hierarchy_locate(struct tagc_comm *comm, const uint32_t *host_of, bool can_split) {
  if (comm->hierarchy.located) {
    if (!can_split && comm->hierarchy.settled.two_levels) {
      tagc_log(TAGC_LOG_WARN, "interpose",
               "communicator %llu: flat from now on: a rank has captured calls of it into a CUDA graph, or "
               "launches without waiting",
               (unsigned long long)comm->ledger->number);
      comm->hierarchy.settled.two_levels = comm->ledger->two_levels = false;
    }
    comm->hierarchy.scope = comm->hierarchy.settled;
    return true;
  }
  comm->hierarchy.located = host_of && tagc_topology_make(&comm->hierarchy.topology, host_of, comm->nranks, comm->rank);
  if (!comm->hierarchy.located)
    return false;
  comm->hierarchy.scope =
    tagc_plan_scope(tagc_library_options(), &comm->hierarchy.topology.hosts, comm->hierarchy.topology.even, can_split);
  comm->hierarchy.settled = comm->hierarchy.scope;
  comm->ledger->hosts = comm->hierarchy.topology.hosts;
  comm->ledger->two_levels = comm->hierarchy.scope.two_levels;
  log_scope(comm);
  return true;
}

static ncclResult_t ask_child(const struct tagc_nccl *nccl, ncclComm_t child) {
  __typeof__(&ncclCommGetAsyncError) ask = TAGC_REAL(ncclCommGetAsyncError, nccl);
  ncclResult_t state = ncclSuccess;
  const ncclResult_t status = ask ? TAGC_IN_REAL(ask(child, &state)) : ncclSuccess;
  return status != ncclSuccess ? status : state;
}

/* NCCL destroys no communicator that has failed, and from 2.26 on it would leave a group open. It aborts any. */
static void end_child(const struct tagc_nccl *nccl, ncclComm_t child, bool abort) {
  if (!child)
    return;
  const ncclResult_t state = abort ? ncclSuccess : ask_child(nccl, child);
  abort |= !tagc_real_accepts(state);
  __typeof__(&ncclCommAbort) end = abort ? TAGC_REAL(ncclCommAbort, nccl) : TAGC_REAL(ncclCommDestroy, nccl);
  if (end)
    (void)TAGC_IN_REAL(end(child));
}

static bool wants_split(struct tagc_comm *comm) {
  if (!comm->hierarchy.scope.two_levels || comm->hierarchy.split)
    return false;
  pthread_mutex_lock(&comm->lock);
  bool used = has_use(comm);
  pthread_mutex_unlock(&comm->lock);
  return used;
}

/* The communicators to split, and their results. */
struct splits {
  struct tagc_comm **comms;
  size_t count;
  ncclComm_t *children;
  enum tagc_level level;
  ncclResult_t refused; /* the call's result, before anything was done */
};

/* Each child gets a color of its own: up to 2.23 NCCL names a child by its parent and its color. Without a
 * configuration the children inherit everything. */
static ncclResult_t enqueue_split(const struct tagc_nccl_group *real, void *splits_, size_t i) {
  struct splits *splits = splits_;
  const struct tagc_comm *comm = splits->comms[i];
  const int own = splits->level == TAGC_LEVEL_INTRA_NODE ? TAGC_AGREE_RANKS + (int)comm->agreement.host
                                                         : comm->hierarchy.topology.local[comm->rank];
  if (tagc_comm_is_aborted(comm))
    return ncclInternalError; /* the program may have got its handle back while another one was split */
  splits->refused = real->split(comm->handle, INT_MAX - own, comm->rank, &splits->children[i], NULL);
  return splits->refused;
}

void tagc_hierarchy_disable(struct tagc_comm *comm) {
  tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu: %s: every call passes",
           (unsigned long long)comm->ledger->number, tagc_reason_words(TAGC_REASON_split));
  pthread_mutex_lock(&comm->lock);
  comm->hierarchy.scope = comm->hierarchy.settled = (struct tagc_scope_plan){.reason = TAGC_REASON_split};
  comm->ledger->two_levels = false;
  pthread_mutex_unlock(&comm->lock);
  tagc_hierarchy_end(comm, false);
}

/* Aborts the children, which NCCL hands out even half made. The communicators are lost, with all their children. */
static void lose_children(const struct splits *splits, ncclResult_t status, bool aborted) {
  if (!aborted)
    tagc_log(TAGC_LOG_ERROR, "interpose",
             "communicator %llu: ncclCommSplit fails with %d, and so does the call: the communicator "
             "cannot be used any more (TAGC_SCOPE=flat does without splits)",
             (unsigned long long)splits->comms[0]->ledger->number, (int)status);
  for (size_t i = 0; i < splits->count; i++)
    end_child(splits->comms[i]->nccl, splits->children[i], true);
}

/* Makes the children of one level. If one communicator is aborted, the others keep their children. */
static ncclResult_t split_level(const struct tagc_nccl_group *real, struct splits *splits) {
  bool aborted = false, late = false;
  splits->refused = ncclSuccess;
  for (size_t i = 0; i < splits->count; i++)
    splits->children[i] = NULL;
  ncclResult_t status = tagc_nccl_group_run_blocking(real, splits->comms, splits->count, enqueue_split, splits, &late);
  for (size_t i = 0; i < splits->count; i++) {
    if (status == ncclSuccess && late)
      end_child(splits->comms[i]->nccl, splits->children[i], false); /* non-blocking like its parent: of no use here */
    else if (status == ncclSuccess)
      atomic_store(&splits->comms[i]->hierarchy.comm[splits->level], splits->children[i]);
    aborted |= tagc_comm_is_aborted(splits->comms[i]);
  }
  splits->refused = aborted ? ncclSuccess : splits->refused;
  if (status != ncclSuccess && !tagc_real_refuses(splits->refused))
    lose_children(splits, status, aborted);
  return status == ncclSuccess && aborted ? ncclInternalError : status;
}

/* Makes one level after the other: in one group, NCCL would pass an abort only to the last child of a parent. */
static ncclResult_t split_levels(const struct tagc_nccl_group *real, struct splits *splits) {
  ncclResult_t status = ncclSuccess;
  for (int level = 0; level < TAGC_LEVELS && status == ncclSuccess; level++) {
    splits->level = (enum tagc_level)level;
    status = split_level(real, splits);
  }
  /* A refusal concerns the call or the communicator, which are equal on all ranks. So every rank gets it, and none
   * waits for the others. Any other error is this rank's own. */
  if (!tagc_real_refuses(splits->refused))
    return status;
  for (size_t i = 0; i < splits->count; i++)
    tagc_hierarchy_disable(splits->comms[i]);
  return ncclSuccess;
}

ncclResult_t tagc_hierarchy_split(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, size_t count) {
  struct splits splits = {.comms = malloc(count * sizeof(*splits.comms)),
                          .children = malloc(count * sizeof *splits.children)};
  ncclResult_t status = splits.comms && splits.children ? ncclSuccess : tagc_no_memory("sub-communicators");
  for (size_t i = 0; i < count && status == ncclSuccess; i++)
    if (wants_split(comms[i])) {
      comms[i]->hierarchy.split = true;
      splits.comms[splits.count++] = comms[i];
    } else if (comms[i]->hierarchy.split && !tagc_hierarchy_is_ready(comms[i])) {
      status = ncclInternalError; /* a split failed, and the program went on: the other ranks may have their children */
    }
  if (splits.count && status == ncclSuccess)
    status = split_levels(real, &splits);
  free(splits.comms);
  free(splits.children);
  return status;
}

bool tagc_hierarchy_is_ready(const struct tagc_comm *comm) {
  return !comm->hierarchy.scope.two_levels || (atomic_load(&comm->hierarchy.comm[TAGC_LEVEL_INTRA_NODE]) &&
                                               atomic_load(&comm->hierarchy.comm[TAGC_LEVEL_INTER_NODE]));
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

/* Each rank has a scalar of its own, and a user-defined operator belongs to one communicator: the sub-communicator gets
 * one for this call. Even for a scalar of 1: without one NCCL uses other algorithms: ranks would differ. */
static ncclResult_t make_level_op(const struct tagc_nccl_group *real, const struct tagc_call *call, ncclComm_t host,
                                  ncclRedOp_t *op) {
  uint8_t scalar[4];
  *op = call->op_kind == TAGC_OP_AVG ? ncclAvg : ncclSum;
  if (call->op_kind != TAGC_OP_PREMULSUM)
    return ncclSuccess;
  enum tagc_dtype dtype = call->comm->slots[call->slot].packed.dtype;
  tagc_store(scalar, 0, dtype, call->scale);
  return real->create_op(op, scalar, call->type, ncclScalarHostImmediate, host);
}

ncclResult_t tagc_hierarchy_sum(const struct tagc_nccl_group *real, const struct tagc_call *call,
                                const struct tagc_shape *shape, uint8_t *sums) {
  const struct tagc_topology *t = &call->comm->hierarchy.topology;
  const ncclComm_t host = atomic_load(&call->comm->hierarchy.comm[TAGC_LEVEL_INTRA_NODE]);
  const size_t n = shape->n, shard = n * tagc_dtype_size(shape->dtype);
  const size_t local = (size_t)t->hosts.local, hosts = (size_t)t->hosts.hosts;
  const uint8_t *send = call->send;
  ncclRedOp_t op;
  ncclResult_t status = make_level_op(real, call, host, &op);
  if (status != ncclSuccess)
    return status;
  if (t->placement == TAGC_STRIPES)
    status = real->reduce_scatter(send, sums, hosts * n, call->type, op, host, call->stream);
  for (size_t h = 0; h < hosts && t->placement == TAGC_BLOCKS && status == ncclSuccess; h++)
    status = real->reduce_scatter(send + h * local * shard, sums + h * shard, n, call->type, op, host, call->stream);
  for (size_t r = 0; r < local * hosts && t->placement == TAGC_SCATTERED && status == ncclSuccess; r++)
    status = real->reduce(send + r * shard, sums + (size_t)t->place[r] * shard, n, call->type, op, t->local[r], host,
                          call->stream);
  if (op >= ncclNumOps)
    real->destroy_op(op, host); /* enqueued calls keep it */
  return status;
}

bool tagc_hierarchy_copy_own(const struct tagc_call *call, const struct tagc_shape *shape, const uint8_t *from,
                             uint8_t *values) {
  const struct tagc_device *device = call->comm->device;
  const struct tagc_topology *t = &call->comm->hierarchy.topology;
  const size_t shard = shape->n * tagc_dtype_size(shape->dtype), hosts = (size_t)t->hosts.hosts;
  const int own = t->local[call->comm->rank];
  bool good = true;
  for (int owner = 0; owner < t->hosts.nranks && good; owner++)
    if (t->local[owner] == own)
      good = device->copy(device, values + ((size_t)own * hosts + (size_t)t->place[owner]) * shard, shard,
                          from + (size_t)owner * shard, shard, shard, 1, call->stream);
  return good;
}

ncclResult_t tagc_hierarchy_gather(const struct tagc_nccl_group *real, const struct tagc_call *call,
                                   const struct tagc_shape *shape, const uint8_t *from, uint8_t *values) {
  const struct tagc_topology *t = &call->comm->hierarchy.topology;
  const ncclComm_t host = atomic_load(&call->comm->hierarchy.comm[TAGC_LEVEL_INTRA_NODE]);
  const size_t shard = shape->n * tagc_dtype_size(shape->dtype), hosts = (size_t)t->hosts.hosts;
  const int own = t->local[call->comm->rank];
  ncclResult_t status = ncclSuccess;
  for (int owner = 0; owner < t->hosts.nranks && status == ncclSuccess; owner++) {
    const int local = t->local[owner];
    if (local != own)
      status = real->send(from + (size_t)owner * shard, shape->n, call->type, local, host, call->stream);
  }
  for (int local = 0; local < t->hosts.local; local++)
    for (size_t place = 0; place < hosts && local != own && status == ncclSuccess; place++)
      status = real->receive(values + ((size_t)local * hosts + place) * shard, shape->n, call->type, local, host,
                             call->stream);
  return status;
}

ncclResult_t tagc_hierarchy_exchange_values(const struct tagc_nccl_group *real, const struct tagc_call *call,
                                            const struct tagc_shape *shape, int host, const uint8_t *out, uint8_t *in) {
  const struct tagc_exchange_comm peers = tagc_hierarchy_exchange_comm(call->comm);
  const size_t shard = shape->n * tagc_dtype_size(shape->dtype);
  ncclResult_t status = ncclSuccess;
  for (int local = 0; local < shape->local && status == ncclSuccess; local++) {
    const size_t at = ((size_t)local * (size_t)shape->nranks + (size_t)host) * shard;
    if (out)
      status = real->send(out + at, shape->n, call->type, host, peers.handle, call->stream);
    if (in && status == ncclSuccess)
      status = real->receive(in + at, shape->n, call->type, host, peers.handle, call->stream);
  }
  return status;
}

ncclResult_t tagc_hierarchy_max(const struct tagc_nccl_group *real, const struct tagc_call *call, int64_t *words,
                                size_t count) {
  const ncclComm_t host = atomic_load(&call->comm->hierarchy.comm[TAGC_LEVEL_INTRA_NODE]);
  return real->all_reduce(words, words, count, ncclInt64, ncclMax, host, call->stream);
}

size_t tagc_hierarchy_connect_words(const struct tagc_comm *comm) { return 3 * (size_t)comm->nranks + TAGC_LEVELS; }

/* Greets each rank but oneself with the first word; their words go to `in`. */
static ncclResult_t greet(const struct tagc_nccl_group *real, const struct tagc_call *call, ncclComm_t handle,
                          int nranks, int rank, const int64_t *words, int64_t *in) {
  ncclResult_t status = ncclSuccess;
  for (int peer = 0; peer < nranks && status == ncclSuccess; peer++) {
    if (peer == rank)
      continue;
    status = real->send(words, 1, ncclInt64, peer, handle, call->stream);
    if (status == ncclSuccess)
      status = real->receive(in + peer, 1, ncclInt64, peer, handle, call->stream);
  }
  return status;
}

ncclResult_t tagc_hierarchy_connect(const struct tagc_nccl_group *real, const struct tagc_call *call, int64_t *words) {
  const struct tagc_comm *comm = call->comm;
  const struct tagc_exchange_comm peers = tagc_hierarchy_exchange_comm(comm);
  int64_t *in = words + comm->nranks;
  ncclResult_t status = greet(real, call, peers.handle, peers.nranks, peers.rank, words, in);
  if (tagc_hierarchy_exact_ranks(comm) && status == ncclSuccess)
    status =
      greet(real, call, atomic_load(&comm->hierarchy.comm[TAGC_LEVEL_INTRA_NODE]), comm->hierarchy.topology.hosts.local,
            comm->hierarchy.topology.local[comm->rank], words, in + comm->nranks + TAGC_LEVELS);
  /* NCCL has already connected the ring of the whole communicator. */
  for (int level = 0; level < TAGC_LEVELS && comm->hierarchy.scope.two_levels && status == ncclSuccess; level++)
    status = real->reduce_scatter(words, in + comm->nranks + level, 1, ncclInt64, ncclMin,
                                  atomic_load(&comm->hierarchy.comm[level]), call->stream);
  return status;
}

void tagc_hierarchy_note_capture(struct tagc_comm *comm) {
  pthread_mutex_lock(&comm->lock);
  const bool late = comm->sync.order.kept && !comm->hierarchy.captured;
  comm->hierarchy.captured = true;
  pthread_mutex_unlock(&comm->lock);
  if (late)
    tagc_log(TAGC_LOG_WARN, "interpose",
             "communicator %llu: a call is captured into a CUDA graph, and others go in two levels: they must "
             "not run while the graph does (TAGC_SCOPE=flat does without levels)",
             (unsigned long long)comm->ledger->number);
}

/* ---- how they fare, and their end -------------------------------------------------------------------------------- */

ncclResult_t tagc_hierarchy_error(ncclComm_t handle) {
  struct tagc_comm *comm = tagc_comm_find(handle);
  ncclResult_t worst = ncclSuccess;
  if (!comm)
    return ncclSuccess;
  atomic_fetch_add(&comm->hierarchy.askers, 1);
  for (int level = 0; level < TAGC_LEVELS && worst == ncclSuccess; level++) {
    ncclComm_t child = atomic_load(&comm->hierarchy.comm[level]);
    worst = child ? ask_child(comm->nccl, child) : ncclSuccess;
  }
  atomic_fetch_sub(&comm->hierarchy.askers, 1);
  tagc_comm_release(comm);
  return worst;
}

bool tagc_hierarchy_open_group(const struct tagc_comm *comm) {
  bool any = false;
  for (int level = 0; comm && level < TAGC_LEVELS; level++)
    any |= atomic_load(&comm->hierarchy.comm[level]) != NULL;
  ncclResult_t (*start)(void) = any ? TAGC_REAL(ncclGroupStart, comm->nccl) : NULL;
  return start && TAGC_IN_REAL(start()) == ncclSuccess;
}

ncclResult_t tagc_hierarchy_close_group(const struct tagc_comm *comm, bool opened, ncclResult_t status) {
  if (!opened)
    return status;
  const ncclResult_t ended = TAGC_IN_REAL(TAGC_REAL(ncclGroupEnd, comm->nccl)());
  return status == ncclSuccess ? ended : status;
}

void tagc_hierarchy_end(struct tagc_comm *comm, bool abort) {
  for (int level = TAGC_LEVELS; comm && level-- > 0;) {
    ncclComm_t child = atomic_exchange(&comm->hierarchy.comm[level], NULL);
    while (child && atomic_load(&comm->hierarchy.askers) > 0)
      sched_yield(); /* the askers do not wait for anything */
    end_child(comm->nccl, child, abort);
  }
}
