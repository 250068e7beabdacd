/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: any text is a map or is refused with a place in it. A written map is read back unchanged, and can
 * be shown in any layout.
 */
#include "layermap/tagc-map/map.h"
#include "layermap/model/mapfile.h"
#include "tests/fuzz/complaint.h"

static void check_model(const struct tagc_model *model) {
  size_t parameters = 0;
  MUST(model->place_count >= 1 && model->place_count <= TAGC_MODEL_PLACES && model->unit_count <= model->place_count);
  for (size_t i = 0; i < model->place_count; i++)
    MUST(model->places[i].unit < model->unit_count && model->places[i].block >= -1 &&
         model->places[i].block < TAGC_MODEL_PLACES);
  for (size_t i = 0; i < model->unit_count; i++) {
    const struct tagc_unit *unit = &model->units[i];
    uint64_t elements = 0;
    MUST(unit->count >= 1 && tagc_mapfile_is_name(unit->name, strlen(unit->name)));
    for (size_t j = 0; j < unit->count; j++) {
      const struct tagc_parameter *p = &unit->parameters[j];
      MUST(p->rows >= 1 && p->columns >= 1 && p->rows <= TAGC_PARAMETER_ELEMENTS / p->columns &&
           p->kinds <= TAGC_KINDS && p->unsure <= TAGC_KINDS);
      MUST(tagc_mapfile_is_name(p->name, strlen(p->name)));
      elements += p->rows * p->columns;
    }
    MUST(elements <= TAGC_UNIT_ELEMENTS);
    parameters += unit->count;
  }
  MUST(parameters <= TAGC_MODEL_PARAMETERS);
}

static void check_same(const struct tagc_model *a, const struct tagc_model *b) {
  MUST(strcmp(a->family, b->family) == 0 && a->place_count == b->place_count && a->unit_count == b->unit_count);
  MUST(a->layout == b->layout && a->is_guessed == b->is_guessed);
  for (size_t i = 0; i < a->place_count; i++) {
    const struct tagc_unit *u = &a->units[a->places[i].unit], *v = &b->units[b->places[i].unit];
    MUST(a->places[i].block == b->places[i].block && strcmp(u->name, v->name) == 0 && u->count == v->count &&
         u->is_guessed == v->is_guessed);
    for (size_t j = 0; j < u->count; j++) {
      const struct tagc_parameter *p = &u->parameters[j], *q = &v->parameters[j];
      MUST(strcmp(p->name, q->name) == 0 && p->kinds == q->kinds && p->unsure == q->unsure && p->rows == q->rows &&
           p->columns == q->columns);
    }
  }
}

/* Checks that the numbers of a table are consistent, and that it can be printed and drawn. */
static void check_shown(const struct tagc_model *model, enum tagc_layout_kind layout, int nranks) {
  struct tagc_map_table table;
  char *text = NULL;
  size_t length = 0;
  if (model->parameter_count > 500)
    return;
  MUST(tagc_map_tabulate_model(&table, "a.map", model, layout, nranks) && table.count == model->unit_count);
  for (size_t i = 0; i < table.count; i++) {
    const struct tagc_map_row *row = &table.rows[i];
    uint64_t sum = 0;
    for (int share = 0; share < TAGC_SHARES; share++)
      sum += row->elements[share];
    MUST(row->times >= 1 && row->shard >= 1 && sum == row->all);
  }
  FILE *file = open_memstream(&text, &length);
  MUST(file);
  tagc_map_print(&table, file);
  tagc_map_draw(&table, 1, file);
  MUST(fclose(file) == 0 && length > 7 && strcmp(text + length - 7, "</svg>\n") == 0);
  free(text);
  tagc_map_table_free(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tagc_complaint complaint;
  char *text = input_memory(size), *written = NULL;
  if (size)
    memcpy(text, data, size);
  struct tagc_model *model = tagc_mapfile_parse(text, size, &complaint);
  if (!model)
    check_complaint(&complaint, text, size);
  free(text);
  if (!model)
    return 0;
  check_model(model);
  check_shown(model, (enum tagc_layout_kind)(size % TAGC_LAYOUTS), 1 + (int)(size / 5 % 9));
  size_t length = 0;
  FILE *file = open_memstream(&written, &length);
  MUST(file && tagc_mapfile_write(file, model) && fclose(file) == 0);
  struct tagc_model *again = tagc_mapfile_parse(written, length, &complaint);
  MUST(again);
  check_same(model, again);
  free(written);
  tagc_model_free(again);
  tagc_model_free(model);
  return 0;
}
