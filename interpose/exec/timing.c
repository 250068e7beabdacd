/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/timing.h"

#include "interpose/comm/comm.h"
#include "interpose/comm/traced.h"

/* Never waits for another thread that works on the communicator. */
static bool enter(struct tagc_comm *comm)
{
  return atomic_load(&comm->phase) == TAGC_PHASE_IDLE && tagc_comms_enter(&comm, 1, TAGC_PHASE_IDLE, TAGC_PHASE_OURS);
}

static int begin(struct tagc_comm *comm, const struct tagc_call *call)
{
  const struct tagc_device *device = comm->device;
  int begun = -1;
  if (!enter(comm))
    return -1;
  if (tagc_comms_enter_driver(&comm, 1)) {         /* else the stream may be gone */
    if (!comm->timer)
      comm->timer = device->timer_make(device);
    tagc_times_read(comm);
    begun = device->timer_begin(device, comm->timer, call->trace.number, call->stream);
  }
  tagc_comms_leave_driver(&comm, 1);
  tagc_comms_leave(&comm, 1);
  return begun;
}

int tagc_times_begin(const struct tagc_call *call)
{
  struct tagc_comm *comm = call->comm;
  return call->trace.number && comm->device && !comm->device->host_reads ? begin(comm, call) : -1;
}

void tagc_times_end(const struct tagc_call *call, int begun, ncclResult_t status)
{
  struct tagc_comm *comm = call->comm;
  if (begun < 0)
    return;
  const struct tagc_device *device = comm->device;
  const bool entered = enter(comm);
  const bool good = entered && tagc_comms_enter_driver(&comm, 1) && status == ncclSuccess;
  device->timer_end(device, comm->timer, begun, call->stream, good);
  if (entered) {
    tagc_comms_leave_driver(&comm, 1);
    tagc_comms_leave(&comm, 1);
  }
}

