/* SPDX-License-Identifier: BSD-3-Clause
 * Enters the counts and times that a device keeps of calls into the accounts of their communicator. (The host's own
 * compression is entered by exec/reduce_scatter.c and exec/allgather.c, every call by calls/account.c.)
 */
#include "interpose/comm/comm.h"
#include "interpose/comm/traced.h"

enum { READ_LEAST = 16, READ_MOST = 64 };

static uint64_t nanoseconds(double ms) { return ms > 0 ? (uint64_t)(ms * 1e6 + 0.5) : 0; }

void tagc_times_add(const struct tagc_comm *comm, uint64_t call, const struct tagc_times *times) {
  const struct tagc_trace_times record = {
    {TAGC_TRACE_TIMES, sizeof record, comm->trace.number},
    .call = call,
    .sum_ns = nanoseconds(times->sum),
    .encode_ns = nanoseconds(times->encode),
    .exchange_ns = nanoseconds(times->exchange),
    .decode_ns = nanoseconds(times->decode),
    .by_device = 1,
    .hidden_unknown = times->hidden_unknown,
    .hidden_ns = nanoseconds(times->hidden),
  };
  if (call && tagc_trace_on())
    tagc_trace_add(&record.record);
}

static size_t read_timer(struct tagc_comm *comm, size_t least) {
  struct tagc_timed timed[READ_MOST];
  const size_t count = comm->device->timer_read(comm->device, comm->trace.timer, least, timed, READ_MOST);
  for (size_t i = 0; i < count; i++) {
    tagc_times_add(comm, timed[i].number, &(struct tagc_times){.exchange = timed[i].ms});
    tagc_ledger_sum_add(&comm->ledger->plain_calls, timed[i].ms);
  }
  return count;
}

void tagc_times_read(struct tagc_comm *comm) { read_timer(comm, READ_LEAST); }

void tagc_times_finish(struct tagc_comm *comm) {
  if (!comm->trace.timer)
    return;
  while (read_timer(comm, 1))
    ;
  comm->device->timer_free(comm->device, comm->trace.timer);
}

/* The times of a call from a device's marks. For a call in chunks, the marks on the stream give the first encoding, the
 * exchanges with their waits, and the wait for the last decoding. The times of the side stream turn these into what the
 * host's clock gives (execute.c): all work, its part during which the stream did not wait (hidden), and exchanges
 * without waits. The sum less the hidden part is the same in both. */
static struct tagc_times call_times(const struct tagc_tally_times *read) {
  const double *ms = read->ms, *worked = read->worked_ms, *waited = read->waited_ms; /* ms: what follows on each mark */
  struct tagc_times times = {
    .sum = ms[TAGC_MARK_BEGUN],
    .encode = ms[TAGC_MARK_SUMMED] + ms[TAGC_MARK_HALF],
    .exchange = ms[TAGC_MARK_ENCODED] + ms[TAGC_MARK_SUMS_ENCODED],
    .decode = ms[TAGC_MARK_EXCHANGED] + ms[TAGC_MARK_SUMS_EXCHANGED],
    .hidden_unknown = !read->side_known,
  };
  const double whole = times.encode + times.exchange + times.decode,
               work = worked[TAGC_SIDE_ENCODE] + worked[TAGC_SIDE_DECODE];
  const double wait = waited[TAGC_SIDE_ENCODE] + waited[TAGC_SIDE_DECODE];
  if (!read->side_known || !(work > 0))
    return times;
  times.hidden = work > wait ? work - wait : 0;
  times.encode += worked[TAGC_SIDE_ENCODE];
  times.decode =
    (times.decode > waited[TAGC_SIDE_DECODE] ? times.decode - waited[TAGC_SIDE_DECODE] : 0) + worked[TAGC_SIDE_DECODE];
  const double exchange = whole + times.hidden - times.encode - times.decode;
  times.exchange = exchange > 0 ? exchange : 0;
  return times;
}

/* Enters a call into the trace, and into the sum of calls if all its times are known. */
static void enter_times(const struct tagc_comm *comm, const struct tagc_tally_times *read,
                        struct tagc_ledger_times *sum) {
  const struct tagc_times times = call_times(read);
  tagc_times_add(comm, read->number, &times);
  if (times.hidden_unknown)
    return;
  sum->calls++;
  sum->encode_ms += times.encode;
  sum->exchange_ms += times.sum + times.exchange;
  sum->decode_ms += times.decode;
  sum->hidden_ms += times.hidden;
}

bool tagc_comm_read_tally(struct tagc_comm *comm, void *tally, int slot) {
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, slot);
  struct tagc_tally_times read;
  double whole = 0;
  if (!comm->device->tally_read(comm->device, tally, &read, &row->stats))
    return false;
  for (int mark = 0; mark + 1 < TAGC_MARKS; mark++)
    whole += read.ms[mark];
  row->counted = true;
  if (slot < 0) { /* of a former lock: its residual is gone */
    row->stats.residual_norm2 = 0;
    row->residuals_dropped += row->stats.dropped;
    row->stats.dropped = 0;
  }
  tagc_retune_add(comm->ledger->retune, slot, 1e6 * whole);
  enter_times(comm, &read, &comm->ledger->times);
  return true;
}

bool tagc_comm_read_allgather_tally(struct tagc_comm *comm, void *tally, int allgather) {
  struct tagc_ledger_row *row = tagc_ledger_allgather_row(comm->ledger, allgather);
  struct tagc_tally_times read;
  if (!comm->device->tally_read(comm->device, tally, &read, &row->stats))
    return false;
  enter_times(comm, &read, &comm->ledger->allgather_times);
  return true;
}
