/* SPDX-License-Identifier: BSD-3-Clause
 * Where the ranks of a communicator are, and which of them exchange payloads.
 *
 * Threads     Pure reads of the last vote's results: with the communicator's lock, or between its calls.
 */
#ifndef INTERPOSE_COMM_PLACEMENT_H
#define INTERPOSE_COMM_PLACEMENT_H

#include <stdatomic.h>

#include "interpose/nccl/nccl_newer.h"
#include "interpose/policy/plan.h"
#include "interpose/policy/topology.h"

struct tagc_comm;

/* Sub-communicators in two levels: the ranks of this host, and the ranks with this local index. */
enum tagc_level { TAGC_LEVEL_INTRA_NODE, TAGC_LEVEL_INTER_NODE, TAGC_LEVELS };

/* Since the first vote: written by exec/hierarchy.c. */
struct tagc_hierarchy {
  struct tagc_topology topology;
  bool located;                          /* the topology is known */
  bool captured;                         /* a call of the communicator was captured into a CUDA graph */
  bool split;                            /* the ranks have tried to split it, once and for all; all ranks or none */
  _Atomic(ncclComm_t) comm[TAGC_LEVELS]; /* NULL: none */
  atomic_int askers;                     /* threads that query NCCL about these */
  struct tagc_scope_plan settled;        /* follows from where the ranks are */
  struct tagc_scope_plan scope;          /* of the last vote */
};

/* The ranks that exchange messages: all of a communicator, or one rank a host (hierarchy.h). */
struct tagc_exchange_comm {
  ncclComm_t handle;
  int rank, nranks;
};

/* The ranks that exchange payloads. */
struct tagc_exchange_comm tagc_hierarchy_exchange_comm(const struct tagc_comm *comm);

/* Where the ranks are, as far as it is known. */
struct tagc_hosts tagc_hierarchy_hosts(const struct tagc_comm *comm);

/* Two levels with exact sums: the ranks of a host, whose values its ranks exchange; otherwise 0. */
int tagc_hierarchy_exact_ranks(const struct tagc_comm *comm);

/* Bytes for the sums over a host in two levels: one shard for every host. `shape` is that of the whole. With exact sums
 * these are the values of all local ranks, and room for as many that come scaled, or later from other hosts. */
size_t tagc_hierarchy_sum_bytes(const struct tagc_shape *shape);
size_t tagc_hierarchy_values_bytes(const struct tagc_shape *shape);

/* Bytes behind them, for messages among the ranks of a host. */
#define TAGC_HIERARCHY_TOLD_BYTES 64

#endif
