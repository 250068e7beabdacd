/* SPDX-License-Identifier: BSD-3-Clause
 * How often guesses are right, and how often sure and wrong: over the zoo of tests/fixtures/zoo, hundreds of models of
 * transformers, wrapped in blocks and a root, over 2 to 256 ranks, flat and chunked.
 *
 * A guess is *sure* from 50% on. It is *right* if every element of every slot has the kinds that it states, *wrong* if
 * one has others: then TAGC_SKIP and TAGC_LAYERS would select by kinds what they do not name. In between (*in part*)
 * what is stated is true, and some slots have no contents.
 *
 *   test_zoo all           counts all cases
 *   test_zoo list FILE     also prints each, for people who change the search. (Never of held-out: who looks, tunes.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/infer/layers.h"
#include "layermap/model/mapfile.h"
#include "tests/unit/tap.h"

/* The test takes one case of these; numbers of ranks and layouts take turns. All of them take minutes. */
enum { EVERY = 23 };

enum { MOST_SLOTS = 512, MOST_RUNS = 4096, SURE = TAGC_LAYERS_AMBIGUOUS };
static const int all_ranks[] = {2, 3, 8, 16, 64, 256};
enum { RANKS = sizeof all_ranks / sizeof *all_ranks };

/* -- a model over ranks -------------------------------------------------------------------------------------------- */

struct zoo_case {
  const char *name;
  const struct tagc_model *model;
  enum tagc_layout_kind layout;
  int nranks;
  struct tagc_slot_info slots[MOST_SLOTS]; /* in the order of calls: the last place's comes first */
};

static size_t make_members(const struct tagc_model *model, size_t place, struct tagc_member *members) {
  const struct tagc_unit *unit = &model->units[model->places[place].unit];
  for (size_t i = 0; i < unit->count; i++)
    members[i] = (struct tagc_member){&unit->parameters[i], model->places[place].block, unit->name};
  return unit->count;
}

/* The truth and the guess of a slot. */
struct sides {
  struct tagc_layer truth;
  const struct tagc_layer *guess;
};

static void make_slots(struct zoo_case *c) {
  static struct tagc_member members[TAGC_MODEL_PARAMETERS];
  const struct tagc_model *model = c->model;
  for (size_t place = 0; place < model->place_count; place++) {
    const size_t count = make_members(model, place, members);
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
  const struct tagc_member *members;
  size_t count;
  struct {
    uint64_t end;
    uint32_t kinds;
  } run[MOST_RUNS];
};

static bool add_run(const struct tagc_segment *segment, void *data) {
  struct runs *runs = data;
  const uint32_t before = runs->is_guess && runs->count ? runs->run[runs->count - 1].kinds : NO_KIND;
  const uint32_t kinds = segment->member < 0 ? before : runs->members[segment->member].parameter->kinds;
  const uint64_t end = segment->offset + segment->length;
  if (runs->count && runs->run[runs->count - 1].kinds == kinds)
    runs->run[runs->count - 1].end = end;
  else if (runs->count < MOST_RUNS)
    runs->run[runs->count++].end = end, runs->run[runs->count - 1].kinds = kinds;
  return true;
}

static void read_runs(struct runs *runs, const struct tagc_layer *layer, int nranks, int shard) {
  runs->members = layer->members;
  runs->count = 0;
  tagc_layout_walk(layer->layout, layer->members, layer->count, nranks, 4, shard, add_run, runs);
}

/* True if the guess states the kinds of every element that is no padding. */
static bool is_true(const struct sides *sides, int nranks) {
  static struct runs truth, guess = {.is_guess = true};
  for (int shard = 0; shard < nranks; shard++) {
    read_runs(&truth, &sides->truth, nranks, shard);
    read_runs(&guess, sides->guess, nranks, shard);
    for (size_t i = 0, j = 0; i < truth.count && j < guess.count;) {
      if (truth.run[i].kinds != NO_KIND && guess.run[j].kinds != NO_KIND && truth.run[i].kinds != guess.run[j].kinds)
        return false;
      const uint64_t end = truth.run[i].end, other = guess.run[j].end;
      i += end <= other;
      j += other <= end;
    }
  }
  return true;
}

enum verdict { RIGHT, PART, WRONG, UNSURE, VERDICTS };
static const char *const verdict_names[] = {"right", "in part", "WRONG", "unsure"};

static enum verdict judge(const struct zoo_case *c, const struct tagc_layers *layers) {
  static struct tagc_member members[TAGC_MODEL_PARAMETERS];
  const struct tagc_model *model = c->model;
  enum verdict verdict = RIGHT;
  for (size_t place = 0; place < model->place_count; place++) {
    const size_t slot = model->place_count - 1 - place;
    struct sides sides = {.truth = {.members = members, .layout = c->layout}, .guess = &layers->layers[slot]};
    const bool is_like_last = place && model->places[place].unit == model->places[place - 1].unit &&
                              sides.guess->members == layers->layers[slot + 1].members;
    if (is_like_last)
      continue;
    sides.truth.count = make_members(model, place, members);
    if (!sides.guess->count)
      verdict = PART;
    else if (!is_true(&sides, c->nranks))
      return WRONG;
  }
  return verdict;
}

/* -- rates --------------------------------------------------------------------------------------------------------- */

struct rates {
  unsigned cases, of[VERDICTS], wrong_at_95, right_at_95;
};

static void count_case(const struct zoo_case *c, struct rates *rates, bool lists) {
  char why[160];
  struct tagc_layers *layers = tagc_layers_infer(c->slots, c->model->place_count, c->nranks, NULL, why);
  const enum verdict really = layers->source == TAGC_LAYER_ARITHMETIC ? judge(c, layers) : UNSURE;
  const enum verdict verdict = layers->confidence >= SURE ? really : UNSURE;
  rates->cases++;
  rates->of[verdict]++;
  rates->wrong_at_95 += verdict == WRONG && layers->confidence >= TAGC_LAYERS_SELECT;
  rates->right_at_95 += verdict == RIGHT && layers->confidence >= TAGC_LAYERS_SELECT;
  if (lists)
    printf("%s|%s|%s|%s|%d|%u|%s|%s\n", verdict_names[verdict], verdict_names[really], c->name,
           tagc_layout_name(c->layout), c->nranks, layers->confidence, layers->what, layers->runner_up);
  tagc_layers_free(layers);
}

/* Counts the model's cases, of which there are `every` for each that is tried. */
static void count_model(const char *name, const struct tagc_model *model, struct rates *rates, unsigned every,
                        bool lists) {
  static struct zoo_case c;
  static unsigned turn;
  for (int layout = TAGC_LAYOUT_FSDP1; layout <= TAGC_LAYOUT_FSDP2; layout += TAGC_LAYOUT_FSDP2 - TAGC_LAYOUT_FSDP1)
    for (size_t i = 0; i < RANKS; i++) {
      if (turn++ % every)
        continue;
      c.name = name;
      c.model = model;
      c.layout = (enum tagc_layout_kind)layout;
      c.nranks = all_ranks[i];
      make_slots(&c);
      count_case(&c, rates, lists);
    }
}

static char *load(const char *name) {
  char path[2048];
  const char *top = getenv("abs_top_srcdir");
  snprintf(path, sizeof path, "%s/tests/fixtures/zoo/%s.maps", top ? top : "..", name);
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

/* Counts the models of a file: map files, one behind the other; the second line of each has its name. */
static struct rates count_file(const char *name, unsigned every, bool lists) {
  static const char begin[] = "tagc-map 1\n# ";
  struct rates rates = {0};
  unsigned models = 0;
  char *text = load(name);
  ok(text != NULL, "%s.maps", name);
  for (char *at = text ? strstr(text, begin) : NULL, *next; at; at = next) {
    next = strstr(at + 1, begin);
    struct tagc_complaint complaint = {0};
    struct tagc_model *model = tagc_mapfile_parse(at, next ? (size_t)(next - at) : strlen(at), &complaint);
    char label[64];
    snprintf(label, sizeof label, "%.*s", (int)strcspn(at + sizeof begin - 1, "\n"), at + sizeof begin - 1);
    if (!model || model->place_count > MOST_SLOTS) {
      ok(false, "%s: %s", label, complaint.text);
      continue;
    }
    count_model(label, model, &rates, every, lists);
    tagc_model_free(model);
    models++;
  }
  free(text);
  note(
    "%s: %u models, %u cases: sure and right %u, in part %u, wrong %u, unsure %u; at 95%% and more right %u, wrong %u",
    name, models, rates.cases, rates.of[RIGHT], rates.of[PART], rates.of[WRONG], rates.of[UNSURE], rates.right_at_95,
    rates.wrong_at_95);
  return rates;
}

/* The counts of the test's cases as they are: the few wrong ones of held-out are not among them. Better counts are
 * entered here; worse ones fail. */
static const struct bound {
  const char *file;
  unsigned right, right_at_95, wrong;
} bounds[] = {
  {"known", 40, 31, 0},
  {"tuning", 5, 5, 0},
  {"held-out", 3, 2, 0},
};

int main(int argc, char **argv) {
  const bool lists = argc == 3 && !strcmp(argv[1], "list"), all = lists || (argc == 2 && !strcmp(argv[1], "all"));
  for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
    const struct bound *bound = &bounds[i];
    if (lists && strcmp(argv[2], bound->file))
      continue;
    const struct rates rates = count_file(bound->file, all ? 1 : EVERY, lists);
    if (all)
      continue;
    ok(rates.of[WRONG] <= bound->wrong, "%s: %u of %u cases are sure and wrong, at most %u", bound->file,
       rates.of[WRONG], rates.cases, bound->wrong);
    ok(rates.of[RIGHT] >= bound->right, "%s: %u are sure and right, at least %u", bound->file, rates.of[RIGHT],
       bound->right);
    ok(rates.right_at_95 >= bound->right_at_95, "%s: %u of these may select inside slots, at least %u", bound->file,
       rates.right_at_95, bound->right_at_95);
  }
  return tap_done();
}
