/* SPDX-License-Identifier: BSD-3-Clause
 * One intercepted collective on its way: adapter (entries.c) -> dispatch.c -> plan.c -> execute.c.
 */
#ifndef INTERPOSE_COMM_CALL_H
#define INTERPOSE_COMM_CALL_H

#include <stddef.h>

#include "interpose/nccl/nccl_newer.h"
#include "interpose/nccl/real.h"
#include "interpose/policy/coll_config.h"
#include "interpose/policy/plan.h"
#include "interpose/trace/trace.h"

struct tagc_comm;

struct tagc_call {
  enum tagc_entry entry;          /* which function was called; of a twin with a configuration the one without */
  enum tagc_entry twin;           /* the twin, or 0 */
  const ncclCollConfig_t *config; /* of a twin; NULL: none */
  const void *send;
  void *recv;   /* ncclBcast: the one buffer */
  size_t count; /* elements, as the function takes it; struct tagc_slot says what follows from it */
  ncclDataType_t type;
  ncclRedOp_t op; /* reductions only */
  int root;       /* root of a rooted collective; the peer of a send or receive */
  ncclComm_t handle;
  cudaStream_t stream;
  const struct tagc_nccl *nccl; /* the copy of NCCL that was called; that of the communicator as soon as it is known */
  uint32_t group;               /* number of the open group, for the trace; 0: none */

  /* Filled by tagc_call_observe(). */
  struct tagc_comm *comm; /* holds a reference; NULL: not ours, or without any collective so far */
  enum tagc_cycle_state state;
  int slot;                    /* of a reduce-scatter in sync, else -1 */
  int allgather;               /* of an all-gather of parameters in sync (tagc_cycle_allgathers()), else -1 */
  uint64_t lock_number, cycle; /* of the communicator when the call was observed */
  bool resync_pending;         /* likewise */
  uint64_t number;             /* among the communicator's calls, from 1 on */
  bool calls_skipped;          /* unexpected, but placed: nothing else in the cycle looks like it */
  enum tagc_op op_kind;
  float scale;       /* of TAGC_OP_PREMULSUM, else 1 */
  bool scale_hidden; /* it lies in device memory and was not read */

  bool rounds;                   /* its communicator needs more than forwarding; set by tagc_launch_run() */
  bool meets;                    /* and the host waits for other ranks in it, even on a GPU; set likewise */
  struct tagc_decision decision; /* final when its turn comes: tagc_call_decide(), tagc_call_pass() */
  struct tagc_trace_stamp trace;
  struct tagc_kept_config *kept; /* holds a reference: `config` lies there. NULL: with the program */
};

/* The function that the program called. */
static inline enum tagc_entry tagc_call_function(const struct tagc_call *call) {
  return call->twin ? call->twin : call->entry;
}

static inline bool tagc_call_is_collective(const struct tagc_call *call) {
  return call->entry != TAGC_ENTRY_ncclSend && call->entry != TAGC_ENTRY_ncclRecv;
}

/* A copy of a call that goes on after the program's call has returned: it holds references to its communicator, if that
 * is known, and to its configuration. False without memory. */
bool tagc_call_retain(struct tagc_call *copy);
void tagc_call_release(struct tagc_call *copy);

/* User-defined reductions: pre-multiplied sums by handle and communicator. */
bool tagc_op_created(ncclRedOp_t op, ncclComm_t handle, ncclDataType_t type, const void *scalar,
                     ncclScalarResidence_t where);
void tagc_op_destroyed(ncclRedOp_t op, ncclComm_t handle);
/* NCCL frees the ops of a communicator with it. */
void tagc_op_forget(ncclComm_t handle);
/* The kind of a reduction, and the scalar of a pre-multiplied sum (otherwise 1). One in device memory is read if
 * `host_reads`, otherwise *hidden is set. The kind is the same, as ranks may keep theirs in different places. */
enum tagc_op tagc_op_kind(ncclRedOp_t op, ncclComm_t handle, ncclDataType_t type, bool host_reads, float *scale,
                          bool *hidden);

#endif
