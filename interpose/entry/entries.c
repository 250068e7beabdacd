/* SPDX-License-Identifier: BSD-3-Clause
 * The exported functions: adapters between NCCL's signatures and the rest of the library. nccl.h declares them, so a
 * wrong signature does not compile.
 *
 * Collectives fill a struct tagc_call and go to tagc_dispatch(). All other functions are forwarded here; comm/ is
 * informed before or after of ends of communicators and of user-defined reductions. Creation: entries_comm_init.c.
 */
#include "interpose/comm/table.h"
#include "interpose/entry/adapter.h"
#include "interpose/entry/dispatch.h"
#include "interpose/entry/start.h"
#include "interpose/nccl/process.h"
#include "interpose/policy/registered_memory.h"

/* A collective: with TAGC_MODE=off one load and one branch more than the direct call. `kind`: its name, or that of its
 * twin without a configuration. */
#define COLLECTIVE(name, kind, arguments, ...) \
  do { \
    const struct tagc_nccl *nccl = tagc_real_called(__builtin_return_address(0)); /* tagc_dispatch() keeps errno */ \
    if (!tagc_library_on()) { \
      __typeof__(&name) off_real = TAGC_REAL(name, nccl); \
      return off_real ? off_real arguments : ncclSystemError; \
    } \
    struct tagc_call call = {.entry = TAGC_ENTRY_##kind, \
                             .nccl = nccl, \
                             .type = type, \
                             .handle = comm, \
                             .stream = stream, \
                             .count = count, \
                             __VA_ARGS__}; \
    return tagc_dispatch(&call); \
  } while (0)

/* ---- collectives ------------------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, cudaStream_t stream) {
  COLLECTIVE(ncclReduceScatter, ncclReduceScatter, (send, recv, count, type, op, comm, stream), .send = send,
             .recv = recv, .op = op);
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                  cudaStream_t stream) {
  COLLECTIVE(ncclAllGather, ncclAllGather, (send, recv, count, type, comm, stream), .send = send, .recv = recv);
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                  ncclComm_t comm, cudaStream_t stream) {
  COLLECTIVE(ncclAllReduce, ncclAllReduce, (send, recv, count, type, op, comm, stream), .send = send, .recv = recv,
             .op = op);
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  COLLECTIVE(ncclBroadcast, ncclBroadcast, (send, recv, count, type, root, comm, stream), .send = send, .recv = recv,
             .root = root);
}

EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream) {
  COLLECTIVE(ncclBcast, ncclBcast, (buffer, count, type, root, comm, stream), .send = buffer, .recv = buffer,
             .root = root);
}

EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               int root, ncclComm_t comm, cudaStream_t stream) {
  COLLECTIVE(ncclReduce, ncclReduce, (send, recv, count, type, op, root, comm, stream), .send = send, .recv = recv,
             .op = op, .root = root);
}

EXPORT ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                 cudaStream_t stream) {
  COLLECTIVE(ncclAlltoAll, ncclAlltoAll, (send, recv, count, type, comm, stream), .send = send, .recv = recv);
}

EXPORT ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream) {
  COLLECTIVE(ncclGather, ncclGather, (send, recv, count, type, root, comm, stream), .send = send, .recv = recv,
             .root = root);
}

EXPORT ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                ncclComm_t comm, cudaStream_t stream) {
  COLLECTIVE(ncclScatter, ncclScatter, (send, recv, count, type, root, comm, stream), .send = send, .recv = recv,
             .root = root);
}

/* ---- collectives with a configuration (since 2.31) --------------------------------------------------------------- */

#define TWIN(kind, arguments, ...) \
  COLLECTIVE(kind##Config, kind, arguments, .twin = TAGC_ENTRY_##kind##Config, .config = config, __VA_ARGS__)

EXPORT ncclResult_t ncclReduceScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
                                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
                                            const ncclCollConfig_t *config) {
  TWIN(ncclReduceScatter, (send, recv, count, type, op, comm, stream, config), .send = send, .recv = recv, .op = op);
}

EXPORT ncclResult_t ncclAllGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  TWIN(ncclAllGather, (send, recv, count, type, comm, stream, config), .send = send, .recv = recv);
}

EXPORT ncclResult_t ncclAllReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  TWIN(ncclAllReduce, (send, recv, count, type, op, comm, stream, config), .send = send, .recv = recv, .op = op);
}

EXPORT ncclResult_t ncclBroadcastConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                        ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  TWIN(ncclBroadcast, (send, recv, count, type, root, comm, stream, config), .send = send, .recv = recv, .root = root);
}

EXPORT ncclResult_t ncclReduceConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  TWIN(ncclReduce, (send, recv, count, type, op, root, comm, stream, config), .send = send, .recv = recv, .op = op,
       .root = root);
}

EXPORT ncclResult_t ncclAlltoAllConfig(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                       cudaStream_t stream, const ncclCollConfig_t *config) {
  TWIN(ncclAlltoAll, (send, recv, count, type, comm, stream, config), .send = send, .recv = recv);
}

EXPORT ncclResult_t ncclGatherConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  TWIN(ncclGather, (send, recv, count, type, root, comm, stream, config), .send = send, .recv = recv, .root = root);
}

EXPORT ncclResult_t ncclScatterConfig(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config) {
  TWIN(ncclScatter, (send, recv, count, type, root, comm, stream, config), .send = send, .recv = recv, .root = root);
}

/* ---- point to point and one-sided -------------------------------------------------------------------------------- */

/* Does the call wait for the end of its group? Then its trace continues there. */
static bool is_held(struct tagc_call *called, struct tagc_call call) {
  if (!watched())
    return false;
  tagc_library_note_messages();
  if (called->trace.number) {
    call.trace = called->trace;
    call.decision = called->decision;
  }
  if (!tagc_dispatch_hold(&call))
    return false;
  called->trace.number = 0;
  return true;
}

EXPORT ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  CALLED(ncclSend, .send = send, .count = count, .type = type, .root = peer, .handle = comm, .stream = stream);
  RETURN_IF_REFUSED(comm);
  if (is_held(&called, (struct tagc_call){.entry = TAGC_ENTRY_ncclSend,
                                          .nccl = nccl,
                                          .send = send,
                                          .count = count,
                                          .type = type,
                                          .root = peer,
                                          .handle = comm,
                                          .stream = stream}))
    RETURN(ncclSuccess);
  RETURN(FORWARD_IN_ORDER(ncclSend, send, count, type, peer, comm, stream));
}

EXPORT ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  CALLED(ncclRecv, .recv = recv, .count = count, .type = type, .root = peer, .handle = comm, .stream = stream);
  RETURN_IF_REFUSED(comm);
  if (is_held(&called, (struct tagc_call){.entry = TAGC_ENTRY_ncclRecv,
                                          .nccl = nccl,
                                          .recv = recv,
                                          .count = count,
                                          .type = type,
                                          .root = peer,
                                          .handle = comm,
                                          .stream = stream}))
    RETURN(ncclSuccess);
  RETURN(FORWARD_IN_ORDER(ncclRecv, recv, count, type, peer, comm, stream));
}

EXPORT ncclResult_t ncclPutSignal(const void *local, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                                  size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
                                  cudaStream_t stream) {
  CALLED(ncclPutSignal, .send = local, .count = count, .type = type, .root = peer, .handle = comm, .stream = stream);
  RETURN_IF_REFUSED(comm);
  tagc_library_note_messages();
  RETURN(
    FORWARD_IN_ORDER(ncclPutSignal, local, count, type, peer, window, offset, signal, context, flags, comm, stream));
}

EXPORT ncclResult_t ncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm,
                               cudaStream_t stream) {
  CALLED(ncclSignal, .root = peer, .handle = comm, .stream = stream);
  RETURN_IF_REFUSED(comm);
  tagc_library_note_messages();
  RETURN(FORWARD_IN_ORDER(ncclSignal, peer, signal, context, flags, comm, stream));
}

EXPORT ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t *signals, ncclComm_t comm, cudaStream_t stream) {
  CALLED(ncclWaitSignal, .handle = comm, .stream = stream);
  RETURN_IF_REFUSED(comm);
  tagc_library_note_messages();
  RETURN(FORWARD_IN_ORDER(ncclWaitSignal, count, signals, comm, stream));
}

/* Kernels of the program use a device communicator: their traffic is not seen. */
EXPORT ncclResult_t ncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements *requirements,
                                      struct ncclDevComm *made) {
  CALLED(ncclDevCommCreate, .handle = comm);
  RETURN_IF_REFUSED(comm);
  tagc_library_note_messages();
  const ncclResult_t status = FORWARD(ncclDevCommCreate, comm, requirements, made);
  if (watched() && tagc_real_accepts(status))
    tagc_comm_has_device_comm(comm);
  RETURN(status);
}

EXPORT ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *made) {
  CALLED(ncclDevCommDestroy, .handle = comm);
  RETURN_IF_BUSY(comm);
  RETURN(FORWARD(ncclDevCommDestroy, comm, made));
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

EXPORT ncclResult_t ncclGroupStart(void) {
  CALLED(ncclGroupStart);
  if (!watched())
    RETURN(FORWARD(ncclGroupStart));
  const ncclResult_t status = tagc_group_start(nccl, &called_errno);
  called.group = tagc_group_number(nccl); /* the group that it has opened */
  RETURN(status);
}

EXPORT ncclResult_t ncclGroupEnd(void) {
  CALLED(ncclGroupEnd);
  if (!watched())
    RETURN(FORWARD(ncclGroupEnd));
  ncclResult_t status = tagc_group_end(nccl, &called_errno);
  if (tagc_group_is_open(nccl))
    RETURN(status);
  /* The outermost end makes the communicators that the program requested in the group. */
  tagc_comm_group_is_over(nccl, status);
  if (!tagc_comm_children_done(NULL, status))
    RETURN(tagc_no_memory("a communicator"));
  RETURN(status);
}

EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info) {
  CALLED(ncclGroupSimulateEnd);
  RETURN(watched() ? tagc_group_simulate_end(nccl, info, &called_errno) : FORWARD(ncclGroupSimulateEnd, info));
}

/* ---- communicators: how they fare, and deaths. A rank may clean up when it likes. ---- */

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  CALLED(ncclCommFinalize, .handle = comm);
  RETURN_IF_REFUSED(comm);
  ncclResult_t status = FORWARD(ncclCommFinalize, comm);
  if (watched() && tagc_real_accepts(status)) {
    struct tagc_comm *ended = tagc_comm_drop(comm);
    tagc_hierarchy_end(ended, false);
    if (status == ncclSuccess)
      tagc_group_ended(nccl, ended);
    tagc_comm_release(ended);
  }
  RETURN(status);
}

/* The parent ends. If NCCL is at work on it, its children are never stored, and the program may have given their memory
 * up. */
static ncclResult_t status_of_children(const struct tagc_nccl *nccl, ncclComm_t parent) {
  ncclResult_t state = ncclInvalidUsage;
  if (!tagc_comm_expects(parent))
    return state;
  __typeof__(&ncclCommGetAsyncError) real = TAGC_REAL(ncclCommGetAsyncError, nccl);
  const bool told = real && TAGC_IN_REAL(real(parent, &state)) == ncclSuccess;
  return told && state == ncclSuccess ? ncclSuccess : ncclInvalidUsage;
}

/* Sets *real_errno to what the real function leaves in errno. */
static ncclResult_t abort_communicator(const struct tagc_nccl *nccl, ncclComm_t comm, int *real_errno) {
  int called_errno = *real_errno;
  struct tagc_comm *ended = tagc_comm_abort(comm);
  if (comm) /* NULL would mean this thread's group */
    tagc_comm_children_done(comm, status_of_children(nccl, comm));
  tagc_ranges_forget(comm);
  const bool together = tagc_hierarchy_open_group(ended);
  tagc_hierarchy_end(ended, true);
  const ncclResult_t status = tagc_hierarchy_close_group(ended, together, FORWARD(ncclCommAbort, comm));
  tagc_group_ended(nccl, ended);
  tagc_comm_release(ended);
  *real_errno = called_errno;
  return status;
}

/* Does a part of a failed group still wait on the communicator? */
static bool is_waited_on(ncclComm_t handle) {
  struct tagc_comm *comm = tagc_comm_find(handle);
  const bool waits = comm && atomic_load(&comm->strands) > 0;
  tagc_comm_release(comm);
  return waits;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  CALLED(ncclCommDestroy, .handle = comm);
  RETURN_IF_REFUSED(comm);
  if (!watched())
    RETURN(FORWARD(ncclCommDestroy, comm));
  if (is_waited_on(comm)) /* a destroy would wait for ever here, whereas NCCL alone fails and returns */
    RETURN(abort_communicator(nccl, comm, &called_errno));
  struct tagc_listed_comm removed = tagc_comm_remove(comm);
  tagc_ranges_forget(comm);
  const ncclResult_t children = status_of_children(nccl, comm);
  ncclResult_t status = FORWARD(ncclCommDestroy, comm);
  if (!tagc_real_accepts(status)) /* nothing is destroyed, as after any error of before */
    RETURN(tagc_comm_restore(&removed) ? status : tagc_no_memory("a communicator"));
  if (comm) /* NULL would mean this thread's group */
    tagc_comm_children_done(comm, children);
  tagc_hierarchy_end(removed.comm, false);
  if (status == ncclSuccess)
    tagc_group_ended(nccl, removed.comm);
  tagc_comm_release(removed.comm);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  CALLED(ncclCommAbort, .handle = comm);
  RETURN(watched() ? abort_communicator(nccl, comm, &called_errno) : FORWARD(ncclCommAbort, comm));
}

/* Here a program learns that a background launch is over, or a non-blocking communicator or its children are ready. */
EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error) {
  CALLED(ncclCommGetAsyncError, .handle = comm);
  ncclResult_t ours = watched() && error ? tagc_background_ask(comm) : ncclSuccess;
  if (ours != ncclSuccess) {
    *error = ours;
    RETURN(ncclSuccess);
  }
  ncclResult_t status = FORWARD(ncclCommGetAsyncError, comm, error);
  if (status == ncclSuccess && watched() && comm &&
      (!tagc_comm_add_expected(comm) || !tagc_comm_children_done(comm, *error)))
    RETURN(tagc_no_memory("a communicator"));
  if (status == ncclSuccess && watched() && *error == ncclSuccess) {
    tagc_comm_has_succeeded(comm);
    *error = tagc_hierarchy_error(comm);
  }
  RETURN(status);
}

/* The communicator's work is aborted, and it may only be shrunk and destroyed: keeps what its children inherit. */
void tagc_entry_begin_anew(ncclComm_t comm, bool revoked) {
  struct tagc_listed_comm listed = tagc_comm_listed(comm);
  listed.agreement.revoked |= revoked;
  struct tagc_comm *ended = tagc_comm_abort(comm);
  tagc_hierarchy_end(ended, true); /* in the group: NCCL finally takes back its own abort, which they may share */
  tagc_comm_release(ended);
  tagc_comm_restore(&listed);
}

void tagc_entry_note_end(const struct tagc_call *called, ncclResult_t status) {
  if (called->trace.number && !tagc_real_refuses(status))
    tagc_trace_comm_ends(called->trace.comm, called->handle, (uint16_t)called->entry, true);
}

EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  CALLED(ncclCommRevoke, .handle = comm);
  struct tagc_comm *alive = watched() ? tagc_comm_find(comm) : NULL;
  bool together = tagc_hierarchy_open_group(alive);
  ncclResult_t status = FORWARD(ncclCommRevoke, comm, flags);
  if (watched() && comm && !tagc_real_refuses(status))
    tagc_entry_begin_anew(comm, true);
  status = tagc_hierarchy_close_group(alive, together, status);
  tagc_group_ended(nccl, alive);
  tagc_comm_release(alive);
  tagc_entry_note_end(&called, status);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) {
  CALLED(ncclCommSuspend, .handle = comm);
  RETURN_IF_REFUSED(comm);
  RETURN(FORWARD(ncclCommSuspend, comm, flags));
}

EXPORT ncclResult_t ncclCommResume(ncclComm_t comm) {
  CALLED(ncclCommResume, .handle = comm);
  RETURN_IF_REFUSED(comm);
  RETURN(FORWARD(ncclCommResume, comm));
}

/* For all communicators that the process makes later. */
EXPORT ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t *config) {
  CALLED(ncclSetEncryption);
  RETURN(FORWARD(ncclSetEncryption, config));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

EXPORT ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle) {
  CALLED(ncclCommRegister, .handle = comm);
  RETURN_IF_BUSY(comm);
  ncclResult_t status = FORWARD(ncclCommRegister, comm, buffer, size, handle);
  if (status == ncclSuccess && watched() && handle && *handle)
    tagc_ranges_add(comm, buffer, size, *handle);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle) {
  CALLED(ncclCommDeregister, .handle = comm);
  RETURN_IF_BUSY(comm);
  if (watched())
    tagc_ranges_remove(comm, handle);
  RETURN(FORWARD(ncclCommDeregister, comm, handle));
}

EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t size, ncclWindow_t *window,
                                           int flags) {
  CALLED(ncclCommWindowRegister, .handle = comm);
  RETURN_IF_REFUSED(comm);
  ncclResult_t status = FORWARD(ncclCommWindowRegister, comm, buffer, size, window, flags);
  /* In a group NCCL stores the window at the end: it stays unknown here. NCCL may also store none. */
  const bool stored = status == ncclSuccess && watched() && !tagc_group_is_open(nccl) && window && *window;
  if (stored)
    tagc_ranges_add(comm, buffer, size, *window);
  if (stored && flags & NCCL_WIN_COLL_SYMMETRIC)
    tagc_ranges_are_symmetric(comm, *window);
  RETURN(status);
}

EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  CALLED(ncclCommWindowDeregister, .handle = comm);
  RETURN_IF_BUSY(comm);
  if (watched())
    tagc_ranges_remove(comm, window);
  RETURN(FORWARD(ncclCommWindowDeregister, comm, window));
}

EXPORT ncclResult_t ncclMemAlloc(void **pointer, size_t size) {
  CALLED(ncclMemAlloc);
  ncclResult_t status = FORWARD(ncclMemAlloc, pointer, size);
  if (status == ncclSuccess && watched() && pointer)
    tagc_ranges_add(NULL, *pointer, size, *pointer);
  RETURN(status);
}

EXPORT ncclResult_t ncclMemFree(void *pointer) {
  CALLED(ncclMemFree);
  if (watched())
    tagc_ranges_remove(NULL, pointer);
  RETURN(FORWARD(ncclMemFree, pointer));
}

/* ---- user-defined reductions ------------------------------------------------------------------------------------- */

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                             ncclScalarResidence_t residence, ncclComm_t comm) {
  CALLED(ncclRedOpCreatePreMulSum, .type = type, .handle = comm);
  RETURN_IF_BUSY(comm);
  ncclResult_t status = FORWARD(ncclRedOpCreatePreMulSum, op, scalar, type, residence, comm);
  if (status == ncclSuccess && watched() && !tagc_op_created(*op, comm, type, scalar, residence))
    RETURN(tagc_no_memory("a user-defined reduction")); /* an op unknown on this rank alone would part the ranks */
  RETURN(status);
}

EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  CALLED(ncclRedOpDestroy, .handle = comm);
  if (watched()) {
    if (tagc_group_defer_destroy(nccl, op, comm) || tagc_background_defer_destroy(op, comm))
      RETURN(ncclSuccess);
    tagc_op_destroyed(op, comm);
  }
  RETURN(FORWARD(ncclRedOpDestroy, op, comm));
}
