/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/comm.h"

#include <stdlib.h>

#include "env/clock.h"
#include "env/log.h"
#include "interpose/comm/capture.h"
#include "interpose/comm/memory.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/slot.h"
#include "interpose/comm/traced.h"
#include "interpose/nccl/process.h"
#include "interpose/stats/layers_log.h"
#include "interpose/trace/record.h"

static void (*at_end)(struct tagc_comm *comm);

void tagc_comm_at_end(void (*end)(struct tagc_comm *comm)) { at_end = end; }

static void comm_free(struct tagc_comm *comm)
{
  if (at_end)
    at_end(comm);
  tagc_topology_free(&comm->topology);
  tagc_estate_read(comm);
  if (comm->device)
    comm->device->lane_free(comm->device, atomic_load(&comm->lane));
  struct tagc_estate estate = tagc_estate_detach(comm);
  tagc_estate_release(comm, &estate);
  if (comm->fence)
    comm->device->fence_free(comm->device, comm->fence);
  if (comm->order.plain_fence)
    comm->device->fence_free(comm->device, comm->order.plain_fence);
  tagc_times_finish(comm);
  tagc_record_flush();
  tagc_cycle_destroy(comm->cycle);
  tagc_layers_free(comm->layers);
  pthread_mutex_destroy(&comm->lock);
  free(comm);
}

void tagc_comm_retain(struct tagc_comm *comm) { atomic_fetch_add(&comm->references, 1); }

void tagc_comm_release(struct tagc_comm *comm)
{
  if (comm && atomic_fetch_sub(&comm->references, 1) == 1)
    comm_free(comm);
}

static void tell_rocm(const struct tagc_nccl *nccl)
{
  static atomic_flag told;
  if (!atomic_flag_test_and_set(&told))
    tagc_log(TAGC_LOG_WARN, "interpose", "%s is RCCL: codecs run on NVIDIA's GPUs alone, so every call passes", nccl->library.name);
}

ncclResult_t tagc_comm_find_device(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device **device)
{
  __typeof__(&ncclCommCuDevice) which = TAGC_REAL(ncclCommCuDevice, nccl);
  const char *why;
  int ordinal = -1;
  *device = nccl->on_host ? &tagc_device_host : NULL;
  if (nccl->on_rocm)
    tell_rocm(nccl);
  if (nccl->on_host || nccl->on_rocm || !which || !tagc_device_cuda_is_there(&why))
    return ncclSuccess;
  tagc_real_depth++;
  ncclResult_t status = which(handle, &ordinal);
  tagc_real_depth--;
  if (status != ncclSuccess)
    return status;
  *device = tagc_device_cuda(ordinal);
  if (*device)
    return ncclSuccess;
  tagc_log(TAGC_LOG_ERROR, "interpose", "GPU %d is beyond what this library counts: the call fails, as other ranks would wait for it "
           "(TAGC_MODE=off on all of them does without)", ordinal);
  return ncclInternalError;
}

struct tagc_comm *tagc_comm_create(ncclComm_t handle, const struct tagc_nccl *nccl, const struct tagc_device *device, int rank,
                                   int nranks)
{
  struct tagc_comm *comm = calloc(1, sizeof *comm);
  const struct tagc_cycle_options options = {(uint32_t)tagc_library_options()->warmup, 256, nranks};
  struct tagc_cycle *cycle = comm ? tagc_cycle_create(&options) : NULL;
  struct tagc_ledger *ledger = cycle ? tagc_ledger_create(rank, nranks) : NULL;
  if (!ledger) {
    tagc_cycle_destroy(cycle);
    free(comm);
    return NULL;
  }
  comm->handle = handle;
  comm->nccl = nccl;
  atomic_init(&comm->references, 1);
  comm->rank = rank;
  comm->nranks = nranks;
  comm->cycle = cycle;
  comm->ledger = ledger;
  if (!nccl->on_rocm)
    tagc_capture_find_driver();
  comm->device = device;
  pthread_mutex_init(&comm->lock, NULL);
  if (ledger->number == 0)
    tagc_log_set_rank(rank);
  return comm;
}

bool tagc_comm_dtype(ncclDataType_t type, enum tagc_dtype *out)
{
  switch (type) {
  case ncclFloat32: *out = TAGC_FLOAT32; return true;
  case ncclFloat16: *out = TAGC_FLOAT16; return true;
  case ncclBfloat16: *out = TAGC_BFLOAT16; return true;
  default: return false;
  }
}

bool tagc_comm_may_compress(const struct tagc_call *call)
{
  enum tagc_dtype dtype;
  if (call->entry == TAGC_ENTRY_ncclAllReduce)
    return call->count >= TAGC_ALL_REDUCE_LEAST && tagc_comm_dtype(call->type, &dtype);
  return call->entry == TAGC_ENTRY_ncclReduceScatter ||
         (call->entry == TAGC_ENTRY_ncclAllGather && tagc_library_options()->allgather != TAGC_ALLGATHER_OFF &&
          tagc_comm_dtype(call->type, &dtype));
}

uint64_t tagc_comm_elements(const struct tagc_comm *comm, const struct tagc_call *call)
{
  return call->entry == TAGC_ENTRY_ncclAllReduce ? call->count : call->count * (uint64_t)comm->nranks;
}

_Static_assert((int)ncclFloat16 == TAGC_CODE_FLOAT16 && (int)ncclFloat32 == TAGC_CODE_FLOAT32 &&
               (int)ncclFloat64 == TAGC_CODE_FLOAT64 && (int)TAGC_OP_SUM == TAGC_CODE_SUM &&
               (int)TAGC_OP_AVG == TAGC_CODE_AVERAGE && (int)TAGC_OP_PREMULSUM == TAGC_CODE_SCALED_SUM, "what signatures hold");

static enum tagc_collective collective(enum tagc_entry entry)
{
  switch (entry) {
  case TAGC_ENTRY_ncclReduceScatter: return TAGC_REDUCE_SCATTER;
  case TAGC_ENTRY_ncclAllGather: return TAGC_ALL_GATHER;
  case TAGC_ENTRY_ncclAllReduce: return TAGC_ALL_REDUCE;
  case TAGC_ENTRY_ncclReduce: return TAGC_REDUCE;
  case TAGC_ENTRY_ncclAlltoAll: return TAGC_ALL_TO_ALL;
  case TAGC_ENTRY_ncclGather: return TAGC_GATHER;
  case TAGC_ENTRY_ncclScatter: return TAGC_SCATTER;
  default: return TAGC_BROADCAST;
  }
}

/* What slot i has not sent yet is given up, and counted. */
static void drop_residual(struct tagc_comm *comm, size_t i)
{
  if (i >= comm->slot_count || !comm->slots[i].residual || comm->slots[i].residual_empty)
    return;
  comm->slots[i].residual_empty = true;
  tagc_ledger_row(comm->ledger, (int)i)->residuals_dropped++;
}

/* Layers are asked for where slots may be gradients. False without memory: they decide what is compressed, and a rank without them would
 * decide differently from the others. */
static bool infer_layers(struct tagc_comm *comm, const struct tagc_slot_info *infos, size_t count)
{
  char why[160] = "";
  uint64_t digest;
  const struct tagc_model *map = tagc_library_map(&digest);
  tagc_layers_free(comm->layers);
  comm->layers = NULL;
  if (!count || comm->nranks < 2 ||
      (!map && !tagc_cycle_is_gradients(comm->cycle) && tagc_library_options()->assume != TAGC_ASSUME_GRADIENTS &&
       infos[0].signature.collective != TAGC_ALL_REDUCE))        /* which may be told by the layers alone */
    return true;
  comm->layers = tagc_layers_infer(infos, count, comm->nranks, map, why);
  if (*why)
    tagc_log(TAGC_LOG_WARN, "layermap", "communicator %llu: TAGC_LAYERMAP=%.200s is not what it calls: %s",
             (unsigned long long)comm->ledger->number, tagc_library_options()->layermap, why);
  return comm->layers != NULL;
}

/* May some slot be compressed? All-reduces are everybody's: where all of them may be of activations there is nothing to vote on. */
static bool is_hopeful(const struct tagc_comm *comm, const struct tagc_slot_info *infos)
{
  bool hopeful = infos[0].signature.collective != TAGC_ALL_REDUCE || tagc_library_options()->assume == TAGC_ASSUME_GRADIENTS;
  for (size_t i = 0; i < comm->slot_count && !hopeful; i++)
    hopeful = tagc_slot_is_gradient(comm, i);
  return hopeful;
}

/* As if that had been the outcome of the vote. */
static void pass_all(struct tagc_comm *comm)
{
  for (size_t i = 0; i < comm->slot_count; i++)
    comm->slots[i].reason = TAGC_REASON_activations;
  comm->voted = true;
}

/* As it is before the vote. */
static void fill_slot(const struct tagc_comm *comm, const struct tagc_signature *s, struct tagc_slot *slot)
{
  const bool known = tagc_comm_dtype((ncclDataType_t)s->dtype, &slot->shape.dtype);
  slot->all_reduce = s->collective == TAGC_ALL_REDUCE;
  slot->shape.n = !known ? 0 : slot->all_reduce ? s->count / (uint64_t)comm->nranks : s->count;
  slot->shape.nranks = comm->nranks;
  slot->shape.keep_ppm = 1000000 - tagc_library_options()->sparsity;
  slot->codec = tagc_library_codec();
  slot->op = (enum tagc_op)s->op;
  slot->reason = TAGC_REASON_warm_up;
}

static void log_cycle(const struct tagc_comm *comm, const struct tagc_slot_info *infos)
{
  const bool all_reduces = infos[0].signature.collective == TAGC_ALL_REDUCE;
  tagc_log(TAGC_LOG_INFO, "layermap", "communicator %llu: a cycle of %zu calls with %zu %s%s",
           (unsigned long long)comm->ledger->number, tagc_cycle_length(comm->cycle), comm->slot_count,
           all_reduces ? "large all-reduces" : "reduce-scatters", !tagc_cycle_is_gradients(comm->cycle) ? "" :
           all_reduces ? ", most of them gradients" : ", gradients with the gathers of their parameters");
  if (comm->layers)
    tagc_layers_log(comm->ledger->number, infos, comm->layers);
}

/* A new lock, or none any more: everything that was kept by slot is void, and *old is to be given back. */
static ncclResult_t start_over(struct tagc_comm *comm, struct tagc_estate *old)
{
  size_t count;
  const struct tagc_slot_info *infos = tagc_cycle_slots(comm->cycle, &count);
  for (size_t i = 0; i < comm->slot_count; i++)
    drop_residual(comm, i);
  *old = tagc_estate_detach(comm);
  comm->vote_cycle = TAGC_VOTE_CYCLE;
  comm->votes = 0;
  comm->lock_number++;              /* calls that are held back find their slots gone */
  comm->cycle_began_ns = 0;
  tagc_live_reset(comm);
  if (!infer_layers(comm, infos, count))
    return tagc_no_memory("the layers of slots");
  if (!count)
    tagc_ledger_end_slots(comm->ledger);
  else if (!tagc_ledger_set_slots(comm->ledger, infos, count, comm->layers))
    return tagc_no_memory("the slots of a cycle");
  comm->slots = calloc(count ? count : 1, sizeof *comm->slots);
  if (!comm->slots)
    return tagc_no_memory("the slots of a cycle");
  comm->slot_count = count;
  for (size_t i = 0; i < count; i++)
    fill_slot(comm, &infos[i].signature, &comm->slots[i]);
  size_t gathers;
  const struct tagc_allgather_info *gather_infos = tagc_cycle_allgathers(comm->cycle, &gathers);
  if (count && (!tagc_allgathers_make(comm) || !tagc_ledger_set_gathers(comm->ledger, gather_infos, gathers)))
    return tagc_no_memory("the all-gathers of a cycle");
  if (count && !is_hopeful(comm, infos))
    pass_all(comm);
  if (!tagc_split_sort(comm)) {
    tagc_split_free(comm->slots, comm->slot_count);
    comm->slot_count = 0;           /* nothing is voted on that other ranks have sorted otherwise */
    return tagc_no_memory("the parts of slots");
  }
  if (count)
    log_cycle(comm, infos);
  tagc_trace_lock(comm, infos, count);
  return ncclSuccess;
}

/* The anchor: closes the accounts of the cycle before it. */
static void start_cycle(struct tagc_comm *comm, uint64_t number)
{
  const struct tagc_options *options = tagc_library_options();
  const uint64_t ended = comm->cycle_number, now_ns = tagc_clock_ns();
  const bool disturbed = comm->cycle_disturbed || !comm->cycle_began_ns;
  const double step_ms = (double)(now_ns - comm->cycle_began_ns) * 1e-6;
  int window = 0;
  if (comm->nonfinite)
    for (size_t i = 0; i < comm->slot_count; i++)
      if (comm->slots[i].residual_cycle == ended)
        drop_residual(comm, i);
  comm->nonfinite = false;
  if (comm->voted && ended >= tagc_plan_first_cycle(options, comm->vote_cycle) && !disturbed) {
    bool compressed = options->mode != TAGC_MODE_AB || tagc_plan_ab_compressed(options, comm->vote_cycle, ended);
    window = 1 + compressed;
    struct tagc_ledger_side *side = &comm->ledger->sides[compressed];
    tagc_series_add(&side->step_ms, step_ms);
    side->sent.inside += comm->ledger->sent.inside - comm->cycle_began.inside;
    side->sent.between += comm->ledger->sent.between - comm->cycle_began.between;
    side->gather_sent.inside += comm->ledger->gather_sent.inside - comm->cycle_began_gathers.inside;
    side->gather_sent.between += comm->ledger->gather_sent.between - comm->cycle_began_gathers.between;
    *(compressed ? &comm->ledger->cycles_compressed : &comm->ledger->cycles_plain) += 1;
    if (compressed)
      tagc_log(TAGC_LOG_DEBUG, "interpose", "communicator %llu: cycle %llu left a residual of norm %.6g",
               (unsigned long long)comm->ledger->number, (unsigned long long)ended, tagc_ledger_residual_norm(comm->ledger));
  }
  if (number > 1)
    tagc_live_cycle(comm, disturbed ? -1 : step_ms);
  tagc_trace_cycle(comm, ended, now_ns, window, disturbed);
  comm->cycle_number = number;
  comm->cycle_disturbed = false;
  comm->cycle_began_ns = now_ns;
  comm->cycle_began = comm->ledger->sent;
  comm->cycle_began_gathers = comm->ledger->gather_sent;
}

/* Does the slot's gradient lie where it always does? */
static void see_home(struct tagc_comm *comm, const struct tagc_call *call)
{
  struct tagc_home *home = &comm->slots[call->slot].home;
  const bool settled = tagc_home_see(home, call->handle, call->send, tagc_comm_elements(comm, call) * tagc_trace_type_size(call->type));
  tagc_ledger_row(comm->ledger, call->slot)->home = settled ? home->place : (struct tagc_range){0};
}

static ncclResult_t observe(struct tagc_comm *comm, struct tagc_call *call, struct tagc_estate *old)
{
  enum tagc_dtype dtype;
  bool is_float = tagc_comm_dtype(call->type, &dtype);
  struct tagc_signature signature = {call->count, (uint8_t)collective(call->entry), (uint8_t)call->type,
                                     (uint8_t)call->op_kind, is_float};
  struct tagc_sighting seen;
  if (*tagc_library_options()->calls)
    tagc_record_call(comm->ledger->number, comm->rank, comm->nranks, &signature);
  tagc_cycle_observe(comm->cycle, &signature, &seen);
  if (seen.lost) {
    size_t count;
    const uint32_t *suspects = tagc_cycle_suspects(comm->cycle, &count);
    for (size_t i = 0; i < count; i++)
      drop_residual(comm, suspects[i]);
    comm->cycle_disturbed = true;
    tagc_allgathers_forget(comm);
  }
  if (seen.locked || (seen.state == TAGC_CYCLE_LEARNING && comm->slot_count)) {
    ncclResult_t status = start_over(comm, old);
    if (status != ncclSuccess)
      return status;
    comm->cycle_number = seen.cycle;
  }
  if (seen.starts)
    start_cycle(comm, seen.cycle);
  const bool expected = seen.state == TAGC_CYCLE_ON_TRACK && !seen.lost;
  call->displaced = seen.displaced;
  comm->strayed = !expected || (comm->strayed && !(seen.starts && comm->on_track));
  comm->on_track = seen.state == TAGC_CYCLE_ON_TRACK;
  call->strayed = comm->strayed;
  call->state = seen.state;
  call->slot = seen.slot < (int)comm->slot_count ? seen.slot : -1;
  call->allgather = seen.allgather;
  call->lock_number = comm->lock_number;
  call->cycle = comm->cycle_number;
  if (call->slot >= 0)
    see_home(comm, call);
  return ncclSuccess;
}

ncclResult_t tagc_comm_observe(struct tagc_comm *comm, struct tagc_call *call)
{
  struct tagc_estate old = {0};
  pthread_mutex_lock(&comm->lock);
  ncclResult_t status = observe(comm, call, &old);
  pthread_mutex_unlock(&comm->lock);
  tagc_estate_release(comm, &old);
  return status;
}

bool tagc_comm_awaits_vote(const struct tagc_comm *comm, const struct tagc_call *call)
{
  return tagc_library_options()->mode != TAGC_MODE_OBSERVE && tagc_comm_next_vote(comm) && comm->agreed && comm->device &&
         comm->nranks >= 2 && call->slot >= 0 && call->lock_number == comm->lock_number;
}

void tagc_comm_decide(struct tagc_comm *comm, struct tagc_call *call)
{
  enum tagc_dtype dtype;
  bool is_float = tagc_comm_dtype(call->type, &dtype);
  if (call->lock_number != comm->lock_number) {
    call->state = TAGC_CYCLE_OFF_TRACK;            /* a later call of its group changed the lock */
    call->slot = call->allgather = -1;
  }
  const struct tagc_slot *slot = call->slot < 0 ? NULL : &comm->slots[call->slot];
  const struct tagc_allgather *allgather = tagc_allgather_of(comm, call);
  struct tagc_call_facts facts = {
    .options = tagc_library_options(),
    .collective = collective(call->entry),
    .compressible_type = is_float,
    .op = call->op_kind,
    .nranks = comm->nranks,
    .bytes = tagc_comm_elements(comm, call) * tagc_trace_type_size(call->type),
    .agreed = comm->agreed,
    .device = comm->device != NULL,
    .state = call->state,
    .slot = call->entry == TAGC_ENTRY_ncclAllGather ? call->allgather : call->slot,
    .cycle = call->cycle,
    .vote_cycle = comm->vote_cycle,
    .voted = comm->voted,
    .slot_reason = slot ? slot->reason : allgather ? allgather->reason : TAGC_REASON_off_track,
    .dirty = slot && slot->dirty,
    .settles = slot && slot->residual && tagc_retune_is_near(comm->ledger->retune, call->cycle),
    .strayed = call->strayed,
    .displaced = call->displaced,
    .stale = allgather && allgather->layout.reference_bytes && !tagc_allgather_first(comm, allgather)->referred,
  };
  call->decision = tagc_plan_call(&facts);
}

void tagc_comm_bar(struct tagc_comm *comm, const struct tagc_call *call, enum tagc_reason reason)
{
  struct tagc_allgather *allgather = tagc_allgather_of(comm, call);
  enum tagc_reason *barred = call->slot >= 0 ? &comm->slots[call->slot].barred : allgather ? &allgather->barred : NULL;
  if (barred && call->lock_number == comm->lock_number && *barred == TAGC_REASON_compressed)
    *barred = reason;
}

void tagc_comm_pass(struct tagc_comm *comm, struct tagc_call *call, enum tagc_reason reason)
{
  pthread_mutex_lock(&comm->lock);
  call->decision = (struct tagc_decision){TAGC_PASS, reason};
  tagc_comm_account(comm, call);
  pthread_mutex_unlock(&comm->lock);
}
