/* SPDX-License-Identifier: BSD-3-Clause
 * Reading map files; see mapfile.h.
 *
 * A unit is collected until it ends: one written twice becomes one unit with more places. Its blocks wait in a table by
 * number until a unit of another name, or the end of the file, shows that no more come.
 */
#include "layermap/model/mapfile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "env/hash.h"
#include "layermap/model/layout.h"
#include "layermap/model/text.h"

/* Slots of the table of names, a power of two; block numbers are below the limit of places. */
enum { NAME_SLOTS = 2 * TAGC_MODEL_PARAMETERS, BLOCKS = TAGC_MODEL_PLACES, NO_UNIT = -1, THIS_UNIT = -2 };

struct name_slot {
  uint32_t unit, parameter; /* the entry, if `unit` is the current unit's number, from 1 */
};

struct reader {
  struct tagc_text text;
  struct tagc_model *model;

  /* The current unit. */
  struct tagc_text unit_text; /* its start, for complaints */
  struct tagc_word unit_word;
  struct tagc_parameter *parameters;
  size_t count, room;
  uint64_t elements;
  bool is_guessed;
  uint32_t first_block, last_block;
  bool has_blocks;

  uint32_t units;                /* that have begun */
  char stretch[TAGC_UNIT_NAME];  /* the name of the waiting units; "": none */
  size_t waiting;                /* blocks in the table */
  int32_t unit_of_block[BLOCKS]; /* of the stretch: a unit's index, THIS_UNIT or NO_UNIT */
  struct name_slot names[NAME_SLOTS];
};

bool tagc_mapfile_is_name(const char *name, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (name[i] <= ' ' || name[i] > '~' || strchr("#,*?[]\\\"", name[i]))
      return false;
  return length > 0;
}

/* Copies a word that must be a name into `name`, of `size` bytes. */
static bool read_name(struct tagc_text *text, struct tagc_word word, const char *what, char *name, size_t size) {
  if (!tagc_mapfile_is_name(word.text, word.length))
    return tagc_text_refuse(text, word, "is no name of a %s; expected is printable ASCII but , * ? [ ] \\ and \"",
                            what);
  if (word.length >= size)
    return tagc_text_refuse(text, word, "is too long for the name of a %s; expected are at most %zu characters", what,
                            size - 1);
  memcpy(name, word.text, word.length);
  memset(name + word.length, 0, size - word.length);
  return true;
}

/* -- places -------------------------------------------------------------------------------------------------------- */

static const char *unit_name(const struct tagc_model *model, size_t place) {
  return model->units[model->places[place].unit].name;
}

/* True if the places so far have this name, with this number if they are numbered. */
static bool is_placed(const struct tagc_model *model, const char *name, int32_t block) {
  for (size_t i = 0; i < model->place_count; i++) {
    int32_t other = model->places[i].block;
    if ((other == block || other < 0 || block < 0) && strcmp(unit_name(model, i), name) == 0)
      return true;
  }
  return false;
}

/* Turns the waiting blocks into places, in the order of their numbers. */
static bool end_stretch(struct reader *reader) {
  for (int32_t block = 0; block < BLOCKS && reader->waiting; block++) {
    if (reader->unit_of_block[block] == NO_UNIT)
      continue;
    if (!tagc_model_add_place(reader->model, (uint32_t)reader->unit_of_block[block], block))
      return tagc_text_without_memory(&reader->text);
    reader->unit_of_block[block] = NO_UNIT;
    reader->waiting--;
  }
  reader->stretch[0] = '\0';
  return true;
}

static bool add_block(struct reader *reader, struct tagc_word word, const char *name, uint32_t block) {
  if (reader->unit_of_block[block] != NO_UNIT || is_placed(reader->model, name, (int32_t)block))
    return tagc_text_refuse(&reader->text, word, "says block %" PRIu32 " of \"%s\" twice; expected is each once", block,
                            name);
  if (reader->model->place_count + reader->waiting == TAGC_MODEL_PLACES)
    return tagc_text_refuse(&reader->text, word, "is one too many; a map has at most %d units and blocks",
                            TAGC_MODEL_PLACES);
  reader->unit_of_block[block] = THIS_UNIT;
  reader->waiting++;
  if (!reader->has_blocks || block < reader->first_block)
    reader->first_block = block;
  if (!reader->has_blocks || block > reader->last_block)
    reader->last_block = block;
  reader->has_blocks = true;
  return true;
}

/* Cuts the part of a word before the separator; *word becomes the rest (text NULL: nothing, not even a separator). */
static struct tagc_word split(struct tagc_word *word, char separator) {
  const char *at = word->length ? memchr(word->text, separator, word->length) : NULL;
  struct tagc_word part = {word->text, at ? (size_t)(at - word->text) : word->length};
  *word = at ? (struct tagc_word){at + 1, word->length - part.length - 1} : (struct tagc_word){0};
  return part;
}

/* Reads "0-31", a part of a list of blocks. */
static bool read_blocks(struct reader *reader, struct tagc_word range, const char *name) {
  struct tagc_word whole = range, first_word = split(&range, '-');
  uint64_t first, last;
  if (!tagc_text_number(&reader->text, first_word, "number of a block", 0, BLOCKS - 1, &first))
    return false;
  last = first;
  if (range.text && !tagc_text_number(&reader->text, range, "number of a block", 0, BLOCKS - 1, &last))
    return false;
  if (first > last)
    return tagc_text_refuse(&reader->text, whole,
                            "runs backwards; expected are the lower number and then the higher one");
  for (uint64_t block = first; block <= last; block++)
    if (!add_block(reader, whole, name, (uint32_t)block))
      return false;
  return true;
}

/* -- units --------------------------------------------------------------------------------------------------------- */

static bool is_same_unit(const struct tagc_unit *unit, const struct reader *reader, const char *name) {
  if (unit->count != reader->count || unit->is_guessed != reader->is_guessed || strcmp(unit->name, name) != 0)
    return false;
  for (size_t i = 0; i < unit->count; i++) {
    const struct tagc_parameter *a = &unit->parameters[i], *b = &reader->parameters[i];
    if (a->rows != b->rows || a->columns != b->columns || a->kinds != b->kinds || a->unsure != b->unsure ||
        strcmp(a->name, b->name) != 0)
      return false;
  }
  return true;
}

/* The index of the unit just read; -1: no memory. */
static int32_t find_or_add_unit(struct reader *reader, const char *name) {
  struct tagc_model *model = reader->model;
  for (size_t i = 0; i < model->unit_count; i++)
    if (is_same_unit(&model->units[i], reader, name))
      return (int32_t)i;
  if (!tagc_model_add_unit(model, name) || !tagc_model_add_parameters(model, reader->parameters, reader->count))
    return -1;
  model->units[model->unit_count - 1].is_guessed = reader->is_guessed;
  return (int32_t)model->unit_count - 1;
}

static bool end_unit(struct reader *reader) {
  char name[TAGC_UNIT_NAME] = "";
  if (!reader->units)
    return true;
  if (!reader->count) {
    reader->text.failed = true;
    return tagc_text_refuse(&reader->unit_text, reader->unit_word,
                            "has no parameters; expected are lines \"parameter\" behind it");
  }
  memcpy(name, reader->unit_word.text, reader->unit_word.length);
  int32_t unit = find_or_add_unit(reader, name);
  if (unit < 0 || (!reader->has_blocks && !tagc_model_add_place(reader->model, (uint32_t)unit, -1)))
    return tagc_text_without_memory(&reader->text);
  for (uint32_t block = reader->first_block; reader->has_blocks && block <= reader->last_block; block++)
    if (reader->unit_of_block[block] == THIS_UNIT)
      reader->unit_of_block[block] = unit;
  return true;
}

static bool begin_unit(struct reader *reader) {
  struct tagc_text *text = &reader->text;
  struct tagc_word word = tagc_text_word(text);
  char name[TAGC_UNIT_NAME];
  if (!read_name(text, word, "unit", name, sizeof name))
    return false;
  struct tagc_word blocks = tagc_text_word(text);
  if (!tagc_text_ended(text))
    return false;
  if ((!blocks.length || strcmp(name, reader->stretch) != 0) && !end_stretch(reader))
    return false;
  reader->unit_text = *text;
  reader->unit_word = word;
  reader->count = 0;
  reader->elements = 0;
  reader->is_guessed = false;
  reader->has_blocks = false;
  reader->units++;
  if (!blocks.length && is_placed(reader->model, name, -1))
    return tagc_text_refuse(text, word, "is there twice; expected is another name, or numbers of blocks behind both");
  if (!blocks.length && reader->model->place_count == TAGC_MODEL_PLACES)
    return tagc_text_refuse(text, word, "is one too many; a map has at most %d units and blocks", TAGC_MODEL_PLACES);
  if (blocks.length)
    strcpy(reader->stretch, name);
  while (blocks.length || (blocks.text && reader->has_blocks))
    if (!read_blocks(reader, split(&blocks, ','), name))
      return false;
  return true;
}

/* Reads the mark of a guessed order: of the parameters of a unit, or before all units of these. */
static bool read_order(struct reader *reader, struct tagc_word first) {
  struct tagc_text *text = &reader->text;
  bool *is_guessed = reader->units ? &reader->is_guessed : &reader->model->is_guessed;
  struct tagc_word word = tagc_text_word(text);
  if (*is_guessed || reader->count)
    return tagc_text_refuse(text, first,
                            "is late, or there twice; expected is one order before all units, and before the "
                            "parameters of each");
  if (!tagc_word_is(word, "guessed"))
    return tagc_text_refuse(text, word, "is no order; expected is guessed");
  *is_guessed = true;
  return tagc_text_ended(text);
}

/* -- parameters ---------------------------------------------------------------------------------------------------- */

/* Reads "4096x1024": the first dimension, and the product of the others. */
static bool read_shape(struct tagc_text *text, struct tagc_word word, struct tagc_parameter *parameter) {
  struct tagc_word rest = word;
  parameter->columns = 1;
  for (bool first = true; first || rest.text; first = false) {
    uint64_t size, *product = first ? &parameter->rows : &parameter->columns;
    if (!tagc_text_number(text, split(&rest, 'x'), "dimension", 1, TAGC_PARAMETER_ELEMENTS, &size))
      return false;
    if (first)
      *product = size;
    else if (size > TAGC_PARAMETER_ELEMENTS / parameter->rows / *product)
      return tagc_text_refuse(text, word, "are too many elements; a parameter has at most %" PRIu64,
                              TAGC_PARAMETER_ELEMENTS);
    else
      *product *= size;
  }
  return true;
}

/* Reads "attn,bias", "attn?,mlp?", "none" or "unknown". The parameter has the kinds of its name, which stay the likely
 * ones of those that it may have. */
static bool read_kinds(struct tagc_text *text, struct tagc_word word, struct tagc_parameter *parameter) {
  const uint32_t likely = parameter->kinds;
  parameter->kinds = 0;
  if (tagc_word_is(word, "none"))
    return true;
  if (tagc_word_is(word, "unknown")) {
    parameter->kinds = likely;
    parameter->unsure = TAGC_KINDS;
    return true;
  }
  while (word.text) {
    struct tagc_word name = split(&word, ',');
    const bool is_unsure = name.length > 0 && name.text[name.length - 1] == '?';
    uint32_t kind = tagc_kind_find(name.text, name.length - is_unsure);
    if (!kind)
      return tagc_text_refuse(text, name,
                              "is no kind; expected are attn, mlp, embed, head, norm, bias, expert, with commas "
                              "between and a ? behind those that are unsure, or none, or unknown");
    parameter->kinds |= kind;
    parameter->unsure |= is_unsure ? kind : 0;
  }
  parameter->kinds = (parameter->kinds & ~parameter->unsure) | (likely & parameter->unsure);
  return true;
}

/* True if the name is new in its unit. Remembers it for the next parameter's index. */
static bool remember_unit(struct reader *reader, const char *name) {
  uint64_t slot = tagc_hash_add(TAGC_HASH_START, name, strlen(name));
  for (;; slot++) {
    struct name_slot *here = &reader->names[slot % NAME_SLOTS];
    if (here->unit != reader->units) {
      *here = (struct name_slot){reader->units, (uint32_t)reader->count};
      return true;
    }
    if (strcmp(reader->parameters[here->parameter].name, name) == 0)
      return false;
  }
}

static bool reserve_place(struct reader *reader) {
  if (reader->count < reader->room)
    return true;
  size_t room = reader->room ? 2 * reader->room : 16;
  struct tagc_parameter *parameters = realloc(reader->parameters, room * sizeof *parameters);
  if (!parameters)
    return tagc_text_without_memory(&reader->text);
  reader->parameters = parameters;
  reader->room = room;
  return true;
}

static bool read_parameter(struct reader *reader, struct tagc_word first) {
  struct tagc_text *text = &reader->text;
  struct tagc_parameter parameter = {0};
  if (!reader->units)
    return tagc_text_refuse(text, first, "is in no unit; expected is a line \"unit NAME\" before it");
  struct tagc_word name = tagc_text_word(text), shape, kinds;
  if (!read_name(text, name, "parameter", parameter.name, sizeof parameter.name))
    return false;
  shape = tagc_text_word(text);
  if (!read_shape(text, shape, &parameter))
    return false;
  kinds = tagc_text_word(text);
  parameter.kinds = tagc_kinds_of_name(parameter.name);
  if (kinds.length && (!read_kinds(text, kinds, &parameter) || !tagc_text_ended(text)))
    return false;
  uint64_t elements = parameter.rows * parameter.columns;
  if (elements > TAGC_UNIT_ELEMENTS - reader->elements)
    return tagc_text_refuse(text, shape, "are too many elements; a unit has at most %" PRIu64, TAGC_UNIT_ELEMENTS);
  if (reader->model->parameter_count + reader->count == TAGC_MODEL_PARAMETERS)
    return tagc_text_refuse(text, name, "is one too many; a map has at most %d parameters", TAGC_MODEL_PARAMETERS);
  if (!reserve_place(reader))
    return false;
  if (!remember_unit(reader, parameter.name))
    return tagc_text_refuse(text, name, "is there twice; expected is another name in the same unit");
  reader->parameters[reader->count++] = parameter;
  reader->elements += elements;
  return true;
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static bool read_family(struct reader *reader, struct tagc_word first) {
  struct tagc_text *text = &reader->text;
  if (reader->units || reader->model->family[0])
    return tagc_text_refuse(text, first, "is late, or there twice; expected is one family before all units");
  return read_name(text, tagc_text_word(text), "family", reader->model->family, sizeof reader->model->family) &&
         tagc_text_ended(text);
}

static bool read_layout(struct reader *reader, struct tagc_word first) {
  struct tagc_text *text = &reader->text;
  if (reader->units || reader->model->layout != TAGC_LAYOUTS)
    return tagc_text_refuse(text, first, "is late, or there twice; expected is one layout before all units");
  struct tagc_word word = tagc_text_word(text);
  for (int layout = 0; layout < TAGC_LAYOUTS; layout++)
    if (tagc_word_is(word, tagc_layout_name((enum tagc_layout_kind)layout))) {
      reader->model->layout = (enum tagc_layout_kind)layout;
      return tagc_text_ended(text);
    }
  return tagc_text_refuse(text, word, "is no layout; expected is fsdp1, fsdp1_aligned, fsdp2, zero3 or megatron");
}

static bool read_map_lines(struct reader *reader) {
  struct tagc_text *text = &reader->text;
  if (!tagc_text_version(text, "tagc-map", 1))
    return false;
  while (tagc_text_line(text)) {
    struct tagc_word first = tagc_text_word(text);
    bool is_right = tagc_word_is(first, "parameter") ? read_parameter(reader, first)
                    : tagc_word_is(first, "unit")    ? end_unit(reader) && begin_unit(reader)
                    : tagc_word_is(first, "order")   ? read_order(reader, first)
                    : tagc_word_is(first, "family")  ? read_family(reader, first)
                    : tagc_word_is(first, "layout")  ? read_layout(reader, first)
                                                     : tagc_text_refuse(text, first,
                                                                        "is not understood; expected is \"unit\", "
                                                                         "\"parameter\", \"order\", \"family\" or "
                                                                         "\"layout\"");
    if (!is_right)
      return false;
  }
  if (text->failed)
    return false;
  if (!reader->units)
    return tagc_text_fail(text, "there is no unit; expected are lines \"unit NAME\" with parameters behind them");
  return end_unit(reader) && end_stretch(reader);
}

struct tagc_model *tagc_mapfile_parse(const char *bytes, size_t count, struct tagc_complaint *complaint) {
  struct reader *reader = calloc(1, sizeof *reader);
  struct tagc_model *model = tagc_model_create();
  if (!reader || !model) {
    *complaint = (struct tagc_complaint){.text = "no memory"};
    free(reader);
    tagc_model_free(model);
    return NULL;
  }
  reader->model = model;
  for (size_t i = 0; i < BLOCKS; i++)
    reader->unit_of_block[i] = NO_UNIT;
  tagc_text_begin(&reader->text, bytes, count, complaint);
  bool is_right = read_map_lines(reader);
  free(reader->parameters);
  free(reader);
  if (is_right)
    return model;
  tagc_model_free(model);
  return NULL;
}

struct tagc_model *tagc_mapfile_read(const char *path, uint64_t *digest, struct tagc_complaint *complaint) {
  size_t bytes;
  char *text = tagc_text_load_regular(path, TAGC_MAPFILE_BYTES, &bytes, complaint);
  if (!text)
    return NULL;
  struct tagc_model *model = tagc_mapfile_parse(text, bytes, complaint);
  uint64_t hash = tagc_hash_add(TAGC_HASH_START, text, bytes);
  if (digest)
    *digest = hash ? hash : 1;
  free(text);
  return model;
}
