/* SPDX-License-Identifier: BSD-3-Clause
 * How often guesses are right, and how often sure and wrong: over the zoo of tests/fixtures/zoo, hundreds of models of
 * transformers, wrapped in blocks and a root, over 2 to 256 ranks, flat and chunked.
 *
 * A guess is *sure* from 50% on. It is *right* if every element of every slot has the kinds that it states, *wrong* if
 * one has others: then TAGC_SKIP and TAGC_LAYERS would select by kinds what they do not name. In between (*in part*)
 * what is stated is true, and some slots have no contents, or some kinds are unsure.
 *
 *   test_zoo all                  counts all cases
 *   test_zoo list FILE            also prints each, for people who change the search. (Never of held-out, fresh and
 *                                 strangers: who looks, tunes.)
 *   test_zoo asked FILE ANSWERS   counts the cases with PyTorch's answers (tests/fixtures/ask_zoo.py) as maps, and
 *                                 prints those of known, tuning and others that are not right
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/infer/zoo.h"
#include "tests/unit/tap.h"

/* The test takes one case of these; numbers of ranks and layouts take turns. All of them take minutes. */
enum { EVERY = 23 };

enum { SURE = TAGC_LAYERS_AMBIGUOUS };

enum verdict { RIGHT, PART, WRONG, UNSURE, VERDICTS };
static const char *const verdict_names[] = {"right", "in part", "WRONG", "unsure"};

static enum verdict judge(const struct zoo_case *c, const struct tagc_layers *layers, uint32_t kinds) {
  static struct tagc_member members[TAGC_MODEL_PARAMETERS];
  const struct tagc_model *model = c->model;
  enum verdict verdict = RIGHT;
  for (size_t place = 0; place < model->place_count; place++) {
    const size_t slot = model->place_count - 1 - place;
    struct zoo_sides sides = {
      .truth = {.members = members, .layout = c->layout}, .guess = &layers->layers[slot], .kinds = kinds};
    const bool is_like_last = place && model->places[place].unit == model->places[place - 1].unit &&
                              sides.guess->members == layers->layers[slot + 1].members;
    if (is_like_last)
      continue;
    sides.truth.count = zoo_members(model, place, members);
    const enum zoo_truth truth = sides.guess->count ? zoo_compare(&sides, c->nranks) : ZOO_UNSURE;
    if (truth == ZOO_FALSE)
      return WRONG;
    if (truth == ZOO_UNSURE)
      verdict = PART;
  }
  return verdict;
}

/* -- rates --------------------------------------------------------------------------------------------------------- */

struct rates {
  unsigned cases, of[VERDICTS], wrong_at_95, right_at_95;
  unsigned exact; /* norms and biases are right, for TAGC_SKIP=norm,bias */
};

static void count_case(const struct zoo_case *c, struct rates *rates, bool lists) {
  char why[160];
  struct tagc_layers *layers = tagc_layers_infer(c->slots, c->model->place_count, c->nranks, NULL, why);
  const enum verdict really = layers->source == TAGC_LAYER_ARITHMETIC ? judge(c, layers, 0) : UNSURE;
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
    for (size_t i = 0; i < ZOO_RANKS; i++) {
      if (turn++ % every)
        continue;
      c.name = name;
      c.model = model;
      c.layout = (enum tagc_layout_kind)layout;
      c.nranks = zoo_ranks[i];
      zoo_make_slots(&c);
      count_case(&c, rates, lists);
    }
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

/* The answer for the model of that name, which the caller frees. */
static struct tagc_model *find_answer(const char *answers, const char *name) {
  char label[ZOO_LABEL];
  for (struct tagc_model *model; (model = zoo_next(&answers, label)) != NULL; tagc_model_free(model))
    if (!strcmp(label, name))
      return model;
  return NULL;
}

static void count_answer(const struct zoo_case *c, const struct tagc_model *answer, struct rates *rates, bool lists) {
  char why[160];
  struct tagc_layers *layers = tagc_layers_infer(c->slots, c->model->place_count, c->nranks, answer, why);
  const bool is_sure = layers->source == TAGC_LAYER_MAP && tagc_layers_are_sure(layers);
  const enum verdict really = is_sure ? judge(c, layers, 0) : UNSURE;
  if (really != RIGHT && lists)
    printf("%s|%s|%d|%u|%s|%s\n", verdict_names[really], c->name, c->nranks, layers->confidence, layers->what, why);
  rates->cases++;
  rates->of[really]++;
  rates->exact += is_sure && judge(c, layers, TAGC_KIND_NORM | TAGC_KIND_BIAS) == RIGHT;
  tagc_layers_free(layers);
}

/* Counts the models of a file with the answers of tests/fixtures/ask_zoo.py; no answer is no map. */
static void count_answers(const char *name, const char *path) {
  static struct zoo_case c;
  struct rates rates = {0};
  char *text = zoo_load(name), *answers = zoo_read(path), label[ZOO_LABEL];
  ok(text && answers, "%s.maps, and %s", name, path);
  const char *at = answers ? text : NULL;
  const bool lists = !strcmp(name, "known") || !strcmp(name, "tuning") || !strcmp(name, "others");
  unsigned models = 0, answered = 0;
  for (struct tagc_model *model; (model = zoo_next(&at, label)) != NULL; models++) {
    struct tagc_model *answer = find_answer(answers, label);
    answered += answer != NULL;
    for (size_t i = 0; i < ZOO_RANKS; i++) {
      c = (struct zoo_case){.name = label, .model = model, .layout = TAGC_LAYOUT_FSDP2, .nranks = zoo_ranks[i]};
      zoo_make_slots(&c);
      if (answer)
        count_answer(&c, answer, &rates, lists);
    }
    tagc_model_free(answer);
    tagc_model_free(model);
  }
  free(answers);
  free(text);
  note("%s: %u models, %u answers; of %u cases right %u, in part %u, wrong %u, unsure %u; norms and biases right %u",
       name, models, answered, ZOO_RANKS * models, rates.of[RIGHT], rates.of[PART], rates.of[WRONG], rates.of[UNSURE],
       rates.exact);
}

/* Counts the models of a file. */
static struct rates count_file(const char *name, unsigned every, bool lists) {
  struct rates rates = {0};
  unsigned models = 0;
  char *text = zoo_load(name), label[ZOO_LABEL];
  ok(text != NULL, "%s.maps", name);
  const char *at = text;
  for (struct tagc_model *model; (model = zoo_next(&at, label)) != NULL; models++) {
    count_model(label, model, &rates, every, lists);
    tagc_model_free(model);
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
  {"fresh", 3, 0, 0},
};

int main(int argc, char **argv) {
  if (argc == 4 && !strcmp(argv[1], "asked")) {
    count_answers(argv[2], argv[3]);
    return tap_done();
  }
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
    if (!bound->right_at_95)
      continue;
    ok(rates.right_at_95 >= bound->right_at_95, "%s: %u of these may select inside slots, at least %u", bound->file,
       rates.right_at_95, bound->right_at_95);
  }
  return tap_done();
}
