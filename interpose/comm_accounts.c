/* SPDX-License-Identifier: BSD-3-Clause
 * What calls on a communicator come to in its ledger: those that go as they came when they are made, and what a device has counted of
 * the others when it is read. (What the host compresses is entered by reduce.c and gather.c.)
 */
#include "interpose/comm.h"
#include "interpose/levels.h"
#include "interpose/selection.h"
#include "interpose/times.h"

bool tagc_comm_read_tally(struct tagc_comm *comm, void *tally, int slot)
{
  struct tagc_ledger *ledger = comm->ledger;
  struct tagc_tally_times read;
  const double *ms = read.ms;      /* what follows on each mark */
  if (!comm->device->tally_read(comm->device, tally, &read, &tagc_ledger_row(ledger, slot)->stats))
    return false;
  const struct tagc_times times = {ms[TAGC_MARK_BEGUN], ms[TAGC_MARK_SUMMED], ms[TAGC_MARK_ENCODED], ms[TAGC_MARK_EXCHANGED]};
  tagc_times_add(comm, read.number, &times);
  tagc_ledger_row(ledger, slot)->counted = true;
  tagc_selection_add(comm, slot, 1e6 * (times.sum + times.encode + times.exchange + times.decode));
  ledger->timed_calls++;
  ledger->encode_ms += times.encode;
  ledger->exchange_ms += times.sum + times.exchange;
  ledger->decode_ms += times.decode;
  return true;
}

bool tagc_comm_read_gather_tally(struct tagc_comm *comm, void *tally, int allgather)
{
  struct tagc_ledger_row *row = tagc_ledger_gather_row(comm->ledger, allgather);
  struct tagc_ledger_times *times = &comm->ledger->gather_times;
  struct tagc_tally_times read;
  const double *ms = read.ms;      /* what follows on each mark */
  if (!comm->device->tally_read(comm->device, tally, &read, &row->stats))
    return false;
  tagc_times_add(comm, read.number, &(struct tagc_times){0, ms[TAGC_MARK_SUMMED] + ms[TAGC_MARK_BEGUN], ms[TAGC_MARK_ENCODED],
                                                         ms[TAGC_MARK_EXCHANGED]});
  times->calls++;
  times->encode_ms += ms[TAGC_MARK_BEGUN] + ms[TAGC_MARK_SUMMED];
  times->exchange_ms += ms[TAGC_MARK_ENCODED];
  times->decode_ms += ms[TAGC_MARK_EXCHANGED];
  return true;
}

/* What the call sends as it came. */
static struct tagc_traffic sent_plain(const struct tagc_comm *comm, const struct tagc_call *call)
{
  const struct tagc_hosts hosts = tagc_levels_hosts(comm);
  return tagc_trace_sent(call, comm->rank, &hosts);
}

/* An all-gather that may be compressed. */
static void account_gather(struct tagc_comm *comm, struct tagc_call *call)
{
  struct tagc_ledger *ledger = comm->ledger;
  struct tagc_allgather *allgather = tagc_allgather_of(comm, call);
  tagc_ledger_gather_row(ledger, call->allgather)->calls++;
  ledger->gather_reasons[call->decision.reason]++;
  if (call->decision.action != TAGC_PASS)
    return;
  const struct tagc_traffic plain = sent_plain(comm, call);
  tagc_traffic_add(&ledger->gather_sent, &plain);
  tagc_traffic_add(&ledger->gather_plain, &plain);
  if (allgather) {
    struct tagc_allgather *first = tagc_allgather_first(comm, allgather);
    first->referred = first->digest_known = false;   /* they are of the last call */
  }
}

void tagc_comm_account(struct tagc_comm *comm, struct tagc_call *call)
{
  tagc_trace_account(comm, call);
  if (call->entry == TAGC_ENTRY_ncclAllGather && tagc_comm_may_compress(call)) {
    account_gather(comm, call);
    return;
  }
  if (call->entry != TAGC_ENTRY_ncclReduceScatter && call->slot < 0) {
    comm->ledger->other_calls++;
    if (call->allgather >= 0 && tagc_cycle_is_gradients(comm->cycle)) {
      const struct tagc_traffic plain = sent_plain(comm, call);
      comm->ledger->gathers_left++;
      tagc_traffic_add(&comm->ledger->gathers_left_sent, &plain);
    }
    return;
  }
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
  row->calls++;
  comm->ledger->reasons[call->decision.reason]++;
  if (call->decision.action == TAGC_PASS) {
    const struct tagc_traffic plain = sent_plain(comm, call);
    tagc_traffic_add(&comm->ledger->sent, &plain);
    tagc_traffic_add(&comm->ledger->plain, &plain);
  }
}
