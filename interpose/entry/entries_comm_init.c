/* SPDX-License-Identifier: BSD-3-Clause
 * The exported functions that make communicators. They collect facts about each, and pass them to comm/table.c once
 * NCCL has handed it out.
 */
#include <unistd.h>

#include "env/conf.h"
#include "env/hash.h"
#include "env/host.h"
#include "interpose/comm/table.h"
#include "interpose/entry/adapter.h"
#include "interpose/nccl/process.h"
#include "interpose/profiler/profiler.h"

/* Older callers have shorter structs. */
#define HAS_FIELD(config, field) ((config)->size >= offsetof(ncclConfig_t, field) + sizeof(config)->field)

/* Does a configuration ask for a non-blocking communicator? The environment overrides it. A child inherits its parent's
 * mode only without a configuration of its own. */
static bool asks_nonblocking(const ncclConfig_t *config, bool inherited) {
  int forced = tagc_library_options()->nccl_blocking;
  if (forced >= 0)
    return forced == 0;
  if (!config)
    return inherited;
  return HAS_FIELD(config, blocking) && config->blocking == 0;
}

/* What of NCCL's configuration matters in groups. Will children of a communicator share its connections? NCCL asks the
 * configuration of the parent, not that of the child (ncclCommInitChildComm() in init.cc). A child without one has its
 * parent's. */
static void note_sharing(struct tagc_agreement *agreement, const ncclConfig_t *config,
                         const struct tagc_agreement *parent) {
  agreement->ordered = tagc_host_nccl_number("NCCL_LAUNCH_ORDER_IMPLICIT") > 0;
  agreement->split_shares = config ? HAS_FIELD(config, splitShare) && config->splitShare == 1 : parent->split_shares;
  agreement->shrink_shares =
    config ? config->version >= NCCL_VERSION(2, 27, 0) && HAS_FIELD(config, shrinkShare) && config->shrinkShare == 1
           : parent->shrink_shares;
}

/* Does a new child share them? The environment overrides configurations. */
static bool is_shared(enum tagc_entry function, const struct tagc_agreement *parent) {
  const bool shrink = function == TAGC_ENTRY_ncclCommShrink;
  if (function == TAGC_ENTRY_ncclCommGrow || parent->revoked)
    return false;
  const long long forced =
    tagc_host_nccl_number(shrink ? "NCCL_COMM_SHRINK_SHARE_RESOURCES" : "NCCL_COMM_SPLIT_SHARE_RESOURCES");
  const bool asked = shrink ? parent->shrink_shares : parent->split_shares;
  return forced == -1 ? asked : shrink ? forced != 0 : forced == 1;
}

/* Facts about a communicator before it exists. */
struct comm_init {
  bool nonblocking;
  struct tagc_agreement agreement;
};

/* The memory of buffers, or why no codec runs there. */
static const char *memory_of(const struct tagc_nccl *nccl) {
  const char *why = "CUDA";
  if (nccl->on_host)
    return "host";
  if (nccl->on_rocm)
    return "ROCm";
  return tagc_device_cuda_is_there(&why) ? "CUDA" : why;
}

/* The copy of NCCL for a trace's record; NULL without a trace. */
static const struct tagc_nccl *traced(const struct tagc_nccl *nccl) { return tagc_trace_on() ? nccl : NULL; }

/* With NCCL_COMM_ID all ids are equal and identify nothing. */
static uint64_t identity_of_ids(const ncclUniqueId *ids, int count, int nranks) {
  const bool told = ids && count > 0 && count <= nranks && !tagc_host_ids_are_fixed();
  return told ? tagc_hash_add(TAGC_HASH_START, ids, (size_t)count * sizeof *ids) : 0;
}

/* The identity of communicators that one process makes together. */
static uint64_t identity_of_all(void) {
  static atomic_uint calls;
  const uint64_t said[] = {tagc_host_id(), (uint64_t)getpid(), atomic_fetch_add(&calls, 1)};
  return tagc_hash_add(TAGC_HASH_START, said, sizeof said);
}

/* Before the first look into NCCL's files. */
static void know_version(const struct tagc_nccl *nccl) { tagc_conf_set_version(tagc_real_version(nccl)); }

/* A communicator made from ids: this rank reports to their maker, unless NCCL will refuse the call. */
static struct comm_init from_ids(enum tagc_entry function, const ncclUniqueId *ids, int count, int nranks, int rank,
                                 const ncclConfig_t *config, const struct tagc_nccl *nccl) {
  struct comm_init init = {.agreement.state = TAGC_AGREED_NO};
  if (!watched())
    return init;
  know_version(nccl);
  tagc_profiler_offer(nccl);
  init.nonblocking = asks_nonblocking(config, false);
  if (ids && count > 0 && count <= nranks && nranks > 1 && rank >= 0 && rank < nranks)
    init.agreement = tagc_agree_report(ids, count, nranks, rank, tagc_real_version(nccl), memory_of(nccl));
  note_sharing(&init.agreement, config, &(struct tagc_agreement){0});
  init.agreement.origin =
    (struct tagc_origin){traced(nccl), identity_of_ids(ids, count, nranks), 0, rank, nranks, (uint16_t)function};
  return init;
}

/* A communicator made from another one by a call with arguments `said`: it inherits its parent's agreement. */
static struct comm_init from_parent(enum tagc_entry function, ncclComm_t parent, const ncclConfig_t *config,
                                    const struct tagc_nccl *nccl, const void *said, size_t size) {
  struct comm_init init = {.agreement.state = TAGC_AGREED_NO};
  if (!watched())
    return init;
  if (parent)
    tagc_comm_add_expected(parent);
  init.nonblocking = asks_nonblocking(config, parent && tagc_comm_is_nonblocking(parent));
  if (parent && function != TAGC_ENTRY_ncclCommGrow) /* joining ranks have agreed on nothing: all passes */
    init.agreement = tagc_comm_ask_agreement(parent, nccl);
  if (init.agreement.hosts > 1) /* those of the child are not known here */
    init.agreement.hosts = 0;
  const struct tagc_agreement of_parent = tagc_comm_agreement(parent);
  note_sharing(&init.agreement, config, &of_parent);
  init.agreement.shares = is_shared(function, &of_parent);
  const uint64_t identity = tagc_comm_child_identity(parent, function, said, size);
  if (!identity && of_parent.origin.identity && function != TAGC_ENTRY_ncclCommGrow) {
    /* Nothing tells which ranks of this process are of one communicator. */
    init.agreement.state = TAGC_AGREED_NO;
    tagc_log(
      TAGC_LOG_WARN, "interpose",
      "a communicator comes from one that was shrunk before, so that its ranks cannot tell which children are the "
      "same: all its calls pass");
  }
  init.agreement.origin = (struct tagc_origin){traced(nccl), identity, tagc_trace_on() ? tagc_trace_comm(parent) : 0,
                                               -1,           -1,       (uint16_t)function};
  return init;
}

/* The identity of a child that leaves ranks out, in any order: NCCL sorts them. */
static uint64_t identity_without(uint64_t identity, const int *ranks, int count) {
  uint64_t sum = 0;
  for (int i = 0; i < count; i++)
    sum += tagc_hash_add(TAGC_HASH_START, &ranks[i], sizeof ranks[i]);
  return identity ? tagc_hash_add(identity, &sum, sizeof sum) : 0;
}

/* Lists a communicator that was handed out; returns `status`. A child that NCCL has not stored yet is expected: while a
 * non-blocking parent is in progress, NCCL still writes the handle. */
static ncclResult_t note_comm(const struct tagc_nccl *nccl, ncclResult_t status, ncclComm_t *comm, ncclComm_t parent,
                              const struct comm_init *init) {
  if (!watched() || !comm || !tagc_real_accepts(status))
    return status;
  bool nonblocking = init->nonblocking || status == ncclInProgress;
  ncclComm_t made = parent && status == ncclInProgress ? NULL : *comm;
  bool good = made || !parent ? tagc_comm_add(made, nonblocking, &init->agreement)
                              : tagc_comm_expect(parent, comm, tagc_group_is_open(nccl), nonblocking, &init->agreement);
  if (good && init->agreement.state == TAGC_AGREED_UNKNOWN && !parent)
    tagc_comm_init_is_called(made, tagc_group_is_open(nccl) ? nccl : NULL, status);
  if (good)
    return status;
  tagc_group_fail(nccl, ncclSystemError);
  return tagc_no_memory("a communicator");
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  CALLED(ncclGetUniqueId);
  if (watched())
    know_version(nccl);
  if (id && watched())
    tagc_agree_clear_id(id);
  ncclResult_t status = FORWARD(ncclGetUniqueId, id);
  if (status == ncclSuccess && watched())
    tagc_agree_stamp_id(id);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id) {
  CALLED(ncclCommGetUniqueId, .handle = comm);
  RETURN(FORWARD(ncclCommGetUniqueId, comm, id));
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank) {
  CALLED(ncclCommInitRank, .recv = comm);
  struct comm_init init = from_ids(TAGC_ENTRY_ncclCommInitRank, &id, 1, nranks, rank, NULL, nccl);
  RETURN(note_comm(nccl, FORWARD(ncclCommInitRank, comm, nranks, id, rank), comm, NULL, &init));
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                           ncclConfig_t *config) {
  CALLED(ncclCommInitRankConfig, .recv = comm);
  struct comm_init init = from_ids(TAGC_ENTRY_ncclCommInitRankConfig, &id, 1, nranks, rank, config, nccl);
  RETURN(note_comm(nccl, FORWARD(ncclCommInitRankConfig, comm, nranks, id, rank, config), comm, NULL, &init));
}

EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int ids, ncclUniqueId *id,
                                             ncclConfig_t *config) {
  CALLED(ncclCommInitRankScalable, .recv = comm);
  struct comm_init init = from_ids(TAGC_ENTRY_ncclCommInitRankScalable, id, ids, nranks, rank, config, nccl);
  RETURN(note_comm(nccl, FORWARD(ncclCommInitRankScalable, comm, nranks, rank, ids, id, config), comm, NULL, &init));
}

/* All ranks are in this process, with the same library and options. */
EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices) {
  CALLED(ncclCommInitAll);
  struct comm_init init = {.agreement = {.state = TAGC_AGREED_YES, .hosts = 1}};
  if (watched()) {
    know_version(nccl);
    tagc_profiler_offer(nccl);
  }
  ncclResult_t status = FORWARD(ncclCommInitAll, comms, count, devices);
  init.nonblocking = watched() && asks_nonblocking(NULL, false);
  if (watched())
    init.agreement.origin =
      (struct tagc_origin){traced(nccl), identity_of_all(), 0, 0, count, TAGC_ENTRY_ncclCommInitAll};
  for (int i = 0; comms && i < count && tagc_real_accepts(status); i++) {
    init.agreement.origin.rank = i;
    status = note_comm(nccl, status, &comms[i], NULL, &init);
  }
  RETURN(status);
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config) {
  CALLED(ncclCommSplit, .handle = comm);
  RETURN_IF_REFUSED(comm);
  struct comm_init init = from_parent(TAGC_ENTRY_ncclCommSplit, comm, config, nccl, &color, sizeof color);
  ncclResult_t status = FORWARD(ncclCommSplit, comm, color, key, child, config);
  RETURN(color == NCCL_SPLIT_NOCOLOR ? status : note_comm(nccl, status, child, comm, &init));
}

EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *child, ncclConfig_t *config,
                                   int flags) {
  CALLED(ncclCommShrink, .handle = comm);
  RETURN_IF_REFUSED(comm);
  struct comm_init init = from_parent(TAGC_ENTRY_ncclCommShrink, comm, config, nccl, NULL, 0);
  init.agreement.shares &= !(flags & NCCL_SHRINK_ABORT);
  /* NCCL aborts what runs on the parent, and then takes that back: a call of ours that is between two exchanges must
   * not begin another one. If there is none, the parent is as before, as it is for the ranks that are excluded. */
  struct tagc_comm *alive = watched() && flags & NCCL_SHRINK_ABORT ? tagc_comm_find(comm) : NULL;
  const bool together = tagc_hierarchy_open_group(alive);
  if (alive && (together || atomic_load(&alive->ownership.entered)))
    tagc_entry_begin_anew(comm, false);
  ncclResult_t status = FORWARD(ncclCommShrink, comm, excluded, count, child, config, flags);
  if (tagc_real_accepts(status)) /* else the list may be invalid, and is not read */
    init.agreement.origin.identity = identity_without(init.agreement.origin.identity, excluded, count);
  status = tagc_hierarchy_close_group(alive, together, status);
  tagc_group_ended(nccl, alive);
  tagc_comm_release(alive);
  if (flags & NCCL_SHRINK_ABORT)
    tagc_entry_note_end(&called, status);
  RETURN(note_comm(nccl, status, child, comm, &init));
}

EXPORT ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *child,
                                 ncclConfig_t *config) {
  CALLED(ncclCommGrow, .handle = comm);
  RETURN_IF_REFUSED(comm);
  struct comm_init init = from_parent(TAGC_ENTRY_ncclCommGrow, comm, config, nccl, NULL, 0);
  RETURN(note_comm(nccl, FORWARD(ncclCommGrow, comm, nranks, id, rank, child, config), child, comm, &init));
}
