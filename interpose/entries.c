/* SPDX-License-Identifier: BSD-3-Clause
 * The exported functions: adapters between NCCL's signatures and the rest of the library. nccl.h declares them, so a
 * signature that does not agree with it does not compile.
 *
 * Collectives fill a struct tagc_call and go to tagc_dispatch(). Everything else is forwarded here; where it must be
 * known (births and deaths of communicators, user-defined reductions), it is told to comm.c before or after.
 */
#include "interpose/background.h"
#include "interpose/call.h"
#include "interpose/comm.h"
#include "interpose/group.h"
#include "interpose/library.h"

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

/* Does this call want more than forwarding? Not with TAGC_MODE=off, and not when NCCL calls itself. */
static inline bool watched(void) { return tagc_real_depth == 0 && tagc_library_on(); }

/* Calls the real function as it came; a function that this NCCL does not have is missed by its caller alone. */
#define FORWARD(name, ...)                                                                                             \
  ({                                                                                                                   \
    __typeof__(&name) forward_real = TAGC_REAL(name, CALLER);                                                          \
    ncclResult_t forward_status = ncclSystemError;                                                                     \
    if (forward_real) {                                                                                                \
      tagc_real_depth++;                                                                                               \
      forward_status = forward_real(__VA_ARGS__);                                                                      \
      tagc_real_depth--;                                                                                               \
    }                                                                                                                  \
    forward_status;                                                                                                    \
  })

/* The same for a call that is neither a collective nor neutral to a group: what is held goes first. */
#define MIX_AND_FORWARD(name, ...)                                                                                     \
  ({                                                                                                                   \
    ncclResult_t mixed_status = watched() ? tagc_group_mix() : ncclSuccess;                                            \
    mixed_status == ncclSuccess ? FORWARD(name, __VA_ARGS__) : mixed_status;                                           \
  })

/* Is a launch on this communicator under way in the background? NCCL refuses most calls then. */
static inline bool busy(ncclComm_t comm) { return watched() && tagc_background_ask(comm) == ncclInProgress; }

/* A collective: with TAGC_MODE=off one load and one branch more than the direct call. */
#define COLLECTIVE(name, arguments, ...)                                                                               \
  do {                                                                                                                 \
    if (!tagc_library_on()) {                                                                                          \
      __typeof__(&name) off_real = TAGC_REAL(name, CALLER);                                                            \
      return off_real ? off_real arguments : ncclSystemError;                                                          \
    }                                                                                                                  \
    struct tagc_call call = {.entry = TAGC_ENTRY_##name, .caller = CALLER, .type = type, .handle = comm,               \
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
  if (busy(comm))
    return ncclInvalidArgument;
  return MIX_AND_FORWARD(ncclSend, send, count, type, peer, comm, stream);
}

EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
  if (busy(comm))
    return ncclInvalidArgument;
  return MIX_AND_FORWARD(ncclRecv, recv, count, type, peer, comm, stream);
}

EXPORT ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                                  size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
                                  cudaStream_t stream)
{
  return MIX_AND_FORWARD(ncclPutSignal, local, count, type, peer, window, offset, signal, context, flags, comm, stream);
}

EXPORT ncclResult_t ncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream)
{
  return MIX_AND_FORWARD(ncclSignal, peer, signal, context, flags, comm, stream);
}

EXPORT ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t *signals, ncclComm_t comm, cudaStream_t stream)
{
  return MIX_AND_FORWARD(ncclWaitSignal, count, signals, comm, stream);
}

/* ---- groups -------------------------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclGroupStart(void) { return watched() ? tagc_group_start(CALLER) : FORWARD(ncclGroupStart); }

EXPORT ncclResult_t ncclGroupEnd(void) { return watched() ? tagc_group_end(CALLER) : FORWARD(ncclGroupEnd); }

EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
  return watched() ? tagc_group_simulate_end(info, CALLER) : FORWARD(ncclGroupSimulateEnd, info);
}

/* ---- communicators: births ----------------------------------------------------------------------------------------- */

/* Does a configuration ask for a non-blocking communicator? Older callers have shorter structs. A child inherits that of
 * its parent only without a configuration of its own. */
static bool asks_nonblocking(const ncclConfig_t *config, bool inherited)
{
  if (tagc_library_options()->nccl_nonblocking)
    return true;
  if (!config)
    return inherited;
  return config->size >= offsetof(ncclConfig_t, blocking) + sizeof config->blocking && config->blocking == 0;
}

/* Tells of a communicator that was handed out; returns `status`. */
static ncclResult_t born(ncclResult_t status, ncclComm_t *comm, bool nonblocking)
{
  if (watched() && comm && (status == ncclSuccess || status == ncclInProgress))
    tagc_comm_born(*comm, nonblocking || status == ncclInProgress);
  return status;
}

/* The same for a child: while a non-blocking parent is still at it, the handle is not there, and NCCL's to write. */
static ncclResult_t child_born(ncclResult_t status, ncclComm_t *child, bool nonblocking)
{
  return status == ncclSuccess ? born(status, child, nonblocking) : status;
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id) { return FORWARD(ncclGetUniqueId, id); }

EXPORT ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id) { return FORWARD(ncclCommGetUniqueId, comm, id); }

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
  return born(MIX_AND_FORWARD(ncclCommInitRank, comm, nranks, id, rank), comm, asks_nonblocking(NULL, false));
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
  bool nonblocking = asks_nonblocking(config, false);
  return born(MIX_AND_FORWARD(ncclCommInitRankConfig, comm, nranks, id, rank, config), comm, nonblocking);
}

EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int ids, ncclUniqueId *id,
                                             ncclConfig_t *config)
{
  bool nonblocking = asks_nonblocking(config, false);
  return born(MIX_AND_FORWARD(ncclCommInitRankScalable, comm, nranks, rank, ids, id, config), comm, nonblocking);
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices)
{
  ncclResult_t status = MIX_AND_FORWARD(ncclCommInitAll, comms, count, devices);
  for (int i = 0; comms && i < count && (status == ncclSuccess || status == ncclInProgress); i++)
    born(status, &comms[i], asks_nonblocking(NULL, false));
  return status;
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config)
{
  if (busy(comm))
    return ncclInvalidArgument;
  bool nonblocking = asks_nonblocking(config, watched() && tagc_comm_is_nonblocking(comm));
  return child_born(MIX_AND_FORWARD(ncclCommSplit, comm, color, key, child, config), child, nonblocking);
}

EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int count, ncclComm_t *child, ncclConfig_t *config,
                                   int flags)
{
  if (busy(comm))
    return ncclInvalidArgument;
  bool nonblocking = asks_nonblocking(config, watched() && tagc_comm_is_nonblocking(comm));
  return child_born(MIX_AND_FORWARD(ncclCommShrink, comm, excluded, count, child, config, flags), child, nonblocking);
}

EXPORT ncclResult_t ncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *child,
                                 ncclConfig_t *config)
{
  bool nonblocking = asks_nonblocking(config, watched() && comm && tagc_comm_is_nonblocking(comm));
  return child_born(MIX_AND_FORWARD(ncclCommGrow, comm, nranks, id, rank, child, config), child, nonblocking);
}

/* ---- communicators: how they fare, and deaths. They enqueue nothing, and so mix no group: a rank may clean up when it
 * likes. ---- */

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
  if (busy(comm))
    return ncclInvalidArgument;
  ncclResult_t status = FORWARD(ncclCommFinalize, comm);
  if (watched())
    tagc_comm_forget(comm);
  return status;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
  if (busy(comm))
    return ncclInvalidArgument;
  if (watched())
    tagc_comm_forget(comm);
  return FORWARD(ncclCommDestroy, comm);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
  if (watched())
    tagc_comm_abort(comm);
  return FORWARD(ncclCommAbort, comm);
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
  ncclResult_t ours = watched() && error ? tagc_background_ask(comm) : ncclSuccess;
  if (ours == ncclSuccess)
    return FORWARD(ncclCommGetAsyncError, comm, error);
  *error = ours;
  return ncclSuccess;
}

EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
  if (watched()) {
    bool nonblocking = tagc_comm_is_nonblocking(comm);
    tagc_comm_abort(comm);
    tagc_comm_born(comm, nonblocking);             /* what is shrunk from it inherits this */
  }
  return FORWARD(ncclCommRevoke, comm, flags);
}

EXPORT ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) { return MIX_AND_FORWARD(ncclCommSuspend, comm, flags); }

EXPORT ncclResult_t ncclCommResume(ncclComm_t comm) { return MIX_AND_FORWARD(ncclCommResume, comm); }

/* ---- memory -------------------------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
  return FORWARD(ncclCommRegister, comm, buffer, size, handle);
}

EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
  return FORWARD(ncclCommDeregister, comm, handle);
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window, int flags)
{
  return MIX_AND_FORWARD(ncclCommWindowRegister, comm, buffer, size, window, flags);
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
  return FORWARD(ncclCommWindowDeregister, comm, window);
}

EXPORT ncclResult_t ncclMemAlloc(void **pointer, size_t size) { return FORWARD(ncclMemAlloc, pointer, size); }

EXPORT ncclResult_t ncclMemFree(void *pointer) { return FORWARD(ncclMemFree, pointer); }

/* ---- user-defined reductions --------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                             ncclScalarResidence_t residence, ncclComm_t comm)
{
  ncclResult_t status = FORWARD(ncclRedOpCreatePreMulSum, op, scalar, type, residence, comm);
  if (status == ncclSuccess && watched() && !tagc_op_created(*op, comm, type, scalar, residence))
    return ncclSystemError;         /* to take it for an unknown op here alone would part this rank from the others */
  return status;
}

EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
  if (watched()) {
    if (tagc_group_defer_destroy(op, comm) || tagc_background_defer_destroy(op, comm))
      return ncclSuccess;
    tagc_op_destroyed(op, comm);
  }
  return FORWARD(ncclRedOpDestroy, op, comm);
}
