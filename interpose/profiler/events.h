/* SPDX-License-Identifier: BSD-3-Clause
 * The events of NCCL's profiler, whatever the version of its interface, and the sums of each operation.
 *
 * NCCL begins an operation (a collective, or one side of a point-to-point call) when it has launched its kernel, and
 * ends it at once. What happens on the GPU and in the proxy thread comes later, as children of the operation:
 *   kernel    a channel of its kernel runs; from version 4 on with the GPU's own times
 *   transfer  a channel sends to a peer, or receives: an operation of the proxy, with a step for each piece
 * Nothing says that no further child comes. So an operation is written when as many channels of its kernel have ended
 * as it has, or when younger ones have begun, or at the end of its communicator. Should more come even then, it is
 * written once more, with the rest: readers add up.
 *
 * Clocks   The GPU's clock has an offset from ours, and drifts. An event of the kernel is seen some microseconds late
 *          and never early. So the offset is the least difference of the last seconds, of each communicator.
 */
#ifndef INTERPOSE_PROFILER_EVENTS_H
#define INTERPOSE_PROFILER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "interpose/profiler/profiler.h"

enum {
  TAGC_PROFILER_CONTEXTS = 1 << 10,  /* communicators at once; further ones have no records */
  TAGC_PROFILER_OPERATIONS = 1 << 9, /* of a communicator at once: the oldest is given up for another one */
  TAGC_PROFILER_TRANSFERS = 1 << 10, /* open operations and steps of the proxy, likewise; further ones are left out */
  TAGC_PROFILER_LAG = 32             /* an operation is written when so many younger ones have begun */
};

/* What a transfer waits for. */
enum tagc_profiler_wait {
  TAGC_PROFILER_NOTHING,
  TAGC_PROFILER_GPU,     /* the kernel: for data to send, or to take received data */
  TAGC_PROFILER_PEER,    /* the receiver's room */
  TAGC_PROFILER_NETWORK, /* it is under way; of a receive, with the wait for the sender */
  TAGC_PROFILER_WAITS
};

struct tagc_profiler_operation {
  const char *function; /* "AllReduce" */
  const void *send, *recv;
  unsigned channels; /* of its kernel at most; 0: unknown */
};

/* A communicator. Returns its context; NULL: no room. */
void *tagc_profiler_begin(void);
/* It ends. Later events of it are ignored. */
void tagc_profiler_end(void *context);

/* Each returns a handle; NULL: not followed. Handles of ended events, of other processes, NULL, and any other number
 * are fine everywhere: nothing happens then. `gpu_ns`: by the GPU's clock; 0: the event happens now. */
void *tagc_profiler_launch(void *context, const struct tagc_profiler_operation *operation);
void *tagc_profiler_kernel(void *operation, uint64_t gpu_ns);
void *tagc_profiler_transfer(void *operation, bool sends);
void *tagc_profiler_step(void *transfer);
/* For events that only have to have a handle. */
void *tagc_profiler_other(void);

void tagc_profiler_kernel_ends(void *kernel, uint64_t gpu_ns);
void tagc_profiler_step_waits(void *step, enum tagc_profiler_wait wait);
/* Bytes of a step, or those of a transfer so far. */
void tagc_profiler_moves(void *transfer_or_step, uint64_t bytes);
void tagc_profiler_stop(void *any);

/* A forked child has none of its parent's communicators. The caller has noticed that. */
void tagc_profiler_forget(void);

#endif
