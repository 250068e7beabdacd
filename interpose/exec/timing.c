/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/timing.h"

#include "interpose/comm/comm.h"

enum { READ_LEAST = 16, READ_MOST = 64 };

static uint64_t nanoseconds(double ms) { return ms > 0 ? (uint64_t)(ms * 1e6 + 0.5) : 0; }

void tagc_times_add(const struct tagc_comm *comm, uint64_t call, const struct tagc_times *times)
{
  const struct tagc_trace_times record = {
    {TAGC_TRACE_TIMES, sizeof record, comm->trace}, .call = call, .sum_ns = nanoseconds(times->sum),
    .encode_ns = nanoseconds(times->encode), .exchange_ns = nanoseconds(times->exchange), .decode_ns = nanoseconds(times->decode),
    .by_device = 1, .hidden_unknown = times->hidden_unknown, .hidden_ns = nanoseconds(times->hidden),
  };
  if (call && tagc_trace_on())
    tagc_trace_add(&record.record);
}

static size_t read_timer(struct tagc_comm *comm, size_t least)
{
  struct tagc_timed timed[READ_MOST];
  const size_t count = comm->device->timer_read(comm->device, comm->timer, least, timed, READ_MOST);
  for (size_t i = 0; i < count; i++)
    tagc_times_add(comm, timed[i].number, &(struct tagc_times){.exchange = timed[i].ms});
  return count;
}

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
    read_timer(comm, READ_LEAST);
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

void tagc_times_finish(struct tagc_comm *comm)
{
  if (!comm->timer)
    return;
  while (read_timer(comm, 1))
    ;
  comm->device->timer_free(comm->device, comm->timer);
}
