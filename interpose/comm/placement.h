/* SPDX-License-Identifier: BSD-3-Clause
 * Where the ranks of a communicator are, and which of them exchange payloads.
 *
 * Threads     Pure reads of what the last vote has settled: with the communicator's lock, or between its calls.
 */
#ifndef INTERPOSE_COMM_PLACEMENT_H
#define INTERPOSE_COMM_PLACEMENT_H

#include <stdatomic.h>

#include "interpose/nccl/nccl_newer.h"
#include "interpose/policy/plan.h"
#include "interpose/policy/topology.h"

struct tagc_comm;

/* Sub-communicators of a communicator in two levels: the ranks of this host, and those of this local index. */
enum tagc_level { TAGC_LEVEL_INTRA_NODE, TAGC_LEVEL_INTER_NODE, TAGC_LEVELS };

/* Since the first vote: written by exec/hierarchy.c. */
struct tagc_hierarchy {
  struct tagc_topology topology;
  bool located;                          /* it is known */
  bool captured;                         /* some call of the communicator was captured into a CUDA graph */
  bool split;                            /* the ranks have tried to, once and for all; all ranks or none */
  _Atomic(ncclComm_t) comm[TAGC_LEVELS]; /* NULL: not there */
  atomic_int askers;                     /* threads that ask NCCL about these */
  struct tagc_scope_plan settled;        /* what follows from where the ranks are */
  struct tagc_scope_plan scope;          /* of the last vote */
};

/* Who exchanges messages: the ranks of a communicator, or one rank a host (hierarchy.h). */
struct tagc_exchange_comm {
  ncclComm_t handle;
  int rank, nranks;
};

/* Who exchanges payloads. */
struct tagc_exchange_comm tagc_hierarchy_exchange_comm(const struct tagc_comm *comm);

/* Where the ranks are, as far as it is known. */
struct tagc_hosts tagc_hierarchy_hosts(const struct tagc_comm *comm);

/* Bytes for the sums over a host, where calls go in two levels: one shard for every host, `shape` being that of the
 * whole. */
size_t tagc_hierarchy_sum_bytes(const struct tagc_shape *shape);

/* Bytes for what the ranks of a host tell one another behind it. */
#define TAGC_HIERARCHY_TOLD_BYTES 64

#endif
