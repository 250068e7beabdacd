/* SPDX-License-Identifier: BSD-3-Clause
 * The exported functions: adapters between NCCL's signatures and the rest of the library. nccl.h declares them, so a
 * signature that does not agree with it does not compile.
 *
 * Collectives fill a struct tagc_call and go to tagc_dispatch(). Everything else is forwarded here; where it must be
 * known (births and deaths of communicators, user-defined reductions), it is told to comm.c before or after.
 */
#include <errno.h>

#include "interpose/background.h"
#include "interpose/call.h"
#include "interpose/comm.h"
#include "interpose/group.h"
#include "interpose/levels.h"
#include "interpose/library.h"
#include "interpose/ranges.h"

#define EXPORT __attribute__((visibility("default")))

/* The first line of every adapter: the copy of NCCL that is meant, `nccl` from there on. Before anything else, as whatever
 * calls NCCL, too, would take the note of the stub. Keeps errno for FORWARD(). Behind the name stands what the trace tells of a
 * call, as fields of struct tagc_call. */
#define CALLED(name, ...)                                                                                              \
  __attribute__((cleanup(restore_errno))) int called_errno = errno;                                                    \
  const struct tagc_nccl *nccl = tagc_real_called(__builtin_return_address(0));                                        \
  __attribute__((cleanup(end_trace))) struct tagc_call called;                                                         \
  called.trace.number = 0;                                                                                             \
  if (watched() && tagc_trace_on()) {                                                                                  \
    called = (struct tagc_call){.entry = TAGC_ENTRY_##name, .nccl = nccl, __VA_ARGS__};                                \
    tagc_trace_enter(&called);                                                                                         \
  }

/* How every adapter ends. */
#define RETURN(status) return called.trace.result = (status)

/* What the real function has left in errno is what the program finds there: our own work before and after it leaves none. */
static inline void restore_errno(const int *called_errno) { errno = *called_errno; }

static inline void end_trace(struct tagc_call *called) { tagc_trace_call(called, called->trace.result); }

/* Does this call want more than forwarding? Not with TAGC_MODE=off, and not when NCCL calls itself. */
static inline bool watched(void) { return tagc_real_depth == 0 && tagc_library_on(); }

/* Calls the real function as it came; a function that this NCCL does not have is missed by its caller alone. */
#define FORWARD(name, ...)                                                                                             \
  ({                                                                                                                   \
    __typeof__(&name) forward_real = TAGC_REAL(name, nccl);                                                            \
    ncclResult_t forward_status = ncclSystemError;                                                                     \
    if (forward_real) {                                                                                                \
      tagc_real_depth++;                                                                                               \
      errno = called_errno;                                                                                            \
      forward_status = forward_real(__VA_ARGS__);                                                                      \
      called_errno = errno;                                                                                            \
      tagc_real_depth--;                                                                                               \
    }                                                                                                                  \
    forward_status;                                                                                                    \
  })

/* The same for a call that is neither a collective nor neutral to a group: what is held goes first. */
#define MIX_AND_FORWARD(name, ...)                                                                                     \
  ({                                                                                                                   \
    ncclResult_t mixed_status = watched() ? tagc_group_mix(nccl) : ncclSuccess;                                        \
    mixed_status == ncclSuccess ? FORWARD(name, __VA_ARGS__) : mixed_status;                                           \
  })

/* The same for what works on a stream beside the collectives. */
#define MIX_AND_FORWARD_IN_ORDER(name, ...)                                                                            \
  ({                                                                                                                   \
    struct tagc_comm *ordered_comm = watched() ? tagc_levels_find_ordered(comm) : NULL;                                \
    tagc_levels_before_plain(ordered_comm, stream);                                                                    \
    ncclResult_t ordered_status = MIX_AND_FORWARD(name, __VA_ARGS__);                                                  \
    if (!tagc_group_passed(nccl, ordered_comm, stream)) {                                                              \
      ordered_status = tagc_no_memory("a call of a group");                                                            \
      tagc_group_fail(nccl, ordered_status);                                                                           \
    }                                                                                                                  \
    tagc_comm_release(ordered_comm);                                                                                   \
    ordered_status;                                                                                                    \
  })

/* Is a launch on this communicator under way in the background? NCCL refuses most calls then. */
static inline bool busy(ncclComm_t comm) { return watched() && tagc_background_ask(comm) == ncclInProgress; }

/* The same for a call that is part of a group, which is refused with it. */
static inline bool refused(const struct tagc_nccl *nccl, ncclComm_t comm)
{
  if (!busy(comm))
    return false;
  tagc_group_fail(nccl, ncclInvalidArgument);
  return true;
}

/* A collective: with TAGC_MODE=off one load and one branch more than the direct call. */
#define COLLECTIVE(name, arguments, ...)                                                                               \
  do {                                                                                                                 \
    const struct tagc_nccl *nccl = tagc_real_called(__builtin_return_address(0));  /* tagc_dispatch() keeps errno */   \
    if (!tagc_library_on()) {                                                                                          \
      __typeof__(&name) off_real = TAGC_REAL(name, nccl);                                                              \
      return off_real ? off_real arguments : ncclSystemError;                                                          \
    }                                                                                                                  \
    struct tagc_call call = {.entry = TAGC_ENTRY_##name, .nccl = nccl, .type = type, .handle = comm,                   \
                             .stream = stream, .count = count, __VA_ARGS__};                                           \
    return tagc_dispatch(&call);                                                                                       \
  } while (0)

/* ---- collectives ------------------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, cudaStream_t stream)
{
  COLLECTIVE(ncclReduceScatter, (send, recv, count, type, op, comm, stream), .send = send, .recv = recv, .op = op);
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                  cudaStream_t stream)
{
  COLLECTIVE(ncclAllGather, (send, recv, count, type, comm, stream), .send = send, .recv = recv);
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, cudaStream_t stream)
{
  COLLECTIVE(ncclAllReduce, (send, recv, count, type, op, comm, stream), .send = send, .recv = recv, .op = op);
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream)
{
  COLLECTIVE(ncclBroadcast, (send, recv, count, type, root, comm, stream), .send = send, .recv = recv, .root = root);
}

EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream)
{
  COLLECTIVE(ncclBcast, (buffer, count, type, root, comm, stream), .send = buffer, .recv = buffer, .root = root);
}

EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                               ncclComm_t comm, cudaStream_t stream)
{
  COLLECTIVE(ncclReduce, (send, recv, count, type, op, root, comm, stream), .send = send, .recv = recv, .op = op,
             .root = root);
}

EXPORT ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                 cudaStream_t stream)
{
  COLLECTIVE(ncclAlltoAll, (send, recv, count, type, comm, stream), .send = send, .recv = recv);
}

EXPORT ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                               cudaStream_t stream)
{
  COLLECTIVE(ncclGather, (send, recv, count, type, root, comm, stream), .send = send, .recv = recv, .root = root);
}

EXPORT ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream)
{
  COLLECTIVE(ncclScatter, (send, recv, count, type, root, comm, stream), .send = send, .recv = recv, .root = root);
}

/* ---- point to point and one-sided ---------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream)
{
  CALLED(ncclSend, .send = send, .count = count, .type = type, .root = peer, .handle = comm, .stream = stream);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  RETURN(MIX_AND_FORWARD_IN_ORDER(ncclSend, send, count, type, peer, comm, stream));
}

EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
  CALLED(ncclRecv, .recv = recv, .count = count, .type = type, .root = peer, .handle = comm, .stream = stream);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  RETURN(MIX_AND_FORWARD_IN_ORDER(ncclRecv, recv, count, type, peer, comm, stream));
}

EXPORT ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                                  size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
                                  cudaStream_t stream)
{
  CALLED(ncclPutSignal, .send = local, .count = count, .type = type, .root = peer, .handle = comm, .stream = stream);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  RETURN(MIX_AND_FORWARD_IN_ORDER(ncclPutSignal, local, count, type, peer, window, offset, signal, context, flags, comm, stream));
}

EXPORT ncclResult_t ncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream)
{
  CALLED(ncclSignal, .root = peer, .handle = comm, .stream = stream);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  RETURN(MIX_AND_FORWARD_IN_ORDER(ncclSignal, peer, signal, context, flags, comm, stream));
}

EXPORT ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t *signals, ncclComm_t comm, cudaStream_t stream)
{
  CALLED(ncclWaitSignal, .handle = comm, .stream = stream);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  RETURN(MIX_AND_FORWARD_IN_ORDER(ncclWaitSignal, count, signals, comm, stream));
}

/* ---- groups -------------------------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclGroupStart(void)
{
  CALLED(ncclGroupStart);
  RETURN(watched() ? tagc_group_start(nccl, &called_errno) : FORWARD(ncclGroupStart));
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
  CALLED(ncclGroupEnd);
  if (!watched())
    RETURN(FORWARD(ncclGroupEnd));
  ncclResult_t status = tagc_group_end(nccl, &called_errno);
  /* The outermost end makes the communicators that were asked for in the group. */
  if (!tagc_group_is_open(nccl) && !tagc_comm_collect(NULL, status != ncclSuccess && status != ncclInProgress))
    RETURN(tagc_no_memory("a communicator"));
  RETURN(status);
}

EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
  CALLED(ncclGroupSimulateEnd);
  RETURN(watched() ? tagc_group_simulate_end(nccl, info, &called_errno) : FORWARD(ncclGroupSimulateEnd, info));
}

/* ---- communicators: births ----------------------------------------------------------------------------------------- */

/* Does a configuration ask for a non-blocking communicator? The environment has the last word. Older callers have shorter structs. A child inherits that of
 * its parent only without a configuration of its own. */
static bool asks_nonblocking(const ncclConfig_t *config, bool inherited)
{
  int forced = tagc_library_options()->nccl_blocking;
  if (forced >= 0)
    return forced == 0;
  if (!config)
    return inherited;
  return config->size >= offsetof(ncclConfig_t, blocking) + sizeof config->blocking && config->blocking == 0;
}

/* What is known of a communicator before it is there. */
struct birth {
  bool nonblocking;
  struct tagc_agreement agreement;
};

/* Where buffers are, and whether codecs run there. */
static const char *memory_of(const struct tagc_nccl *nccl)
{
  const char *why = "CUDA";
  if (nccl->on_host)
    return "host";
  return tagc_device_cuda_is_there(&why) ? "CUDA" : why;
}

/* A communicator made from ids: this rank reports to their maker. What NCCL will refuse is not reported. */
static struct birth from_ids(enum tagc_entry function, const ncclUniqueId *ids, int count, int nranks, int rank,
                             const ncclConfig_t *config, const struct tagc_nccl *nccl)
{
  struct birth birth = {.agreement.state = TAGC_AGREED_NO};
  if (!watched())
    return birth;
  birth.nonblocking = asks_nonblocking(config, false);
  if (ids && count > 0 && nranks > 1 && rank >= 0 && rank < nranks)
    birth.agreement = tagc_agree_report(ids, count, nranks, rank, tagc_real_version(nccl), memory_of(nccl));
  if (tagc_trace_on())
    birth.agreement.origin = tagc_trace_birth_of_ids(nccl, (uint16_t)function, ids, count, nranks, rank);
  return birth;
}

/* A communicator made from another one: it inherits what the ranks of that have agreed on. */
static struct birth from_parent(ncclComm_t parent, const ncclConfig_t *config, const struct tagc_nccl *nccl)
{
  struct birth birth = {.agreement.state = TAGC_AGREED_NO};
  if (!watched() || !parent)
    return birth;
  birth.nonblocking = asks_nonblocking(config, tagc_comm_is_nonblocking(parent));
  birth.agreement = tagc_comm_settle(parent, nccl);
  return birth;
}

/* For the trace: a child that all ranks get who make this call with equal `said`. */
static void note_origin(struct birth *birth, const struct tagc_call *called, const void *said, size_t size)
{
  if (called->trace.number)
    birth->agreement.origin = tagc_trace_birth_of_parent(called->nccl, (uint16_t)called->entry, called->handle, said, size);
}

/* Tells of a communicator that was handed out; returns `status`. A child that NCCL has not stored yet is waited for; while a
 * non-blocking parent is still at it, the handle is NCCL's to write. */
static ncclResult_t born(const struct tagc_nccl *nccl, ncclResult_t status, ncclComm_t *comm, ncclComm_t parent,
                         const struct birth *birth)
{
  if (!watched() || !comm || (status != ncclSuccess && status != ncclInProgress))
    return status;
  bool nonblocking = birth->nonblocking || status == ncclInProgress;
  ncclComm_t made = parent && status == ncclInProgress ? NULL : *comm;
  bool good = made || !parent ? tagc_comm_born(made, nonblocking, &birth->agreement)
                              : tagc_comm_expect(parent, comm, nonblocking, &birth->agreement);
  if (good)
    return status;
  tagc_group_fail(nccl, ncclSystemError);
  return tagc_no_memory("a communicator");
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
  CALLED(ncclGetUniqueId);
  if (id && watched())
    tagc_agree_clear_id(id);
  ncclResult_t status = FORWARD(ncclGetUniqueId, id);
  if (status == ncclSuccess && watched())
    tagc_agree_stamp_id(id);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id)
{
  CALLED(ncclCommGetUniqueId, .handle = comm);
  RETURN(FORWARD(ncclCommGetUniqueId, comm, id));
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
  CALLED(ncclCommInitRank, .recv = comm);
  struct birth birth = from_ids(TAGC_ENTRY_ncclCommInitRank, &id, 1, nranks, rank, NULL, nccl);
  RETURN(born(nccl, MIX_AND_FORWARD(ncclCommInitRank, comm, nranks, id, rank), comm, NULL, &birth));
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
  CALLED(ncclCommInitRankConfig, .recv = comm);
  struct birth birth = from_ids(TAGC_ENTRY_ncclCommInitRankConfig, &id, 1, nranks, rank, config, nccl);
  RETURN(born(nccl, MIX_AND_FORWARD(ncclCommInitRankConfig, comm, nranks, id, rank, config), comm, NULL, &birth));
}

EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int ids, ncclUniqueId *id,
                                             ncclConfig_t *config)
{
  CALLED(ncclCommInitRankScalable, .recv = comm);
  struct birth birth = from_ids(TAGC_ENTRY_ncclCommInitRankScalable, id, ids, nranks, rank, config, nccl);
  RETURN(born(nccl, MIX_AND_FORWARD(ncclCommInitRankScalable, comm, nranks, rank, ids, id, config), comm, NULL, &birth));
}

/* All ranks are in this process: they have the same library and options. */
EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
  CALLED(ncclCommInitAll);
  struct birth birth = {.agreement = {.state = TAGC_AGREED_YES, .hosts = 1}};
  ncclResult_t status = MIX_AND_FORWARD(ncclCommInitAll, comms, count, devices);
  birth.nonblocking = watched() && asks_nonblocking(NULL, false);
  if (called.trace.number)
    birth.agreement.origin = tagc_trace_birth_of_all(nccl, count);
  for (int i = 0; comms && i < count && (status == ncclSuccess || status == ncclInProgress); i++) {
    birth.agreement.origin.rank = i;
    status = born(nccl, status, &comms[i], NULL, &birth);
  }
  RETURN(status);
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
  CALLED(ncclCommSplit, .handle = comm);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  struct birth birth = from_parent(comm, config, nccl);
  note_origin(&birth, &called, &color, sizeof color);
  ncclResult_t status = MIX_AND_FORWARD(ncclCommSplit, comm, color, key, child, config);
  RETURN(color == NCCL_SPLIT_NOCOLOR ? status : born(nccl, status, child, comm, &birth));
}

/* What was under way on a communicator is aborted, and it may only be shrunk and destroyed: nothing is left of it here but what
 * its children inherit. */
static void begin_anew(ncclComm_t comm)
{
  const bool nonblocking = tagc_comm_is_nonblocking(comm);
  struct tagc_agreement agreement = tagc_comm_agreement(comm);
  agreement.origin.nccl = NULL;     /* the handle stays what it is */
  struct tagc_comm *ended = tagc_comm_abort(comm);
  tagc_levels_end(ended, true);     /* in the group: NCCL takes its own abort back in the end, which they may share */
  tagc_comm_release(ended);
  tagc_comm_born(comm, nonblocking, &agreement);
}

/* For the trace: of the communicator nothing is left but a handle to destroy. */
static void note_end(const struct tagc_call *called, ncclResult_t status)
{
  if (called->trace.number && !tagc_real_refuses(status))
    tagc_trace_comm_ends(called->trace.comm, called->handle, (uint16_t)called->entry, true);
}

EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *child, ncclConfig_t *config,
                                   int flags)
{
  CALLED(ncclCommShrink, .handle = comm);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  struct birth birth = from_parent(comm, config, nccl);
  note_origin(&birth, &called, excluded, excluded && count > 0 ? (size_t)count * sizeof *excluded : 0);
  struct tagc_comm *alive = watched() && flags & NCCL_SHRINK_ABORT ? tagc_comm_find(comm) : NULL;
  bool together = tagc_levels_open_group(alive);
  if (together)
    begin_anew(comm);
  ncclResult_t status = MIX_AND_FORWARD(ncclCommShrink, comm, excluded, count, child, config, flags);
  status = tagc_levels_close_group(alive, together, status);
  tagc_comm_abort_is_over(alive);
  tagc_comm_release(alive);
  if (flags & NCCL_SHRINK_ABORT)
    note_end(&called, status);
  RETURN(born(nccl, status, child, comm, &birth));
}

/* Ranks that join have made no agreement with those that are there: the larger communicator passes through. */
EXPORT ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *child,
                                 ncclConfig_t *config)
{
  CALLED(ncclCommGrow, .handle = comm);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  bool inherited = watched() && comm && tagc_comm_is_nonblocking(comm);
  struct birth birth = {.nonblocking = watched() && asks_nonblocking(config, inherited)};
  note_origin(&birth, &called, NULL, 0);
  RETURN(born(nccl, MIX_AND_FORWARD(ncclCommGrow, comm, nranks, id, rank, child, config), child, comm, &birth));
}

/* ---- communicators: how they fare, and deaths. They enqueue nothing, and so mix no group: a rank may clean up when it
 * likes. ---- */

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
  CALLED(ncclCommFinalize, .handle = comm);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  ncclResult_t status = FORWARD(ncclCommFinalize, comm);
  if (watched() && (status == ncclSuccess || status == ncclInProgress)) {
    struct tagc_comm *ended = tagc_comm_forget(comm);
    tagc_levels_end(ended, false);
    tagc_comm_release(ended);
  }
  RETURN(status);
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
  CALLED(ncclCommDestroy, .handle = comm);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  if (!watched())
    RETURN(FORWARD(ncclCommDestroy, comm));
  struct tagc_leave leave = tagc_comm_take_leave(comm);
  tagc_ranges_forget(comm);
  ncclResult_t status = FORWARD(ncclCommDestroy, comm);
  if (tagc_real_refuses(status))
    RETURN(tagc_comm_stay(&leave) ? status : tagc_no_memory("a communicator"));
  tagc_comm_collect(comm, true);
  tagc_levels_end(leave.comm, false);
  tagc_comm_release(leave.comm);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
  CALLED(ncclCommAbort, .handle = comm);
  struct tagc_comm *ended = NULL;
  if (watched()) {
    ended = tagc_comm_abort(comm);
    tagc_comm_collect(comm, true);
    tagc_ranges_forget(comm);
  }
  bool together = tagc_levels_open_group(ended);
  tagc_levels_end(ended, true);
  ncclResult_t status = tagc_levels_close_group(ended, together, FORWARD(ncclCommAbort, comm));
  tagc_comm_abort_is_over(ended);
  tagc_comm_release(ended);
  RETURN(status);
}

/* Where a program learns that a launch in the background is over, and that a non-blocking communicator has its children. */
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
  CALLED(ncclCommGetAsyncError, .handle = comm);
  ncclResult_t ours = watched() && error ? tagc_background_ask(comm) : ncclSuccess;
  if (ours != ncclSuccess) {
    *error = ours;
    RETURN(ncclSuccess);
  }
  ncclResult_t status = FORWARD(ncclCommGetAsyncError, comm, error);
  if (status == ncclSuccess && watched() && *error != ncclInProgress && !tagc_comm_collect(comm, *error != ncclSuccess))
    RETURN(tagc_no_memory("a communicator"));
  if (status == ncclSuccess && watched() && *error == ncclSuccess)
    *error = tagc_levels_error(comm);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
  CALLED(ncclCommRevoke, .handle = comm);
  struct tagc_comm *alive = watched() ? tagc_comm_find(comm) : NULL;
  bool together = tagc_levels_open_group(alive);
  ncclResult_t status = FORWARD(ncclCommRevoke, comm, flags);
  if (watched() && comm && !tagc_real_refuses(status))
    begin_anew(comm);
  status = tagc_levels_close_group(alive, together, status);
  tagc_comm_abort_is_over(alive);
  tagc_comm_release(alive);
  note_end(&called, status);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
  CALLED(ncclCommSuspend, .handle = comm);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  RETURN(MIX_AND_FORWARD(ncclCommSuspend, comm, flags));
}

EXPORT ncclResult_t ncclCommResume(ncclComm_t comm)
{
  CALLED(ncclCommResume, .handle = comm);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  RETURN(MIX_AND_FORWARD(ncclCommResume, comm));
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
  CALLED(ncclCommRegister, .handle = comm);
  if (busy(comm))
    RETURN(ncclInvalidArgument);
  ncclResult_t status = FORWARD(ncclCommRegister, comm, buffer, size, handle);
  if (status == ncclSuccess && watched() && handle && *handle)
    tagc_ranges_add(comm, buffer, size, *handle);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
  CALLED(ncclCommDeregister, .handle = comm);
  if (busy(comm))
    RETURN(ncclInvalidArgument);
  if (watched())
    tagc_ranges_remove(comm, handle);
  RETURN(FORWARD(ncclCommDeregister, comm, handle));
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags)
{
  CALLED(ncclCommWindowRegister, .handle = comm);
  if (refused(nccl, comm))
    RETURN(ncclInvalidArgument);
  ncclResult_t status = MIX_AND_FORWARD(ncclCommWindowRegister, comm, buffer, size, window, flags);
  /* In a group, NCCL stores the window at its end: such a one is not known here. It may also store none. */
  if (status == ncclSuccess && watched() && !tagc_group_is_open(nccl) && window && *window)
    tagc_ranges_add(comm, buffer, size, *window);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
  CALLED(ncclCommWindowDeregister, .handle = comm);
  if (busy(comm))
    RETURN(ncclInvalidArgument);
  if (watched())
    tagc_ranges_remove(comm, window);
  RETURN(FORWARD(ncclCommWindowDeregister, comm, window));
}

EXPORT ncclResult_t ncclMemAlloc(void **pointer, size_t size)
{
  CALLED(ncclMemAlloc);
  ncclResult_t status = FORWARD(ncclMemAlloc, pointer, size);
  if (status == ncclSuccess && watched() && pointer)
    tagc_ranges_add(NULL, *pointer, size, *pointer);
  RETURN(status);
}

EXPORT ncclResult_t ncclMemFree(void *pointer)
{
  CALLED(ncclMemFree);
  if (watched())
    tagc_ranges_remove(NULL, pointer);
  RETURN(FORWARD(ncclMemFree, pointer));
}

/* ---- user-defined reductions --------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                             ncclScalarResidence_t residence, ncclComm_t comm)
{
  CALLED(ncclRedOpCreatePreMulSum, .type = type, .handle = comm);
  if (busy(comm))
    RETURN(ncclInvalidArgument);
  ncclResult_t status = FORWARD(ncclRedOpCreatePreMulSum, op, scalar, type, residence, comm);
  if (status == ncclSuccess && watched() && !tagc_op_created(*op, comm, type, scalar, residence))
    RETURN(tagc_no_memory("a user-defined reduction"));  /* taken for an unknown op here alone, it would part the ranks */
  RETURN(status);
}

EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
  CALLED(ncclRedOpDestroy, .handle = comm);
  if (watched()) {
    if (tagc_group_defer_destroy(nccl, op, comm) || tagc_background_defer_destroy(op, comm))
      RETURN(ncclSuccess);
    tagc_op_destroyed(op, comm);
  }
  RETURN(FORWARD(ncclRedOpDestroy, op, comm));
}
