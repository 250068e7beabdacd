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
  enum tagc_entry entry;            /* which function was called */
  const void *send;
  void *recv;                       /* ncclBcast: the one buffer */
  size_t count;                     /* per rank, as the function takes it */
  ncclDataType_t type;
  ncclRedOp_t op;                   /* reductions only */
  int root;                         /* of rooted collectives; the peer of a send or receive */
  ncclComm_t handle;
  cudaStream_t stream;
  const struct tagc_nccl *nccl;     /* whose call it is; that of the communicator as soon as it is known */
  uint32_t group;                   /* the number of the open group, for the trace; 0: none is */

  /* Filled by tagc_comm_observe(). */
  struct tagc_comm *comm;           /* a reference is held; NULL: not ours to touch, or one that has made no collective */
  enum tagc_cycle_state state;
  int slot;                         /* of a reduce-scatter on track, else -1 */
  int allgather;                    /* of an all-gather of parameters on track: tagc_cycle_allgathers(), else -1 */
  uint64_t lock_number, cycle;      /* of the communicator when the call was made */
  bool strayed;                     /* likewise */
  bool displaced;                   /* it was not expected, and has its place as nothing else in the cycle looks like it */
  enum tagc_op op_kind;
  float scale;                      /* of TAGC_OP_PREMULSUM, else 1 */
  bool scale_hidden;                /* it lies in device memory, where nobody has read it */

  struct tagc_decision decision;    /* filled by tagc_comm_decide() */
  bool rounds;                      /* its communicator needs more than forwarding: filled by tagc_launch_run() */
  struct tagc_trace_stamp trace;
};

/* A collective from an adapter: forwards it, holds it back in a group, or compresses it. */
ncclResult_t tagc_dispatch(struct tagc_call *call);

/* A send or a receive. True: it is in an open group, and waits for its end. */
bool tagc_dispatch_hold(struct tagc_call *call);

/* Hands a call to the real function as it came. */
ncclResult_t tagc_forward(const struct tagc_call *call);

#endif
