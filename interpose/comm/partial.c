/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/partial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "env/log.h"
#include "interpose/comm/comm.h"
#include "interpose/comm/placement.h"
#include "interpose/nccl/process.h"
#include "kernels/codec/assign_buffer.h"

enum { SELECTED, REST };

/* ---- at a lock --------------------------------------------------------------------------------------------------- */

/* For the report, which says less without memory. */
static void note_parameters(struct tagc_comm *comm, size_t i, const bool *is_selected) {
  char text[TAGC_LAYERS_WORDS];
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, (int)i);
  row->parameters = strdup(tagc_selected_words(&comm->layers->layers[i], is_selected, text));
  row->owns_parameters = row->parameters;
}

/* Uses the parts of an earlier slot if they are equal. */
static void share_parts(struct tagc_comm *comm, size_t i, struct tagc_parts *parts, const bool *is_selected) {
  const struct tagc_layer *layers = comm->layers->layers;
  struct tagc_slot *slot = &comm->slots[i];
  for (size_t j = 0; j < i; j++) {
    const struct tagc_slot *other = &comm->slots[j];
    if (other->selected.owns_parts && layers[j].members == layers[i].members &&
        tagc_parts_equal(other->selected.parts, parts)) {
      slot->selected.parts = other->selected.parts;
      tagc_ledger_row(comm->ledger, (int)i)->parameters = tagc_ledger_row(comm->ledger, (int)j)->parameters;
      tagc_parts_free(parts);
      return;
    }
  }
  slot->selected.parts = parts;
  slot->selected.owns_parts = true;
  note_parameters(comm, i, is_selected);
}

/* Selects a part of the slot, unless the part is empty or everything. If the members do not fill the buffer, they are
 * not its content: the slot passes. */
static bool select_some(struct tagc_comm *comm, size_t i, const bool *is_selected) {
  const struct tagc_layer *layer = &comm->layers->layers[i];
  struct tagc_slot *slot = &comm->slots[i];
  slot->selected.selection = TAGC_SELECT_NONE;
  const uint64_t shard =
    tagc_layout_shard(layer->layout, layer->members, layer->count, comm->nranks, layer->element_bytes);
  if (!slot->shard_count || shard != slot->shard_count)
    return true;
  struct tagc_parts *parts = tagc_parts_create(layer, comm->nranks, is_selected);
  if (!parts)
    return false;
  if (!parts->selected || !parts->rest) {
    slot->selected.selection = parts->selected ? TAGC_SELECT_ALL : TAGC_SELECT_NONE;
    tagc_parts_free(parts);
    return true;
  }
  slot->selected.selection = TAGC_SELECT_SOME;
  share_parts(comm, i, parts, is_selected);
  slot->packed.n = slot->selected.parts->selected;
  return true;
}

static void warn_unsure(const struct tagc_comm *comm) {
  const bool is_map = comm->layers->source == TAGC_LAYER_MAP;
  if (comm->rank == 0)
    tagc_log(TAGC_LOG_WARN, "interpose",
             "communicator %llu: TAGC_LAYERS or TAGC_SKIP selects parameters inside slots, but their %s is %u%% sure, "
             "and %d%% are needed: such slots pass; %s",
             (unsigned long long)comm->ledger->number, is_map ? "layout" : "model, a guess by sizes,",
             comm->layers->confidence, is_map ? TAGC_LAYERS_AMBIGUOUS : TAGC_LAYERS_SELECT,
             is_map ? "a line \"layout\" in the map settles it" : tagc_layers_remedy());
}

/* Without this, parameters that an unmatched name should leave out would be compressed silently. */
static void warn_unnamed(struct tagc_comm *comm, const struct tagc_slot_info *infos) {
  const struct tagc_options *o = tagc_library_options();
  if (comm->rank != 0 || comm->selection_told)
    return;
  comm->selection_told = true;
  tagc_layers_log_unnamed(comm->ledger->number, "TAGC_LAYERS", o->layers, TAGC_LOG_WARN, infos, comm->layers);
  /* The model may simply lack this kind of layer. */
  tagc_layers_log_unnamed(comm->ledger->number, "TAGC_SKIP", o->skip, TAGC_LOG_INFO, infos, comm->layers);
}

static void warn_guessed(const struct tagc_comm *comm) {
  if (comm->rank == 0)
    tagc_log(TAGC_LOG_WARN, "interpose",
             "communicator %llu: TAGC_LAYERS or TAGC_SKIP selects parameters inside slots, but their order is marked "
             "as guessed: such slots pass; a map with the registered order settles it (tagc-map from-config)",
             (unsigned long long)comm->ledger->number);
}

/* Says which parameters stay plain only because some of their kinds are unsure. */
static void tell_unsure_kinds(const struct tagc_comm *comm, const struct tagc_slot_info *infos) {
  const struct tagc_options *o = tagc_library_options();
  char first[TAGC_MEMBER_NAME] = "";
  size_t parameters = 0;
  uint64_t elements = 0;
  if (comm->rank != 0)
    return;
  for (size_t i = 0; i < comm->layers->count; i++) {
    const struct tagc_layer *layer = &comm->layers->layers[i];
    for (size_t j = 0; j < layer->count; j++)
      if (tagc_select_is_unsure(o->layers, o->skip, infos[i].unit, layer, j)) {
        const struct tagc_parameter *p = layer->members[j].parameter;
        if (!parameters++)
          tagc_layer_member_name(layer, j, first, sizeof first);
        elements += p->rows * p->columns;
      }
  }
  if (parameters)
    tagc_log(TAGC_LOG_WARN, "interpose",
             "communicator %llu: %zu parameters (%" PRIu64 " elements, the first is %.80s) stay plain, as %s "
             "whether TAGC_LAYERS and TAGC_SKIP mean them: patterns with their names do",
             (unsigned long long)comm->ledger->number, parameters, elements, first,
             comm->model ? "no class of PyTorch's modules tells" : "the map does not tell");
}

bool tagc_partial_select(struct tagc_comm *comm) {
  const struct tagc_options *o = tagc_library_options();
  size_t count, most = 0;
  const struct tagc_slot_info *infos = tagc_cycle_slots(comm->observed.cycle, &count);
  if (!comm->layers || comm->layers->count != comm->slot_count || count != comm->slot_count)
    return true;
  for (size_t i = 0; i < count; i++)
    most = comm->layers->layers[i].count > most ? comm->layers->layers[i].count : most;
  warn_unnamed(comm, infos);
  /* Unless they are sure, parameters count as unknown: a user who wants attention in full precision gets it. */
  const bool is_sure = tagc_layers_are_sure(comm->layers);
  bool differs = false, whole = false;
  bool *is_selected = calloc(most ? most : 1, sizeof *is_selected), good = is_selected;
  bool guessed = false;
  for (size_t i = 0; i < count && good; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    slot->selected.layer_known = true;
    slot->selected.selection =
      tagc_select_layer(o->layers, o->skip, infos[i].unit, &comm->layers->layers[i], is_selected);
    if (slot->selected.selection == TAGC_SELECT_SOME && infos[i].signature.collective == TAGC_COLL_ALL_REDUCE) {
      slot->selected.selection = TAGC_SELECT_NONE; /* all of it passes, like the rest of other slots */
      whole = true;
    } else if (!is_sure) {
      struct tagc_layer unknown = comm->layers->layers[i];
      unknown.count = 0;
      if (slot->selected.selection != tagc_select_layer(o->layers, o->skip, infos[i].unit, &unknown, NULL)) {
        slot->selected.selection = TAGC_SELECT_NONE;
        differs = true;
      }
    } else if (slot->selected.selection == TAGC_SELECT_SOME && comm->layers->layers[i].is_guessed) {
      slot->selected.selection = TAGC_SELECT_NONE;
      guessed = true;
    } else if (slot->selected.selection == TAGC_SELECT_SOME)
      good = select_some(comm, i, is_selected);
  }
  if (differs)
    warn_unsure(comm);
  else
    tell_unsure_kinds(comm, infos);
  if (whole && comm->rank == 0)
    tagc_log(TAGC_LOG_WARN, "interpose",
             "communicator %llu: TAGC_LAYERS or TAGC_SKIP selects parameters inside all-reduces: these pass "
             "whole",
             (unsigned long long)comm->ledger->number);
  if (guessed)
    warn_guessed(comm);
  free(is_selected);
  return good;
}

void tagc_partial_free(struct tagc_slot *slots, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (slots[i].selected.owns_parts)
      tagc_parts_free(slots[i].selected.parts);
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

size_t tagc_partial_assign_buffers(struct tagc_partial *partial, const struct tagc_slot *slot, uint8_t *base) {
  const size_t element = tagc_dtype_size(slot->packed.dtype), nranks = (size_t)slot->packed.nranks;
  size_t used = 0;
  *partial = (struct tagc_partial){.parts = slot->selected.parts};
  if (!slot->selected.parts)
    return 0;
  const size_t selected = slot->selected.parts->selected * element, rest = slot->selected.parts->rest * element;
  partial->selected = tagc_assign_buffer(base, &used, nranks * selected);
  partial->rest = tagc_assign_buffer(base, &used, nranks * rest);
  partial->selected_sum = tagc_assign_buffer(base, &used, selected);
  partial->rest_sum = tagc_assign_buffer(base, &used, rest);
  return used;
}

/* A buffer of whole shards, and the packed shards of one part of it. */
struct ends {
  const struct tagc_call *call;
  const struct tagc_parts *parts;
  int part;
  size_t element, whole, packed; /* bytes of an element, and of a shard before and after packing */
};

static struct ends ends_of(const struct tagc_call *call, const struct tagc_parts *parts, int part) {
  const size_t element = tagc_dtype_size(call->comm->slots[call->slot].packed.dtype);
  const size_t packed = (part == SELECTED ? parts->selected : parts->rest) * element;
  return (struct ends){call, parts, part, element, call->count * element, packed};
}

/* Packs the part of `shards` shards that are laid out like shard `like`. Zeros fill up smaller shards. */
static bool pack_shards(const struct ends *e, size_t like, uint8_t *to, const uint8_t *from, size_t shards) {
  const struct tagc_device *device = e->call->comm->device;
  size_t filled = 0;
  for (size_t i = e->parts->first[e->part][like]; i < e->parts->first[e->part][like + 1]; i++) {
    const struct tagc_run *run = &e->parts->runs[e->part][i];
    if (!device->copy(device, to + run->to * e->element, e->packed, from + run->from * e->element, e->whole,
                      run->length * e->element, shards, e->call->stream))
      return false;
    filled = (run->to + run->length) * e->element;
  }
  return filled == e->packed || device->clear(device, to + filled, e->packed - filled, e->call->stream);
}

/* Packs the part of the shards of all ranks; in two levels, of the ranks with this rank's local index. */
static bool pack_part(const struct ends *e, bool two_levels, size_t nranks, uint8_t *to, const uint8_t *from) {
  const struct tagc_comm *comm = e->call->comm;
  const struct tagc_topology *t = &comm->hierarchy.topology;
  if (e->parts->uniform)
    return pack_shards(e, 0, to, from, nranks);
  for (int rank = 0; rank < comm->nranks; rank++) {
    const size_t place = two_levels ? (size_t)t->place[rank] : (size_t)rank;
    if (two_levels && t->local[rank] != t->local[comm->rank])
      continue;
    if (!pack_shards(e, (size_t)rank, to + place * e->packed, from + place * e->whole, 1))
      return false;
  }
  return true;
}

bool tagc_partial_pack(const struct tagc_partial *partial, const struct tagc_call *call, const void *from) {
  const struct ends selected = ends_of(call, partial->parts, SELECTED), rest = ends_of(call, partial->parts, REST);
  const bool two_levels = call->comm->hierarchy.scope.two_levels;
  const size_t nranks = (size_t)tagc_hierarchy_exchange_comm(call->comm).nranks;
  return pack_part(&selected, two_levels, nranks, partial->selected, from) &&
         pack_part(&rest, two_levels, nranks, partial->rest, from);
}

bool tagc_partial_pack_selected(const struct tagc_call *call, const struct tagc_parts *parts, void *to) {
  const struct ends selected = ends_of(call, parts, SELECTED);
  return pack_part(&selected, false, (size_t)call->comm->nranks, to, call->send);
}

static bool unpack_part(const struct ends *e, const uint8_t *from) {
  const struct tagc_device *device = e->call->comm->device;
  const size_t own = e->parts->uniform ? 0 : (size_t)e->call->comm->rank;
  bool good = true;
  for (size_t i = e->parts->first[e->part][own]; i < e->parts->first[e->part][own + 1] && good; i++) {
    const struct tagc_run *run = &e->parts->runs[e->part][i];
    good = device->copy(device, (uint8_t *)e->call->recv + run->from * e->element, e->whole,
                        from + run->to * e->element, e->packed, run->length * e->element, 1, e->call->stream);
  }
  return good;
}

bool tagc_partial_unpack(const struct tagc_partial *partial, const struct tagc_call *call) {
  const struct ends selected = ends_of(call, partial->parts, SELECTED), rest = ends_of(call, partial->parts, REST);
  return unpack_part(&selected, partial->selected_sum) && unpack_part(&rest, partial->rest_sum);
}

uint64_t tagc_partial_copies(const struct tagc_parts *parts, int nranks) {
  const uint64_t runs = parts->first[SELECTED][parts->shards] + parts->first[REST][parts->shards];
  return parts->uniform ? 2 * runs : runs + runs / (uint64_t)nranks;
}
