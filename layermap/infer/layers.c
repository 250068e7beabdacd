/* SPDX-License-Identifier: BSD-3-Clause
 * See layers.h. match.h compares a model, given or found, with the slots. Here its pieces become names and members.
 */
#include "layermap/infer/layers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/infer/division.h"
#include "layermap/infer/match.h"
#include "layermap/infer/prior.h"
#include "layermap/infer/solve.h"
#include "layermap/infer/wording.h"

/* The targets of the layers' pointers. */
struct memory {
  struct tagc_model *model;    /* found by arithmetic, or a sorted map; NULL: the map itself */
  struct tagc_member *members; /* of all layers */
};

/* So many all-reduces, with this confidence, prove a model. One or two could fit by chance. */
enum { PROOF_SLOTS = 3, PROOF_CONFIDENCE = 90 };

/* All other floating-point types have two bytes. */
static size_t element_bytes(uint8_t dtype) {
  return dtype == TAGC_CODE_FLOAT32 ? 4 : dtype == TAGC_CODE_FLOAT64 ? 8 : 2;
}

/* -- names --------------------------------------------------------------------------------------------------------- */

/* Names a slot outside the blocks: its unit's name, if it is one whole unit. */
static const char *outside_name(const struct tagc_model *model, uint8_t keep) {
  size_t before = 0, behind = 0, count = model->place_count;
  while (before < count && model->places[before].block < 0)
    before++;
  while (behind < count && model->places[count - 1 - behind].block < 0)
    behind++;
  if (keep == TAGC_KEEP_EMBED)
    return before == 1 ? model->units[model->places[0].unit].name : "embed";
  if (keep == TAGC_KEEP_NORM)
    return "norm";
  if (keep == TAGC_KEEP_HEAD)
    return "head";
  if (keep == (TAGC_KEEP_NORM | TAGC_KEEP_HEAD))
    return behind == 1 ? model->units[model->places[count - 1].unit].name : "head";
  return "root";
}

static void name_piece(const struct tagc_model *model, const struct tagc_piece *piece, size_t bucket,
                       char name[TAGC_LAYER_NAME]) {
  const struct tagc_model_place *first = &model->places[piece->first], *last = first + piece->count - 1;
  const char *unit = model->units[first->unit].name, *last_unit = model->units[last->unit].name;
  const char *part = piece->keep == TAGC_KEEP_ATTN   ? ".attn"
                     : piece->keep == TAGC_KEEP_MLP  ? ".mlp"
                     : piece->keep == TAGC_KEEP_REST ? ".norm"
                                                     : "";
  if (piece->to)
    snprintf(name, TAGC_LAYER_NAME, "bucket.%zu", bucket);
  else if (piece->keep == TAGC_KEEP_ALL)
    snprintf(name, TAGC_LAYER_NAME, "model");
  else if (piece->keep & TAGC_KEEP_OUTSIDE)
    snprintf(name, TAGC_LAYER_NAME, "%s", outside_name(model, piece->keep));
  else if (piece->count > 1 && strcmp(unit, last_unit) != 0)
    snprintf(name, TAGC_LAYER_NAME, "%s.%" PRId32 "-%s.%" PRId32, unit, first->block, last_unit, last->block);
  else if (piece->count > 1)
    snprintf(name, TAGC_LAYER_NAME, "%s.%" PRId32 "-%" PRId32, unit, first->block, last->block);
  else
    snprintf(name, TAGC_LAYER_NAME, "%s.%" PRId32 "%s", unit, first->block, part);
}

/* -- guessed orders -------------------------------------------------------------------------------------------------
 */

/* True if the piece has parameters in a guessed order: those of a unit, or several units. */
static bool is_guessed(const struct tagc_model *model, const struct tagc_piece *piece) {
  if (model->is_guessed && piece->keep == TAGC_KEEP_ALL)
    return true;
  for (uint32_t place = piece->first; place < piece->first + piece->count; place++) {
    const struct tagc_unit *unit = &model->units[model->places[place].unit];
    for (size_t i = 0; unit->is_guessed && i < unit->count; i++)
      if (piece->keep == TAGC_KEEP_ALL || (tagc_keep_of(model, place, &unit->parameters[i]) & piece->keep))
        return true;
  }
  return false;
}

/* The number of the last parameter of buckets that have all of their units. */
enum { WHOLE_UNITS = UINT32_MAX };

/* Nobody knows which parameters a bucket has of units in a guessed order: it gets all of these units, or of the model.
 */
static void widen_buckets(const struct tagc_model *model, struct tagc_piece *pieces, size_t count) {
  for (struct tagc_piece *piece = pieces; piece < pieces + count; piece++)
    if (piece->to && is_guessed(model, piece)) {
      piece->from = 0;
      piece->to = WHOLE_UNITS;
      piece->first = model->is_guessed ? 0 : piece->first;
      piece->count = model->is_guessed ? (uint32_t)model->place_count : piece->count;
    }
}

/* -- members ------------------------------------------------------------------------------------------------------- */

/* The output: pieces are in forward order, layers in the order of calls. */
struct filling {
  const struct tagc_model *model;
  const struct tagc_match *match;
  const struct tagc_piece *pieces;
  const uint32_t *order;
  size_t count;
  size_t element_bytes;
  uint32_t *leader; /* the first piece like this one */
};

/* True for the same units whose blocks are equally far apart: one offset relates all members. */
static bool differ_by_offset(const struct tagc_model *model, const struct tagc_piece *a, const struct tagc_piece *b) {
  if (a->to == WHOLE_UNITS && b->to == WHOLE_UNITS && a->first == b->first && a->count == b->count)
    return true;
  if (a->keep != b->keep || a->count != b->count || a->to || b->to || (a->keep & TAGC_KEEP_OUTSIDE))
    return false;
  const struct tagc_model_place *left = &model->places[a->first], *right = &model->places[b->first];
  for (uint32_t i = 0; i < a->count; i++)
    if (left[i].unit != right[i].unit || left[i].block - left->block != right[i].block - right->block)
      return false;
  return true;
}

/* Most pieces are like an earlier one. All buckets with parts of units differ: they are not compared. */
static void find_leaders(const struct filling *f) {
  for (uint32_t i = 0; i < f->count; i++) {
    uint32_t j = 0;
    bool seek = (!f->pieces[i].to || f->pieces[i].to == WHOLE_UNITS) && f->pieces[i].keep;
    while (j < i && seek && !(f->leader[j] == j && differ_by_offset(f->model, &f->pieces[j], &f->pieces[i])))
      j++;
    f->leader[i] = seek ? j : i;
  }
}

static bool fill_members(const struct filling *f, struct tagc_layers *layers, struct memory *memory) {
  size_t needed = 0, used = 0;
  for (uint32_t i = 0; i < f->count; i++)
    if (f->leader[i] == i && f->pieces[i].keep)
      needed += tagc_piece_members(f->model, &f->pieces[i], NULL);
  memory->members = malloc((needed ? needed : 1) * sizeof *memory->members);
  if (!memory->members)
    return false;
  for (uint32_t i = 0; i < f->count; i++) {
    struct tagc_layer *layer = &layers->layers[f->order[i]];
    const struct tagc_piece *piece = &f->pieces[i], *leader = &f->pieces[f->leader[i]];
    if (!piece->keep)
      continue;
    layer->layout = f->match->layout;
    layer->element_bytes = f->element_bytes;
    layer->is_guessed = is_guessed(f->model, piece);
    name_piece(f->model, piece, f->count - 1 - i, layer->name);
    if (piece != leader) {
      const struct tagc_layer *like = &layers->layers[f->order[f->leader[i]]];
      layer->members = like->members;
      layer->count = like->count;
      layer->block_offset = f->model->places[piece->first].block - f->model->places[leader->first].block;
      continue;
    }
    layer->members = memory->members + used;
    layer->count = tagc_piece_members(f->model, piece, memory->members + used);
    used += layer->count;
  }
  return true;
}

/* -- sources ------------------------------------------------------------------------------------------------------- */

struct task {
  const struct tagc_slot_info *slots;
  size_t count;
  int nranks;
  bool all_reduces; /* whole parameters: nranks is 1 */
  uint32_t *order;
  uint64_t *counts;
  struct tagc_piece *pieces;
  uint32_t *leaders;
  struct tagc_match match;
  size_t element_bytes;
};

static bool fill_layers(const struct task *t, const struct tagc_model *model, struct tagc_layers *layers) {
  widen_buckets(model, t->pieces, t->count);
  struct filling f = {model, &t->match, t->pieces, t->order, t->count, t->element_bytes, t->leaders};
  find_leaders(&f);
  return fill_members(&f, layers, layers->memory);
}

static enum tagc_found match(struct task *t, const struct tagc_model *model, unsigned layouts, struct tagc_match *found,
                             char *why) {
  return tagc_match_find(model, t->counts, t->count, t->nranks, t->element_bytes, layouts, found, t->pieces, why);
}

/* Slots of whole blocks are seldom buckets. */
enum { COST_BUCKETS = 8 * TAGC_BIT };

/* One way to match a map with the slots. */
struct reading {
  struct tagc_match match;
  size_t element_bytes;
  unsigned cost; /* of the layout (prior.h), and of buckets */
  uint64_t division;
};

/* The readings of a map that explain most. */
struct readings {
  struct reading all[TAGC_LAYOUTS + 1];
  size_t count;
};

static enum tagc_found add_reading(struct task *t, const struct tagc_model *map, enum tagc_layout_kind layout,
                                   struct readings *readings) {
  struct reading r = {.element_bytes = t->element_bytes};
  bool is_gathered = false;
  enum tagc_found found = match(t, map, 1u << layout, &r.match, NULL);
  if (found != TAGC_FOUND || (readings->count && r.match.explained < readings->all[0].match.explained))
    return found;
  if (!tagc_division_digest(TAGC_DIVISION_PARAMETERS, map, &r.match, t->pieces, t->count, t->nranks, r.element_bytes,
                            &r.division))
    return TAGC_FOUND_NO_MEMORY;
  for (size_t i = 0; i < t->count; i++)
    is_gathered |= t->slots[i].gathered;
  r.cost = tagc_cost_layout(layout, &t->slots[0].signature, is_gathered);
  r.cost += r.match.wrapping == TAGC_WRAP_BUCKETS ? COST_BUCKETS : 0;
  if (readings->count && r.match.explained > readings->all[0].match.explained)
    readings->count = 0;
  readings->all[readings->count++] = r;
  return TAGC_FOUND;
}

static enum tagc_found read_slots(struct task *t, const struct tagc_model *map, struct readings *readings) {
  enum tagc_found found = TAGC_FOUND_NONE;
  readings->count = 0;
  for (int layout = 0; layout < TAGC_LAYOUTS && found != TAGC_FOUND_NO_MEMORY; layout++)
    if (t->all_reduces ? layout == TAGC_LAYOUT_ZERO3 : map->layout == TAGC_LAYOUTS || (int)map->layout == layout)
      found = add_reading(t, map, (enum tagc_layout_kind)layout, readings);
  if (found != TAGC_FOUND_NO_MEMORY && t->element_bytes == 4 && !t->all_reduces &&
      (map->layout == TAGC_LAYOUTS || map->layout == TAGC_LAYOUT_FSDP1_ALIGNED)) {
    /* Parameters of two bytes were aligned; their gradients are reduced with four. */
    t->element_bytes = 2;
    found = add_reading(t, map, TAGC_LAYOUT_FSDP1_ALIGNED, readings);
    t->element_bytes = 4;
  }
  return found == TAGC_FOUND_NO_MEMORY ? found : readings->count ? TAGC_FOUND : TAGC_FOUND_NONE;
}

/* The likeliest reading, and the next one that divides the slots otherwise (NULL: none). */
static const struct reading *choose_reading(const struct readings *readings, const struct reading **rival) {
  const struct reading *best = readings->all;
  for (size_t i = 1; i < readings->count; i++)
    best = readings->all[i].cost < best->cost ? &readings->all[i] : best;
  *rival = NULL;
  for (size_t i = 0; i < readings->count; i++)
    if (readings->all[i].division != best->division && (!*rival || readings->all[i].cost < (*rival)->cost))
      *rival = &readings->all[i];
  return best;
}

static enum tagc_found take_map(struct task *t, const struct tagc_model *map, struct tagc_layers *layers,
                                char why[160]) {
  const unsigned any = map->layout == TAGC_LAYOUTS || t->all_reduces ? (1u << TAGC_LAYOUTS) - 1 : 1u << map->layout;
  const struct reading *rival;
  struct readings readings;
  enum tagc_found found = read_slots(t, map, &readings);
  if (found == TAGC_FOUND_NONE) {
    found = match(t, map, any, &t->match, why);
    return found == TAGC_FOUND_NO_MEMORY ? found : TAGC_FOUND_NONE;
  }
  if (found != TAGC_FOUND)
    return found;
  const struct reading *best = choose_reading(&readings, &rival);
  t->element_bytes = best->element_bytes;
  found = match(t, map, 1u << best->match.layout, &t->match, NULL);
  if (found != TAGC_FOUND)
    return found;
  layers->source = TAGC_LAYER_MAP;
  layers->confidence = t->match.odd ? 75 : 100;
  snprintf(layers->what, sizeof layers->what, "%s%sa map of %zu units, %s", map->family, *map->family ? ": " : "",
           map->place_count, t->all_reduces ? "not sharded" : tagc_layout_name(t->match.layout));
  if (rival) {
    unsigned sure = tagc_confidence(rival->cost - best->cost);
    layers->confidence = sure < layers->confidence ? sure : layers->confidence;
    snprintf(layers->runner_up, sizeof layers->runner_up,
             "%s%s, of which the sizes are the same: a line \"layout\" in the map tells",
             tagc_layout_name(rival->match.layout),
             rival->element_bytes != best->element_bytes ? " of two-byte parameters" : "");
  }
  return fill_layers(t, map, layers) ? TAGC_FOUND : TAGC_FOUND_NO_MEMORY;
}

static enum tagc_found take_solution(struct task *t, struct tagc_layers *layers) {
  struct tagc_solution solutions[2];
  struct memory *memory = layers->memory;
  enum tagc_found found = tagc_solve(t->slots, t->count, t->nranks, solutions);
  if (found != TAGC_FOUND)
    return found;
  bool no_memory;
  memory->model = tagc_solution_model(&solutions[0], &no_memory);
  found =
    memory->model ? match(t, memory->model, 1u << solutions[0].match.layout, &t->match, NULL) : TAGC_FOUND_NO_MEMORY;
  if (found != TAGC_FOUND)
    return found;
  layers->source = TAGC_LAYER_ARITHMETIC;
  layers->confidence = solutions[0].confidence;
  layers->proven = t->all_reduces && !t->match.odd && !solutions[0].blocks_only && t->count >= PROOF_SLOTS &&
                   solutions[0].confidence >= PROOF_CONFIDENCE;
  if (t->all_reduces && !layers->proven) { /* they may be anything */
    layers->source = TAGC_LAYER_POSITION;
    layers->confidence = 0;
    return TAGC_FOUND_NONE;
  }
  tagc_solution_words(&solutions[0], layers->what);
  if (solutions[1].confidence)
    tagc_solution_difference(&solutions[0], &solutions[1], layers->runner_up);
  return fill_layers(t, memory->model, layers) ? TAGC_FOUND : TAGC_FOUND_NO_MEMORY;
}

/* The same with the map's parameters in the order of the forward pass, if that is known and another one. If they do not
 * fit either, `why` stays about the map. */
static enum tagc_found take_map_forward(struct task *t, const struct tagc_model *map, struct tagc_layers *layers,
                                        char why[160]) {
  struct memory *memory = layers->memory;
  char ignored[160];
  bool no_memory;
  memory->model = tagc_family_forward_model(map, &no_memory);
  if (!memory->model)
    return no_memory ? TAGC_FOUND_NO_MEMORY : TAGC_FOUND_NONE;
  const enum tagc_found found = take_map(t, memory->model, layers, ignored);
  if (found == TAGC_FOUND)
    why[0] = '\0';
  if (found == TAGC_FOUND_NONE) {
    tagc_model_free(memory->model);
    memory->model = NULL;
  }
  return found;
}

/* From the map, else the arithmetic, else the positions. False: no memory. */
static bool infer(struct task *t, const struct tagc_model *map, struct tagc_layers *layers, char why[160]) {
  enum tagc_found found = TAGC_FOUND_NONE;
  for (size_t i = 0; i < t->count; i++)
    snprintf(layers->layers[i].name, sizeof layers->layers[i].name, "unit%u", t->slots[i].unit);
  if (!tagc_forward_order(t->slots, t->count, t->order, t->counts))
    return true;
  if (map && map->place_count) {
    found = take_map(t, map, layers, why);
    if (found == TAGC_FOUND_NONE && t->all_reduces)
      found = take_map_forward(t, map, layers, why);
  }
  if (found == TAGC_FOUND_NONE)
    found = take_solution(t, layers);
  return found != TAGC_FOUND_NO_MEMORY;
}

/* For slots that are units, each once. */
static struct tagc_layers *infer_units(const struct tagc_slot_info *slots, size_t count, int nranks,
                                       const struct tagc_model *map, char why[160]) {
  size_t room = count ? count : 1;
  const bool all_reduces = count && slots[0].signature.collective == TAGC_COLL_ALL_REDUCE;
  struct task t = {.slots = slots, .count = count, .nranks = all_reduces ? 1 : nranks, .all_reduces = all_reduces};
  struct tagc_layers *layers = calloc(1, sizeof *layers);
  t.order = calloc(room, sizeof *t.order);
  t.counts = calloc(room, sizeof *t.counts);
  t.pieces = calloc(room, sizeof *t.pieces);
  t.leaders = calloc(room, sizeof *t.leaders);
  t.element_bytes = count ? element_bytes(slots[0].signature.dtype) : 4;
  why[0] = '\0';
  bool done = false;
  if (layers) {
    layers->layers = calloc(room, sizeof *layers->layers);
    layers->memory = calloc(1, sizeof(struct memory));
    layers->count = count;
    done = layers->layers && layers->memory && t.order && t.counts && t.pieces && t.leaders &&
           (!count || infer(&t, map, layers, why));
  }
  free(t.order);
  free(t.counts);
  free(t.pieces);
  free(t.leaders);
  if (done)
    return layers;
  tagc_layers_free(layers);
  return NULL;
}

/* Copies the units' layers to all slots: places[i] is that of unit i. Takes ownership of `of_units`. */
static struct tagc_layers *spread(struct tagc_layers *of_units, const struct tagc_slot_info *slots, size_t count,
                                  const uint32_t *places) {
  struct tagc_layer *layers = of_units ? calloc(count, sizeof *layers) : NULL;
  if (!layers) {
    tagc_layers_free(of_units);
    return NULL;
  }
  for (size_t i = 0; i < count; i++)
    layers[i] = of_units->layers[places[slots[i].unit]];
  free(of_units->layers);
  of_units->layers = layers;
  of_units->count = count;
  return of_units;
}

/* If a cycle reduces its units several times, the first pass stands for all. */
struct tagc_layers *tagc_layers_infer(const struct tagc_slot_info *slots, size_t count, int nranks,
                                      const struct tagc_model *map, char why[160]) {
  size_t units = 0;
  for (size_t i = 0; i < count; i++)
    units += slots[i].pass == 0;
  if (units == count)
    return infer_units(slots, count, nranks, map, why);
  struct tagc_slot_info *first = calloc(units, sizeof *first);
  uint32_t *places = calloc(units, sizeof *places);
  struct tagc_layers *layers = NULL;
  why[0] = '\0';
  if (first && places) {
    for (size_t i = 0, used = 0; i < count; i++)
      if (slots[i].pass == 0) {
        places[slots[i].unit] = (uint32_t)used;
        first[used++] = slots[i];
      }
    layers = spread(infer_units(first, units, nranks, map, why), slots, count, places);
  }
  free(first);
  free(places);
  return layers;
}

void tagc_layers_free(struct tagc_layers *layers) {
  if (!layers)
    return;
  struct memory *memory = layers->memory;
  if (memory) {
    tagc_model_free(memory->model);
    free(memory->members);
  }
  free(memory);
  free(layers->layers);
  free(layers);
}
