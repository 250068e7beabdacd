/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "env/log.h"
#include "interpose/calls/calls.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/slot.h"
#include "interpose/nccl/process.h"
#include "interpose/stats/layers_log.h"

/* The user's map, or that of PyTorch. */
static const struct tagc_model *map_of(const struct tagc_comm *comm) {
  const struct tagc_model *map = tagc_library_map(&(uint64_t){0});
  return map ? map : comm->model;
}

/* Infers layers if slots may be gradients. False without memory: layers decide what is compressed, and a rank without
 * them would decide differently from the others. */
static bool infer_layers(struct tagc_comm *comm, const struct tagc_slot_info *infos, size_t count) {
  char why[160] = "";
  const struct tagc_model *map = map_of(comm);
  if (!count || comm->nranks < 2 ||
      (!map && !tagc_cycle_is_gradients(comm->observed.cycle) &&
       tagc_library_options()->assume != TAGC_ASSUME_GRADIENTS &&
       infos[0].signature.collective != TAGC_COLL_ALL_REDUCE)) /* only the layers may identify them */
    return true;
  comm->layers = tagc_layers_infer(infos, count, comm->nranks, map, why);
  if (*why)
    tagc_log(TAGC_LOG_WARN, "layermap", "communicator %llu: %s%.200s does not fit its calls: %s",
             (unsigned long long)comm->ledger->number, comm->model ? "the model of PyTorch" : "TAGC_LAYERMAP=",
             comm->model ? "" : tagc_library_options()->layermap, why);
  return comm->layers != NULL;
}

static bool has_evident_gradient(const struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->slot_count; i++)
    if (tagc_slot_is_gradient(comm, i))
      return true;
  return false;
}

/* May some slot be compressed? All kinds of traffic use all-reduces: if all may be activations, no vote is needed. */
static bool is_hopeful(const struct tagc_comm *comm) {
  return !tagc_comm_compares_ranks(comm) || tagc_library_options()->assume == TAGC_ASSUME_GRADIENTS ||
         has_evident_gradient(comm);
}

/* Sets the slot's state before the vote. */
static void fill_slot(const struct tagc_comm *comm, const struct tagc_signature *s, struct tagc_slot *slot) {
  const bool known = tagc_comm_dtype((ncclDataType_t)s->dtype, &slot->packed.dtype);
  slot->all_reduce = s->collective == TAGC_COLL_ALL_REDUCE;
  slot->shard_count = !known ? 0 : slot->all_reduce ? s->count / (uint64_t)comm->nranks : s->count;
  slot->packed.n = slot->shard_count;
  slot->packed.nranks = comm->nranks;
  slot->packed.keep_ppm = 1000000 - tagc_library_options()->sparsity.ppm[0];
  slot->codec = tagc_library_codec();
  slot->op = (enum tagc_op)s->op;
  slot->reason = TAGC_REASON_warm_up;
}

/* In words for the report: what the slots are, and by which evidence. */
static const char *taken_for(const struct tagc_comm *comm, const struct tagc_slot_info *infos) {
  const bool all_reduces = infos[0].signature.collective == TAGC_COLL_ALL_REDUCE;
  if (tagc_cycle_is_gradients(comm->observed.cycle))
    return all_reduces ? "gradients, as the program's first broadcasts or all-reduces show"
                       : "gradients, as their parameters are gathered in the forward pass";
  if (map_of(comm) && tagc_slot_is_gradient(comm, 0))
    return comm->model ? "gradients, as PyTorch says" : "gradients, as TAGC_LAYERMAP says";
  if (comm->layers && comm->layers->proven)
    return "gradients, as a model of known sizes has all their elements";
  if (tagc_library_options()->assume == TAGC_ASSUME_GRADIENTS)
    return "gradients, as TAGC_ASSUME=gradients says";
  return "a step without evident gradients";
}

/* Reduce-scatters of parameters that are gathered, or all-reduces that something else has proved, unless they can only
 * be gradients. */
static bool may_contents_decide(const struct tagc_comm *comm, size_t allgathers) {
  if (!tagc_comm_compares_ranks(comm))
    return allgathers > 0;
  return has_evident_gradient(comm) && !tagc_cycle_has_rebuilt_buckets(comm->observed.cycle);
}

/* Do the contents of the cycle's calls decide what is a gradient? Then they are sampled. The user may have decided it
 * already, or left no cycle for samples. */
static void watch_changes(struct tagc_comm *comm, size_t count) {
  size_t allgathers;
  tagc_cycle_allgathers(comm->observed.cycle, &allgathers);
  comm->changes.watched = tagc_plan_watches_changes(tagc_library_options()) && count && comm->nranks > 1 &&
                          !map_of(comm) && may_contents_decide(comm, allgathers);
  if (!comm->changes.watched)
    return;
  comm->changes.places = calloc(count + allgathers, sizeof *comm->changes.places);
  comm->vote.cycle = tagc_comm_first_vote(comm);
}

static void log_cycle(const struct tagc_comm *comm, const struct tagc_slot_info *infos) {
  const bool all_reduces = infos[0].signature.collective == TAGC_COLL_ALL_REDUCE;
  tagc_log(TAGC_LOG_INFO, "layermap", "communicator %llu: a cycle of %zu calls with %zu %s%s",
           (unsigned long long)comm->ledger->number, tagc_cycle_length(comm->observed.cycle), comm->slot_count,
           all_reduces ? "large all-reduces" : "reduce-scatters",
           !tagc_cycle_is_gradients(comm->observed.cycle) ? ""
           : all_reduces                                  ? ", most of them gradients"
                                                          : ", gradients with the gathers of their parameters");
  if (comm->layers)
    tagc_layers_log(comm->ledger->number, infos, comm->layers);
}

/* Frees the layers, and the model that they may point into. */
static void free_layers(struct tagc_comm *comm) {
  tagc_layers_free(comm->layers);
  tagc_model_free(comm->model);
  comm->layers = NULL;
  comm->model = NULL;
}

/* Ends all that was kept by slot. */
static void end_slots(struct tagc_comm *comm, struct tagc_former_lock *old) {
  for (size_t i = 0; i < comm->slot_count; i++)
    tagc_slot_drop_residual(comm, i);
  *old = tagc_memory_detach(comm);
  free_layers(comm);
  comm->vote.cycle = TAGC_VOTE_CYCLE;
  comm->vote.asks_shards = comm->vote.are_shards = comm->vote.asks_map = false;
  comm->vote.map_postponed = 0;
  comm->vote.map_cycle = 0;
  comm->vote.count = 0;
  comm->observed.cycles_before += comm->observed.cycle_number;
  comm->observed.lock_number++; /* calls held back in a group lose their slots */
  comm->observed.cycle_began_ns = 0;
  comm->observed.reduced_cycle = comm->observed.gathered_cycle = comm->observed.nonfinite = 0;
  tagc_progress_reset(comm);
}

static bool make_slots(struct tagc_comm *comm, const struct tagc_slot_info *infos, size_t count) {
  if (!count)
    tagc_ledger_end_slots(comm->ledger);
  else if (!tagc_ledger_set_slots(comm->ledger, infos, count, comm->layers))
    return false;
  comm->slots = calloc(count ? count : 1, sizeof *comm->slots);
  if (!comm->slots)
    return false;
  comm->slot_count = count;
  for (size_t i = 0; i < count; i++)
    fill_slot(comm, &infos[i].signature, &comm->slots[i]);
  return true;
}

/* Under the names of their slots. */
static bool name_allgathers(struct tagc_comm *comm) {
  size_t count;
  const struct tagc_allgather_info *infos = tagc_cycle_allgathers(comm->observed.cycle, &count);
  return tagc_ledger_set_allgathers(comm->ledger, infos, count);
}

static bool make_allgathers(struct tagc_comm *comm) {
  return !comm->slot_count || (tagc_allgathers_make(comm) && name_allgathers(comm));
}

/* Can the ranks compare what PyTorch says? They all can, or none. Else the layers are inferred. */
static bool can_ask_torch(const struct tagc_comm *comm) {
  bool any = false;
  for (size_t i = 0; i < comm->slot_count && !any; i++)
    any = tagc_slot_has_codecs(&comm->slots[i]);
  return any && tagc_library_asks_torch() != TAGC_ASK_NOTHING && tagc_library_options()->mode != TAGC_MODE_OBSERVE &&
         comm->device && comm->nranks > 1 && tagc_comm_agreed(comm);
}

/* Decides what follows from the layers. */
static ncclResult_t use_layers(struct tagc_comm *comm, const struct tagc_slot_info *infos, size_t count) {
  if (count && !is_hopeful(comm)) {
    comm->vote.asks_shards = tagc_shards_may_be(comm);
    if (!comm->vote.asks_shards)
      tagc_comm_pass_slots(comm);
  }
  if (!tagc_partial_select(comm)) {
    tagc_partial_free(comm->slots, comm->slot_count);
    comm->slot_count = 0; /* no vote on slots that other ranks have sorted differently */
    return tagc_no_memory("the parts of slots");
  }
  comm->ledger->taken_for = count ? taken_for(comm, infos) : "a step without gradients";
  if (count)
    log_cycle(comm, infos);
  return ncclSuccess;
}

ncclResult_t tagc_lock_use_map(struct tagc_comm *comm, struct tagc_model *model) {
  size_t count;
  const struct tagc_slot_info *infos = tagc_cycle_slots(comm->observed.cycle, &count);
  comm->vote.asks_map = false;
  if (!model)
    return use_layers(comm, infos, count);
  free_layers(comm);
  comm->model = model;
  if (!infer_layers(comm, infos, count) || !tagc_ledger_set_slots(comm->ledger, infos, count, comm->layers) ||
      !name_allgathers(comm))
    return tagc_no_memory("the layers of slots");
  if (comm->layers->source == TAGC_LAYER_MAP) { /* contents are not compared with a map */
    comm->changes.watched = false;
    comm->vote.cycle = tagc_comm_first_vote(comm);
  }
  const ncclResult_t status = use_layers(comm, infos, count);
  tagc_trace_lock(comm, infos, count);
  return status;
}

ncclResult_t tagc_lock_start(struct tagc_comm *comm, struct tagc_former_lock *old) {
  size_t count;
  const struct tagc_slot_info *infos = tagc_cycle_slots(comm->observed.cycle, &count);
  end_slots(comm, old);
  if (!infer_layers(comm, infos, count))
    return tagc_no_memory("the layers of slots");
  if (!make_slots(comm, infos, count))
    return tagc_no_memory("the slots of a cycle");
  if (!make_allgathers(comm))
    return tagc_no_memory("the all-gathers of a cycle");
  tagc_shards_set(comm);
  watch_changes(comm, count);
  comm->vote.asks_map = can_ask_torch(comm);
  comm->ledger->taken_for = "a step of which PyTorch was not asked yet";
  const ncclResult_t status = comm->vote.asks_map ? ncclSuccess : use_layers(comm, infos, count);
  if (status == ncclSuccess)
    tagc_trace_lock(comm, infos, count);
  return status;
}
