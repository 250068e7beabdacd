/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/clock.h"
#include "env/log.h"
#include "interpose/calls/calls.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/slot.h"
#include "interpose/nccl/process.h"
#include "interpose/trace/record.h"

_Static_assert((int)ncclFloat16 == TAGC_CODE_FLOAT16 && (int)ncclFloat32 == TAGC_CODE_FLOAT32 &&
                 (int)ncclFloat64 == TAGC_CODE_FLOAT64 && (int)TAGC_OP_SUM == TAGC_CODE_SUM &&
                 (int)TAGC_OP_AVG == TAGC_CODE_AVERAGE && (int)TAGC_OP_PREMULSUM == TAGC_CODE_SCALED_SUM,
               "what signatures hold");

/* May calls of the cycle that ends have been compressed? */
static bool may_have_compressed(const struct tagc_comm *comm) {
  return comm->vote.held &&
         comm->observed.cycle_number >= tagc_plan_first_cycle(tagc_library_options(), comm->vote.cycle);
}

/* What the calls of an ended cycle were. Its first compressed reduction has counted it, as the last cycle of a program
 * never ends. */
static enum tagc_ab_side account_cycle(struct tagc_comm *comm) {
  const struct tagc_observed *seen = &comm->observed;
  if (!may_have_compressed(comm))
    return TAGC_AB_NEITHER;
  const bool reduced = seen->reduced_cycle == seen->cycle_number;
  comm->ledger->cycles_plain += !reduced;
  return reduced || seen->gathered_cycle == seen->cycle_number ? TAGC_AB_COMPRESSED : TAGC_AB_PLAIN;
}

/* The side of the ended cycle by the plan: a disturbed step does not end its window. */
static enum tagc_ab_side planned_side(const struct tagc_comm *comm) {
  const struct tagc_options *options = tagc_library_options();
  if (!may_have_compressed(comm))
    return TAGC_AB_NEITHER;
  return options->mode != TAGC_MODE_AB ||
             tagc_plan_ab_compressed(options, comm->vote.cycle, comm->observed.cycle_number)
           ? TAGC_AB_COMPRESSED
           : TAGC_AB_PLAIN;
}

/* Accounts for an ended cycle, if it measures a step. */
static void account_step(struct tagc_comm *comm, enum tagc_ab_side planned, double step_ms) {
  struct tagc_ledger *ledger = comm->ledger;
  if (planned == TAGC_AB_NEITHER || step_ms < 0)
    return;
  const bool compressed = planned == TAGC_AB_COMPRESSED;
  struct tagc_ledger_side *side = &ledger->sides[compressed];
  const struct tagc_traffic sent = tagc_traffic_since(&ledger->sent, &comm->observed.cycle_began);
  const struct tagc_traffic allgather_sent =
    tagc_traffic_since(&ledger->allgather_sent, &comm->observed.cycle_began_allgathers);
  tagc_series_add(&side->step_ms, step_ms);
  tagc_traffic_add(&side->sent, &sent);
  tagc_traffic_add(&side->allgather_sent, &allgather_sent);
  if (compressed)
    tagc_log(TAGC_LOG_DEBUG, "interpose", "communicator %llu: cycle %llu left a residual of norm %.6g",
             (unsigned long long)ledger->number, (unsigned long long)comm->observed.cycle_number,
             tagc_ledger_residual_norm(ledger));
}

/* TAGC_MODE=ab: enters the step into the comparison, as the trace has it. */
static void compare_step(struct tagc_comm *comm, enum tagc_ab_side planned, double step_ms) {
  const struct tagc_ab_step step = {.lock = (uint32_t)comm->observed.lock_number,
                                    .cycle = comm->observed.cycle_number,
                                    .side = planned,
                                    .counts = step_ms > 0,
                                    .ms = step_ms};
  if (comm->ledger->ab)
    tagc_ab_add(comm->ledger->ab, &step);
}

/* TAGC_SPARSITY as a schedule: says when its next stage begins. */
static void log_stage(const struct tagc_comm *comm, uint64_t number) {
  const struct tagc_schedule *schedule = &tagc_library_options()->sparsity;
  const uint32_t stage = tagc_slot_stage(comm, number);
  char fraction[24];
  if (comm->vote.held && comm->vote.keeps_residuals && stage > tagc_slot_stage(comm, number - 1))
    tagc_log(TAGC_LOG_INFO, "interpose", "communicator %llu: sparsity %s from cycle %u on",
             (unsigned long long)comm->ledger->number, tagc_fraction_text(schedule->ppm[stage], fraction),
             schedule->from[stage]);
}

/* At the first call of a cycle: closes the accounts of the previous one. */
static void start_cycle(struct tagc_comm *comm, uint64_t number) {
  const uint64_t now_ns = tagc_clock_ns();
  const bool disturbed = comm->observed.cycle_disturbed || !comm->observed.cycle_began_ns;
  const double step_ms = disturbed ? -1 : (double)(now_ns - comm->observed.cycle_began_ns) * 1e-6;
  tagc_slots_drop_nonfinite(comm);
  const enum tagc_ab_side planned = planned_side(comm), side = account_cycle(comm);
  account_step(comm, planned, step_ms);
  compare_step(comm, planned, step_ms);
  if (number > 1)
    tagc_progress_cycle(comm, side, step_ms);
  tagc_trace_cycle(comm, comm->observed.cycle_number, now_ns, planned, disturbed);
  log_stage(comm, number);
  comm->observed.cycle_number = number;
  comm->observed.cycle_disturbed = false;
  comm->observed.cycle_began_ns = now_ns;
  comm->observed.cycle_began = comm->ledger->sent;
  comm->observed.cycle_began_allgathers = comm->ledger->allgather_sent;
}

/* Checks if the slot's gradient lies where it always does. */
static void see_home(struct tagc_comm *comm, const struct tagc_call *call) {
  struct tagc_home *home = &comm->slots[call->slot].home;
  const bool settled = tagc_home_see(home, call->handle, call->send, tagc_call_bytes(call));
  tagc_ledger_row(comm->ledger, call->slot)->home = settled ? home->place : (struct tagc_range){0};
}

static struct tagc_signature signature_of(const struct tagc_call *call) {
  enum tagc_dtype dtype;
  return (struct tagc_signature){call->count, (uint8_t)tagc_call_collective(call), (uint8_t)call->type,
                                 (uint8_t)call->op_kind, tagc_comm_dtype(call->type, &dtype)};
}

/* An unexpected call: slots that may have been mistaken for one another lose their unsent values. In a group, calls
 * before it have been observed and have yet to run: what they leave is void, too (exec/reduce_scatter.c). */
static void lose_track(struct tagc_comm *comm) {
  size_t count;
  const uint32_t *suspects = tagc_cycle_suspects(comm->observed.cycle, &count);
  for (size_t i = 0; i < count; i++) {
    tagc_slot_drop_residual(comm, suspects[i]);
    if (suspects[i] < comm->slot_count)
      comm->slots[suspects[i]].state.void_before = comm->observed.calls;
  }
  comm->observed.cycle_disturbed = true;
  tagc_allgathers_forget(comm);
}

/* Fills the call with the cycle's findings. */
static void fill_call(struct tagc_comm *comm, struct tagc_call *call, const struct tagc_sighting *seen) {
  const bool in_sync = seen->state == TAGC_CYCLE_IN_SYNC;
  comm->observed.resync_pending =
    !in_sync || seen->lost || (comm->observed.resync_pending && !(seen->starts && comm->observed.in_sync));
  comm->observed.in_sync = in_sync;
  call->calls_skipped = seen->calls_skipped;
  call->resync_pending = comm->observed.resync_pending;
  call->state = seen->state;
  call->slot = seen->slot < (int)comm->slot_count ? seen->slot : -1;
  call->allgather = seen->allgather;
  call->lock_number = comm->observed.lock_number;
  call->cycle = comm->observed.cycle_number;
  if (call->slot >= 0)
    see_home(comm, call);
  if (tagc_call_collective(call) == TAGC_COLL_REDUCE_SCATTER)
    tagc_shards_note(call);
  else if (call->slot >= 0 && comm->vote.asks_shards)
    comm->slots[call->slot].sample.sums_shard = tagc_shards_sums(call);
}

static ncclResult_t observe_call(struct tagc_comm *comm, struct tagc_call *call, struct tagc_former_lock *old) {
  const struct tagc_signature signature = signature_of(call);
  struct tagc_sighting seen;
  if (*tagc_library_options()->calls)
    tagc_record_call(comm->ledger->number, comm->rank, comm->nranks, &signature);
  call->number = ++comm->observed.calls;
  tagc_cycle_observe(comm->observed.cycle, &signature, &seen);
  if (seen.lost)
    lose_track(comm);
  if (seen.locked || (seen.state == TAGC_CYCLE_LEARNING && comm->slot_count)) {
    ncclResult_t status = tagc_lock_start(comm, old);
    if (status != ncclSuccess)
      return status;
    comm->observed.cycle_number = seen.cycle;
  }
  if (seen.starts)
    start_cycle(comm, seen.cycle);
  if (seen.state == TAGC_CYCLE_LEARNING)
    tagc_progress_call(comm);
  fill_call(comm, call, &seen);
  return ncclSuccess;
}

/* Its replays are not seen, so what is unsent would come many steps too late. */
void tagc_call_note_capture(struct tagc_comm *comm) {
  pthread_mutex_lock(&comm->lock);
  for (size_t i = 0; i < comm->slot_count; i++)
    tagc_slot_drop_residual(comm, i);
  pthread_mutex_unlock(&comm->lock);
}

ncclResult_t tagc_call_observe(struct tagc_call *call) {
  struct tagc_comm *comm = call->comm;
  struct tagc_former_lock old = {0};
  pthread_mutex_lock(&comm->lock);
  ncclResult_t status = observe_call(comm, call, &old);
  pthread_mutex_unlock(&comm->lock);
  tagc_memory_release(comm, &old);
  return status;
}
