/* SPDX-License-Identifier: BSD-3-Clause
 * Compares a map with recorded calls; see map.h. As in the library, tagc_layers_infer() decides whether the map fits.
 * If not, the output names for each slot the nearest unit of the map, so that the reader sees the mistake.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "env/units.h"
#include "layermap/cycle/evidence.h"
#include "layermap/tagc-map/map.h"

/* The sizes of shards of each unit, in each layout. */
struct sizes {
  const struct tagc_model *model;
  uint64_t (*shards)[TAGC_LAYOUTS];
};

static bool measure_sizes(struct sizes *sizes, const struct tagc_model *model, int nranks) {
  size_t most = 0;
  for (size_t i = 0; i < model->unit_count; i++)
    most = model->units[i].count > most ? model->units[i].count : most;
  struct tagc_member *members = calloc(most, sizeof *members);
  *sizes = (struct sizes){model, calloc(model->unit_count, sizeof *sizes->shards)};
  for (size_t i = 0; i < model->unit_count && members && sizes->shards; i++) {
    const struct tagc_unit *unit = &model->units[i];
    for (size_t j = 0; j < unit->count; j++)
      members[j] = (struct tagc_member){&unit->parameters[j], -1, unit->name};
    for (int layout = 0; layout < TAGC_LAYOUTS; layout++)
      sizes->shards[i][layout] = tagc_layout_shard((enum tagc_layout_kind)layout, members, unit->count, nranks, 4);
  }
  bool measured = members && sizes->shards;
  free(members);
  if (!measured)
    free(sizes->shards);
  return measured;
}

/* The factor between them, at least 1. */
static double factor(uint64_t a, uint64_t b) {
  double x = (double)a + 1, y = (double)b + 1;
  return x > y ? x / y : y / x;
}

/* "head", or "block.3", the first of its blocks. */
static void name_unit(char *name, size_t size, const struct tagc_model *model, size_t unit) {
  size_t place = 0;
  while (model->places[place].unit != unit)
    place++;
  if (model->places[place].block < 0)
    snprintf(name, size, "%s", model->units[unit].name);
  else
    snprintf(name, size, "%s.%" PRId32, model->units[unit].name, model->places[place].block);
}

/* Prints the unit whose shards have, or nearly have, `count` elements. */
static void tell_nearest(FILE *file, const struct sizes *sizes, uint64_t count) {
  size_t unit = 0;
  int layout = 0;
  char number[32];
  for (size_t i = 0; i < sizes->model->unit_count; i++)
    for (int j = 0; j < TAGC_LAYOUTS; j++)
      if (factor(sizes->shards[i][j], count) < factor(sizes->shards[unit][layout], count)) {
        unit = i;
        layout = j;
      }
  char name[TAGC_UNIT_NAME + 16];
  const char *layout_name = tagc_layout_name((enum tagc_layout_kind)layout);
  name_unit(name, sizeof name, sizes->model, unit);
  if (sizes->shards[unit][layout] == count)
    fprintf(file, "as %s in %s\n", name, layout_name);
  else
    fprintf(file, "nothing in the map has that; the nearest, %s in %s, has %s\n", name, layout_name,
            tagc_units_count(sizes->shards[unit][layout], number));
}

static bool tell_slots(FILE *file, const struct tagc_model *model, const struct tagc_slot_info *slots, size_t count,
                       int nranks, const struct tagc_layers *fitting) {
  struct sizes sizes = {model, NULL};
  char number[32];
  if (!fitting && !measure_sizes(&sizes, model, nranks))
    return false;
  for (size_t i = 0; i < count; i++) {
    fprintf(file, "  slot %zu, unit %" PRIu32 ", %s elements a shard: ", i, slots[i].unit,
            tagc_units_count(slots[i].signature.count, number));
    if (fitting)
      fprintf(file, "%s, %zu parameters%s\n", fitting->layers[i].name, fitting->layers[i].count,
              fitting->layers[i].is_guessed ? " in a guessed order" : "");
    else
      tell_nearest(file, &sizes, slots[i].signature.count);
  }
  free(sizes.shards);
  return true;
}

/* 0: the map fits the slots of the cycle, 1: it does not, 2: no memory. */
static int check_cycle(const struct tagc_model *model, const struct tagc_call_list *list,
                       const struct tagc_cycle *cycle, FILE *file) {
  size_t count;
  char why[160] = "";
  const struct tagc_slot_info *slots = tagc_cycle_slots(cycle, &count);
  struct tagc_layers *layers = tagc_layers_infer(slots, count, list->nranks, model, why);
  if (!layers)
    return 2;
  bool fits = layers->source == TAGC_LAYER_MAP;
  if (fits)
    fprintf(file, "the map fits its %zu slots: %s, confidence %u%%%s%s%s\n", count, layers->what, layers->confidence,
            layers->confidence < TAGC_LAYERS_AMBIGUOUS ? ", ambiguous" : "", *layers->runner_up ? "; or " : "",
            layers->runner_up);
  else
    fprintf(file, "the map does not fit its %zu slots: %s\n", count, why);
  bool told = tell_slots(file, model, slots, count, list->nranks, fits ? layers : NULL);
  tagc_layers_free(layers);
  return !told ? 2 : !fits;
}

/* Whether the calls have a cycle, with reductions, with gradients. */
enum promise { NO_CYCLE, NO_REDUCTION, NO_GRADIENTS, GRADIENTS };

static enum promise promise_of(const struct tagc_cycle *cycle) {
  size_t count, reductions = 0;
  const struct tagc_slot_info *slots = tagc_cycle_slots(cycle, &count);
  for (size_t i = 0; i < count; i++)
    reductions += tagc_signature_reduces(&slots[i].signature) || tagc_signature_sums(&slots[i].signature);
  return !tagc_cycle_length(cycle)         ? NO_CYCLE
         : !reductions                     ? NO_REDUCTION
         : !tagc_cycle_is_gradients(cycle) ? NO_GRADIENTS
                                           : GRADIENTS;
}

/* The best promise of all communicators; -1: no memory. */
static int best_promise(const struct tagc_call_file *calls) {
  int best = NO_CYCLE;
  for (size_t i = 0; i < calls->count; i++) {
    struct tagc_cycle *cycle = tagc_map_find_cycle(&calls->lists[i]);
    if (!cycle)
      return -1;
    int promise = (int)promise_of(cycle);
    best = promise > best ? promise : best;
    tagc_cycle_destroy(cycle);
  }
  return best;
}

int tagc_map_check(const struct tagc_model *model, const struct tagc_call_file *calls, FILE *file) {
  static const char *const excuses[] = {
    "no cycle in its calls\n", "no reduce-scatters of floating-point numbers in its cycle, and no large all-reduces\n",
    "its reductions do not look like gradients\n"};
  int best = best_promise(calls), worst = best < NO_GRADIENTS;
  for (size_t i = 0; i < calls->count && best >= 0 && worst < 2; i++) {
    const struct tagc_call_list *list = &calls->lists[i];
    struct tagc_cycle *cycle = tagc_map_find_cycle(list);
    int outcome = cycle ? 0 : 2;
    fprintf(file, "communicator %" PRIu64 ", %d ranks, %zu calls: ", list->communicator, list->nranks, list->count);
    if (cycle && ((int)promise_of(cycle) < best || best < NO_GRADIENTS))
      fputs(excuses[promise_of(cycle)], file);
    else if (cycle)
      outcome = check_cycle(model, list, cycle, file);
    tagc_cycle_destroy(cycle);
    worst = outcome > worst ? outcome : worst;
  }
  if (best >= 0 && best < NO_GRADIENTS)
    fputs("there is nothing to hold the map against\n", file);
  return best < 0 ? 2 : worst;
}
