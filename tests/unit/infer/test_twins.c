/* SPDX-License-Identifier: BSD-3-Clause
 * How much the sizes of calls can tell at most: how many cases of the zoo's held-out models have a *twin*. That is
 * another natural model with the same counts in every call, in which other elements have other kinds. No method that
 * sees counts alone can tell the two apart.
 *
 * Two sorts of twins are counted: another model of the zoo as it is, and one with the same parameters whose modules are
 * registered in an order that a class of another family has. (Norms before what they belong to, or behind all;
 * attention before the MLP, or behind it.) Each family has one voice for its orders. The most that a guess by frequency
 * can reach follows: the cases whose own order no other family's beats.
 *
 * Would contents tell more? All ranks gather the same bytes. When a training begins, norms are ones, biases are zeros,
 * and matrices have random values of like variance, so nothing marks where one matrix ends and the next begins. Counted
 * are the models whose kinds all lie apart from one another, with norms or biases between: contents decide these at
 * most, even if they told norms and biases without an error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/infer/zoo.h"
#include "tests/unit/tap.h"

enum { MOST_MODELS = 1024, MOST_ORDERS = 4096, MODULES = 128 };

struct zoo_model {
  struct tagc_model *model;
  bool is_held_out;
};
static struct zoo_model models[MOST_MODELS];
static size_t model_count;

static void load_file(const char *name, bool is_held_out) {
  char *text = zoo_load(name), label[ZOO_LABEL];
  ok(text != NULL, "%s.maps", name);
  const char *at = text;
  for (struct tagc_model *model; model_count < MOST_MODELS && (model = zoo_next(&at, label)) != NULL;)
    models[model_count++] = (struct zoo_model){model, is_held_out};
  free(text);
}

/* -- the modules of a unit ----------------------------------------------------------------------------------------- */

/* A letter for each module, in order: parameters of one sort that follow one another, each norm by itself. */
struct modules {
  size_t count;
  char letters[MODULES + 1];
  size_t begin[MODULES + 1]; /* among the parameters */
};

static char letter_of(const struct tagc_parameter *p, bool is_block) {
  if (p->kinds & TAGC_KIND_NORM && !(p->kinds & TAGC_KIND_ATTN))
    return 'N';
  if (!is_block)
    return p->kinds & TAGC_KIND_EMBED ? 'E' : p->kinds & TAGC_KIND_HEAD ? 'H' : 'x';
  return p->kinds & TAGC_KIND_ATTN ? 'A' : p->kinds & (TAGC_KIND_MLP | TAGC_KIND_EXPERT) ? 'M' : 'x';
}

static bool is_same_owner(const char *name, const char *other) {
  const char *end = strrchr(name, '.'), *other_end = strrchr(other, '.');
  return end && other_end && end - name == other_end - other && !strncmp(name, other, (size_t)(end - name));
}

static bool is_block(const struct tagc_unit *unit) { return !strcmp(unit->name, "block"); }

static struct modules find_modules(const struct tagc_unit *unit) {
  struct modules m = {0};
  for (size_t i = 0; i < unit->count && m.count < MODULES; i++) {
    const struct tagc_parameter *p = &unit->parameters[i];
    const char letter = letter_of(p, is_block(unit));
    const bool goes_on =
      m.count && m.letters[m.count - 1] == letter && (letter != 'N' || is_same_owner(p->name, p[-1].name));
    if (!goes_on)
      m.letters[m.count] = letter, m.begin[m.count++] = i;
  }
  m.begin[m.count] = unit->count;
  return m;
}

/* -- the orders of families ---------------------------------------------------------------------------------------- */

struct order {
  char letters[MODULES + 1], sorted[MODULES + 1];
  char family[16];
  bool is_block;
};
static struct order orders[MOST_ORDERS];
static size_t order_count;

static int compare_letters(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

static struct order order_of(const struct tagc_model *model, const struct tagc_unit *unit) {
  const struct modules m = find_modules(unit);
  struct order order = {.is_block = is_block(unit)};
  memcpy(order.letters, m.letters, sizeof order.letters);
  memcpy(order.sorted, m.letters, sizeof order.sorted);
  qsort(order.sorted, m.count, 1, compare_letters);
  memcpy(order.family, model->family, sizeof order.family);
  return order;
}

static void enter_orders(const struct tagc_model *model) {
  for (size_t u = 0; u < model->unit_count; u++) {
    const struct order order = order_of(model, &model->units[u]);
    bool is_known = false;
    for (size_t i = 0; i < order_count && !is_known; i++)
      is_known = !memcmp(&orders[i], &order, sizeof order);
    if (!is_known && order_count < MOST_ORDERS)
      orders[order_count++] = order;
  }
}

/* How many other families register these modules in this order. */
static unsigned voices(const struct order *order, const char *letters) {
  unsigned count = 0;
  for (size_t i = 0; i < order_count; i++)
    count += orders[i].is_block == order->is_block && !strcmp(orders[i].letters, letters) &&
             strcmp(orders[i].family, order->family);
  return count;
}

/* -- twins --------------------------------------------------------------------------------------------------------- */

struct view {
  enum tagc_layout_kind layout;
  int nranks;
};

static bool differs(const struct tagc_member *truth, size_t count, const struct tagc_member *other, size_t other_count,
                    const struct view *view) {
  const struct tagc_layer guess = {.members = other, .count = other_count, .layout = view->layout};
  const struct zoo_sides sides = {.truth = {.members = truth, .count = count, .layout = view->layout}, .guess = &guess};
  return tagc_layout_shard(view->layout, truth, count, view->nranks, 4) ==
           tagc_layout_shard(view->layout, other, other_count, view->nranks, 4) &&
         zoo_compare(&sides, view->nranks) == ZOO_FALSE;
}

/* The unit's parameters with its modules in the order of `letters`: the first norm stays the first norm. */
static void reorder(const struct tagc_member *members, const struct modules *m, const char *letters,
                    struct tagc_member *twin) {
  bool is_used[MODULES] = {0};
  for (; *letters; letters++)
    for (size_t i = 0; i < m->count; i++)
      if (!is_used[i] && m->letters[i] == *letters) {
        is_used[i] = true;
        for (size_t j = m->begin[i]; j < m->begin[i + 1]; j++)
          *twin++ = members[j];
        break;
      }
}

/* The voices of the unit's order, and of the strongest one by which it has a twin: 0 if it has none. */
struct rivals {
  unsigned own, strongest;
};

static struct rivals find_rivals(const struct tagc_model *model, size_t place, const struct view *view) {
  static struct tagc_member members[TAGC_MODEL_PARAMETERS], twin[TAGC_MODEL_PARAMETERS];
  const struct tagc_unit *unit = &model->units[model->places[place].unit];
  const struct order own = order_of(model, unit);
  const struct modules m = find_modules(unit);
  const size_t count = zoo_members(model, place, members);
  struct rivals rivals = {.own = voices(&own, own.letters)};
  for (size_t i = 0; i < order_count; i++) {
    const struct order *o = &orders[i];
    if (o->is_block != own.is_block || strcmp(o->sorted, own.sorted) || !strcmp(o->letters, own.letters))
      continue;
    const unsigned strength = voices(&own, o->letters);
    if (strength <= rivals.strongest)
      continue;
    reorder(members, &m, o->letters, twin);
    if (differs(members, count, twin, count, view))
      rivals.strongest = strength;
  }
  return rivals;
}

/* -- contents ------------------------------------------------------------------------------------------------------ */

static bool is_matrix(const struct tagc_parameter *p) { return !(p->kinds & (TAGC_KIND_NORM | TAGC_KIND_BIAS)); }

/* True if no two matrices of different kinds follow each other. */
static bool is_marked(const struct tagc_model *model) {
  for (const struct tagc_unit *unit = model->units; unit < model->units + model->unit_count; unit++)
    for (size_t i = 1; i < unit->count; i++) {
      const struct tagc_parameter *p = &unit->parameters[i];
      if (is_matrix(p) && is_matrix(p - 1) && p->kinds != p[-1].kinds)
        return false;
    }
  return true;
}

static void count_marked(const char *name, unsigned most) {
  unsigned count = 0, marked = 0;
  char *text = zoo_load(name), label[ZOO_LABEL];
  const char *at = text;
  for (struct tagc_model *model; (model = zoo_next(&at, label)) != NULL; count++) {
    marked += is_marked(model);
    tagc_model_free(model);
  }
  free(text);
  ok(count && marked * 100 <= count * most, "%s: norms and biases part all kinds of %u of %u models, at most %u%%",
     name, marked, count, most);
}

/* -- cases --------------------------------------------------------------------------------------------------------- */

static bool is_twin(const struct zoo_case *c, const struct zoo_case *other, const struct view *view) {
  static struct tagc_member members[TAGC_MODEL_PARAMETERS], others[TAGC_MODEL_PARAMETERS];
  if (c->model->place_count != other->model->place_count)
    return false;
  for (size_t i = 0; i < c->model->place_count; i++)
    if (c->slots[i].signature.count != other->slots[i].signature.count)
      return false;
  for (size_t place = 0; place < c->model->place_count; place++) {
    const size_t count = zoo_members(c->model, place, members), more = zoo_members(other->model, place, others);
    if (differs(members, count, others, more, view))
      return true;
  }
  return false;
}

static bool has_twin_in_zoo(const struct tagc_model *model, const struct view *view) {
  static struct zoo_case c, other;
  c = (struct zoo_case){.model = model, .layout = view->layout, .nranks = view->nranks};
  zoo_make_slots(&c);
  for (size_t i = 0; i < model_count; i++)
    if (models[i].model != model && models[i].model->place_count == model->place_count) {
      other = (struct zoo_case){.model = models[i].model, .layout = view->layout, .nranks = view->nranks};
      zoo_make_slots(&other);
      if (is_twin(&c, &other, view))
        return true;
    }
  return false;
}

int main(void) {
  load_file("known", false);
  load_file("tuning", false);
  load_file("held-out", true);
  for (size_t i = 0; i < model_count; i++)
    enter_orders(models[i].model);

  unsigned cases = 0, in_zoo = 0, reordered = 0, with_any = 0, beaten = 0, held_out = 0;
  for (size_t i = 0; i < model_count; i++) {
    held_out += models[i].is_held_out;
    for (int v = 0; models[i].is_held_out && v < 2 * ZOO_RANKS; v++) {
      const struct tagc_model *model = models[i].model;
      const struct view view = {v % 2 ? TAGC_LAYOUT_FSDP2 : TAGC_LAYOUT_FSDP1, zoo_ranks[v / 2]};
      bool has_order = false, is_beaten = false;
      for (size_t place = 0; place < model->place_count; place++) {
        if (place && model->places[place].unit == model->places[place - 1].unit)
          continue;
        const struct rivals rivals = find_rivals(model, place, &view);
        has_order = has_order || rivals.strongest;
        is_beaten = is_beaten || rivals.strongest > rivals.own;
      }
      const bool is_in_zoo = has_twin_in_zoo(model, &view);
      cases++;
      in_zoo += is_in_zoo;
      reordered += has_order;
      with_any += is_in_zoo || has_order;
      beaten += is_beaten;
    }
  }
  note("held-out: %u models, %u cases; a twin in the zoo: %u; in another family's order: %u; either: %u; in an order "
       "that more families have: %u",
       held_out, cases, in_zoo, reordered, with_any, beaten);
  ok(cases == 2244, "%u cases are those of test_zoo", cases);
  ok(with_any * 10 >= cases * 9, "at least 9 of 10 have a twin");
  ok(with_any < cases, "some have none");
  count_marked("tuning", 59);
  count_marked("held-out", 59);
  count_marked("fresh", 59);
  for (size_t i = 0; i < model_count; i++)
    tagc_model_free(models[i].model);
  return tap_done();
}
