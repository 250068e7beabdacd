/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/timing.h"

#include "env/clock.h"
#include "interpose/comm/comm.h"
#include "interpose/comm/traced.h"
#include "interpose/metrics/metrics.h"

/* Never waits for another thread that works on the communicator. */
static bool enter_if_idle(struct tagc_comm *comm) {
  return atomic_load(&comm->ownership.owner) == TAGC_OWNER_NONE && tagc_comms_enter(&comm, 1);
}

static int begin_event(struct tagc_comm *comm, const struct tagc_call *call) {
  const struct tagc_device *device = comm->device;
  int begun = -1;
  if (!enter_if_idle(comm))
    return -1;
  if (tagc_comms_enter_driver(&comm, 1)) { /* else the stream may be gone */
    if (!comm->trace.timer)
      comm->trace.timer = device->timer_make(device);
    tagc_times_read(comm);
    begun = device->timer_begin(device, comm->trace.timer, call->trace.number, call->stream);
  }
  tagc_comms_leave_driver(&comm, 1);
  tagc_comms_leave(&comm, 1);
  return begun;
}

static void end_event(struct tagc_comm *comm, const struct tagc_timing *timing, ncclResult_t status) {
  const bool entered = enter_if_idle(comm);
  const bool good = entered && tagc_comms_enter_driver(&comm, 1) && status == ncclSuccess;
  comm->device->timer_end(comm->device, comm->trace.timer, timing->begun, timing->call->stream, good);
  if (entered) {
    tagc_comms_leave_driver(&comm, 1);
    tagc_comms_leave(&comm, 1);
  }
}

/* Did the call go the way that was chosen for its slot, and does the host know its time? */
static bool counts_for_budget(const struct tagc_call *call) {
  const struct tagc_comm *comm = call->comm;
  if (!tagc_retune_counts(comm->ledger->retune, call->cycle) || !comm->vote.held || call->slot < 0 ||
      call->lock_number != comm->observed.lock_number || !comm->device || !comm->device->host_reads)
    return false;
  const bool chosen = comm->slots[call->slot].reason == TAGC_REASON_compressed;
  return call->decision.action == (chosen ? TAGC_COMPRESS : TAGC_PASS);
}

struct tagc_timing tagc_times_begin(const struct tagc_call *call) {
  const struct tagc_device *device = call ? call->comm->device : NULL;
  struct tagc_timing timing = {.call = call, .begun = -1};
  if (device && !device->host_reads && (call->trace.number || tagc_metrics_on()))
    timing.begun = begin_event(call->comm, call);
  if (device && (counts_for_budget(call) || (device->host_reads && tagc_metrics_on())))
    timing.began_ns = tagc_clock_ns();
  return timing;
}

void tagc_times_end(const struct tagc_timing *timing, ncclResult_t status) {
  if (timing->begun >= 0)
    end_event(timing->call->comm, timing, status);
  if (!timing->began_ns)
    return;
  tagc_times_spent(timing->call, timing->began_ns);
  if (timing->call->comm->device->host_reads && status == ncclSuccess)
    tagc_ledger_sum_add(&timing->call->comm->ledger->plain_calls, (double)(tagc_clock_ns() - timing->began_ns) * 1e-6);
}

void tagc_times_spent(const struct tagc_call *call, uint64_t began_ns) {
  if (counts_for_budget(call))
    tagc_retune_add(call->comm->ledger->retune, call->slot, (double)(tagc_clock_ns() - began_ns));
}
