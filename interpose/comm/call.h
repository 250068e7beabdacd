/* SPDX-License-Identifier: BSD-3-Clause
 * One intercepted collective on its way: adapter (entries.c) -> dispatch.c -> plan.c -> execute.c.
 */
#ifndef INTERPOSE_COMM_CALL_H
#define INTERPOSE_COMM_CALL_H

#include <stddef.h>

#include "interpose/nccl/nccl_newer.h"
#include "interpose/nccl/real.h"
#include "interpose/policy/plan.h"
#include "interpose/trace/trace.h"

struct tagc_comm;

struct tagc_call {
  enum tagc_entry entry; /* which function was called */
  const void *send;
  void *recv;   /* ncclBcast: the one buffer */
  size_t count; /* elements, as the function takes it; struct tagc_slot says what follows from it */
  ncclDataType_t type;
  ncclRedOp_t op; /* reductions only */
  int root;       /* of rooted collectives; the peer of a send or receive */
  ncclComm_t handle;
  cudaStream_t stream;
  const struct tagc_nccl *nccl; /* whose call it is; that of the communicator as soon as it is known */
  uint32_t group;               /* the number of the open group, for the trace; 0: none is */

  /* Filled by tagc_call_observe(). */
  struct tagc_comm *comm; /* a reference is held; NULL: not ours to touch, or one that has made no collective */
  enum tagc_cycle_state state;
  int slot;                    /* of a reduce-scatter in sync, else -1 */
  int allgather;               /* of an all-gather of parameters in sync: tagc_cycle_allgathers(), else -1 */
  uint64_t lock_number, cycle; /* of the communicator when the call was made */
  bool resync_pending;         /* likewise */
  bool calls_skipped;          /* it was not expected, and has its place as nothing else in the cycle looks like it */
  enum tagc_op op_kind;
  float scale;       /* of TAGC_OP_PREMULSUM, else 1 */
  bool scale_hidden; /* it lies in device memory, where nobody has read it */

  bool rounds;                   /* its communicator needs more than forwarding: filled by tagc_launch_run() */
  bool meets;                    /* and the host waits for other ranks in it, on a GPU, too: likewise */
  struct tagc_decision decision; /* once, when its turn comes: filled by tagc_call_decide() or tagc_call_pass() */
  struct tagc_trace_stamp trace;
};

/* User-defined reductions: pre-multiplied sums by handle and communicator. */
bool tagc_op_created(ncclRedOp_t op, ncclComm_t handle, ncclDataType_t type, const void *scalar,
                     ncclScalarResidence_t where);
void tagc_op_destroyed(ncclRedOp_t op, ncclComm_t handle);
/* NCCL frees the ops of a communicator with it. */
void tagc_op_forget(ncclComm_t handle);
/* The kind of a reduction, and the scalar of a pre-multiplied sum (1 otherwise). One that lies in device memory is read
 * where the host can (`host_reads`); elsewhere it is *hidden. Ranks may keep theirs in different places, so the kind is
 * the same. */
enum tagc_op tagc_op_kind(ncclRedOp_t op, ncclComm_t handle, ncclDataType_t type, bool host_reads, float *scale,
                          bool *hidden);

#endif
