/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/calls/calls.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/placement.h"
#include "interpose/nccl/process.h"

/* The bytes of a plain call. */
static struct tagc_traffic sent_plain(const struct tagc_call *call) {
  const struct tagc_hosts hosts = tagc_hierarchy_hosts(call->comm);
  return tagc_trace_sent(call, call->comm->rank, &hosts);
}

/* Enters an all-gather that may be compressed. */
static void account_allgather(const struct tagc_comm *comm, const struct tagc_call *call) {
  struct tagc_ledger *ledger = comm->ledger;
  struct tagc_allgather *allgather = tagc_allgather_of(comm, call);
  tagc_ledger_allgather_row(ledger, call->allgather)->calls++;
  ledger->allgather_reasons[call->decision.reason]++;
  if (call->decision.action != TAGC_PASS)
    return;
  const struct tagc_traffic plain = sent_plain(call);
  tagc_traffic_add(&ledger->allgather_sent, &plain);
  tagc_traffic_add(&ledger->allgather_plain, &plain);
  if (allgather) {
    struct tagc_allgather *first = tagc_allgather_first(comm, allgather);
    first->referred = first->digest_known = false; /* they describe the last call */
  }
}

/* A broadcast that is not passed has its reason when its ranks have met: exec/broadcast.c enters it. */
static bool has_reason(const struct tagc_call *call) {
  return !tagc_call_is_broadcast(call) || call->decision.action == TAGC_PASS;
}

/* Enters a broadcast that may be compressed. */
static void account_broadcast(struct tagc_ledger_broadcasts *accounts, const struct tagc_call *call) {
  accounts->calls++;
  accounts->reasons[call->decision.reason] += has_reason(call);
}

static void account_large(struct tagc_ledger_large *large, const struct tagc_call *call) {
  const struct tagc_traffic plain = sent_plain(call);
  large->calls++;
  large->reasons[call->decision.reason]++;
  tagc_traffic_add(&large->plain, &plain);
}

/* Is it an all-gather whose reduce-scatter is of gradients? */
static bool is_of_parameters(const struct tagc_comm *comm, const struct tagc_call *call) {
  size_t count;
  const struct tagc_allgather_info *infos = tagc_cycle_allgathers(comm->observed.cycle, &count);
  return call->allgather >= 0 && (size_t)call->allgather < count &&
         tagc_slot_is_gradient(comm, infos[call->allgather].slot);
}

static void account_call(const struct tagc_comm *comm, struct tagc_call *call) {
  tagc_trace_account(comm, call);
  if (tagc_call_bytes(call) >= tagc_library_options()->min_bytes && call->count && has_reason(call))
    account_large(&comm->ledger->large, call);
  if (call->entry == TAGC_ENTRY_ncclAllGather && tagc_call_may_compress(call)) {
    account_allgather(comm, call);
    return;
  }
  if (tagc_call_is_broadcast(call) && comm->ledger->broadcasts) {
    account_broadcast(comm->ledger->broadcasts, call);
    return;
  }
  if (call->entry != TAGC_ENTRY_ncclReduceScatter && call->slot < 0) {
    comm->ledger->other_calls++;
    if (is_of_parameters(comm, call)) {
      const struct tagc_traffic plain = sent_plain(call);
      comm->ledger->allgathers_left++;
      comm->ledger->allgathers_left_reason = tagc_allgathers_reason();
      tagc_traffic_add(&comm->ledger->allgathers_left_sent, &plain);
    }
    return;
  }
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
  row->calls++;
  comm->ledger->reasons[call->decision.reason]++;
  if (call->decision.action == TAGC_PASS) {
    const struct tagc_traffic plain = sent_plain(call);
    tagc_traffic_add(&comm->ledger->sent, &plain);
    tagc_traffic_add(&comm->ledger->plain, &plain);
  }
}

void tagc_call_account(struct tagc_call *call) {
  pthread_mutex_lock(&call->comm->lock);
  account_call(call->comm, call);
  pthread_mutex_unlock(&call->comm->lock);
}

void tagc_call_pass(struct tagc_call *call, enum tagc_reason reason) {
  call->decision = (struct tagc_decision){TAGC_PASS, reason};
  tagc_call_account(call);
}
