/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/placement.h"

#include "interpose/comm/comm.h"
#include "interpose/nccl/process.h"

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

int tagc_hierarchy_exact_ranks(const struct tagc_comm *comm) {
  const bool exact = comm->hierarchy.scope.two_levels && tagc_plan_is_exact(tagc_library_options());
  return exact ? comm->hierarchy.topology.hosts.local : 0;
}

static size_t pad_to_line(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

size_t tagc_hierarchy_values_bytes(const struct tagc_shape *shape) {
  return pad_to_line((size_t)shape->local * (size_t)shape->nranks * shape->n * tagc_dtype_size(shape->dtype));
}

size_t tagc_hierarchy_sum_bytes(const struct tagc_shape *shape) {
  return shape->local ? 2 * tagc_hierarchy_values_bytes(shape)
                      : pad_to_line((size_t)shape->nranks * shape->n * tagc_dtype_size(shape->dtype));
}
