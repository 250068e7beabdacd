/* SPDX-License-Identifier: BSD-3-Clause
 * How work on a communicator keeps its order on the streams of a device; exec/ writes it.
 *
 * Threads    As the calls of a communicator: one at a time.
 */
#ifndef INTERPOSE_COMM_SYNC_H
#define INTERPOSE_COMM_SYNC_H

#include <stdbool.h>

#include "interpose/nccl/nccl_newer.h"

/* Keeps calls in two levels and plain calls in the order in which they are made (exec/order.h). */
struct tagc_order {
  bool kept;
  bool two_levels_known, waiting_known; /* are the streams known? */
  cudaStream_t two_levels;              /* stream of the last call in two levels */
  cudaStream_t waiting;                 /* the last stream that waited for that call, or its own */
  bool plain_unfenced;                  /* since then plain calls have gone on its stream */
  bool plain_fenced;                    /* and on others: */
  void *plain_fence;                    /* set behind the last one of these */
};

struct tagc_sync {
  void *fence;   /* set behind the last work on our memory, whatever stream it was on */
  bool unfenced; /* an abort was over before the fence was set: nobody knows when the memory is free */
  struct tagc_order order;
};

#endif
