/* SPDX-License-Identifier: BSD-3-Clause
 * The models of tests/fixtures/zoo over ranks, and whether a model tells the kinds of another one's elements.
 */
#include "tests/unit/infer/zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/model/mapfile.h"
#include "tests/unit/tap.h"

enum { MOST_RUNS = 4096 };
const int zoo_ranks[ZOO_RANKS] = {2, 3, 8, 16, 64, 256};

/* -- a model over ranks -------------------------------------------------------------------------------------------- */

size_t zoo_members(const struct tagc_model *model, size_t place, struct tagc_member *members) {
  const struct tagc_unit *unit = &model->units[model->places[place].unit];
  for (size_t i = 0; i < unit->count; i++)
    members[i] = (struct tagc_member){&unit->parameters[i], model->places[place].block, unit->name};
  return unit->count;
}

void zoo_make_slots(struct zoo_case *c) {
  static struct tagc_member members[TAGC_MODEL_PARAMETERS];
  const struct tagc_model *model = c->model;
  for (size_t place = 0; place < model->place_count; place++) {
    const size_t count = zoo_members(model, place, members);
    struct tagc_slot_info *slot = &c->slots[model->place_count - 1 - place];
    *slot = (struct tagc_slot_info){.unit = (uint32_t)place, .gathered = true};
    slot->signature = (struct tagc_signature){.count = tagc_layout_shard(c->layout, members, count, c->nranks, 4),
                                              .collective = TAGC_COLL_REDUCE_SCATTER,
                                              .dtype = TAGC_CODE_FLOAT32,
                                              .op = c->layout == TAGC_LAYOUT_FSDP2, /* torch's fully_shard averages,
                                                                                       FSDP1 adds */
                                              .is_float = true};
  }
}

/* -- the verdict on a guess ---------------------------------------------------------------------------------------- */

/* The kinds of a shard's elements, in runs. Real padding may be anything, and has NO_KIND. A guessed one goes with what
 * is before it, as in parts.c: sizes that differ by less than a padding select alike. */
enum { NO_KIND = 1 << 30 };
struct runs {
  bool is_guess;
  uint32_t kinds; /* to be read */
  const struct tagc_member *members;
  size_t count;
  struct {
    uint64_t end;
    uint32_t kinds, unsure;
  } run[MOST_RUNS];
};

static bool add_run(const struct tagc_segment *segment, void *data) {
  struct runs *runs = data;
  const struct tagc_parameter *p = segment->member < 0 ? NULL : runs->members[segment->member].parameter;
  const bool goes_on = runs->is_guess && runs->count;
  const uint32_t kinds = p ? p->kinds & ~p->unsure & runs->kinds : goes_on ? runs->run[runs->count - 1].kinds : NO_KIND;
  const uint32_t unsure = p ? p->unsure & runs->kinds : goes_on ? runs->run[runs->count - 1].unsure : 0;
  const uint64_t end = segment->offset + segment->length;
  if (runs->count && runs->run[runs->count - 1].kinds == kinds && runs->run[runs->count - 1].unsure == unsure)
    runs->run[runs->count - 1].end = end;
  else if (runs->count < MOST_RUNS) {
    runs->run[runs->count].end = end;
    runs->run[runs->count].kinds = kinds;
    runs->run[runs->count++].unsure = unsure;
  }
  return true;
}

static void read_runs(struct runs *runs, const struct tagc_layer *layer, int nranks, int shard) {
  runs->members = layer->members;
  runs->count = 0;
  tagc_layout_walk(layer->layout, layer->members, layer->count, nranks, 4, shard, add_run, runs);
}

enum zoo_truth zoo_compare(const struct zoo_sides *sides, int nranks) {
  enum zoo_truth so_far = ZOO_TRUE;
  static struct runs truth, guess = {.is_guess = true};
  truth.kinds = guess.kinds = sides->kinds ? sides->kinds : UINT32_MAX;
  for (int shard = 0; shard < nranks; shard++) {
    read_runs(&truth, &sides->truth, nranks, shard);
    read_runs(&guess, sides->guess, nranks, shard);
    for (size_t i = 0, j = 0; i < truth.count && j < guess.count;) {
      const bool is_padding = truth.run[i].kinds == NO_KIND || guess.run[j].kinds == NO_KIND;
      if (!is_padding && (truth.run[i].kinds ^ guess.run[j].kinds) & ~guess.run[j].unsure)
        return ZOO_FALSE;
      if (!is_padding && guess.run[j].unsure)
        so_far = ZOO_UNSURE;
      const uint64_t end = truth.run[i].end, other = guess.run[j].end;
      i += end <= other;
      j += other <= end;
    }
  }
  return so_far;
}

char *zoo_load(const char *name) {
  char path[2048];
  const char *top = getenv("abs_top_srcdir");
  snprintf(path, sizeof path, "%s/tests/fixtures/zoo/%s.maps", top ? top : "..", name);
  return zoo_read(path);
}

char *zoo_read(const char *path) {
  FILE *file = fopen(path, "r");
  enum { MOST = 1 << 24 };
  char *text = calloc(1, MOST);
  if (!file || !text || !fread(text, 1, MOST - 1, file)) {
    free(text);
    text = NULL;
  }
  if (file)
    fclose(file);
  return text;
}

struct tagc_model *zoo_next(const char **at, char *label) {
  static const char begin[] = "tagc-map 1\n# ";
  for (const char *text; *at && (text = strstr(*at, begin));) {
    const char *next = strstr(text + 1, begin);
    struct tagc_complaint complaint = {0};
    struct tagc_model *model = tagc_mapfile_parse(text, next ? (size_t)(next - text) : strlen(text), &complaint);
    snprintf(label, ZOO_LABEL, "%.*s", (int)strcspn(text + sizeof begin - 1, "\n"), text + sizeof begin - 1);
    *at = next;
    if (model && model->place_count <= ZOO_SLOTS)
      return model;
    ok(false, "%s: %s", label, complaint.text);
    tagc_model_free(model);
  }
  return NULL;
}
