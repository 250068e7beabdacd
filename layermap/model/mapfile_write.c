/* SPDX-License-Identifier: BSD-3-Clause
 * Writing map files; see mapfile.h.
 *
 * Places are written in stretches of blocks of one name with rising numbers. A stretch writes each unit once, with all
 * of its blocks. If their list is too long for a line, the unit is repeated with the rest.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/model/layout.h"
#include "layermap/model/mapfile.h"

/* The bytes of a line's list of blocks, and of one part of it: ",16382-16382" with its end. */
enum { LIST = 800, LONGEST_RANGE = 24 };

static const char *name_of_place(const struct tagc_model *model, size_t place) {
  return model->units[model->places[place].unit].name;
}

/* Writes what the parameter's name does not tell. */
static void write_unnamed_kinds(FILE *file, const struct tagc_parameter *p) {
  char separator = ' ';
  if (!p->unsure && p->kinds == tagc_kinds_of_name(p->name))
    return;
  if (p->unsure == TAGC_KINDS) {
    fputs(" unknown", file);
    return;
  }
  for (uint32_t kind = 1; kind <= TAGC_KIND_EXPERT; kind *= 2)
    if ((p->kinds | p->unsure) & kind) {
      fprintf(file, "%c%s%s", separator, tagc_kind_name((enum tagc_kind)kind), p->unsure & kind ? "?" : "");
      separator = ',';
    }
  if (separator == ' ')
    fputs(" none", file);
}

/* Writes all of a unit but its first line. */
static bool write_contents(FILE *file, const struct tagc_unit *unit) {
  if (unit->is_guessed)
    fputs("  order guessed\n", file);
  for (size_t i = 0; i < unit->count; i++) {
    const struct tagc_parameter *p = &unit->parameters[i];
    fprintf(file, p->columns == 1 ? "  parameter %s %" PRIu64 : "  parameter %s %" PRIu64 "x%" PRIu64, p->name, p->rows,
            p->columns);
    write_unnamed_kinds(file, p);
    fputc('\n', file);
  }
  return !ferror(file);
}

const char *tagc_mapfile_blocks(const struct tagc_model *model, uint32_t unit, size_t *at, size_t end, char *text,
                                size_t size) {
  const struct tagc_model_place *places = model->places;
  size_t used = 0;
  text[0] = '\0';
  for (; *at < end && used + LONGEST_RANGE < size; ++*at) {
    if (places[*at].unit != unit || places[*at].block < 0)
      continue;
    int32_t first = places[*at].block, last = first;
    while (*at + 1 < end && places[*at + 1].unit == unit && places[*at + 1].block == last + 1) {
      last++;
      ++*at;
    }
    used += (size_t)snprintf(text + used, size - used, last > first ? "%s%" PRId32 "-%" PRId32 : "%s%" PRId32,
                             used ? "," : "", first, last);
  }
  return text;
}

/* The unit's first place from `at` on; `end`: none. */
static size_t next_place(const struct tagc_model *model, uint32_t unit, size_t at, size_t end) {
  while (at < end && model->places[at].unit != unit)
    at++;
  return at;
}

static bool write_stretch(FILE *file, const struct tagc_model *model, size_t begin, size_t end) {
  for (size_t first = begin; first < end; first++) {
    uint32_t unit = model->places[first].unit;
    if (next_place(model, unit, begin, first) < first)
      continue; /* written with an earlier one */
    for (size_t at = first; at < end; at = next_place(model, unit, at, end)) {
      char blocks[LIST];
      fprintf(file, "unit %s %s\n", model->units[unit].name,
              tagc_mapfile_blocks(model, unit, &at, end, blocks, sizeof blocks));
      if (!write_contents(file, &model->units[unit]))
        return false;
    }
  }
  return true;
}

/* The end of the stretch that begins at this place: blocks of one name. is_writable() checked their order. */
static size_t end_of_stretch(const struct tagc_model *model, size_t begin) {
  size_t end = begin + 1;
  while (model->places[begin].block >= 0 && end < model->place_count &&
         strcmp(name_of_place(model, end), name_of_place(model, begin)) == 0)
    end++;
  return end;
}

struct place {
  const char *name;
  int32_t block;
};

static int compare_units(const void *left, const void *right) {
  const struct place *a = left, *b = right;
  int by_name = strcmp(a->name, b->name);
  return by_name ? by_name : (a->block > b->block) - (a->block < b->block);
}

/* True if no place is repeated. A name is either that of blocks or that of one unit. */
static bool are_unique(const struct tagc_model *model) {
  struct place *sorted = calloc(model->place_count, sizeof *sorted);
  bool unique = sorted != NULL;
  for (size_t i = 0; i < model->place_count && unique; i++)
    sorted[i] = (struct place){name_of_place(model, i), model->places[i].block};
  if (unique)
    qsort(sorted, model->place_count, sizeof *sorted, compare_units);
  for (size_t i = 1; i < model->place_count && unique; i++)
    unique = strcmp(sorted[i - 1].name, sorted[i].name) != 0 ||
             (sorted[i - 1].block >= 0 && sorted[i - 1].block != sorted[i].block);
  free(sorted);
  return unique;
}

static bool is_nameable(const char *name) { return tagc_mapfile_is_name(name, strlen(name)); }

/* True if a map can express the model. */
static bool is_writable(const struct tagc_model *model) {
  if (!model->place_count || (model->family[0] && !is_nameable(model->family)) || !are_unique(model))
    return false;
  for (size_t i = 0; i < model->place_count; i++) {
    const struct tagc_unit *unit = &model->units[model->places[i].unit];
    bool goes_back = i > 0 && model->places[i].block >= 0 && model->places[i - 1].block > model->places[i].block &&
                     strcmp(name_of_place(model, i - 1), unit->name) == 0;
    if (goes_back || model->places[i].block >= TAGC_MODEL_PLACES || !unit->count || !is_nameable(unit->name))
      return false;
    size_t to_check = next_place(model, model->places[i].unit, 0, i) == i ? unit->count : 0;
    for (size_t j = 0; j < to_check; j++)
      if (!is_nameable(unit->parameters[j].name))
        return false;
  }
  return true;
}

bool tagc_mapfile_write(FILE *file, const struct tagc_model *model) {
  if (!is_writable(model)) {
    errno = EINVAL;
    return false;
  }
  fputs("tagc-map 1\n", file);
  if (model->family[0])
    fprintf(file, "family %s\n", model->family);
  if (model->layout != TAGC_LAYOUTS)
    fprintf(file, "layout %s\n", tagc_layout_name(model->layout));
  if (model->is_guessed)
    fputs("order guessed\n", file);
  for (size_t begin = 0, end; begin < model->place_count; begin = end) {
    end = end_of_stretch(model, begin);
    if (model->places[begin].block >= 0) {
      if (!write_stretch(file, model, begin, end))
        return false;
      continue;
    }
    const struct tagc_unit *unit = &model->units[model->places[begin].unit];
    fprintf(file, "unit %s\n", unit->name);
    if (!write_contents(file, unit))
      return false;
  }
  return fflush(file) == 0;
}
