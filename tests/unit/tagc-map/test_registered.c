/* SPDX-License-Identifier: BSD-3-Clause
 * Maps of checkpoints and configurations against the real models: tests/fixtures/registered has their parameters in the
 * order in which they are registered. A map has this order, or says that its own is a guess.
 */
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layermap/tagc-map/config.h"
#include "layermap/tagc-map/safetensors.h"
#include "tests/unit/tap.h"

enum { PARAMETERS = 1024, NAME = 192, HEADER = 1 << 19 };

struct truth {
  char name[NAME];
  char shape[64];
  uint64_t rows, columns;
  bool is_buffer;
};

/* One model of a fixture. */
static struct {
  char kind[64], class_name[96];
  char config[1 << 14];
  uint64_t total;
  struct truth all[PARAMETERS];
  size_t count, parameters; /* buffers come last */
} model;

static char path[] = "/tmp/tagc-test-registered-XXXXXX";

/* -- fixtures ------------------------------------------------------------------------------------------------------ */

/* The end of the first `count` components of a name, behind their last dot. */
static size_t components(const char *name, int count) {
  const char *at = name;
  for (; count > 0; count--) {
    at = strchr(at, '.');
    if (!at)
      abort();
    at++;
  }
  return (size_t)(at - name);
}

static void add_truth(const char *name, const char *shape, bool is_buffer) {
  struct truth *t = &model.all[model.count++];
  if (model.count > PARAMETERS)
    abort();
  snprintf(t->name, NAME, "%s", name);
  snprintf(t->shape, sizeof t->shape, "%s", shape);
  t->is_buffer = is_buffer;
  char *rest;
  t->rows = strtoull(shape, &rest, 10);
  for (t->columns = 1; *rest == 'x';)
    t->columns *= strtoull(rest + 1, &rest, 10);
  model.parameters += !is_buffer;
}

/* The first component of a name that is a number with others around; NULL: none. */
static const char *block_number(const char *name) {
  for (const char *at = strchr(name, '.'); at; at = strchr(at, '.')) {
    size_t digits = strspn(++at, "0123456789");
    if (digits && at[digits] == '.')
      return at;
  }
  return NULL;
}

/* Adds the latest block once more, with the next number. */
static void add_again(void) {
  const char *last = model.all[model.count - 1].name, *number = block_number(last);
  size_t prefix = (size_t)(number - last), first = model.count;
  char whole[NAME], stack[NAME];
  snprintf(stack, sizeof stack, "%.*s%lu.", (int)prefix, last, strtoul(number, NULL, 10));
  while (first > 0 && !strncmp(model.all[first - 1].name, stack, strlen(stack)))
    first--;
  for (size_t i = first, end = model.count; i < end; i++) {
    snprintf(whole, sizeof whole, "%.*s%lu.%.100s", (int)prefix, stack, strtoul(stack + prefix, NULL, 10) + 1,
             model.all[i].name + strlen(stack));
    add_truth(whole, model.all[i].shape, false);
  }
}

static void add_line(const char *line) {
  char rest[NAME], shape[64], name[NAME] = "";
  int shared, is_buffer = *line == '~';
  if (sscanf(line + is_buffer, "%d %191s %63s", &shared, rest, shape) != 3)
    abort();
  if (shared) {
    const char *before = model.all[model.count - 1].name;
    snprintf(name, sizeof name, "%.*s", (int)components(before, shared), before);
  }
  snprintf(name + strlen(name), sizeof name - strlen(name), "%s", rest);
  add_truth(name, shape, is_buffer);
}

/* Reads the next model; false: the end. The line behind it stays in `line`. */
static bool read_model(FILE *file, char **line, size_t *room) {
  while (*line && strncmp(*line, "model ", 6))
    if (getline(line, room, file) < 0)
      return false;
  model.count = model.parameters = 0;
  model.config[0] = '\0';
  if (sscanf(*line, "model %63s %95s %" SCNu64, model.kind, model.class_name, &model.total) != 3)
    abort();
  while (getline(line, room, file) >= 0 && strncmp(*line, "model ", 6))
    if (!strncmp(*line, "config ", 7))
      snprintf(model.config, sizeof model.config, "%s", *line + 7);
    else if (!strncmp(*line, "again", 5))
      add_again();
    else
      add_line(*line);
  if (feof(file))
    strcpy(*line, "");
  return true;
}

/* -- checkpoints --------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  return strcmp((*(const struct truth *const *)a)->name, (*(const struct truth *const *)b)->name);
}

/* Writes the model as a checkpoint, whose header is in the order of the alphabet. */
static void write_checkpoint(void) {
  static char header[8 + HEADER];
  const struct truth *sorted[PARAMETERS];
  uint64_t data = 0;
  size_t used = (size_t)snprintf(header + 8, HEADER, "{\"__metadata__\": {\"format\": \"pt\"}");
  for (size_t i = 0; i < model.count; i++)
    sorted[i] = &model.all[i];
  qsort(sorted, model.count, sizeof *sorted, by_name);
  for (size_t i = 0; i < model.count; i++) {
    const uint64_t bytes = sorted[i]->rows * sorted[i]->columns;
    char shape[64];
    snprintf(shape, sizeof shape, "%s", sorted[i]->shape);
    for (char *x = strchr(shape, 'x'); x; x = strchr(x, 'x'))
      *x = ',';
    used +=
      (size_t)snprintf(header + 8 + used, HEADER - used,
                       ",\"%s\":{\"dtype\":\"F8_E4M3\",\"shape\":[%s],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                       sorted[i]->name, shape, data, data + bytes);
    data += bytes;
  }
  header[8 + used++] = '}';
  for (int i = 0; i < 8; i++)
    header[i] = (char)((uint64_t)used >> 8 * i);
  FILE *file = fopen(path, "w");
  if (!file || used >= HEADER || fwrite(header, 1, 8 + used, file) != 8 + used || fclose(file) ||
      truncate(path, (off_t)(8 + used + data)))
    abort();
}

/* The length of a name before the block's number and the rest; 0: it has others. */
static size_t prefix_of(const char *name, int32_t block, const char *own) {
  char end[NAME];
  size_t length = (size_t)snprintf(end, sizeof end, ".%d.%.150s", (int)block, own), all = strlen(name);
  return all > length && !strcmp(name + all - length, end) ? all - length : 0;
}

static bool is_parameter(const struct tagc_parameter *p, const struct truth *t) {
  return p->rows == t->rows && p->columns == t->columns;
}

/* Where the unit's parameters are registered, one behind the other; model.parameters: nowhere. */
static size_t find_block(const struct tagc_unit *unit, int32_t block) {
  for (size_t i = 0; i + unit->count <= model.parameters; i++) {
    const size_t prefix = prefix_of(model.all[i].name, block, unit->parameters[0].name);
    size_t same = 0;
    while (same < unit->count && prefix && is_parameter(&unit->parameters[same], &model.all[i + same]) &&
           !strncmp(model.all[i + same].name, model.all[i].name, prefix) &&
           prefix_of(model.all[i + same].name, block, unit->parameters[same].name) == prefix)
      same++;
    if (same == unit->count)
      return i;
  }
  return model.parameters;
}

static size_t find_parameter(const char *name) {
  size_t i = 0;
  while (i < model.parameters && strcmp(model.all[i].name, name))
    i++;
  return i;
}

/* The units of a map: guessed, right, and wrong without a word. */
struct verdict {
  size_t guessed, right, wrong;
};

/* Compares the map's units with the order of registration. */
static struct verdict judge(const struct tagc_model *map) {
  struct verdict verdict = {0};
  size_t last = 0, previous = 0; /* behind the parameters outside so far, and behind the place before */
  bool in_order = true;
  for (size_t i = 0; i < map->place_count; i++) {
    const struct tagc_unit *unit = &map->units[map->places[i].unit];
    const int32_t block = map->places[i].block;
    if (unit->is_guessed) {
      verdict.guessed++;
      in_order = false;
      continue;
    }
    bool is_right = true;
    size_t at = block >= 0 ? find_block(unit, block) : 0;
    if (block >= 0)
      is_right = at < model.parameters;
    for (size_t j = 0; j < unit->count; j++) {
      if (block < 0) {
        at = find_parameter(unit->parameters[j].name);
        is_right &= at < model.parameters && at >= last && is_parameter(&unit->parameters[j], &model.all[at]);
        last = at + 1;
      }
      in_order &= at + (block >= 0 ? j : 0) == previous;
      previous++;
    }
    verdict.right += is_right;
    verdict.wrong += !is_right;
    if (!is_right)
      note("wrong: %s of %s", unit->name, model.class_name);
  }
  if (!map->is_guessed && !verdict.guessed && (!in_order || tagc_model_elements(map) != model.total)) {
    note("wrong: units of %s, %" PRIu64 " elements of %" PRIu64, model.class_name, tagc_model_elements(map),
         model.total);
    verdict.wrong++;
  }
  return verdict;
}

/* -- configurations ------------------------------------------------------------------------------------------------ */

/* The next parameter outside blocks, or in blocks, from `at` on. */
static size_t next_parameter(size_t at, bool in_blocks) {
  while (at < model.parameters && (block_number(model.all[at].name) != NULL) != in_blocks)
    at++;
  return at;
}

/* True unless one is for queries and the other for keys, and so on. */
static bool is_same_projection(const char *own, const char *name) {
  const char *in = strstr(own, "attn.");
  char projection[] = "x_proj.";
  if (!in || !strchr("qkv", in[5]) || in[6] != '.')
    return true;
  projection[0] = in[5];
  return strstr(name, projection) != NULL;
}

/* True if the map's parameters are those of the model: sizes in order, and norms and biases where the model has them.
 */
static bool is_same_model(const struct tagc_model *map) {
  const uint32_t telling = TAGC_KIND_NORM | TAGC_KIND_BIAS;
  size_t at[2] = {next_parameter(0, false), next_parameter(0, true)}, seen = 0;
  for (size_t i = 0; i < map->place_count; i++) {
    const struct tagc_unit *unit = &map->units[map->places[i].unit];
    const bool is_block = map->places[i].block >= 0;
    for (size_t j = 0; j < unit->count; j++, seen++) {
      const struct truth *t = &model.all[at[is_block]];
      if (at[is_block] == model.parameters || !is_parameter(&unit->parameters[j], t) ||
          (unit->parameters[j].kinds & telling) != (tagc_kinds_of_name(t->name) & telling) ||
          !is_same_projection(unit->parameters[j].name, t->name)) {
        note("%s.%d: %s %" PRIu64 "x%" PRIu64 " is %s %s", unit->name, (int)map->places[i].block,
             unit->parameters[j].name, unit->parameters[j].rows, unit->parameters[j].columns,
             at[is_block] < model.parameters ? t->name : "nothing", at[is_block] < model.parameters ? t->shape : "");
        return false;
      }
      at[is_block] = next_parameter(at[is_block] + 1, is_block);
    }
  }
  return seen == model.parameters && tagc_model_elements(map) == model.total;
}

static bool check_config(void) {
  struct tagc_complaint complaint;
  FILE *file = fopen(path, "w");
  if (!file || fputs(model.config, file) < 0 || fclose(file))
    abort();
  struct tagc_model *map = tagc_map_from_config(path, false, NULL, &complaint);
  /* Releases take one or the other of two values: if they contradict, there is no map. */
  ok(map ? is_same_model(map) : strstr(complaint.text, "\"tie_word_embeddings\" is") != NULL,
     "the map of the config of %s %s", model.class_name, map ? "" : complaint.text);
  tagc_model_free(map);
  return map != NULL;
}

/* -- all models ---------------------------------------------------------------------------------------------------- */

struct tally {
  size_t models, refused, known, partly, units, guessed, wrong, configs;
};

static void check_model(struct tally *tally) {
  struct tagc_complaint complaint;
  char *paths[] = {path};
  write_checkpoint();
  struct tagc_model *map = tagc_map_from_safetensors(paths, 1, &complaint);
  if (!map) {
    note("no map of %s: %s", model.class_name, complaint.text);
    tally->refused += *complaint.text != '\0';
    return;
  }
  struct verdict verdict = judge(map);
  if (getenv("TAGC_TEST_VERBOSE"))
    note("%s %s: %zu guessed, %zu right, %zu wrong", model.kind, model.class_name, verdict.guessed, verdict.right,
         verdict.wrong);
  tally->models++;
  tally->known += !verdict.guessed;
  tally->partly += verdict.guessed && verdict.right;
  tally->units += verdict.right + verdict.guessed + verdict.wrong;
  tally->guessed += verdict.guessed;
  tally->wrong += verdict.wrong;
  tagc_model_free(map);
  if (*model.config) {
    tally->configs += check_config();
  }
}

static void check_file(const char *name, struct tally *tally) {
  FILE *file = fopen(name, "r");
  size_t room = 0;
  char *line = NULL;
  if (!file || getline(&line, &room, file) < 0)
    abort();
  while (read_model(file, &line, &room))
    check_model(tally);
  free(line);
  fclose(file);
}

int main(void) {
  const char *top = getenv("abs_top_srcdir");
  char pattern[2048];
  glob_t found;
  struct tally tally = {0};
  int file = mkstemp(path);
  if (file < 0 || close(file))
    abort();
  snprintf(pattern, sizeof pattern, "%s/tests/fixtures/registered/*.txt", top ? top : "..");
  if (!ok(glob(pattern, 0, NULL, &found) == 0, "there are fixtures: %s", pattern))
    return tap_done();
  for (size_t i = 0; i < found.gl_pathc; i++)
    check_file(found.gl_pathv[i], &tally);
  globfree(&found);
  unlink(path);
  ok(tally.wrong == 0, "no unit of %zu models has another order than the map says", tally.models);
  ok(tally.models >= 100 && tally.configs >= 5, "%zu checkpoints, %zu configurations of vision-language models",
     tally.models, tally.configs);
  note("known: all units of %zu models, some of %zu; guessed: %zu of %zu units", tally.known, tally.partly,
       tally.guessed, tally.units);
  return tap_done();
}
