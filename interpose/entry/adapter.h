/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by all adapters: the first and the last line of each, and the ways to the real function. Only for entries.c
 * and entries_comm_init.c.
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

/* The first line of every adapter: sets `nccl` to the copy of NCCL that is meant. It comes before anything else,
 * because any other call of NCCL would take the stub's note. Keeps errno for FORWARD(). The fields of struct tagc_call
 * that a trace records follow the name. */
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

/* The last line of every adapter. */
#define RETURN(status) return called.trace.result = (status)

/* The program finds in errno what the real function left there: our own work before and after it does not show. */
static inline void restore_errno(const int *called_errno) { errno = *called_errno; }

static inline void end_trace(struct tagc_call *called) {
  if (called->trace.number)
    tagc_trace_call(called, called->trace.result);
}

/* Does this call need more than forwarding? Not with TAGC_MODE=off, and not when NCCL calls itself. */
static inline bool watched(void) { return tagc_real_depth == 0 && tagc_library_on(); }

/* Calls the real function unchanged. If this NCCL lacks the function, only its caller gets an error. */
#define FORWARD(name, ...) \
  ({ \
    __typeof__(&name) forward_real = TAGC_REAL(name, nccl); \
    forward_real ? TAGC_IN_REAL_ERRNO(forward_real(__VA_ARGS__), &called_errno) : ncclSystemError; \
  })

/* The same for functions that work on a stream beside the collectives. */
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

/* Is a launch on this communicator under way in the background? Then NCCL refuses most calls. */
static inline bool busy(ncclComm_t comm) { return watched() && tagc_background_ask(comm) == ncclInProgress; }
#define RETURN_IF_BUSY(comm) \
  if (busy(comm)) \
  RETURN(ncclInvalidArgument)

/* The same for a call in a group: the group fails with it. */
#define RETURN_IF_REFUSED(comm) \
  if (busy(comm)) \
  RETURN((tagc_group_fail(nccl, ncclInvalidArgument), ncclInvalidArgument))

/* Shared by the functions that make a communicator anew (entries.c). */
void tagc_entry_begin_anew(ncclComm_t comm, bool revoked);
/* For the trace: the communicator of a call has ended, but for a handle to destroy. */
void tagc_entry_note_end(const struct tagc_call *called, ncclResult_t status);

#endif
