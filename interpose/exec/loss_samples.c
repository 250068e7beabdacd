/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/exec/loss_samples.h"

#include "env/clock.h"
#include "interpose/comm/comm.h"
#include "interpose/metrics/metrics.h"
#include "interpose/nccl/process.h"

enum { OFTEN = 64 }; /* calls of a slot from one sample to the next, at least */
static const double SPENT_MS = 0.15;

/* `calls`: the slot's compressed calls, this one included. */
static bool is_due(const struct tagc_comm *comm, int slot, uint64_t calls) {
  const uint64_t period = comm->slot_count > OFTEN ? comm->slot_count : OFTEN;
  return calls <= OFTEN ? (calls & (calls - 1)) == 0 : calls % period == (uint64_t)slot % period;
}

/* The facts that need no trial. */
static struct tagc_trace_state loss_record(const struct tagc_comm *comm, int slot, uint64_t cycle) {
  const struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, slot);
  const double unknown = __builtin_nan("");
  const bool is_counted = comm->device->host_reads || row->counted;
  return (struct tagc_trace_state){
    {TAGC_TRACE_STATE, sizeof(struct tagc_trace_state), comm->trace.number},
    .cycle = cycle,
    .lock = (uint32_t)comm->observed.lock_number,
    .slot = (uint32_t)slot,
    .residual_norm = is_counted ? __builtin_sqrt(row->stats.residual_norm2) : unknown,
    .gradient_norm = unknown,
    .error = unknown,
    .unrecovered = row->stats.unrecovered,
    .nonfinite = row->stats.nonfinite,
  };
}

static void set_error(struct tagc_ledger_row *row, double error) {
  row->error_known = !__builtin_isnan(error);
  row->error = error;
}

/* Does a slot that is due still have time in this cycle? */
static bool has_time(struct tagc_comm *comm, uint64_t cycle) {
  if (comm->trace.sample_cycle != cycle)
    comm->trace.sample_ms = 0;
  comm->trace.sample_cycle = cycle;
  return comm->trace.sample_ms < SPENT_MS;
}

/* The sums of an all-reduce in place lie where the gradient was. A reduce-scatter leaves the shards of others. */
static bool is_overwritten(const struct tagc_call *call, const struct tagc_job *job) {
  return call->entry == TAGC_ENTRY_ncclAllReduce && job->send == call->recv;
}

void tagc_loss_sample_slot(const struct tagc_call *call, const struct tagc_job *job) {
  struct tagc_comm *comm = call->comm;
  if (!(tagc_trace_on() || tagc_metrics_on()) || call->decision.action != TAGC_COMPRESS)
    return;
  struct tagc_slot *slot = &comm->slots[call->slot];
  slot->state.sample_due |= is_due(comm, call->slot, slot->state.calls);
  if (!slot->state.sample_due || !has_time(comm, call->cycle))
    return;
  slot->state.sample_due = false;
  struct tagc_trace_state state = loss_record(comm, call->slot, call->cycle);
  const struct tagc_gradient_request question = {
    .shape = job->shape,
    .rank = job->rank,
    .send = job->send,
    .scale = job->scale,
    .stochastic = job->stochastic,
  };
  const double began = tagc_clock_ms();
  double error, norm;
  if (comm->device->host_reads && !is_overwritten(call, job) &&
      tagc_gradient_spot_check(&question, slot->codec, slot->state.calls, &error, &norm)) {
    state.error = error;
    state.gradient_norm = norm;
    set_error(tagc_ledger_row(comm->ledger, call->slot), error);
  }
  comm->trace.sample_ms += comm->device->host_reads ? tagc_clock_ms() - began : 0;
  tagc_trace_add(&state.record);
}

void tagc_loss_sample_allgather(const struct tagc_call *call) {
  const struct tagc_comm *comm = call->comm;
  const struct tagc_allgather *a = tagc_allgather_of(comm, call);
  const struct tagc_allgather_stats *stats = &tagc_ledger_allgather_row(comm->ledger, call->allgather)->allgather.stats;
  const double unknown = __builtin_nan("");
  if (!tagc_trace_on() || call->decision.action != TAGC_COMPRESS ||
      (a->calls > OFTEN ? a->calls % OFTEN : a->calls & (a->calls - 1)))
    return;
  const bool counted = comm->device->host_reads && stats->norm2 > 0;
  const struct tagc_trace_state state = {
    {TAGC_TRACE_STATE, sizeof state, comm->trace.number},
    .cycle = call->cycle,
    .lock = (uint32_t)comm->observed.lock_number,
    .slot = a->slot,
    .residual_norm = unknown,
    .gradient_norm = counted ? __builtin_sqrt(stats->norm2) : unknown,
    .error = counted ? tagc_allgather_error(stats) : unknown,
    .nonfinite = stats->nonfinite,
    .allgather = (uint32_t)call->allgather + 1,
  };
  tagc_trace_add(&state.record);
}

void tagc_loss_sample_vote(const struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->slot_count && tagc_options_auto(tagc_library_options()); i++) {
    struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, (int)i);
    const struct tagc_decision_inputs *inputs = row->inputs;
    row->error_known = false; /* that of the former choice */
    if (comm->slots[i].reason != TAGC_REASON_compressed || !inputs || inputs->choice.candidate < 0)
      continue;
    struct tagc_trace_state state = loss_record(comm, (int)i, comm->observed.cycle_number);
    state.residual_norm = 0; /* no residual exists yet */
    state.error = inputs->gradient.of[inputs->choice.candidate].error;
    set_error(row, state.error);
    tagc_trace_add(&state.record);
  }
}
