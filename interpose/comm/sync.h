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
  enum {
    TAGC_PLAIN_NONE,
    TAGC_PLAIN_FENCED,
    TAGC_PLAIN_LOST, /* the device has failed to set the fence */
  } plain;           /* plain calls since the last call in two levels */
  void *plain_fence; /* set behind the last of them */
};

struct tagc_sync {
  void *fence;   /* set behind the last work on our memory, whatever stream it was on */
  bool unfenced; /* an abort was over before the fence was set: nobody knows when the memory is free */
  struct tagc_order order;
};

#endif
