/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/model/model.h"

#include <stdlib.h>
#include <string.h>

struct tagc_model *tagc_model_create(void) {
  struct tagc_model *model = calloc(1, sizeof *model);
  if (model)
    model->layout = TAGC_LAYOUTS;
  return model;
}

void tagc_model_free(struct tagc_model *model) {
  if (!model)
    return;
  for (size_t i = 0; i < model->unit_count; i++)
    free(model->units[i].parameters);
  free(model->units);
  free(model->places);
  free(model);
}

/* Makes room for one more behind `count` elements. An array has room for the next power of two, so that nobody stores
 * its capacity. NULL: no memory; `array` is unchanged. */
static void *grow(void *array, size_t count, size_t element) {
  bool is_full = (count & (count - 1)) == 0;
  return is_full ? realloc(array, (count ? 2 * count : 1) * element) : array;
}

/* Returns false. */
static bool run_out(struct tagc_model *model) {
  model->no_memory = true;
  return false;
}

static bool fits(const char *name, size_t size) { return strnlen(name, size) < size; }

bool tagc_model_add_unit(struct tagc_model *model, const char *name) {
  if (!fits(name, TAGC_UNIT_NAME) || model->unit_count == TAGC_MODEL_PLACES)
    return false;
  struct tagc_unit *units = grow(model->units, model->unit_count, sizeof *units);
  if (!units)
    return run_out(model);
  model->units = units;
  struct tagc_unit *unit = &units[model->unit_count++];
  *unit = (struct tagc_unit){.count = 0};
  strcpy(unit->name, name);
  return true;
}

bool tagc_model_add_parameter(struct tagc_model *model, const char *name, uint32_t kinds, uint64_t rows,
                              uint64_t columns) {
  if (!model->unit_count || !fits(name, TAGC_PARAMETER_NAME) || model->parameter_count == TAGC_MODEL_PARAMETERS)
    return false;
  struct tagc_unit *unit = &model->units[model->unit_count - 1];
  if (rows < 1 || columns < 1 || rows > TAGC_PARAMETER_ELEMENTS / columns ||
      rows * columns > TAGC_UNIT_ELEMENTS - unit->elements)
    return false;
  struct tagc_parameter *parameters = grow(unit->parameters, unit->count, sizeof *parameters);
  if (!parameters)
    return run_out(model);
  unit->parameters = parameters;
  struct tagc_parameter *parameter = &parameters[unit->count++];
  *parameter = (struct tagc_parameter){.kinds = kinds, .rows = rows, .columns = columns};
  strcpy(parameter->name, name);
  unit->elements += rows * columns;
  model->parameter_count++;
  return true;
}

bool tagc_model_add_parameters(struct tagc_model *model, const struct tagc_parameter *parameters, size_t count) {
  bool added = true;
  for (const struct tagc_parameter *p = parameters; p < parameters + count && added; p++)
    if ((added = tagc_model_add_parameter(model, p->name, p->kinds, p->rows, p->columns))) {
      const struct tagc_unit *unit = &model->units[model->unit_count - 1];
      unit->parameters[unit->count - 1].unsure = p->unsure;
    }
  return added;
}

struct tagc_model *tagc_model_remake(const struct tagc_model *model,
                                     bool (*add_unit)(struct tagc_model *to, const struct tagc_unit *unit),
                                     bool *no_memory) {
  struct tagc_model *to = tagc_model_create();
  bool done = to;
  if (to)
    memcpy(to->family, model->family, sizeof to->family);
  for (size_t i = 0; i < model->unit_count; i++)
    done = done && add_unit(to, &model->units[i]);
  for (size_t i = 0; i < model->place_count; i++)
    done = done && tagc_model_add_place(to, model->places[i].unit, model->places[i].block);
  if (done)
    return to;
  *no_memory = !to || to->no_memory;
  tagc_model_free(to);
  return NULL;
}

bool tagc_model_add_place(struct tagc_model *model, uint32_t unit, int32_t block) {
  if (unit >= model->unit_count || model->place_count == TAGC_MODEL_PLACES)
    return false;
  struct tagc_model_place *places = grow(model->places, model->place_count, sizeof *places);
  if (!places)
    return run_out(model);
  model->places = places;
  places[model->place_count++] = (struct tagc_model_place){.unit = unit, .block = block};
  return true;
}

uint64_t tagc_unit_elements(const struct tagc_unit *unit) {
  uint64_t elements = 0;
  for (size_t i = 0; i < unit->count; i++)
    elements += unit->parameters[i].rows * unit->parameters[i].columns;
  return elements;
}

uint64_t tagc_model_elements(const struct tagc_model *model) {
  uint64_t elements = 0;
  for (size_t i = 0; i < model->place_count; i++)
    if (__builtin_add_overflow(elements, tagc_unit_elements(&model->units[model->places[i].unit]), &elements))
      return UINT64_MAX;
  return elements;
}
