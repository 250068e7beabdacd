/* SPDX-License-Identifier: BSD-3-Clause
 * Who shares a host, and the ring that follows from it.
 *
 * Ranks with equal NCCL_HOSTID share a host. Without that variable ranks with equal addresses do. A rate limit makes
 * each of those a host of its own, because it limits a network between them.
 */
#include "tests/standin/standin.h"

#include <stdlib.h>
#include <string.h>

uint64_t standin_hash(uint64_t state, const void *data, size_t size) {
  for (const unsigned char *at = data; size--; at++)
    state = (state ^ *at) * UINT64_C(0x100000001b3);
  return state;
}

/* Hashes a listener's address; with the port it identifies one rank. */
static uint64_t hash_address(const struct address *address, bool with_port) {
  if (address->is.any.sa_family == AF_INET) {
    uint64_t hash = standin_hash(AF_INET, &address->is.v4.sin_addr, sizeof address->is.v4.sin_addr);
    return with_port ? standin_hash(hash, &address->is.v4.sin_port, sizeof address->is.v4.sin_port) : hash;
  }
  uint64_t hash = standin_hash(AF_INET6, &address->is.v6.sin6_addr, sizeof address->is.v6.sin6_addr);
  return with_port ? standin_hash(hash, &address->is.v6.sin6_port, sizeof address->is.v6.sin6_port) : hash;
}

uint64_t standin_host(const struct address *listener) {
  const char *given = getenv("NCCL_HOSTID");
  if (given)
    return standin_hash(1, given, strlen(given));
  return hash_address(listener, standin_rate_is_limited(WAY_BETWEEN));
}

/* Orders the ring by host, in the order of their lowest ranks: each host is entered and left once. */
bool standin_order_ring(struct ncclComm *comm) {
  int placed = 0;
  comm->ring = malloc((size_t)comm->nranks * sizeof *comm->ring);
  comm->place = calloc((size_t)comm->nranks, sizeof *comm->place);
  if (!comm->ring || !comm->place)
    return false;
  for (int first = 0; first < comm->nranks; first++)
    comm->place[first] = -1;
  for (int first = 0; first < comm->nranks; first++) {
    bool entered = comm->place[first] >= 0;
    for (int r = first; !entered && r < comm->nranks; r++)
      if (comm->members[r].host == comm->members[first].host) {
        comm->place[r] = placed;
        comm->ring[placed++] = r;
      }
  }
  return true;
}
