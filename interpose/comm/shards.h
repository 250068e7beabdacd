/* SPDX-License-Identifier: BSD-3-Clause
 * The gradients that communicators of this process reduce-scatter. HSDP all-reduces exactly these shards between its
 * replicas, on another communicator, and nothing there tells gradients from activations (torch/distributed/fsdp/
 * _runtime_utils.py, _reduce_grad; _fully_shard/_fsdp_collectives.py, foreach_reduce).
 *
 * What other communicators carry is no fact that all ranks of this one share: it enters through the vote alone.
 *
 * Threads    Any. The list has its own lock, and takes no other.
 */
#ifndef INTERPOSE_COMM_SHARDS_H
#define INTERPOSE_COMM_SHARDS_H

#include "layermap/cycle/cycle.h"

struct tagc_comm;

/* Takes down the gradients of the communicator's lock, and forgets those of the lock before. Without memory they stay
 * unknown. */
void tagc_shards_set(const struct tagc_comm *comm);
void tagc_shards_drop(const struct tagc_comm *comm);

/* Could the slots be such shards? Of all-reduces with several counts; one alone proves nothing. */
bool tagc_shards_may_be(const struct tagc_slot_info *slots, size_t count);
/* Are they? Some other communicator reduce-scatters just these counts, each as often or all so many times more often
 * (accumulation). */
bool tagc_shards_are(const struct tagc_slot_info *slots, size_t count);

#endif
