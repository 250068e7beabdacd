/* SPDX-License-Identifier: BSD-3-Clause
 * Makes and prints tables of models and recorded calls; see map.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "env/units.h"
#include "layermap/cycle/pattern.h"
#include "layermap/model/contents.h"
#include "layermap/model/mapfile.h"
#include "layermap/tagc-map/map.h"

enum tagc_share tagc_share_of(uint32_t kinds) {
  return kinds & TAGC_KIND_NORM     ? TAGC_SHARE_NORM
         : kinds & TAGC_KIND_EXPERT ? TAGC_SHARE_EXPERT
         : kinds & TAGC_KIND_ATTN   ? TAGC_SHARE_ATTN
         : kinds & TAGC_KIND_MLP    ? TAGC_SHARE_MLP
         : kinds & TAGC_KIND_EMBED  ? TAGC_SHARE_EMBED
         : kinds & TAGC_KIND_HEAD   ? TAGC_SHARE_HEAD
                                    : TAGC_SHARE_OTHER;
}

const char *tagc_share_name(enum tagc_share share) {
  static const char *const names[] = {"embed", "attn", "mlp", "expert", "norm", "head", "other", "padding"};
  return names[share];
}

/* The name of a file without its folders, short enough for titles. */
static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

/* Counts the elements in the row from its layer and the size of its shard. */
static void count_elements(struct tagc_map_row *row, int nranks) {
  uint64_t known = 0;
  row->all = row->shard > UINT64_MAX / (uint64_t)nranks ? UINT64_MAX : row->shard * (uint64_t)nranks;
  for (size_t i = 0; i < row->layer.count; i++) {
    const struct tagc_parameter *p = row->layer.members[i].parameter;
    row->elements[tagc_share_of(p->kinds)] += p->rows * p->columns;
    known += p->rows * p->columns;
  }
  if (row->layer.count && row->all > known)
    row->elements[TAGC_SHARE_PADDING] = row->all - known;
}

/* Appends the unit's members behind those of earlier units, for its first place. */
static void add_unit_row(struct tagc_map_table *table, const struct tagc_model *model, size_t first,
                         struct tagc_member *members, enum tagc_layout_kind layout) {
  const struct tagc_model_place *place = &model->places[first];
  const struct tagc_unit *unit = &model->units[place->unit];
  struct tagc_map_row *row = &table->rows[table->count++];
  char blocks[48];
  size_t at = first;
  tagc_mapfile_blocks(model, place->unit, &at, model->place_count, blocks, sizeof blocks);
  snprintf(row->name, sizeof row->name, "%s%s%s%s", unit->name, *blocks ? "." : "", blocks,
           *blocks && at < model->place_count ? ",..." : "");
  for (size_t i = first; i < model->place_count; i++)
    row->times += model->places[i].unit == place->unit;
  for (size_t i = 0; i < unit->count; i++)
    members[i] = (struct tagc_member){&unit->parameters[i], place->block, unit->name};
  row->layer = (struct tagc_layer){
    .members = members, .count = unit->count, .layout = layout, .element_bytes = 4, .is_guessed = unit->is_guessed};
  snprintf(row->layer.name, sizeof row->layer.name, "%s", unit->name);
  row->shard = tagc_layout_shard(layout, members, unit->count, table->nranks, row->layer.element_bytes);
  count_elements(row, table->nranks);
}

bool tagc_map_tabulate_model(struct tagc_map_table *table, const char *path, const struct tagc_model *model,
                             enum tagc_layout_kind layout, int nranks) {
  *table = (struct tagc_map_table){.nranks = nranks};
  table->rows = calloc(model->unit_count, sizeof *table->rows);
  table->members = calloc(model->parameter_count, sizeof *table->members);
  bool *is_shown = calloc(model->unit_count, sizeof *is_shown);
  if (table->rows && table->members && is_shown) {
    struct tagc_member *members = table->members;
    for (size_t i = 0; i < model->place_count; i++) {
      uint32_t unit = model->places[i].unit;
      if (!is_shown[unit]) {
        add_unit_row(table, model, i, members, layout);
        members += model->units[unit].count;
        is_shown[unit] = true;
      }
    }
    char ranks[32];
    snprintf(ranks, sizeof ranks, nranks == 1 ? "one rank" : "%d ranks", nranks);
    snprintf(table->title, sizeof table->title, "%.60s: %s for %s", base_name(path), tagc_layout_name(layout), ranks);
    char elements[32];
    snprintf(table->what, sizeof table->what, "%s%s%zu units and blocks, %s elements%s", model->family,
             model->family[0] ? ", " : "", model->place_count, tagc_units_count(tagc_model_elements(model), elements),
             model->is_guessed ? ", the order of units is guessed" : "");
  }
  bool made = table->rows && table->members && is_shown;
  free(is_shown);
  if (!made)
    tagc_map_table_free(table);
  return made;
}

void tagc_map_table_free(struct tagc_map_table *table) {
  tagc_layers_free(table->layers);
  free(table->rows);
  free(table->members);
  *table = (struct tagc_map_table){0};
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

/* So many calls outlast the cycle's memory: earlier calls are forgotten. */
enum { CALLS_TO_FORGET = 16384 };

/* The cycle after all calls and then those from `step` on, repeated until one is locked. */
static struct tagc_cycle *observe(const struct tagc_call_list *list, const struct tagc_cycle_options *options,
                                  size_t step) {
  struct tagc_cycle *cycle = tagc_cycle_create(options);
  struct tagc_sighting seen;
  for (size_t i = 0; cycle && i < list->count; i++)
    tagc_cycle_observe(cycle, &list->calls[i], &seen);
  const size_t enough = 3 * (list->count - step) + CALLS_TO_FORGET;
  for (size_t more = 0; cycle && step < list->count && !tagc_cycle_length(cycle) && more < enough;)
    for (size_t i = step; i < list->count; i++, more++)
      tagc_cycle_observe(cycle, &list->calls[i], &seen);
  return cycle;
}

/* How many of the last calls equal those `shift` calls before. */
static size_t count_repeated(const struct tagc_call_list *list, size_t shift) {
  size_t same = 0;
  while (same + shift < list->count &&
         tagc_signature_equal(&list->calls[list->count - 1 - same], &list->calls[list->count - 1 - same - shift]))
    same++;
  return same;
}

/* Finds the start of the last step, or of several: at least half of it must repeat earlier calls (first steps may
 * differ). If nothing repeats, all calls are one step. */
static size_t find_step(const struct tagc_call_list *list) {
  size_t reduction = list->count;
  bool all_reduces = true;
  for (size_t i = 0; i < list->count && all_reduces; i++)
    all_reduces = !tagc_signature_reduces(&list->calls[i]);
  while (reduction > 0 && !(all_reduces ? tagc_signature_sums(&list->calls[reduction - 1])
                                        : tagc_signature_reduces(&list->calls[reduction - 1])))
    reduction--;
  size_t least = list->count - reduction + 1;
  for (size_t calls = list->count < TAGC_PATTERN_CALLS ? list->count : TAGC_PATTERN_CALLS; calls >= least && reduction;
       calls--)
    if (count_repeated(list, calls) >= (calls + 1) / 2)
      return list->count - calls;
  return 0;
}

struct tagc_cycle *tagc_map_find_cycle(const struct tagc_call_list *list) {
  const struct tagc_cycle_options as_library = {.warmup = 1, .floor_calls = 256, .nranks = list->nranks},
                                  sooner = {.nranks = list->nranks};
  struct tagc_cycle *cycle = observe(list, &as_library, list->count);
  for (int more = 0; more < 2 && cycle && !tagc_cycle_length(cycle); more++) {
    tagc_cycle_destroy(cycle);
    cycle = observe(list, &sooner, more ? find_step(list) : list->count);
  }
  return cycle;
}

static int by_unit(const void *left, const void *right) {
  const struct tagc_slot_info *const *a = left, *const *b = right;
  return ((*a)->unit > (*b)->unit) - ((*a)->unit < (*b)->unit);
}

static bool is_alike_row(const struct tagc_map_row *row, const struct tagc_layer *layer, uint64_t shard) {
  return row->shard == shard && row->layer.count == layer->count && row->layer.members == layer->members &&
         row->layer.layout == layer->layout;
}

/* Makes rows of the slots in forward order; like neighbours share one. */
static void add_slot_rows(struct tagc_map_table *table, const struct tagc_slot_info *slots,
                          const struct tagc_slot_info **order, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const struct tagc_layer *layer = &table->layers->layers[order[i] - slots];
    struct tagc_map_row *row = table->count ? &table->rows[table->count - 1] : NULL;
    if (row && is_alike_row(row, layer, order[i]->signature.count)) {
      tagc_layer_span(row->layer.name, layer->name, row->name, sizeof row->name);
      row->times++;
      continue;
    }
    row = &table->rows[table->count++];
    *row = (struct tagc_map_row){.times = 1, .layer = *layer, .shard = order[i]->signature.count};
    snprintf(row->name, sizeof row->name, "%s", layer->name);
    count_elements(row, table->nranks);
  }
}

bool tagc_map_tabulate_calls(struct tagc_map_table *table, const char *path, const struct tagc_call_list *list,
                             const struct tagc_cycle *cycle) {
  size_t count;
  char why[160];
  const struct tagc_slot_info *slots = tagc_cycle_slots(cycle, &count);
  const bool is_whole = count && slots[0].signature.collective == TAGC_COLL_ALL_REDUCE;
  *table = (struct tagc_map_table){.nranks = is_whole ? 1 : list->nranks,
                                   .layers = tagc_layers_infer(slots, count, list->nranks, NULL, why)};
  table->rows = calloc(count, sizeof *table->rows);
  const struct tagc_slot_info **order = calloc(count, sizeof *order);
  bool made = table->layers && table->rows && order;
  if (made) {
    for (size_t i = 0; i < count; i++)
      order[i] = &slots[i];
    qsort(order, count, sizeof *order, by_unit);
    add_slot_rows(table, slots, order, count);
    snprintf(table->title, sizeof table->title,
             "%.60s: communicator %" PRIu64 ", %d ranks: %zu slots in a cycle of %zu calls", base_name(path),
             list->communicator, list->nranks, count, tagc_cycle_length(cycle));
    if (table->layers->source == TAGC_LAYER_POSITION)
      snprintf(table->what, sizeof table->what, "no model is known that has slots of these sizes");
    else
      snprintf(table->what, sizeof table->what, "%s: confidence %u%%%s", table->layers->what, table->layers->confidence,
               table->layers->confidence < TAGC_LAYERS_AMBIGUOUS ? ", ambiguous" : "");
    snprintf(table->runner_up, sizeof table->runner_up, "%s", table->layers->runner_up);
  }
  free(order);
  if (!made)
    tagc_map_table_free(table);
  return made;
}

/* -- the terminal -------------------------------------------------------------------------------------------------- */

/* Widths of columns; those of shares are 0 if no row has any. */
struct widths {
  int name, times, parameters, all, shard, shares[TAGC_SHARES];
};

static void widen(int *width, size_t length) { *width = (int)length > *width ? (int)length : *width; }

static size_t digits(uint64_t number) {
  char text[32];
  return (size_t)snprintf(text, sizeof text, "%" PRIu64, number);
}

static const char *share_heading(int share) {
  return share == TAGC_SHARE_PADDING ? "pad" : tagc_share_name((enum tagc_share)share);
}

static struct widths measure_columns(const struct tagc_map_table *table) {
  struct widths w = {.name = strlen("layer"),
                     .times = strlen("x"),
                     .parameters = strlen("params"),
                     .all = strlen("elements"),
                     .shard = strlen("a shard")};
  char text[32];
  for (size_t i = 0; i < table->count; i++) {
    const struct tagc_map_row *row = &table->rows[i];
    widen(&w.name, strlen(row->name));
    widen(&w.times, digits(row->times));
    widen(&w.parameters, digits(row->layer.count));
    widen(&w.all, strlen(tagc_units_count(row->all, text)));
    widen(&w.shard, strlen(tagc_units_count(row->shard, text)));
    for (int share = 0; share < TAGC_SHARES; share++)
      if (row->elements[share])
        widen(&w.shares[share], strlen(share_heading(share)) > 5 ? strlen(share_heading(share)) : 5);
  }
  if (table->nranks == 1)
    w.shard = 0;
  return w;
}

/* A share in per cent; a small one is never shown as nothing. */
static const char *share_text(uint64_t part, uint64_t all, char text[16]) {
  double per_cent = all ? 100.0 * (double)part / (double)all : 0;
  if (!part)
    return "-";
  if (per_cent < 0.1)
    return "<0.1%";
  snprintf(text, 16, "%.*f%%", per_cent < 99.95, per_cent);
  return text;
}

/* Prints the text behind `first`, wrapped at commas to the usual width; further lines are indented. */
static void print_wrapped(FILE *file, const char *first, const char *text) {
  enum { WIDTH = 79, INDENT = 4 };
  size_t used = strlen(first);
  fputs(first, file);
  while (*text) {
    const char *comma = strstr(text + 1, ", ");
    size_t length = comma ? (size_t)(comma - text) + 1 : strlen(text);
    if (used + length > WIDTH && *text == ' ') {
      fprintf(file, "\n%*s", INDENT, "");
      used = INDENT;
      text++;
      length--;
    }
    fprintf(file, "%.*s", (int)length, text);
    used += length;
    text += length;
  }
  fputc('\n', file);
}

static void print_row(FILE *file, const struct widths *w, const struct tagc_map_row *row) {
  char text[32], parameters[24] = "?";
  if (row->layer.count)
    snprintf(parameters, sizeof parameters, "%zu", row->layer.count);
  fprintf(file, "  %-*s %*zu %*s %*s", w->name, row->name, w->times, row->times, w->parameters, parameters, w->all,
          tagc_units_count(row->all, text));
  if (w->shard)
    fprintf(file, " %*s", w->shard, tagc_units_count(row->shard, text));
  for (int share = 0; share < TAGC_SHARES; share++)
    if (w->shares[share])
      fprintf(file, " %*s", w->shares[share], share_text(row->elements[share], row->all, text));
  fputc('\n', file);
}

/* Tells the layers whose parameters may lie elsewhere in the buffer. */
static void print_guessed(FILE *file, const struct tagc_map_table *table) {
  const char *separator = "  the order of parameters is guessed: ";
  for (size_t i = 0; i < table->count; i++)
    if (table->rows[i].layer.is_guessed) {
      fprintf(file, "%s%s", separator, table->rows[i].name);
      separator = ", ";
    }
  if (*separator == ',')
    fputc('\n', file);
}

void tagc_map_print(const struct tagc_map_table *table, FILE *file) {
  const struct widths w = measure_columns(table);
  fprintf(file, "%s\n", table->title);
  if (table->what[0])
    print_wrapped(file, "  ", table->what);
  if (table->runner_up[0])
    print_wrapped(file, "  next best: ", table->runner_up);
  fprintf(file, "\n  %-*s %*s %*s %*s", w.name, "layer", w.times, "x", w.parameters, "params", w.all, "elements");
  if (w.shard)
    fprintf(file, " %*s", w.shard, "a shard");
  for (int share = 0; share < TAGC_SHARES; share++)
    if (w.shares[share])
      fprintf(file, " %*s", w.shares[share], share_heading(share));
  fputc('\n', file);
  for (size_t i = 0; i < table->count; i++)
    print_row(file, &w, &table->rows[i]);
  print_guessed(file, table);
}
