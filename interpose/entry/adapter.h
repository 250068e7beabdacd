/* SPDX-License-Identifier: BSD-3-Clause
 * What all adapters have in common: the first line and the last one of each, and the ways to the real function. For
 * interpose/entry/entries.c and entries_comm_init.c alone, which say how they are used.
 */
#ifndef INTERPOSE_ENTRY_ADAPTER_H
#define INTERPOSE_ENTRY_ADAPTER_H

#include <errno.h>

#include "interpose/calls/traced.h"
#include "interpose/comm/comm.h"
#include "interpose/entry/background.h"
#include "interpose/entry/group.h"
#include "interpose/entry/start.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/exec/order.h"
#include "interpose/nccl/process.h"

#define EXPORT __attribute__((visibility("default")))

/* The first line of every adapter: the copy of NCCL that is meant, `nccl` from there on. Before anything else, as
 * whatever calls NCCL, too, would take the note of the stub. Keeps errno for FORWARD(). Behind the name stands what the
 * trace tells of a call, as fields of struct tagc_call. */
#define CALLED(name, ...) \
  __attribute__((cleanup(restore_errno))) int called_errno = errno; \
  const struct tagc_nccl *nccl = tagc_real_called(__builtin_return_address(0)); \
  __attribute__((cleanup(end_trace))) struct tagc_call called; \
  called.trace.number = 0; \
  if (watched() && tagc_trace_on()) { \
    called = \
      (struct tagc_call){.entry = TAGC_ENTRY_##name, .nccl = nccl, .group = tagc_group_number(nccl), __VA_ARGS__}; \
    tagc_trace_enter(&called); \
  }

/* How every adapter ends. */
#define RETURN(status) return called.trace.result = (status)

/* What the real function has left in errno is what the program finds there: our own work before and after it leaves
 * none. */
static inline void restore_errno(const int *called_errno) { errno = *called_errno; }

static inline void end_trace(struct tagc_call *called) {
  if (called->trace.number)
    tagc_trace_call(called, called->trace.result);
}

/* Does this call want more than forwarding? Not with TAGC_MODE=off, and not when NCCL calls itself. */
static inline bool watched(void) { return tagc_real_depth == 0 && tagc_library_on(); }

/* Calls the real function as it came; a function that this NCCL does not have is missed by its caller alone. */
#define FORWARD(name, ...) \
  ({ \
    __typeof__(&name) forward_real = TAGC_REAL(name, nccl); \
    forward_real ? TAGC_IN_REAL_ERRNO(forward_real(__VA_ARGS__), &called_errno) : ncclSystemError; \
  })

/* The same for what works on a stream beside the collectives. */
#define FORWARD_IN_ORDER(name, ...) \
  ({ \
    struct tagc_comm *ordered_comm = watched() ? tagc_order_find(comm) : NULL; \
    tagc_order_before_plain(ordered_comm, stream); \
    ncclResult_t ordered_status = FORWARD(name, __VA_ARGS__); \
    if (!tagc_group_passed(nccl, ordered_comm, stream)) { \
      ordered_status = tagc_no_memory("a call of a group"); \
      tagc_group_fail(nccl, ordered_status); \
    } \
    tagc_comm_release(ordered_comm); \
    ordered_status; \
  })

/* Is a launch on this communicator under way in the background? NCCL refuses most calls then. */
static inline bool busy(ncclComm_t comm) { return watched() && tagc_background_ask(comm) == ncclInProgress; }
#define RETURN_IF_BUSY(comm) \
  if (busy(comm)) \
  RETURN(ncclInvalidArgument)

/* The same for a call that is part of a group, which is refused with it. */
#define RETURN_IF_REFUSED(comm) \
  if (busy(comm)) \
  RETURN((tagc_group_fail(nccl, ncclInvalidArgument), ncclInvalidArgument))

/* Shared by those that make a communicator anew (entries.c). */
void tagc_entry_begin_anew(ncclComm_t comm);
/* For the trace: of the communicator of a call nothing is left but a handle to destroy. */
void tagc_entry_note_end(const struct tagc_call *called, ncclResult_t status);

#endif
