/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/placement.h"

#include "interpose/comm/comm.h"

struct tagc_exchange_comm tagc_hierarchy_exchange_comm(const struct tagc_comm *comm) {
  const struct tagc_topology *t = &comm->hierarchy.topology;
  if (comm->hierarchy.scope.two_levels)
    return (struct tagc_exchange_comm){atomic_load(&comm->hierarchy.comm[TAGC_LEVEL_INTER_NODE]), t->place[comm->rank],
                                       t->hosts.hosts};
  return (struct tagc_exchange_comm){comm->handle, comm->rank, comm->nranks};
}

struct tagc_hosts tagc_hierarchy_hosts(const struct tagc_comm *comm) {
  return comm->hierarchy.located ? comm->hierarchy.topology.hosts
                                 : (struct tagc_hosts){.nranks = comm->nranks, .local = comm->nranks};
}

size_t tagc_hierarchy_sum_bytes(const struct tagc_shape *shape) {
  return ((size_t)shape->nranks * shape->n * tagc_dtype_size(shape->dtype) + 63) & ~(size_t)63;
}
