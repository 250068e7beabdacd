/* SPDX-License-Identifier: BSD-3-Clause
 * Which ranks of a communicator share a host, and how that cuts a reduce-scatter into two levels.
 *
 * Ranks have their numbers in the communicator. A rank's *local index* is the number of lower ranks on its host. The
 * ranks of one local index, one a host if hosts are even, exchange payloads. In rank order each of them has a *place*
 * among them: its rank in their sub-communicator.
 *
 * Inside a host the ranks sum plainly. The rank with local index l gets its host's sums of the shards of all ranks with
 * local index l, in a row in the order of their places. That row is the send buffer of the second level, whose result
 * is the shard itself. So no shard is ever moved. The calls that sum depend on how ranks lie on hosts:
 *   blocks     0 0 1 1       each host's shards are one piece of the send buffer: a reduce-scatter a host, of one shard
 *              each
 *   stripes    0 1 1 0       the shards of a local index are one piece: one reduce-scatter, of `hosts` shards
 *   scattered  0 0 1 2 1 2   a reduce for every shard
 *
 * Threads    Pure but for the memory of the tables, which the topology owns.
 */
#ifndef INTERPOSE_POLICY_TOPOLOGY_H
#define INTERPOSE_POLICY_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/codec/cost.h"

enum tagc_placement { TAGC_BLOCKS, TAGC_STRIPES, TAGC_SCATTERED };

struct tagc_topology {
  struct tagc_hosts hosts;
  bool even; /* every host has as many ranks; the following fields are only for such */
  enum tagc_placement placement;
  int *local; /* local index of each rank */
  int *place; /* its place among those with the same local index */
};

/* Makes it from the number of each rank's host. Numbers identify hosts, may have gaps, and are small (memory is
 * allocated for the largest). False without memory. */
bool tagc_topology_make(struct tagc_topology *topology, const uint32_t *host_of, int nranks, int rank);

void tagc_topology_free(struct tagc_topology *topology);

#endif
