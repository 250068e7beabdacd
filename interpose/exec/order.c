/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/order.h"

#include "interpose/comm/table.h"
#include "interpose/nccl/capture.h"

static atomic_int ordered_comms; /* usually none, and then the check costs one load */

void tagc_order_keep(struct tagc_comm *comm, bool keep) {
  atomic_fetch_add(&ordered_comms, keep - comm->sync.order.kept);
  comm->sync.order.kept = keep;
}

struct tagc_comm *tagc_order_find(ncclComm_t handle) {
  struct tagc_comm *comm = atomic_load_explicit(&ordered_comms, memory_order_relaxed) ? tagc_comm_find(handle) : NULL;
  if (!comm || comm->sync.order.kept)
    return comm;
  tagc_comm_release(comm);
  return NULL;
}

/* Is this call to be ordered? A captured one cannot be: a fence would become part of its graph. */
static bool is_ordered(const struct tagc_comm *comm, cudaStream_t stream) {
  return comm && comm->sync.order.kept && !tagc_capture_is_active(stream);
}

/* A device that fails here has logged it, and NCCL's own call will fail, too. */
void tagc_order_before_plain(struct tagc_comm *comm, cudaStream_t stream) {
  if (is_ordered(comm, stream))
    (void)comm->device->fence_wait(comm->device, comm->sync.fence, stream);
}

/* One fence serves all plain calls: NCCL keeps their order. */
void tagc_order_after_plain(struct tagc_comm *comm, cudaStream_t stream) {
  if (!is_ordered(comm, stream))
    return;
  struct tagc_order *order = &comm->sync.order;
  order->plain =
    comm->device->fence_set(comm->device, order->plain_fence, stream) ? TAGC_PLAIN_FENCED : TAGC_PLAIN_LOST;
}

bool tagc_order_before_call(struct tagc_comm *comm, cudaStream_t stream) {
  const struct tagc_order *order = &comm->sync.order;
  if (!order->kept || order->plain == TAGC_PLAIN_NONE)
    return true;
  return order->plain == TAGC_PLAIN_FENCED && comm->device->fence_wait(comm->device, order->plain_fence, stream);
}

void tagc_order_after_call(struct tagc_comm *comm) { comm->sync.order.plain = TAGC_PLAIN_NONE; }
