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

/* The per-thread default stream has the same name in all threads. */
static bool is_stream(bool known, cudaStream_t stream, cudaStream_t other) {
  enum { PER_THREAD = 2 }; /* of cuda.h */
  return known && stream == other && (uintptr_t)stream != PER_THREAD;
}

/* A device that fails here has logged it, and NCCL's own call will fail, too. */
void tagc_order_before_plain(struct tagc_comm *comm, cudaStream_t stream) {
  struct tagc_order *order = comm && comm->sync.order.kept ? &comm->sync.order : NULL;
  if (!order || is_stream(order->waiting_known, order->waiting, stream) ||
      is_stream(order->two_levels_known, order->two_levels, stream) || tagc_capture_is_active(stream))
    return;
  order->waiting_known = comm->device->fence_wait(comm->device, comm->sync.fence, stream);
  order->waiting = stream;
}

/* One fence serves all plain calls: NCCL keeps their order. */
void tagc_order_after_plain(struct tagc_comm *comm, cudaStream_t stream) {
  struct tagc_order *order = comm && comm->sync.order.kept ? &comm->sync.order : NULL;
  if (!order)
    return;
  if (is_stream(order->two_levels_known, order->two_levels, stream)) {
    order->plain_unfenced = true;
  } else if (!tagc_capture_is_active(stream)) {
    comm->device->fence_set(comm->device, order->plain_fence, stream);
    order->plain_fenced = true;
  }
}

bool tagc_order_before_call(struct tagc_comm *comm, cudaStream_t stream) {
  const struct tagc_device *device = comm->device;
  struct tagc_order *order = &comm->sync.order;
  bool good = !order->kept || !order->plain_fenced || device->fence_wait(device, order->plain_fence, stream);
  if (!order->kept || !order->plain_unfenced || is_stream(order->two_levels_known, order->two_levels, stream))
    return good;
  if (tagc_capture_is_active(order->two_levels))
    return good; /* a fence set there now would be part of the graph */
  return good && device->fence_set(device, order->plain_fence, order->two_levels) &&
         device->fence_wait(device, order->plain_fence, stream);
}

void tagc_order_after_call(struct tagc_comm *comm, cudaStream_t stream, bool fenced) {
  struct tagc_order *order = &comm->sync.order;
  if (!fenced) /* later calls must still wait for other streams */
    return;
  order->two_levels = order->waiting = stream;
  order->two_levels_known = order->waiting_known = true;
  order->plain_unfenced = order->plain_fenced = false;
}
